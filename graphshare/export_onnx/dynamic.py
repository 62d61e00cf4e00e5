"""Sizes that the caller of a model chooses, such as the batch.

The graph is translated for several sizes, and the translations are compared. What is equal in all of them does not depend on
the sizes. A row of integers that grows with them (the target of a Reshape) is computed in the model from the shape of an input.
Anything else that differs is refused, with its node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from graphshare.errors import Fault, RefusedError
from graphshare.ir.onnx import AttributeValue, Bytes, OnnxGraph, OnnxNode, Tensor, ValueInfo
from graphshare.ops.kernel import Array

_SIZE = "int64"


class Symbol(msgspec.Struct, frozen=True):
    """A size by name: axis ``axis`` of the input ``input`` has it, and ``others`` as (input, axis)."""

    name: str
    input: str
    axis: int
    others: tuple[tuple[str, int], ...] = ()


class Variant(msgspec.Struct, frozen=True, eq=False):
    """A translation, and the ``sizes`` of the symbols in it."""

    graph: OnnxGraph
    sizes: Mapping[str, int]


class Law(msgspec.Struct, frozen=True, eq=False):
    """Integers as ``rest`` plus, for each symbol, ``factors[symbol]`` times its size."""

    factors: Mapping[str, Array]
    rest: Array

    def at(self, sizes: Mapping[str, int]) -> Array:
        """Return the integers for these sizes."""
        values: Array = self.rest.copy()
        for name, factor in self.factors.items():
            values += factor * sizes[name]
        return values


def generalize(variants: Sequence[Variant], symbols: Sequence[Symbol]) -> OnnxGraph:
    """Return the graph that all ``variants`` are instances of.

    Each variant from the second on changes one symbol more than the first does, in the order of ``symbols``; those after them
    confirm what follows from the others.

    Raises:
        RefusedError: nodes depend on the sizes in another way; all are listed.
    """
    return _Generalization(variants, symbols).graph()


class _Generalization:
    def __init__(self, variants: Sequence[Variant], symbols: Sequence[Symbol]) -> None:
        self.variants, self.symbols = variants, symbols
        self.first = variants[0].graph
        self.constants = [{t.name: t for t in v.graph.initializers if isinstance(t.data, Bytes)} for v in variants]
        self.added: dict[str, Tensor] = {}
        self.computed: list[OnnxNode] = []
        self.sizes: dict[str, str] = {}
        self.faults: list[Fault] = []

    def graph(self) -> OnnxGraph:
        """Return the graph with symbolic sizes. Raises RefusedError."""
        whole = self._graph([v.graph for v in self.variants])
        if self.faults:
            raise RefusedError(self.faults)
        nodes = (*self.computed, *whole.nodes)
        used = {name for node in nodes for name in node.reads()}
        kept = [tensor for tensor in self.first.initializers if tensor.name in used]
        return msgspec.structs.replace(whole, nodes=nodes, initializers=(*kept, *self.added.values()))

    def _graph(self, row: Sequence[OnnxGraph]) -> OnnxGraph:
        """Return the graph, or body of a node, with its nodes for all sizes."""
        if len({len(graph.nodes) for graph in row}) != 1:
            raise RefusedError(Fault("the graph has other nodes for other sizes, so its sizes cannot be chosen by the caller"))
        nodes = [self._node(nodes) for nodes in zip(*(graph.nodes for graph in row), strict=True)]
        inputs = [self._value(values) for values in zip(*(graph.inputs for graph in row), strict=True)]
        outputs = [self._value(values) for values in zip(*(graph.outputs for graph in row), strict=True)]
        return OnnxGraph(row[0].name, tuple(nodes), tuple(inputs), tuple(outputs))

    def _node(self, row: Sequence[OnnxNode]) -> OnnxNode:
        """Return one node with its inputs for all sizes."""
        first = row[0]
        if any(_form(n) != _form(first) for n in row):
            self._refuse(first, "is another node for other sizes")
            return first
        attributes = {key: self._attribute(first, [n.attributes.get(key) for n in row]) for key in first.attributes}
        inputs = [self._input(first, names) for names in zip(*(n.inputs for n in row), strict=True)]
        return msgspec.structs.replace(first, inputs=tuple(inputs), attributes=attributes)

    def _attribute(self, node: OnnxNode, values: Sequence[AttributeValue | None]) -> AttributeValue:
        bodies = [x for x in values if isinstance(x, OnnxGraph)]
        if len(bodies) == len(values):
            return self._graph(bodies)
        if not all(_same(values[0], x) for x in values):
            self._refuse(node, "has attributes that depend on the sizes")
        assert values[0] is not None
        return values[0]

    def _input(self, node: OnnxNode, names: Sequence[str]) -> str:
        tensors = [known.get(name) for known, name in zip(self.constants, names, strict=True)]
        constants = [tensor for tensor in tensors if tensor is not None]
        if len(constants) != len(names):
            if len(set(names)) != 1:
                self._refuse(node, "takes other values for other sizes")
            return names[0]
        if len({_content(tensor) for tensor in constants}) == 1:
            return names[0]
        arrays = [_integers(tensor) for tensor in constants]
        law = self._find_law([a for a in arrays if a is not None])
        if law is None:
            self._refuse(node, "has a constant that depends on the sizes")
            return names[0]
        grows = np.any([*law.factors.values()], axis=0)
        if node.op_type == "Reshape" and grows.sum() == 1 and 0 not in law.at(self.variants[0].sizes):
            return self._add_constant(f"{node.name}/shape", np.where(grows, -1, law.rest))
        return self._compute(node, law)

    def _find_law(self, arrays: Sequence[Array]) -> Law | None:
        """Return how rows of integers follow from the sizes; None where they do not."""
        if len(arrays) != len(self.variants) or len({a.shape for a in arrays}) != 1:
            return None
        base = self.variants[0].sizes
        factors = {}
        rest = arrays[0].copy()
        for symbol, variant, array in zip(self.symbols, self.variants[1:], arrays[1:], strict=False):
            step = variant.sizes[symbol.name] - base[symbol.name]
            difference = array - arrays[0]
            if np.any(difference % step):
                return None
            factors[symbol.name] = difference // step
            rest -= factors[symbol.name] * base[symbol.name]
        law = Law(factors, rest)
        holds = all(np.array_equal(law.at(v.sizes), array) for v, array in zip(self.variants, arrays, strict=True))
        return law if holds else None

    def _compute(self, node: OnnxNode, law: Law) -> str:
        """Emit what computes a row of integers from the sizes, and return its name."""
        total = self._add_constant(f"{node.name}/fixed", law.rest)
        for name, factor in law.factors.items():
            if np.any(factor):
                product = f"{node.name}/{name}"
                factors = self._add_constant(f"{product}/factor", factor)
                product = self._emit("Mul", (self._size(name), factors), product)
                total = self._emit("Add", (total, product), f"{product}/sum")
        return total

    def _size(self, name: str) -> str:
        """Return the value that holds the size of a symbol, as a row of one integer."""
        if name not in self.sizes:
            symbol = next(symbol for symbol in self.symbols if symbol.name == name)
            shape = self._emit("Shape", (symbol.input,), f"{symbol.input}/shape")
            axis = self._add_constant(f"{symbol.input}/axis of {name}", np.array([symbol.axis]))
            self.sizes[name] = self._emit("Gather", (shape, axis), f"{symbol.input}/{name}")
        return self.sizes[name]

    def _emit(self, op_type: str, inputs: tuple[str, ...], name: str) -> str:
        taken = sum(1 for node in self.computed if node.name.partition("#")[0] == name)
        name = f"{name}#{taken}" if taken else name
        self.computed.append(OnnxNode(op_type, inputs, (name,), name=name))
        return name

    def _add_constant(self, name: str, values: Array) -> str:
        unique, number = name, 0
        while unique in self.added:
            number += 1
            unique = f"{name}#{number}"
        content = np.ascontiguousarray(values, "<i8").tobytes()
        self.added[unique] = Tensor(unique, _SIZE, values.shape, Bytes(content))
        return unique

    def _value(self, row: Sequence[ValueInfo]) -> ValueInfo:
        """Return an input or output whose sizes are numbers, or texts for those that depend on symbols.

        A size that follows in steps, as behind a pooling, has a name of its own.
        """
        if len({len(value.shape) for value in row}) != 1:
            self.faults.append(Fault(f"{row[0].name!r} has another number of axes for other sizes"))
            return row[0]
        shape = []
        for axis, sizes in enumerate(zip(*(value.shape for value in row), strict=True)):
            law = self._find_law([np.array([size], np.int64) for size in sizes])
            shape.append(f"{row[0].name}.{axis}" if law is None else _describe(law))
        return msgspec.structs.replace(row[0], shape=tuple(shape))

    def _refuse(self, node: OnnxNode, reason: str) -> None:
        hint = "leave this size fixed, or export up to an output before it"
        self.faults.append(Fault(f"{node.op_type} {reason}", node=node.name, hint=hint))


def _describe(law: Law) -> int | str:
    """Return a size as a number, or in terms of the symbols: ``batch``, ``2*batch+1``."""
    terms = []
    for name, (factor,) in law.factors.items():
        if factor:
            terms.append(name if factor == 1 else f"{factor}*{name}")
    rest = int(law.rest[0])
    return "+".join([*terms, *([str(rest)] if rest else [])]) if terms else rest


def _form(node: OnnxNode) -> tuple[object, ...]:
    """Return what a node has for all sizes."""
    return node.op_type, node.outputs, len(node.inputs), node.attributes.keys()


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return _content(first) == _content(second)
    return bool(first == second)


def _content(tensor: Tensor) -> tuple[str, tuple[int, ...], bytes]:
    assert isinstance(tensor.data, Bytes)
    return tensor.dtype, tensor.shape, bytes(tensor.data.content)


def _integers(tensor: Tensor) -> Array | None:
    if tensor.dtype != _SIZE or len(tensor.shape) != 1 or not isinstance(tensor.data, Bytes):
        return None
    return np.frombuffer(tensor.data.content, "<i8").astype(np.int64)
