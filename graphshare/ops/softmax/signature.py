"""Signatures of the operators of family ``softmax``."""

from __future__ import annotations

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
