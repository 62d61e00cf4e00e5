"""``graphshare pool``."""

from __future__ import annotations

from typing import Any

import click

from graphshare.api.pool import DATA, Pooling, pool
from graphshare.checkpoint.folder import Sieve, find_models, is_folder_of_models
from graphshare.checkpoint.load import load
from graphshare.checkpoint.parameters import notes_on
from graphshare.cli import options
from graphshare.cli.command import Command, option
from graphshare.cli.console import put_json, put_table, say
from graphshare.cli.output import warn
from graphshare.errors import Fault, UsageError
from graphshare.text.format import format_bytes, format_count

EXAMPLES = {
    "pool": [
        ("two models on one file of weights", "graphshare pool lenet.onnx folded.onnx -o pooled/"),
        (
            "all models of a folder on a file of tensors",
            "graphshare pool pooled/ -o tensors/ --data weights.safetensors",
        ),
        ("each on its own again", "graphshare pool --embed pooled/ -o single/"),
    ],
}


@click.command("pool", cls=Command)
@click.argument("graphs", metavar="GRAPH...", nargs=-1)
@option("-o", "--out", metavar="DIR", required=True, help="Folder of the new models.")
@option(
    "--data", metavar="NAME", default=DATA, help=f"Name of the file of weights in DIR [{DATA}]."
)
@option("--embed", is_flag=True, help="Put the weights back into the models' own files.")
@options.in_place
@options.no_verify("Skip the proof in onnxruntime; all bytes are compared anyway.")
@options.exclude
@options.max_memory
@options.time_limit
@options.format_
def command(
    graphs: tuple[str, ...],
    out: str,
    exclude: tuple[str, ...],
    format_: str,
    **settings: Any,
) -> None:
    """Put the weights of many ONNX models into one file, each once.

    GRAPH is a model or a folder of models. Arrays of equal bytes, of whatever name, shape or model,
    are in the file once, also those of Constants and of bodies; small ones stay in the models. The
    models keep their names, and point into the file. If DIR has a file of weights that its models
    use, new arrays are appended to it. Arrays that a .safetensors or .params file already has are
    read from there.

    Every array is compared with its source, byte by byte; then onnxruntime computes each model
    before and after, and every output must be equal bit for bit. All files appear together, or
    none.
    """
    sieve = Sieve(exclude)
    if graphs.count("-"):
        raise UsageError(
            Fault(
                "a pool is made of files, and stdin has no name",
                hint="name the files of the models",
            )
        )
    files = [file for graph in graphs for file in _list_files(graph, sieve)]
    sieve.refuse_unused()
    for note in sieve.notes():
        say(note)
    models = [load(file) for file in files]
    warn([note for model in models for note in notes_on(model.parameter_file, model.graph)])
    result = pool(models, out, **settings)
    if format_ == "json":
        put_json(result)
        return
    _put_models(result)
    if result.data:
        say(
            f"{format_bytes(result.weights)} of weights take {format_bytes(result.distinct)} in {result.data}"
        )
    if result.orphans:
        say(
            f"{format_bytes(result.orphans)} of {result.data} are not used by any model beside it",
            style="warning",
        )
    say(
        f"wrote {format_count(len(result.models), 'model')}: {format_bytes(result.before)} -> "
        f"{format_bytes(result.after)}"
    )


def _list_files(graph: str, sieve: Sieve) -> list[str]:
    return (
        [model.graph for model in find_models(graph, sieve)]
        if is_folder_of_models(graph)
        else [graph]
    )


def _put_models(result: Pooling) -> None:
    rows = [
        (one.out, format_bytes(one.before), format_bytes(one.after), f"{one.arrays:,}", one.proof)
        for one in result.models
    ]
    put_table(
        ("model", "before", "after", "arrays", "proof"), rows, right=("before", "after", "arrays")
    )
    for one in result.models:
        if one.kept:
            say(
                f"{one.out}: {format_bytes(one.kept)} of weights are not in the file, and stay in the model"
            )
