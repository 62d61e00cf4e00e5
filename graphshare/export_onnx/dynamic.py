"""Sizes that the caller of a model chooses, such as the batch.

Translations at several sizes are compared: attributes and constants that are equal in all do not
depend on the sizes. A row of integers that grows with them (the target of a Reshape) is computed in
the model from the shape of an input, or of an earlier value if a stride makes the sizes differ.
Numbers that count up along an axis (positions in a sequence) are computed, too. Any other
difference is refused, with its node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np

from graphshare.analysis.free_sizes import Symbol
from graphshare.errors import Fault, RefusedError
from graphshare.formats.facets import TensorType
from graphshare.formats.onnx.compose import (
    ValueScope,
    declare_outputs,
    make_initializer,
    make_input,
)
from graphshare.formats.onnx.stored import find_stored
from graphshare.formats.onnx.types import input_types, output_types
from graphshare.formats.onnx.value_types import find_types
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.onnx import DTYPE_CODES, Dimensions, Tensor, dtype_name
from graphshare.ir.walk import list_output_names, post_order
from graphshare.onnx_ops.size_nodes import SizeNodes, make_row
from graphshare.ops.kernel import Array
from graphshare.text.names import TakenNames

_SIZE = "int64"


class Variant(msgspec.Struct, frozen=True, eq=False):
    """A translation, and the ``sizes`` of the symbols in it."""

    graph: Graph
    sizes: Mapping[str, int]


class Law(msgspec.Struct, frozen=True, eq=False):
    """Integers that are ``rest`` plus ``factors[symbol]`` times the size of each symbol."""

    factors: Mapping[str, Array]
    rest: Array

    def at(self, sizes: Mapping[str, int]) -> Array:
        """Return the integers for these sizes."""
        values: Array = self.rest.copy()
        for name, factor in self.factors.items():
            values += factor * sizes[name]
        return values


def generalize(
    variants: Sequence[Variant], symbols: Sequence[Symbol], owners: Mapping[str, str] = EMPTY
) -> Graph:
    """Return the graph that all ``variants`` are instances of.

    Each variant after the first changes one of ``symbols``, in order; further variants confirm the
    result. ``owners`` maps names of ONNX nodes to names for faults.

    Raises:
        RefusedError: nodes depend on the sizes differently; all are listed.
    """
    return _Generalization(variants, symbols, owners).graph()


class _Generalization:
    def __init__(
        self, variants: Sequence[Variant], symbols: Sequence[Symbol], owners: Mapping[str, str]
    ) -> None:
        self.variants, self.symbols, self.owners = variants, symbols, owners
        self.first = variants[0].graph
        self.constants = [
            {node.name: tensor for node, tensor in list_constants(v.graph)} for v in variants
        ]
        self.scope = ValueScope()
        places = {symbol.name: symbol.places[0] for symbol in symbols}
        self.places: dict[str, tuple[str, int]] = dict(places)
        self.computed = _ExportedSizes(self.scope, self.places, len(self.first.nodes))
        self.faults: list[Fault] = []
        self._types: list[dict[str, tuple[int | str | None, ...]]] | None = None

    def graph(self) -> Graph:
        """Raises RefusedError."""
        row = [v.graph for v in self.variants]
        inputs = self._inputs(row, self.scope)
        initializers = [
            self.scope.define(n) for n in self.first.variables() if n.details.holds_value
        ]
        operators = self._operators(row, self.scope, [EMPTY] * len(row))
        outputs = self._outputs(row, self.scope)
        if self.faults:
            raise RefusedError(self.faults)
        needed = set(post_order(operators))
        # A computed row may have replaced a constant.
        kept = [node for node in initializers if node in needed]
        nodes, heads = declare_outputs(
            (*inputs, *kept, *self.computed.added.values(), *operators), outputs
        )
        return msgspec.structs.replace(self.first, nodes=nodes, heads=heads)

    def _body(self, row: Sequence[Graph], captured: Sequence[Mapping[Node, str]]) -> Graph:
        """Return a node's body for all sizes; ``captured`` are the names of captured values."""
        scope = ValueScope(is_body=True)
        inputs = self._inputs(row, scope)
        operators = self._operators(row, scope, captured)
        return scope.make_body((*inputs, *operators), self._outputs(row, scope), row[0].source)

    def _inputs(self, row: Sequence[Graph], scope: ValueScope) -> list[Node]:
        sizes = zip(*(input_types(graph).items() for graph in row), strict=True)
        return [
            scope.define(make_input(*self._type(name, types)))
            for name, types in map(_join_types, sizes)
        ]

    def _outputs(
        self, row: Sequence[Graph], scope: ValueScope
    ) -> list[tuple[Entry, str, Dimensions]]:
        sizes = zip(*(output_types(graph).items() for graph in row), strict=True)
        typed = [self._type(name, types) for name, types in map(_join_types, sizes)]
        return [(scope.find(name), dtype, shape) for name, dtype, shape in typed]

    def _operators(
        self, row: Sequence[Graph], scope: ValueScope, captured: Sequence[Mapping[Node, str]]
    ) -> list[Node]:
        operators = [[node for node in graph.nodes if node.op] for graph in row]
        if len({len(nodes) for nodes in operators}) != 1:
            pairs = zip(*operators, strict=False)
            node = next(
                (row[0] for row in pairs if any(_form(n) != _form(row[0]) for n in row)),
                max(operators, key=len)[-1],
            )
            message = f"from this {node.op} on the graph has different nodes for different sizes"
            hint = "leave these sizes fixed, or export up to an output before it"
            raise RefusedError(
                Fault(message, node=self.owners.get(_label(node), _label(node)), hint=hint)
            )
        nodes = []
        for each in zip(*operators, strict=True):
            node = self._node(each, scope, captured)
            # Values that a body needs are computed in the graph around it.
            nodes += [*(self.computed.take_nodes() if scope is self.scope else ()), node]
        return nodes

    def _node(
        self, row: Sequence[Node], scope: ValueScope, captured: Sequence[Mapping[Node, str]]
    ) -> Node:
        first = row[0]
        inputs = [_input_names(node, names) for node, names in zip(row, captured, strict=True)]
        if any(_form(n) != _form(first) for n in row):
            self._refuse(first, "differs between sizes")
            return scope.connect(first, inputs[0])
        details = [node.details for node in row]
        if any(other.values != details[0].values for other in details):
            self._refuse(first, "has attributes that depend on the sizes")
        inner = [_name_captures(node, names) for node, names in zip(row, captured, strict=True)]
        bodies = [
            self._body(bodies, inner) for bodies in zip(*(n.subgraphs for n in row), strict=True)
        ]
        names = [self._input(first, names) for names in zip(*inputs, strict=True)]
        return scope.connect(msgspec.structs.replace(first, subgraphs=tuple(bodies)), names)

    def _input(self, node: Node, names: Sequence[str]) -> str:
        """Return an input's name for all sizes, after emitting nodes that compute it if it depends on them."""
        tensors = [known.get(name) for known, name in zip(self.constants, names, strict=True)]
        constants = [tensor for tensor in tensors if tensor is not None]
        if len(constants) != len(names):
            if len(set(names)) != 1:
                self._refuse(node, "reads different values for different sizes")
            return names[0]
        if len({(tensor.dtype, tensor.shape, tensor.content) for tensor in constants}) == 1:
            return names[0]
        computed = self._compute_integers(node, constants) or self._count_up(node, constants)
        if computed is None:
            self._refuse(node, "has a constant that depends on the sizes")
        return computed or names[0]

    def _compute_integers(self, node: Node, constants: Sequence[Tensor]) -> str | None:
        """Emit a row or scalar of integers that follows from the sizes; return its name, None for
        other constants.
        """
        if {(tensor.dtype, len(tensor.shape)) for tensor in constants} not in (
            {(_SIZE, 1)},
            {(_SIZE, 0)},
        ):
            return None
        rows = [read_array(tensor).reshape(-1) for tensor in constants]
        shape = _find_open_shape(rows) if node.op == "Reshape" else None
        if shape is not None:
            return self.computed.add_constant(f"{_label(node)}/shape", shape)
        law = self._find_row(rows, infers=node.op == "Reshape" and 0 not in np.array(rows))
        if law is None:
            return None
        row = self._compute(node, law)
        return (
            row
            if constants[0].shape
            else self.computed.emit("Squeeze", (row,), f"{_label(node)}/number")
        )

    def _count_up(self, node: Node, constants: Sequence[Tensor]) -> str | None:
        """Emit 0, 1, 2... along one axis; return the name, None for other constants."""
        arrays, dtype = [read_array(tensor) for tensor in constants], constants[0].dtype
        longest = max(arrays, key=lambda array: array.size)
        # All elements lie along one axis; the others have size 1.
        axes = [size == longest.size for size in longest.shape]
        if not any(axes) or any(
            x.ndim != longest.ndim or x.shape[axes.index(True)] != x.size for x in arrays
        ):
            return None
        law = self._find_row([np.array([array.size]) for array in arrays])
        if law is None or any(
            not np.array_equal(array.ravel(), np.arange(array.size)) for array in arrays
        ):
            return None
        label, shape = _label(node), np.where(axes, -1, 1).tolist()
        count = self.computed.emit("Squeeze", (self._compute(node, law),), f"{label}/count")
        bounds = (
            self.computed.add_constant(f"{label}/first", 0),
            count,
            self.computed.add_constant(f"{label}/step", 1),
        )
        places = self.computed.emit("Range", bounds, f"{label}/places")
        if dtype != _SIZE:
            places = self.computed.emit(
                "Cast", (places,), f"{label}/{dtype}", {"to": DTYPE_CODES[dtype]}
            )
        return self.computed.emit(
            "Reshape", (places, self.computed.add_constant(f"{label}/axes", shape)), f"{label}/row"
        )

    def _find_law(self, arrays: Sequence[Array]) -> Law | None:
        """Return the law by which rows of integers follow from the sizes; None if they do not."""
        if len(arrays) != len(self.variants) or len({a.shape for a in arrays}) != 1:
            return None
        base = self.variants[0].sizes
        factors = {}
        rest = arrays[0].copy()
        # Further variants only confirm the law.
        for symbol, variant, array in zip(
            self.symbols, self.variants[1:], arrays[1:], strict=False
        ):
            step = variant.sizes[symbol.name] - base[symbol.name]
            difference = array - arrays[0]
            if np.any(difference % step):
                return None
            factors[symbol.name] = difference // step
            rest -= factors[symbol.name] * base[symbol.name]
        law = Law(factors, rest)
        holds = all(
            np.array_equal(law.at(v.sizes), array)
            for v, array in zip(self.variants, arrays, strict=True)
        )
        return law if holds else None

    def _find_row(self, arrays: Sequence[Array], *, infers: bool = False) -> Law | None:
        """Return the law of a row of integers by the symbols or by sizes of earlier values; None if
        there is none.

        With ``infers`` one integer may be -1: it follows from the others.
        """
        if len(arrays) != len(self.variants) or len({a.shape for a in arrays}) != 1:
            return None
        rest = arrays[0].copy()
        factors: dict[str, Array] = {}
        for place in range(len(rest)):
            column = [array[place : place + 1] for array in arrays]
            law = self._find_law(column) or self._find_size(column)
            if law is None and not infers:
                return None
            infers = infers and law is not None
            rest[place] = -1 if law is None else law.rest[0]
            for name, factor in law.factors.items() if law is not None else ():
                factors.setdefault(name, np.zeros_like(rest))[place] = factor[0]
        return Law(factors, rest)

    def _find_size(self, column: Sequence[Array]) -> Law | None:
        numbers = [int(array[0]) for array in column]
        match = next(filter(None, map(partial(_fit, numbers), self._list_sizes())), None)
        if match is None:
            return None
        (value, axis, _), factor, rest = match
        self.places[f"{value}.{axis}"] = value, axis
        return Law({f"{value}.{axis}": np.array([factor])}, np.array([rest]))

    def _list_sizes(self) -> Iterator[tuple[str, int, tuple[int, ...]]]:
        """Yield (name, axis, size in each variant) for axes of earlier values whose sizes differ."""
        if self._types is None:
            self._types = [_infer_shapes(variant.graph) for variant in self.variants]
        for name, entry in self.scope.values.items():
            if entry.node.details.holds_value:  # a constant has only one of the sizes
                continue
            shapes = [types.get(name, ()) for types in self._types]
            if len(set(map(len, shapes))) == 1:
                for axis, sizes in enumerate(zip(*shapes, strict=True)):
                    known = tuple(size for size in sizes if isinstance(size, int))
                    if len(known) == len(sizes) and len(set(known)) > 1:
                        yield name, axis, known

    def _compute(self, node: Node, law: Law) -> str:
        factors = {name: factor.tolist() for name, factor in law.factors.items()}
        return self.computed.compute(_label(node), law.rest.tolist(), factors)

    def _type(self, name: str, row: Sequence[TensorType]) -> tuple[str, str, Dimensions]:
        """Return the name, dtype and shape of an input or output; a size that depends on symbols is
        a text.

        A size without a law, such as one after pooling, gets its own name.
        """
        shapes = [[size for size in stated.shape or () if size is not None] for stated in row]
        if len({len(shape) for shape in shapes}) != 1:
            self.faults.append(Fault(f"{name!r} has different numbers of axes for different sizes"))
            return name, row[0].dtype, []
        shape = []
        for axis, sizes in enumerate(zip(*shapes, strict=True)):
            law = self._find_law([np.array([size], np.int64) for size in sizes])
            shape.append(f"{name}.{axis}" if law is None else _describe(law))
        return name, row[0].dtype, shape

    def _refuse(self, node: Node, reason: str) -> None:
        hint = "leave this size fixed, or export up to an output before it"
        fault = Fault(
            f"{node.op} {reason}", node=self.owners.get(_label(node), _label(node)), hint=hint
        )
        if fault not in self.faults:
            self.faults.append(fault)


