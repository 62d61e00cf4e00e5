"""Free sizes of a model whose file has them fixed: operands and types follow, and operators that
mix samples are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from math import prod

from msgspec.structs import replace

from graphshare.analysis.batch_axis import Coupling, follow
from graphshare.analysis.free_sizes import BATCH, Symbol, join_places
from graphshare.errors import Fault, GraphshareError, RefusedError, UsageError
from graphshare.formats.model_format import find_format
from graphshare.ir.graph import Branch, Entry, Graph, Node, Rewrite
from graphshare.ir.onnx import Tensor
from graphshare.ir.rebuild import rebuild, relink_all
from graphshare.ir.walk import (
    find_dependents,
    list_named_outputs,
    list_operands,
    list_output_names,
    topological,
)
from graphshare.onnx_ops.axis_rules import SIZE_OPERANDS, find_axes
from graphshare.onnx_ops.computable import static_shape
from graphshare.onnx_ops.fixed_constants import FixedConstants
from graphshare.onnx_ops.free_axes import (
    Axes,
    Axis,
    Call,
    Edit,
    Operand,
    SizeRefusal,
    SizeTable,
    find_row,
    fix,
    is_free,
    list_names,
    multiply_numbers,
)
from graphshare.onnx_ops.integer_inputs import read_numbers
from graphshare.onnx_ops.partly_known import MANY, Known, find_partly_known
from graphshare.onnx_ops.size_nodes import SizeNodes
from graphshare.ops.batch_axis import UNKNOWN
from graphshare.resources import is_chosen_limit
from graphshare.text.format import format_shape
from graphshare.text.names import TakenNames

_ASSUMED = 224  # the assumed number of a size that the file leaves open already
_RECURRENT = ("GRU", "LSTM", "RNN")
_PARTS = ("Cast", "Identity", "Slice", "Split")
_STATES = slice(5, 7)  # inputs of these that have samples on axis 1, as the first has


class FreedGraph(Rewrite, frozen=True, eq=False, gc=False, kw_only=True):
    """A rewrite that frees sizes: the ``symbols``, the ``batches`` among them, and the ``changed``
    operators.

    ``outputs`` are the axes of the heads, ``numbers`` the values of free sizes in the file;
    ``notes`` are on constants that may come from these, and on outputs with samples inside an axis.
    """

    symbols: Sequence[Symbol]
    batches: Collection[str]
    numbers: Mapping[str, int]
    outputs: Sequence[Axes]
    changed: Sequence[Node]


Shapes = Mapping[str, Sequence[int | str | None]]
Place = tuple[Node, int]
Measure = Callable[[Sequence[Entry], Mapping[str, Sequence[int]]], Mapping[Place, Sequence[int]]]
"""Returns the shapes of values at shapes of inputs by name; raises GraphshareError if that fails.
"""
Evaluate = Callable[[Sequence[Entry]], Mapping[Node, Tensor]]
"""Returns the values of operators with only constant inputs."""


def free_sizes(
    graph: Graph, symbols: Sequence[Symbol], measure: Measure, evaluate: Evaluate
) -> FreedGraph:
    """Let the caller choose the sizes of ``symbols``.

    ``measure`` returns shapes that neither the file states nor ONNX infers, ``evaluate`` integers
    that the file computes.

    Raises:
        UsageError: a size is two numbers in the file, or 0.
        RefusedError: operators mix samples, or need a fixed size where one is free.
    """
    inputs = list_inputs(graph)
    freeing = _Freeing(graph, inputs, symbols, find_batch_axes(graph, inputs))
    freeing.find_types(inputs, measure)
    freeing.find_constants(evaluate)
    return freeing.rewrite()


def list_inputs(graph: Graph) -> Shapes:
    """Return the stated shapes of inputs, by name."""
    nodes = [node for node in graph.variables() if not node.details.holds_value]
    types = find_format(graph).types.find_types(graph, [Entry(node) for node in nodes])
    return {node.name: types[node, 0].parts[1] or () for node in nodes if (node, 0) in types}


def find_batch_axes(graph: Graph, inputs: Collection[str]) -> dict[str, int]:
    """Return the batch axis of each input: 1 where the input or a part of it feeds an RNN, else 0."""
    axes = dict.fromkeys(inputs, 0)
    for node in graph.nodes:
        if node.op in _RECURRENT and node.attrs.get("layout", "0") == "0":
            operands = list_operands(node)
            for entry in filter(None, (*operands[:1], *operands[_STATES])):
                while entry.node.op in _PARTS and entry.node.inputs:
                    entry = entry.node.inputs[0]
                if entry.node.name in axes:
                    axes[entry.node.name] = 1
    return axes


def find_batch(inputs: Shapes, axes: Mapping[str, int]) -> Symbol:
    """Return the batch as a size to free. Raises RefusedError where there is none, or it is not
    fixed.
    """
    places = find_batch_places(inputs, axes)
    if not places:
        raise RefusedError(
            Fault(
                "no input has a batch",
                hint="free sizes by name with `shapes={'data': ('n', 3, 'h', 'w')}`",
            )
        )
    name, axis = places[0]
    if not isinstance(size := inputs[name][axis], int):
        hint = "where another axis has the samples, free that by name with `shapes={'data': (None, 'n', None)}`"
        raise RefusedError(
            Fault(f"axis {axis} of {name!r} is free already: {size or '?'}", hint=hint)
        )
    return join_places(BATCH, places)


def find_batch_places(inputs: Shapes, axes: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return as (input, axis) all ``axes`` of the same size as the surest batch axis.

    That is the axis of an RNN, because the operator states it; the first axis of other inputs may
    be a sequence.
    """
    sizes = {
        (name, axis): inputs[name][axis] for name, axis in axes.items() if axis < len(inputs[name])
    }
    surest = max(sizes, key=lambda place: place[1], default=None)
    return [place for place, size in sizes.items() if size == sizes[surest]] if surest else []


