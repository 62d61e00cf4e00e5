"""The files named by arguments of ``check``: paths, stems, folders and globs."""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from graphshare.checkpoint.folder import (
    Sieve,
    find_models,
    group_models,
    is_folder_of_models,
    match_checkpoints,
)
from graphshare.checkpoint.load import find_only_params, graph_path, sibling_params
from graphshare.checks.config import CheckOptions
from graphshare.checks.context import CheckContext
from graphshare.checks.document import Reading, read_model_file
from graphshare.errors import Fault, GraphshareError, InputError, UsageError
from graphshare.files.path_matches import is_pattern, match_paths
from graphshare.files.paths import STDIN, base_name, list_names, split
from graphshare.formats.model_file import open_model_file
from graphshare.formats.model_format import ModelFormat, Operation, load_format, recognize_format
from graphshare.formats.model_names import (
    DEFAULT_FORMAT,
    FORMAT_NAMES,
    PARAMETER_ENDINGS,
    STEM_END,
    find_names,
    list_model_endings,
)
from graphshare.formats.params.format import open_parameters
from graphshare.formats.params.shards import is_shard_folder, read_shard_folder
from graphshare.text.urls import is_url


class Target(msgspec.Struct, frozen=True):
    """A graph file and its parameter file (empty if it has none). ``option`` names the option that
    gave the latter.

    ``folder`` is the folder in which both were found, empty if an argument names them or their
    stem. A parameter file that belongs to no graph is a target without a graph.
    """

    graph: str
    params: str = ""
    option: str = ""
    folder: str = ""


def find_targets(
    arguments: Iterable[str], *, params: str | None, epoch: int | None, sieve: Sieve
) -> list[Target]:
    """Return the files to check, each once, in order.

    A stem includes its parameter file, and a parameter file its graph. A folder means every model
    below it with each of its parameter files, newest first, and parameter files without a model; a
    glob means its matches.

    Raises:
        InputError: arguments name no file; all are listed.
        UsageError: ``params`` or ``epoch`` are given with several graphs, or a stem with several
            parameter files without ``epoch``.
    """
    targets: dict[tuple[str, str], Target] = {}
    faults: list[Fault] = []
    graphs: dict[str, dict[str, str]] = {}
    for argument in arguments:
        try:
            for target in _find_targets(argument, params, epoch, sieve):
                pair = _add_graph(target, graphs)
                targets.setdefault((_normalize(pair.graph), _normalize(pair.params)), pair)
        except UsageError:
            raise
        except GraphshareError as error:
            faults += error.faults
    if faults:
        raise InputError(faults)
    sieve.refuse_unused()
    # A graph named both alone and with its parameters is checked once, with the parameters.
    for graph in [graph for graph, beside in targets if beside]:
        targets.pop((graph, ""), None)
    option = _name_option(params, epoch)
    if option and len(targets) > 1:
        raise UsageError(
            Fault(
                f"{option} needs a single graph, and there are {len(targets)}",
                hint="check them one at a time",
            )
        )
    return list(targets.values())


def _name_option(params: str | None, epoch: int | None) -> str:
    """Return the option that chooses the parameter file, empty if none does."""
    if params is not None:
        return "`params`"
    return "`epoch`" if epoch is not None else ""


def _normalize(path: str) -> str:
    return path if is_url(path) or not path else os.path.normpath(path)


def _add_graph(target: Target, known: dict[str, dict[str, str]]) -> Target:
    """Find the graph of a lone parameter file by its name."""
    params = target.graph
    if target.params or not params.endswith(PARAMETER_ENDINGS):
        return target
    folder = split(params)[0]
    if folder not in known:
        models = group_models(folder, dict.fromkeys(list_names(folder)))
        known[folder] = {path: model.graph for model in models for path in model.params.values()}
    return Target(known[folder].get(params, ""), params, folder=target.folder)


