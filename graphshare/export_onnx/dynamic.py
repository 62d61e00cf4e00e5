"""Sizes that the caller of a model chooses, such as the batch.

Translations at several sizes are compared: attributes and constants that are equal in all do not
depend on the sizes. A row of integers that grows with them (the target of a Reshape) is computed in
the model from the shape of an input, or of an earlier value if a stride makes the sizes differ.
Numbers that count up along an axis (positions in a sequence) are computed, too. Any other
difference is refused, with its node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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
from graphshare.ir.walk import (
    list_bodies,
    list_named_outputs,
    list_operands,
    list_output_names,
    post_order,
)
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
        if len(set(map(len, operators))) != 1:
            pairs = zip(*operators, strict=False)
            unlike = (pair[0] for pair in pairs if not _have_one_form(pair))
            node = next(unlike, max(operators, key=len)[-1])
            message = f"from this {node.op} on the graph has different nodes for different sizes"
            hint = "leave these sizes fixed, or export up to an output before it"
            raise RefusedError(Fault(message, node=self._find_owner(node), hint=hint))
        nodes = []
        for each in zip(*operators, strict=True):
            node = self._node(each, scope, captured)
            # Values that a body needs are computed in the graph around it.
            if scope is self.scope:
                nodes += self.computed.take_nodes()
            nodes.append(node)
        return nodes

    def _node(
        self, row: Sequence[Node], scope: ValueScope, captured: Sequence[Mapping[Node, str]]
    ) -> Node:
        first = row[0]
        inputs = [_input_names(node, names) for node, names in zip(row, captured, strict=True)]
        if not _have_one_form(row):
            self._refuse(first, "differs between sizes")
            return scope.connect(first, inputs[0])
        if any(node.details.values != first.details.values for node in row):
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
        forms = {(tensor.dtype, len(tensor.shape)) for tensor in constants}
        if forms not in ({(_SIZE, 1)}, {(_SIZE, 0)}):
            return None
        rows = [read_array(tensor).reshape(-1) for tensor in constants]
        if len({len(row) for row in rows}) != 1:
            return None
        # -1 stands for a size that follows from the others; next to a 0 it would be ambiguous.
        infers = node.op == "Reshape" and 0 not in np.array(rows)
        shape = _find_open_shape(rows) if infers else None
        if shape is not None:
            return self.computed.add_constant(f"{_label(node)}/shape", shape)
        law = self._find_row(rows, infers=infers)
        if law is None:
            return None
        row = self._compute(node, law)
        if constants[0].shape:
            return row
        return self.computed.emit("Squeeze", (row,), f"{_label(node)}/number")

    def _count_up(self, node: Node, constants: Sequence[Tensor]) -> str | None:
        """Emit 0, 1, 2... along one axis; return the name, None for other constants."""
        arrays, dtype = [read_array(tensor) for tensor in constants], constants[0].dtype
        longest = max(arrays, key=lambda array: array.size)
        # All elements lie along one axis; the others have size 1.
        axes = [size == longest.size for size in longest.shape]
        if not any(axes):
            return None
        axis = axes.index(True)
        if any(x.ndim != longest.ndim or x.shape[axis] != x.size for x in arrays):
            return None
        law = self._find_row([np.array([array.size]) for array in arrays])
        if law is None:
            return None
        if not all(np.array_equal(array.ravel(), np.arange(array.size)) for array in arrays):
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
        """Return the law by which integers, a row per variant, follow from the sizes, if they do."""
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
        rest = arrays[0].copy()
        factors: dict[str, Array] = {}
        for place in range(len(rest)):
            column = [array[place : place + 1] for array in arrays]
            law = self._find_law(column) or self._find_size(column)
            if law is not None:
                rest[place] = law.rest[0]
                for name, factor in law.factors.items():
                    factors.setdefault(name, np.zeros_like(rest))[place] = factor[0]
            elif infers:
                rest[place] = -1
                infers = False
            else:
                return None
        return Law(factors, rest)

    def _find_size(self, column: Sequence[Array]) -> Law | None:
        numbers = [int(array[0]) for array in column]
        for value, axis, sizes in self._list_sizes():
            fit = _fit(numbers, sizes)
            if fit is not None:
                factor, rest = fit
                name = f"{value}.{axis}"
                self.places[name] = value, axis
                return Law({name: np.array([factor])}, np.array([rest]))
        return None

    def _list_sizes(self) -> Iterator[tuple[str, int, tuple[int, ...]]]:
        """Yield (name, axis, size in each variant) for axes of earlier values whose sizes differ."""
        if self._types is None:
            self._types = [_infer_shapes(variant.graph) for variant in self.variants]
        for name, entry in self.scope.values.items():
            if entry.node.details.holds_value:  # a constant has only one of the sizes
                continue
            shapes = [types.get(name, ()) for types in self._types]
            if len(set(map(len, shapes))) != 1:
                continue
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
        fault = Fault(f"{node.op} {reason}", node=self._find_owner(node), hint=hint)
        if fault not in self.faults:
            self.faults.append(fault)

    def _find_owner(self, node: Node) -> str:
        """Return the name for faults of an ONNX node."""
        return self.owners.get(_label(node), _label(node))


def _fit(column: Sequence[int], sizes: Sequence[int]) -> tuple[int, int] | None:
    """Return the factor and addend that turn unequal sizes into ``column``, if there are any."""
    place = next(place for place, size in enumerate(sizes) if size != sizes[0])
    factor, left = divmod(column[place] - column[0], sizes[place] - sizes[0])
    if left:
        return None
    rest = column[0] - factor * sizes[0]
    fits = all(factor * size + rest == number for size, number in zip(sizes, column, strict=True))
    return (factor, rest) if fits else None


def _infer_shapes(graph: Graph) -> dict[str, tuple[int | str | None, ...]]:
    types = find_types(graph, list_named_outputs(graph.nodes))
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
    if not terms:
        return rest
    if rest:
        terms.append(str(rest))
    return "+".join(terms)


def _join_types(row: Sequence[tuple[str, TensorType]]) -> tuple[str, list[TensorType]]:
    return row[0][0], [stated for _, stated in row]


def _label(node: Node) -> str:
    return node.details.label


def _input_names(node: Node, captured: Mapping[Node, str]) -> list[str]:
    """Return a node's own inputs, without its bodies' captures; omitted inputs have empty names."""
    operands = list_operands(node)
    return ["" if entry is None else _name(entry, captured) for entry in operands]


def _name_captures(node: Node, captured: Mapping[Node, str]) -> dict[Node, str]:
    """Map variables in bodies to the names of the values that they capture."""
    names: dict[Node, str] = {}
    for body in list_bodies(node).values():
        for variable, entry in body.captured.items():
            names[variable] = _name(entry, captured)
    return names


def _name(entry: Entry, captured: Mapping[Node, str]) -> str:
    return captured.get(entry.node) or list_output_names(entry.node)[entry.index]


def _form(node: Node) -> tuple[object, ...]:
    """Return the properties of a node that must not depend on sizes."""
    return node.op, list_output_names(node), len(list_operands(node)), node.attrs.keys()


def _have_one_form(row: Sequence[Node]) -> bool:
    first = _form(row[0])
    return all(_form(node) == first for node in row)


def list_constants(graph: Graph) -> Iterator[tuple[Node, Tensor]]:
    """Yield the initializers whose data is in the graph's own messages."""
    for node in graph.variables():
        stored = find_stored(node.details)
        tensor, place = stored.tensor, stored.place
        if tensor is None or place is None or stored.data_in_record:
            continue
        content = tensor.file.data[place.start : place.end]
        yield node, Tensor(dtype_name(place.code), place.shape, content)


def read_array(tensor: Tensor) -> Array:
    """Return the array of a constant; bfloat16 as its bits, not for arithmetic."""
    dtype = np.dtype("uint16" if tensor.dtype == "bfloat16" else tensor.dtype).newbyteorder("<")
    array: Array = np.frombuffer(tensor.content or b"", dtype).reshape(tensor.shape)
    return array


def _find_open_shape(rows: Sequence[Array]) -> list[int] | None:
    """Return one shape with a -1 that fits all rows; None if more than one size changes."""
    grows = np.any([row != rows[0] for row in rows], axis=0)
    # The size that changes may do so by any law.
    return np.where(grows, -1, rows[0]).tolist() if grows.sum() == 1 else None
