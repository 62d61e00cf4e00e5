"""ONNX files, with our own protobuf encoder: writing needs neither ``onnx`` nor memory for weights."""
