"""What the word GRAPH on a command line means: a path, standard input, or the stem of a checkpoint.

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

import msgspec

from graphshare.errors import Fault, InputError, RefusedError, UsageError
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.formats.nearby import GRAPHS, meant
from graphshare.formats.params.records import ParameterFile
from graphshare.formats.params.registry import read_index
from graphshare.ir.graph import Graph

STDIN = "<stdin>"
_EPOCH = re.compile(r"-(\d{4,})\.params$")
# A symbol file of a million nodes takes 0.2 GB. A pipe or a device (/dev/zero) may have no end at all.
MAX_STREAM = 1 << 30
_PIECE = 1 << 20
_SUFFIX = re.compile(r"\.[A-Za-z]\w*$")


class Checkpoint(msgspec.Struct, frozen=True, eq=False):
    """A graph with where it came from, and its parameter file where there is one.

    ``data`` are the graph file's bytes; ``stem`` is empty unless GRAPH was one.
    """

    where: str
    data: bytes
    graph: Graph
    params: ParameterFile | None = None
    stem: str = ""
    epoch: int = 0


def load_checkpoint(source: str, *, epoch: int | None = None, params: str | None = None) -> Checkpoint:
    """The graph that ``source`` means, and its parameter file: ``params``, or for a stem the one beside it.

    Raises:
        InputError: a file cannot be read or is broken.
        UsageError: a stem has several parameter files and ``epoch`` does not choose one.
    """
    path, stem = graph_path(source)
    data = read_source(path)
    graph = read_symbol(data, where=path)
    if params is None and stem:
        params = sibling_params(stem, epoch)
    elif params is None and epoch is not None:
        raise UsageError(
            Fault(f"--epoch {epoch} needs a stem, but {source!r} is a file", hint="name the parameter file with --params")
        )
    found = _EPOCH.search(params or "")
    return Checkpoint(path, data, graph, read_index(params) if params else None, stem, int(found[1]) if found else epoch or 0)


def graph_path(source: str) -> tuple[str, str]:
    """The file that GRAPH means, and the stem where it is one (else an empty text). Raises InputError where there is none."""
    if source == "-":
        return STDIN, ""
    if os.path.exists(source) and not os.path.isdir(source):
        return source, ""
    symbol = f"{source}-symbol.json"
    if os.path.exists(symbol):
        return symbol, source
    if os.path.isdir(source):
        raise InputError(Fault("is a directory", where=source, hint="give a symbol file or the stem of a checkpoint"))
    hint = meant(source, GRAPHS, stems=True) or f"neither this file nor {symbol} is there"
    raise InputError(Fault("does not exist", where=source, hint=hint))


def read_source(path: str) -> bytes:
    """The bytes of a graph file, or of standard input. Raises InputError."""
    try:
        if path == STDIN:
            if sys.stdin is None:
                raise InputError(Fault("is closed", where=path, hint="pipe a symbol file into the command"))
            if sys.stdin.isatty():
                hint = "pipe a symbol file into the command, or name one"
                raise UsageError(Fault("is the terminal, where nobody types a graph", where=path, hint=hint))
            return _read_to_end(sys.stdin.buffer, path)
        with open(path, "rb") as file:
            return _read_to_end(file, path)
    except (OSError, ValueError) as error:
        raise InputError(Fault(f"cannot be read: {getattr(error, 'strerror', None) or error}", where=path)) from error
    except MemoryError:
        raise InputError(Fault("does not fit in memory", where=path, hint="is this a symbol file?")) from None


def _read_to_end(file: BinaryIO, path: str) -> bytes:
    """All of a file; of what may be endless, no more than ``MAX_STREAM`` bytes, and nothing beyond a start that is no JSON.

    Raises:
        InputError: it is longer, or does not begin as a symbol file does.
    """
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file.read()
    pieces: list[bytes] = []
    size = 0
    while piece := file.read(_PIECE):
        if not pieces and piece.lstrip()[:1] not in (b"{", b"", b"\xef", b"\xff", b"\xfe"):
            hint = "a symbol file is a JSON object with nodes, arg_nodes and heads"
            raise InputError(Fault(f"is no symbol file: it starts with {piece[:8]!r}", where=path, path="byte 0", hint=hint))
        pieces.append(piece)
        size += len(piece)
        if size > MAX_STREAM:
            hint = "is it a symbol file? One so large is read from a file, not from a pipe or device"
            raise InputError(Fault(f"goes on beyond {MAX_STREAM >> 20} MiB", where=path, hint=hint))
    return b"".join(pieces)


@contextmanager
def refusals_of(source: Checkpoint) -> Iterator[None]:
    """Refusals that do not say which file they speak of speak of the graph's."""
    try:
        yield
    except RefusedError as error:
        raise error.with_location(source.where) from error.__cause__


def sibling_params(stem: str, epoch: int | None) -> str | None:
    """The parameter file beside a stem's graph; None when there is none and none was asked for."""
    if epoch is not None:
        path = params_path(stem, epoch)
        if not os.path.exists(path):
            raise InputError(Fault("does not exist", where=path, hint=_epochs_hint(stem)))
        return path
    found = _siblings(stem)
    if len(found) > 1:
        raise UsageError(Fault(f"{stem} has {len(found)} parameter files", where=stem, hint=_epochs_hint(stem)))
    return found[0] if found else None


def _siblings(stem: str) -> list[str]:
    folder, name = os.path.split(stem)
    try:
        entries = sorted(os.listdir(folder or "."))
    except OSError:
        return []
    return [os.path.join(folder, e) for e in entries if e.startswith(f"{name}-") and _EPOCH.fullmatch(e[len(name) :])]


def _epochs_hint(stem: str) -> str:
    epochs = [str(int(match[1])) for path in _siblings(stem) if (match := _EPOCH.search(path))]
    return f"there are epochs {', '.join(epochs)}: choose with --epoch" if epochs else f"no {stem}-NNNN.params is there"


def params_path(stem: str, epoch: int) -> str:
    """The parameter file of a checkpoint, as MXNet names it."""
    return f"{stem}-{epoch:04d}.params"


class Outputs(msgspec.Struct, frozen=True):
    """Where results go; ``graph`` may be ``-`` for standard output, an empty text means nowhere."""

    graph: str = "-"
    params: str = ""
    map: str = ""


def resolve_outputs(out: str | None, params_out: str | None, map_out: str | None, source: Checkpoint) -> Outputs:
    """``-o`` as a path, ``-`` or a stem; a stem also names the parameter file, where there are parameters."""
    if out is None or out == "-":
        return Outputs("-", params_out or "", map_out or "")
    if is_stem(out):
        params = params_out or (params_path(out, source.epoch) if source.params is not None else "")
        return Outputs(f"{out}-symbol.json", params, map_out or "")
    return Outputs(out, params_out or "", map_out or "")


def is_stem(out: str) -> bool:
    """Whether ``-o`` names a checkpoint rather than a file: it has no suffix and is no existing file or device."""
    return _SUFFIX.search(out) is None and not (os.path.exists(out) and not os.path.isdir(out))
