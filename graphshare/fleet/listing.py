"""List models that match patterns: graph files with their newest parameters, checkpoint folders.

A pattern is a path, a stem, a folder or a glob (:mod:`graphshare.files.path_matches`), on this
machine or at a URL. Relative paths begin at a file's folder, or before the first wildcard. A folder
is listed once.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal

from graphshare.checkpoint.folder import (
    ModelFiles,
    Sieve,
    group_files,
    group_models,
    match_checkpoints,
)
from graphshare.checkpoint.folder import list_models as list_folder_models
from graphshare.checkpoint.load import find_by_stem
from graphshare.errors import Fault, InputError
from graphshare.files.byte_source import ListedFile
from graphshare.files.path_matches import find_root, is_pattern, list_candidates, match_path
from graphshare.files.paths import is_file, is_folder, list_remote, split
from graphshare.fleet.records import FleetModel
from graphshare.formats.model_names import (
    FORMAT_NAMES,
    STEM_END,
    find_stem,
    list_file_endings,
    list_model_endings,
)
from graphshare.text.urls import extend_url, is_url, split_url

Kind = Literal["graphs", "checkpoints"]
GRAPHS: frozenset[Kind] = frozenset(("graphs",))


def list_models(
    patterns: Iterable[str], sieve: Sieve | None = None, *, kinds: Collection[Kind] = GRAPHS
) -> list[FleetModel]:
    """Return the models of ``kinds`` that match any pattern, in their order and then by path, each
    once.

    Checkpoint folders at URLs are found below a folder, not by a glob.

    Raises:
        InputError: a pattern matches no model, or a URL cannot be listed.
    """
    sieve = sieve or Sieve()
    models: list[FleetModel] = []
    faults: list[Fault] = []
    for pattern in patterns:
        try:
            listing = (_list_remote if is_url(pattern) else _list_local)(pattern, sieve, kinds)
        except InputError as error:
            faults += error.faults
            continue
        known = {model.graph for model in models}
        models += [model for model in listing if model.graph not in known]
        if not listing:
            hint = f"{_HINTS[frozenset(kinds)]}; quote it, so that the shell leaves it alone"
            hint = "; ".join([*sieve.notes(), hint])
            faults.append(Fault("matches no model", where=pattern, hint=hint))
    if faults:
        raise InputError(faults)
    sieve.refuse_unused()
    return models


_HINTS: dict[frozenset[Kind], str] = {
    GRAPHS: "a pattern matches symbol files, .onnx files, stems or folders",
    frozenset(("checkpoints",)): "a pattern matches checkpoint folders, or folders of them",
    GRAPHS
    | {
        "checkpoints"
    }: "a pattern matches symbol files, .onnx files, stems, checkpoint folders or folders of these",
}


def _list_local(pattern: str, sieve: Sieve, kinds: Collection[Kind]) -> list[FleetModel]:
    """Raises InputError for folders that cannot be read."""
    # Names come first: the name of a file or folder may contain brackets.
    graph = pattern if is_file(pattern) else find_by_stem(pattern)
    if graph:
        return _pair_local([graph] if "graphs" in kinds else [], _find_start(pattern))
    if is_folder(pattern):
        return _list_folder(pattern, sieve, kinds, len(os.path.join(pattern, "")))
    start = _find_start(re.split(r"[*?[]", pattern)[0])
    models: list[FleetModel] = []
    if "graphs" in kinds:
        # In sorted order most models of a folder are neighbours, and it is listed once for them.
        models += _pair_local(sorted(_match_graphs(pattern)), start)
    if "checkpoints" in kinds:
        models += [FleetModel(path, "", start) for path in match_checkpoints(pattern)]
    return models


def _find_start(path: str) -> int:
    """Return where the last part of a path begins."""
    return len(path) - len(os.path.basename(path))


def _pair_local(graphs: Iterable[str], start: int) -> list[FleetModel]:
    """Return graph files with the newest parameter file beside each."""
    models = []
    last, params = None, dict[str, str]()
    for graph in graphs:
        folder = os.path.dirname(graph)
        if folder != last:
            files = group_models(folder, _list_names(folder))
            last, params = folder, {model.graph: model.newest for model in files}
        models.append(FleetModel(graph, params.get(graph, ""), start))
    return models


def _list_folder(
    folder: str, sieve: Sieve, kinds: Collection[Kind], start: int
) -> list[FleetModel]:
    """If the folder itself is a checkpoint, its path begins at the folder above."""
    files = list_folder_models(folder, sieve, checkpoints="checkpoints" in kinds)
    models = [_make_model(model, start) for model in files if model.graph and "graphs" in kinds]
    for path in (model.path for model in files if not model.graph):
        if is_url(path):
            plain = split_url(path).path.removesuffix("/")
        else:
            path = plain = path.removesuffix("/")
        own_start = start if len(plain) > start else _find_start(plain)
        models.append(FleetModel(path, "", own_start))
    return models


def _match_graphs(pattern: str) -> set[str]:
    """Matches must have the name of a graph."""
    ends = _find_suffixes(pattern)
    matches = {path for path in glob.iglob(pattern, recursive=True) if path.endswith(ends)}
    if _may_be_stem(pattern):
        for suffix in _list_suffixes():
            matches.update(glob.iglob(pattern + suffix, recursive=True))
    return set(filter(os.path.isfile, matches))


def _find_suffixes(pattern: str) -> tuple[str, ...]:
    """Return suffixes of graphs that a glob matches: any suffix of a graph only if the glob has
    one.
    """
    return list_file_endings() if pattern.endswith(list_file_endings()) else list_model_endings()


def _may_be_stem(pattern: str) -> bool:
    # A glob that ends with a star matches whole names already.
    return not pattern.endswith((*list_file_endings(), "*"))


def _list_names(folder: str) -> dict[str, None]:
    try:
        return dict.fromkeys(os.listdir(folder or "."))
    except OSError:
        return {}


def _list_remote(pattern: str, sieve: Sieve, kinds: Collection[Kind]) -> list[FleetModel]:
    """Raises InputError if the URL cannot be listed."""
    if is_pattern(pattern, stem_end=STEM_END):
        return _match_remote(pattern) if "graphs" in kinds else []
    folder, name = split(pattern)
    start = len(split_url(folder).path)
    if name and "graphs" in kinds:
        try:
            # One listing answers for the file itself, for its stem and for its parameters.
            files = list_remote(folder, prefix=find_stem(name))
        except InputError:  # a server without a list of its files
            files = [ListedFile(pattern, -1, "")] if is_file(pattern) else []
        by_path = {file.path: file for file in files}
        models = _models_by_path(files)
        for graph in (pattern, *(extend_url(pattern, suffix) for suffix in _list_suffixes())):
            if graph in by_path:
                model = models.get(graph, ModelFiles(graph, {}, by_path[graph]))
                return [_make_model(model, start)]
    if not is_folder(pattern):
        return []
    return _list_folder(pattern, sieve, kinds, len(split_url(pattern).base))


def _match_remote(pattern: str) -> list[FleetModel]:
    start = len(split_url(find_root(pattern)).path)
    wanted = split_url(pattern).path[start:]
    globs = [wanted]
    if _may_be_stem(wanted):
        globs += [wanted + suffix for suffix in _list_suffixes()]
    return _select(list_candidates(pattern), globs, _find_suffixes(wanted), start)


def _select(
    files: Collection[ListedFile], globs: Sequence[str], ends: tuple[str, ...], start: int
) -> list[FleetModel]:
    models = _models_by_path(files)
    matches = []
    for file in files:
        plain = split_url(file.path).path
        if not plain.endswith(ends):
            continue
        if any(match_path(plain[start:], wanted) for wanted in globs):
            model = models.get(file.path, ModelFiles(file.path, {}, file))
            matches.append(_make_model(model, start))
    return sorted(matches, key=lambda model: model.graph)


def _models_by_path(files: Iterable[ListedFile]) -> dict[str, ModelFiles]:
    return {model.graph: model for model in group_files(files)}


def _make_model(files: ModelFiles, start: int) -> FleetModel:
    return FleetModel(files.graph, files.newest, start, files.listed, files.listed_newest)


def iter_sources(models: Iterable[FleetModel]) -> Iterator[str]:
    """Yield every file of the models."""
    for model in models:
        yield model.graph
        if model.params:
            yield model.params


def _list_suffixes() -> list[str]:
    return [names.suffix for names in FORMAT_NAMES.values()]
