"""``graphshare inspect``: the summary of a model, its layers and names; for several models, a line
for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import click
import msgspec

from graphshare.api.fingerprint import fingerprint
from graphshare.api.inspect import CheckpointFacts, inspect, inspect_checkpoint, inspect_models
from graphshare.checkpoint.folder import ModelFiles, Sieve, find_named_models, is_folder_of_models
from graphshare.checkpoint.load import Shapes, load
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameters import notes_on
from graphshare.cli import options
from graphshare.cli.command import Command, option
from graphshare.cli.console import align, name_options, put, put_json, put_table, say
from graphshare.cli.output import warn
from graphshare.errors import Fault, GraphshareError, UsageError
from graphshare.files.paths import note_read
from graphshare.formats.facets import StaticType
from graphshare.formats.model_format import find_format
from graphshare.formats.model_names import find_stem
from graphshare.formats.params.records import ParameterFile
from graphshare.inspection.folder import ModelFacts, SharedWeights, count_numbers, find_shared
from graphshare.inspection.graph import Inspection, list_module_names
from graphshare.ir.graph import EMPTY
from graphshare.text.format import (
    format_bytes,
    format_count,
    format_dims,
    format_names,
    format_shape,
)
from graphshare.text.markup import quote_shell
from graphshare.text.urls import redact

if TYPE_CHECKING:
    from graphshare.analysis.cost import LayerCost
    from graphshare.execute.prepare.shape_report import Shaped

_LISTED = 6
_STORED = {
    "once": "stored once",
    "twice": "stored twice, {} each; `graphshare check` compares them",
    "unlike": "stored twice, in unlike types or shapes",
}
_Dims = tuple[int | str | None, ...] | None
_SHOWN = 4
_COUNTS = ("nodes", "parameters", "multiply-adds")
_WIDEST = 60

EXAMPLES = {
    "inspect": [
        ("what is in it", "graphshare inspect lenet"),
        ("shapes and multiply-adds", "graphshare inspect lenet --shape data=1,1,28,28"),
        ("all models of a folder", "graphshare inspect ."),
        ("whether two files are the same model", "graphshare inspect lenet siam --fingerprint"),
        ("what a checkpoint ties", "graphshare inspect gpt"),
        ("several models", "graphshare inspect lenet siam"),
    ],
}


_SINGLE_OPTIONS = (
    options.epoch,
    options.params,
    options.as_input,
    options.as_parameter,
    options.shapes,
    option(
        "--names",
        is_flag=True,
        help="Print all lists of names, the kind of each variable and every shape.",
    ),
    option("--module", is_flag=True, help="Print data_names and label_names for MXNet's Module."),
)


class _Single(msgspec.Struct, frozen=True):
    """The options for one model."""

    epoch: int | None
    params: str | None
    as_input: tuple[str, ...]
    as_parameter: tuple[str, ...]
    shapes: Shapes
    names: bool
    module: bool

    def list_used(self) -> list[str]:
        """Return the options that are given."""
        options = {
            "--epoch": self.epoch is not None,
            "--params": self.params,
            "--as-input": self.as_input,
            "--as-parameter": self.as_parameter,
            "--shape": self.shapes,
            "--names": self.names,
            "--module": self.module,
        }
        return _list_used(options)


@click.command("inspect", cls=Command)
@click.argument("graphs", metavar="GRAPH...", nargs=-1, required=True)
@options.gather(
    "single", _Single.__struct_fields__, _SINGLE_OPTIONS, lambda values: _Single(**values)
)
@option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "jsonl"]),
    default="text",
    help="Output format [text].",
)
@options.answer_file
@options.exclude
@option("--shared", is_flag=True, help="List models with equal arrays, and what `pool` would save.")
@option("--fingerprint", "digests", is_flag=True, help="Print digests of structure and weights.")
@options.max_memory
@options.time_limit
def command(
    graphs: tuple[str, ...],
    single: _Single,
    format_: str,
    exclude: tuple[str, ...],
    shared: bool,
    digests: bool,
) -> int:
    """Summarize inputs, outputs, parameters, costs and layers.

    Shapes follow from --shape, the parameter file and what the graph declares; where they determine
    everything, a table shows each layer. For an ONNX model, --shape and --names show what the file
    states and what ONNX infers. --names adds MXNet's lists of names, in MXNet's order, and why a
    variable is an input or a parameter. JSON output has all of it.

    Of a checkpoint folder (safetensors, an index, config.json) the headers are summed up: shards,
    tensors, types, and what is tied.

    Of several models, or a folder, each gets a line, with the newest of its parameter files; the
    exit code is 2 if a model or one of its parameter files cannot be read.

    --fingerprint prints a digest of the structure and one of the weights. Both ignore names,
    storage, metadata and the order of nodes: equal models have equal ones on every machine. Of
    several models, each line has both and the model.
    """
    graph = graphs[0]
    if len(graphs) > 1 or is_folder_of_models(graph):
        used = single.list_used()
        return _put_several(graphs, exclude, format_, used, shared=shared, digests=digests)
    # A single model has no folder, so there is nothing to exclude.
    Sieve(exclude).refuse_unused()
    if shared:
        raise UsageError(
            Fault("--shared compares models", where=graph, hint="name a folder, or several models")
        )
    model = load(graph, epoch=single.epoch, params=single.params)
    warn(notes_on(model.parameter_file, model.graph))
    if digests:
        mark = fingerprint(model)
        texts = [f"structure {mark.structure}", f"weights   {mark.weights or 'not found'}"]
        _put_either(mark, texts, format_)
    elif single.module:
        found_names = list_module_names(model.graph, held=model.held)
        lines = (f"{k}={v!r}" for k, v in msgspec.structs.asdict(found_names).items())
        _put_either(found_names, lines, format_)
    else:
        _inspect_model(model, single, format_)
    return 0


def _inspect_model(model: Checkpoint, options: _Single, format_: str) -> None:
    """Print the summary of a model; warn of types that ONNX does not infer."""
    types = find_format(model.graph).types
    # Start-up: ONNX's inference is slow to import, and the summary of a model shows nothing of it
    is_plain = format_ == "text" and not (options.shapes or options.names) and types.are_stated
    inspection = inspect(
        model,
        shapes=None if is_plain else options.shapes,
        as_input=options.as_input,
        as_parameter=options.as_parameter,
    )
    reasons = [
        msgspec.structs.replace(role, reason=name_options(role.reason)) for role in inspection.roles
    ]
    inspection = msgspec.structs.replace(inspection, roles=reasons)
    if inspection.shaped is not None and types.are_stated:
        unknown = [output.name for output in inspection.shaped.outputs if output.dtype is None]
        if unknown:
            warn([types.explain_unknown_types(unknown)])
    if format_ != "text":
        put_json(_list_fields(inspection), lines=format_ == "jsonl")
    else:
        _put_inspection(
            inspection,
            model,
            with_layers=bool(options.shapes) or _is_fully_shaped(inspection),
            with_names=options.names,
        )


def _put_either(value: object, lines: Iterable[str], format_: str) -> None:
    put(lines) if format_ == "text" else put_json(value, lines=format_ == "jsonl")


def _put_several(
    graphs: Sequence[str],
    exclude: Sequence[str],
    format_: str,
    used: Sequence[str],
    *,
    shared: bool,
    digests: bool,
) -> int:
    """Print a line for each model, or describe a checkpoint folder; return the exit code.

    ``used`` has the given options that are for one model.
    """
    graph = graphs[0]
    of_graphs = _list_used({"--shared": shared, "--fingerprint": digests})
    sieve = Sieve(exclude)
    models = find_named_models(graphs, sieve, checkpoints=True)
    for model in models:  # including files that a summary does not read
        for path in filter(None, (model.graph, *model.params.values())):
            note_read(path)
    if _is_checkpoint(models, graphs):
        _refuse_options(
            [*used, *of_graphs],
            f"concerns graphs, and {graph} is a checkpoint folder",
            "leave it out",
        )
        return _put_checkpoint(graph, format_)
    what = f"{graph} is a folder" if len(graphs) == 1 else f"there are {len(graphs)}"
    _refuse_options(used, f"concerns one model, and {what}", "inspect the models one at a time")
    if of_graphs:
        models = [model for model in models if model.graph]
        _refuse_options(
            [] if models else of_graphs,
            "concerns graphs, and there are checkpoint folders alone",
            "leave it out",
        )
    folder = {"folder": graph} if len(graphs) == 1 else {}
    if digests:
        return _put_fingerprints(models, format_)
    if shared:
        return _put_shared(models, format_, sieve)
    return _put_models(models, folder, format_, sieve)


def _list_used(options: Mapping[str, object]) -> list[str]:
    return [option for option, value in options.items() if value]


def _refuse_options(used: Sequence[str], why: str, hint: str) -> None:
    """Reject options that do not apply. Raises UsageError with all of them."""
    if used:
        raise UsageError([Fault(f"{option} {why}", hint=hint) for option in used])


def _is_checkpoint(models: Sequence[ModelFiles], graphs: Sequence[str]) -> bool:
    """Whether the only path is a checkpoint folder without other models in it or below it."""
    return (
        len(graphs) == len(models) == 1
        and not models[0].graph
        and models[0].path.rstrip("/") == graphs[0].rstrip("/")
    )


def _put_checkpoint(folder: str, format_: str) -> int:
    facts = inspect_checkpoint(folder)
    warn([str(remark) for remark in facts.remarks])
    _put_either(facts, _format_checkpoint(facts), format_)
    return 0


def _format_checkpoint(facts: CheckpointFacts) -> Iterator[str]:
    files = [facts.folder, format_count(facts.shards, "shard")]
    if facts.index:
        files.append(facts.index)
    yield _line("checkpoint", ", ".join(files))
    architectures = format_names(facts.architectures, _LISTED)
    yield _line("architecture", architectures or "unknown: config.json states none")
    size = f"{format_count(facts.numbers, 'number')}, {format_bytes(facts.size)}"
    yield _line("tensors", f"{facts.tensors:,}: {size}")
    dtypes = [f"{dtype} {format_bytes(size)}" for dtype, size in facts.dtypes.items()]
    yield _line("types", ", ".join(dtypes) or "none")
    yield _line("ties", facts.statement)
    for tie in facts.ties:
        stored = _STORED[tie.stored].format(format_bytes(tie.size))
        yield _line("", f"{tie.name} and {tie.kept}: {stored}")


def _put_shared(models: list[ModelFiles], format_: str, sieve: Sieve) -> int:
    sharing = find_shared(models)
    _put_either(sharing, _format_groups(sharing), format_)
    if format_ != "text":
        return 0
    for note in sieve.notes():
        say(note)
    if sharing.left:
        say(f"left out: {format_names(sharing.left, _SHOWN)}")
    saved = sharing.weights - sharing.distinct
    say(
        f"{format_bytes(sharing.weights)} of weights; `graphshare pool` would save {format_bytes(saved)}"
    )
    return 0


def _format_groups(sharing: SharedWeights) -> Iterator[str]:
    for group in sharing.groups:
        models = format_count(len(group.models), "model")
        yield f"{format_bytes(group.size)} in {models}, {format_count(group.arrays, 'array')}"
        yield from (f"  {model}" for model in group.models)


class _Answers:
    """Print an answer for each model at once, except that JSON is one document and waits for all."""

    def __init__(self, format_: str) -> None:
        self._format = format_
        self._collected: list[object] = []

    def put(self, fields: object, line: str) -> None:
        """Print one model's ``fields`` as JSON, or its ``line`` of text."""
        if self._format == "text":
            put([line])
        elif self._format == "jsonl":
            put_json(fields, lines=True)
        else:
            self._collected.append(fields)

    def finish(self, folder: Mapping[str, str] = EMPTY) -> None:
        """Print the document with the collected answers, and facts of the ``folder``."""
        if self._format == "json":
            put_json({**folder, "models": self._collected})


