"""The models below a folder and their parameter files, by file names."""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain

import msgspec

from graphshare.checkpoint.load import find_by_stem, graph_path
from graphshare.errors import Fault, InputError, UsageError
from graphshare.files.byte_source import ListedFile
from graphshare.files.path_matches import find_below, match_path
from graphshare.files.paths import base_name, is_folder, is_surely_file, join, list_names, split
from graphshare.formats.model_format import load_format
from graphshare.formats.model_names import (
    CONFIG,
    FORMAT_NAMES,
    PARAMETER_ENDINGS,
    SHARD_END,
    has_shards,
)
from graphshare.text.format import format_count
from graphshare.text.urls import is_url, split_url

_ENVIRONMENTS = ("venv", "node_modules", "__pycache__")
_ENVIRONMENT_FILE = "pyvenv.cfg"


class ModelFiles(msgspec.Struct, frozen=True, gc=False):
    """The file of a model, and its parameter files by epoch, newest last, unless it holds its
    parameters.

    A checkpoint folder is a parameter file without a graph, whose path is empty. ``listed`` and
    ``listed_newest`` are entries in a listing of URLs, for the file and the newest parameter file.
    """

    graph: str
    params: dict[int, str]
    listed: ListedFile | None = None
    listed_newest: ListedFile | None = None

    @property
    def newest(self) -> str:
        """The parameter file of the last epoch, if any."""
        return next(reversed(self.params.values()), "")

    @property
    def path(self) -> str:
        """The graph's path, or the parameter file's without a graph."""
        return self.graph or self.newest


def is_folder_of_models(path: str) -> bool:
    """Whether a path means a folder of models, and not a stem beside a folder of its name."""
    if not is_url(path):
        return is_folder(path) and not find_by_stem(path)
    if not base_name(path):
        return True
    if is_surely_file(path):
        return False
    return not find_by_stem(path) and is_folder(path)  # most are stems: those are asked for first


class Sieve:
    """Skips and counts hidden folders, Python environments, and paths that globs match.

    The globs are of paths below the folder that a user named, or of last names.
    """

    def __init__(self, exclude: Sequence[str] = ()) -> None:
        self._globs = [os.path.normpath(glob).replace(os.sep, "/") for glob in exclude]
        self._is_used = False
        self._excluded: set[tuple[str, str]] = set()
        self.skipped: set[tuple[str, str]] = set()

    def admits(self, folder: str, relative: str) -> bool:
        """Whether a file below a folder is read; a folder's path ends in a slash."""
        self._is_used = True
        parts = relative.removesuffix("/").split("/")
        for path in accumulate(parts, "{}/{}".format):
            name = os.path.basename(path)
            is_usually_skipped = name[:1] == "." or name in _ENVIRONMENTS
            # Only folders end before the last character; a file may be called venv.
            if is_usually_skipped and len(path) < len(relative):
                self.skipped.add((folder, path))
                return False
            if any(match_path(path, glob) or match_path(name, glob) for glob in self._globs):
                self._excluded.add((folder, path))
                return False
        return True

    def notes(self) -> Iterator[str]:
        if self.skipped:
            yield f"skipped {format_count(len(self.skipped), 'folder')} (hidden or of an environment)"
        if self._globs:
            yield f"excluded {format_count(len(self._excluded), 'path')}"

    def refuse_unused(self) -> None:
        """Raise UsageError if there are globs and no folder was read."""
        if self._globs and not self._is_used:
            raise UsageError(
                Fault(
                    "`exclude` applies to folders, and none is given",
                    hint="name the folder that holds the models",
                )
            )


def find_models(
    folder: str, sieve: Sieve | None = None, *, checkpoints: bool = False, loose: bool = False
) -> list[ModelFiles]:
    """Return the models below ``folder`` (or a URL) as :func:`list_models`; InputError for none."""
    sieve = sieve or Sieve()
    models = list_models(folder, sieve, checkpoints=checkpoints, loose=loose)
    if models:
        return models
    wanted = []
    for names in FORMAT_NAMES.values():
        beside = "" if names.is_certain else f" beside *{names.parameters}"
        wanted.append(f"*{names.suffix}{beside}")
    if checkpoints:
        wanted.append(f"*{SHARD_END} beside {CONFIG}")
    if loose:
        wanted += [f"*{ending}" for ending in PARAMETER_ENDINGS]
    hints = [*sieve.notes(), "name symbol files, ONNX models, stems, folders or globs"]
    if not is_url(folder) and has_shards(list_names(folder)):
        hints.append(
            "a checkpoint folder has no graph: `graphshare inspect`, `graphshare check` and "
            "`graphshare params` take it"
        )
    message = f"contains no {' or '.join(wanted)}"
    raise InputError(Fault(message, where=folder, hint="; ".join(hints)))


def find_named_models(
    paths: Iterable[str], sieve: Sieve, *, checkpoints: bool = False
) -> list[ModelFiles]:
    """Return the models that paths name, each once: files, stems, and models below folders.

    Raises:
        InputError: paths name no model, or folders cannot be read.
        UsageError: ``sieve`` has globs, and there is no folder.
    """
    models: dict[str, ModelFiles] = {}
    faults: list[Fault] = []
    for path in paths:
        try:
            if is_folder_of_models(path):
                named = find_models(path, sieve, checkpoints=checkpoints)
            else:
                named = [_find_model(path)]
        except InputError as error:
            faults += error.faults
        else:
            for model in named:
                models.setdefault(model.path, model)
    InputError.raise_any(faults)
    sieve.refuse_unused()
    return [*models.values()]


