"""Signatures and batch-axis rules of the operators of family ``activation``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Outcome, Rule, Use, default_rule
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
)


def _leaky_relu(use: Use) -> Outcome:
    return use.first if use.value("act_type") != "prelu" else default_rule(use)


RULES: dict[str, Rule] = {
    "LeakyReLU": _leaky_relu,
}
