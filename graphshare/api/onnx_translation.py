"""The ONNX graph of a model for given shapes, or for sizes that the caller of the model chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphshare.analysis.batch_axis import follow_batch
from graphshare.api.models import Shape
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.execute.static_shapes import StaticPart, infer_part
from graphshare.export_onnx.dynamic import Symbol, Variant, generalize
from graphshare.export_onnx.translate import Translated, translate_graph
from graphshare.export_onnx.weights import list_weights
from graphshare.formats.params.arrays import ArrayReader
from graphshare.ir.graph import Node
from graphshare.text.format import format_count
from graphshare.text.names import did_you_mean

BATCH = "batch"
_BATCHES = (2, 3, 5)  # never 1, which broadcasting and squeezing treat in their own way
_STEPS = (64, 192, 33)  # added to other sizes: networks that halve them take these; the last is odd
DynamicShapes = Mapping[str, Sequence["int | str | None"]]


class Request(msgspec.Struct, frozen=True, eq=False):
    """What is translated: a model up to some outputs, its parameters as ``reader`` reads them, and dtypes of inputs."""

    source: Checkpoint
    reader: ArrayReader | None
    types: Mapping[str, str]
    targets: Sequence[str]
    as_input: Sequence[str]
    opset: int
    name: str
    domain: str


class Instance(msgspec.Struct, frozen=True, eq=False):
    """A translation for fixed shapes."""

    static: StaticPart
    translated: Translated

    def size(self, name: str, axis: int) -> int:
        """Return the size of an input's axis."""
        return self._shape(name)[axis]

    def _shape(self, name: str) -> tuple[int, ...]:
        value = next(value for value in self.translated.graph.inputs if value.name == name)
        return tuple(int(size) for size in value.shape)

    def shapes(self, symbols: Sequence[Symbol], sizes: Mapping[str, int]) -> dict[str, Shape]:
        """Return the shapes of the inputs in which symbols have these sizes."""
        shapes = {value.name: list(self._shape(value.name)) for value in self.translated.graph.inputs}
        for symbol in symbols:
            for name, axis in ((symbol.input, symbol.axis), *symbol.others):
                shapes[name][axis] = sizes[symbol.name]
        return {name: tuple(shape) for name, shape in shapes.items()}


def translate_instance(request: Request, shapes: Mapping[str, Shape]) -> Instance:
    """Translate a model for fixed shapes of its inputs.

    Raises:
        RefusedError: shapes do not follow, parameters are missing, or nodes have no translation; all of a kind are listed.
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
    values, tensors = list_weights(variables, static.roles, source.parameter_file, request.reader)
    translated = translate_graph(
        static.part, static.inference, values, tensors, opset=request.opset, name=request.name, domain=request.domain
    )
    return Instance(static, translated)


def translate_sizes(request: Request, instance: Instance, symbols: Sequence[Symbol]) -> tuple[Instance, Instance]:
    """Return ``instance`` with a graph in which the caller chooses the sizes of ``symbols``, and an instance at other sizes.

    Raises:
        RefusedError: something depends on the sizes in a way that the model cannot compute; the nodes are named.
    """
    base = {s.name: _BATCHES[0] if s.axis == 0 else instance.size(s.input, s.axis) for s in symbols}
    first = translate_instance(request, instance.shapes(symbols, base))
    sizes = [base]
    for symbol in symbols:
        sizes.append({**base, symbol.name: _other(symbol, base, 0)})
    sizes.append({symbol.name: _other(symbol, base, 1) for symbol in symbols})
    variants = [Variant(first.translated.graph, base)]
    for chosen in sizes[1:]:
        try:
            other = translate_instance(request, instance.shapes(symbols, chosen))
        except RefusedError as error:
            at = ", ".join(f"{name} {size}" for name, size in chosen.items())
            raise RefusedError([msgspec.structs.replace(f, message=f"with {at}: {f.message}") for f in error.faults]) from error
        variants.append(Variant(other.translated.graph, chosen))
    odd = {symbol.name: _other(symbol, base, 2) for symbol in symbols}
    try:
        other = translate_instance(request, instance.shapes(symbols, odd))
        variants.append(Variant(other.translated.graph, odd))
    except RefusedError:
        pass  # the graph itself does not take such sizes
    graph = generalize(variants, symbols)
    translated = msgspec.structs.replace(instance.translated, graph=graph)
    return msgspec.structs.replace(instance, translated=translated), first


def _other(symbol: Symbol, base: Mapping[str, int], number: int) -> int:
    if symbol.axis == 0:
        return (_BATCHES[1], _BATCHES[2], _BATCHES[2] + 2)[number]
    return base[symbol.name] + _STEPS[number]


def batch_symbol(instance: Instance) -> Symbol:
    """Return the batch: the first axis of every input, of states of an RNN the second.

    Raises:
        RefusedError: operators mix the samples of a batch; all are listed.
        UsageError: the model has no inputs.
    """
    axes: dict[Node, int] = {}
    left = {value.name for value in instance.translated.graph.inputs}
    for node, role in instance.static.roles.items():
        if instance.translated.names[node, 0] in left:
            axes[node] = 1 if role.is_state and role.user is not None and role.user.op == "RNN" else 0
    if not axes:
        raise UsageError(
            Fault("--dynamic-batch leaves nothing open: the model has no inputs", hint="leave --dynamic-batch out")
        )
    _, couplings = follow_batch(instance.static.inference.nodes, axes)
    faults = [
        Fault(f"{c.node.op} {c.why}", node=c.node.name, hint="export it with a fixed batch: leave --dynamic-batch out")
        for c in couplings
        if not c.only_training
    ]
    if faults:
        raise RefusedError(faults)
    if not axes:
        raise RefusedError(Fault("has no input that could have a batch", hint="leave --dynamic-batch out"))
    first, *others = ((instance.translated.names[node, 0], axis) for node, axis in axes.items())
    return Symbol(BATCH, first[0], first[1], tuple(others))


def list_symbols(dynamic: DynamicShapes, instance: Instance) -> list[Symbol]:
    """Return the sizes that ``dynamic`` names, each with all its places.

    Raises:
        UsageError: an input is not there or has another number of axes, or a size contradicts the shape; all are listed.
    """
    inputs = {value.name: value.shape for value in instance.translated.graph.inputs}
    places: dict[str, list[tuple[str, int]]] = {}
    faults = []
    for name, shape in dynamic.items():
        if name not in inputs:
            faults.append(Fault(f"--dynamic {name!r} is not an input of the model", hint=did_you_mean(name, inputs)))
        elif len(shape) != len(inputs[name]):
            faults.append(Fault(f"--dynamic gives {name!r} {format_count(len(shape), 'axis')}, and it has {len(inputs[name])}"))
        else:
            for axis, size in enumerate(shape):
                if isinstance(size, str):
                    places.setdefault(size, []).append((name, axis))
                elif size is not None and size != inputs[name][axis]:
                    faults.append(Fault(f"--dynamic gives axis {axis} of {name!r} {size}, and its shape {inputs[name][axis]}"))
    if faults:
        raise UsageError(faults)
    return [Symbol(size, *found[0], tuple(found[1:])) for size, found in places.items()]