_Sizes = tuple[str, int, tuple[int, ...]]


def _fit(column: Sequence[int], sizes: _Sizes) -> tuple[_Sizes, int, int] | None:
    """Return ``sizes``, and the factor and addend that turn them into ``column``, if there are any."""
    known = sizes[2]
    place = next((place for place, size in enumerate(known) if size != known[0]), 0)
    factor, left = divmod(column[place] - column[0], known[place] - known[0])
    rest = column[0] - factor * known[0]
    fits = not left and all(
        factor * size + rest == number for size, number in zip(known, column, strict=True)
    )
    return (sizes, factor, rest) if fits else None


def _infer_shapes(graph: Graph) -> dict[str, tuple[int | str | None, ...]]:
    entries = [
        Entry(node, index)
        for node in graph.nodes
        for index, name in enumerate(list_output_names(node))
        if name
    ]
    types = find_types(graph, entries)
    return {
        list_output_names(node)[index]: tuple(kind.parts[1] or ())
        for (node, index), kind in types.items()
    }


class _ExportedSizes(SizeNodes):
    """Rows of sizes; their constants are initializers, ``added`` by name, numbered from ``count`` on."""

    def __init__(
        self, scope: ValueScope, places: Mapping[str, tuple[str, int]], count: int
    ) -> None:
        super().__init__(places, TakenNames(separator="#").take, scope)
        self.added: dict[str, Node] = {}
        self._count, self._names = count, TakenNames(separator="#")

    def add_constant(self, name: str, values: int | Sequence[int], dtype: str = "int64") -> str:
        unique = self._names.take(name)
        node = make_initializer(unique, make_row(values, dtype), self._count + len(self.added))
        self.added[unique] = self.scope.define(node)
        return unique