def _match_targets(pattern: str) -> list[Target]:
    folders = [] if is_url(pattern) else match_checkpoints(pattern)
    targets: list[Target] = []
    for path in match_paths(pattern):
        folder = split(path)[0]
        # A checkpoint folder is one target; a model in it is another.
        if folder not in folders or path.endswith(list_model_endings()):
            targets.append(Target(path, folder=folder or os.curdir))
    targets += [Target("", folder) for folder in folders]
    if not targets:
        hint = "name symbol files, stems, folders or globs"
        raise InputError(Fault("matches no file", where=pattern, hint=hint))
    return targets


def _find_targets(
    argument: str, params: str | None, epoch: int | None, sieve: Sieve
) -> list[Target]:
    if is_pattern(argument, stem_end=STEM_END):
        return _match_targets(argument)
    if is_folder_of_models(argument):
        targets: list[Target] = []
        for model in find_models(argument, sieve, loose=True):
            files = list(model.params.values()) or [""]
            targets += [Target(model.graph, path, folder=argument) for path in reversed(files)]
        return targets
    return [_find_model(argument, params, epoch)]


def _find_model(argument: str, params: str | None, epoch: int | None) -> Target:
    path, stem = graph_path(argument)
    if path == STDIN:
        return Target("-", params or "", "`params`" if params else "")
    names, option = find_names(path), _name_option(params or None, epoch)
    if params is not None:
        return Target(path, params, option)
    if stem:
        return Target(path, sibling_params(stem, epoch, names) or "", option)
    beside = find_only_params(path, names)
    if epoch is not None:
        hint = "name the parameter file with `params`"
        raise UsageError(
            Fault(f"`epoch={epoch}` needs a stem, but {argument!r} is a file", hint=hint)
        )
    return Target(path, beside or "", option)


def _find_named_format(path: str) -> ModelFormat | None:
    """None for a name that any model may have."""
    name = base_name(path)
    for key, names in FORMAT_NAMES.items():
        if name.endswith(names.model_endings):
            return load_format(key)
    return None


def _require_params(target: Target) -> None:
    # The rule on unreadable files may be off, and a named file that no rule saw was not checked.
    if not target.folder and not is_shard_folder(target.params):
        open_parameters(target.params).close()


def read_context(target: Target, options: CheckOptions) -> CheckContext:
    """Read the files of a target.

    Raises InputError if the graph file cannot be read, or a parameter file cannot be opened that
    was not merely found in a folder.
    """
    if not target.graph:
        _require_params(target)
        # The rules on parameter files (GS4) belong to MXNet's format.
        alone = load_format(DEFAULT_FORMAT)
        if is_shard_folder(target.params):
            shards = read_shard_folder(target.params)
            return CheckContext(target.params, b"", format_=alone, reading=Reading(), shards=shards)
        return CheckContext(
            target.params, b"", params=target.params, format_=alone, reading=Reading()
        )
    path = STDIN if target.graph == "-" else target.graph
    with open_model_file(path) as opened:
        format_, file = recognize_format(opened)
        named = _find_named_format(path) or format_
        if named is not format_ and file.start and format_.may_fit(file.start):
            hint = f"let its name end in {format_.names.suffix}, or put the right file in its place"
            fault = Fault(
                f"begins like {format_.file}, and its name is that of {named.file}",
                where=path,
                hint=hint,
            )
            return CheckContext(
                path, b"", format_=named, reading=Reading(json_faults=[fault], model_faults=[fault])
            )
        if target.option:
            format_.require(Operation.PARAMETER_FILE, what=target.option, where=path)
        params = target.params if format_.supports(Operation.PARAMETER_FILE) else ""
        if params:
            _require_params(target)
        data, reading = b"", None
        try:
            if format_.is_text:
                data = format_.read_text(file)
            else:
                reading = read_model_file(format_, file)
        except InputError as error:
            if file is opened:  # otherwise gzip could be read, and its contents are damaged
                raise
            reading = Reading(json_faults=list(error.faults))
    return CheckContext(
        path, data, params=params, given_shapes=options.shapes, format_=format_, reading=reading
    )
