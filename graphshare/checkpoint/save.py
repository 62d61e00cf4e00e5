"""Writing what a rewrite made: the graph, its parameters and the map, proved before any is put in place."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from mmap import ACCESS_READ, mmap
from typing import BinaryIO

import msgspec

from graphshare.checkpoint.load import Outputs
from graphshare.checkpoint.parameter_plan import Plan
from graphshare.checkpoint.self_check import check_written
from graphshare.errors import Fault, OutputError, UsageError
from graphshare.formats.atomic import Staged, output_error, staged_outputs
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph
from graphshare.progress import task

STDOUT = "<stdout>"


def write_results(
    graph: Graph,
    outputs: Outputs,
    *,
    params: Sequence[tuple[ParameterFile, Plan]] = (),
    map_text: str | None = None,
    verify_bytes: bool = False,
    proof: Callable[[ParameterFile | None], None] | None = None,
) -> None:
    """Writes ``graph`` and, where ``outputs`` names places for them, parameters and map; all of them or none.

    ``params`` are parameter files with what becomes of their records; the records of several files are written into one.
    The graph is read back and checked before anything is in place. On standard output it is flushed before a file is replaced.
    ``proof`` is asked last, with the parameters (of one file) under their new names; what it raises leaves all as it was.

    Raises:
        OutputError: something could not be written; what stood there before still stands.
        SelfCheckError: the result does not read back as it should.
    """
    with staged_outputs() as stage:
        text = _stage_graph(graph, outputs.graph, stage)
        if params and outputs.params:
            _stage_params(params, outputs.params, stage, verify_bytes)
        if map_text is not None and outputs.map:
            stage.open(outputs.map).write(map_text.encode())
        if proof is not None:
            proof(_under_new_names(*params[0]) if len(params) == 1 else None)
        if text is not None:
            write_stdout(text)
        stage.commit()


def _stage_graph(graph: Graph, target: str, stage: Staged) -> list[bytes] | None:
    """Writes the graph beside its target and checks it; what is bound for standard output is returned instead."""
    if target == "-":
        with task("writing", len(graph.nodes), "nodes") as advance:
            pieces = list(write_symbol(graph, advance))
        check_written(b"".join(pieces), graph, where=STDOUT)
        return pieces
    out = stage.open(target)
    with task("writing", len(graph.nodes), "nodes") as advance:
        for piece in write_symbol(graph, advance):
            out.write(piece)
    out.flush()
    if out.direct:  # a pipe or a device: it cannot be read back, so the text itself is
        check_written(b"".join(write_symbol(graph)), graph, where=target)
        return None
    with open(out.name, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        check_written(data, graph, where=target)
    return None


def _stage_params(parts: Sequence[tuple[ParameterFile, Plan]], target: str, stage: Staged, verify_bytes: bool) -> None:
    from graphshare.formats.params.convert import stage_params
    from graphshare.formats.params.registry import SUFFIXES

    if target == "-":
        raise UsageError(Fault("parameters cannot go to standard output", hint="name a file with --params-out"))
    np_shape = len(parts) > 1 and any(record.layout == "V3" for _, plan in parts for record, _ in plan)
    format_ = next((format_.name for suffix, format_ in SUFFIXES.items() if target.lower().endswith(suffix)), None)
    stage_params(parts, stage, target, to=format_, np_shape=np_shape, verify_bytes=verify_bytes)


def _under_new_names(source: ParameterFile, plan: Plan) -> ParameterFile:
    """The source's records under the keys they are written with: what the new file holds, read from the old one."""
    records = tuple(msgspec.structs.replace(record, key=key) for record, key in plan)
    return msgspec.structs.replace(source, records=records)


def write_stdout(pieces: Iterable[bytes]) -> None:
    """Writes to standard output and flushes it.

    Raises:
        OutputError: it cannot be written; a closed pipe stays a BrokenPipeError for the edge to end quietly.
    """
    if sys.stdout is None:
        raise OutputError(Fault("is closed", where=STDOUT, hint="name a file with -o"))
    try:
        for piece in pieces:
            _write_whole(sys.stdout.buffer, piece)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise output_error(error, STDOUT) from error


def _write_whole(file: BinaryIO, piece: bytes) -> None:
    """Writes every byte: under ``python -u`` standard output has no buffer and may take a part without an error."""
    rest = memoryview(piece)
    while rest:
        written = file.write(rest)
        if not written:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        rest = rest[written:]
