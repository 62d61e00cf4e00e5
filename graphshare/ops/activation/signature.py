"""Signatures and batch-axis rules of the operators of family ``activation``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Outcome, Rule, Use, along_axis_rule, default_rule
from graphshare.ops.signature import define

ACTIVATION = "act_type:{relu/sigmoid/softrelu/softsign/tanh}=!"

OPERATORS = (
    *define(
        "relu(_sparse_relu) sigmoid(_sparse_sigmoid) softsign", "data", registers_inputs=False, couples_batch="elementwise"
    ),
    *define("Activation(_npx_activation)", "data", ACTIVATION, registers_inputs=False, couples_batch="elementwise"),
    *define(
        "LeakyReLU(_npx_leaky_relu)",
        "data gamma[act_type=prelu]",
        "act_type:{elu/gelu/leaky/prelu/rrelu/selu}=leaky; slope:float=0.25; lower_bound:float=0.125; "
        "upper_bound:float=0.333999991",
        results="output mask[act_type=rrelu]",
        initializers={1: '["Constant", {"value": 0.25}]'},
        couples_batch="never",
    ),
    *define("tanh(_sparse_tanh)", "data", registers_inputs=False, couples_batch="elementwise"),
    *define(
        "log_softmax(_npx_log_softmax)",
        "data",
        "axis:int=-1; temperature:double?=None; dtype:{None/float16/float32/float64}=None; use_length:bool?=False",
        couples_batch="axis",
    ),
    *define(
        "softmax(_npx_softmax)",
        "data length[use_length]",
        "axis:int=-1; temperature:double?=None; dtype:{None/float16/float32/float64}=None; use_length:bool?=False",
        couples_batch="axis",
    ),
    *define("SoftmaxActivation", "data", "mode:{channel/instance}=instance", registers_inputs=False, couples_batch="never"),
    *define(
        "softmin",
        "data",
        "axis:int=-1; temperature:double?=None; dtype:{None/float16/float32/float64}=None; use_length:bool?=False",
        registers_inputs=False,
        couples_batch="axis",
    ),
)


def _leaky_relu(use: Use) -> Outcome:
    return use.first if use.value("act_type") != "prelu" else default_rule(use)


RULES: dict[str, Rule] = {
    "LeakyReLU": _leaky_relu,
    **dict.fromkeys(("softmax", "log_softmax", "softmin"), along_axis_rule),
}
