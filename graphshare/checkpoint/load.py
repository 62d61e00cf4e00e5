"""Load a model from what GRAPH means on a command line: a path or URL, ``-`` for stdin, or the stem of a checkpoint.

A checkpoint is a pair of files as MXNet's ``save_checkpoint`` names them: ``STEM-symbol.json`` and ``STEM-0007.params``.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, InputError, RefusedError, UsageError
from graphshare.formats.byte_source import read_whole
from graphshare.formats.gzip_file import MAGIC as GZIP
from graphshare.formats.gzip_file import MAX_UNPACKED, unpack, unpack_start
from graphshare.formats.mxnet.document import SAMPLE, begins_like_json
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.formats.nearby import GRAPHS, STEM_END, refuse_missing, suggest_files, suggest_graph
from graphshare.formats.open_source import suggest_others
from graphshare.formats.output_paths import STDIN
from graphshare.formats.paths import base_name, exists, extend, is_file, is_folder, is_surely_file, join, list_names, split
from graphshare.text.format import format_bytes, format_count
from graphshare.text.urls import is_url, local_path, redact

_EPOCH = r"-(\d{4,})\.params$"
# A symbol file of a million nodes takes 0.2 GB. A pipe or a device (/dev/zero) may have no end at all.
MAX_STREAM = 1 << 30
_PIECE = 1 << 20
_FIRST = 1 << 18  # bytes of the first request for a graph: most have less

StrPath = str | os.PathLike[str]


def load(source: StrPath, *, epoch: int | None = None, params: StrPath | None = None) -> Checkpoint:
    """Load the model that ``source`` names: a symbol file, an ONNX model, the stem of a checkpoint, or ``-`` for stdin.

    Paths may be URLs.

    The parameters are those in ``params``, or for a stem those in ``STEM-NNNN.params`` (of ``epoch``, if there are several);
    only their names, shapes and places are read.

    Raises:
        InputError: a file cannot be read or is broken.
        UsageError: a stem has several parameter files and ``epoch`` does not choose one.
    """
    source, params = local_path(os.fspath(source)), local_path(os.fspath(params)) if params else None
    path, stem = graph_path(source)
    if path == STDIN and params == "-":
        raise UsageError(Fault("the graph and its parameters cannot both come from stdin"))
    data = read_source(path)
    if not begins_like_json(data) and is_onnx_file(path, data):
        return _load_onnx(path, stem, epoch, params)
    graph = read_symbol(data, where=path)
    if params is None and stem:
        params = sibling_params(stem, epoch)
    elif params is None and epoch is not None:
        raise UsageError(
            Fault(f"--epoch {epoch} needs a stem, but {source!r} is a file", hint="name the parameter file with --params")
        )
    number = re.search(_EPOCH, params) if params else None
    if params:
        from graphshare.formats.params.registry import read_index  # start-up: graphs alone need no parameter format
    file = read_index(params) if params else None
    return Checkpoint(graph, file, redact(path), data, redact(stem), int(number[1]) if number else epoch or 0)


def is_onnx_file(path: str, data: bytes) -> bool:
    """Return whether a file that begins with ``data``, which is not JSON, is an ONNX model."""
    from graphshare.formats.content_tests import is_onnx  # start-up: symbol files need no other format
    from graphshare.formats.wrong_file import recognize

    return is_onnx(data) or (path.lower().endswith(".onnx") and recognize(data) is None)


def _load_onnx(path: str, stem: str, epoch: int | None, params: str | None) -> Checkpoint:
    """Load an ONNX model, which holds its parameters. Raises UsageError for a parameter file beside it."""
    from graphshare.formats.onnx.decode import read_model  # start-up: symbol files need no other format
    from graphshare.formats.onnx.parameters import index_parameters

    if params or epoch is not None:
        option = "--params" if params else "--epoch"
        raise UsageError(Fault(f"{option} is for MXNet models: an ONNX model holds its parameters itself", where=path))
    if path == STDIN and not stat.S_ISREG(os.fstat(sys.stdin.fileno()).st_mode):
        raise InputError(
            Fault("is an ONNX model from a pipe, and one is read by seeking", where=path, hint="save it to a file first")
        )
    graph = read_model("-" if path == STDIN else path)
    return Checkpoint(graph, index_parameters(graph), redact(path), b"", redact(stem))


def graph_path(source: str) -> tuple[str, str]:
    """Return the file that GRAPH means, and the stem if it is one (else ``""``). Raises InputError if there is no such file."""
    if source == "-":
        return STDIN, ""
    if is_url(source) and is_surely_file(source):
        return source, ""  # one request less: the one that reads the file tells whether it is there
    if not is_url(source) and is_file(source):
        return source, ""
    symbol = extend(source, STEM_END)
    if not is_url(source) or base_name(source):
        for path in (symbol, extend(source, ".onnx")):
            if exists(path):
                return path, source
    if is_url(source) and is_file(source):
        return source, ""
    if is_folder(source):
        raise InputError(Fault("is a directory", where=source, hint="give a symbol file or the stem of a checkpoint"))
    hint = suggest_files(source, GRAPHS, stems=True) or suggest_graph(source) or f"neither this file nor {symbol} is there"
    raise InputError(refuse_missing(source, hint))


def read_source(path: str) -> bytes:
    """Return the bytes of a graph file, of one at a URL, or of stdin. Raises InputError."""
    if is_url(path):
        return _read_url(path)
    try:
        if path == STDIN:
            if sys.stdin is None:
                raise InputError(Fault("is closed", where=path, hint="pipe a symbol file into the command"))
            if sys.stdin.isatty():
                hint = "pipe a symbol file into the command, or name one"
                raise UsageError(Fault("is a terminal, and a graph is read from a file or a pipe", where=path, hint=hint))
            return _read_to_end(sys.stdin.buffer, path)
        with open(path, "rb") as file:
            return _read_to_end(file, path)
    except (OSError, ValueError) as error:
        raise InputError(Fault(f"cannot be read: {getattr(error, 'strerror', None) or error}", where=path)) from error
    except MemoryError:
        raise InputError(Fault("does not fit in memory", where=path, hint="is this a symbol file?")) from None


def _read_url(url: str) -> bytes:
    """Return the bytes of the graph file at a URL, unpacked if gzip packed it."""
    from graphshare.formats.remote.source import open_url  # start-up: only URLs need it

    try:
        opened = open_url(url, first=_FIRST)
    except InputError as error:
        raise suggest_others(error, url, GRAPHS) from error.__cause__
    with opened as source:
        if source.size > MAX_STREAM:
            message = f"has {format_bytes(source.size)}, and graphs of up to {MAX_STREAM >> 20} MiB are read from a URL"
            raise InputError(Fault(message, where=url, hint="is it a symbol file?"))
        start = source.read_at(0, min(SAMPLE, source.size))
        is_packed = start.startswith(GZIP) and begins_like_json(unpack_start(start, SAMPLE))
        if not is_packed and not begins_like_json(start):
            rest = min(SAMPLE, source.size - len(start))
            return start + source.read_at(source.size - rest, rest)
        data = read_whole(source)
    return unpack(data, where=url) if is_packed else data


def _read_to_end(file: BinaryIO, path: str) -> bytes:
    """Return all of a file, unpacked if gzip packed it; of a pipe or device at most ``MAX_STREAM`` bytes.

    A file that is not JSON by its first bytes is not read to its end: :func:`read_symbol` names it by a sample of its bytes.

    Raises:
        InputError: a pipe goes on beyond the bound, or gzip's data is damaged or holds too much.
    """
    is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    begin = file.tell() if is_regular else 0
    start = file.read(SAMPLE)
    if start.startswith(GZIP) and begins_like_json(unpack_start(start, SAMPLE)):
        return unpack(start + file.read(MAX_UNPACKED), where=path)
    if not begins_like_json(start):
        return start + (_read_end(file) if is_regular else b"")
    if is_regular:
        file.seek(begin)
        return file.read()
    pieces, size = [start], len(start)
    while piece := file.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_STREAM:
            hint = "is it a symbol file? One so large is read from a file, not from a pipe or device"
            raise InputError(Fault(f"goes on beyond {MAX_STREAM >> 20} MiB", where=path, hint=hint))
    return b"".join(pieces)


def _read_end(file: BinaryIO) -> bytes:
    """Return the last bytes of a file, of those that have not been read."""
    position = file.tell()
    file.seek(max(position, file.seek(0, os.SEEK_END) - SAMPLE))
    return file.read()


@contextmanager
def locate_refusals(source: Checkpoint) -> Iterator[None]:
    """Name the graph's file in refusals that do not name a file."""
    try:
        yield
    except RefusedError as error:
        raise error.with_location(source.where) from error.__cause__


