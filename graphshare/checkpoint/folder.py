"""The models below a folder: files named as MXNet names them, ``STEM-symbol.json`` and ``STEM-0007.params``."""

from __future__ import annotations

import os
import re

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.formats.nearby import STEM_END
from graphshare.formats.paths import base_name, exists, extend, is_folder, is_surely_file, join, split
from graphshare.text.urls import is_url

_PARAMS = re.compile(r"(.*)-(\d{4,})\.params", re.DOTALL)


class ModelFiles(msgspec.Struct, frozen=True):
    """The graph file of a model, and its parameter files by epoch, the newest last."""

    graph: str
    params: dict[int, str]


def is_folder_of_models(path: str) -> bool:
    """Return whether a path means a folder of models, and not the stem of a model beside a folder of its name."""
    if is_url(path):  # most are stems: those are asked for first
        return not base_name(path) or (not is_surely_file(path) and not exists(extend(path, STEM_END)) and is_folder(path))
    return is_folder(path) and not exists(extend(path, STEM_END))


def find_models(folder: str) -> list[ModelFiles]:
    """Return the models with a ``*-symbol.json`` below ``folder`` (or a URL), sorted by path, without hidden ones.

    Links to folders are followed, each folder is read once, and only regular files count, so that neither a loop of links nor
    a pipe stops the search.

    Raises:
        InputError: there is no model; folders that cannot be read, all of them are listed.
    """
    if is_url(folder):
        return _find_remote(folder)
    models: list[ModelFiles] = []
    faults: list[Fault] = []
    visited: set[tuple[int, int]] = set()

    def note(error: OSError) -> None:
        faults.append(Fault(f"cannot be read: {error.strerror}", where=str(error.filename)))

    _is_new(folder, visited)
    for parent, folders, files in os.walk(folder, onerror=note, followlinks=True):
        folders[:] = [name for name in folders if name[:1] != "." and _is_new(os.path.join(parent, name), visited)]
        models += _list_models(parent, files)
    if not models and not faults:
        faults.append(_refuse_empty(folder))
    if faults:
        raise InputError(faults)
    return sorted(models, key=lambda model: model.graph)


def _refuse_empty(folder: str) -> Fault:
    return Fault(f"contains no *{STEM_END}", where=folder, hint="name symbol files, stems, folders or globs")


def _find_remote(folder: str) -> list[ModelFiles]:
    from graphshare.formats.remote.listing import find_files  # start-up: only URLs need it

    names: dict[str, list[str]] = {}
    for file in find_files(folder):
        parent, name = split(file.path)
        names.setdefault(parent, []).append(name)
    models = [model for parent, found in names.items() for model in group_models(parent, found)]
    models = [model for model in models if "/." not in model.graph]
    if not models:
        raise InputError(_refuse_empty(folder))
    return sorted(models, key=lambda model: model.graph)


def group_models(parent: str, names: list[str]) -> list[ModelFiles]:
    """Return the models among the files of a folder."""
    params: dict[str, dict[int, str]] = {}
    for name in names:
        if match := _PARAMS.fullmatch(name):
            params.setdefault(match[1], {})[int(match[2])] = join(parent, name)
    return [
        ModelFiles(join(parent, name), dict(sorted(params.get(name.removesuffix(STEM_END), {}).items())))
        for name in names
        if name.endswith(STEM_END) and name[:1] != "."
    ]


def _list_models(parent: str, files: list[str]) -> list[ModelFiles]:
    return [model for model in group_models(parent, files) if os.path.isfile(model.graph)]


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
