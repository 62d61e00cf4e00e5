"""Integers, only some of them known: pads after a length that the caller chooses are 0 on every other axis."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from itertools import chain
from math import prod

from graphshare.onnx_ops.free_axes import Call

MANY = 64  # numbers of a value that is followed are at most as many
_COMPUTED: Mapping[str, Callable[[int, int], int]] = {"Add": operator.add, "Mul": operator.mul, "Sub": operator.sub}
_KEPT = frozenset("Cast Flatten Identity Reshape Squeeze Unsqueeze".split())
"""Operators that keep all numbers in their order."""

Known = tuple[int | None, ...]


def find_partly_known(call: Call) -> Known | None:
    """Return the numbers of the first output, row by row, None for each that is not known; None where none is followed."""
    op, first, shape = call.node.op, call.get_operand(0).known, next(iter(call.shapes), None)
    if call.node.details.domain or first is None or shape is None or prod(shape) > MANY:
        return None
    if op in _KEPT:
        return first
    if op == "Concat" and len(shape) == 1:
        parts = [operand.known for operand in call.operands if operand.known is not None]
        return tuple(chain(*parts)) if len(parts) == len(call.operands) else None
    if op in _COMPUTED:
        second = call.get_operand(1).known
        return None if second is None else _compute(_COMPUTED[op], first, second)
    if op == "Transpose" and len(shape) == 2 and call.node.attrs.get("perm") == "[1, 0]":
        return tuple(chain.from_iterable(first[row :: shape[0]] for row in range(shape[0])))
    if op == "Slice" and shape:
        return _cut(call, first, prod(shape[1:]))
    return None


def _compute(function: Callable[[int, int], int], a: Known, b: Known) -> Known | None:
    if len(a) != len(b) and 1 not in (len(a), len(b)):
        return None
    count = max(len(a), len(b))
    pairs = zip(*(each * (count if len(each) == 1 else 1) for each in (a, b)), strict=True)
    return tuple(None if x is None or y is None else function(x, y) for x, y in pairs)


def _cut(call: Call, first: Known, inner: int) -> Known | None:
    """Return some rows, as Slice counts them, of numbers whose rows are ``inner`` long; None where it cuts another axis."""
    starts, ends, axes, steps = (call.integers("", place) for place in (1, 2, 3, 4))
    if not inner or not starts or not ends or len(starts) != 1 or any(axes or ()):
        return None
    start, end, step = starts[0], ends[0], (steps or [1])[0]
    rows = [first[place : place + inner] for place in range(0, len(first), inner)]
    # An end before the first row is written as a large negative number; Python would count it from the last row.
    stop = None if step < 0 and end < -len(rows) else end
    return tuple(number for row in rows[start:stop:step] for number in row) if step else None
