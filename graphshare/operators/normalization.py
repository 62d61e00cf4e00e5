"""Normalization, dropout and statistics."""

from __future__ import annotations

from graphshare.operators.table import define

BATCH_NORM = (
    "eps:double=0.0010000000474974513; momentum:float=0.899999976; fix_gamma:bool=True; use_global_stats:bool=False; "
    "output_mean_var:bool=False; axis:int=1; cudnn_off:bool=False; min_calib_range:float?=None; max_calib_range:float?=None"
)

OPERATORS = (
    *define(
        "_contrib_BatchNormWithReLU",
        "data gamma beta moving_mean moving_var",
        BATCH_NORM,
        results="output mean var workspace",
        visible=1,
        all_visible_if="output_mean_var",
        mutable=(3, 4),
        initializers={3: '["zero", {}]', 4: '["one", {}]'},
        couples_batch="training",
    ),
    *define(
        "_contrib_SyncBatchNorm",
        "data gamma beta moving_mean moving_var",
        "eps:float=0.00100000005; momentum:float=0.899999976; fix_gamma:bool=True; use_global_stats:bool=False; "
        "output_mean_var:bool=False; ndev:int=1; key:string=!",
        results="output mean var",
        visible=1,
        all_visible_if="output_mean_var",
        mutable=(3, 4),
        initializers={3: '["zero", {}]', 4: '["one", {}]'},
        couples_batch="training",
    ),
    *define(
        "BatchNorm",
        "data gamma beta moving_mean moving_var",
        BATCH_NORM,
        results="output mean var",
        visible=1,
        all_visible_if="output_mean_var",
        mutable=(3, 4),
        initializers={3: '["zero", {}]', 4: '["one", {}]'},
        couples_batch="training",
    ),
    *define(
        "BatchNorm_v1",
        "data gamma beta moving_mean moving_var",
        "eps:float=0.00100000005; momentum:float=0.899999976; fix_gamma:bool=True; use_global_stats:bool=False; "
        "output_mean_var:bool=False",
        results="output mean var",
        visible=1,
        all_visible_if="output_mean_var",
        mutable=(3, 4),
        initializers={3: '["zero", {}]', 4: '["one", {}]'},
        couples_batch="training",
    ),
    *define(
        "Dropout",
        "data",
        "p:float[0:1]=0.5; mode:{always/training}=training; axes:shape=[]; cudnn_off:bool?=False",
        results="output mask",
        visible=1,
        couples_batch="never",
    ),
    *define(
        "GroupNorm",
        "data gamma beta",
        "num_groups:int=1; eps:float=9.99999975e-06; output_mean_var:bool=False",
        results="output mean std",
        visible=1,
        all_visible_if="output_mean_var",
        couples_batch="never",
    ),
    *define(
        "IdentityAttachKLSparseReg",
        "data moving_avg",
        "sparseness_target:float[0:1]=0.100000001; penalty:float=0.00100000005; momentum:float[0:1]=0.899999976",
        mutable=(1,),
        initializers={1: '["zero", {}]'},
        couples_batch="training",
    ),
    *define(
        "InstanceNorm",
        "data gamma beta",
        "eps:float=0.00100000005",
        results="output mean var",
        visible=1,
        couples_batch="never",
    ),
    *define(
        "L2Normalization",
        "data",
        "eps:float=1.00000001e-10; mode:{channel/instance/spatial}=instance",
        results="output norm",
        visible=1,
        couples_batch="never",
    ),
    *define(
        "LayerNorm",
        "data gamma beta",
        "axis:int=-1; eps:float=9.99999975e-06; output_mean_var:bool=False",
        results="output mean std",
        visible=1,
        all_visible_if="output_mean_var",
        couples_batch="axis",
    ),
    *define(
        "LRN",
        "data",
        "alpha:float=9.99999975e-05; beta:float=0.75; knorm:float=2; nsize:uint=!",
        results="output tmp_norm",
        visible=1,
        couples_batch="never",
    ),
    *define("moments", "data", "axes:shape?=None; keepdims:bool=False", results="output0 output1", couples_batch="axis"),
)
