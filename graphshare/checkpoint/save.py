"""Save what a command or function made: the graph, its parameters, the map and arrays, all of them or none.

Everything is written beside its target and checked before the first file is put in place.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

from graphshare.checkpoint.load import StrPath, locate_refusals
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.outputs import Outputs, check_outputs, resolve_outputs
from graphshare.checkpoint.parameters import split_by_origin
from graphshare.errors import Fault, OutputError, UsageError
from graphshare.files.atomic import OutputTransaction
from graphshare.files.paths import STDOUT, Content, UsedFile, base_name, refuse_inputs_as_outputs
from graphshare.files.staged_file import output_error
from graphshare.formats.model_format import Capability, CopiedWeights, SaveOptions, find_format, require
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph
from graphshare.resources import end_time_limit

_NO_OPTIONS = SaveOptions()


def save(
    model: Checkpoint,
    out: StrPath,
    *,
    params: StrPath | None = None,
    map: StrPath | None = None,
    in_place: bool = False,
    verify_bytes: bool = False,
    weights: CopiedWeights | None = None,
    no_copy: bool = False,
) -> Outputs:
    """Write a model to ``out`` with its parameters and the map of its rewrites; all of them or none.

    A stem (``siam``) names both files (``siam-symbol.json``, ``siam-0000.params``); in a directory they have the model's own
    name. For a path, ``params`` says where the parameters go, and its suffix chooses their format. ``map`` is a file for the
    map: which node became which. With ``in_place`` the files that the model was loaded from may be replaced. With
    ``verify_bytes`` the written parameters are read again and compared with their source. Returns where everything went.

    An ONNX model holds its parameters itself. External data stays in its files where these are in or below the directory of
    ``out``; else what is needed is copied into one file beside it, or refused with ``no_copy``. With ``weights`` ``"copy"``
    copies of an initializer get external data of their own; with ``"share"``, as without it, they share one range.

    Raises:
        UsageError: the parameters have new names and no file to go to, or there are none to write.
        RefusedError: an output is an input, or a parameter has no place in the format; all are listed. The format has no use
            for ``params``, ``weights`` or ``no_copy``.
        OutputError: a file could not be written; what it held before is still there.
        SelfCheckError: the result does not read back as it should.
    """
    outputs = resolve_outputs(model, out, params, map, in_place=in_place)
    write_outputs(outputs, model, options=choose_options(model, weights, no_copy=no_copy, verify_bytes=verify_bytes))
    return outputs


def choose_options(
    model: Checkpoint, weights: CopiedWeights | None, *, no_copy: bool = False, verify_bytes: bool = False
) -> SaveOptions:
    """Return how a model is written. Raises RefusedError for options about external data that its format does not have."""
    for option, is_set in (("`weights`", weights is not None), ("`no_copy`", no_copy)):
        if is_set:
            require(model.graph, Capability.EXTERNAL_DATA, what=option, where=model.where)
    return SaveOptions(weights or "share", no_copy, verify_bytes)


def write_outputs(
    outputs: Outputs,
    model: Checkpoint,
    *,
    arrays: Mapping[str, Any] | None = None,
    options: SaveOptions = _NO_OPTIONS,
) -> None:
    """Write what ``outputs`` names of ``model``, and ``arrays`` by name, in one transaction.

    The graph is read back and checked before anything is in place. What goes to stdout is flushed before a file is replaced.

    Raises:
        RefusedError: an output is an input, or a parameter has no place in the format; all are listed.
        OutputError: a file could not be written; what it held before is still there.
        SelfCheckError: the result does not read back as it should.
    """
    check_outputs(outputs, model)
    end_time_limit()
    with locate_refusals(model), OutputTransaction() as stage:
        if "-" in (outputs.graph, outputs.arrays):
            stage.claim_stdout()
        to_stdout: list[bytes] = []
        if outputs.graph:
            format_ = find_format(model.graph)
            to_stdout = format_.stage(model.graph, model.parameter_file, outputs.graph, stage, options)
        if model.parameter_file is not None and outputs.params:
            _stage_params(model.parameter_file, model.graph, outputs.params, stage, options.verify_bytes)
        if outputs.map:
            from graphshare.checkpoint.map_file import map_text  # its hashes take time to import

            stage.open(outputs.map).write(map_text(model).encode())
        if arrays is not None and outputs.arrays:
            to_stdout += _stage_arrays(arrays, outputs.arrays, stage)
        if to_stdout:
            write_stdout(to_stdout)
        stage.commit()


def _stage_params(file: ParameterFile, graph: Graph, target: str, stage: OutputTransaction, verify_bytes: bool) -> None:
    from graphshare.formats.params.convert import stage_params
    from graphshare.formats.params.registry import SUFFIXES

    if target == "-":
        raise UsageError(Fault("parameters cannot go to stdout", hint="name a file with `save(params=...)`"))
    parts = split_by_origin(file)
    in_memory = any(record.origin is not None for _, plan in parts for record, _ in plan)
    np_shape = (len(parts) > 1 or in_memory) and any(record.layout == "V3" for record in file.records)
    np_shape |= in_memory and graph.attrs.get("is_np_shape", ("int", 0))[1] == 1
    format_ = next(
        (format_.name for suffix, format_ in SUFFIXES.items() if base_name(target).lower().endswith(suffix)), file.format
    )
    stage_params(parts, stage, target, to=format_, densify=in_memory, np_shape=np_shape, verify_bytes=verify_bytes)


def _stage_arrays(arrays: Mapping[str, Any], target: str, stage: OutputTransaction) -> list[bytes]:
    """Write arrays as ``.npz`` beside their target; what goes to stdout is returned instead."""
    from graphshare.formats.params.array_files import write_arrays  # start-up: only this path needs it
    from graphshare.formats.params.registry import FORMATS

    if target != "-":
        write_arrays(arrays, stage.open(target), FORMATS["npz"])
        return []
    buffer = io.BytesIO()
    write_arrays(arrays, buffer, FORMATS["npz"])
    return [buffer.getvalue()]


def write_stdout(pieces: Iterable[bytes]) -> None:
    """Write to stdout and flush it.

    Raises:
        OutputError: it cannot be written; a closed pipe stays a BrokenPipeError, which ends the command quietly.
    """
    if sys.stdout is None:
        raise OutputError(Fault("is closed", where=STDOUT, hint="name a file with `out`"))
    try:
        for piece in pieces:
            _write_whole(sys.stdout.buffer, piece)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise output_error(error, STDOUT) from error


def _write_whole(file: BinaryIO, piece: bytes) -> None:
    """Write every byte: under ``python -u`` stdout has no buffer and may take a part without an error."""
    rest = memoryview(piece)
    while rest:
        written = file.write(rest)
        if not written:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        rest = rest[written:]


def write_text(
    path: str,
    text: bytes,
    *,
    content: Content = "report",
    inputs: Iterable[UsedFile] = (),
    stage: OutputTransaction | None = None,
) -> None:
    """Write a report or picture to the file ``path``, with the files of ``stage`` if there are some, which is committed.

    Raises:
        RefusedError: ``path`` is one of ``inputs``, the files from which it was made.
        OutputError: the file could not be written; what it held before is still there.
    """
    refuse_inputs_as_outputs([UsedFile(path, content)], inputs)
    with stage or OutputTransaction() as stage:
        stage.open(path).write(text)
        stage.commit()
