"""``graphshare verify``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from graphshare.checkpoint.load import load
from graphshare.checkpoint.save import write_stdout
from graphshare.cli import image_options, options
from graphshare.cli.command import Command
from graphshare.cli.console import name_options, put, put_json, say
from graphshare.cli.report import put_report, report_format
from graphshare.errors import Fault, UsageError
from graphshare.execute.prepare.feeds import load_feeds, parse_feeds
from graphshare.formats.images.images import describe_images
from graphshare.formats.images.settings import ImageSettings
from graphshare.reports.formats import default_format
from graphshare.text.format import escape_control, format_count
from graphshare.verification.report import Report, make_report
from graphshare.verification.verify import verify

_MARKS = {"holds": "ok", "fails": "FAIL", "skipped": "skip"}


EXAMPLES = {
    "verify": [
        ("the branches of a siamese network", "graphshare verify siam --prefix=sha-"),
        ("layer by layer with recorded outputs", "graphshare verify lenet --recorded dump.npz --layers"),
    ],
}


@click.command("verify", cls=Command)
@options.GRAPH
@options.epoch
@options.params
@options.branch_prefixes
@click.option("--map", metavar="FILE", help="Map file of the rewrite, which pairs the heads.")
@click.option("--against", metavar="GRAPH", help="Compare with the graph of another file instead of a branch of this one.")
@click.option("--against-params", metavar="FILE", help="Parameter file of the other graph.")
@click.option("--recorded", metavar="FILE", help="Compare with outputs that `run --all -o FILE` or MXNet recorded.")
@options.feeds
@options.shapes
@click.option(
    "--random-params", "params_seed", type=click.IntRange(min=0), metavar="SEED", help="Draw missing parameters from this seed."
)
@options.as_input
@click.option("--inputs", metavar="FOLDER", help="Compare on each set of inputs in FOLDER: .npz, .npy or input_K.pb files.")
@click.option("--rounds", type=click.IntRange(min=1), default=1, metavar="N", help="Compare on N sets of inputs [1].")
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="SEED", help="Seed of the inputs that are not fed [0].")
@click.option("--atol", type=click.FloatRange(min=0), default=1e-8, metavar="A", help="Absolute tolerance of outputs [1e-8].")
@click.option("--rtol", type=click.FloatRange(min=0), default=1e-5, metavar="R", help="Relative tolerance of outputs [1e-5].")
@click.option("--train-step", is_flag=True, help="Train both for one SGD step: tied parameters stay equal, copied ones drift.")
@click.option(
    "--expect", type=click.Choice(["tied"]), help="With --train-step: fail where a parameter is a copy that may drift."
)
@click.option("--layers", is_flag=True, help="Compare every inner output too, and name the first that differs.")
@click.option("--values-only", is_flag=True, help="With --against: compare outputs by name only, not the structure.")
@click.option("--across-dtypes", is_flag=True, help="With --against: compare outputs of different types by value.")
@click.option(
    "--reduce", metavar="OUT", help="With --against: write the smallest parts that show a difference to the folder OUT."
)
@click.option("--allow-unsupported", is_flag=True, help="Accept equal structure and parameters if an operator cannot run.")
@options.engines
@options.strict_engine
@image_options.options
@options.max_memory
@options.time_limit
@report_format("html")
def command(
    graph: str,
    epoch: int | None,
    params: str | None,
    against: str | None,
    against_params: str | None,
    feeds: tuple[str, ...],
    images: ImageSettings | None,
    expect: str | None,
    format_: str | None,
    **settings: Any,
) -> int:
    """Prove that branches compute the same.

    Stage 1: the branches are one graph except for names. Stage 2: each pair of parameters is tied, or equal byte for byte.
    Stage 3: equal inputs give equal outputs; each branch is computed separately. Stage 4, with --train-step: both branches take
    one SGD step as MXNet's Module does it; on equal inputs they must stay equal, and different inputs distinguish tied
    parameters from copied ones. Branches that were made in mode batch are each compared with a run of their own. The exit code
    is 0 when all holds, 1 when something differs, 2 when there is no answer.

    A shape or feed holds for the branch of its variable, and for branches that have none of their own. Branches with different
    ones are both run at the sizes of either, on the same values.

    --layers also compares inner outputs, and names the first that differs, in topological order. --recorded runs the graph on
    the inputs in a file and compares its outputs with those in the file, by name: an .npz of `run --all`, or what MXNet gave
    for `get_internals()`. Numbers may then differ by --rtol of the largest in their output.

    Two files of different structure, such as a folded model and its source, are compared with --against and --values-only: only
    their outputs, by name, with the tolerance of --recorded.

    For two models of one format, such as an ONNX model and an optimized version of it, --against counts the operators that are
    exact by identities: an Identity, joined Transposes, an attribute that became an input; in MXNet graphs a BlockGrad, a
    Dropout in inference, stated defaults, aliases. Such differences do not fail it. The rest is divided into regions between
    values of one name: both sides compute a region from the values of the original, and the first region that differs is named.
    Bodies of If, Loop and Scan have regions too, whether they are taken or not, on the values that reach their first pass.

    An output may be as far off as the original is from itself in other sessions (without optimizations, with other threads),
    but not more than 1e-5 of its range, or two steps of a float at 1 where a Sigmoid or Softmax makes it. Where a function, a
    weight or the value of an attribute differs and no computed value shows it, the verdict is NOT PROVED and the exit code 1:
    --feed gives other inputs, and --rounds draws more; a number that is compared with constants takes these in turn. Notes
    count the bodies that were computed.

    A float32 model and its float16 twin are compared with --against and --across-dtypes, in either order and in either format:
    outputs by their names, by value where their types differ. The tolerance is that of the least precise type in which either
    has parameters: 1e-2 of the largest number in an output for float16. Without --across-dtypes different types are a
    difference.

    --engine onnxruntime computes both branches there, each in a session of its own. With numpy,onnxruntime both engines compute
    everything and are also compared with each other, so that no engine checks only itself: numbers may differ by --rtol of the
    largest in their output.

    Branches of an ONNX model, and two ONNX models, are computed in onnxruntime, each in a session of its own. Inputs are drawn
    by their declared dtypes and shapes, sizes that either model fixes included: one sample, and other open sizes at 8, 64 or
    224, the first that it computes. An ONNX model and a graph of MXNet, in either order, are run on the same inputs, and
    numbers may differ by --rtol of the largest in their output. Where they differ, as with two graphs of MXNet, and always with
    --layers, the regions between values of one name are judged.

    With --inputs each set of inputs in a folder is a round. An .npz file is one set, the .npy files of a folder are one by
    their names, and so are input_0.pb, input_1.pb in a folder such as ONNX's test_data_set_0. Inputs that a set lacks are
    drawn.

    --reduce cuts the first region that differs out of both models and makes it smaller as long as it differs. OUT gets both
    parts, their inputs and a page with the command that runs them, for a bug report; it implies --values-only. The files are
    run before they are in place: where the difference does not appear again nothing is written, and the exit code is 2. OUT
    must be new, empty or of an earlier --reduce.

    --format html, with --against, is a page with both models in one: regions within the tolerance, those that differ and those
    that could not be judged have colours, and everything without a colour is exact. Without regions the outputs that differ are
    marked.

    Work that would take more than --max-memory, by default the available memory, is refused before anything runs. --time-limit
    ends the command with exit code 2: there is no answer.
    """
    if against is None and against_params is not None:
        raise UsageError(Fault("--against-params needs --against"))
    if against is None and format_ == "html":
        raise UsageError(Fault("--format html needs --against", hint="`graphshare draw` draws the branches of one model"))
    model = load(graph, epoch=epoch, params=params)
    values = load_feeds(parse_feeds(feeds), images)
    other = None if against is None else load(against, params=against_params)
    report = verify(model, against=other, feeds=values, expect_tied=expect == "tied", **settings)
    for note in describe_images(values):
        say(note)
    if other is not None and format_ == "html":
        from graphshare.api.pictures import draw_proof  # start-up: few proofs are drawn

        write_stdout([draw_proof(report, model, other).data])
        return 0 if report else 1
    _print(report, format_, model.where)
    return 0 if report else 1


def _print(report: Report, format_: str | None, where: str) -> None:
    format_ = format_ or default_format()
    if format_ == "json":
        notes = list(map(name_options, report.notes))
        put_json({"equal": bool(report), "verdict": report.verdict, **msgspec.to_builtins(report), "notes": notes})
        return
    if format_ != "text":
        put_report(make_report(report, where), format_)
        return
    for note in report.notes:
        say(note)
    put(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    for branch in report.branches:
        yield f"{branch.reference or '(original)'} and {branch.branch}"
        for stage in branch.stages:
            yield f"  {_MARKS[stage.verdict]:4} {stage.name:11} {stage.summary}"
            yield from (f"       {escape_control(detail)}" for detail in stage.details)
    if (reduced := report.reduced) is not None:
        counts = (format_count(len(reduced.operators), "operator"), str(len(reduced.other_operators)))
        yield f"reduced to {' and '.join(counts)}: {escape_control(reduced.command)}"
    yield report.verdict
