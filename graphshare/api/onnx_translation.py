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
        return {
            name: tuple(int(size or 0) for size in stated.parts[1] or ())
            for name, stated in types.items()
        }

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
    return Instance(
        static, translated, {translated.variables[node]: record for node, record in records.items()}
    )


def _find_records(
    variables: Sequence[Node], roles: Mapping[Node, Role], file: ParameterFile | None
) -> dict[Node, Record]:
    if file is None:
        return {}
    by_name = RecordsByName(file)
    records = {
        node: by_name.of(node, auxiliary=roles[node].kind is Kind.AUXILIARY) for node in variables
    }
    return {
        node: record
        for node, record in records.items()
        if record is not None and record.shape is not None and record.dtype is not None
    }


def _list_weights(
    records: Mapping[Node, Record], reader: ArrayReader | None
) -> tuple[dict[Node, Value], dict[Node, Tensor]]:
    """Return parameters as readable values, and as initializers whose data stays in their records."""
    values: dict[Node, Value] = {}
    tensors: dict[Node, Tensor] = {}
    for node, record in records.items():
        shape, dtype = record.shape_and_dtype()
        # numpy has no bfloat16; the reader gives its numbers as float32.
        values[node] = Value(
            "", shape, "float32" if dtype == "bfloat16" else dtype, _read_later(reader, record)
        )
        tensors[node] = Tensor(dtype, shape, None)
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
            records.append(
                record_of_bytes(
                    node.name, value.dtype, value.shape, memoryview(value.content or b"")
                )
            )
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
            hint = suggest_steps(
                [s for s in symbols if chosen[s.name] != base[s.name]], base, translate
            )
            faults = [
                replace(f, message=f"with {at}: {f.message}", hint=hint or f.hint)
                for f in error.faults
            ]
            raise RefusedError(faults) from error
    variants = [
        Variant(other.translated.graph, chosen) for other, chosen in zip(others, sizes, strict=True)
    ]
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
    # States of an RNN have the layers on the first axis, and the batch on the second.
    layers = (node for node in instance.static.inference.nodes if node.op == "RNN")
    named = (
        pair for node in layers for pair in zip(name_inputs(node) or (), node.inputs, strict=False)
    )
    states = {entry.node for name, entry in named if name in ("state", "state_cell")}
    names = instance.translated.names
    axes = {node: int(node in states) for node in instance.static.roles if names[node, 0] in left}
    if not axes:
        raise UsageError(
            Fault(
                "`dynamic_batch` leaves nothing open: the model has no inputs",
                hint="leave `dynamic_batch` out",
            )
        )
    _, couplings = follow_batch(
        instance.static.inference.nodes, axes, np_shape=has_np_shape(instance.static.part.attrs)
    )
    faults = [
        Fault(f"{c.node.op} {c.why}", node=c.node.name, hint=_FIXED_BATCH)
        for c in couplings
        if not c.only_training
    ]
    if faults:
        raise RefusedError(faults)
    return join_places(BATCH, [(names[node, 0], axis) for node, axis in axes.items()])
