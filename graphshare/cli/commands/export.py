"""``graphshare export``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import click
import msgspec

from graphshare.api.export import ExportFacts, export
from graphshare.checkpoint.model import Checkpoint
from graphshare.cli import image_options, options
from graphshare.cli.command import Command, option
from graphshare.cli.console import put_json, say
from graphshare.cli.output import format_name_list, warn
from graphshare.export_onnx.opsets import DEFAULT
from graphshare.formats.model_format import WeightPlace
from graphshare.formats.params.convert import FLOATS
from graphshare.text.format import escape_control, format_bytes, format_count

EXAMPLES = {
    "export": [
        (
            "a network as ONNX, proved",
            "graphshare export lenet --shape data=1,1,28,28 -o lenet.onnx",
        ),
        (
            "features, with the weights left in their file",
            "graphshare export lenet --shape data=1,1,28,28 --upto fc1 --weights params -o features.onnx",
        ),
    ],
}


@click.command("export", cls=Command, brief=2)
@options.reading
@option("-o", "--out", metavar="OUT", required=True, help="Path of the ONNX file, or a directory.")
@options.named_shapes
@image_options.feeding
@options.as_input
@option(
    "--upto",
    metavar="NAME",
    multiple=True,
    help="Export up to this node or output [the graph's heads].",
)
@option("--fold", is_flag=True, help="Fold BatchNorm into the weights first.")
@option(
    "--dtype",
    type=click.Choice(FLOATS),
    help="Convert floating-point parameters to this type first [unchanged].",
)
@option(
    "--keep-io",
    is_flag=True,
    help="Keep inputs and outputs in float32 where the graph has float16.",
)
@option(
    "--input-dtype",
    "input_dtypes",
    metavar="NAME=DTYPE",
    multiple=True,
    callback=lambda context, option, texts: _parse_dtypes(texts),
    help="Type of an input in the model, such as data0=int64.",
)
@option(
    "--opset",
    type=int,
    default=DEFAULT,
    metavar="N",
    help=f"Version of ONNX's operator set [{DEFAULT}].",
)
@option(
    "--weights",
    type=click.Choice(get_args(WeightPlace)),
    default="embed",
    help="Put the weights into the file or into one beside it, or leave them in their own [embed].",
)
@options.dynamic_batch
@options.refuse_old("--dynamic", "name the sizes in --shape, as in --shape data=n,3,h,w")
@option(
    "--custom-domain",
    default="",
    metavar="D",
    help="Write operators without a translation as nodes of this domain.",
)
@options.no_verify("Skip ONNX's checker and the proof in onnxruntime.")
@option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    metavar="SEED",
    help="Seed of the inputs that are not fed [0].",
)
@options.tolerance
@options.max_memory
@options.time_limit
@options.format_
def command(
    source: Checkpoint,
    out: str,
    format_: str,
    **settings: Any,
) -> None:
    """Export to ONNX, keep tied weights tied, and prove the result.

    The model contains only what inference needs: labels, Dropout and the gradients of losses are
    gone. Inputs, outputs and parameters keep MXNet's names. A parameter with several users is one
    initializer, so a siamese network costs no weight twice.

    Before the file is in place ONNX's checker reads it, and onnxruntime and graphshare compute it
    on equal inputs: those of --feed, and the rest drawn with --seed. Every output must agree, up to
    --tolerance (1e-4 of its largest number, of float16 1e-2, also where it is inside alone), and
    the branches of a siamese network must be equal bit for bit. This needs `pip install onnx
    onnxruntime`.

    Shapes are fixed, unless --dynamic-batch, or names of sizes in --shape (data=n,3,h,w), leave
    some open. A batch stays open only where no operator mixes its samples, and other sizes where
    the graph's nodes allow it; such a model is proved at several sizes. A name is translated at 1
    for a first axis and at 224 for others, or at a number of its own: h:480.

    --dtype float16 halves the model: the graph computes in the type of its parameters, and what
    BatchNorm takes in float32 only stays float32. --keep-io leaves inputs and outputs float32, with
    a Cast at both ends. Tokens and other indices are int64 with --input-dtype data0=int64; where
    the graph needs floats of them the model casts them.

    --weights params leaves the weights where they are, also those of several gigabytes: the model
    points into the parameter file, which must lie in or below the directory of the model.

    Where operators cannot be exported, all of them are listed and nothing is written.
    """
    exported = export(source, out, **settings).report
    if format_ == "json":
        proof = exported.proof
        facts = msgspec.to_builtins(msgspec.structs.replace(exported, proof=None))
        facts["proof"] = None if proof is None else proof.describe()
        put_json(
            {"proved": bool(proof), "verdict": None if proof is None else proof.verdict, **facts}
        )
        return
    _say_exported(exported)


def _parse_dtypes(texts: Sequence[str]) -> dict[str, str]:
    """Parse ``data0=int64``. Raises UsageError for malformed pairs; all are listed."""
    hint = "write --input-dtype data0=int64"
    return dict(
        options.parse_pairs(texts, "--input-dtype names no input and type", hint, lambda pair: True)
    )


def _say_exported(exported: ExportFacts) -> None:
    warn(exported.notes)
    for old, new in exported.renamed:
        say(f"renamed: {escape_control(old)} -> {escape_control(new)}")
    if exported.dropped:
        say(f"left out: {format_name_list(list(exported.dropped))}")
    if exported.embedded:
        say(
            f"changed from the parameter file, and therefore embedded: {format_name_list(list(exported.embedded))}"
        )
    for what, values in (("input", exported.inputs), ("output", exported.outputs)):
        for name, shape in values.items():
            say(f"{what} {escape_control(name)} {'x'.join(map(str, shape)) or 'scalar'}")
    say(
        f"wrote {', '.join(exported.files)}: {format_count(exported.nodes, 'node')}, {format_bytes(exported.bytes)}"
    )
    say(
        exported.proof.verdict
        if exported.proof is not None
        else "NOT PROVED: it was not compared with the original"
    )
