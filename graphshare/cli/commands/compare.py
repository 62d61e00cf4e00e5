"""``graphshare compare``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import msgspec

from graphshare.api.compare import compare
from graphshare.checkpoint.load import load
from graphshare.checkpoint.model import Checkpoint
from graphshare.cli import image_options, options, proof_options
from graphshare.cli.command import Command, option
from graphshare.cli.console import put_bytes
from graphshare.cli.report import report_format
from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.verification.records import find_record

EXAMPLES = {
    "compare": [
        (
            "an ONNX model and an optimized version of it",
            "graphshare compare model.onnx optimized.onnx",
        ),
        ("layer by layer with recorded outputs", "graphshare compare lenet dump.npz --layers"),
    ],
}


_SIDE_OPTIONS = (
    click.argument("model", metavar="MODEL"),
    click.argument("other", metavar="OTHER"),
    options.epoch,
    options.params,
    option(
        "--against-params",
        "other_params",
        metavar="FILE",
        help="Parameter file of the other model.",
    ),
)


def _load_sides(named: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return two models, or a model and a record in either order.

    Raises UsageError for options of a record.
    """
    model, other = named["model"], named["other"]
    own, others = {name: named[name] for name in ("epoch", "params")}, named["other_params"]
    record = find_record(other)
    if record is not None:
        first = load(model, **own)
        if others is not None:
            raise UsageError(Fault("--against-params is for a model, and OTHER is a record"))
        return first, record
    swapped = find_record(model)
    if swapped is None:
        return load(model, **own), load(other, params=others)
    if any(value is not None for value in own.values()):
        hint = "--against-params names those of OTHER"
        raise UsageError(
            Fault("--params and --epoch are for a model, and MODEL is a record", hint=hint)
        )
    return swapped, load(other, params=others)


@click.command("compare", cls=Command, brief=4)
@options.answer_file  # outermost: it collects the files that are read
@options.gather(
    "sides", ("model", "other", "epoch", "params", "other_params"), _SIDE_OPTIONS, _load_sides
)
@option(
    "--map",
    metavar="FILE",
    help="Map file of the rewrite that made OTHER of MODEL, which pairs names.",
)
@image_options.feeding
@options.shapes
@option(
    "--target",
    "targets",
    metavar="NAME",
    multiple=True,
    help="Judge this output or inner value [all outputs].",
)
@proof_options.inputs
@proof_options.tolerance
@option("--exact", is_flag=True, help="Accept only what holds for every input, bit for bit.")
@option(
    "--by-weights", is_flag=True, help="Accept only what holds for every input, rounding apart."
)
@option(
    "--layers",
    is_flag=True,
    help="Compare inner outputs too; of two models they change no verdict.",
)
@option(
    "--allow-unsupported",
    is_flag=True,
    help="Accept one graph with equal parameters if an operator cannot run.",
)
@option(
    "--reduce",
    metavar="OUT",
    help="Write the smallest parts that show a difference to the folder OUT.",
)
@options.engines
@options.strict_engine
@options.max_memory
@options.time_limit
@report_format("html")
@options.refuse_old("--report", "write the report with -o FILE")
def command(
    sides: tuple[Any, Any],
    feeds: dict[str, Any],
    format_: str | None,
    **settings: Any,
) -> int:
    """Compare two models, or a model with recorded outputs.

    MODEL and OTHER are models of any format, precision and operator set, in either order. Instead
    of a model one of them can be recorded outputs: an .npz of `run --all -o`, the arrays that MXNet
    gave by their names, or a folder of ONNX's test data.

    What is known of each output and region, strongest first: exact (by identities, for every input,
    bit for bit); by weights (for every input, rounding apart); on N inputs (bit for bit, or within
    the tolerance); differs; not judged, with the reason. The verdict names the weakest. EQUAL is
    exit code 0. NOT EQUAL, and NOT PROVED, where a part differs and no output shows it, are exit
    code 1. What could not be judged, such as random numbers without a seed, is exit code 2.

    Outputs and inputs are paired by name, in their order where names differ. An output that one
    model alone has is not judged: --target names what is compared then. What is not exact is cut
    into regions at values that both models have. Each region runs in both models on equal values,
    and the first that differs is named. Equal names are a hint: where
    a name stands for another value of the other model, that is found.

    Numbers may differ by --rtol of the largest in their output, and by as much as either model
    differs from itself when sums are taken in another order, up to 1e-5 of the range of the output.
    Integers are equal, or differ by --atol.
    Where parameters have types of other precision, the tolerance is that of the less precise one:
    1e-2 of the largest number for float16.

    Open sizes are drawn with one sample and with two; a size that either model fixes is fixed for
    both. Any two inputs of one type differ in at least one set of inputs. --rounds adds sets;
    --feed and --inputs give values.

    --reduce cuts the first region that differs out of both models and makes it smaller as long as
    it differs. OUT gets both parts, their inputs and a page with the command that runs them, for a
    bug report. The files are run before they are in place. --format html is a page with both models
    in one, regions in colours.
    """
    first, second = sides
    try:
        report = compare(first, second, feeds=feeds, **settings)
    except RefusedError as error:
        others = getattr(second, "where", None)
        raise type(error)(
            [_name_params(fault) if fault.where == others else fault for fault in error.faults]
        ) from None
    if format_ != "html":
        where = first.where if isinstance(first, Checkpoint) else first.title
        return proof_options.finish(report, feeds, format_, where, "compare")
    if not (isinstance(first, Checkpoint) and isinstance(second, Checkpoint)):
        raise UsageError(
            Fault("--format html needs two models", hint="--format text compares with a record")
        )
    from graphshare.api.draw_proof import draw_proof  # start-up: few proofs are drawn

    put_bytes(draw_proof(report, first, second).data)
    return proof_options.find_exit_code(report)


def _name_params(fault: Fault) -> Fault:
    """Name the option of the other model's parameter file in a hint."""
    return msgspec.structs.replace(
        fault, hint=fault.hint.replace("`params=FILE`", "`other_params=FILE`")
    )
