"""Free sizes of a model whose file has them fixed: operands and types follow, and operators that mix samples are refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from graphshare.analysis.batch_axis import Coupling, follow
from graphshare.analysis.free_sizes import BATCH, DynamicShapes, Symbol, choose_symbols, join_places
from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.formats.model_format import find_format
from graphshare.formats.onnx.axis_rules import find_axes
from graphshare.formats.onnx.compose import ValueScope, make_operator, restate_shapes
from graphshare.formats.onnx.free_axes import Axes, Axis, Call, Edit, SizeRefusal, SizeTable, find_row, fix, is_free
from graphshare.formats.onnx.integer_inputs import read_numbers
from graphshare.formats.onnx.size_nodes import SizeNodes, make_row
from graphshare.formats.onnx.stored import TakenNames, outputs_of, source_of
from graphshare.formats.onnx.types import input_types, output_types
from graphshare.ir.graph import Branch, Entry, Graph, Node, Rewrite
from graphshare.ir.rebuild import rebuild, relink_all
from graphshare.ir.walk import list_operands, topological

_ASSUMED = 224  # what a size is taken to be that the file leaves open already
_RECURRENT = ("GRU", "LSTM", "RNN")
_PARTS = ("Cast", "Identity", "Slice", "Split")
_STATES = (0, 5, 6)  # inputs of these that have samples on axis 1
_NO_AXES: Axes = ()


class UnfixedGraph(Rewrite, frozen=True, eq=False, gc=False, kw_only=True):
    """A rewrite that frees sizes: the ``symbols``, which of them are ``batches``, and which operators were ``changed``.

    ``outputs`` are the axes of the heads, ``numbers`` what free sizes are in the file.
    """

    symbols: Sequence[Symbol]
    batches: Collection[str]
    numbers: Mapping[str, int]
    outputs: Sequence[Axes]
    changed: Sequence[Node]


Measure = Callable[[Sequence[Entry], Mapping[str, Sequence[int]]], Mapping[tuple[Node, int], Sequence[int]]]
"""Returns the shapes of values at shapes of inputs by name."""


def unfix(graph: Graph, dynamic: DynamicShapes, dynamic_batch: bool, measure: Measure | None = None) -> UnfixedGraph:
    """Return the rewrite in which the caller chooses the sizes that ``dynamic`` names, or the batch.

    ``measure`` returns shapes that neither the file states nor ONNX infers.

    Raises:
        UsageError: as :func:`choose_symbols`; no size would be free.
        RefusedError: operators mix samples, or take a fixed size where there is a free one; all are listed.
    """
    inputs = _list_inputs(graph)
    axes = _find_batch_axes(graph, inputs)
    symbols = choose_symbols(dynamic, dynamic_batch, inputs, lambda: _find_batch(inputs, axes))
    if not symbols:
        hint = "`dynamic_batch` frees the batch, `dynamic={'data': ('n', 3, 'h', 'w')}` sizes by name"
        raise UsageError(Fault("no size is to be free", hint=hint))
    return _Unfixing(graph, inputs, symbols, axes, measure).rewrite()


def _list_inputs(graph: Graph) -> dict[str, Sequence[int | str | None]]:
    """Return the shapes that the file states of inputs, by name."""
    nodes = [node for node in graph.variables() if not node.details.holds_value]
    types = find_format(graph).find_types(graph, [Entry(node) for node in nodes])
    return {node.name: types[node, 0].parts[1] or () for node in nodes if (node, 0) in types}


def _find_batch_axes(graph: Graph, inputs: Collection[str]) -> dict[str, int]:
    """Return the axis of each input that has the samples: 1 of what goes into an RNN as it is or in part, else the first."""
    axes = dict.fromkeys(inputs, 0)
    for node in graph.nodes:
        if node.op in _RECURRENT and node.attrs.get("layout", "0") == "0":
            operands = list_operands(node)
            for entry in (operands[place] for place in _STATES if place < len(operands)):
                while entry is not None and entry.node.op in _PARTS:
                    entry = entry.node.inputs[0]
                if entry is not None and entry.node.name in axes:
                    axes[entry.node.name] = 1
    return axes


def _find_batch(inputs: Mapping[str, Sequence[int | str | None]], axes: Mapping[str, int]) -> Symbol:
    """Return the batch: that axis of each input which has the size of the first input's."""
    batched = {name: axis for name, axis in axes.items() if axis < len(inputs[name])}
    sizes = {name: inputs[name][axis] for name, axis in batched.items()}
    first = next((size for size in sizes.values() if isinstance(size, int)), None)
    if first is None:
        raise RefusedError(Fault("has no input with a fixed batch", hint="`dynamic` names other sizes"))
    return join_places(BATCH, {name: axis for name, axis in batched.items() if sizes[name] == first})


