"""The ONNX graph of a model for given shapes, or for sizes that the model's caller chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from graphshare.analysis.batch_axis import follow_batch
from graphshare.analysis.free_sizes import (
    BATCH,
    Symbol,
    join_places,
    list_trials,
    pick_small,
    suggest_steps,
)
from graphshare.analysis.roles import Kind, Role
from graphshare.checkpoint.load import Shape
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameters import MEMORY
from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.execute.prepare.shape_report import StaticPart, infer_part
from graphshare.export_onnx.dynamic import Variant, generalize, list_constants
from graphshare.export_onnx.translate import OnnxTarget, Translated, translate_graph
from graphshare.formats.model_format import find_format
from graphshare.formats.params.arrays import ArrayReader, record_of_bytes
from graphshare.formats.params.lookup import RecordsByName
from graphshare.formats.params.records import Origin, ParameterFile, Record
from graphshare.ir.graph import Node
from graphshare.ir.onnx import Tensor
from graphshare.ops.attributes import has_np_shape
from graphshare.ops.kernel import Array
from graphshare.ops.registry import name_inputs
from graphshare.ops.translation import Value

_FIXED_BATCH = "leave `dynamic_batch` out, and free the batch of the ONNX file: `gs.reshape(FILE, dynamic_batch=True)`"
_BATCH = 2  # never 1, which broadcasting and squeezing treat in their own way


class TranslationRequest(msgspec.Struct, frozen=True, eq=False):
    """The model to translate: selected outputs, the ``reader`` of parameters, dtypes of inputs, and
    the ``target``.
    """

    source: Checkpoint
    reader: ArrayReader | None
    types: Mapping[str, str]
    targets: Sequence[str]
    as_input: Sequence[str]
    target: OnnxTarget


class Instance(msgspec.Struct, frozen=True, eq=False):
    """A translation for fixed shapes. ``records`` maps its initializers to their records, by name."""

    static: StaticPart
    translated: Translated
    records: Mapping[str, Record]

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        types = find_format(self.translated.graph).types.list_input_types(self.translated.graph)
        shapes: dict[str, tuple[int, ...]] = {}
        for name, stated in types.items():
            _, sizes = stated.parts
            shapes[name] = tuple(int(size or 0) for size in sizes or ())
        return shapes

    def shapes(self, symbols: Sequence[Symbol], sizes: Mapping[str, int]) -> dict[str, Shape]:
        """Return the shapes of the inputs when symbols have these sizes, by variable name."""
        shapes = {name: list(shape) for name, shape in self.input_shapes().items()}
        for symbol in symbols:
            for name, axis in symbol.places:
                shapes[name][axis] = sizes[symbol.name]
        variables = self.translated.variables.items()
        return {node.name: tuple(shapes[name]) for node, name in variables if name in shapes}


def translate_instance(request: TranslationRequest, shapes: Mapping[str, Shape]) -> Instance:
    """Translate a model for fixed shapes of its inputs.

    Raises:
        RefusedError: shapes cannot be inferred, parameters are missing, or nodes have no
            translation.
    """
    source = request.source
    static = infer_part(
        source.graph,
        params=source.parameter_file,
        shapes=shapes,
        types=request.types,
        targets=request.targets,
        as_input=request.as_input,
    )
    variables = [node for node in static.inference.nodes if node.is_variable]
    records = _find_records(variables, static.roles, source.parameter_file)
    values, tensors = _list_weights(records, request.reader)
    translated = translate_graph(static.part, static.inference, values, tensors, request.target)
    by_name = {translated.variables[node]: record for node, record in records.items()}
    return Instance(static, translated, by_name)


def _find_records(
    variables: Sequence[Node], roles: Mapping[Node, Role], file: ParameterFile | None
) -> dict[Node, Record]:
    if file is None:
        return {}
    by_name = RecordsByName(file)
    records: dict[Node, Record] = {}
    for node in variables:
        record = by_name.of(node, auxiliary=roles[node].kind is Kind.AUXILIARY)
        if record is None or record.shape is None or record.dtype is None:
            continue
        records[node] = record
    return records


def _list_weights(
    records: Mapping[Node, Record], reader: ArrayReader | None
) -> tuple[dict[Node, Value], dict[Node, Tensor]]:
    """Return parameters as readable values, and as initializers whose data stays in their records."""
    values: dict[Node, Value] = {}
    tensors: dict[Node, Tensor] = {}
    for node, record in records.items():
        shape, dtype = record.shape_and_dtype()
        tensors[node] = Tensor(dtype, shape, None)
        # numpy has no bfloat16; the reader gives its numbers as float32.
        readable = "float32" if dtype == "bfloat16" else dtype
        values[node] = Value("", shape, readable, _read_later(reader, record))
    return values, tensors


def _read_later(reader: ArrayReader | None, record: Record) -> Callable[[], Array]:
    def read() -> Array:
        assert reader is not None
        return reader.read(record)

    return read


def list_parameters(instance: Instance, source: ParameterFile | None) -> ParameterFile | None:
    """Return a translation's initializers as a parameter index; bytes stay in ``source`` or in
    memory.
    """
    records: list[Record] = []
    constants = dict(list_constants(instance.translated.graph))
    for node in instance.translated.graph.variables():
        if node in constants:
            value = constants[node]
            content = memoryview(value.content or b"")
            records.append(record_of_bytes(node.name, value.dtype, value.shape, content))
        elif node.details.holds_value:
            record = instance.records[node.name]
            origin = record.origin or Origin(record.key, source)
            records.append(replace(record, key=node.name, tied_to=None, origin=origin))
    if not records:
        return None
    if source is None:
        return ParameterFile(MEMORY, 0, "params", tuple(records), named=True)
    return replace(source, records=tuple(records), named=True)


def translate_sizes(
    request: TranslationRequest, instance: Instance, symbols: Sequence[Symbol]
) -> list[Instance]:
    """Return ``instance`` with a graph whose caller chooses the sizes of ``symbols``, and instances
    at other sizes.

    Raises:
        RefusedError: something depends on the sizes in a way that the model cannot compute; the
            nodes are named.
    """
    input_shapes = instance.input_shapes()
    base = {s.name: _BATCH if s.axis == 0 else input_shapes[s.input][s.axis] for s in symbols}

    open_request = replace(request, target=replace(request.target, is_open=True))

    def translate(sizes: Mapping[str, int]) -> Instance:
        return translate_instance(open_request, instance.shapes(symbols, sizes))

    sizes = [base, *list_trials(symbols, base)]
    others = []
    for chosen in sizes:
        try:
            others.append(translate(chosen))
        except RefusedError as error:
            at = ", ".join(f"{name} {size}" for name, size in chosen.items())
            changed = [s for s in symbols if chosen[s.name] != base[s.name]]
            hint = suggest_steps(changed, base, translate)
            faults = []
            for fault in error.faults:
                message = f"with {at}: {fault.message}"
                faults.append(replace(fault, message=message, hint=hint or fault.hint))
            raise RefusedError(faults) from error
    graphs = [other.translated.graph for other in others]
    variants = [Variant(*pair) for pair in zip(graphs, sizes, strict=True)]
    graph = generalize(variants, symbols, others[0].translated.owners)
    translated = replace(instance.translated, graph=graph)
    # A batch may have any size. For other free sizes, each size that was tried is proved, and a
    # small one too if the graph accepts it: a bounded value, such as the best 400 of all anchors,
    # is the same at all large sizes.
    if not any(symbol.axis for symbol in symbols):
        return [replace(instance, translated=translated), others[0]]
    with suppress(RefusedError):
        others.append(translate({**base, **pick_small(symbols, base)}))
    return [replace(instance, translated=translated), *others]


def batch_symbol(instance: Instance) -> Symbol:
    """Return the batch: the first axis of every input, or the second axis for states of an RNN.

    Raises:
        RefusedError: operators mix the samples of a batch.
        UsageError: the model has no inputs.
    """
    left = instance.input_shapes()
    static, names = instance.static, instance.translated.names
    states: set[Node] = set()
    for layer in static.inference.nodes:
        if layer.op != "RNN":
            continue
        named = zip(name_inputs(layer) or (), layer.inputs, strict=False)
        states.update(entry.node for name, entry in named if name in ("state", "state_cell"))
    # States of an RNN have the layers on the first axis, and the batch on the second.
    axes = {node: int(node in states) for node in static.roles if names[node, 0] in left}
    if not axes:
        message = "`dynamic_batch` leaves nothing open: the model has no inputs"
        raise UsageError(Fault(message, hint="leave `dynamic_batch` out"))
    np_shape = has_np_shape(static.part.attrs)
    _, couplings = follow_batch(static.inference.nodes, axes, np_shape=np_shape)
    mixing = [each for each in couplings if not each.only_training]
    faults = [
        Fault(f"{each.node.op} {each.why}", node=each.node.name, hint=_FIXED_BATCH)
        for each in mixing
    ]
    if faults:
        raise RefusedError(faults)
    return join_places(BATCH, [(names[node, 0], axis) for node, axis in axes.items()])