def _name_models(models: Iterable[ModelFiles]) -> dict[str, str]:
    """Return the name of each model's row by its path: its stem, or the path if others share the
    stem.
    """
    stems = {redact(model.path): find_stem(redact(model.path)) for model in models}
    counts = Counter(stems.values())
    return {path: stem if counts[stem] == 1 else path for path, stem in stems.items()}


def _put_models(
    models: list[ModelFiles], folder: Mapping[str, str], format_: str, sieve: Sieve
) -> int:
    """Return 2 if a model cannot be read, else 0; ``folder`` is set if the models are a whole
    folder's.
    """
    names = _name_models(models)
    width = min(_WIDEST, max(map(len, names.values())))
    if format_ == "text":
        put([f"{'model':{width}}  {'nodes':>7}  {'parameters':>13}  inputs -> outputs"])
    broken, answers = 0, _Answers(format_)
    for files, facts in zip(models, inspect_models(models), strict=True):
        broken += bool(facts.faults)
        answers.put(facts, _format_model(facts, f"{names[redact(files.path)]:{width}}"))
        if format_ == "text":
            warn(facts.remarks)
    answers.finish(folder)
    for note in sieve.notes():
        say(note)
    counts = [format_count(len(models), "model")]
    if broken:
        counts.append(f"{broken} cannot be read")
    if format_ == "text" or broken:
        say(", ".join(counts))
    return 2 if broken else 0