def list_shapes(graph: Graph) -> list[Mapping[str, tuple[int | str | None, ...]]]:
    """Return the shapes that a file of this graph states of inputs without a value, and those of outputs, by name."""
    held = {node.name for node in graph.variables() if node.details.holds_value}
    inputs = {name: kind for name, kind in input_types(graph).items() if name not in held}
    return [{name: kind.shape or () for name, kind in types.items()} for types in (inputs, output_types(graph))]


class _Unfixing:
    def __init__(
        self,
        graph: Graph,
        inputs: Mapping[str, Sequence[int | str | None]],
        symbols: Sequence[Symbol],
        batch_axes: Mapping[str, int],
        measure: Measure | None,
    ) -> None:
        self.graph, self.symbols = graph, symbols
        self.measured: Mapping[tuple[Node, int], Sequence[int]] = {}
        self.nodes = topological(graph)
        self.axes = {name: [_name_size(name, *pair) for pair in enumerate(shape)] for name, shape in inputs.items()}
        self.batches = [s.name for s in symbols if any(batch_axes[name] == axis for name, axis in s.places)]
        numbers: dict[str, int] = {}
        for symbol in symbols:
            for name, axis in symbol.places:
                self.axes[name][axis] = (symbol.name,)
        for name, axes in self.axes.items():
            for place, (own, size) in enumerate(zip(axes, inputs[name], strict=True)):
                known = size if isinstance(size, int) else 1 if place == batch_axes[name] else _ASSUMED
                for factor in own:
                    if isinstance(factor, str) and numbers.setdefault(factor, known) != known:
                        raise UsageError(Fault(f"{factor!r} would be {numbers[factor]} and {known} in the file", node=name))
        self.table = SizeTable(numbers, self.batches, numbers.keys() - {symbol.name for symbol in symbols})
        shapes = {name: [self.table.count(axis) for axis in axes] for name, axes in self.axes.items()}
        entries = [Entry(node, index) for node in graph.nodes for index, name in enumerate(outputs_of(node)) if name]
        opened = {name: shape for name, shape in shapes.items() if list(shape) != list(inputs[name])}
        self.types = find_format(graph).find_types(graph, entries, shapes=opened, independent=True)
        unknown = [entry for entry in entries if entry.node.op and self._shape_of(entry.node, entry.index) is None]
        self.measured = measure(unknown, shapes) if unknown and measure is not None else {}
        self.found: dict[tuple[Node, int], Axes] = {}
        self.rows: dict[tuple[Node, int], Axes] = {}
        self.edits: dict[Node, dict[int, Edit]] = {}
        self.places: dict[str, tuple[str, int]] = {}

    def rewrite(self) -> UnfixedGraph:
        for node in self.graph.variables():
            if any(map(is_free, self.axes.get(node.name, ()))):
                self._note(node, 0, tuple(self.axes[node.name]))
        couplings = follow(self.nodes, self.found, self._find_places)
        hint = "leave this size fixed, or `graphshare extract` the part before"
        faults = [Fault(f"{c.node.op} {c.why}", node=c.node.details.label or c.node.name, hint=hint) for c in couplings]
        if faults:
            raise RefusedError(faults)
        graph, images = self._rebuild()
        outputs = [self.found.get((head.node, head.index), _NO_AXES) for head in self.graph.heads]
        return UnfixedGraph(
            graph,
            (Branch("", self.graph, images),),
            symbols=self.symbols,
            batches=self.batches,
            numbers=self.table.numbers,
            outputs=outputs,
            changed=[*self.edits],
        )

    def _note(self, node: Node, index: int, axes: Axes) -> None:
        """Keep the axes of a value, and where it has a free size by itself."""
        self.found[node, index] = axes
        for place, axis in enumerate(axes):
            if len(axis) == 1 and isinstance(axis[0], str):
                self.places.setdefault(axis[0], (outputs_of(node)[index], place))

    def _shape_of(self, node: Node, index: int) -> Sequence[int] | None:
        kind = self.types.get((node, index))
        shape: Sequence[Any] | None = None if kind is None else kind.parts[1]
        shape = self.measured.get((node, index), shape)
        return None if shape is None or not all(isinstance(size, int) for size in shape) else shape

    def _find_places(self, node: Node, inputs: Sequence[Axes | None]) -> tuple[Sequence[Axes | None], Coupling | None]:
        entries = list_operands(node)
        keys = [None if entry is None else (entry.node, entry.index) for entry in entries]
        axes = [None if key is None else self._find_axes(key) for key in keys]
        depends = [key is not None and key in self.found for key in keys]
        rows = [None if entry is None else self._find_row(entry) for entry in entries]
        shapes = [self._shape_of(node, index) for index in range(len(outputs_of(node)))]
        kinds = [self.types.get(key) if key is not None else None for key in keys]
        dtypes = ["" if kind is None else kind.parts[0] or "" for kind in kinds]
        version = source_of(self.graph).opsets.get("", 1)
        call = Call(node, version, self.table, axes, depends, rows, shapes, dtypes)
        try:
            places = find_axes(call)
            for edit in call.edits.values():
                self._check_edit(node, edit)
        except SizeRefusal as refusal:
            return [self._assume(shape) for shape in shapes], Coupling(node, str(refusal))
        if call.edits:
            self.edits[node] = call.edits
        row = find_row(call)
        if row is not None:
            self.rows[node, 0] = row
        for index, each in enumerate(places):
            if each is not None and outputs_of(node)[index]:
                self._note(node, index, each)
        return places, None

    def _find_axes(self, key: tuple[Node, int]) -> Axes | None:
        shape = self._shape_of(*key)
        return self.found.get(key) or (None if shape is None else tuple(map(fix, shape)))

    def _find_row(self, entry: Entry) -> Axes | None:
        """Return the sizes in a row of integers, as far as they are known."""
        key = entry.node, entry.index
        if key in self.found:
            return self.rows.get(key)
        numbers = read_numbers(entry)
        return None if numbers is None else tuple(map(fix, numbers))

    def _assume(self, shape: Sequence[int] | None) -> Axes | None:
        """Return the axes of an output behind a refusal, so that what follows is not refused for the same reason."""
        batch = next(iter(self.batches), None)
        if not shape or batch is None or shape[0] != self.table.numbers[batch]:
            return None if shape is None else tuple(map(fix, shape))
        return ((batch,), *map(fix, shape[1:]))

    def _check_edit(self, node: Node, edit: Edit) -> None:
        """Refuse a row that no model computes: of products, and of sizes that no value has by itself."""
        for axis in edit.row:
            names = [factor for factor in axis if isinstance(factor, str)]
            if len(names) > 1 or any(name not in self.places for name in names):
                raise SizeRefusal("has a constant that depends on free sizes")

    def _rebuild(self) -> tuple[Graph, dict[Node, Node]]:
        """Return the graph with all edits, and the images of its nodes."""
        taken = TakenNames(name for node in self.nodes for name in (node.name, node.details.label, *outputs_of(node)))
        scope = ValueScope()

        def add_constant(name: str, values: Sequence[int], dtype: str = "int64") -> str:
            name = taken.take(name)
            made = make_operator("Constant", (name,), {"value": make_row(values, dtype)}, label=name)
            computed.nodes.append(scope.connect(made, ()))
            return name

        computed = SizeNodes(scope, self.places, taken.take, add_constant)
        images: dict[Node, Node] = {}
        nodes: list[Node] = []
        for node in self.nodes:
            inputs = {}
            for place, edit in self.edits.get(node, {}).items():
                label = node.details.label or node.name
                entry = list_operands(node)[place]
                assert entry is not None
                name = self._add_row(computed, add_constant, f"{label}/sizes", edit)
                if edit.expands:
                    own = outputs_of(entry.node)[entry.index]
                    name = computed.emit("Expand", (own, name), f"{own}/expanded")
                inputs[entry] = scope.find(name)
            nodes += computed.nodes
            computed.nodes.clear()
            rebuild([node], self._restate, redirect=partial(_redirect, inputs), images=images)
            nodes.append(scope.define(images[node]))
        heads = relink_all(self.graph.heads, images)
        source = self.graph.source.after_rewrite(images)
        graph = Graph(tuple(nodes), heads, self.graph.attrs, source, self.graph.extra)
        return graph, images

    def _add_row(self, computed: SizeNodes, add_constant: Any, label: str, edit: Edit) -> str:
        """Add what computes a row, or a constant where it is fixed; return its name."""
        factors: dict[str, list[int]] = {}
        rest: list[int] = []
        for place, axis in enumerate(edit.row):
            names = [factor for factor in axis if isinstance(factor, str)]
            times = 1
            for factor in axis:
                times *= factor if isinstance(factor, int) else 1
            rest.append(0 if names else times)
            for name in names:
                factors.setdefault(name, [0] * len(edit.row))[place] = times
        return computed.compute(label, rest, factors) if factors else add_constant(label, rest, edit.dtype)

    def _restate(self, node: Node) -> Node:
        """Return a node whose stated types have free sizes."""
        shapes = {}
        for index in range(len(outputs_of(node))):
            axes = self.found.get((node, index), ())
            if any(map(is_free, axes)):
                shapes[index] = [self._describe(axis) for axis in axes]
        return restate_shapes(node, shapes) if shapes else node

    def _describe(self, axis: Axis) -> int | str | None:
        """Return an axis as a file states it: its number, the name of a size that the user gave, or nothing."""
        if not is_free(axis):
            return self.table.count(axis)
        own = {symbol.name for symbol in self.symbols}
        return axis[0] if len(axis) == 1 and axis[0] in own else None


def _redirect(inputs: Mapping[Entry, Entry], entry: Entry, _: Node) -> Entry | None:
    return inputs.get(entry)


def _name_size(name: str, place: int, size: int | str | None) -> Axis:
    """Return the axis of an input; a size that the file leaves open gets a name where it has none."""
    return fix(size) if isinstance(size, int) else (size or f"{name}.{place}",)
