"""Signatures of the operators of family ``batch_norm``."""

from __future__ import annotations

from graphshare.ops.signature import define

BATCH_NORM = (
    "eps:double=0.0010000000474974513; momentum:float=0.899999976; fix_gamma:bool=True; use_global_stats:bool=False; "
    "output_mean_var:bool=False; axis:int=1; cudnn_off:bool=False; min_calib_range:float?=None; max_calib_range:float?=None"
)

# A SyncBatchNorm's ``key`` names a barrier of the process: two nodes with one key would wait for each other.
BARRIER = ("_contrib_SyncBatchNorm", "key")
BARRIER_KEYS = {BARRIER[0]: (BARRIER[1],)}

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
        is_operator_property=True,
    ),
    *define(
        "BatchNorm(_npx_batch_norm)",
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
        is_operator_property=True,
    ),
)
