"""Signatures of ``deformable``."""

from __future__ import annotations

from graphshare.ops.signature import define
from graphshare.ops.slot_rules import require_kernel_rank

OPERATORS = (
    *define(
        "_contrib_DeformableConvolution",
        "data offset weight bias[!no_bias]",
        "kernel:shape=!; stride:shape=[]; dilate:shape=[]; pad:shape=[]; num_filter:int[1:]=!; num_group:int=1; "
        "num_deformable_group:int=1; workspace:uint64=1024; no_bias:bool=False; layout:{None/NCDHW/NCHW/NCW}=None",
        load_checks=(require_kernel_rank(2),),
        couples_batch="never",
        is_operator_property=True,
    ),
    *define(
        "_contrib_ModulatedDeformableConvolution",
        "data offset mask weight bias[!no_bias]",
        "kernel:shape=!; stride:shape=[]; dilate:shape=[]; pad:shape=[]; num_filter:uint[1:]=!; num_group:uint=1; "
        "num_deformable_group:uint=1; workspace:uint64=1024; no_bias:bool=False; im2col_step:uint=64; "
        "layout:{None/NCDHW/NCHW/NCW}=None",
        load_checks=(require_kernel_rank(2),),
        couples_batch="never",
        is_operator_property=True,
    ),
    *define(
        "_contrib_DeformablePSROIPooling",
        "data rois trans[!no_trans]",
        "spatial_scale:float[0:1]=!; output_dim:int=!; group_size:int=!; pooled_size:int=!; part_size:int=0; "
        "sample_per_part:int=1; trans_std:float[0:1]=0; no_trans:bool=False",
        results="output top_count",
        visible=1,
        couples_batch="always",
        is_operator_property=True,
    ),
)
