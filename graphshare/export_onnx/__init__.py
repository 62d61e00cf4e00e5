"""Translate a graph with known shapes to the records of an ONNX model; ``ops/<family>/to_onnx.py``
translates each operator.
"""
