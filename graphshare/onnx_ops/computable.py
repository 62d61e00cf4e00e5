"""Values of a graph that follow only from constants and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeVar

from graphshare.formats.facets import StaticType
from graphshare.formats.onnx.statements import Functions, key_of_call, list_functions
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.terms import Place
from graphshare.ir.walk import find_operand, post_order
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
    computed: set[Node] = set()
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
            if is_constant and node.op != "Constant":
                computed.add(node)
        if is_constant:
            constant.add(node)
        else:
            read += node.inputs
    read += graph.heads
    used = {_get_place(entry): entry for entry in read if entry.node in computed}
    return list(used.values()), sizes


def _is_plain(node: Node, functions: Functions) -> bool:
    return not node.details.domain and not node.subgraphs and key_of_call(node) not in functions


def _read_sizes(node: Node, types: Mapping[Place, StaticType]) -> _Sizes | None:
    """Return the value of a Shape, a Size, or a part of a Shape, from types."""
    if node.op in _PARTS and len(node.inputs) > 1:
        return _read_part(node, types)
    if node.op not in ("Shape", "Size") or not node.inputs:
        return None
    shape = static_shape(types, _get_place(node.inputs[0]))
    if shape is None:
        return None
    if node.op == "Size":
        return prod(shape)
    return tuple(_choose_axes(node, shape))


def _read_part(node: Node, types: Mapping[Place, StaticType]) -> _Sizes | None:
    source = node.inputs[0].node
    if source.op != "Shape" or not source.inputs:
        return None
    sizes = find_sizes(types, _get_place(source.inputs[0]))
    if sizes is None:
        return None
    return _PARTS[node.op](node, _choose_axes(source, sizes), types)


def _read_size(
    node: Node, sizes: Sequence[object], types: Mapping[Place, StaticType]
) -> _Sizes | None:
    """Return the size that a Gather takes; None for several."""
    axis = _read_number(node.inputs[1])
    if axis is None or not -len(sizes) <= axis < len(sizes):
        return None
    size = sizes[axis]
    shape = find_sizes(types, (node, 0))
    if not isinstance(size, int) or shape not in ((), (1,)):
        return None
    return (size,) if shape else size


def _read_row(
    node: Node, sizes: Sequence[object], types: Mapping[Place, StaticType]
) -> tuple[int, ...] | None:
    start, end = _read_number(find_operand(node, 1)), _read_number(find_operand(node, 2))
    if start is None or end is None:
        return None
    # A row has one axis, 0 or -1.
    for place, usual in ((3, ([0], [-1])), (4, ([1],))):
        stated = find_operand(node, place)
        if stated is not None and read_numbers(stated) not in usual:
            return None
    return _list_known(sizes[start:end])


_PARTS = {"Gather": _read_size, "Slice": _read_row}
"""Operators that take a part of a Shape."""


def _read_number(entry: Entry | None) -> int | None:
    """Return the number of a constant of one integer; None for other values."""
    numbers = read_numbers(entry)
    return numbers[0] if numbers is not None and len(numbers) == 1 else None


def _list_known(sizes: Sequence[object]) -> tuple[int, ...] | None:
    """Return sizes if all are known."""
    known = tuple([size for size in sizes if isinstance(size, int)])
    return known if len(known) == len(sizes) else None


def _choose_axes(node: Node, sizes: Sequence[_Size]) -> Sequence[_Size]:
    start, end = node.attrs.get("start") or 0, node.attrs.get("end") or len(sizes)
    return sizes[int(start) : int(end)]


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
    sizes = find_sizes(types, place)
    return None if sizes is None else _list_known(sizes)
