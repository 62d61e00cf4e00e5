"""``graphshare split``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from graphshare.analysis.name_lists import NameLists
from graphshare.api.split import Splitting, split
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameters import notes_on
from graphshare.checkpoint.save import Outputs, resolve_outputs, write_models
from graphshare.cli import options
from graphshare.cli.command import Command, option
from graphshare.cli.console import name_program, put, put_json, say
from graphshare.cli.output import format_name_list, say_written, warn
from graphshare.errors import Fault, UsageError
from graphshare.files.atomic import make_folder
from graphshare.files.paths import STDIN, find_stdout_faults, join
from graphshare.formats.model_names import find_stem_name
from graphshare.text.format import escape_control, format_names
from graphshare.text.markup import quote_shell, write_path

_LISTED = 6

EXAMPLES = {
    "split": [
        ("two parts, the first up to a layer", "graphshare split lenet --at pool2 -o parts/"),
        ("three parts with about equal weights", "graphshare split lenet.onnx --into 3 -o thirds/"),
    ],
}


@click.command("split", cls=Command)
@options.reading
@option(
    "--at",
    metavar="NAME",
    multiple=True,
    help="End a part with this value or node, from the inputs on.",
)
@option(
    "--into",
    type=click.IntRange(min=2),
    metavar="N",
    help="Make N parts, whose weights are about equal.",
)
@options.types("a value that crosses")
@option("-o", "--out", metavar="DIR", required=True, help="Folder of the parts.")
@options.format_
@options.max_memory
@options.time_limit
def command(
    source: Checkpoint,
    out: str,
    format_: str,
    **settings: Any,
) -> None:
    """Divide a model into parts that compute it one after the other.

    A value that later parts read is an output of the part that computes it and an input of theirs,
    under its name; a part may read values of any part before it. Bodies and functions stay whole,
    and each part has the weights that it reads. The parts are joined in memory, and must be the
    model node by node, before anything is written. The last line is the command that joins the
    files again; `graphshare pool` puts their weights into one file.
    """
    UsageError.raise_any(
        [
            *find_stdout_faults(out, "a folder of parts", "name a folder with -o"),
            *_find_nameless(source),
        ]
    )
    warn(notes_on(source.parameter_file, source.graph))
    result = split(source, **settings)
    stem = find_stem_name(source.where) or "part"
    paths = [join(out, f"{stem}-{number}") for number in range(1, len(result.parts) + 1)]
    with make_folder(out):
        outputs = [
            resolve_outputs(part, path) for path, part in zip(paths, result.parts, strict=True)
        ]
        write_models(zip(outputs, result.parts, strict=True))
    if format_ == "json":
        put_json(_describe(result, outputs))
        return
    for path, part in zip(paths, result.parts, strict=True):
        lists = NameLists(part.graph)
        inputs = [name for name in lists.arguments if part.held is None or name not in part.held]
        ends = f"{format_name_list(inputs)} -> {format_name_list(lists.outputs)}"
        put([f"{path}: {part.graph.source.describe_parts(part.graph.nodes)}, {ends}"])
    for each in result.crossings:
        readers = ", ".join(map(str, each.readers))
        put([f"{escape_control(each.name)}: from part {each.source} to {readers}"])
    for files in outputs:
        say_written(files)
    if result.unused:
        say(f"in no part: inputs that nothing reads ({format_names(result.unused, _LISTED)})")
    say(f"join them again: {_make_join_line(result, paths)}")


def _find_nameless(source: Checkpoint) -> list[Fault]:
    if source.where != STDIN:
        return []
    hint = "save the model to a file, and name that"
    return [Fault("parts are named after the model, and stdin has no name", hint=hint)]


def _describe(result: Splitting, outputs: Sequence[Outputs]) -> dict[str, object]:
    parts = [{"graph": each.graph, "params": each.params or None} for each in outputs]
    return {
        "version": 1,
        "parts": parts,
        "crossings": result.crossings,
        "inputs": result.inputs,
        "outputs": result.outputs,
        "unused": result.unused,
    }


def _make_join_line(result: Splitting, paths: Sequence[str]) -> str:
    words = ["group", *map(write_path, paths)]
    for each in result.crossings:
        words += ["--connect", each.name.replace("=", "\\=") + "=" + each.name]
    for name in result.inputs:
        words += ["--share-input", name]
    return " ".join(
        [name_program(), *map(quote_shell, words), "--on-collision tie-if-equal -o joined"]
    )
