"""Engines compute graphs: numpy, the reference, and onnxruntime or those of other packages, which take what they can."""
