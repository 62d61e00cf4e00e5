"""``graphshare run``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
import msgspec

from graphshare.api.rank_classes import rank_classes
from graphshare.api.run import run
from graphshare.api.train import train
from graphshare.checkpoint.load import load
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameters import notes_on
from graphshare.checkpoint.save import Outputs, resolve_run_outputs, write_outputs
from graphshare.cli import image_options, options
from graphshare.cli.command import Command, option
from graphshare.cli.console import (
    align,
    is_colored,
    is_quiet,
    is_shown,
    name_options,
    put,
    put_json,
    put_table,
    say,
)
from graphshare.cli.output import list_inputs, warn
from graphshare.errors import Fault, UsageError
from graphshare.execute.classes import Ranking, read_labels
from graphshare.execute.outputs import (
    Computed,
    OutputSummary,
    Profile,
    make_profile,
    select_arrays,
    summarize,
)
from graphshare.execute.prepare.feeds import load_feeds, parse_feeds
from graphshare.execute.train.run_training import LossHistory, StepListener, Trained
from graphshare.execute.train.sgd import Sgd
from graphshare.files.paths import find_stdout_faults, is_directory
from graphshare.formats.images.images import Images, list_image_files
from graphshare.formats.images.settings import ImageSettings
from graphshare.formats.model_names import ARRAY_ENDINGS
from graphshare.formats.params.format import choose_format
from graphshare.text.format import (
    escape_control,
    format_bytes,
    format_count,
    format_dims,
    format_names,
    format_number,
)

_NAMED = 12  # most arrays of the file to name
_MEANS = 8  # outputs whose means before and after training are printed
_LISTED = 30  # nodes of a profile in text; JSON has them all

_CLASS_OPTIONS = (
    option(
        "--top",
        type=click.IntRange(min=1),
        metavar="K",
        help="Print the K best classes of each sample.",
    ),
    option(
        "--labels",
        metavar="FILE",
        help="With --top: names of the classes, one per line, as in synset.txt.",
    ),
)


class _ClassOptions(msgspec.Struct, frozen=True):
    """The number of classes to print, and their names and the file of the names, if known."""

    top: int
    file: str | None
    labels: Sequence[str] | None


def _parse_classes(options: Mapping[str, Any]) -> _ClassOptions | None:
    """Return None without ``--top``. Raises UsageError for ``--labels`` alone."""
    top, labels = options["top"], options["labels"]
    if top is None:
        if labels is not None:
            raise UsageError(Fault("--labels needs --top", hint="add --top 5"))
        return None
    return _ClassOptions(top, labels, None if labels is None else read_labels(labels))


_TRAINING_OPTIONS = (
    option(
        "--sgd-steps",
        type=click.IntRange(min=1),
        metavar="N",
        help="Train the parameters for N steps first.",
    ),
    option("--learning-rate", type=float, metavar="R", help="Learning rate [0.01]."),
    option("--momentum", type=float, metavar="M", help="Momentum [0]."),
    option("--wd", type=float, metavar="W", help="Weight decay, of *_weight and *_gamma [0]."),
    option(
        "--clip-gradient",
        type=click.FloatRange(min=0),
        metavar="C",
        help="Limit gradients to the range from -C to C [no limit].",
    ),
    option(
        "--rescale-grad", type=float, metavar="S", help="Multiply gradients by this [1 / batch]."
    ),
    option(
        "--head-gradient",
        "head_gradients",
        multiple=True,
        metavar="NAME=FILE",
        help="Gradient of an output that is not a loss [ones].",
    ),
    option(
        "--params-out",
        metavar="FILE",
        help="With --sgd-steps: write the trained parameters to this file.",
    ),
    option(
        "--in-place",
        is_flag=True,
        help="With --sgd-steps: replace the parameter file with the trained parameters.",
    ),
)
_TRAINING = "sgd_steps learning_rate momentum wd clip_gradient rescale_grad head_gradients params_out in_place".split()
_SETTINGS = {
    "learning_rate": "learning_rate",
    "momentum": "momentum",
    "wd": "wd",
    "clip_gradient": "clip",
}


class _TrainingOptions(msgspec.Struct, frozen=True):
    """Keyword arguments of :func:`graphshare.train`, and the file for the trained parameters."""

    arguments: Mapping[str, Any]
    params_out: str
    in_place: bool
    gradient_files: tuple[str, ...]


def _parse_training(options: Mapping[str, Any], *, profile: bool) -> _TrainingOptions | None:
    """Return the options of training, or None without ``--sgd-steps``.

    Raises:
        UsageError: options need ``--sgd-steps``, or cannot be combined with it; all are listed.
        RefusedError: the suffix of ``--params-out`` belongs to no format.
    """
    if options["sgd_steps"] is None:
        idle = [name for name, value in options.items() if value not in (None, (), False)]
        if idle:
            flags = {"head_gradients": "--head-gradient"}
            texts = [flags.get(name, f"--{name.replace('_', '-')}") for name in idle]
            hint = "add --sgd-steps 1"
            raise UsageError([Fault(f"{text} needs --sgd-steps", hint=hint) for text in texts])
        return None
    _refuse_with_training({"--profile": profile})
    target = options["params_out"] or ""
    UsageError.raise_any(find_stdout_faults(target, "parameters", "name a file with --params-out"))
    if target and not is_directory(target):
        choose_format(target)
    gradients = parse_feeds(options["head_gradients"])
    settings = {field: options[name] for name, field in _SETTINGS.items()}
    stated = {field: value for field, value in settings.items() if value is not None}
    arguments = {
        "steps": options["sgd_steps"],
        "settings": Sgd(**stated),
        "rescale": options["rescale_grad"],
        "head_gradients": load_feeds(gradients),
    }
    files = tuple(path for _, path in gradients)
    return _TrainingOptions(arguments, target, options["in_place"], files)


def _refuse_with_training(options: Mapping[str, bool]) -> None:
    """Raise UsageError for the first of these ``options`` that is given."""
    for flag, is_given in options.items():
        if is_given:
            message = f"{flag} and --sgd-steps cannot be combined"
            raise UsageError(Fault(message, hint="leave one of them out"))


EXAMPLES = {
    "run": [
        ("random data", "graphshare run lenet --seed 0 --shape data=1,1,28,28"),
        (
            "an inner output",
            "graphshare run lenet --seed 0 --shape data=1,1,28,28 --target fc1_output -o out.npz",
        ),
        (
            "every output, for `compare`",
            "graphshare run lenet --seed 0 --shape data=1,1,28,28 --all -o dump.npz",
        ),
    ],
}


@click.command("run", cls=Command, brief=2)
@options.GRAPH
@options.epoch
@options.params
@options.feeds
@options.shapes
@option(
    "--target",
    "targets",
    metavar="NAME",
    multiple=True,
    help="Compute this node or output, or all that match a glob [the graph's heads].",
)
@option(
    "--all",
    "all_outputs",
    is_flag=True,
    help="Compute every inner output too, and keep the inputs beside them.",
)
@option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Seed of the inputs that are not fed [none is drawn].",
)
@option(
    "--random-params",
    "params_seed",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Draw missing parameters from this seed.",
)
@option(
    "-o",
    "--out",
    metavar="OUT",
    help="Write the outputs as .npz to a path, a directory, or - for stdout.",
)
@options.gather("classes", ("top", "labels"), _CLASS_OPTIONS, _parse_classes)
@option("--profile", is_flag=True, help="Show time and memory by node and by operator.")
@image_options.options
@option(
    "--batch",
    type=click.IntRange(min=1),
    metavar="N",
    help="Compute this many images at a time [all at once].",
)
@options.gather("given_training", _TRAINING, _TRAINING_OPTIONS)
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
    out: str | None,
    classes: _ClassOptions | None,
    images: ImageSettings | None,
    profile: bool,
    batch: int | None,
    all_outputs: bool,
    engine: str | None,
    strict_engine: bool,
    given_training: Mapping[str, Any],
    format_: str,
    **settings: Any,
) -> None:
    """Compute a graph's outputs.

    Only what the targets need is computed. The result's keys are MXNet's output names; repeated
    names get #1, #2... at the end, and --target takes them so. Without -o a table of the outputs is
    printed.

    With --sgd-steps the parameters are trained first, as MXNet's Module does it: labels are fed
    like other inputs, the outputs are those after the last step, and --params-out takes the new
    parameters.

    An image is fed as (1, 3, height, width) of pixels from 0 to 255, red, green and blue, unless
    the options say otherwise; the images of a folder, in order of their names, are one batch. This
    needs `pip install Pillow`.

    --engine onnxruntime computes large networks faster; `pip install onnxruntime` gives it. Nodes that it cannot take,
    such as those that draw random numbers, are computed with numpy, and a note names them. ONNX models are computed by
    onnxruntime alone; inputs are drawn as the model declares them, and integers as it uses them; a note says how.

    Before anything runs the sizes of all values that are alive at a time are summed from their
    shapes. More than --max-memory, by default more than the machine or its control group has left,
    is refused with the node that is too large. --time-limit ends the command with exit code 2; the
    results are written whole or not at all.
    """
    _check_out(out, format_, has_table=classes is not None)
    training = _parse_training(given_training, profile=profile)
    if training is not None:
        _refuse_with_training({"--batch": batch is not None, "--all": all_outputs})
    model = load(graph, epoch=epoch, params=params)
    files = parse_feeds(feeds)
    values = load_feeds(files, images)
    paths = [*(path for _, path in files), *list_image_files(values)]
    if classes is not None and classes.file is not None:
        paths.append(classes.file)
    outputs = _resolve_outputs(model, out, training, paths)
    common = {**settings, "feeds": values}
    warn(notes_on(model.parameter_file, model.graph, unused=False))
    if training is not None:
        if engine not in (None, "numpy"):
            say(f"training is computed with numpy, not with {engine}")
        reporter = _step_reporter(training.arguments["steps"])
        trained = train(model, **training.arguments, **common, on_step=reporter)
        facts: dict[str, Any] = {"training": _describe_training(trained)}
        _put_results(
            model.with_params(trained.updated), trained, facts, classes, values, outputs, format_
        )
        _say_result(trained)
        return
    chosen: dict[str, Any] = {"engine": engine, "strict_engine": strict_engine}
    computed = run(model, profile=profile, batch=batch, all_outputs=all_outputs, **chosen, **common)
    costs = make_profile(computed.timings) if profile else None
    facts = {"peak_bytes": computed.peak_bytes, "profile": costs}
    _put_results(model, computed, facts, classes, values, outputs, format_)
    if costs is not None and format_ == "text":
        for line in _profile_lines(costs):
            say(escape_control(line))
    if not computed.peak_bytes:  # only our own kernels measure the memory of their values
        say(f"computed in {computed.seconds:.3f} s by {computed.engine}")
        return
    peak, variables = format_bytes(computed.peak_bytes), format_bytes(computed.variable_bytes)
    # The engine's own memory is unknown
    values_of = "values" if engine in (None, "numpy") else "values outside of the engine"
    say(
        f"computed in {computed.seconds:.3f} s; {values_of} took at most {peak}, variables {variables}"
    )


def _put_results(
    model: Checkpoint,
    result: Computed | Trained,
    facts: Mapping[str, Any],
    classes: _ClassOptions | None,
    feeds: Mapping[str, Any],
    outputs: Outputs,
    format_: str,
) -> None:
    """Print notes, write the outputs, and print JSON with ``facts``, classes, or a table if no file
    has the outputs.

    ``schemas/run.schema.json`` describes the JSON.
    """
    rankings = _rank_outputs(classes, result.outputs, feeds)
    notes = list(result.notes)
    arrays = select_arrays(result.outputs, notes) if outputs.arrays else result.outputs
    for note in notes:
        say(note)
    summaries = [summarize(name, value) for name, value in result.outputs.items()]
    _write(model, arrays, outputs)
    if format_ == "json":
        report = {
            "outputs": summaries,
            "seconds": result.seconds,
            "peak_bytes": facts.get("peak_bytes"),
            "variable_bytes": result.variable_bytes,
            "notes": list(map(name_options, notes)),
            "profile": facts.get("profile"),
            "classes": rankings,
            "training": facts.get("training"),
        }
        put_json(report)
    elif rankings is not None:
        _put_classes(rankings)
    elif not outputs.arrays:
        _put_table(summaries)


def _check_out(out: str | None, format_: str, *, has_table: bool) -> None:
    """Reject, before a long run, outputs that could not be written after it.

    Raises:
        UsageError: arrays would go to a terminal, or two outputs to stdout.
    """
    if out == "-":
        _check_stdout(format_, has_table=has_table)
    others = tuple(ending for ending in (*ARRAY_ENDINGS, ".json") if ending != ".npz")
    if out is not None and out.lower().endswith(others) and not is_directory(out):
        raise UsageError(
            Fault(
                "run writes .npz files only",
                where=out,
                hint="end the name in .npz; `graphshare params convert` converts it",
            )
        )


def _check_stdout(format_: str, *, has_table: bool) -> None:
    """Raise UsageError if stdout cannot take the arrays."""
    if sys.stdout is not None and sys.stdout.isatty():
        raise UsageError(
            Fault("the arrays would go to the terminal", hint="add -o FILE.npz, or pipe the output")
        )
    if format_ == "json":
        other = "the report"
    elif has_table:
        other = "the table of classes"
    else:
        return
    message = f"the arrays and {other} would both go to stdout"
    raise UsageError(Fault(message, hint="name a file with -o"))


def _resolve_outputs(
    model: Checkpoint,
    out: str | None,
    training: _TrainingOptions | None,
    feeds: Sequence[str | None],
) -> Outputs:
    """Raises UsageError or RefusedError before anything is computed."""
    if training is None:
        return resolve_run_outputs(model, out or "", inputs=list_inputs("feed", *feeds))
    inputs = list_inputs("feed", *feeds, *training.gradient_files)
    return resolve_run_outputs(
        model, out or "", training.params_out, in_place=training.in_place, inputs=inputs
    )


def _write(model: Checkpoint, arrays: Mapping[str, Any], outputs: Outputs) -> None:
    write_outputs(outputs, model, arrays=arrays)
    if outputs.arrays not in ("", "-"):
        say(f"wrote {outputs.arrays}: {format_names(map(escape_control, arrays), _NAMED)}")
    if outputs.params and model.parameter_file is not None:
        say(f"wrote {outputs.params}: {format_count(len(model.parameter_file.records), 'array')}")


_TITLES = ("output", "shape", "dtype", "min", "max", "mean")


def _put_table(summaries: Sequence[OutputSummary]) -> None:
    rows = []
    for s in summaries:
        figures = [format_number(value, 6) for value in (s.min, s.max, s.mean)]
        rows.append((escape_control(s.name), format_dims(s.shape), s.dtype, *figures))
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
                f"{escape_control(s.name)} holds {format_count(s.nonfinite, 'value')} that are NaN or infinite",
                style="warning",
            )


def _profile_lines(costs: Profile) -> Iterator[str]:
    total = sum(row.seconds for row in costs.operators) or 1.0

    def format_cost(seconds: float, size: int) -> tuple[str, str, str]:
        return f"{seconds * 1e3:.3f}", f"{100 * seconds / total:.1f}", format_bytes(size)

    titles = ("ms", "%", "output")
    rows = [("operator", "nodes", *titles)]
    for row in costs.operators:
        rows.append((row.op, str(row.nodes), *format_cost(row.seconds, row.bytes)))
    yield from align(rows)
    yield ""
    slowest = sorted(costs.nodes, key=lambda row: -row.seconds)[:_LISTED]
    rows = [("node", "operator", *titles)]
    for node in slowest:
        rows.append((node.name, node.op, *format_cost(node.seconds, node.bytes)))
    yield from align(rows)
    if len(costs.nodes) > _LISTED:
        yield f"and {format_count(len(costs.nodes) - _LISTED, 'faster node')} (--format json lists all)"


def _rank_outputs(
    classes: _ClassOptions | None, outputs: Mapping[str, Any], feeds: Mapping[str, Any]
) -> list[Ranking] | None:
    """Return the requested classes, by image file if one input is images."""
    if classes is None:
        return None
    batches = [value.paths for value in feeds.values() if isinstance(value, Images)]
    images = batches[0] if len(batches) == 1 else ()
    return rank_classes(outputs, classes.top, labels=classes.labels, images=images)


def _put_classes(rankings: Sequence[Ranking]) -> None:
    """Columns that are empty or all equal are left out."""
    rows = [
        {
            "output": ranking.output,
            "image": ranking.image or "",
            "sample": str(ranking.sample),
            "class": str(score.index),
            "label": score.label or "",
            "score": format_number(score.score, 4),
        }
        for ranking in rankings
        for score in ranking.classes
    ]
    titles = ["image" if all(row["image"] for row in rows) else "sample", "class", "score"]
    if any(row["label"] for row in rows):
        titles.insert(2, "label")
    if len({row["output"] for row in rows}) > 1:
        titles.insert(0, "output")
    cells = [[row[title] for title in titles] for row in rows]
    put_table(titles, cells, right=["sample", "class", "score"])


def _describe_training(trained: Trained) -> dict[str, Any]:
    return {
        "steps": trained.steps,
        "settings": trained.settings,
        "updated": list(trained.updated),
        "losses": trained.losses,
        "before": [summarize(name, array) for name, array in trained.before.items()],
    }


def _step_reporter(steps: int) -> StepListener | None:
    """Return a function that prints the losses of a step, or None without a terminal.

    With many steps only every tenth, hundredth and so on is printed, and the last.
    """
    if is_quiet() or not is_shown():
        return None
    # At most about a hundred lines for any number of steps.
    every = 10 ** max(0, len(str(steps - 1)) - 2)

    def say_step(number: int, histories: Sequence[LossHistory]) -> None:
        if number == 1 or number == steps or number % every == 0:
            losses = histories[:_MEANS]
            texts = [
                f"{escape_control(loss.name)} {loss.measure} {format_number(loss.values[-1], 6)}"
                for loss in losses
            ]
            say(f"step {number}: {', '.join(texts)}")

    return say_step


def _say_result(trained: Trained) -> None:
    for name, array in list(trained.before.items())[:_MEANS]:
        first, last = summarize(name, array).mean, summarize(name, trained.outputs[name]).mean
        say(
            f"{escape_control(name)}: mean {format_number(first, 9)} before, {format_number(last, 9)} after"
        )
    say(
        f"{format_count(trained.steps, 'step')} on "
        f"{format_count(len(trained.updated), 'variable')} in {trained.seconds:.3f} s"
    )
