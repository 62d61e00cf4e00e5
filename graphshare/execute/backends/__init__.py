"""Backends compute graphs: numpy runs MXNet's operators, onnxruntime ONNX models. A format lists its backends."""
