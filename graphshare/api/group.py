"""``group``: join several models in one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from graphshare.analysis.name_lists import find_outputs, output_name
from graphshare.api.share import refuse_unused
from graphshare.api.stated_types import find_untyped, parse_types, refuse_types, state_untyped
from graphshare.arguments import Text
from graphshare.checkpoint.load import (
    Model,
    Names,
    Shapes,
    as_checkpoint,
    as_names,
    as_shapes,
    check_roles,
)
from graphshare.checkpoint.model import Checkpoint, follow_group, follow_rewrite
from graphshare.checkpoint.parameters import check_belongs, notes_on
from graphshare.errors import Fault, GraphshareError, UsageError
from graphshare.export_onnx.opsets import DEFAULT
from graphshare.formats.model_format import Operation, find_format
from graphshare.ir.graph import Entry
from graphshare.ir.walk import topological
from graphshare.rewrite.grouping.connections import find_forgotten_inputs
from graphshare.rewrite.grouping.join import Member
from graphshare.rewrite.grouping.plan import Grouping, OnCollision, plan_group
from graphshare.rewrite.grouping.switch import plan_switch
from graphshare.text.format import format_count, format_names

_LISTED = 6
_EXPORTED = (
    "an MXNet model in a group with an ONNX model is exported first: give the shapes of its "
    "inputs with `shapes`"
)


def group(
    models: Iterable[Model],
    *,
    prefixes: Sequence[str] = (),
    connect: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    share_inputs: Names = (),
    on_collision: OnCollision = "error",
    switch: Text | None = None,
    align: bool = False,
    shapes: Shapes | None = None,
    as_input: Names = (),
    as_parameter: Names = (),
    types: Mapping[str, str] | None = None,
) -> Checkpoint:
    """Join ``models`` in one, with the heads of all of them.

    ``prefixes`` has one entry for each model, ``""`` for none. ``connect`` has pairs of an output
    and the input that it feeds; the result no longer has that input. ``share_inputs`` are patterns
    of inputs and labels that all models share. ``on_collision`` decides about a name that two
    models have: ``error`` rejects it; ``prefix`` prefixes the later model with the name of its
    file; ``tie-if-equal`` makes parameters of one name and equal value one node. An MXNet model
    beside an ONNX model is exported first, with ``shapes`` for its inputs; values then have the
    names of its outputs. With ``align`` ONNX's converter brings models up to the newest operator
    set, and each is compared with its original.

    With ``switch`` two ONNX models become the bodies of one If instead: the result computes the
    first model if its boolean input of that name is true, else the second. Inputs with the same
    name and the same default, or none, become one input; outputs of one name become one output,
    others are paired by position. Parameters of equal bytes become one initializer even under
    different names; if parameters of one name differ, the second model's gets a number.
    :func:`extract` takes one of the models out again.

    Outputs of ONNX models and values that feed an input need a type. If neither the file nor ONNX's
    inference gives it, it is taken from ``types`` (``{"gelu": "float32[n,3]"}``), else it is the
    dtype and rank that onnxruntime computes for drawn inputs.

    Raises:
        UsageError: there are fewer than two models, or more or fewer prefixes than models;
            ``align`` has nothing to do; a type is malformed, or given for a value whose type is
            known.
        RefusedError: models do not fit together, names match nothing or too much, an input is fed
            twice, or names collide; all are listed.
        DisprovedError: a model with another operator set does not compute the same.
    """
    sources: Sequence[Checkpoint] = [as_checkpoint(model) for model in models]
    if faults := find_count_faults(len(sources), {"`prefixes`": prefixes}):
        raise UsageError(faults)
    variables = (node for source in sources for node in source.graph.variables())
    check_roles(variables, as_input, as_parameter)
    sources = _as_one_format(sources, shapes or {}, as_names(as_input))
    connect = list(connect.items() if isinstance(connect, Mapping) else connect)
    sources = _state_types(sources, prefixes, [out for out, _ in connect], types or {})
    alignments: Sequence[str] = [""] * len(sources)
    if align:
        from graphshare.api.align import align as align_models  # start-up: few groups need it

        sources, alignments = zip(*align_models(sources), strict=True)
    members = _make_members(sources, prefixes or [""] * len(sources), alignments)
    if switch is not None:
        options = {
            "`prefixes`": prefixes,
            "`connect`": connect,
            "`share_inputs`": share_inputs,
            "`as_parameter`": as_parameter,
            "`on_collision`": on_collision != "error",
        }
        if not shapes:  # otherwise the export uses it
            options["`as_input`"] = as_input
        refuse_unused(options, "with `switch`")
        return _switch(sources, members, switch)
    report = plan_group(
        members,
        connect=connect,
        share_inputs=as_names(share_inputs),
        on_collision=on_collision,
        as_input=as_names(as_input),
        as_parameter=as_names(as_parameter),
    )
    pairs = zip(sources, report.roles, strict=True)
    notes = [note for s, roles in pairs for note in notes_on(s.parameter_file, s.graph, roles)]
    notes += _without_file(sources, report)
    notes += [*_describe_forgotten_inputs(report), *report.notes]
    return follow_group(sources, report, report=report, notes=notes)


def _make_members(
    sources: Sequence[Checkpoint], prefixes: Sequence[str], alignments: Sequence[str]
) -> list[Member]:
    members = []
    rows = zip(sources, prefixes, alignments, strict=True)
    for number, (source, prefix, alignment) in enumerate(rows, start=1):
        where = source.where or f"graph {number}"
        members.append(Member(source.graph, prefix, where, source.parameter_file, alignment))
    return members


def _switch(sources: Sequence[Checkpoint], members: Sequence[Member], name: str) -> Checkpoint:
    switching = plan_switch(members, name)
    notes = [note for source in sources for note in notes_on(source.parameter_file, source.graph)]
    return follow_group(sources, switching, report=switching, notes=[*notes, *switching.notes])


def find_count_faults(count: int, options: Mapping[str, Sequence[str]]) -> list[Fault]:
    """Return faults in the numbers of graphs, and of values of options with one for each graph."""
    faults = []
    if count < 2:
        hint = "as in `gs.group(['trunk.json', 'head.json'], connect={'OUT': 'IN'})`"
        faults.append(Fault("a group takes at least two graphs", hint=hint))
    for option, values in options.items():
        if values and len(values) != count:
            counts = f"{format_count(len(values), 'value')} for {format_count(count, 'graph')}"
            hint = f"give {option} once for each graph, in their order; '' for none"
            faults.append(Fault(f"{option} has {counts}", hint=hint))
    return faults


def _as_one_format(
    sources: Sequence[Checkpoint], shapes: Shapes, as_input: Sequence[str]
) -> Sequence[Checkpoint]:
    """Export MXNet models if there are ONNX models beside them.

    Raises RefusedError for a parameter file of a different model, UsageError for ``shapes`` without
    an export.
    """
    if len({_is_exportable(source) for source in sources}) > 1:
        sources = _export_members(sources, shapes, as_input)
    elif shapes:
        raise UsageError(
            Fault("`shapes` are for MXNet models beside ONNX models", hint="leave `shapes` out")
        )
    for source in sources:
        check_belongs(source.parameter_file, source.graph)
    return sources


def _state_types(
    sources: Sequence[Checkpoint],
    prefixes: Sequence[str],
    connected: Sequence[str],
    types: Mapping[str, str],
) -> Sequence[Checkpoint]:
    """State the types of outputs and of ``connected`` values where they are unknown."""
    refuse_types(sources[0].graph, types)
    names: list[tuple[str, Entry]] = []
    untyped = []
    for number, source in enumerate(sources):
        prefix = prefixes[number] if prefixes else ""
        # ``connected`` may use the name of a value in its model, or its name in the result.
        own: dict[str, None] = {}
        for name in connected:
            own |= dict.fromkeys((name, name.removeprefix(prefix)))
        fed = find_outputs(own, topological(source.graph), source.graph.heads)
        untyped.append(find_untyped(source.graph, [*source.graph.heads, *fed]))
        for entry in untyped[-1]:
            plain = output_name(entry)
            names += [(name, entry) for name in dict.fromkeys((plain, prefix + plain))]
    stated = parse_types(types, names, "an output or a connected value")
    results = []
    for source, entries in zip(sources, untyped, strict=True):
        rewrite = state_untyped(source, source.graph, entries, stated)
        results.append(source if rewrite is None else follow_rewrite(source, rewrite))
    return results


def _is_exportable(source: Checkpoint) -> bool:
    return find_format(source.graph).supports(Operation.EXPORT)


def _export_members(
    sources: Sequence[Checkpoint], shapes: Shapes, as_input: Sequence[str]
) -> list[Checkpoint]:
    """Export MXNet models for the operator set of the first ONNX model."""
    from graphshare.api.export import export  # start-up: most groups are of one format
    from graphshare.execute.prepare.feeds import for_variables

    versions = [find_format(source.graph).operator_set(source.graph) for source in sources]
    variables = [node for source in sources for node in source.graph.variables()]
    shapes = as_shapes(shapes, *(source.graph for source in sources))
    for_variables(shapes, variables, option="`shapes`")
    opset = next((version for version in versions if version is not None), DEFAULT)
    members = []
    for source in sources:
        if not _is_exportable(source):
            members.append(source)
            continue
        own = {node.name for node in source.graph.variables()}
        known = {name: shape for name, shape in shapes.items() if name in own}
        inputs = own.intersection(as_input)
        try:
            exported = export(source, shapes=known, as_input=inputs, opset=opset, verify=False)
        except GraphshareError as error:
            replace = msgspec.structs.replace
            faults = [replace(fault, hint=fault.hint or _EXPORTED) for fault in error.faults]
            raise type(error)(faults) from None
        members.append(exported)
    return members


def _describe_forgotten_inputs(report: Grouping) -> list[str]:
    parts = report.parts
    forgotten = find_forgotten_inputs(parts, report.roles, report.connect, report.tied)
    notes = []
    for (i, node), (j, other) in forgotten:
        text = f"{parts[i].label}: input {parts[i].name(node)!r} is not connected"
        notes.append(f"{text}, but {other.name!r} of {parts[j].label} is")
    return notes


def _without_file(sources: Sequence[Checkpoint], report: Grouping) -> list[str]:
    """Note graphs that have parameters and no parameter file, if another graph has a file."""
    if all(source.parameter_file is None for source in sources):
        return []
    notes = []
    for source, roles in zip(sources, report.roles, strict=True):
        if source.parameter_file is not None:
            continue
        names = [node.name for node, role in roles.items() if role.is_parameter]
        if names:
            lack = f"that of the result will lack {format_names(names, _LISTED)}"
            notes.append(f"{source.where} has no parameter file; {lack}")
    return notes
