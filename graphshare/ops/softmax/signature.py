"""Signatures and batch-axis rules of the operators of family ``softmax``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Rule, along_axis_rule
from graphshare.ops.signature import define

OPERATORS = (
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

RULES: dict[str, Rule] = {
    **dict.fromkeys(("softmax", "log_softmax", "softmin"), along_axis_rule),
}
