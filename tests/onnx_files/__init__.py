"""ONNX files of others through every rewrite, checked by ONNX's checker and by onnxruntime."""
