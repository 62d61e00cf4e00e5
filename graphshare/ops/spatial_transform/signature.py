"""Signatures of ``spatial_transform``."""

from __future__ import annotations

from functools import partial

from graphshare.ops.signature import define

_sampler = partial(define, visible=1, couples_batch="never", is_operator_property=True)

OPERATORS = (
    *_sampler("BilinearSampler", "data grid", "cudnn_off:bool?=None", results="output tmp"),
    *_sampler(
        "Correlation",
        "data1 data2",
        "kernel_size:uint=1; max_displacement:uint=1; stride1:uint=1; stride2:uint=1; "
        "pad_size:uint=0; is_multiply:bool=True",
        results="output tmp1 tmp2",
    ),
    *_sampler(
        "GridGenerator",
        "data",
        "transform_type:{affine/warp}=!; target_shape:shape=[0,0]",
        results="output grid_dst",
    ),
    *_sampler(
        "SpatialTransformer",
        "data loc",
        "target_shape:shape=[0,0]; transform_type:{affine}=!; sampler_type:{bilinear}=!; cudnn_off:bool?=None",
        results="output grid_dst grid_src",
    ),
)
