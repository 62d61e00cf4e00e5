"""Convolutions and what they are made of."""

from __future__ import annotations

from graphshare.operators.rules import kernel_rank, ranks_agree
from graphshare.operators.table import define

CONVOLUTION = (
    "kernel:shape=!; stride:shape=[]; dilate:shape=[]; pad:shape=[]; num_filter:uint[1:]=!; num_group:uint=1; "
    "workspace:uint64=1024; no_bias:bool=False; cudnn_tune:{None/fastest/limited_workspace/off}=None; "
    "cudnn_off:bool=False; layout:{None/NCDHW/NCHW/NCW/NDHWC/NHWC}=None"
)

OPERATORS = (
    *define(
        "_contrib_DeformableConvolution",
        "data offset weight bias[!no_bias]",
        "kernel:shape=!; stride:shape=[]; dilate:shape=[]; pad:shape=[]; num_filter:int[1:]=!; num_group:int=1; "
        "num_deformable_group:int=1; workspace:uint64=1024; no_bias:bool=False; layout:{None/NCDHW/NCHW/NCW}=None",
        load_checks=(kernel_rank(2),),
        couples_batch="never",
    ),
    *define(
        "_contrib_ModulatedDeformableConvolution",
        "data offset mask weight bias[!no_bias]",
        "kernel:shape=!; stride:shape=[]; dilate:shape=[]; pad:shape=[]; num_filter:uint[1:]=!; num_group:uint=1; "
        "num_deformable_group:uint=1; workspace:uint64=1024; no_bias:bool=False; im2col_step:uint=64; "
        "layout:{None/NCDHW/NCHW/NCW}=None",
        load_checks=(kernel_rank(2),),
        couples_batch="never",
    ),
    *define(
        "col2im",
        "data",
        "output_size:shape=!; kernel:shape=!; stride:shape=[]; dilate:shape=[]; pad:shape=[]",
        load_checks=(kernel_rank(1, 2, 3), ranks_agree("stride", "dilate", "pad")),
        couples_batch="never",
    ),
    *define(
        "Convolution",
        "data weight bias[!no_bias]",
        CONVOLUTION,
        load_checks=(kernel_rank(1, 2, 3), ranks_agree("stride", "dilate", "pad")),
        couples_batch="never",
    ),
    *define(
        "Convolution_v1",
        "data weight bias[!no_bias]",
        "kernel:shape=!; stride:shape=[]; dilate:shape=[]; pad:shape=[]; num_filter:uint[1:]=!; num_group:uint=1; "
        "workspace:uint64=1024; no_bias:bool=False; cudnn_tune:{None/fastest/limited_workspace/off}=None; "
        "cudnn_off:bool=False; layout:{None/NCDHW/NCHW/NDHWC/NHWC}=None",
        load_checks=(kernel_rank(2, 3),),
        couples_batch="never",
    ),
    *define(
        "Deconvolution",
        "data weight bias[!no_bias]",
        "kernel:shape=!; stride:shape=[]; dilate:shape=[]; pad:shape=[]; adj:shape=[]; target_shape:shape=[]; "
        "num_filter:uint[1:]=!; num_group:uint=1; workspace:uint64=512; no_bias:bool=True; "
        "cudnn_tune:{None/fastest/limited_workspace/off}=None; cudnn_off:bool=False; "
        "layout:{None/NCDHW/NCHW/NCW/NDHWC/NHWC}=None",
        load_checks=(kernel_rank(1, 2, 3), ranks_agree("stride", "dilate", "pad", "adj")),
        couples_batch="never",
    ),
    *define(
        "im2col",
        "data",
        "kernel:shape=!; stride:shape=[]; dilate:shape=[]; pad:shape=[]",
        load_checks=(kernel_rank(1, 2, 3), ranks_agree("stride", "dilate", "pad")),
        couples_batch="never",
    ),
)
