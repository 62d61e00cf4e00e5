"""Integers, only some of them known: pads from a caller's size are still 0 on every other axis."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from math import prod

from graphshare.onnx_ops.free_axes import Call

MANY = 64  # the most numbers of a value that is followed

Known = tuple[int | None, ...]


def find_partly_known(call: Call) -> Known | None:
    """Return the first output's numbers by rows, None for each unknown; None if not followed."""
    rule = None if call.node.details.domain else _RULES.get(call.node.op)
    first = call.get_operand(0).known
    if rule is None or first is None or not call.shapes:
        return None
    shape = call.shapes[0]
    if shape is None or prod(shape) > MANY:
        return None
    return rule(call, first, shape)


def _keep(call: Call, first: Known, shape: Sequence[int]) -> Known:
    return first


def _concat(call: Call, first: Known, shape: Sequence[int]) -> Known | None:
    if len(shape) != 1:
        return None
    numbers: list[int | None] = []
    for operand in call.operands:
        if operand.known is None:
            return None
        numbers += operand.known
    return tuple(numbers)


def _transpose(call: Call, first: Known, shape: Sequence[int]) -> Known | None:
    if len(shape) != 2 or call.node.attrs.get("perm") != "[1, 0]":
        return None
    return tuple(chain.from_iterable(first[row :: shape[0]] for row in range(shape[0])))


def _compute(
    function: Callable[[int, int], int], call: Call, a: Known, shape: Sequence[int]
) -> Known | None:
    b = call.get_operand(1).known
    if b is None:
        return None
    if len(a) == 1:
        a *= len(b)
    elif len(b) == 1:
        b *= len(a)
    if len(a) != len(b):
        return None
    numbers: list[int | None] = []
    for x, y in zip(a, b, strict=True):
        if x is None or y is None:
            numbers.append(None)
        else:
            numbers.append(function(x, y))
    return tuple(numbers)


def _slice(call: Call, first: Known, shape: Sequence[int]) -> Known | None:
    """Slice rows; None if it cuts another axis."""
    starts, ends, axes, steps = (call.integers("", place) for place in (1, 2, 3, 4))
    if not starts or not ends or len(starts) != 1 or any(axes or ()):
        return None
    inner = prod(shape[1:]) if shape else 0  # a scalar has no rows
    step = steps[0] if steps else 1
    if not inner or not step:
        return None
    rows = [first[place : place + inner] for place in range(0, len(first), inner)]
    stop: int | None = ends[0]
    # A large negative end means before the first row; Python would count it from the last row.
    if step < 0 and ends[0] < -len(rows):
        stop = None
    return tuple(chain.from_iterable(rows[starts[0] : stop : step]))


_RULES: Mapping[str, Callable[[Call, Known, Sequence[int]], Known | None]] = {
    **dict.fromkeys("Cast Flatten Identity Reshape Squeeze Unsqueeze".split(), _keep),
    "Add": partial(_compute, operator.add),
    "Concat": _concat,
    "Mul": partial(_compute, operator.mul),
    "Slice": _slice,
    "Sub": partial(_compute, operator.sub),
    "Transpose": _transpose,
}
