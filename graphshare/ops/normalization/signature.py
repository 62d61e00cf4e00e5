"""Signatures of ``normalization``."""

from __future__ import annotations

from functools import partial

from graphshare.ops.batch_axis import Mixes, Outcome, Rule, Use, along_axis_rule, mixing_rule
from graphshare.ops.signature import define

BATCH_NORM = (
    "eps:double=0.0010000000474974513; momentum:float=0.899999976; fix_gamma:bool=True; use_global_stats:bool=False; "
    "output_mean_var:bool=False; axis:int=1; cudnn_off:bool=False; min_calib_range:float?=None; "
    "max_calib_range:float?=None"
)


_OLD_BATCH_NORM = (
    "eps:float=0.00100000005; momentum:float=0.899999976; fix_gamma:bool=True; use_global_stats:bool=False; "
    "output_mean_var:bool=False"
)
# ``key`` names a barrier of the process: two nodes with one key would wait for each other.
BARRIER = ("_contrib_SyncBatchNorm", "key")
BARRIER_KEYS = {BARRIER[0]: (BARRIER[1],)}

_batch_norm = partial(
    define,
    inputs="data gamma beta moving_mean moving_var",
    visible=1,
    all_visible_if="output_mean_var",
    mutable=(3, 4),
    initializers={3: '["zero", {}]', 4: '["one", {}]'},
    couples_batch="training",
)

OPERATORS = (
    *define(
        "Dropout(_npx_dropout)",
        "data",
        "p:float[0:1]=0.5; mode:{always/training}=training; axes:shape=[]; cudnn_off:bool?=False",
        results="output mask",
        visible=1,
        couples_batch="elementwise",
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
        is_operator_property=True,
    ),
    *define(
        "InstanceNorm",
        "data gamma beta",
        "eps:float=0.00100000005",
        results="output mean var",
        visible=1,
        couples_batch="never",
        is_operator_property=True,
    ),
    *define(
        "L2Normalization",
        "data",
        "eps:float=1.00000001e-10; mode:{channel/instance/spatial}=instance",
        results="output norm",
        visible=1,
        couples_batch="never",
        is_operator_property=True,
    ),
    *define(
        "LayerNorm(_npx_layer_norm)",
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
    *_batch_norm(
        "_contrib_BatchNormWithReLU", attributes=BATCH_NORM, results="output mean var workspace"
    ),
    *_batch_norm(
        "_contrib_SyncBatchNorm",
        attributes=f"{_OLD_BATCH_NORM}; ndev:int=1; key:string=!",
        results="output mean var",
        is_operator_property=True,
    ),
    *_batch_norm("BatchNorm(_npx_batch_norm)", attributes=BATCH_NORM, results="output mean var"),
    *_batch_norm(
        "BatchNorm_v1",
        attributes=_OLD_BATCH_NORM,
        results="output mean var",
        is_operator_property=True,
    ),
)


def _batch_norm_rule(use: Use) -> Outcome:
    if any(use.input(slot) is not None for slot in range(1, len(use.inputs))):
        return "has a weight that depends on the batch"
    if use.signature.parameter("axis") is not None and use.first.is_axis(use.value("axis")):
        return "normalizes each sample by parameters of its own"
    places = [use.first, None, None]  # mean and variance have no batch axis
    why = "takes mean and variance of the whole batch while training"
    return places if use.value("use_global_stats") else Mixes(why, places, only_training=True)


RULES: dict[str, Rule] = {
    "LayerNorm": along_axis_rule,
    "IdentityAttachKLSparseReg": mixing_rule("keeps an average of the whole batch while training"),
    **dict.fromkeys(
        ("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU"),
        _batch_norm_rule,
    ),
}
