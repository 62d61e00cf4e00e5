"""Backends compute graphs: numpy runs MXNet's operators, onnxruntime runs ONNX models. A format lists its backends."""
