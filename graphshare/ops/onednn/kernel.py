"""Layers as oneDNN fuses them: convolution, dense layer, attention. They have no gradients."""

from __future__ import annotations

from graphshare.ops.gradient import no_gradient
from graphshare.ops.onednn.attention import KERNELS as ATTENTION_KERNELS
from graphshare.ops.onednn.convolution import KERNELS as CONVOLUTION_KERNELS
from graphshare.ops.onednn.dense import KERNELS as DENSE_KERNELS

KERNELS = (
    *CONVOLUTION_KERNELS,
    *DENSE_KERNELS,
    *ATTENTION_KERNELS,
)

GRADIENTS = (
    *no_gradient(
        "quantized layers are for inference",
        *"_sg_mkldnn_conv _sg_mkldnn_fully_connected _sg_mkldnn_selfatt_qk _sg_mkldnn_selfatt_valatt".split(),
    ),
)
