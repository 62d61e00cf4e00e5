"""Layers as oneDNN fuses them: convolution, dense layer, attention."""

from __future__ import annotations

from graphshare.ops.onednn.attention import KERNELS as ATTENTION_KERNELS
from graphshare.ops.onednn.convolution import KERNELS as CONVOLUTION_KERNELS
from graphshare.ops.onednn.dense import KERNELS as DENSE_KERNELS

KERNELS = (
    *CONVOLUTION_KERNELS,
    *DENSE_KERNELS,
    *ATTENTION_KERNELS,
)
