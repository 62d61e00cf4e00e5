"""Signatures and batch-axis rules of the operators of family ``normalization``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Rule, along_axis_rule, mixing_rule
from graphshare.ops.signature import define

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
)

RULES: dict[str, Rule] = {
    "LayerNorm": along_axis_rule,
    "IdentityAttachKLSparseReg": mixing_rule("keeps an average of the whole batch while training"),
}
