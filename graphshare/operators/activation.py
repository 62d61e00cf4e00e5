"""Activations and the softmax family."""

from __future__ import annotations

from graphshare.operators.table import define

ACTIVATION = "act_type:{relu/sigmoid/softrelu/softsign/tanh}=!"

OPERATORS = (
    *define("_npx_relu _npx_sigmoid relu sigmoid softsign", "data", registers_inputs=False, couples_batch="never"),
    *define("Activation", "data", ACTIVATION, registers_inputs=False, couples_batch="never"),
    *define("hard_sigmoid", "data", "alpha:float=0.200000003; beta:float=0.5", registers_inputs=False, couples_batch="never"),
    *define(
        "LeakyReLU",
        "data gamma[act_type=prelu]",
        "act_type:{elu/gelu/leaky/prelu/rrelu/selu}=leaky; slope:float=0.25; lower_bound:float=0.125; "
        "upper_bound:float=0.333999991",
        results="output mask[act_type=rrelu]",
        initializers={1: '["Constant", {"value": 0.25}]'},
        couples_batch="never",
    ),
    *define(
        "log_softmax",
        "data",
        "axis:int=-1; temperature:double?=None; dtype:{None/float16/float32/float64}=None; use_length:bool?=False",
        couples_batch="axis",
    ),
    *define(
        "softmax",
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
