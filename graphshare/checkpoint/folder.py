"""The models below a folder: files named as MXNet names them, ``STEM-symbol.json`` and ``STEM-0007.params``."""

from __future__ import annotations

import os
import re

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.formats.nearby import STEM_END

_PARAMS = re.compile(r"(.*)-(\d{4,})\.params", re.DOTALL)


class ModelFiles(msgspec.Struct, frozen=True):
    """The graph file of a model, and its parameter files by epoch, the newest last."""

    graph: str
    params: dict[int, str]


def find_models(folder: str) -> list[ModelFiles]:
    """Return the models with a ``*-symbol.json`` below ``folder``, sorted by path; hidden files and folders are left out.

    Links to folders are followed, each folder is read once, and only regular files count, so that neither a loop of links nor
    a pipe stops the search.

    Raises:
        InputError: there is no model; folders that cannot be read, all of them are listed.
    """
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
        faults.append(Fault(f"contains no *{STEM_END}", where=folder, hint="name symbol files, stems, folders or globs"))
    if faults:
        raise InputError(faults)
    return sorted(models, key=lambda model: model.graph)


def _list_models(parent: str, files: list[str]) -> list[ModelFiles]:
    params: dict[str, dict[int, str]] = {}
    for name in files:
        if match := _PARAMS.fullmatch(name):
            params.setdefault(match[1], {})[int(match[2])] = os.path.join(parent, name)
    wanted = [name for name in files if name.endswith(STEM_END) and name[:1] != "."]
    return [
        ModelFiles(path, dict(sorted(params.get(name.removesuffix(STEM_END), {}).items())))
        for name in wanted
        if os.path.isfile(path := os.path.join(parent, name))
    ]


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
