"""Completions for the shell: names of the graph's nodes and of a file's parameters, files and stems.

Nothing here may fail: a graph that cannot be read has no completions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import click
from click.shell_completion import CompletionItem

from graphshare.errors import GraphshareError
from graphshare.ir.graph import Graph
from graphshare.text.urls import is_url

_MOST = 500  # names that a person could still choose from
_OUTPUTS = ("--target", "--cut", "--upto")
_VARIABLES = ("--as-input", "--as-parameter", "--tie", "--copy", "--share-input", "--alias")
_PAIRS = ("--shape", "--feed")
_GRAPHS = ("graph", "graphs", "paths", "left", "right")


def complete_names(command: click.Command) -> None:
    """Give the options of ``command`` types that complete their values."""
    for parameter in command.params:
        flags = {*parameter.opts, *parameter.secondary_opts}
        if flags & {*_OUTPUTS, *_VARIABLES, *_PAIRS, "--select"}:
            parameter.type = _Name(flags)
        elif isinstance(parameter, click.Option) and parameter.metavar in ("FILE", "OUT", "GRAPH"):
            parameter.type = _GraphPath() if parameter.metavar == "GRAPH" else click.Path()
        elif isinstance(parameter, click.Argument) and isinstance(parameter.type, type(click.STRING)):
            if parameter.name == "name":
                parameter.type = _Name(set(_VARIABLES))
            else:
                parameter.type = _GraphPath() if parameter.name in _GRAPHS else click.Path()
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            complete_names(inner)


class _GraphPath(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A file, or the stem of a checkpoint beside it."""

    name = "graph"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return stems of checkpoints; files are left to the shell."""
        folder = os.path.dirname(incomplete)
        try:
            entries = sorted(os.listdir(folder or "."))
        except OSError:
            entries = []
        end = "-symbol.json"
        stems = [os.path.join(folder, e.removesuffix(end)) for e in entries if e.endswith(end)]
        stems = [stem for stem in stems if stem.startswith(incomplete)]
        return [*(CompletionItem(stem) for stem in stems), CompletionItem(incomplete, type="file")]


class _Name(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A name from the graph or the parameter file on the line."""

    name = "name"

    def __init__(self, flags: set[str]) -> None:
        self._flags = flags

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin with ``incomplete``."""
        try:
            names = dict.fromkeys(self._names(ctx))
        except (GraphshareError, OSError, RecursionError):
            return []
        found = [name for name in names if name.startswith(incomplete) and name.isprintable()]
        return [CompletionItem(name) for name in found[:_MOST]]

    def _names(self, ctx: click.Context) -> Iterator[str]:
        # An option that still waits for its value keeps click from telling the arguments apart: then they are left over.
        given = [*(ctx.params.get(name) for name in ("graph", "file", "source", "left")), *ctx.args]
        path = next((text for text in given if isinstance(text, str)), None)
        if "--select" in self._flags:
            from graphshare.formats.params.registry import read_index  # start-up: only this path needs it
            from graphshare.text.names import split_key

            yield from (split_key(r.key)[1] for r in (read_index(path).records if path else ()) if r.key)
            return
        graph = _graph(path)
        if graph is None:
            return
        if self._flags & {*_OUTPUTS}:
            from graphshare.analysis.name_lists import internals  # start-up: only this path needs it

            yield from (name for name, _ in internals([node for node in graph.nodes if not node.is_variable]))
            yield from (node.name for node in graph.nodes if not node.is_variable)
        elif self._flags & {*_PAIRS}:
            from graphshare.analysis.roles import assign_roles  # start-up: only this path needs it

            yield from (f"{node.name}=" for node, role in assign_roles(graph).items() if not role.is_parameter)
        else:
            yield from (node.name for node in graph.variables())


def _graph(source: str | None) -> Graph | None:
    """Return the graph on the line; stdin is not read."""
    if source is None or source == "-":
        return None
    from graphshare.checkpoint.load import find_by_stem, read_graph  # start-up: only this path needs it

    if is_url(source):
        return None  # a request for each press of the key would be slow
    path = source if os.path.isfile(source) else find_by_stem(source)
    return read_graph(path)[1] if path else None