def _describe(law: Law) -> int | str:
    """Return a size as a number, or in terms of the symbols: ``batch``, ``2*batch+1``."""
    terms = []
    for name, (factor,) in law.factors.items():
        if factor:
            terms.append(name if factor == 1 else f"{factor}*{name}")
    rest = int(law.rest[0])
    return "+".join([*terms, *([str(rest)] if rest else [])]) if terms else rest


def _join_types(row: Sequence[tuple[str, TensorType]]) -> tuple[str, list[TensorType]]:
    return row[0][0], [stated for _, stated in row]


def _label(node: Node) -> str:
    return node.details.label


def _input_names(node: Node, captured: Mapping[Node, str]) -> list[str]:
    """Return a node's own inputs, without its bodies' captures; omitted inputs have empty names."""
    # Captured values follow the node's own inputs.
    count = len(node.inputs) - sum(len(body.captures) for body in node.subgraphs)
    names = [_name(entry, captured) for entry in node.inputs[:count]]
    for position in node.details.absent:
        names.insert(position, "")
    return names


def _name_captures(node: Node, captured: Mapping[Node, str]) -> dict[Node, str]:
    """Map variables in bodies to the names of the values that they capture."""
    captures = [variable for body in node.subgraphs for variable in body.captures]
    entries = node.inputs[len(node.inputs) - len(captures) :]
    return {
        variable: _name(entry, captured) for variable, entry in zip(captures, entries, strict=True)
    }


