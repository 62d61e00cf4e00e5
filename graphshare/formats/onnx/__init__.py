"""ONNX files: a small protobuf encoder of our own, so that writing one needs neither ``onnx`` nor
memory for its weights.
"""
