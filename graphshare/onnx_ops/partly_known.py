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
    first, shape = call.get_operand(0).known, next(iter(call.shapes), None)
    rule = None if call.node.details.domain else _RULES.get(call.node.op)
    if rule is None or first is None or shape is None or prod(shape) > MANY:
        return None
    return rule(call, first, shape)


def _keep(call: Call, first: Known, shape: Sequence[int]) -> Known:
    return first


def _concat(call: Call, first: Known, shape: Sequence[int]) -> Known | None:
    parts = [operand.known for operand in call.operands if operand.known is not None]
    return tuple(chain(*parts)) if len(shape) == 1 and len(parts) == len(call.operands) else None


def _transpose(call: Call, first: Known, shape: Sequence[int]) -> Known | None:
    if len(shape) != 2 or call.node.attrs.get("perm") != "[1, 0]":
        return None
    return tuple(chain.from_iterable(first[row :: shape[0]] for row in range(shape[0])))


def _compute(
    function: Callable[[int, int], int], call: Call, a: Known, shape: Sequence[int]
) -> Known | None:
    b = call.get_operand(1).known
    if b is None or (len(a) != len(b) and 1 not in (len(a), len(b))):
        return None
    count = max(len(a), len(b))
    pairs = zip(*(each * (count if len(each) == 1 else 1) for each in (a, b)), strict=True)
    return tuple(None if x is None or y is None else function(x, y) for x, y in pairs)


def _slice(call: Call, first: Known, shape: Sequence[int]) -> Known | None:
    """Slice rows; None if it cuts another axis."""
    starts, ends, axes, steps = (call.integers("", place) for place in (1, 2, 3, 4))
    inner = prod(shape[1:]) if shape else 0
    if not inner or not starts or not ends or len(starts) != 1 or any(axes or ()):
        return None
    start, end, step = starts[0], ends[0], (steps or [1])[0]
    rows = [first[place : place + inner] for place in range(0, len(first), inner)]
    # A large negative end means before the first row; Python would count it from the last row.
    stop = None if step < 0 and end < -len(rows) else end
    return tuple(chain.from_iterable(rows[start:stop:step])) if step else None


_RULES: Mapping[str, Callable[[Call, Known, Sequence[int]], Known | None]] = {
    **dict.fromkeys("Cast Flatten Identity Reshape Squeeze Unsqueeze".split(), _keep),
    "Add": partial(_compute, operator.add),
    "Concat": _concat,
    "Mul": partial(_compute, operator.mul),
    "Slice": _slice,
    "Sub": partial(_compute, operator.sub),
    "Transpose": _transpose,
}
