"""Gradients of the operators of family ``onednn``."""

from __future__ import annotations

from graphshare.ops.gradient import no_gradient

GRADIENTS = (
    *no_gradient(
        "quantized layers are for inference",
        *"_sg_mkldnn_conv _sg_mkldnn_fully_connected _sg_mkldnn_selfatt_qk _sg_mkldnn_selfatt_valatt".split(),
    ),
)
