"""The meaning of ONNX's operators: identities, definitions, axes, sizes, and the integers that they read."""
