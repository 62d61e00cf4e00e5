"""Values of a graph that follow from constants and shapes alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeVar

from graphshare.formats.model_format import StaticType
from graphshare.formats.onnx.integer_inputs import read_numbers
from graphshare.formats.onnx.random_operators import DRAWING
from graphshare.formats.onnx.statements import key_of_call, list_functions
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.terms import Place
from graphshare.ir.walk import post_order

_Size = TypeVar("_Size")
_SIZES = frozenset(("Gather", "Shape", "Size"))
"""Operators whose value may follow from shapes."""


def find_computable(graph: Graph, types: Mapping[Place, StaticType]) -> tuple[list[Entry], dict[Place, int | tuple[int, ...]]]:
    """Return the outputs of operators on constants alone that others read, and the sizes that operators return.

    Outputs of operators without a standard meaning, of bodies, and of those that draw numbers are not among them.
    """
    constant: set[Node] = set()
    sizes: dict[Place, int | tuple[int, ...]] = {}
    functions = list_functions(graph)
    read: dict[Place, Entry] = {}
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
            read.update({(e.node, e.index): e for e in node.inputs if e.node in constant})
    read.update({(head.node, head.index): head for head in graph.heads if head.node in constant})
    plain = (entry for (node, _), entry in read.items() if node.op not in ("", "Constant") and (node, 0) not in sizes)
    return list(plain), sizes


def _read_sizes(node: Node, types: Mapping[Place, StaticType]) -> int | tuple[int, ...] | None:
    """Return the value of a Shape, a Size, or a Gather of one size of a Shape, where that follows from the types."""
    if node.op == "Gather":
        source, numbers, kind = node.inputs[0].node, read_numbers(node.inputs[1]), types.get((node, 0))
        shaped = types.get((source.inputs[0].node, source.inputs[0].index)) if source.op == "Shape" and source.inputs else None
        sizes = _choose_axes(source, shaped.parts[1]) if shaped is not None and shaped.parts[1] is not None else None
        if sizes is None or kind is None or numbers is None or len(numbers) != 1 or not -len(sizes) <= numbers[0] < len(sizes):
            return None
        size = sizes[numbers[0]]
        if not isinstance(size, int) or kind.parts[1] not in ((), (1,)):
            return None
        return (size,) if kind.parts[1] else size
    shape = static_shape(types, (node.inputs[0].node, node.inputs[0].index)) if node.inputs else None
    if shape is None:
        return None
    if node.op == "Size":
        return prod(shape)
    return tuple(_choose_axes(node, shape))


def _choose_axes(node: Node, sizes: Sequence[_Size]) -> Sequence[_Size]:
    """Return the sizes of the axes that a Shape counts."""
    return sizes[int(node.attrs.get("start") or 0) : int(node.attrs.get("end") or len(sizes))]


def static_shape(types: Mapping[Place, StaticType], place: Place) -> tuple[int, ...] | None:
    """Return the shape of a value where all of its sizes are known."""
    kind = types.get(place)
    shape = None if kind is None else kind.parts[1]
    return tuple(shape) if shape is not None and all(isinstance(size, int) for size in shape) else None
