"""``graphshare run``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from graphshare.api.run import run, train
from graphshare.checkpoint.load import load
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.outputs import Outputs, resolve_run_outputs
from graphshare.checkpoint.parameter_plan import notes_on
from graphshare.checkpoint.save import write_outputs
from graphshare.cli import class_options, image_options, options, training_options
from graphshare.cli.command import Command
from graphshare.cli.console import is_colored, put, put_json, say
from graphshare.cli.output import list_inputs, warn
from graphshare.cli.tables import align
from graphshare.errors import Fault, UsageError
from graphshare.execute.classes import Ranking
from graphshare.execute.feeds import load_feeds, parse_feeds, parse_shapes
from graphshare.execute.run import Computed
from graphshare.execute.summary import OutputSummary, Profile, profile_of, summarize
from graphshare.formats.images.images import list_image_files
from graphshare.formats.images.settings import ImageSettings
from graphshare.formats.output_paths import is_directory
from graphshare.formats.params.registry import ARRAY_ENDINGS
from graphshare.resources import end_time_limit
from graphshare.text.format import escape_control, format_bytes, format_count, format_dims, format_names, format_number

_NAMED = 12  # arrays of the file that are named
_LISTED = 30  # nodes of a profile that a person reads; JSON has them all


EXAMPLES = {
    "run": [
        ("random data", "graphshare run lenet --random 0 --shape data=1,1,28,28"),
        ("an inner output", "graphshare run lenet --random 0 --shape data=1,1,28,28 --target fc1_output -o out.npz"),
        ("every output, for `verify --recorded`", "graphshare run lenet --random 0 --shape data=1,1,28,28 --all -o dump.npz"),
    ],
}


@click.command("run", cls=Command)
@options.GRAPH
@options.epoch
@options.params
@options.feeds
@options.shapes
@click.option("--target", "targets", metavar="NAME", multiple=True, help="Compute this node or output [the graph's heads].")
@click.option("--all", "all_outputs", is_flag=True, help="Compute every inner output too, and keep the inputs beside them.")
@click.option("--random", "seed", type=click.IntRange(min=0), metavar="SEED", help="Draw the inputs that are not fed.")
@click.option("--random-params", "params_seed", type=click.IntRange(min=0), metavar="SEED", help="Draw missing parameters.")
@click.option("-o", "--out", metavar="OUT", help="Write the outputs as .npz to a path, a directory, or - for stdout.")
@class_options.options
@click.option("--profile", is_flag=True, help="Show time and memory by node and by operator.")
@image_options.options
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="Compute this many images at a time [all at once].")
@training_options.options
@options.engine
@options.strict_engine
@options.max_memory
@options.time_limit
@options.format_
def command(
    graph: str,
    epoch: int | None,
    params: str | None,
    feeds: tuple[str, ...],
    shapes: tuple[str, ...],
    targets: tuple[str, ...],
    all_outputs: bool,
    seed: int | None,
    params_seed: int | None,
    out: str | None,
    classes: class_options.ClassOptions | None,
    profile: bool,
    images: ImageSettings | None,
    batch: int | None,
    engine: str,
    strict_engine: bool,
    format_: str,
    **given_training: Any,
) -> None:
    """Compute a graph's outputs.

    Only what the targets need is computed. The result's keys are MXNet's output names; of equal ones the later end in #1, #2...
    Without -o a table of the outputs is printed.

    With --sgd-steps the parameters are trained first, as MXNet's Module does it: labels are fed like other inputs, the outputs
    are those after the last step, and --params-out takes the new parameters.

    An image is fed as (1, 3, height, width) of pixels from 0 to 255, red, green and blue, unless the options say otherwise; the
    images of a folder, in order of their names, are one batch. `pip install 'graphshare[images]'` gives what reads them.

    --engine onnxruntime computes large networks faster; `pip install 'graphshare[onnx]'` gives it. Nodes that it cannot take,
    such as those that draw random numbers, are computed with numpy, and a note names them.

    Before anything runs the sizes of all values that are alive at a time are summed from their shapes. More than --max-memory,
    by default more than the machine or its control group has left, is refused with the node that is too large. --time-limit
    ends the command with exit code 2; the results are written whole or not at all.
    """
    _check_out(out, format_, has_table=classes is not None)
    training = training_options.parse_training(given_training, profile=profile)
    if training is not None and batch is not None:
        raise UsageError(Fault("--batch computes images by parts and does not go with --sgd-steps"))
    if training is not None and all_outputs:
        raise UsageError(Fault("--all keeps the outputs of one forward pass and does not go with --sgd-steps"))
    model = load(graph, epoch=epoch, params=params)
    files = parse_feeds(feeds)
    values = load_feeds(files, images)
    paths = [*(path for _, path in files), *list_image_files(values), *([classes.file] if classes is not None else [])]
    outputs = _resolve_outputs(model, out, training, paths)
    common: dict[str, Any] = {
        "feeds": values,
        "shapes": parse_shapes(shapes),
        "targets": targets,
        "seed": seed,
        "params_seed": params_seed,
    }
    warn(notes_on(model.parameter_file, model.graph, unused=False))
    if training is not None:
        if engine != "numpy":
            say(f"training is computed with numpy, not with {engine}")
        _run_trained(model, training, common, classes, outputs, format_)
        return
    chosen: dict[str, Any] = {"engine": engine, "strict_engine": strict_engine}
    computed = run(model, profile=profile, batch=batch, all_outputs=all_outputs, **chosen, **common)
    rankings = class_options.rank_outputs(classes, computed.outputs, values)
    for note in computed.notes:
        say(note)
    summaries = [summarize(name, array) for name, array in computed.outputs.items()]
    _write(model, computed.outputs, outputs)
    costs = profile_of(computed.timings) if profile else None
    if format_ == "json":
        put_json(_report(computed, summaries, costs, rankings))
    elif rankings is not None:
        class_options.put_classes(rankings)
    elif out is None:
        _put_table(summaries)
    for line in _profile_lines(costs) if costs is not None and format_ == "text" else ():
        say(escape_control(line))
    peak, variables = format_bytes(computed.peak_bytes), format_bytes(computed.variable_bytes)
    values_of = "values" if engine == "numpy" else "values outside of the engine"  # which does not tell what its own took
    say(f"computed in {computed.seconds:.3f} s; {values_of} took {peak} at most, variables {variables}")


def _run_trained(
    model: Checkpoint,
    training: training_options.TrainingOptions,
    common: dict[str, Any],
    classes: class_options.ClassOptions | None,
    outputs: Outputs,
    format_: str,
) -> None:
    """Train first; the outputs are those after the last step."""
    trained = train(model, **training.arguments, **common, on_step=training_options.step_reporter(training.arguments["steps"]))
    rankings = class_options.rank_outputs(classes, trained.outputs, common["feeds"])
    for note in trained.notes:
        say(note)
    summaries = [summarize(name, array) for name, array in trained.outputs.items()]
    _write(model.with_params(trained.updated), trained.outputs, outputs)
    if format_ == "json":
        put_json(training_options.report(trained, summaries, rankings))
    elif rankings is not None:
        class_options.put_classes(rankings)
    elif not outputs.arrays:
        _put_table(summaries)
    training_options.say_result(trained)


def _check_out(out: str | None, format_: str, *, has_table: bool) -> None:
    """Refuse before a long run what could not be written after it.

    Raises:
        UsageError: arrays would go to a terminal, or two things to stdout.
    """
    if out == "-" and sys.stdout is not None and sys.stdout.isatty():
        raise UsageError(Fault("the arrays would go to the terminal", hint="add -o FILE.npz, or pipe them on"))
    if out == "-" and format_ == "json":
        raise UsageError(Fault("the arrays and the report would both go to stdout", hint="name a file with -o"))
    if out == "-" and has_table:
        raise UsageError(Fault("the arrays and the table of classes would both go to stdout", hint="name a file with -o"))
    others = tuple(ending for ending in (*ARRAY_ENDINGS, ".json") if ending != ".npz")
    if out is not None and out.lower().endswith(others) and not is_directory(out):
        raise UsageError(
            Fault("run writes .npz", where=out, hint="name it .npz (`graphshare params convert` turns it into others)")
        )


def _resolve_outputs(
    model: Checkpoint, out: str | None, training: training_options.TrainingOptions | None, feeds: Sequence[str | None]
) -> Outputs:
    """Return where the results go. Raises UsageError or RefusedError, before anything is computed."""
    if training is None:
        return resolve_run_outputs(model, out or "", inputs=list_inputs("feed", *feeds))
    inputs = list_inputs("feed", *feeds, *training.gradient_files)
    return resolve_run_outputs(model, out or "", training.params_out, in_place=training.in_place, inputs=inputs)


def _write(model: Checkpoint, arrays: Mapping[str, Any], outputs: Outputs) -> None:
    """Write the outputs and the trained parameters, both or neither."""
    end_time_limit()
    write_outputs(outputs, model, arrays=arrays)
    if outputs.arrays not in ("", "-"):
        say(f"wrote {outputs.arrays}: {format_names(map(escape_control, arrays), _NAMED)}")
    if outputs.params and model.parameter_file is not None:
        say(f"wrote {outputs.params}: {format_count(len(model.parameter_file.records), 'array')}")


def _report(
    computed: Computed, summaries: list[OutputSummary], costs: Profile | None, rankings: list[Ranking] | None
) -> dict[str, Any]:
    """Return the report that ``schemas/run.schema.json`` describes."""
    return {
        "outputs": summaries,
        "seconds": computed.seconds,
        "peak_bytes": computed.peak_bytes,
        "variable_bytes": computed.variable_bytes,
        "notes": computed.notes,
        "profile": costs,
        "classes": rankings,
        "training": None,
    }


_TITLES = ("output", "shape", "dtype", "min", "max", "mean")


def _put_table(summaries: Sequence[OutputSummary]) -> None:
    rows = [
        (escape_control(s.name), format_dims(s.shape), s.dtype, *(format_number(value, 6) for value in (s.min, s.max, s.mean)))
        for s in summaries
    ]
    if sys.stdout is None or not is_colored(sys.stdout):
        put(align([_TITLES, *rows]))
    else:
        from rich.console import Console  # start-up: plain output needs no rich
        from rich.table import Table

        table = Table(*_TITLES, box=None)
        for row in rows:
            table.add_row(*row)
        Console(file=sys.stdout, markup=False, highlight=False).print(table)
    for s in summaries:
        if s.nonfinite:
            say(
                f"{escape_control(s.name)} holds {format_count(s.nonfinite, 'value')} that are NaN or infinite", style="warning"
            )


def _profile_lines(costs: Profile) -> Iterator[str]:
    """Yield a line for each operator, then for the slowest nodes."""
    total = sum(cost.seconds for cost in costs.operators) or 1.0
    rows = [("operator", "nodes", "ms", "%", "output")]
    for of in costs.operators:
        rows.append(
            (of.op, str(of.nodes), f"{of.seconds * 1e3:.3f}", f"{100 * of.seconds / total:.1f}", format_bytes(of.bytes))
        )
    yield from align(rows)
    yield ""
    slowest = sorted(costs.nodes, key=lambda cost: -cost.seconds)[:_LISTED]
    rows = [("node", "operator", "ms", "%", "output")]
    for node in slowest:
        rows.append(
            (node.name, node.op, f"{node.seconds * 1e3:.3f}", f"{100 * node.seconds / total:.1f}", format_bytes(node.bytes))
        )
    yield from align(rows)
    if len(costs.nodes) > _LISTED:
        yield f"and {format_count(len(costs.nodes) - _LISTED, 'faster node')} (--format json lists all)"