def _put_fingerprints(models: list[ModelFiles], format_: str) -> int:
    broken, answers, names = 0, _Answers(format_), _name_models(models)
    for files in models:
        try:
            mark = fingerprint(load(files.graph, params=files.newest or None))
        except GraphshareError as error:
            broken += 1
            warn([str(fault) for fault in error.faults])
            continue
        fields = {"graph": redact(files.graph), **msgspec.structs.asdict(mark)}
        line = f"{mark.structure} {mark.weights or '-':64} {names[redact(files.graph)]}"
        answers.put(fields, line)
    answers.finish()
    return 2 if broken else 0


def _format_model(facts: ModelFacts, name: str) -> str:
    if facts.faults:
        return f"{name}  error: {'; '.join(_describe(facts))}"
    arrays = format_count(facts.parameters or 0, "array")
    numbers = arrays if facts.numbers is None else f"{facts.numbers:,}"
    if facts.nodes is None:
        return f"{name}  {'-':>7}  {numbers:>13}  {facts.generation}"
    inputs = format_names(facts.inputs, _SHOWN) or "none"
    outputs = format_names(facts.outputs, _SHOWN) or "none"
    return f"{name}  {facts.nodes:7,}  {numbers:>13}  {inputs} -> {outputs}"


def _describe(facts: ModelFacts) -> Iterator[str]:
    """Yield the first faults, with the file unless it is the graph's."""
    for fault in facts.faults[:_SHOWN]:
        where = "" if fault.where == facts.graph else fault.where
        yield str(msgspec.structs.replace(fault, where=where))
    if len(facts.faults) > _SHOWN:
        yield f"and {len(facts.faults) - _SHOWN} more"


