"""What ONNX's operators mean: identities, definitions, axes, sizes, and the integers that they read."""