def _name(entry: Entry, captured: Mapping[Node, str]) -> str:
    return captured.get(entry.node) or list_output_names(entry.node)[entry.index]


def _form(node: Node) -> tuple[object, ...]:
    """Return the properties of a node that must not depend on sizes."""
    return node.op, list_output_names(node), len(_input_names(node, EMPTY)), node.attrs.keys()


def list_constants(graph: Graph) -> Iterator[tuple[Node, Tensor]]:
    """Yield the initializers whose data is in the graph's own messages."""
    for node in graph.variables():
        stored = find_stored(node.details)
        if stored.tensor is not None and stored.place is not None and not stored.data_in_record:
            content = stored.tensor.file.data[stored.place.start : stored.place.end]
            yield node, Tensor(dtype_name(stored.place.code), stored.place.shape, content)


def read_array(tensor: Tensor) -> Array:
    """Return the array of a constant; bfloat16 as its bits, not for arithmetic."""
    dtype = np.dtype("uint16" if tensor.dtype == "bfloat16" else tensor.dtype).newbyteorder("<")
    array: Array = np.frombuffer(tensor.content or b"", dtype).reshape(tensor.shape)
    return array


def _find_open_shape(rows: Sequence[Array]) -> list[int] | None:
    """Return one shape with a -1 that fits all rows; None if more than one size changes."""
    if len({row.shape for row in rows}) != 1:
        return None
    # -1 stands for the one size that changes, by any law; next to a 0 it would be ambiguous.
    grows = np.any([row != rows[0] for row in rows], axis=0)
    return (
        np.where(grows, -1, rows[0]).tolist()
        if grows.sum() == 1 and 0 not in np.array(rows)
        else None
    )