def _list_fields(inspection: Inspection) -> dict[str, object]:
    """Return the fields for JSON; shapes and a contradiction only if there are any."""
    fields = msgspec.structs.asdict(inspection)
    return {
        key: value
        for key, value in fields.items()
        if value or key not in ("shaped", "contradiction")
    }


def _put_inspection(
    inspection: Inspection, model: Checkpoint, *, with_layers: bool, with_names: bool
) -> None:
    put(_format_summary(inspection, model, with_layers=with_layers))
    if inspection.shaped is not None and with_layers:
        _put_layers(inspection.shaped, with_costs=find_format(model.graph).knows_operators)
    if with_names:
        put(_format_name_lists(inspection))


def _format_summary(
    inspection: Inspection, model: Checkpoint, *, with_layers: bool
) -> Iterator[str]:
    """Operators are listed unless the layers follow."""
    shapes: dict[str, _Dims] = {}
    if inspection.shaped is not None:
        shapes = {output.name: output.shape for output in inspection.shaped.outputs}
    yield _line("model", _name_files(model))
    format_ = find_format(model.graph)
    types = format_.types.list_types(model.graph)
    yield _line("inputs", _describe_values(inspection.inputs, types, shapes))
    yield _line("outputs", _describe_values(inspection.outputs, types, shapes))
    yield _format_parameters(inspection, model.parameter_file)
    if format_.knows_operators:
        labels = list_module_names(model.graph, held=model.held).label_names
        yield _line("multiply-adds", _format_multiply_adds(inspection, labels, shapes))
    if inspection.contradiction:
        yield _line("contradiction", inspection.contradiction)
    yield _line("generation", format_.describe_version(model.graph))
    if inspection.implied:
        yield _line("implied states", format_names(inspection.implied, _LISTED))
    for what, count in model.graph.source.count_parts(model.graph.nodes).items():
        yield _line(f"{what}s", f"{count:,}")
    if not with_layers:
        counts = [f"{op} {count}" for op, count in inspection.ops.items()]
        yield _line("operators", ", ".join(counts) or "none")


