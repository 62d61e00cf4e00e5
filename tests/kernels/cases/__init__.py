INT8 = ("joined", "quantized")
"""Families with products of int8, whose sums depend on the processor that MXNet runs on."""
