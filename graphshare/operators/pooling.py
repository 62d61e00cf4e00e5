"""Pooling over windows and over regions."""

from __future__ import annotations

from graphshare.operators.rules import kernel_rank, pairs_of_sizes, pooled, without_zeros
from graphshare.operators.table import define

POOLING = (
    "kernel:shape=[]; pool_type:{avg/lp/max/sum}=max; global_pool:bool=False; cudnn_off:bool=False; "
    "pooling_convention:{full/same/valid}=valid; stride:shape=[]; pad:shape=[]; p_value:int?=None; "
    "count_include_pad:bool?=None; layout:{None/NCDHW/NCHW/NCW/NDHWC/NHWC/NWC}=None"
)

OPERATORS = (
    *define("_contrib_AdaptiveAvgPooling2D", "data", "output_size:tuple32=[]", registers_inputs=False, couples_batch="never"),
    *define(
        "_contrib_DeformablePSROIPooling",
        "data rois trans[!no_trans]",
        "spatial_scale:float[0:1]=!; output_dim:int=!; group_size:int=!; pooled_size:int=!; part_size:int=0; "
        "sample_per_part:int=1; trans_std:float[0:1]=0; no_trans:bool=False",
        results="output top_count",
        visible=1,
        couples_batch="always",
    ),
    *define(
        "_contrib_PSROIPooling",
        "data rois",
        "spatial_scale:float[0:1]=!; output_dim:int=!; pooled_size:int=!; group_size:int=0",
        couples_batch="always",
    ),
    *define(
        "_contrib_ROIAlign",
        "data rois",
        "pooled_size:shape=!; spatial_scale:float[0:1]=!; sample_ratio:int=-1; position_sensitive:bool=False; "
        "aligned:bool=False",
        load_checks=(pairs_of_sizes("pooled_size"), without_zeros("pooled_size")),
        couples_batch="always",
    ),
    *define(
        "_contrib_RROIAlign",
        "data rois",
        "pooled_size:shape=!; spatial_scale:float[0:1]=!; sampling_ratio:int=-1",
        load_checks=(pairs_of_sizes("pooled_size"), without_zeros("pooled_size")),
        couples_batch="always",
    ),
    *define(
        "Pooling",
        "data",
        POOLING,
        results=pooled,
        load_checks=(without_zeros("kernel", "stride"), kernel_rank(1, 2, 3)),
        couples_batch="never",
    ),
    *define(
        "Pooling_v1",
        "data",
        "kernel:shape=[]; pool_type:{avg/max/sum}=max; global_pool:bool=False; pooling_convention:{full/valid}=valid; "
        "stride:shape=[]; pad:shape=[]",
        load_checks=(without_zeros("kernel", "stride"), kernel_rank(1, 2, 3)),
        couples_batch="never",
    ),
    *define(
        "ROIPooling",
        "data rois",
        "pooled_size:shape=!; spatial_scale:float[0:1]=!",
        results="output maxidx",
        visible=1,
        load_checks=(pairs_of_sizes("pooled_size"), without_zeros("pooled_size")),
        couples_batch="always",
    ),
)