def _name_files(model: Checkpoint) -> str:
    file = model.parameter_file
    if file is None:
        return model.where
    size = format_bytes(file.size)
    if file.path == model.where:
        return f"{model.where} ({size})"
    return f"{model.where}, {file.shown_path} ({size})"


def _line(title: str, text: str) -> str:
    return f"{title:17} {text}"


def _describe_values(
    names: Sequence[str], types: Mapping[str, StaticType], shapes: Mapping[str, _Dims]
) -> str:
    """Return names with their stated types, else with their known shapes."""
    texts = []
    for name in names:
        text = name
        if name in types:
            text = f"{name} {types[name]}"
        elif name in shapes:
            text = f"{name} {format_dims(shapes[name])}"
        texts.append(text)
    return format_names(texts, _LISTED) or "none"


def _format_parameters(inspection: Inspection, file: ParameterFile | None) -> str:
    arrays = format_count(len(inspection.parameters), "array")
    states = len(inspection.auxiliary_states)
    numbers, in_states = _count_weights(inspection)
    if numbers is None:
        numbers = count_numbers(file, inspection.parameters)
        share = f"{states} of them auxiliary states"
    else:
        share = f"{in_states:,} of them in {format_count(states, 'auxiliary state')}"
    text = arrays if numbers is None else f"{numbers:,} in {arrays}"
    return _line("parameters", f"{text}, {share}" if states else text)


def _count_weights(inspection: Inspection) -> tuple[int | None, int]:
    """Return the numbers in parameters and states together, None if a shape is unknown, and those
    in states.
    """
    if inspection.shaped is None:
        return None, 0
    totals = inspection.shaped.totals
    if totals.parameters is None or totals.auxiliary is None:
        return None, 0
    return totals.parameters + totals.auxiliary, totals.auxiliary


