"""Signatures and batch-axis rules of the operators of family ``deconvolution``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Rule, window_rule
from graphshare.ops.signature import define
from graphshare.ops.slot_rules import require_kernel_rank, require_same_rank

OPERATORS = (
    *define(
        "Deconvolution(_npx_deconvolution)",
        "data weight bias[!no_bias]",
        "kernel:shape=!; stride:shape=[]; dilate:shape=[]; pad:shape=[]; adj:shape=[]; target_shape:shape=[]; "
        "num_filter:uint[1:]=!; num_group:uint=1; workspace:uint64=512; no_bias:bool=True; "
        "cudnn_tune:{None/fastest/limited_workspace/off}=None; cudnn_off:bool=False; "
        "layout:{None/NCDHW/NCHW/NCW/NDHWC/NHWC}=None",
        load_checks=(require_kernel_rank(1, 2, 3), require_same_rank("stride", "dilate", "pad", "adj")),
        couples_batch="never",
        size_attributes=(("weight", "num_filter"), ("weight", "kernel"), ("bias", "num_filter")),
    ),
)

RULES: dict[str, Rule] = {
    "Deconvolution": window_rule,
}
