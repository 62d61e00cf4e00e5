"""Signatures of ``convolution``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Rule, window_rule
from graphshare.ops.signature import define
from graphshare.ops.slot_rules import require_kernel_rank, require_same_rank

CONVOLUTION = (
    "kernel:shape=!; stride:shape=[]; dilate:shape=[]; pad:shape=[]; num_filter:uint[1:]=!; num_group:uint=1; "
    "workspace:uint64=1024; no_bias:bool=False; cudnn_tune:{None/fastest/limited_workspace/off}=None; "
    "cudnn_off:bool=False; layout:{None/NCDHW/NCHW/NCW/NDHWC/NHWC}=None"
)

WINDOW_CHECKS = (require_kernel_rank(1, 2, 3), require_same_rank("stride", "dilate", "pad"))
_SIZES = (("weight", "num_filter"), ("weight", "kernel"), ("bias", "num_filter"))

OPERATORS = (
    *define(
        "col2im",
        "data",
        "output_size:shape=!; kernel:shape=!; stride:shape=[]; dilate:shape=[]; pad:shape=[]",
        load_checks=WINDOW_CHECKS,
        couples_batch="never",
    ),
    *define(
        "Convolution(_npx_convolution)",
        "data weight bias[!no_bias]",
        CONVOLUTION,
        load_checks=WINDOW_CHECKS,
        couples_batch="never",
        size_attributes=_SIZES,
    ),
    *define(
        "Convolution_v1",
        "data weight bias[!no_bias]",
        "kernel:shape=!; stride:shape=[]; dilate:shape=[]; pad:shape=[]; num_filter:uint[1:]=!; num_group:uint=1; "
        "workspace:uint64=1024; no_bias:bool=False; cudnn_tune:{None/fastest/limited_workspace/off}=None; "
        "cudnn_off:bool=False; layout:{None/NCDHW/NCHW/NDHWC/NHWC}=None",
        # While loading, the old operator checks neither stride nor padding.
        load_checks=(require_kernel_rank(2, 3),),
        couples_batch="never",
        is_operator_property=True,
    ),
    *define(
        "im2col",
        "data",
        "kernel:shape=!; stride:shape=[]; dilate:shape=[]; pad:shape=[]",
        load_checks=WINDOW_CHECKS,
        couples_batch="never",
    ),
    *define(
        "Deconvolution(_npx_deconvolution)",
        "data weight bias[!no_bias]",
        "kernel:shape=!; stride:shape=[]; dilate:shape=[]; pad:shape=[]; adj:shape=[]; target_shape:shape=[]; "
        "num_filter:uint[1:]=!; num_group:uint=1; workspace:uint64=512; no_bias:bool=True; "
        "cudnn_tune:{None/fastest/limited_workspace/off}=None; cudnn_off:bool=False; "
        "layout:{None/NCDHW/NCHW/NCW/NDHWC/NHWC}=None",
        load_checks=(
            require_kernel_rank(1, 2, 3),
            require_same_rank("stride", "dilate", "pad", "adj"),
        ),
        couples_batch="never",
        size_attributes=_SIZES,
    ),
)

RULES: dict[str, Rule] = {
    "Convolution": window_rule,
    "Deconvolution": window_rule,
}
