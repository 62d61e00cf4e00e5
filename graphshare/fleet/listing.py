"""The models that patterns match: graph files, each with its newest parameter file.

A pattern is a path, a stem, a folder or a glob (``*``, ``?``, ``[...]``, and ``**`` for any folders), on this machine or at a
URL. The folder before its first wildcard is where relative paths begin. A folder is listed once, however many models are in it.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from graphshare.errors import Fault, InputError
from graphshare.fleet.records import FleetModel
from graphshare.formats.byte_source import ListedFile
from graphshare.formats.nearby import STEM_END
from graphshare.formats.path_matches import find_root, is_pattern, list_candidates
from graphshare.formats.paths import base_name, is_file, is_folder, split
from graphshare.text.path_globs import match_path
from graphshare.text.urls import extend_url, is_url, local_path, split_url

_PARAMS = re.compile(r"(.*)-(\d{4,})\.params", re.DOTALL)
_SYMBOL_ENDS = (STEM_END, f"{STEM_END}.gz")
_ENDS = (*_SYMBOL_ENDS, ".onnx")
_SUFFIXES = (".json", ".json.gz", ".onnx")


def list_models(patterns: Iterable[str]) -> list[FleetModel]:
    """Return the models that match any of ``patterns``, in the order of the patterns and then of their paths, each once.

    Raises:
        InputError: a pattern matches no model, or a URL cannot be listed; all of these are listed.
    """
    models: list[FleetModel] = []
    faults: list[Fault] = []
    for pattern in map(local_path, patterns):
        try:
            found = _list_remote(pattern) if is_url(pattern) else _list_local(pattern)
        except InputError as error:
            faults += error.faults
            continue
        known = {model.graph for model in models}
        models += [model for model in found if model.graph not in known] if known else found
        if not found:
            hint = "a pattern matches symbol files, .onnx files, stems or folders; quote it, so that the shell leaves it alone"
            faults.append(Fault("matches no model", where=pattern, hint=hint))
    if faults:
        raise InputError(faults)
    return models


def _list_local(pattern: str) -> list[FleetModel]:
    """Return the models of a pattern without a scheme."""
    start = len(_find_fixed_folder(pattern))
    models = []
    last, params = None, dict[str, str]()
    for graph in sorted(_match_graphs(pattern)):
        folder, name = os.path.split(graph)
        if folder != last:
            last, params = folder, _newest_params(_list_names(folder))
        found = params.get(stem_of(name)) if name.endswith(_SYMBOL_ENDS) else None
        models.append(FleetModel(graph, os.path.join(folder, found) if found else "", start))
    return models


def _match_graphs(pattern: str) -> set[str]:
    """Return the graph files of a pattern; of what a wildcard matches only those that have the name of a graph."""
    if not glob.has_magic(pattern):
        if is_file(pattern):
            return {pattern}
        if is_file(pattern + STEM_END):
            return {pattern + STEM_END}
        if not is_folder(pattern):
            return set()
        pattern = os.path.join(glob.escape(pattern), "**", "*")
    matches = {path for path in glob.iglob(pattern, recursive=True) if path.endswith(_ends_of(pattern))}
    if _may_be_stem(pattern):
        matches.update(glob.iglob(pattern + STEM_END, recursive=True))
    return {path for path in matches if os.path.isfile(path)}


def _ends_of(pattern: str) -> tuple[str, ...]:
    """Return how the names of graphs end that a glob matches: any suffix of a graph only if the glob has one itself."""
    return _SUFFIXES if pattern.endswith(_SUFFIXES) else _ENDS


def _may_be_stem(pattern: str) -> bool:
    return not pattern.endswith((*_SUFFIXES, "*"))


def _find_fixed_folder(pattern: str) -> str:
    """Return the folder before the first wildcard with its separator, from which relative paths begin."""
    if not glob.has_magic(pattern) and is_folder(pattern):
        return os.path.join(pattern, "")
    match = re.search(r"[*?[]", pattern)
    before = pattern[: match.start()] if match is not None else pattern
    return before[: len(before) - len(os.path.basename(before))]


def _list_names(folder: str) -> Sequence[str]:
    """Return the names in a folder; none where it cannot be read."""
    try:
        return os.listdir(folder or ".")
    except OSError:
        return ()


def _list_remote(pattern: str) -> list[FleetModel]:
    """Return the models of a URL: of a glob, a file, a stem or a folder. Raises InputError when it cannot be listed."""
    if is_pattern(pattern):
        start = len(_without_tail(find_root(pattern)))
        wanted = _without_tail(pattern)[start:]
        globs = [wanted, wanted + STEM_END] if _may_be_stem(wanted) else [wanted]
        return _select(list_candidates(pattern), globs, _ends_of(wanted), start)
    from graphshare.formats.remote.listing import find_files, list_folder  # start-up: only URLs need it

    folder, name = split(pattern)
    start = len(_without_tail(folder))
    if name:
        try:
            files = list_folder(folder, prefix=stem_of(name))
        except InputError:  # a server without a list of its files
            files = [ListedFile(pattern, -1, "")] if is_file(pattern) else []
        for wanted in (pattern, extend_url(pattern, STEM_END)):
            if any(file.path == wanted for file in files):
                return _select([file for file in files if _is_of(file, wanted)], ["*"], _SUFFIXES, start)
    if not is_folder(pattern):
        return []
    head, last, _ = split_url(pattern)
    top = f"{head}{last}/" if last else head
    return _select(find_files(pattern), ["**/*"], _ENDS, len(top))


def _is_of(file: ListedFile, graph: str) -> bool:
    """Return whether a listed file is a graph, or no other graph and so perhaps its parameters."""
    return file.path == graph or not file.path.endswith(_SUFFIXES)


def _select(files: Iterable[ListedFile], globs: Sequence[str], ends: tuple[str, ...], start: int) -> list[FleetModel]:
    """Return the models among listed files that match one of ``globs``; relative paths begin at ``start``."""
    by_folder: dict[str, dict[str, ListedFile]] = {}
    for file in files:
        folder, name = split(file.path)
        by_folder.setdefault(folder, {})[name] = file
    models = []
    for members in by_folder.values():
        params = _newest_params(members)
        for name, file in members.items():
            plain = _without_tail(file.path)
            if name.endswith(ends) and any(match_path(plain[start:], wanted) for wanted in globs):
                found = members.get(params.get(stem_of(name), "")) if name.endswith(_SYMBOL_ENDS) else None
                models.append(FleetModel(file.path, found.path if found else "", start, file, found))
    return sorted(models, key=lambda model: model.graph)


def _without_tail(url: str) -> str:
    """Return a URL without its query and further links."""
    head, name, _ = split_url(url)
    return head + name


def _newest_params(names: Iterable[str]) -> dict[str, str]:
    """Return the parameter file of the highest epoch by the stem of its name."""
    newest: dict[str, tuple[int, str]] = {}
    for name in names:
        if match := _PARAMS.fullmatch(name):
            newest[match[1]] = max(newest.get(match[1], (-1, "")), (int(match[2]), name))
    return {stem: name for stem, (_, name) in newest.items()}


def stem_of(graph: str) -> str:
    """Return a graph's path without ``-symbol.json``, or without its suffix; the query of a URL stays behind it."""
    if is_url(graph):
        head, name, tail = split_url(graph)
        return f"{head}{stem_of(name)}{tail}"
    path = graph.removesuffix(".gz")
    for end in (STEM_END, ".json", ".onnx"):
        if path.endswith(end):
            return path.removesuffix(end)
    return path


def name_of(graph: str) -> str:
    """Return the last name of a graph's stem."""
    return base_name(stem_of(graph))


def iter_sources(models: Iterable[FleetModel]) -> Iterator[str]:
    """Yield every file that the models consist of."""
    for model in models:
        yield model.graph
        if model.params:
            yield model.params
