"""Write the result of a rewriting command, or print it as a plan, with a summary on stderr."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

from graphshare.analysis.roles import AS_INPUT, Kind
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.save import (
    Outputs,
    choose_options,
    find_stale,
    resolve_outputs,
    write_outputs,
)
from graphshare.cli.console import is_terminal, name_program, put, put_json, say
from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.files.paths import STDIN, Content, UsedFile, exists, join, real_path, split
from graphshare.formats.model_format import Operation, find_format
from graphshare.formats.model_names import find_stem, suggest_parameters
from graphshare.formats.params.records import Record
from graphshare.rewrite.choices import Duplication
from graphshare.text.format import escape_control, format_count, format_names
from graphshare.text.markup import quote_shell, write_path
from graphshare.text.urls import is_url

_SHOWN = 6


def write_result(
    model: Checkpoint,
    options: Mapping[str, Any],
    *,
    inputs: Sequence[UsedFile] = (),
    report: Mapping[str, Any] = MappingProxyType({}),
) -> Outputs | None:
    """Write the result of a command, or print it as a plan and return None.

    ``options`` has the command's output options as click gives them. The model's notes become
    warnings, or errors with ``--strict``. ``inputs`` are further files that were read besides the
    model's. ``report`` is added to the map in a JSON plan, also if it is printed after writing.

    Raises UsageError where the plan and the graph are both wanted on stdout.
    """
    wants_plan = options.get("format_") == "json" and not options["dry_run"]
    if wants_plan and options["out"] == "-":
        hint = "name a file with `out`; or leave out --format"
        raise UsageError(
            Fault(
                "--format json prints what was done on stdout, where the graph goes, too", hint=hint
            )
        )
    write_options = choose_options(
        model,
        options.get("external_data"),
        no_copy=options.get("no_copy", False),
        verify_bytes=options["verify_bytes"],
    )
    outputs = resolve_outputs(
        model,
        options["out"],
        options.get("params_out"),
        options["map_out"],
        dry_run=options["dry_run"],
        in_place=options["in_place"],
        inputs=inputs,
    )
    notes = [*model.notes, *find_stale(outputs, model)]
    if options["strict"] and notes:
        raise RefusedError([Fault(note) for note in notes])
    warn(notes)
    for note in [*list_unread(model), *_list_left_behind(model, outputs), *_count_removed(model)]:
        say(note)
    if options["dry_run"]:
        _print_plan(model, options["format_"], report)
        return None
    if outputs.graph == "-":
        refuse_terminal()
    write_outputs(outputs, model, options=write_options)
    if wants_plan:
        _print_plan(model, "json", report)
    context = click.get_current_context(silent=True)
    if context is not None and context.obj is not None:
        context.obj.append(model)  # the process ends next and need not free the model
    return outputs


def list_unread(model: Checkpoint) -> list[str]:
    """Return a note for each symbol file that was read without the parameter file beside it."""
    notes = []
    for source in model.loaded_models:
        if source.parameter_file is not None or source.stem:
            continue
        hint = suggest_parameters(source.where)
        if hint:
            stem = find_stem(source.where)
            notes.append(f"{source.where}: {hint}, which is not read; name both by the stem {stem}")
    return notes


def _list_left_behind(model: Checkpoint, outputs: Outputs) -> Iterator[str]:
    """Yield a note on each file that programs expect beside a model, if the result goes elsewhere."""
    companions = find_format(model.graph).names.companions
    if not companions or outputs.graph in ("", "-"):
        return
    target = real_path(split(outputs.graph)[0])
    for source in model.loaded_models:
        folder = split(source.where)[0]
        is_local = source.where not in ("", STDIN) and not is_url(source.where)
        if not is_local or real_path(folder) == target:
            continue
        for path in (join(folder, name) for name in companions):
            if exists(path):
                yield f"{path} is not copied: put it beside the result, where programs look for pre- and postprocessing"


def _count_removed(model: Checkpoint) -> Iterator[str]:
    """Yield a line on the removed parts of the file; a JSON plan lists them."""
    counts = Counter(part.kind for part in model.removed)
    if counts:
        yield f"removed as well: {', '.join(f'{kind} ({count:,})' for kind, count in counts.items())}"


def list_inputs(content: Content, *paths: str | None) -> list[UsedFile]:
    """Return the files among the values of options."""
    return [UsedFile(path, content) for path in paths if path]


def warn(notes: Sequence[str]) -> None:
    """Print a warning for each note."""
    for note in notes:
        say(note, style="warning")


def refuse_terminal() -> None:
    """Reject a terminal as the target of a graph.

    Raises:
        UsageError: stdout is a terminal.
    """
    if is_terminal():
        raise UsageError(
            Fault("the graph would go to the terminal", hint="add -o FILE, or pipe the output")
        )


def say_written(outputs: Outputs) -> None:
    """Print the names of the new files."""
    if files := outputs.files():
        say(f"wrote {', '.join(files)}")


def _print_plan(model: Checkpoint, format_: str, report: Mapping[str, Any]) -> None:
    from graphshare.checkpoint.map_file import describe_rewrite  # its hashes take time to import

    plan = describe_rewrite(model)
    file = model.parameter_file
    records = [] if file is None else [_describe_record(record) for record in file.records]
    if format_ == "json":
        put_json({**plan, "records": records, "removed": model.removed, **report})
    else:
        put(_plan_lines(plan["entries"], records))


def _describe_record(record: Record) -> dict[str, str | None]:
    old = record.key if record.origin is None else record.origin.key
    return {"from": old, "to": record.key}


def _plan_lines(
    entries: Sequence[dict[str, Any]], records: Sequence[dict[str, Any]]
) -> Iterator[str]:
    for entry in entries:
        new = entry["to"]["name"] if entry["to"] else "-"
        yield f"{entry['how']:8} {entry['from']['kind']:8} {entry['from']['name']} -> {new}"
    for record in records:
        yield f"{'record':8} {'':8} {record['from']} -> {record['to']}"


def say_branches(model: Checkpoint, outputs: Outputs) -> None:
    """Print the branches, the tied and copied parameters, and the command that proves them."""
    for line in (*_describe_branches(model), *_describe_sharing(model)):
        say(line)
    say_written(outputs)
    words = _list_proof_words(model, outputs) if outputs.graph != "-" else []
    if words:
        say(f"prove it: {name_program()} {quote_shell(*words)}")


def _describe_branches(model: Checkpoint) -> Iterator[str]:
    report: Duplication = model.report
    fed = (Kind.INPUT, Kind.UNKNOWN)
    inputs = [node for node, role in report.roles.items() if role.kind in fed]
    for branch in report.branches:
        own = [branch.images[node].name for node in inputs if node in branch.images]
        parts = model.graph.source.describe_parts(branch.images.values())
        label = branch.label or "(original)"
        yield f"branch {label}: {parts}, inputs {format_name_list(own)}"


def _describe_sharing(model: Checkpoint) -> Iterator[str]:
    report: Duplication = model.report
    is_single = len(report.branches) == 1
    if report.tied and not is_single:
        names = format_name_list([node.name for node in report.tied])
        # The last kind of parts is parameters: nodes in MXNet, initializers in ONNX.
        *_, kind = model.graph.source.count_parts(model.graph.nodes)
        yield f"tied: {format_count(len(report.tied), 'parameter')}, one {kind} each for all branches ({names})"
    if report.copied:
        count = format_count(len(report.copied), "parameter")
        count += "" if is_single else " per branch"
        if all(source.parameter_file is None for source in model.loaded_models):
            yield f"separate: {count}; none is written, because no parameter file was read"
        else:
            end = "" if is_single else "; they start equal and drift apart in training"
            yield f"copied: {count}{end}"
    if report.joined:
        joined = [
            f"{node.name} (axis {axis})" if axis else node.name
            for node, axis in report.joined.items()
        ]
        yield f"one run for all branches: joined {format_name_list(joined)}; outputs split again"
    if report.shared_inputs:
        yield f"shared inputs: {format_name_list([n.name for n in report.shared_inputs])}"


def _list_proof_words(model: Checkpoint, outputs: Outputs) -> list[str]:
    """Return the command line of the proof that the branches are equal, or that a single branch is
    the source.
    """
    report: Duplication = model.report
    source = model.sources[0]
    has_file = find_format(model.graph).supports(Operation.PARAMETER_FILE)
    file = source.parameter_file if has_file else None
    params = outputs.params or (file.path if file is not None else "")
    if len(report.branches) == 1:
        both = () if file is None else (file.path, params)
        return _list_diff_words(source, report, outputs, both)
    words = ["verify", write_path(outputs.graph)]
    if has_file:
        words += ["--params", write_path(params)] if params else ["--random-params", "0"]
    # With a = the prefix may begin with a dash.
    words += [f"--prefix={branch.label}" for branch in report.branches if branch.label]
    inputs = [node for node, role in report.roles.items() if role.why == AS_INPUT]
    words += [f"--as-input={node.name}" for node in inputs]
    return words


def _list_diff_words(
    source: Checkpoint, report: Duplication, outputs: Outputs, params: Sequence[str]
) -> list[str]:
    """Return the command line for a single branch and the parameter files of both; none for a part
    of the source, or a source that is gone.
    """
    (branch,) = report.branches
    is_whole = not report.joined and all(node in branch.images for node in source.graph.nodes)
    if not is_whole or outputs.in_place or source.where in ("", STDIN):
        return []
    words = ["diff", write_path(source.where), write_path(outputs.graph)]
    for option, path in zip(("--params", "--against-params"), params, strict=False):
        words += [option, write_path(path)]
    return [*words, f"--prefix={branch.label}"]


def format_name_list(names: list[str]) -> str:
    """Return the first ``names``, escaped, and the number of others, or ``none``."""
    return format_names(map(escape_control, names), _SHOWN) or "none"
