"""Handle paths and URLs alike: existence, kinds, names, identities, and files beside or near them.

Every path from a user goes through these functions, so that URLs work wherever paths do.

A path that ends in a separator, or that is a directory, is a directory: an output gets a name in
it, as with cp and mv. An output is an input if both are one regular file, even under different
paths: links lead to the same device and inode. URLs are compared as texts.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

import msgspec

from graphshare.errors import Fault, InputError, RefusedError, UsageError
from graphshare.files.byte_source import ListedFile
from graphshare.text.names import find_similar
from graphshare.text.urls import extend_url, is_url, join_url, redact, split_url

_FILE_ENDINGS = (".json", ".json.gz", ".params", ".npz", ".npy", ".safetensors", ".onnx", ".data")


def exists(path: str) -> bool:
    """Whether a file or folder exists. Raises InputError for a URL if that is unknown."""
    return _find_kind(path) != "" if is_url(path) else os.path.exists(path)


def is_file(path: str) -> bool:
    """Whether a file of any kind exists: a regular one, a pipe, a device."""
    return (
        _find_kind(path) == "file"
        if is_url(path)
        else os.path.exists(path) and not os.path.isdir(path)
    )


def is_folder(path: str) -> bool:
    """Whether a folder exists."""
    if not is_url(path):
        return os.path.isdir(path)
    return not is_surely_file(path) and (split_url(path).name == "" or _find_kind(path) == "folder")


def is_surely_file(url: str) -> bool:
    """Return whether a URL ends like a model file, and needs no request to rule out a stem or a
    folder.
    """
    return split_url(url).name.lower().endswith(_FILE_ENDINGS)


def split(path: str) -> tuple[str, str]:
    """Split a path into its folder and its name; the inverse of ``join``."""
    if not is_url(path):
        return os.path.split(path)
    parts = split_url(path)
    return parts.folder + parts.tail, parts.name


def base_name(path: str) -> str:
    """Return the last name of a path."""
    return split(path)[1]


def join(folder: str, name: str) -> str:
    """Return the path of ``name`` in a folder."""
    return join_url(folder, name) if is_url(folder) else os.path.join(folder, name)


def extend(path: str, ending: str) -> str:
    """Return a path with a further ending: the file of a stem. A URL's query stays last."""
    return extend_url(path, ending) if is_url(path) else f"{path}{ending}"


def list_names(folder: str, *, prefix: str = "") -> list[str]:
    """Return the names in a folder (at a URL, of files only) that begin with ``prefix``, sorted.

    Raises OSError for a local folder, InputError for a URL.
    """
    if not is_url(folder):
        return sorted(name for name in os.listdir(folder or ".") if name.startswith(prefix))
    return [split(file.path)[1] for file in list_remote(folder, prefix=prefix)]


def list_remote(folder: str, *, prefix: str = "") -> list[ListedFile]:
    """Return the files in a URL's folder whose names begin with ``prefix``. Raises InputError."""
    from graphshare.files.remote.listing import list_folder  # start-up: only URLs need it

    return list_folder(folder, prefix=prefix)


def is_listed_file(folder: str, name: str) -> bool:
    """Whether a listed name is a regular file, as all names at URLs."""
    return is_url(folder) or os.path.isfile(os.path.join(folder, name))


def relative_path(path: str, folder: str) -> str:
    """Return a path relative to a folder, with slashes; unchanged if either is a URL."""
    if is_url(path) or is_url(folder):
        return redact(path)
    return os.path.relpath(os.path.abspath(path), folder or ".").replace(os.sep, "/")


def real_path(path: str) -> str:
    """Return a path with its links followed; a URL stays unchanged."""
    return path if is_url(path) else os.path.realpath(path)


def ignores_case(folder: str) -> bool:
    """Whether names in a folder (or above a missing one) that differ only by case are one file."""
    place = "" if is_url(folder) else os.path.realpath(folder)
    while place and not os.path.exists(place):
        place = os.path.dirname(place)
    # A path without letters equals its swapped case, and shows nothing.
    return place.swapcase() != place and os.path.exists(place.swapcase())


def is_inside(path: str, folder: str) -> bool:
    """Whether a local path, links followed, is in or below a folder."""
    root = os.path.realpath(folder)
    return os.path.commonpath((root, os.path.realpath(path))) == root


def is_snapshot(folder: str) -> bool:
    """Whether a folder is a hub cache's snapshot, whose files are links into ``blobs``."""
    return find_blobs(folder) != ""


def find_blobs(folder: str) -> str:
    """Return the folder that the links of a hub's snapshot lead to; empty outside of one."""
    parts = os.path.realpath(folder).split(os.sep)
    places = (
        os.sep.join([*parts[:i], "blobs"]) for i, part in enumerate(parts) if part == "snapshots"
    )
    return next(filter(os.path.isdir, places), "")


Identity = tuple[int | str, ...]
"""Equal for two paths of one file."""


def find_identity(path: str | int) -> Identity | None:
    """Return an identity that all paths of one regular file (or a descriptor) share; else None.

    A URL's identity is its text without credentials.
    """
    if isinstance(path, str) and is_url(path):
        return (redact(path),)
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # a NUL in the path
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _find_kind(url: str) -> str:
    from graphshare.files.remote.listing import find_kind  # start-up: only URLs need it

    return find_kind(url)


_MOST = 3
_MISSPELLED_URL = r"(https?|s3|gs|memory|zip):/?[^/].*"


