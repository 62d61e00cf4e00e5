"""The models that patterns match: graph files, each with its newest parameter file.

A pattern is a path, a stem, a folder or a glob (``*``, ``?``, ``[...]``, and ``**`` for any folders). The folder before its
first wildcard is where relative paths begin. Files come from a :class:`Files`, which knows one kind of place.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from graphshare.errors import Fault, InputError
from graphshare.fleet.records import FileState, FleetModel
from graphshare.formats.nearby import STEM_END

_PARAMS = re.compile(r"(.*)-(\d{4,})\.params", re.DOTALL)
_ENDS = (STEM_END, f"{STEM_END}.gz", ".onnx")
_SUFFIXES = (".json", ".json.gz", ".onnx")


class Files(Protocol):
    """The files of one kind of place: those of this machine, or the objects of a store."""

    def match(self, pattern: str) -> Iterable[str]:
        """Return the paths that match a glob, in any order."""

    def is_file(self, path: str) -> bool:
        """Return whether a file has this path."""

    def is_folder(self, path: str) -> bool:
        """Return whether a folder has this path."""

    def list_names(self, folder: str) -> Sequence[str]:
        """Return the names in a folder."""

    def describe(self, path: str) -> FileState:
        """Return the state of a file. Raises InputError."""


class LocalFiles:
    """The files of this machine."""

    def match(self, pattern: str) -> Iterable[str]:
        """Return the paths that match a glob, hidden ones not."""
        return glob.iglob(pattern, recursive=True)

    def is_file(self, path: str) -> bool:
        """Return whether a file has this path."""
        return os.path.isfile(path)

    def is_folder(self, path: str) -> bool:
        """Return whether a folder has this path."""
        return os.path.isdir(path)

    def list_names(self, folder: str) -> Sequence[str]:
        """Return the names in a folder; none where it cannot be read."""
        try:
            return os.listdir(folder or ".")
        except OSError:
            return ()

    def describe(self, path: str) -> FileState:
        """Return size, time and SHA-256 of a file. Raises InputError."""
        from hashlib import sha256  # takes time to import

        try:
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                digest = sha256()
                while piece := file.read(1 << 20):
                    digest.update(piece)
        except (OSError, ValueError) as error:
            raise InputError(Fault(f"cannot be read: {getattr(error, 'strerror', None) or error}", where=path)) from error
        return FileState(path, status.st_size, digest.hexdigest(), modified=status.st_mtime_ns)

    def is_unchanged(self, state: FileState) -> bool:
        """Return whether a file still has the content of ``state``; it is read only where its size or time is another."""
        try:
            status = os.stat(state.source)
        except OSError:
            return False
        if status.st_size != state.size:
            return False
        return status.st_mtime_ns == state.modified or self.describe(state.source).sha256 == state.sha256


def list_models(patterns: Iterable[str], files: LocalFiles | None = None) -> list[FleetModel]:
    """Return the models that match any of ``patterns``, in the order of the patterns and then of their paths, each once.

    Raises:
        InputError: a pattern matches no model; all of these are listed.
    """
    files = files or LocalFiles()
    models: dict[str, FleetModel] = {}
    faults = []
    folders: dict[str, dict[str, str]] = {}
    for pattern in patterns:
        count = 0
        start = len(_fixed_folder(pattern, files))
        for graph in sorted(_match_graphs(pattern, files)):
            count += 1
            if graph not in models:
                models[graph] = FleetModel(graph, _find_params(graph, folders, files), graph[start:])
        if not count:
            hint = "a pattern matches symbol files, .onnx files, stems or folders; quote it, so that the shell leaves it alone"
            faults.append(Fault("matches no model", where=pattern, hint=hint))
    if faults:
        raise InputError(faults)
    return list(models.values())


def _match_graphs(pattern: str, files: LocalFiles) -> set[str]:
    """Return the graph files of a pattern; of what a wildcard matches only those that have the name of a graph."""
    if not glob.has_magic(pattern):
        if files.is_file(pattern):
            return {pattern}
        if files.is_file(pattern + STEM_END):
            return {pattern + STEM_END}
        if not files.is_folder(pattern):
            return set()
        pattern = os.path.join(glob.escape(pattern), "**", "*")
    ends = _SUFFIXES if pattern.endswith(_SUFFIXES) else _ENDS
    matches = {path for path in files.match(pattern) if path.endswith(ends)}
    if not pattern.endswith((*_SUFFIXES, "*")):
        matches.update(files.match(pattern + STEM_END))
    return {path for path in matches if files.is_file(path)}


def _fixed_folder(pattern: str, files: LocalFiles) -> str:
    """Return the folder before the first wildcard with its separator, from which relative paths begin."""
    if not glob.has_magic(pattern) and files.is_folder(pattern):
        return os.path.join(pattern, "")
    match = re.search(r"[*?[]", pattern)
    before = pattern[: match.start()] if match is not None else pattern
    return before[: len(before) - len(os.path.basename(before))]


def _find_params(graph: str, folders: dict[str, dict[str, str]], files: LocalFiles) -> str:
    """Return the newest parameter file beside a symbol file; ``folders`` keeps those of the last folder."""
    folder, name = os.path.split(graph)
    if not name.endswith(_ENDS[:2]):
        return ""
    if folder not in folders:
        folders.clear()
        folders[folder] = _newest_params(files.list_names(folder))
    found = folders[folder].get(stem_of(name))
    return os.path.join(folder, found) if found else ""


def _newest_params(names: Iterable[str]) -> dict[str, str]:
    """Return the parameter file of the highest epoch by the stem of its name."""
    newest: dict[str, tuple[int, str]] = {}
    for name in names:
        if match := _PARAMS.fullmatch(name):
            newest[match[1]] = max(newest.get(match[1], (-1, "")), (int(match[2]), name))
    return {stem: name for stem, (_, name) in newest.items()}


def stem_of(graph: str) -> str:
    """Return a graph's path without ``-symbol.json``, or without its suffix."""
    path = graph.removesuffix(".gz")
    for end in (STEM_END, ".json", ".onnx"):
        if path.endswith(end):
            return path.removesuffix(end)
    return path


def iter_sources(models: Iterable[FleetModel]) -> Iterator[str]:
    """Yield every file that the models consist of."""
    for model in models:
        yield model.graph
        if model.params:
            yield model.params
