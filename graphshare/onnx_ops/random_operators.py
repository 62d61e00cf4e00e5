"""Operators of ONNX that draw random numbers."""

from __future__ import annotations

from graphshare.formats.onnx.constants import BOOL, read_stored
from graphshare.formats.onnx.stored import find_stored
from graphshare.ir.graph import Node
from graphshare.ir.walk import find_operand

DRAWING = frozenset(
    (
        "Bernoulli",
        "Dropout",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    )
)
"""Operators that draw, Dropout only in training."""


def draws_numbers(node: Node) -> bool:
    """Return whether an operator draws random numbers without a seed; a Dropout only in training."""
    if node.details.domain or node.op not in DRAWING or "seed" in node.details.values:
        return False
    if node.op != "Dropout":
        return True
    training = find_operand(node, 2)
    if training is None:
        return False
    content = None if training.node.op else read_stored(find_stored(training.node.details))
    return content != (BOOL, (), (b"\0",))