def _format_multiply_adds(
    inspection: Inspection, labels: Collection[str], shapes: Mapping[str, _Dims]
) -> str:
    shaped = inspection.shaped
    if shaped is not None and shaped.unsupported:
        return (
            f"unknown: the shapes of {format_names(shaped.unsupported, _LISTED)} cannot be computed"
        )
    if shaped is not None and shaped.totals.multiply_adds is not None:
        text = _count(shaped.totals.multiply_adds)
        if shaped.samples:
            text += f" for one sample of {format_names(shaped.samples, _LISTED)}"
        return text
    if inspection.contradiction:
        return "unknown: shapes in the files contradict each other"
    inputs = [(name, shapes.get(name)) for name in inspection.inputs if name not in labels]
    return _ask_for_shapes([(name, shape) for name, shape in inputs if _is_open(shape)])


def _ask_for_shapes(inputs: Sequence[tuple[str, _Dims]]) -> str:
    """Return the options that give the shapes of ``inputs``, with the sizes that are known."""
    if not inputs:
        return "unknown"
    options = []
    for name, shape in inputs[:_LISTED]:
        sizes = "..." if shape is None else format_shape(shape)[1:-1]
        options.append(f"--shape {quote_shell(name)}={sizes}")
    text = f"unknown: give {' '.join(options)}"
    is_partly_known = any(shape is not None for _, shape in inputs)
    return f"{text} with a size for each ?" if is_partly_known else text


def _is_open(shape: _Dims) -> bool:
    """Whether a size or the rank is unknown; a scalar has no sizes and is known."""
    return shape is None or None in shape


def _is_fully_shaped(inspection: Inspection) -> bool:
    if inspection.shaped is None:
        return False
    layers = inspection.shaped.totals.layers
    shapes = chain.from_iterable(layer.outputs for layer in layers)
    return bool(layers) and not any(map(_is_open, shapes))


def _put_layers(shaped: Shaped, *, with_costs: bool) -> None:
    operators = sorted(
        shaped.totals.operators.items(), key=lambda item: -(item[1].multiply_adds or 0)
    )
    rows: list[tuple[str, ...]] = [("operator", "nodes", "parameters", "multiply-adds")]
    for op, total in operators:
        costs = (_count(total.parameters), _count(total.multiply_adds))
        rows.append((op, f"{total.nodes:,}", *costs))
    _put_costs(rows, with_costs=with_costs)
    rows = [("layer", "operator", "output", "parameters", "multiply-adds")]
    rows += map(_make_row, shaped.totals.layers)
    _put_costs(rows, with_costs=with_costs)


def _put_costs(rows: Sequence[tuple[str, ...]], *, with_costs: bool) -> None:
    """Print a table whose first row has the titles, without its last column if costs are unknown."""
    end = None if with_costs else -1
    titles, *others = [row[:end] for row in rows]
    put([""])
    put_table(titles, others, right=_COUNTS)


def _make_row(layer: LayerCost) -> tuple[str, ...]:
    shapes = format_names(map(format_dims, layer.outputs), 3)
    weights = []
    if layer.parameters != 0:
        weights.append(_count(layer.parameters))
    if layer.shared != 0:
        weights.append(f"{_count(layer.shared)} shared")
    cost = "" if layer.multiply_adds == 0 else _count(layer.multiply_adds)
    return (layer.name, layer.op, shapes, " + ".join(weights), cost)


def _count(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _format_name_lists(inspection: Inspection) -> Iterator[str]:
    yield ""
    for title, names in (
        ("arguments", inspection.arguments),
        ("auxiliary states", inspection.auxiliary_states),
        ("outputs", inspection.outputs),
        ("inputs", inspection.inputs),
        ("parameters", inspection.parameters),
    ):
        yield _line(title, ", ".join(names) or "none")
    yield "variables"
    yield from _indent([(role.name, role.kind, role.reason) for role in inspection.roles])
    if inspection.shaped is not None:
        outputs = inspection.shaped.outputs
        yield "shapes"
        yield from _indent([(o.name, format_dims(o.shape), o.dtype or "?") for o in outputs])


def _indent(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    return (f"  {line}" for line in align(rows or [("none",)]))
