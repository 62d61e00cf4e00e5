"""Gradients of the operators of family ``quantization``."""

from __future__ import annotations

from graphshare.ops.gradient import no_gradient

GRADIENTS = (
    *no_gradient(
        "quantized layers are for inference",
        "_contrib_quantize_v2",
        "_contrib_dequantize",
        "_contrib_requantize",
        "_contrib_quantized_act",
        "_contrib_quantized_flatten",
        "_contrib_quantized_pooling",
        "_contrib_quantized_concat",
        "_contrib_quantized_conv",
        "_contrib_quantized_fully_connected",
        "_contrib_quantize",
        "_contrib_quantize_asym",
        "_contrib_quantized_batch_norm",
        "_contrib_quantized_elemwise_add",
        "_contrib_quantized_elemwise_mul",
        "_contrib_quantized_embedding",
    ),
    *no_gradient("MXNet registers none and refuses to go back through it", "_contrib_quantized_rnn", is_zero=False),
)
