"""Quantized numbers: integer kernels may round a few numbers to a neighbouring step.

A sum near the middle of two steps may go to either. That affects at most one number in a thousand
(measured: one in 100,000 for a product, one in 1,000 for a Softmax), whereas a changed scale, zero
point or weight shows in many. It is allowed if both sides read the same integers; other integer
weights are compared in steps of their scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from graphshare.checkpoint.model import Checkpoint
from graphshare.ir.affine import Constant
from graphshare.ir.graph import Entry
from graphshare.ir.walk import list_operands
from graphshare.ops.kernel import Array
from graphshare.text.format import format_count
from graphshare.verification.affine_values import WEIGHT_DTYPES
from graphshare.verification.comparison import Tolerance, Values, compare_values
from graphshare.verification.noise import find_operator
from graphshare.verification.region_plan import Cone
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
    if not all(
        isinstance(each, np.ndarray) and each.dtype.name in _STEPPED for each in (value, wanted)
    ):
        return False
    return all(map(_is_rounding, map(find_operator, end))) and _are_few_apart(value, wanted, 1.0)


def _is_rounding(op: str) -> bool:
    return op in _ROUNDING or op.startswith("QLinear")


def _are_few_apart(value: Array, wanted: Array, step: float) -> bool:
    if value.shape != wanted.shape or value.dtype != wanted.dtype:
        return False
    distance = abs(value.astype(np.float64) - wanted)
    return bool((distance <= step * _ROUNDED).all()) and int(np.count_nonzero(distance)) <= max(
        1, _SHARE * value.size
    )


def reads_same_integers(weigher: Weigher, cone: Cone) -> bool:
    """Whether both sides of a region read the same integer weights."""
    left, right = (_list_constants(weigher, cone, side, _INTEGERS) for side in (0, 1))
    return left.keys() == right.keys()


def weigh_integers(weigher: Weigher, cone: Cone) -> Weighing | None:
    """Return how many steps the only differing integer weight is off; None without one."""
    operators = {node.op for nodes in cone.sides for node in nodes}
    if not operators & _OF_INTEGERS or not operators <= _PLAIN:
        return None
    left, right = (_list_constants(weigher, cone, side, _INTEGERS) for side in (0, 1))
    only = left.keys() - right.keys(), right.keys() - left.keys()
    scales = [_list_constants(weigher, cone, side, WEIGHT_DTYPES).keys() for side in (0, 1)]
    # With different scales the same weights are different integers.
    if [len(own) for own in only] != [1, 1] or not (
        scales[0] <= scales[1] or scales[1] <= scales[0]
    ):
        return None
    one, other = left[only[0].pop()], right[only[1].pop()]
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
    """Index a side's constants by term, except zeros and single numbers."""
    read = (
        entry for node in cone.sides[side] for entry in list_operands(node) if entry is not None
    )
    constants = (weigher.find_constant(side, entry, dtypes) for entry in read)
    return {
        each.term: each
        for each in constants
        if each is not None and np.prod(each.shape) > 1 and each.read().any()
    }


def allow_steps(
    models: Sequence[Checkpoint], outputs: Sequence[tuple[Any, Any]], rounds: Sequence[Values]
) -> tuple[tuple[Values, ...], list[str]]:
    """Allow a few quantized numbers to be one step apart; return comparisons and notes."""
    allowed, notes = list(rounds), list[str]()
    heads = list(zip(*(model.graph.heads for model in models), strict=True))
    for number, both in enumerate(outputs):
        compared = list(rounds[number].outputs)
        for place, output in enumerate(compared):
            step, other = (
                _find_step(model, head) for model, head in zip(models, heads[place], strict=True)
            )
            values = [
                own[place]
                for own in both
                if isinstance(own, list) and isinstance(own[place], np.ndarray)
            ]
            if output.comparison or len(values) < len(both) or not step or step != other:
                continue
            if _are_few_apart(values[1], values[0], step):
                comparison = compare_values(values[1], values[0], Tolerance(atol=step * _ROUNDED))
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
    operands = list_operands(head.node) if head.node.op == "DequantizeLinear" else []
    scale = operands[1] if len(operands) > 1 else None
    if scale is None or scale.node.op or scale.node.name not in model.params:
        return 0.0
    numbers = np.asarray(model.params[scale.node.name])
    return float(numbers) if numbers.size == 1 else 0.0
