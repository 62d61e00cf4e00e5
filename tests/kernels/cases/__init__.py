INT8 = ("joined", "quantized", "quantized_elementwise", "quantized_rnn")
"""Families with products of int8, whose sums depend on the processor that MXNet runs on."""
