"""``diff``: what differs between two graphs and their parameter files, modulo a map, a prefix or names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from graphshare.analysis.implied import implied_name, implied_variables
from graphshare.checkpoint.load import Checkpoint
from graphshare.checkpoint.map_entries import Place, entries_of
from graphshare.differences.alignment import align
from graphshare.differences.changes import GraphDiff, Twins, compare
from graphshare.errors import Fault, InputError, RefusedError
from graphshare.formats.params.diff import ParameterDiff, diff_parameters
from graphshare.ir.graph import Graph, Node
from graphshare.text.format import format_count


class Difference(msgspec.Struct, frozen=True):
    """What differs: the graphs, and the parameter files where both have one. True when anything does."""

    graph: GraphDiff
    parameters: ParameterDiff | None = None

    def __bool__(self) -> bool:
        return bool(self.graph) or bool(self.parameters)

    @property
    def verdict(self) -> str:
        """One line."""
        graph = self.graph
        counts = [(len(getattr(graph, what)), what) for what in ("added", "removed", "renamed", "changed")]
        told = [f"{format_count(count, 'node')} {what}" for count, what in counts if count]
        told += [f"{len(graph.ties)} ties moved"] if graph.ties else []
        told += [f"{len(graph.outputs)} outputs"] if graph.outputs else []
        told += [f"{len(graph.attributes)} graph attributes"] if graph.attributes else []
        told += [f"{len(self.parameters.changes)} parameters"] if self.parameters else []
        if told:
            return f"DIFFERENT: {', '.join(told)}"
        return "SAME: " + ("the graphs" if self.parameters is None else "the graphs and their parameters")


def diff(
    left: Checkpoint,
    right: Checkpoint,
    *,
    prefixes: Sequence[str] = (),
    map_data: bytes | None = None,
    map_where: str = "",
    renames: bool = True,
    ignore_names: bool = False,
    atol: float = 0.0,
    rtol: float = 0.0,
) -> Difference:
    """What differs between ``left`` and ``right``.

    ``prefixes``: the right graph has nodes of the left one under these prefixes, beside or instead of the plain ones.
    ``map_data``: the map file of a rewrite, or an object of old and new names. Without ``renames`` names alone pair the rest;
    with ``ignore_names`` another name is no difference.

    Raises:
        InputError: the map is none, or speaks of other graphs.
        RefusedError: a prefix that no counterpart bears.
    """
    branches = [Twins("", {})]
    if map_data is not None:
        branches = _mapped(left.graph, right.graph, map_data, map_where)
    elif prefixes:
        branches = _prefixed(left.graph, right.graph, prefixes, left.where)
    branches = _completed(left.graph, right.graph, branches, renames)
    found = compare(left.graph, right.graph, branches)
    parameters = None
    if left.params is not None and right.params is not None:
        names = _parameter_names(left.graph, branches)
        parameters = diff_parameters(left.params, right.params, names, atol=atol, rtol=rtol)
    return Difference(found.nameless() if ignore_names else found, parameters)


def _completed(left: Graph, right: Graph, branches: list[Twins], renames: bool) -> list[Twins]:
    """The branches with what they leave open found: all of it belongs to the first."""
    first, *others = branches
    taken = [node for branch in others for pair in branch.images.items() for node in pair if node not in first.images]
    found = align(left, right, known=first.images, taken=taken, renames=renames)
    first = msgspec.structs.replace(first, images=found.images)
    return [branch for branch in (first, *others) if branch.images] or [first]


def _prefixed(left: Graph, right: Graph, prefixes: Sequence[str], other: str) -> list[Twins]:
    """A branch for each prefix, its nodes found by name; and one for the plain names that the right graph still has."""
    by_name = _by_name(right.nodes)
    branches = []
    for prefix in prefixes:
        rest = {name: iter(nodes) for name, nodes in by_name.items()}
        images = {a: b for a in left.nodes if (b := next(rest.get(prefix + a.name, iter(())), None)) is not None}
        branches.append(Twins(prefix, images, prefix=prefix))
    idle = [branch.label for branch in branches if not branch.images]
    if idle:
        raise RefusedError([Fault(f"no node bears the prefix {prefix!r} before a name of {other}") for prefix in idle])
    bearing = {b for branch in branches for b in branch.images.values()}
    rest = {name: iter(node for node in nodes if node not in bearing) for name, nodes in by_name.items()}
    plain = {a: b for a in left.nodes if (b := next(rest.get(a.name, iter(())), None)) is not None and a.op == b.op}
    return [Twins("", plain), *branches]


def _by_name(nodes: Iterable[Node]) -> dict[str, list[Node]]:
    found: dict[str, list[Node]] = {}
    for node in nodes:
        found.setdefault(node.name, []).append(node)
    return found


def _mapped(left: Graph, right: Graph, data: bytes, where: str) -> list[Twins]:
    """The branches of a map. Its ids are believed where the names there are the map's, else its names where they are unique.

    Raises:
        InputError: it is no map, or nothing in it is in the graphs.
    """
    entries = entries_of(data, where)
    lefts, rights = _Finder(left), _Finder(right)
    images: dict[str, dict[Node, Node]] = {}
    names: dict[str, dict[Node, str]] = {}
    for entry in entries:
        a = lefts.find(entry.source)
        if a is None or entry.target is None:
            continue
        names.setdefault(entry.branch, {})[a] = entry.target.name
        b = rights.find(entry.target)
        if b is not None:
            images.setdefault(entry.branch, {})[a] = b
    if entries and not images:
        hint = "give the map of the rewrite that made the second graph from the first"
        raise InputError(Fault("pairs no node of these graphs", where=where, hint=hint))
    return [Twins(label, found, names[label]) for label, found in images.items()] or [Twins("", {})]


class _Finder:
    def __init__(self, graph: Graph) -> None:
        self._nodes = graph.nodes
        self._by_name = _by_name(graph.nodes)

    def find(self, place: Place) -> Node | None:
        if place.id is not None and 0 <= place.id < len(self._nodes) and self._nodes[place.id].name == place.name:
            return self._nodes[place.id]
        named = self._by_name.get(place.name, ())
        return named[0] if len(named) == 1 else None


def _parameter_names(left: Graph, branches: Sequence[Twins]) -> Mapping[str, Sequence[str]]:
    """What each variable of the left graph is called in the right one, the implied ones included."""
    names: dict[str, dict[str, None]] = {}
    for branch in branches:
        for node in left.variables():
            if node in branch.images:
                names.setdefault(node.name, {})[branch.images[node].name] = None
        for implied in implied_variables(left):
            if implied.node in branch.images:
                new = implied_name(branch.images[implied.node].name, implied.formal)
                names.setdefault(implied.name, {})[new] = None
    return {old: tuple(new) for old, new in names.items()}
