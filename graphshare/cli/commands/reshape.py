"""``graphshare reshape``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from graphshare.api.reshape import Reshaping, reshape
from graphshare.checkpoint.model import Checkpoint
from graphshare.cli import options, proof_options
from graphshare.cli.command import Command, option
from graphshare.cli.console import say
from graphshare.cli.output import format_name_list, say_written, write_result
from graphshare.execute.prepare.feeds import load_feeds, parse_feeds
from graphshare.text.format import escape_control, format_count, format_dims

if TYPE_CHECKING:
    from graphshare.verification.free_sizes import SizesProof

EXAMPLES = {
    "reshape": [
        ("a batch of any size", "graphshare reshape lenet.onnx --dynamic-batch -o batched.onnx"),
        ("a batch of four", "graphshare reshape lenet.onnx --fix-batch 4 -o four.onnx"),
    ],
}


@click.command("reshape", cls=Command, brief=1)
@options.rewriting_onnx
@options.named_shapes
@options.feeds
@proof_options.sets
@proof_options.rounds
@proof_options.seed
@options.dynamic_batch
@option(
    "--fix-batch", type=click.IntRange(min=1), metavar="N", help="Fix the batch of all inputs at N."
)
@option("--fold", is_flag=True, help="Make constants of operators whose values fixed sizes decide.")
@option(
    "--witness",
    metavar="MODEL",
    multiple=True,
    help="Compare with the same network exported at other sizes.",
)
@options.no_verify("Skip the proof in onnxruntime.")
@options.tolerance
@options.max_memory
@options.time_limit
def command(
    source: Checkpoint,
    output: Mapping[str, Any],
    feeds: tuple[str, ...],
    rounds: int | None,
    seed: int | None,
    **settings: Any,
) -> None:
    """Free or fix the sizes of an ONNX model's inputs.

    In --shape a name leaves a size to the caller of the model, and a number fixes it. What depends
    on a free size follows: the targets of reshapes, initial states, constants that are joined with
    samples, types. An operator that mixes samples, or takes a fixed size where there would be a
    free one, is named, and nothing is written.

    onnxruntime runs the original and the result. Outputs at the sizes of the file, and at fixed
    sizes, are equal bit for bit. Three batches of other sizes are compared sample by sample with
    the original, up to --tolerance (1e-4 of the largest number, of float16 1e-2), and a sample must
    not change when others do.

    For other axes the file cannot be a witness: constants in it may come from the size that it had.
    The result is computed at three sizes, none a multiple of it; a network that needs multiples is
    freed with --shape data=1,3,32*h,32*w. Constants that may come from the fixed size are warnings,
    each with its node. With --witness the result is compared, as by `compare`, with the same
    network exported at other sizes.

    Inputs are drawn. A model that only accepts certain numbers is proved on those of --feed and
    --inputs; for other sizes numbers are taken from among them.

    Sizes of an MXNet graph are chosen by `graphshare export --shape`.
    """
    values = load_feeds(parse_feeds(feeds))
    result = reshape(source, feeds=values, rounds=rounds or 1, seed=seed or 0, **settings)
    outputs = write_result(result, output, report={"reshaping": result.report})
    if outputs is not None:
        for line in _describe(result.report):
            say(line)
        say_written(outputs)


def _describe(report: Reshaping) -> Iterator[str]:
    for what, values in (("input", report.inputs), ("output", report.outputs)):
        for name, shape in values.items():
            yield f"{what} {escape_control(name)} {escape_control(format_dims(shape))}"
    if report.changed:
        yield f"changed: {format_name_list(list(report.changed))}"
    if report.folded:
        yield f"folded: {format_count(report.folded, 'operator')} whose values the fixed sizes decide"
    if report.proof is None:
        yield "NOT PROVED: it was not compared with the original"
    else:
        yield from _describe_proof(report.proof)


def _format_sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {size}" for name, size in sizes.items())


def _describe_proof(proof: SizesProof) -> Iterator[str]:
    places = []
    if proof.outputs:
        places.append("the sizes of the file")
    if proof.fixed:
        places.append("the fixed sizes")
    count = format_count(proof.outputs or proof.fixed, "output")
    text = f"{count} equal bit for bit at {' and '.join(places)}"
    # A comparison at the sizes of the file proves nothing about other sizes.
    if proof.witnesses or not proof.sizes:
        text = f"proved: {text}"
    if not proof.optimized:
        text += " without optimizations"
    if proof.batches:
        sizes = ", ".join(map(str, proof.batches))
        text += (
            f"; samples in batches of {sizes} match those by themselves, "
            f"up to {proof.of_largest:.3g} of the largest value"
        )
    yield text
    if proof.sizes:
        tried = "; ".join(map(_format_sizes, proof.sizes))
        without = "" if proof.witnesses else "; nothing to compare with (--witness MODEL)"
        yield f"computed at {tried}{without}"
    for path, verdict in proof.witnesses:
        yield f"compared with {escape_control(path)}: {verdict}"