def refuse_missing(path: str, hint: str) -> Fault:
    """Return the fault of a path, or a URL, without a file."""
    if not path:  # no place could be shown before the message
        return Fault("the path of a file is empty", hint="name a file")
    if is_url(path) or re.fullmatch(_MISSPELLED_URL, path, re.IGNORECASE) is None:
        return Fault("does not exist", where=path, hint=hint)
    return Fault(
        "does not exist",
        where=path,
        hint=hint or "a URL has two slashes behind its colon, as in s3://models/nin",
    )


def find_stdout_faults(path: str, what: str, hint: str) -> list[Fault]:
    """Return the fault of an output ``-`` (stdout) that cannot be there; ``what`` is its content."""
    return [Fault(f"{what} cannot go to stdout", hint=hint)] if path == "-" else []


def suggest_files(path: str, ends: tuple[str, ...], *, stem_end: str = "") -> str:
    """Return a hint, or nothing, on files near ``path``: with the same start, else similarly
    spelled.

    They end in one of ``ends``; with ``stem_end`` the shorter of file and stem is named.
    """
    folder, name = split(path)
    try:
        entries = list_names(folder)
    except InputError:  # a URL
        return ""
    except OSError:
        return (
            f"the directory {folder!r} does not exist"
            if folder and not os.path.lexists(folder)
            else ""
        )
    known = {
        entry.removesuffix(stem_end): entry
        for entry in entries
        if stem_end and entry.endswith(stem_end)
    }
    known |= {entry: entry for entry in entries if entry.endswith(ends)}
    near = find_similar(name, known, limit=_MOST, key=known.__getitem__)
    return (
        f"did you mean {' or '.join(repr(join(folder, entry)) for entry in near)}?" if near else ""
    )


StrPath = str | os.PathLike[str]
STDIN = "<stdin>"
STDOUT = "<stdout>"
_SUFFIX = re.compile(r"\.[A-Za-z]\w*$")

Content = Literal[
    "graph", "parameters", "map", "arrays", "feed", "rules", "baseline", "report", "picture", "file"
]


def as_paths(paths: StrPath | Iterable[StrPath]) -> list[str]:
    """Return one path or several as texts."""
    if isinstance(paths, str | os.PathLike):
        return [os.fspath(paths)]
    return [os.fspath(path) for path in paths]


_READ: ContextVar[dict[str, None] | None] = ContextVar("read", default=None)


@contextmanager
def collect_read_files() -> Iterator[dict[str, None]]:
    """Collect the paths opened for reading inside the block, in order."""
    paths: dict[str, None] = {}
    token = _READ.set(paths)
    try:
        yield paths
    finally:
        _READ.reset(token)


def note_read(path: str) -> None:
    """Note a file that is opened for reading."""
    if (paths := _READ.get()) is not None:
        paths[path] = None


class UsedFile(msgspec.Struct, frozen=True):
    """A file that is read or written, and its content; ``-`` (an output) and ``<stdin>`` are the
    standard streams.
    """

    path: str
    content: Content


def is_directory(path: str) -> bool:
    """Whether an output goes into the directory ``path`` under its own name."""
    return path.endswith(("/", os.sep)) or is_folder(path)


def is_stem(path: str) -> bool:
    """Whether an output names a checkpoint: it has no suffix, and no file has this path."""
    return path not in ("", "-") and _SUFFIX.search(split(path)[1]) is None and not exists(path)


def place_output(path: str, name: str) -> str:
    """Return ``path``, or the path of ``name`` in it if it is a directory."""
    return join(path, name) if is_directory(path) else path


def place_params(path: str, name: str, *, source: str) -> str:
    """Return the place of a parameter file as :func:`place_output`.

    Raises UsageError for stdout, and for a directory if ``source`` is stdin, which has no name.
    """
    UsageError.raise_any(find_stdout_faults(path, "parameters", "name a file"))
    if source in ("-", STDIN) and is_directory(path):
        message = "the parameters come from stdin, so they have no name in this directory"
        raise UsageError(Fault(message, where=path, hint=f"name the file: {join(path, 'NAME')}"))
    return place_output(path, name)


def refuse_inputs_as_outputs(
    outputs: Iterable[UsedFile], inputs: Iterable[UsedFile], *, in_place: bool | None = None
) -> None:
    """Raise RefusedError for outputs that would replace an input; with ``in_place`` only one of
    another content. None means that the caller has no such option, so no hint names it.
    """
    known: dict[Identity, UsedFile] = {}
    for file in inputs:
        identity = _find_identity(file, descriptor=0)
        if identity is not None:
            known.setdefault(identity, file)
    faults = []
    for file in outputs:
        identity = _find_identity(file, descriptor=1)
        source = known.get(identity) if identity is not None else None
        if source is not None and not (
            in_place and file.content == source.content and file.path != "-"
        ):
            faults.append(_explain(file, source, can_replace=in_place is not None))
    if faults:
        raise RefusedError(faults)


def _find_identity(file: UsedFile, *, descriptor: int) -> Identity | None:
    return find_identity(descriptor if file.path in ("-", STDIN) else file.path)


def _explain(output: UsedFile, source: UsedFile, *, can_replace: bool) -> Fault:
    where = STDOUT if output.path == "-" else output.path
    if output.content == source.content and output.path != "-":
        hint = "choose another output"
        hint += "; to replace the input, add `in_place=True`" if can_replace else ""
        message = (
            "is also the input"
            if source.path == where
            else f"is the same file as the input {source.path}"
        )
        return Fault(message, where=where, hint=hint)
    name = "" if source.path == where else f" ({source.path})"
    message = f"is also an input{name}: the {output.content} would replace the {source.content}"
    return Fault(message, where=where, hint="choose another output")
