"""Translate a graph with known shapes to ONNX records; ``ops/<family>/to_onnx.py`` has the operators."""