def sibling_params(stem: str, epoch: int | None) -> str | None:
    """Return the parameter file beside a stem's graph; None if there is none and ``epoch`` is None."""
    if epoch is not None:
        path = params_path(stem, epoch)
        if not exists(path):
            raise InputError(Fault("does not exist", where=path, hint=_epochs_hint(stem)))
        return path
    paths = _siblings(stem)
    if len(paths) > 1:
        raise UsageError(Fault(f"has {format_count(len(paths), 'parameter file')}", where=stem, hint=_epochs_hint(stem)))
    return paths[0] if paths else None


def find_params(source: StrPath, *, epoch: int | None = None) -> str:
    """Return the parameter file that FILE means: a path, ``-`` for stdin, or that of a stem (of ``epoch``, if it has several).

    Raises:
        InputError: a stem has no parameter file of ``epoch``.
        UsageError: a stem has several parameter files and ``epoch`` does not choose one; ``epoch`` is given with a path.
    """
    path = local_path(os.fspath(source))
    is_named = _is_parameter_file(path)
    if is_named and epoch is not None:
        raise UsageError(Fault(f"--epoch {epoch} needs a stem, but {path!r} is a file"))
    return path if is_named else sibling_params(path, epoch) or path


def find_both_params(left: StrPath, right: StrPath, *, epoch: int | None = None) -> tuple[str, str]:
    """Return the parameter files that A and B mean; ``epoch`` is that of each which is a stem.

    Raises:
        InputError: a stem has no parameter file of ``epoch``.
        UsageError: a stem has several parameter files and ``epoch`` does not choose one; ``epoch`` is given with two paths.
    """
    sides = [local_path(os.fspath(source)) for source in (left, right)]
    files = [_is_parameter_file(path) for path in sides]
    if all(files) and epoch is not None:
        raise UsageError(Fault(f"--epoch {epoch} needs a stem, but {sides[0]!r} and {sides[1]!r} are files"))
    one, other = (find_params(path, epoch=None if is_named else epoch) for path, is_named in zip(sides, files, strict=True))
    return one, other


def _is_parameter_file(path: str) -> bool:
    return path == "-" or (is_url(path) and is_surely_file(path)) or is_file(path)


def _siblings(stem: str) -> list[str]:
    folder, name = split(stem)
    try:
        entries = list_names(folder, prefix=f"{name}-")
    except OSError:
        return []
    except InputError:  # a web server that lists no folders: the first epoch is where MXNet puts it
        entries = [name for path in (params_path(stem, 0),) if exists(path) for name in (base_name(path),)]
    return [join(folder, entry) for entry in entries if re.fullmatch(_EPOCH, entry[len(name) :])]


def _epochs_hint(stem: str) -> str:
    paths = _siblings(stem)
    epochs = [str(int(match[1])) for path in paths if (match := re.search(_EPOCH, path))]
    choice = f"choose with --epoch, or name a file, such as {paths[0]}" if paths else ""
    return f"there are epochs {', '.join(epochs)}: {choice}" if epochs else f"no {extend(stem, '-NNNN.params')} is there"


def params_path(stem: str, epoch: int) -> str:
    """Return the path of a checkpoint's parameter file, as MXNet names it."""
    return extend(stem, f"-{epoch:04d}.params")
