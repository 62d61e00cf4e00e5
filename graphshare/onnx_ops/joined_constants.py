"""Constants with numbers for each place of a value that is joined to an axis of a free size.

New tokens after a past of a free length have the places that follow it. An exporter folds the rows of a table, or the cosines
of angles, at these places into a constant. It has a row for each new token, and nothing in it tells the length of the past.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from math import prod

import msgspec

from graphshare.ir.graph import Entry, Node
from graphshare.ir.walk import find_dependents, list_operands
from graphshare.onnx_ops.free_axes import Axes, list_names

_ELEMENTWISE = frozenset("Add Div Mul Sub Where".split())
_REGROUPED = frozenset("Flatten Reshape Squeeze Unsqueeze".split())

Place = tuple[Node, int]
Shapes = Mapping[Place, Sequence[int]]


class JoinedConstant(msgspec.Struct, frozen=True):
    """Operand ``entry`` of ``node``, with numbers along ``axis`` for the places that are joined to the free size ``size``."""

    node: Node
    entry: Entry
    axis: int
    size: str


def find_joined_constants(
    nodes: Sequence[Node], axes: Mapping[Place, Axes], shapes: Shapes, sizes: Collection[str]
) -> Iterator[JoinedConstant]:
    """Yield the constants of operators before a Concat that joins their values to an axis with one of the free ``sizes``.

    ``axes`` has the values that depend on free sizes, ``shapes`` the shapes of all values in the file.
    """
    fed = find_dependents(nodes, (node for node in nodes if not node.op and not node.details.holds_value))
    seen: set[tuple[Place, int]] = set()
    for node in (node for node in nodes if node.op == "Concat"):
        axis = _count_from_first(node, shapes.get((node, 0)))
        joined = [entry for entry in list_operands(node) if entry is not None]
        names = [name for e in joined for name in _list_axis_names(axes.get((e.node, e.index)), axis) if name in sizes]
        if axis is None or not names:
            continue
        starts = [(entry, axis) for entry in joined if (entry.node, entry.index) not in axes and entry.node in fed]
        for reader, operand, own in _walk_back(starts, fed, shapes, seen):
            yield JoinedConstant(reader, operand, own, names[0])


def _walk_back(
    starts: list[tuple[Entry, int]], fed: Collection[Node], shapes: Shapes, seen: set[tuple[Place, int]]
) -> Iterator[tuple[Node, Entry, int]]:
    """Yield the constants before values, each with the elementwise operator that reads it and its axis."""
    while starts:
        entry, at = starts.pop()
        if ((entry.node, entry.index), at) in seen:
            continue
        seen.add(((entry.node, entry.index), at))
        for operand, own in _follow_back(entry, at, shapes):
            if operand.node in fed:
                starts.append((operand, own))
            elif entry.node.op in _ELEMENTWISE:
                yield entry.node, operand, own


def _count_from_first(node: Node, shape: Sequence[int] | None) -> int | None:
    """Return the axis of a Concat, counted from the first; None where its rank is not known."""
    axis = int(node.attrs.get("axis", 0))
    return None if shape is None or not -len(shape) <= axis < len(shape) else axis % len(shape)


def _list_axis_names(axes: Axes | None, axis: int | None) -> list[str]:
    return [] if axes is None or axis is None or axis >= len(axes) else list_names(axes[axis])


def _follow_back(entry: Entry, axis: int, shapes: Shapes) -> Iterator[tuple[Entry, int]]:
    """Yield the operands that have the places on ``axis`` of a value, each with its own axis of these."""
    node, shape = entry.node, shapes.get((entry.node, entry.index))
    if shape is None:
        return
    for number, operand in enumerate(list_operands(node)):
        own = None if operand is None else shapes.get((operand.node, operand.index))
        if operand is None or own is None:
            continue
        at = _find_axis(node, number, axis, shape, own)
        if at is not None and 0 <= at < len(own) and own[at] == shape[axis]:
            yield operand, at


def _find_axis(node: Node, number: int, axis: int, shape: Sequence[int], own: Sequence[int]) -> int | None:
    """Return the axis of an operand of shape ``own`` that becomes ``axis`` of the output; None where there is none."""
    if node.op == "Transpose":
        order = [int(text) for text in node.attrs.get("perm", "").strip("[]").split(", ") if text]
        return order[axis] if order else len(shape) - 1 - axis
    if node.op in _REGROUPED:
        before = [1, *accumulate(own, lambda a, b: a * b)]
        places = [place for place, size in enumerate(own) if before[place] == prod(shape[:axis]) and size == shape[axis]]
        return places[-1] if number == 0 and places else None
    if node.op == "Gather":
        first = int(node.attrs.get("axis", 0))
        return axis - first if number == 1 else None
    if node.op == "MatMul":
        return axis if number == 0 and len(own) == len(shape) and axis < len(shape) - 1 else None
    # Operands of elementwise operators are aligned at the last axis; others have the rank of the output, or other axes.
    if node.op in _ELEMENTWISE or len(own) == len(shape):
        return axis - (len(shape) - len(own))
    return None
