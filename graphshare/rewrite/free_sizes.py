"""Free sizes that the file fixes: operands and types follow; operators that mix samples are
refused.
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
    """A rewrite that frees sizes: the ``symbols``, the ``batches`` among them, and ``changed``
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
    """Free the sizes of ``symbols``.

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
        if node.op not in _RECURRENT or node.attrs.get("layout", "0") != "0":
            continue
        operands = list_operands(node)
        for entry in filter(None, (*operands[:1], *operands[_STATES])):
            name = _find_whole(entry).node.name
            if name in axes:
                axes[name] = 1
    return axes


def _find_whole(entry: Entry) -> Entry:
    """Return the value that an entry is, or is a part of."""
    while entry.node.op in _PARTS and entry.node.inputs:
        entry = entry.node.inputs[0]
    return entry


def find_batch(inputs: Shapes, axes: Mapping[str, int]) -> Symbol:
    """Return the batch as a size to free. Raises RefusedError if it is missing or not fixed."""
    places = find_batch_places(inputs, axes)
    if not places:
        hint = "free sizes by name with `shapes={'data': ('n', 3, 'h', 'w')}`"
        raise RefusedError(Fault("no input has a batch", hint=hint))
    name, axis = places[0]
    size = inputs[name][axis]
    if not isinstance(size, int):
        message = f"axis {axis} of {name!r} is free already: {size or '?'}"
        hint = "where another axis has the samples, free that by name with `shapes={'data': (None, 'n', None)}`"
        raise RefusedError(Fault(message, hint=hint))
    return join_places(BATCH, places)


def find_batch_places(inputs: Shapes, axes: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return as (input, axis) all ``axes`` of the same size as the surest batch axis.

    An RNN states its batch axis; the first axis of other inputs may be a sequence.
    """
    sizes = {
        (name, axis): inputs[name][axis] for name, axis in axes.items() if axis < len(inputs[name])
    }
    if not sizes:
        return []
    surest = max(sizes, key=lambda place: place[1])
    return [place for place, size in sizes.items() if size == sizes[surest]]


def list_shapes(graph: Graph) -> list[Mapping[str, tuple[int | str | None, ...] | None]]:
    """Return stated shapes of inputs without a value, and of outputs, by name; None without a rank."""
    types = find_format(graph).types
    held = {node.name for node in graph.variables() if node.details.holds_value}
    inputs = types.list_input_types(graph)
    known = types.list_types(graph)
    heads = [list_output_names(head.node)[head.index] for head in graph.heads]
    return [
        {name: kind.parts[1] for name, kind in inputs.items() if name not in held},
        {name: known[name].parts[1] for name in heads if name in known},
    ]


