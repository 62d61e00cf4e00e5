"""An inspection as text: the summary, the table of layers, and the lists of names that ``--names`` asks for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from graphshare.checkpoint.model import Checkpoint
from graphshare.cli.console import put
from graphshare.cli.tables import align, put_table
from graphshare.formats.model_format import Capability, find_format
from graphshare.inspection.graph import Inspection, list_module_names
from graphshare.text.format import format_bytes, format_count, format_dims, format_names, format_shape

if TYPE_CHECKING:
    from graphshare.analysis.cost import Layer
    from graphshare.execute.shape_report import Shaped

_SHOWN = 6
Dims = tuple[int | None, ...] | None


def list_fields(found: Inspection) -> dict[str, object]:
    """Return the fields as JSON has them: without shapes, or without a contradiction, where there is none."""
    fields = msgspec.structs.asdict(found)
    return {key: value for key, value in fields.items() if value or key not in ("shaped", "contradiction")}


def put_inspection(found: Inspection, model: Checkpoint, *, with_layers: bool, with_names: bool) -> None:
    """Print the summary, then the layers and the lists of names if they are wanted."""
    put(format_summary(found, model, with_layers=with_layers))
    if found.shaped is not None and with_layers:
        put_layers(found.shaped)
    if with_names:
        put(format_name_lists(found))


def format_summary(found: Inspection, model: Checkpoint, *, with_layers: bool) -> Iterator[str]:
    """Yield inputs, outputs, parameters, multiply-adds, and what the file is; operators unless the layers follow."""
    file = model.parameter_file
    shapes = {} if found.shaped is None else {output.name: output.shape for output in found.shaped.outputs}
    size = "" if file is None else f" ({format_bytes(file.size)})"
    yield _line("model", model.where + ("" if file is None or file.path == model.where else f", {file.shown_path}") + size)
    format_ = find_format(model.graph)
    types = {name: f"{name} {type_}" for name, type_ in format_.list_types(model.graph).items()}
    yield _line("inputs", _name_with_shapes([types.get(name, name) for name in found.inputs], shapes))
    yield _line("outputs", _name_with_shapes([types.get(name, name) for name in found.outputs], shapes))
    yield _format_parameters(found)
    if format_.supports(Capability.SHAPES):
        labels = list_module_names(model.graph, held=model.held).label_names
        yield _line("multiply-adds", _format_multiply_adds(found, labels, shapes))
    if found.contradiction:
        yield _line("contradiction", found.contradiction)
    yield _line("generation", format_.describe_version(model.graph))
    if found.implied:
        yield _line("implied states", format_names(found.implied, _SHOWN))
    yield _line("nodes", f"{found.nodes:,}")
    if not with_layers:
        yield _line("operators", ", ".join(f"{op} {count}" for op, count in found.ops.items()) or "none")


def _line(title: str, text: str) -> str:
    return f"{title:17} {text}"


def _name_with_shapes(names: Sequence[str], shapes: Mapping[str, Dims]) -> str:
    return format_names((f"{n} {format_dims(shapes[n])}" if n in shapes else n for n in names), _SHOWN) or "none"


def _format_parameters(found: Inspection) -> str:
    totals = found.shaped.totals if found.shaped is not None else None
    arrays = format_count(len(found.parameters), "array")
    if totals is not None and (totals.parameters is not None or totals.auxiliary is not None):
        counts = f"{_count(totals.parameters)}, auxiliary states {_count(totals.auxiliary)}"
        return _line("parameter count", f"{counts}; {arrays}")
    states = len(found.auxiliary_states)
    return _line("parameters", arrays + (f", {states} of them auxiliary states" if states else ""))


def _format_multiply_adds(found: Inspection, labels: Collection[str], shapes: Mapping[str, Dims]) -> str:
    shaped = found.shaped
    if shaped is not None and shaped.unsupported:
        return f"unknown: the shapes of {format_names(shaped.unsupported, _SHOWN)} cannot be computed"
    if shaped is not None and shaped.totals.multiply_adds is not None:
        batch = f" for one sample of {format_names(shaped.samples, _SHOWN)}" if shaped.samples else ""
        return _count(shaped.totals.multiply_adds) + batch
    if found.contradiction:
        return "unknown: shapes in the files contradict each other"
    unknown = [name for name in found.inputs if name not in labels and None in (shapes.get(name) or (None,))]
    known = {name: format_shape(shape)[1:-1] for name in unknown if (shape := shapes.get(name)) is not None}
    return "unknown" + (": give " + " ".join(f"--shape {n}={known.get(n, '...')}" for n in unknown[:_SHOWN]) if unknown else "")


def is_fully_shaped(found: Inspection) -> bool:
    """Return whether the shapes of all layers are known, and there are some."""
    layers = found.shaped.totals.layers if found.shaped is not None else []
    return bool(layers) and all(shape is not None and None not in shape for layer in layers for shape in layer.outputs)


def put_layers(shaped: Shaped) -> None:
    """Print the totals by operator and the table of layers, each after an empty line."""
    operators = sorted(shaped.totals.operators.items(), key=lambda item: -(item[1].multiply_adds or 0))
    rows = [(op, f"{of.nodes:,}", _count(of.parameters), _count(of.multiply_adds)) for op, of in operators]
    put([""])
    put_table(("operator", "nodes", "parameters", "multiply-adds"), rows, right=("nodes", "parameters", "multiply-adds"))
    put([""])
    put_table(
        ("layer", "operator", "output", "parameters", "multiply-adds"),
        [_make_row(layer) for layer in shaped.totals.layers],
        right=("parameters", "multiply-adds"),
    )


def _make_row(layer: Layer) -> tuple[str, ...]:
    shapes = format_names(map(format_dims, layer.outputs), 3)
    shared = f"{_count(layer.shared)} shared" if layer.shared != 0 else ""
    parts = ([_count(layer.parameters)] if layer.parameters != 0 else []) + ([shared] if shared else [])
    return layer.name, layer.op, shapes, " + ".join(parts), _count(layer.multiply_adds) if layer.multiply_adds != 0 else ""


def _count(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def format_name_lists(found: Inspection) -> Iterator[str]:
    """Yield, after an empty line, MXNet's lists, the variables with the reason of each kind, and the shapes of all outputs."""
    yield ""
    for title, names in (
        ("arguments", found.arguments),
        ("auxiliary states", found.auxiliary_states),
        ("outputs", found.outputs),
        ("inputs", found.inputs),
        ("parameters", found.parameters),
    ):
        yield _line(title, ", ".join(names) or "none")
    yield "variables"
    yield from (f"  {line}" for line in align([(role.name, role.kind, role.reason) for role in found.roles] or [("none",)]))
    if found.shaped is not None:
        yield "shapes"
        rows = [(output.name, format_dims(output.shape), output.dtype or "?") for output in found.shaped.outputs]
        yield from (f"  {line}" for line in align(rows or [("none",)]))
