"""``graphshare verify``."""

from __future__ import annotations

from typing import Any

import click

from graphshare.api.verify import verify
from graphshare.checkpoint.model import Checkpoint
from graphshare.cli import image_options, options, proof_options
from graphshare.cli.command import Command, option
from graphshare.cli.report import report_format

EXAMPLES = {
    "verify": [
        ("the branches of a siamese network", "graphshare verify siam --prefix=sha-"),
        (
            "with one step of training",
            "graphshare verify siam --prefix=sha- --shape data=2,1,28,28 --train-step",
        ),
    ],
}
_COMPARE = "compare two models with `graphshare compare MODEL OTHER`"


@click.command("verify", cls=Command, brief=3)
@options.answer_file  # outermost: it collects the files that are read
@options.reading
@options.branch_prefixes
@option("--map", metavar="FILE", help="Map file of the rewrite, which pairs the heads.")
@image_options.feeding
@options.shapes
@proof_options.inputs
@proof_options.tolerance
@option(
    "--train-step",
    is_flag=True,
    help="Train both for one SGD step: tied parameters stay equal, copied ones drift.",
)
@option(
    "--expect",
    type=click.Choice(["tied"]),
    help="With --train-step: fail where a parameter is a copy that may drift.",
)
@option(
    "--layers",
    is_flag=True,
    help="Compare every inner output too, and name the first that differs.",
)
@option(
    "--allow-unsupported",
    is_flag=True,
    help="Accept equal structure and parameters if an operator cannot run.",
)
@options.engines
@options.strict_engine
@options.max_memory
@options.time_limit
@report_format()
@options.refuse_old("--against", _COMPARE)
@options.refuse_old("--against-params", f"{_COMPARE} --against-params FILE")
@options.refuse_old(
    "--recorded", "compare with recorded outputs with `graphshare compare MODEL FILE`"
)
@options.refuse_old(
    "--values-only", f"{_COMPARE}, which compares structure and values", is_flag=True
)
@options.refuse_old(
    "--across-dtypes",
    f"{_COMPARE}, which takes the tolerance of the less precise type",
    is_flag=True,
)
@options.refuse_old("--reduce", f"{_COMPARE} --reduce OUT")
def command(
    source: Checkpoint,
    feeds: dict[str, Any],
    expect: str | None,
    format_: str | None,
    **settings: Any,
) -> int:
    """Prove that branches compute the same.

    Stage 1: the branches are one graph except for names. Stage 2: each pair of parameters is tied,
    or equal byte for byte. Stage 3: equal inputs give equal outputs; each branch is computed
    separately. Stage 4, with --train-step: both branches take one SGD step as MXNet's Module does
    it; on equal inputs they must stay equal, and different inputs distinguish tied parameters from
    copied ones. Branches that were made in mode batch are each compared with a run of their own.

    The exit code is 0 when all holds, 1 when something differs, 2 when there is no answer.
    `graphshare compare` compares two models.

    A shape or feed holds for the branch of its variable, and for branches that have none of their
    own. If two branches have different shapes, both run at each of them, on equal values. Open
    sizes are drawn with one sample and with two, and any two inputs of one type differ in at least
    one set; --rounds adds sets.

    Without --prefix and --map the outputs' names tell the branches, by a prefix, or by a suffix or
    another word (out_left and out_right). Towers of a Gluon block that is used several times have
    all names in common: their inputs tell them apart.

    --layers also compares inner outputs, and names the first that differs, in topological order. It changes no verdict.

    With --engine numpy,onnxruntime both engines compute everything and are also compared with each
    other, so that no engine checks only itself: numbers may differ by --rtol of the largest in
    their output. Branches of an ONNX model are computed in onnxruntime, each in a session of its
    own.

    With --inputs each set of inputs in a folder is a round: an .npz file, the .npy files of a folder by their names, or
    input_0.pb, input_1.pb in a folder such as ONNX's test_data_set_0. Inputs that a set lacks are drawn.

    Work that would take more than --max-memory, by default the available memory, is refused before
    anything runs. --time-limit ends the command with exit code 2: there is no answer.
    """
    report = verify(source, feeds=feeds, expect_tied=expect == "tied", **settings)
    return proof_options.finish(report, feeds, format_, source.where, "verify")
