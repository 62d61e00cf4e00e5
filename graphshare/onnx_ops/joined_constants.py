"""Constants with numbers for each position of a value that is joined to an axis of a free size.

New tokens follow a past of free length. An exporter folds table rows, or cosines of angles, at
their positions into a constant with a row per token. Nothing in it shows the past's length.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import prod
from operator import mul

import msgspec

from graphshare.ir.graph import Entry, Node
from graphshare.ir.walk import find_dependents, list_operands
from graphshare.onnx_ops.free_axes import Axes, list_names, parse_integers

_ELEMENTWISE = frozenset("Add Div Mul Sub Where".split())

Place = tuple[Node, int]
Shapes = Mapping[Place, Sequence[int]]


class JoinedConstant(msgspec.Struct, frozen=True):
    """Operand ``entry`` of ``node``; its numbers along ``axis`` are joined to the free size ``size``."""

    node: Node
    entry: Entry
    axis: int
    size: str


def find_joined_constants(
    nodes: Sequence[Node], axes: Mapping[Place, Axes], shapes: Shapes, sizes: Collection[str]
) -> Iterator[JoinedConstant]:
    """Yield constants in values that a Concat joins to an axis with one of the free ``sizes``.

    ``axes`` has the values that depend on free sizes, ``shapes`` all shapes in the file.
    """
    fed = find_dependents(
        nodes, (node for node in nodes if not node.op and not node.details.holds_value)
    )
    seen: set[tuple[Place, int]] = set()
    for node, axis in _find_concats(nodes, shapes):
        joined = [axes.get((entry.node, entry.index), ()) for entry in node.inputs]
        size = _find_joined_size(joined, axis, sizes)
        if size is None:
            continue
        starts = [
            (entry, axis)
            for entry in node.inputs
            if (entry.node, entry.index) not in axes and entry.node in fed
        ]
        for reader, operand, own_axis in _walk_back(starts, fed, shapes, seen):
            yield JoinedConstant(reader, operand, own_axis, size)


def _find_joined_size(joined: Iterable[Axes], axis: int, sizes: Collection[str]) -> str | None:
    """Return the first of ``sizes`` on an axis of joined values; None without one."""
    for axes in joined:
        names = list_names(axes[axis]) if axis < len(axes) else ()
        for name in names:
            if name in sizes:
                return name
    return None


def _walk_back(
    starts: list[tuple[Entry, int]],
    fed: Collection[Node],
    shapes: Shapes,
    seen: set[tuple[Place, int]],
) -> Iterator[tuple[Node, Entry, int]]:
    """Yield constants before values, with their elementwise operators and axes."""
    while starts:
        entry, at = starts.pop()
        step = (entry.node, entry.index), at
        if step in seen:
            continue
        seen.add(step)
        for operand, own in _follow_back(entry, at, shapes):
            if operand.node in fed:
                starts.append((operand, own))
            elif entry.node.op in _ELEMENTWISE:
                yield entry.node, operand, own


def _find_concats(nodes: Iterable[Node], shapes: Shapes) -> Iterator[tuple[Node, int]]:
    for node in nodes:
        if node.op == "Concat" and (shape := shapes.get((node, 0))) is not None:
            axis = int(node.attrs.get("axis", 0))
            if -len(shape) <= axis < len(shape):
                yield node, axis % len(shape)


def _follow_back(entry: Entry, axis: int, shapes: Shapes) -> Iterator[tuple[Entry, int]]:
    """Yield the operands with the positions on ``axis``, and their own axes."""
    node, shape = entry.node, shapes.get((entry.node, entry.index))
    if shape is None:
        return
    for number, operand in enumerate(list_operands(node)):
        if operand is None:
            continue
        own = shapes.get((operand.node, operand.index))
        if own is None:
            continue
        at = _AXES.get(node.op, _keep_axis)(_Operand(node, number, own, shape), axis)
        if at is not None and 0 <= at < len(own) and own[at] == shape[axis]:
            yield operand, at


class _Operand(msgspec.Struct, frozen=True):
    """An operand by position, with its ``own`` shape and the ``shape`` of the node's output."""

    node: Node
    number: int
    own: Sequence[int]
    shape: Sequence[int]


def _keep_axis(operand: _Operand, axis: int) -> int | None:
    """Return the operand's axis that becomes ``axis`` of the output, if any; so do the rules below."""
    return axis if len(operand.own) == len(operand.shape) else None


def _align_axis(operand: _Operand, axis: int) -> int:
    # Elementwise operands are aligned at the last axis.
    return axis - (len(operand.shape) - len(operand.own))


def _transpose_axis(operand: _Operand, axis: int) -> int:
    order = parse_integers(operand.node.attrs.get("perm", ""))
    return order[axis] if order else len(operand.shape) - 1 - axis


def _regroup_axis(operand: _Operand, axis: int) -> int | None:
    if operand.number != 0:
        return None
    ahead, size = prod(operand.shape[:axis]), operand.shape[axis]
    before = accumulate(operand.own, mul, initial=1)
    pairs = enumerate(zip(before, operand.own, strict=False))
    places = [place for place, pair in pairs if pair == (ahead, size)]
    # Several axes of size 1 may match: the last one counts.
    return places[-1] if places else None


def _gather_axis(operand: _Operand, axis: int) -> int | None:
    if operand.number != 1:
        return None
    return axis - int(operand.node.attrs.get("axis", 0))


def _multiply_axis(operand: _Operand, axis: int) -> int | None:
    is_row = axis < len(operand.shape) - 1
    if operand.number != 0 or not is_row:
        return None
    return _keep_axis(operand, axis)


_AXES: Mapping[str, Callable[[_Operand, int], int | None]] = {
    **dict.fromkeys(_ELEMENTWISE, _align_axis),
    **dict.fromkeys("Flatten Reshape Squeeze Unsqueeze".split(), _regroup_axis),
    "Gather": _gather_axis,
    "MatMul": _multiply_axis,
    "Transpose": _transpose_axis,
}
