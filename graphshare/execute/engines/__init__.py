"""Engines compute graphs: numpy is the reference; onnxruntime or other packages' take the nodes that they can."""
