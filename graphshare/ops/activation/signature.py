"""Signatures of ``activation``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Rule, along_axis_rule, default_rule
from graphshare.ops.signature import define, elementwise

ACTIVATION = "act_type:{relu/sigmoid/softrelu/softsign/tanh}=!"
SOFTMAX = "axis:int=-1; temperature:double?=None; dtype:{None/float16/float32/float64}=None; use_length:bool?=False"

OPERATORS = (
    *elementwise("relu(_sparse_relu) sigmoid(_sparse_sigmoid) softsign", "data"),
    *elementwise("Activation(_npx_activation)", "data", ACTIVATION),
    *define(
        "LeakyReLU(_npx_leaky_relu)",
        "data gamma[act_type=prelu]",
        "act_type:{elu/gelu/leaky/prelu/rrelu/selu}=leaky; slope:float=0.25; lower_bound:float=0.125; "
        "upper_bound:float=0.333999991",
        results="output mask[act_type=rrelu]",
        initializers={1: '["Constant", {"value": 0.25}]'},
        couples_batch="never",
    ),
    *elementwise("tanh(_sparse_tanh)", "data"),
    *define("log_softmax(_npx_log_softmax)", "data", SOFTMAX, couples_batch="axis"),
    *define("softmax(_npx_softmax)", "data length[use_length]", SOFTMAX, couples_batch="axis"),
    *define(
        "SoftmaxActivation",
        "data",
        "mode:{channel/instance}=instance",
        registers_inputs=False,
        couples_batch="never",
    ),
    *define("softmin", "data", SOFTMAX, registers_inputs=False, couples_batch="axis"),
)


RULES: dict[str, Rule] = {
    "LeakyReLU": lambda use: use.first if use.value("act_type") != "prelu" else default_rule(use),
    **dict.fromkeys(("softmax", "log_softmax", "softmin"), along_axis_rule),
}