class _Freeing:
    def __init__(
        self, graph: Graph, inputs: Shapes, symbols: Sequence[Symbol], batch_axes: Mapping[str, int]
    ) -> None:
        self.graph, self.symbols = graph, symbols
        self.operator_set = find_format(graph).operator_set(graph) or 1
        self.nodes = topological(graph)
        self.names = {symbol.name for symbol in symbols}
        batch_places = batch_axes.items()
        self.batches = [s.name for s in symbols if not batch_places.isdisjoint(s.places)]
        own = {place: (symbol.name,) for symbol in symbols for place in symbol.places}
        self.inputs: dict[str, Axes] = {}
        for name, shape in inputs.items():
            axes = [
                own.get((name, place), _name_size(name, place, size))
                for place, size in enumerate(shape)
            ]
            self.inputs[name] = tuple(axes)
        numbers = self._read_numbers(inputs, batch_axes)
        message = "is 0 in the file, from which other sizes cannot be inferred"
        faults = [
            Fault(f"the size {symbol.name!r} {message}")
            for symbol in symbols
            if not numbers[symbol.name]
        ]
        UsageError.raise_any(faults)
        fed_variables = [node for node in graph.variables() if node.name in inputs]
        self.fed = find_dependents(self.nodes, fed_variables)
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
                number = _read_number(size, is_batch=place == batch_axes[name])
                for factor in list_names(axis):
                    known = numbers.setdefault(factor, number)
                    if known != number and isinstance(size, int):
                        message = f"the size {factor!r} is {known} in one place of the file and {number} in another"
                        hint = "give the two sizes different names"
                        raise UsageError(Fault(message, node=name, hint=hint))
        return numbers

    def find_types(self, inputs: Shapes, measure: Measure) -> None:
        shapes = self.assumed = {
            name: list(map(self.table.count, axes)) for name, axes in self.inputs.items()
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
        if not unknown:
            return
        try:
            self.shapes.update(measure(unknown, shapes))
        except GraphshareError as error:
            if is_chosen_limit(error):
                raise
            self.unmeasured = error.faults[0].message.splitlines()[0]

    def find_constants(self, evaluate: Evaluate) -> None:
        """Find integers computed only from constants, such as the pads of a padding layer."""
        computable, _ = find_format(self.graph).meaning.find_computable(self.graph, {})
        small = [entry for entry in computable if self._is_small_row(entry)]
        if not small:
            return
        for node, tensor in evaluate(small).items():
            layout = f"<{prod(tensor.shape)}q"
            self.constants[node, 0] = struct.unpack(layout, tensor.content or b"")

    def _is_small_row(self, entry: Entry) -> bool:
        place = (entry.node, entry.index)
        if self.dtypes.get(place) != "int64" or len(entry.node.details.outputs) != 1:
            return False
        return self._is_small(place)

    def _is_small(self, place: Place) -> bool:
        shape = self.shapes.get(place)
        return shape is not None and prod(shape) <= MANY

    def rewrite(self) -> FreedGraph:
        for node in self.graph.variables():
            axes = self.inputs.get(node.name, ())
            if any(map(is_free, axes)):
                self._note(node, 0, axes)
        couplings = follow(self.nodes, self.axes, self._find_places)
        hint = self._hint_at_couplings()
        faults = []
        for coupling in couplings:
            node = coupling.node
            message = f"{node.op} {coupling.why}"
            faults.append(Fault(message, node=node.details.label or node.name, hint=hint))
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
            notes=(*self._describe_layouts(outputs), *self._describe_constants()),
        )

    def _hint_at_couplings(self) -> str:
        if not self.unmeasured:
            return "leave this size fixed, or `gs.extract` the part before"
        row = ", ".join(f"{name} {format_shape(sizes)}" for name, sizes in self.assumed.items())
        return f"give numbers for open sizes with `shapes`: with {row} no shape is known, because {self.unmeasured}"

    def _describe_layouts(self, outputs: Sequence[Axes]) -> Iterator[str]:
        """Yield a note on each output with samples inside an axis, between parts of each other."""
        for head, axes in zip(self.graph.heads, outputs, strict=True):
            for number, axis in enumerate(axes):
                if len(axis) > 1 and self.table.has_batch([axis]):
                    parts = ", ".join(map(_format_factor, axis))
                    name = list_output_names(head.node)[head.index]
                    yield f"output {name!r}: axis {number} is {parts}: the samples are not an axis of their own"

    def _describe_constants(self) -> list[str]:
        """Constants may come from a freed size of the file."""
        free = [symbol for symbol in self.symbols if symbol.name not in self.batches]
        if not free:
            return []
        names = {name for symbol in free for name, _ in symbol.places}
        inputs = [node for node in self.graph.variables() if node.name in names]
        sizes = dict(self.table.numbers)
        for name in {*self.batches, *self.table.before}:
            sizes.pop(name, None)
        constants = FixedConstants(
            self.nodes, inputs, sizes, self.axes, self.shapes, self.constants
        )
        return constants.list_notes()

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
            row = find_row(call)
            self._follow_counts(call, row, places)
            self._check_edits(call, places)
        except SizeRefusal as refusal:
            assumed = [None if shape is None else self._assume(shape) for shape in shapes]
            return assumed, Coupling(node, str(refusal) or UNKNOWN)
        if row is not None:
            self.rows[node, 0] = row
        if call.edits:
            self.edits[node] = call.edits
        known = find_partly_known(call)
        if known is not None:
            self.known[node, 0] = known
        for index, axes in enumerate(outputs):
            if axes is not None:
                self._note(node, index, axes)
        return outputs, None

    def _check_edits(self, call: Call, places: Sequence[Place | None]) -> None:
        for edit in call.edits.values():
            for axis in edit.row:
                names = list_names(axis)
                # A row follows from the shape of a value with the free size as a whole axis.
                if len(names) > 1 or not self.origins.keys() >= set(names):
                    raise SizeRefusal("has a constant that depends on free sizes")
        for number, edit in call.edits.items():
            place = places[number]
            is_fed = place is not None and place[0] in self.fed and place not in self.axes
            if is_fed and not edit.expands:
                raise SizeRefusal("has sizes that the caller feeds")

    def _follow_counts(self, call: Call, row: Axes | None, places: Sequence[Place | None]) -> None:
        """An operator with samples must not compute with their number."""
        if row is not None and not self.table.has_batch(row):
            return
        sized = SIZE_OPERANDS.get(call.node.op, ())
        values = {place for number, place in enumerate(places) if number not in sized}
        has_count = not values.isdisjoint(self.counts)
        if has_count:
            axes = [axis for operand in call.operands for axis in operand.axes or ()]
            call.refuse_batch(axes, "computes with the number of samples")
        if has_count or (row is not None and call.node.op == "Shape"):
            self.counts.update((call.node, index) for index in range(len(call.shapes)))

    def _describe_operand(self, place: Place | None) -> Operand:
        if place is None:
            return Operand()
        axes = self.axes.get(place)
        shape = self.shapes.get(place)
        if not axes:
            axes = None if shape is None else tuple(map(fix, shape))
        row = self._find_row(place)
        known = self._find_known(place, row)
        return Operand(axes, place in self.axes, row, self.dtypes.get(place, ""), known)

    def _find_row(self, place: Place) -> Axes | None:
        numbers = None
        if place not in self.axes:
            numbers = self.constants.get(place, read_numbers(Entry(*place)))
        if numbers is None:
            return self.rows.get(place)
        return tuple(map(fix, numbers))

    def _find_known(self, place: Place, row: Axes | None) -> Known | None:
        if row is not None:
            return tuple(None if is_free(axis) else multiply_numbers(axis) for axis in row)
        if place in self.known:
            return self.known[place]
        is_integer = self.dtypes.get(place) in ("int32", "int64")
        if not is_integer or not self._is_small(place):
            return None
        return (None,) * prod(self.shapes[place])

    def _assume(self, shape: Sequence[int]) -> Axes:
        """After a refusal, later nodes are not refused for the same reason."""
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
                    target = replaced if place in gone else read
                    target.add(entry.node)
            # Values captured by bodies follow the node's operands.
            captured = node.inputs[len(operands) - operands.count(None) :]
            read.update(entry.node for entry in captured)
        return {
            node
            for node in replaced - read
            if node.op == "Constant" or (not node.op and node not in self.fed)
        }

    def _restate(self, node: Node) -> Node:
        """Sizes are named by the user, or open if they follow from others."""
        shapes = {}
        for index in range(len(list_output_names(node))):
            axes = self.axes.get((node, index), ())
            if any(map(is_free, axes)):
                shapes[index] = list(map(self._restate_axis, axes))
        return find_format(self.graph).editing.restate_shapes(node, shapes) if shapes else node

    def _restate_axis(self, axis: Axis) -> int | str | None:
        if not is_free(axis):
            return self.table.count(axis)
        is_named = len(axis) == 1 and axis[0] in self.names
        return str(axis[0]) if is_named else None


def _add_edit(computed: SizeNodes, node: Node, entry: Entry, edit: Edit) -> str:
    """Add nodes for an edit's row (a constant if fixed), and the Expand; return its output's name."""
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
    if not edit.expands:
        return row
    own = list_output_names(entry.node)[entry.index]
    return computed.emit("Expand", (own, row), f"{own}/expanded")


def _redirect(replaced: Mapping[Entry, Entry], entry: Entry, _: Node) -> Entry | None:
    return replaced.get(entry)


def _name_size(name: str, place: int, size: int | str | None) -> Axis:
    if isinstance(size, int):
        return fix(size)
    return (size or f"{name}.{place}",)


def _read_number(size: int | str | None, is_batch: bool) -> int:
    """Return a file's size; one sample for an open batch, else a common size of pictures."""
    if isinstance(size, int):
        return size
    return 1 if is_batch else _ASSUMED


def _format_factor(factor: int | str) -> str:
    """Format a size without a name in the file as ``?``."""
    text = str(factor)
    return "?" if text.startswith("size ") else text
