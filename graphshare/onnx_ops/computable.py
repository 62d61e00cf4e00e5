"""Values of a graph that follow only from constants and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeVar

from graphshare.formats.facets import StaticType
from graphshare.formats.onnx.statements import key_of_call, list_functions
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.terms import Place
from graphshare.ir.walk import list_operands, post_order
from graphshare.onnx_ops.integer_inputs import read_numbers
from graphshare.onnx_ops.random_operators import DRAWING

_Size = TypeVar("_Size")
_SIZES = frozenset(("Gather", "Shape", "Size", "Slice"))
"""Operators whose value may follow from shapes."""


def find_computable(graph: Graph, types: Mapping[Place, StaticType]) -> tuple[list[Entry], dict[Place, int | tuple[int, ...]]]:
    """Return the outputs of operators with only constant inputs that others read, and the sizes that operators return.

    Outputs of operators without a standard meaning, of bodies, and of those that draw numbers are not among them.
    """
    constant: set[Node] = set()
    sizes: dict[Place, int | tuple[int, ...]] = {}
    functions = list_functions(graph)
    read: list[Entry] = []
    nodes = post_order(head.node for head in graph.heads)
    for node in nodes:
        is_plain = not node.details.domain and not node.subgraphs and key_of_call(node) not in functions
        if not node.op:
            if node.details.holds_value:
                constant.add(node)
        elif is_plain and node.op in _SIZES and (sized := _read_sizes(node, types)) is not None:
            sizes[node, 0] = sized
            constant.add(node)
        elif is_plain and node.op not in DRAWING and all(entry.node in constant for entry in node.inputs):
            constant.add(node)
        else:
            read += node.inputs
    read += graph.heads
    computed = [entry for entry in read if entry.node in constant and entry.node.op not in ("", "Constant")]
    plain = {(entry.node, entry.index): entry for entry in computed if (entry.node, 0) not in sizes}
    return list(plain.values()), sizes


def _read_sizes(node: Node, types: Mapping[Place, StaticType]) -> int | tuple[int, ...] | None:
    """Return the value of a Shape, a Size, or a part of a Shape, where that follows from the types."""
    if node.op in ("Gather", "Slice"):
        if len(node.inputs) < 2:
            return None
        source = node.inputs[0].node
        shaped = types.get((source.inputs[0].node, source.inputs[0].index)) if source.op == "Shape" and source.inputs else None
        sizes = None if shaped is None or shaped.parts[1] is None else _choose_axes(source, shaped.parts[1])
        read = _read_size if node.op == "Gather" else _read_row
        return None if sizes is None else read(node, sizes, types)
    shape = static_shape(types, (node.inputs[0].node, node.inputs[0].index)) if node.inputs else None
    if shape is None:
        return None
    if node.op == "Size":
        return prod(shape)
    return tuple(_choose_axes(node, shape))


def _read_size(node: Node, sizes: Sequence[object], types: Mapping[Place, StaticType]) -> int | tuple[int, ...] | None:
    """Return the size that a Gather takes; None for several of them, and for one that is not known."""
    numbers, kind = read_numbers(node.inputs[1]), types.get((node, 0))
    if kind is None or numbers is None or len(numbers) != 1 or not -len(sizes) <= numbers[0] < len(sizes):
        return None
    size = sizes[numbers[0]]
    if not isinstance(size, int) or kind.parts[1] not in ((), (1,)):
        return None
    return (size,) if kind.parts[1] else size


def _read_row(node: Node, sizes: Sequence[object], types: Mapping[Place, StaticType]) -> tuple[int, ...] | None:
    """Return the sizes that a Slice takes, in order; None where one of them is not known."""
    operands = list_operands(node)[1:]
    start, end = (read_numbers(operands[place]) if place < len(operands) else None for place in (0, 1))
    if start is None or end is None or len(start) != 1 or len(end) != 1:
        return None
    stated = [None if each is None else read_numbers(each) or [] for each in operands[2:4]]
    if any(numbers not in (None, *usual) for numbers, usual in zip(stated, (([0], [-1]), ([1],)), strict=False)):
        return None
    row = sizes[slice(start[0], end[0])]
    known = tuple(size for size in row if isinstance(size, int))
    return known if len(known) == len(row) else None


def _choose_axes(node: Node, sizes: Sequence[_Size]) -> Sequence[_Size]:
    """Return the sizes of the axes that a Shape counts."""
    return sizes[int(node.attrs.get("start") or 0) : int(node.attrs.get("end") or len(sizes))]


def static_shape(types: Mapping[Place, StaticType], place: Place) -> tuple[int, ...] | None:
    """Return the shape of a value where all of its sizes are known."""
    kind = types.get(place)
    shape = None if kind is None else kind.parts[1]
    sizes = tuple([size for size in shape or () if isinstance(size, int)])
    return sizes if shape is not None and len(sizes) == len(shape) else None
