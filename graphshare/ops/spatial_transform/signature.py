"""Signatures of the operators of family ``spatial_transform``."""

from __future__ import annotations

from graphshare.ops.signature import define

OPERATORS = (
    *define(
        "BilinearSampler",
        "data grid",
        "cudnn_off:bool?=None",
        results="output tmp",
        visible=1,
        couples_batch="never",
        is_operator_property=True,
    ),
    *define(
        "Correlation",
        "data1 data2",
        "kernel_size:uint=1; max_displacement:uint=1; stride1:uint=1; stride2:uint=1; pad_size:uint=0; is_multiply:bool=True",
        results="output tmp1 tmp2",
        visible=1,
        couples_batch="never",
        is_operator_property=True,
    ),
    *define(
        "GridGenerator",
        "data",
        "transform_type:{affine/warp}=!; target_shape:shape=[0,0]",
        results="output grid_dst",
        visible=1,
        couples_batch="never",
        is_operator_property=True,
    ),
    *define(
        "SpatialTransformer",
        "data loc",
        "target_shape:shape=[0,0]; transform_type:{affine}=!; sampler_type:{bilinear}=!; cudnn_off:bool?=None",
        results="output grid_dst grid_src",
        visible=1,
        couples_batch="never",
        is_operator_property=True,
    ),
)
