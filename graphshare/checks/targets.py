"""The files named by arguments of ``check``: paths, stems, folders and globs."""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from graphshare.checkpoint.folder import find_models, is_folder_of_models
from graphshare.checkpoint.load import graph_path, sibling_params
from graphshare.checks.config import CheckOptions
from graphshare.checks.context import CheckContext
from graphshare.checks.document import read_file
from graphshare.errors import Fault, GraphshareError, InputError, UsageError
from graphshare.formats.model_file import open_model_file
from graphshare.formats.model_format import Capability, recognize_format
from graphshare.formats.output_paths import STDIN
from graphshare.formats.path_matches import is_pattern, match_paths
from graphshare.text.urls import is_url, local_path


class Target(msgspec.Struct, frozen=True):
    """A graph file and its parameter file, an empty text if it has none. ``option`` is what named the parameter file."""

    graph: str
    params: str = ""
    option: str = ""


def find_targets(arguments: Iterable[str], *, params: str | None = None, epoch: int | None = None) -> list[Target]:
    """Return the files to check, each once, in order.

    A stem includes its parameter file; a folder means every model below it, each with its newest parameter file, a glob its
    matches.

    Raises:
        InputError: arguments that name no file; all are listed.
        UsageError: ``params`` or ``epoch`` with several graphs; a stem with several parameter files and no ``epoch``.
    """
    targets: dict[str, Target] = {}
    faults: list[Fault] = []
    for argument in arguments:
        try:
            for target in _find_targets(argument, params, epoch):
                targets.setdefault(target.graph if is_url(target.graph) else os.path.normpath(target.graph), target)
        except UsageError:
            raise
        except GraphshareError as error:
            faults += error.faults
    if faults:
        raise InputError(faults)
    if len(targets) > 1 and (params is not None or epoch is not None):
        option = "`params`" if params is not None else "`epoch`"
        raise UsageError(Fault(f"{option} needs a single graph, and there are {len(targets)}", hint="check them one at a time"))
    return list(targets.values())


def _find_targets(argument: str, params: str | None, epoch: int | None) -> list[Target]:
    argument = local_path(argument)
    if is_pattern(argument):
        return [Target(path) for path in match_paths(argument)]
    if is_folder_of_models(argument):
        return [Target(model.graph, model.newest) for model in find_models(argument)]
    path, stem = graph_path(argument)
    if path == STDIN:
        return [Target("-", params or "", "`params`" if params else "")]
    beside = sibling_params(stem, epoch) if stem and params is None else params
    if not stem and epoch is not None and params is None:
        hint = "name the parameter file with `params`"
        raise UsageError(Fault(f"`epoch={epoch}` needs a stem, but {argument!r} is a file", hint=hint))
    return [Target(path, beside or "", "`params`" if params else "`epoch`" if epoch is not None else "")]


def read_context(target: Target, options: CheckOptions) -> CheckContext:
    """Read the files of a target. Raises InputError where the graph file cannot be read."""
    path = STDIN if target.graph == "-" else target.graph
    with open_model_file(path) as opened:
        format_, file = recognize_format(opened)
        if target.option:
            format_.require(Capability.PARAMETER_FILE, what=target.option, where=path)
        params = target.params if format_.supports(Capability.PARAMETER_FILE) else ""
        data = format_.read_text(file) if format_.is_text else b""
        reading = None if format_.is_text else read_file(format_, file)
    return CheckContext(path, data, params_path=params, given_shapes=options.shapes, format_=format_, reading=reading)
