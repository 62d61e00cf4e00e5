"""``graphshare unfix``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from graphshare.api.unfix import Unfixing, unfix
from graphshare.checkpoint.model import Checkpoint
from graphshare.cli import options
from graphshare.cli.command import Command
from graphshare.cli.console import say
from graphshare.cli.output import format_name_list, say_written, write_result
from graphshare.text.format import escape_control, format_count, format_dims

EXAMPLES = {
    "unfix": [
        ("a batch of any size", "graphshare unfix lenet.onnx --dynamic-batch -o batched.onnx"),
        ("sizes by name", "graphshare unfix lenet.onnx --dynamic data=n,1,28,28 -o named.onnx"),
    ],
}


@click.command("unfix", cls=Command)
@options.rewriting
@options.dynamic_batch
@options.dynamic
@options.no_verify("Skip the proof in onnxruntime.")
@options.tolerance
@options.max_memory
@options.time_limit
def command(source: Checkpoint, output: Mapping[str, Any], **settings: Any) -> None:
    """Free sizes that an ONNX file fixes, and prove the result.

    Many files fix the batch at 1, or the size of a picture. --dynamic-batch frees the batch of all inputs, --dynamic the sizes
    that have a name. Whatever depends on such a size is changed as well: the targets of reshapes, initial states of RNNs,
    constants that are joined with samples, the sizes of Resize, types of values. Everything else keeps its bytes.

    An operator that mixes the samples of a batch, or that takes a fixed size where there would be a free one, is named, and
    nothing is written. Inner shapes are those that the file states or ONNX infers: `pip install onnx`.

    The result is proved in onnxruntime on drawn inputs. At the sizes of the file it is equal bit for bit. Batches of other
    sizes are compared sample by sample with the original, up to --tolerance (1e-4 of the largest number, of float16 1e-2),
    and a sample must not change when others do. With other free sizes it is computed at several of them.
    """
    result = unfix(source, **settings)
    outputs = write_result(result, output, report={"unfixing": result.report})
    if outputs is not None:
        _say_unfixed(result.report)
        say_written(outputs)


def _say_unfixed(report: Unfixing) -> None:
    """Print the shapes of inputs and outputs, what follows, and the proof."""
    for what, values in (("input", report.inputs), ("output", report.outputs)):
        for name, shape in values.items():
            say(f"{what} {escape_control(name)} {escape_control(format_dims(shape))}")
    if report.changed:
        say(f"changed: {format_name_list(list(report.changed))}")
    if report.proof is None:
        say("NOT PROVED: it was not compared with the original")
        return
    proof = report.proof
    how = "" if proof.optimized else " without optimizations"
    text = f"proved: {format_count(proof.outputs, 'output')} equal bit for bit at the sizes of the file{how}"
    if proof.batches:
        sizes = ", ".join(map(str, proof.batches))
        text += f"; samples in batches of {sizes} match those by themselves, up to {proof.of_largest:.3g} of the largest value"
    for each in proof.sizes:
        text += "; computed with " + ", ".join(f"{name} {size}" for name, size in each.items())
    say(text)