def _find_model(path: str) -> ModelFiles:
    if path == "-":
        return ModelFiles(path, {})
    graph = graph_path(path)[0]
    folder = split(graph)[0]
    for model in group_models(folder, dict.fromkeys(list_names(folder))):
        if model.graph == graph:
            return model
    return ModelFiles(graph, {})


def list_models(
    folder: str, sieve: Sieve | None = None, *, checkpoints: bool = False, loose: bool = False
) -> list[ModelFiles]:
    """Return the visible models below ``folder`` (or a URL) that ``sieve`` admits, by path.

    With ``checkpoints`` checkpoint folders follow, each as one model without a graph. With
    ``loose`` so do these, and each parameter file whose name belongs to no model.

    Links to folders are followed, each folder is read once, and only regular files count (and
    broken links, to be reported as unreadable): neither a loop of links nor a pipe stops the
    search. Raises InputError with all unreadable folders.
    """
    list_files = _list_remote if is_url(folder) else _list_local
    models: list[ModelFiles] = []
    rest: list[str] = []
    for parent, names in list_files(folder, sieve or Sieve()).items():
        group = group_models(parent, names)
        models += group
        if (checkpoints or loose) and has_shards(names):
            rest.append(parent)
        if loose:
            rest += _list_loose(parent, names, group)
    models.sort(key=lambda model: model.graph)
    return models + [ModelFiles("", {0: path}) for path in sorted(rest)]


def _list_loose(parent: str, names: Collection[str], models: Iterable[ModelFiles]) -> Iterator[str]:
    """Yield visible parameter files that belong neither to models nor to a checkpoint."""
    used = set(chain.from_iterable(model.params.values() for model in models))
    is_checkpoint = has_shards(names)
    for name in names:
        if name[:1] == "." or not name.endswith(PARAMETER_ENDINGS):
            continue
        is_shard = is_checkpoint and name.endswith(SHARD_END)
        path = join(parent, name)
        if not is_shard and path not in used and _is_readable(path):
            yield path


_Files = Mapping[str, Mapping[str, ListedFile | None]]
"""The names of files by folder, each with its entry in a listing of URLs."""


def match_checkpoints(pattern: str) -> list[str]:
    """Return the checkpoint folders that a glob on this machine matches, sorted."""
    paths = {
        path.rstrip(os.sep) for path in glob.iglob(pattern, recursive=True) if os.path.isdir(path)
    }
    return sorted(filter(_has_shards, paths))


def _has_shards(folder: str) -> bool:
    try:
        return has_shards(os.listdir(folder))
    except OSError:  # what cannot be read is not a checkpoint
        return False


def _list_local(folder: str, sieve: Sieve) -> _Files:
    names: dict[str, dict[str, ListedFile | None]] = {}
    faults: list[Fault] = []
    visited: set[tuple[int, int]] = set()

    def note(error: OSError) -> None:
        faults.append(Fault(f"cannot be read: {error.strerror}", where=str(error.filename)))

    # A link below may lead back here.
    _is_new(folder, visited)
    for parent, folders, files in os.walk(folder, onerror=note, followlinks=True):
        below = os.path.join(parent, "")[len(os.path.join(folder, "")) :].replace(os.sep, "/")
        # Python marks its environments by this file; their names vary.
        if below and _ENVIRONMENT_FILE in files:
            sieve.skipped.add((folder, below))
            folders.clear()
            continue
        folders[:] = [
            name
            for name in folders
            if sieve.admits(folder, f"{below}{name}/")
            and _is_new(os.path.join(parent, name), visited)
        ]
        names[parent] = dict.fromkeys(name for name in files if sieve.admits(folder, below + name))
    InputError.raise_any(faults)
    return names


def _list_remote(url: str, sieve: Sieve) -> _Files:
    start = len(split_url(url).base)
    return _group_by_folder(
        file for file in find_below(url) if sieve.admits(url, split_url(file.path).path[start:])
    )


def _group_by_folder(files: Iterable[ListedFile]) -> dict[str, dict[str, ListedFile]]:
    by_folder: dict[str, dict[str, ListedFile]] = {}
    for file in files:
        parent, name = split(file.path)
        by_folder.setdefault(parent, {})[name] = file
    return by_folder


def group_files(files: Iterable[ListedFile]) -> list[ModelFiles]:
    """Return the models among listed files, sorted by path."""
    models: list[ModelFiles] = []
    for parent, members in _group_by_folder(files).items():
        models += group_models(parent, members)
    return sorted(models, key=lambda model: model.graph)


def group_models(parent: str, names: Mapping[str, ListedFile | None]) -> list[ModelFiles]:
    """Return the visible models among the files of a folder."""
    models = []
    for format_, endings in FORMAT_NAMES.items():
        if not any(name.endswith(endings.telling_endings) for name in names):
            continue
        for model in load_format(format_).list_models(names):
            path = join(parent, model.name)
            if model.name[:1] == "." or not _is_readable(path):
                continue
            params = {epoch: join(parent, name) for epoch, name in model.params.items()}
            newest = ["", *model.params.values()][-1]
            models.append(ModelFiles(path, params, names[model.name], names.get(newest)))
    return models


def _is_readable(path: str) -> bool:
    if is_url(path) or os.path.isfile(path):
        return True
    return os.path.islink(path) and not os.path.exists(path)  # broken: to be reported


def _is_new(folder: str, visited: set[tuple[int, int]]) -> bool:
    """Note a folder; return whether it was not met before under any name."""
    try:
        status = os.stat(folder)
    except OSError:
        return True  # the walk reports it
    identity = status.st_dev, status.st_ino
    if identity in visited:
        return False
    visited.add(identity)
    return True
