"""Engines compute graphs: numpy is the reference; onnxruntime or engines of other packages take the
nodes that they can.
"""