def list_shapes(graph: Graph) -> list[Mapping[str, tuple[int | str | None, ...] | None]]:
    """Return the stated shapes of inputs without a value, and of outputs, by name; None without a
    rank.
    """
    types = find_format(graph).types
    held = {node.name for node in graph.variables() if node.details.holds_value}
    inputs = {
        name: kind for name, kind in types.list_input_types(graph).items() if name not in held
    }
    known, heads = (
        types.list_types(graph),
        [list_output_names(head.node)[head.index] for head in graph.heads],
    )
    outputs = {name: known[name] for name in heads if name in known}
    return [{name: kind.parts[1] for name, kind in row.items()} for row in (inputs, outputs)]


class _Freeing:
    def __init__(
        self, graph: Graph, inputs: Shapes, symbols: Sequence[Symbol], batch_axes: Mapping[str, int]
    ) -> None:
        self.graph, self.symbols = graph, symbols
        self.operator_set = find_format(graph).operator_set(graph) or 1
        self.nodes = topological(graph)
        self.names = {symbol.name for symbol in symbols}
        self.batches = [
            s.name for s in symbols if any(batch_axes[name] == axis for name, axis in s.places)
        ]
        own = {place: (symbol.name,) for symbol in symbols for place in symbol.places}
        self.inputs: dict[str, Axes] = {
            name: tuple(
                [
                    own.get((name, place)) or _name_size(name, place, size)
                    for place, size in enumerate(shape)
                ]
            )
            for name, shape in inputs.items()
        }
        numbers = self._read_numbers(inputs, batch_axes)
        message = "is 0 in the file, from which other sizes cannot be inferred"
        faults = [
            Fault(f"the size {symbol.name!r} {message}")
            for symbol in symbols
            if not numbers[symbol.name]
        ]
        UsageError.raise_any(faults)
        self.fed = find_dependents(
            self.nodes, (node for node in graph.variables() if node.name in inputs)
        )
        self.table = SizeTable(numbers, self.batches, numbers.keys() - self.names)
        self.axes: dict[Place, Axes] = {}
        self.rows: dict[Place, Axes] = {}
        self.known: dict[Place, Known] = {}
        self.constants: dict[Place, Sequence[int]] = {}
        self.edits: dict[Node, dict[int, Edit]] = {}
        self.origins: dict[str, tuple[str, int]] = {}
        self.counts: set[Place] = set()
        self.unmeasured = ""

    def _read_numbers(self, inputs: Shapes, batch_axes: Mapping[str, int]) -> dict[str, int]:
        numbers: dict[str, int] = {}
        for name, shape in inputs.items():
            for place, (axis, size) in enumerate(zip(self.inputs[name], shape, strict=True)):
                # An open size needs some number: one sample, or a common size of pictures.
                number = (
                    size if isinstance(size, int) else 1 if place == batch_axes[name] else _ASSUMED
                )
                for factor in list_names(axis):
                    if numbers.setdefault(factor, number) != number and isinstance(size, int):
                        message = (
                            f"the size {factor!r} is {numbers[factor]} in one place of the file "
                            f"and {number} in another"
                        )
                        raise UsageError(
                            Fault(message, node=name, hint="give the two sizes different names")
                        )
        return numbers

    def find_types(self, inputs: Shapes, measure: Measure) -> None:
        shapes = self.assumed = {
            name: [self.table.count(axis) for axis in axes] for name, axes in self.inputs.items()
        }
        entries = list_named_outputs(self.nodes)
        opened = {name: shape for name, shape in shapes.items() if shape != list(inputs[name])}
        # The file's shapes of inner values are not trusted: a wrong one would free a wrong axis.
        types = find_format(self.graph).types.find_types(
            self.graph, entries, shapes=opened, independent=True
        )
        self.dtypes = {place: kind.parts[0] or "" for place, kind in types.items()}
        self.shapes: dict[Place, Sequence[int]] = {
            place: shape for place in types if (shape := static_shape(types, place)) is not None
        }
        unknown = [
            entry
            for entry in entries
            if entry.node.op and (entry.node, entry.index) not in self.shapes
        ]
        if unknown:
            try:
                self.shapes.update(measure(unknown, shapes))
            except GraphshareError as error:
                if is_chosen_limit(error):
                    raise
                self.unmeasured = error.faults[0].message.splitlines()[0]

    def find_constants(self, evaluate: Evaluate) -> None:
        """Find integers computed only from constants, such as the pads of a padding layer."""
        computable, _ = find_format(self.graph).meaning.find_computable(self.graph, {})
        wanted = [
            e
            for e in computable
            if self.dtypes.get((e.node, e.index)) == "int64" and len(e.node.details.outputs) == 1
        ]
        small = [e for e in wanted if prod(self.shapes.get((e.node, e.index), (MANY + 1,))) <= MANY]
        for node, tensor in (evaluate(small) if small else {}).items():
            self.constants[node, 0] = struct.unpack(
                f"<{prod(tensor.shape)}q", tensor.content or b""
            )

    def rewrite(self) -> FreedGraph:
        for node in self.graph.variables():
            if any(map(is_free, self.inputs.get(node.name, ()))):
                self._note(node, 0, self.inputs[node.name])
        couplings = follow(self.nodes, self.axes, self._find_places)
        hint = "leave this size fixed, or `gs.extract` the part before"
        if self.unmeasured:
            row = ", ".join(f"{name} {format_shape(sizes)}" for name, sizes in self.assumed.items())
            hint = f"give numbers for open sizes with `shapes`: with {row} no shape is known, because {self.unmeasured}"
        faults = [
            Fault(f"{c.node.op} {c.why}", node=c.node.details.label or c.node.name, hint=hint)
            for c in couplings
        ]
        RefusedError.raise_any(faults)
        graph, images = self._rebuild()
        outputs = [self.axes.get((head.node, head.index), ()) for head in self.graph.heads]
        return FreedGraph(
            graph,
            (Branch("", self.graph, images),),
            symbols=self.symbols,
            batches=self.batches,
            numbers=self.table.numbers,
            outputs=outputs,
            changed=[*self.edits],
            notes=(*self._describe_layouts(outputs), *self._find_constants()),
        )

    def _describe_layouts(self, outputs: Sequence[Axes]) -> Iterator[str]:
        """Yield a note on each output that has samples inside an axis, between parts of each other."""
        for head, axes in zip(self.graph.heads, outputs, strict=True):
            for number, axis in enumerate(axes):
                if len(axis) > 1 and self.table.has_batch([axis]):
                    parts = ", ".join(
                        "?" if str(factor).startswith("size ") else str(factor) for factor in axis
                    )
                    name = list_output_names(head.node)[head.index]
                    yield f"output {name!r}: axis {number} is {parts}: the samples are not an axis of their own"

    def _find_constants(self) -> list[str]:
        free = {s.name for s in self.symbols} - set(self.batches)
        if not free:
            return []
        places = {
            name for symbol in self.symbols if symbol.name in free for name, _ in symbol.places
        }
        inputs = [node for node in self.graph.variables() if node.name in places]
        left_out = {*self.batches, *self.table.before}
        sizes = {
            name: number for name, number in self.table.numbers.items() if name not in left_out
        }
        return FixedConstants(
            self.nodes, inputs, sizes, self.axes, self.shapes, self.constants
        ).list_notes()

    def _note(self, node: Node, index: int, axes: Axes) -> None:
        self.axes[node, index] = axes
        for number, axis in enumerate(axes):
            if len(axis) == 1 and isinstance(axis[0], str):
                self.origins.setdefault(axis[0], (list_output_names(node)[index], number))

    def _find_places(
        self, node: Node, inputs: Sequence[Axes | None]
    ) -> tuple[Sequence[Axes | None], Coupling | None]:
        places = [
            None if entry is None else (entry.node, entry.index) for entry in list_operands(node)
        ]
        shapes = [self.shapes.get((node, index)) for index in range(len(list_output_names(node)))]
        call = Call(
            node,
            self.operator_set,
            self.table,
            [self._describe_operand(place) for place in places],
            shapes,
        )
        try:
            outputs = find_axes(call)
            self._follow_counts(call, places)
            self._check_edits(call, places)
        except SizeRefusal as refusal:
            return [None if shape is None else self._assume(shape) for shape in shapes], Coupling(
                node, str(refusal) or UNKNOWN
            )
        if call.edits:
            self.edits[node] = call.edits
        if (row := find_row(call)) is not None:
            self.rows[node, 0] = row
        if (known := find_partly_known(call)) is not None:
            self.known[node, 0] = known
        for index, axes in enumerate(outputs):
            if axes is not None:
                self._note(node, index, axes)
        return outputs, None

    def _check_edits(self, call: Call, places: Sequence[Place | None]) -> None:
        names = [list_names(axis) for edit in call.edits.values() for axis in edit.row]
        # A row is computed from the shape of a value that has the free size on an axis by itself.
        if any(len(row) > 1 or not self.origins.keys() >= set(row) for row in names):
            raise SizeRefusal("has a constant that depends on free sizes")
        replaced = [places[number] for number, edit in call.edits.items() if not edit.expands]
        if any(
            place is not None and place[0] in self.fed and place not in self.axes
            for place in replaced
        ):
            raise SizeRefusal("has sizes that the caller feeds")

    def _follow_counts(self, call: Call, places: Sequence[Place | None]) -> None:
        row = find_row(call)
        sized = SIZE_OPERANDS.get(call.node.op, ())
        counting = [
            number
            for number, place in enumerate(places)
            if place in self.counts and number not in sized
        ]
        if row is not None and not self.table.has_batch(row):
            return
        if counting and any(self.table.has_batch(operand.axes or ()) for operand in call.operands):
            raise SizeRefusal("computes with the number of samples")
        if counting or (row is not None and call.node.op == "Shape"):
            self.counts.update((call.node, index) for index in range(len(call.shapes)))

    def _describe_operand(self, place: Place | None) -> Operand:
        if place is None:
            return Operand()
        shape = self.shapes.get(place)
        return Operand(
            self.axes.get(place) or (None if shape is None else tuple(map(fix, shape))),
            place in self.axes,
            self._find_row(place),
            self.dtypes.get(place, ""),
            self._find_known(place),
        )

    def _find_row(self, place: Place) -> Axes | None:
        numbers = (
            None if place in self.axes else self.constants.get(place, read_numbers(Entry(*place)))
        )
        return self.rows.get(place) if numbers is None else tuple(map(fix, numbers))

    def _find_known(self, place: Place) -> Known | None:
        row = self._find_row(place)
        if row is not None:
            return tuple(None if is_free(axis) else multiply_numbers(axis) for axis in row)
        shape = self.shapes.get(place)
        is_small = (
            self.dtypes.get(place) in ("int32", "int64")
            and shape is not None
            and prod(shape) <= MANY
        )
        return self.known.get(place, (None,) * prod(shape or ()) if is_small else None)

    def _assume(self, shape: Sequence[int]) -> Axes:
        """Return axes after a refusal, so that later nodes are not refused for the same reason."""
        for batch in self.batches:
            if shape and shape[0] == self.table.numbers[batch]:
                return ((batch,), *map(fix, shape[1:]))
        return tuple(map(fix, shape))

    def _rebuild(self) -> tuple[Graph, dict[Node, Node]]:
        taken = TakenNames(
            name
            for node in self.nodes
            for name in (node.name, node.details.label, *list_output_names(node))
        )
        computed = SizeNodes(self.origins, taken.take)
        images: dict[Node, Node] = {}
        nodes: list[Node] = []
        unread = self._list_unread()
        for node in self.nodes:
            if node in unread:
                continue
            operands, replaced = list_operands(node), dict[Entry, Entry]()
            for place, edit in self.edits.get(node, {}).items():
                entry = operands[place]
                assert entry is not None
                replaced[entry] = computed.scope.find(_add_edit(computed, node, entry, edit))
            nodes += computed.take_nodes()
            rebuild([node], self._restate, redirect=partial(_redirect, replaced), images=images)
            nodes.append(computed.scope.define(images[node]))
        source = self.graph.source.after_rewrite(images)
        graph = replace(
            self.graph,
            nodes=tuple(nodes),
            heads=relink_all(self.graph.heads, images),
            source=source,
        )
        return graph, images

    def _list_unread(self) -> set[Node]:
        replaced, read = set[Node](), {head.node for head in self.graph.heads}
        for node in self.nodes:
            operands = list_operands(node)
            gone = {place for place, edit in self.edits.get(node, {}).items() if not edit.expands}
            for place, entry in enumerate(operands):
                if entry is not None:
                    (replaced if place in gone else read).add(entry.node)
            # Values captured by the bodies of a node follow its operands.
            read.update(entry.node for entry in node.inputs[len(operands) - operands.count(None) :])
        return {
            node
            for node in replaced - read
            if node.op == "Constant" or (not node.op and node not in self.fed)
        }

    def _restate(self, node: Node) -> Node:
        """State free sizes: named by the user, or open if they follow from others."""
        shapes = {}
        for index in range(len(list_output_names(node))):
            axes = self.axes.get((node, index), ())
            if any(map(is_free, axes)):
                shapes[index] = list(map(self._restate_axis, axes))
        return find_format(self.graph).editing.restate_shapes(node, shapes) if shapes else node

    def _restate_axis(self, axis: Axis) -> int | str | None:
        if not is_free(axis):
            return self.table.count(axis)
        return str(axis[0]) if len(axis) == 1 and axis[0] in self.names else None


def _add_edit(computed: SizeNodes, node: Node, entry: Entry, edit: Edit) -> str:
    """Add nodes for the row of an edit (a constant where it is fixed), and the Expand; return its
    output's name.
    """
    factors: dict[str, list[int]] = {}
    rest = [0 if is_free(axis) else multiply_numbers(axis) for axis in edit.row]
    for place, axis in enumerate(edit.row):
        for name in list_names(axis):
            factors.setdefault(name, [0] * len(rest))[place] = multiply_numbers(axis)
    label = f"{node.details.label or node.name}/sizes"
    row = (
        computed.compute(label, rest, factors)
        if factors
        else computed.add_constant(label, rest, edit.dtype)
    )
    own = list_output_names(entry.node)[entry.index]
    return computed.emit("Expand", (own, row), f"{own}/expanded") if edit.expands else row


def _redirect(replaced: Mapping[Entry, Entry], entry: Entry, _: Node) -> Entry | None:
    return replaced.get(entry)


def _name_size(name: str, place: int, size: int | str | None) -> Axis:
    return fix(size) if isinstance(size, int) else (size or f"{name}.{place}",)
