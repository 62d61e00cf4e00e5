"""Engines compute graphs: numpy is the reference; onnxruntime or other packages' engines take the
nodes that they can.
"""
