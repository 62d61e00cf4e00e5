"""Values of a graph that follow only from constants and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeVar

from graphshare.formats.facets import StaticType
from graphshare.formats.onnx.statements import Functions, key_of_call, list_functions
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.terms import Place
from graphshare.ir.walk import list_operands, post_order
from graphshare.onnx_ops.integer_inputs import read_numbers
from graphshare.onnx_ops.random_operators import DRAWING

_Size = TypeVar("_Size")
_Sizes = int | tuple[int, ...]


def find_computable(
    graph: Graph, types: Mapping[Place, StaticType]
) -> tuple[list[Entry], dict[Place, _Sizes]]:
    """Return the used outputs that only constants determine, and the sizes that operators return.

    Operators without a standard meaning, with bodies, or that draw random numbers are left out.
    """
    constant: set[Node] = set()
    sizes: dict[Place, _Sizes] = {}
    functions = list_functions(graph)
    read: list[Entry] = []
    for node in post_order(head.node for head in graph.heads):
        if not node.op:
            is_constant = node.details.holds_value
        elif not _is_plain(node, functions):
            is_constant = False
        elif (sized := _read_sizes(node, types)) is not None:
            sizes[node, 0] = sized
            is_constant = True
        else:
            is_constant = node.op not in DRAWING and all(
                entry.node in constant for entry in node.inputs
            )
        if is_constant:
            constant.add(node)
        else:
            read += node.inputs
    read += graph.heads
    computed = {
        node for node in constant if node.op not in ("", "Constant") and (node, 0) not in sizes
    }
    return list(
        {(entry.node, entry.index): entry for entry in read if entry.node in computed}.values()
    ), sizes


def _is_plain(node: Node, functions: Functions) -> bool:
    return not node.details.domain and not node.subgraphs and key_of_call(node) not in functions


def _read_sizes(node: Node, types: Mapping[Place, StaticType]) -> _Sizes | None:
    """Return the value of a Shape, a Size, or a part of a Shape, from types."""
    if node.op in _PARTS and len(node.inputs) > 1:
        source = node.inputs[0].node
        sizes = (
            find_sizes(types, _get_place(source.inputs[0]))
            if source.op == "Shape" and source.inputs
            else None
        )
        return None if sizes is None else _PARTS[node.op](node, _choose_axes(source, sizes), types)
    if node.op not in ("Shape", "Size") or not node.inputs:
        return None
    shape = static_shape(types, _get_place(node.inputs[0]))
    if shape is None:
        return None
    return prod(shape) if node.op == "Size" else tuple(_choose_axes(node, shape))


def _read_size(
    node: Node, sizes: Sequence[object], types: Mapping[Place, StaticType]
) -> _Sizes | None:
    """Return the size that a Gather takes; None for several."""
    numbers, shape = read_numbers(node.inputs[1]), find_sizes(types, (node, 0))
    if numbers is None or len(numbers) != 1 or not -len(sizes) <= numbers[0] < len(sizes):
        return None
    size = sizes[numbers[0]]
    if not isinstance(size, int) or shape not in ((), (1,)):
        return None
    return (size,) if shape else size


def _read_row(
    node: Node, sizes: Sequence[object], types: Mapping[Place, StaticType]
) -> tuple[int, ...] | None:
    operands = list_operands(node)[1:]
    start, end = (
        read_numbers(operands[place]) if place < len(operands) else None for place in (0, 1)
    )
    if start is None or end is None or len(start) != 1 or len(end) != 1:
        return None
    stated = [None if each is None else read_numbers(each) or [] for each in operands[2:4]]
    if any(
        numbers not in (None, *usual)
        for numbers, usual in zip(stated, (([0], [-1]), ([1],)), strict=False)
    ):
        return None
    row = sizes[slice(start[0], end[0])]
    known = tuple(size for size in row if isinstance(size, int))
    return known if len(known) == len(row) else None


_PARTS = {"Gather": _read_size, "Slice": _read_row}
"""Operators that take a part of a Shape."""


def _choose_axes(node: Node, sizes: Sequence[_Size]) -> Sequence[_Size]:
    return sizes[int(node.attrs.get("start") or 0) : int(node.attrs.get("end") or len(sizes))]


def _get_place(entry: Entry) -> Place:
    return entry.node, entry.index


def find_sizes(
    types: Mapping[Place, StaticType], place: Place
) -> Sequence[int | str | None] | None:
    """Return the sizes of a value if its rank is known."""
    kind = types.get(place)
    return None if kind is None else kind.parts[1]


def static_shape(types: Mapping[Place, StaticType], place: Place) -> tuple[int, ...] | None:
    """Return the shape of a value if all sizes are known."""
    shape = find_sizes(types, place)
    sizes = tuple([size for size in shape or () if isinstance(size, int)])
    return sizes if shape is not None and len(sizes) == len(shape) else None
