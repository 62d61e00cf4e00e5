"""Backends compute graphs: numpy those of MXNet's operators, onnxruntime ONNX models. A format lists those that compute it."""
