"""``graphshare fold``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from graphshare.api.fold import fold
from graphshare.checkpoint.model import Checkpoint
from graphshare.cli import options
from graphshare.cli.command import Command
from graphshare.cli.console import say
from graphshare.cli.output import format_name_list, say_written, write_result
from graphshare.rewrite.folding.fold_graph import Folding
from graphshare.text.format import format_count

EXAMPLES = {
    "fold": [
        ("a network for inference", "graphshare fold lenet -o folded"),
        ("the proof", "graphshare compare folded lenet"),
        ("what would be folded, and what not", "graphshare fold lenet --dry-run --format json"),
    ],
}


@click.command("fold", cls=Command)
@options.rewriting
@options.no_verify("Skip the proof by weights, and that of an ONNX model in onnxruntime.")
@options.tolerance
@options.max_memory
@options.time_limit
def command(source: Checkpoint, output: Mapping[str, Any], **settings: Any) -> None:
    """Fold BatchNorm into the weights before it, for inference.

    Convolution, FullyConnected and Deconvolution (in ONNX models Conv, Gemm and ConvTranspose) take
    in the BatchNorm that follows them: fewer operators, fewer parameters, the same outputs up to
    rounding. The layer gets BatchNorm's name, so that outputs keep their names. Layers that share a
    weight are folded together if their BatchNorms are equal, otherwise left. A folded model cannot
    be trained further: its statistics are gone.

    The result is proved by its weights, for every input, rounding apart. An ONNX model is computed in onnxruntime too,
    before and after, on drawn inputs, and nothing is written where an output or a folded layer differs by more than
    --tolerance (1e-4 of its largest number, of float16 1e-2). Where there is no proof, a warning says why.

    --max-memory and --time-limit hold for the weights that are folded and for the proof; more is an error.
    """
    result = fold(source, **settings)
    outputs = write_result(result, output, report={"folding": result.report})
    if outputs is not None:
        _say_folding(result.report)
        say_written(outputs)


def _say_folding(report: Folding) -> None:
    norms = [name for one in report.folded for name in one.norms]
    if norms:
        weights = format_count(len(report.folded), "weight")
        say(
            f"folded: {format_count(len(norms), 'BatchNorm')} into {weights} ({format_name_list(norms)})"
        )
    reasons: dict[str, list[str]] = {}
    for one in report.left:
        reasons.setdefault(one.reason, []).append(one.norm)
    for reason, names in reasons.items():
        say(f"not folded: {format_name_list(names)} ({reason})")
    if report.by_weights is not None:
        say(
            f"proved by weights, for every input: at most {report.by_weights:.2g} steps of their type apart"
        )
    proof = report.proof
    if proof is not None:
        say(
            f"proved: {format_count(proof.outputs, 'output')} and {format_count(proof.layers, 'layer')} compared, "
            f"max abs of outputs {proof.max_abs:.3g}"
        )
