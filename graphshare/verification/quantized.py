"""Quantized numbers: integer kernels may round a few numbers to a neighbouring step.

A sum near the middle of two steps may go to either. That affects at most one number in a thousand
(measured: one in 100,000 for a product, one in 1,000 for a Softmax); a changed scale, zero point or
weight affects many. docs/still-the-same.md says when it is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from graphshare.checkpoint.model import Checkpoint
from graphshare.ir.affine import Constant
from graphshare.ir.graph import Entry
from graphshare.ir.walk import find_operand, own_inputs
from graphshare.ops.kernel import Array
from graphshare.text.format import format_count
from graphshare.verification.affine_values import WEIGHT_DTYPES
from graphshare.verification.comparison import Tolerance, Values, compare_values
from graphshare.verification.noise import find_operator
from graphshare.verification.parts import is_array
from graphshare.verification.region_plan import Cone
from graphshare.verification.runners import has_refused
from graphshare.verification.weights import Weigher, Weighing

_ROUNDING = ("QGemm", "QuantizeLinear")
_OF_INTEGERS = frozenset(
    """ConvInteger DynamicQuantizeMatMul MatMulInteger MatMulIntegerToFloat QLinearAdd QLinearConv QLinearMatMul
    QuantizeLinear""".split()
)
_PLAIN = _OF_INTEGERS | {
    "Add",
    "Cast",
    "Clip",
    "Conv",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "MatMul",
    "Mul",
    "Relu",
}
"""Operators that read a weight directly: before others, such as a Transpose, different integers may be one weight."""
_STEPPED = ("int8", "uint8")
_INTEGERS = (*_STEPPED, "int32")
_SHARE = 0.005
"""The largest fraction of numbers that may be one step apart."""
_ROUNDED = 1 + 1e-5
"""The length of a step between floats relative to the exact step: floats are rounded."""


def rounds_apart(value: Any, wanted: Any, end: Sequence[Entry]) -> bool:
    """Whether both arrays are quantized, and a few numbers are one step apart."""
    for each in (value, wanted):
        if not is_array(each) or each.dtype.name not in _STEPPED:
            return False
    is_rounded = all(map(_is_rounding, map(find_operator, end)))
    return is_rounded and _are_few_apart(value, wanted, 1.0)


def _is_rounding(op: str) -> bool:
    return op in _ROUNDING or op.startswith("QLinear")


def _are_few_apart(value: Array, wanted: Array, step: float) -> bool:
    if value.shape != wanted.shape or value.dtype != wanted.dtype:
        return False
    distance = abs(value.astype(np.float64) - wanted)
    most = max(1, _SHARE * value.size)
    return bool((distance <= step * _ROUNDED).all()) and int(np.count_nonzero(distance)) <= most


def reads_same_integers(weigher: Weigher, cone: Cone) -> bool:
    """Whether both sides of a region read the same integer weights."""
    left, right = (_list_constants(weigher, cone, side, _INTEGERS) for side in (0, 1))
    return left.keys() == right.keys()


def weigh_integers(weigher: Weigher, cone: Cone) -> Weighing | None:
    """Return how many steps the only differing integer weight is off; None without one."""
    operators = {node.op for node in chain(*cone.sides)}
    if not operators & _OF_INTEGERS or not operators <= _PLAIN:
        return None
    left, right = (_list_constants(weigher, cone, side, _INTEGERS) for side in (0, 1))
    only_left, only_right = left.keys() - right.keys(), right.keys() - left.keys()
    if len(only_left) != 1 or len(only_right) != 1:
        return None
    scales, others = (_list_constants(weigher, cone, side, WEIGHT_DTYPES).keys() for side in (0, 1))
    # With different scales the same weights are different integers.
    if not (scales <= others or others <= scales):
        return None
    one, other = left[only_left.pop()], right[only_right.pop()]
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return None
    return Weighing(float("inf"), f"weight {other.name!r} is {_describe_distance(one, other)}")


def _describe_distance(one: Constant, other: Constant) -> str:
    most, place = 0, list[int]()
    for rows in other.split_rows():
        distance = abs(one.read(rows).astype(np.int64) - other.read(rows))
        if distance.max() > most:
            most = int(distance.max())
            row, *rest = (
                int(each) for each in np.unravel_index(int(np.argmax(distance)), distance.shape)
            )
            place = [rows.start + row, *rest]
    return f"{format_count(most, 'step')} of its scale from that of the original at {place}"


def _list_constants(
    weigher: Weigher, cone: Cone, side: int, dtypes: Sequence[str]
) -> dict[int, Constant]:
    """Omit zeros and single numbers."""
    constants: dict[int, Constant] = {}
    for entry in chain(*map(own_inputs, cone.sides[side])):
        constant = weigher.find_constant(side, entry, dtypes)
        if constant is None or np.prod(constant.shape) <= 1:
            continue
        if constant.read().any():
            constants[constant.term] = constant
    return constants


def allow_steps(
    models: Sequence[Checkpoint], outputs: Sequence[tuple[Any, Any]], rounds: Sequence[Values]
) -> tuple[tuple[Values, ...], list[str]]:
    """Allow a few quantized numbers to be one step apart; return comparisons and notes."""
    allowed, notes = list(rounds), list[str]()
    left, right = models
    steps: list[float] = []
    for head, other in zip(left.graph.heads, right.graph.heads, strict=True):
        step = _find_step(left, head)
        # Without one step for both no number may be apart.
        steps.append(step if step == _find_step(right, other) else 0.0)
    for number, both in enumerate(outputs):
        if has_refused(both):
            continue
        compared = list(rounds[number].outputs)
        for place, output in enumerate(compared):
            wanted, value = (own[place] for own in both)
            if output.comparison or not (is_array(wanted) and is_array(value)):
                continue
            step = steps[place]
            if step and _are_few_apart(value, wanted, step):
                comparison = compare_values(value, wanted, Tolerance(atol=step * _ROUNDED))
                compared[place] = msgspec.structs.replace(output, comparison=comparison)
                notes.append(
                    f"numbers of {output.reference!r} are at most one step of {step:.3g} apart, which is allowed"
                )
        allowed[number] = rounds[number].with_outputs(compared)
    return tuple(allowed), notes


def _find_step(model: Checkpoint, head: Entry) -> float:
    """Return an output's step; 0 if it is not quantized by one known scale."""
    if _is_rounding(head.node.op):
        return 1.0
    if head.node.op != "DequantizeLinear":
        return 0.0
    scale = find_operand(head.node, 1)
    if scale is None or scale.node.op or scale.node.name not in model.params:
        return 0.0
    numbers = np.asarray(model.params[scale.node.name])
    return float(numbers) if numbers.size == 1 else 0.0
