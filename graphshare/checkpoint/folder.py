"""The models below a folder: the one place where names of files become models, each with its parameter files."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

import msgspec

from graphshare.checkpoint.load import find_by_stem
from graphshare.errors import Fault, InputError
from graphshare.formats.byte_source import ListedFile
from graphshare.formats.model_format import load_format
from graphshare.formats.model_names import FORMAT_NAMES
from graphshare.formats.paths import base_name, is_folder, is_surely_file, join, split
from graphshare.text.urls import is_url


class ModelFiles(msgspec.Struct, frozen=True, gc=False):
    """The file of a model, and its parameter files by epoch, the newest last; none where it holds its parameters.

    ``listed`` and ``listed_newest`` are what a listing of URLs says of the file and of the newest parameter file.
    """

    graph: str
    params: dict[int, str]
    listed: ListedFile | None = None
    listed_newest: ListedFile | None = None

    @property
    def newest(self) -> str:
        """The parameter file of the last epoch; empty where there is none."""
        return next(reversed(self.params.values()), "")


def is_folder_of_models(path: str) -> bool:
    """Return whether a path means a folder of models, and not the stem of a model beside a folder of its name."""
    if is_url(path):  # most are stems: those are asked for first
        return not base_name(path) or (not is_surely_file(path) and not find_by_stem(path) and is_folder(path))
    return is_folder(path) and not find_by_stem(path)


def find_models(folder: str) -> list[ModelFiles]:
    """Return the models below ``folder`` (or a URL): see :func:`list_models`. Raises InputError also when there is none."""
    models = list_models(folder)
    if not models:
        endings = " or ".join(f"*{names.suffix}" for names in FORMAT_NAMES.values())
        hint = "name symbol files, ONNX models, stems, folders or globs"
        raise InputError(Fault(f"contains no {endings}", where=folder, hint=hint))
    return models


def list_models(folder: str) -> list[ModelFiles]:
    """Return the models below ``folder`` (or a URL), sorted by path, without hidden ones.

    Links to folders are followed, each folder is read once, and only regular files count (and links to nothing, which cannot be
    read), so that neither a loop of links nor a pipe stops the search.

    Raises:
        InputError: folders that cannot be read, all of them are listed.
    """
    if is_url(folder):
        from graphshare.formats.remote.listing import find_files  # start-up: only URLs need it

        return [model for model in group_files(find_files(folder)) if "/." not in model.graph]
    models: list[ModelFiles] = []
    faults: list[Fault] = []
    visited: set[tuple[int, int]] = set()

    def note(error: OSError) -> None:
        faults.append(Fault(f"cannot be read: {error.strerror}", where=str(error.filename)))

    _is_new(folder, visited)
    for parent, folders, files in os.walk(folder, onerror=note, followlinks=True):
        folders[:] = [name for name in folders if name[:1] != "." and _is_new(os.path.join(parent, name), visited)]
        models += [model for model in group_models(parent, files) if _is_readable(model.graph)]
    if faults:
        raise InputError(faults)
    return sorted(models, key=lambda model: model.graph)


def group_files(files: Iterable[ListedFile]) -> list[ModelFiles]:
    """Return the models among listed files, sorted by path."""
    by_folder: dict[str, dict[str, ListedFile]] = {}
    for file in files:
        parent, name = split(file.path)
        by_folder.setdefault(parent, {})[name] = file
    models = [
        msgspec.structs.replace(
            model, listed=members[base_name(model.graph)], listed_newest=members.get(base_name(model.newest))
        )
        for parent, members in by_folder.items()
        for model in group_models(parent, members)
    ]
    return sorted(models, key=lambda model: model.graph)


def group_models(parent: str, names: Collection[str]) -> list[ModelFiles]:
    """Return the models among the files of a folder, without hidden ones."""
    return [
        ModelFiles(join(parent, model.name), {epoch: join(parent, name) for epoch, name in model.params.items()})
        for format_, endings in FORMAT_NAMES.items()
        if any(name.endswith(endings.model_endings) for name in names)
        for model in load_format(format_).list_models(names)
        if model.name[:1] != "."
    ]


def _is_readable(path: str) -> bool:
    return os.path.isfile(path) or (os.path.islink(path) and not os.path.exists(path))


def _is_new(folder: str, visited: set[tuple[int, int]]) -> bool:
    """Return whether a folder was not met before under any name, and note it."""
    try:
        status = os.stat(folder)
    except OSError:
        return True  # the walk reports it
    identity = status.st_dev, status.st_ino
    if identity in visited:
        return False
    visited.add(identity)
    return True
