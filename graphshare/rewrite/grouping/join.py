"""Several graphs in one: outputs of some feed inputs of others, equal variables become one node.

Connected variables and the heads that feed them are dropped. Unchanged nodes keep their identity.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from graphshare.analysis.name_lists import internals, list_implied_variables, output_name
from graphshare.errors import Fault, RefusedError
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import EMPTY, Branch, Entry, Graph, Kept, Node, Rename, Rewrite, freeze
from graphshare.ir.rebuild import rebuild, relink
from graphshare.ir.walk import is_topological, order_by_references, post_order, topological
from graphshare.ops.normalization.signature import BARRIER
from graphshare.rewrite.add_branches import add_prefix
from graphshare.rewrite.tie import find_last_versions

Place = tuple[int, Node]
"""The number of a graph, and a node of it."""
Output = tuple[int, Entry]


class Member(msgspec.Struct, frozen=True, eq=False):
    """A graph of the group, with its parameter file if it has one.

    ``prefix`` goes before every name; ``label`` is the name in messages, ``alignment`` a change of
    operator set.
    """

    graph: Graph
    prefix: str = ""
    label: str = ""
    params: ParameterFile | None = None
    alignment: str = ""

    def name(self, node: Node) -> str:
        """Unnamed nodes stay unnamed."""
        return self.prefix + node.name if node.name else ""


class Collision(msgspec.Struct, frozen=True):
    """A name in both parts ``first`` and ``second``."""

    name: str
    first: int
    second: int
    what: str = ""

    def describe(self, parts: Sequence[Member]) -> str:
        first, second = parts[self.first].label, parts[self.second].label
        return f"{self.what or repr(self.name)} is in both {first} and {second}"


def join(
    parts: Sequence[Member],
    *,
    connect: Mapping[Place, Output] = EMPTY,
    ties: Mapping[Place, Place] = EMPTY,
) -> Rewrite:
    """Return one graph with the nodes and heads of all ``parts``, in order.

    ``connect`` maps a variable to the output that replaces it; connected heads are dropped.
    ``ties`` maps a variable to one of an earlier part that it becomes. Source and attributes are
    the first part's.

    Raises:
        RefusedError: names collide, connections form a cycle, or no head is left.
    """
    collisions = find_collisions(parts, connect, ties)
    RefusedError.raise_any(Fault(collision.describe(parts)) for collision in collisions)
    used = {(number, out.node, out.index) for number, out in connect.values()}
    connect = resolve_connections(connect)
    work = _Work(parts, connect, ties)
    for number, places in groupby(_order_places(parts, connect, ties), key=itemgetter(0)):
        work.add(number, [node for _, node in places])
    nodes = tuple(_in_file_order(parts, work.images))
    # An output of a later part may feed an earlier one.
    if not is_topological(nodes):
        nodes = tuple(post_order(nodes))
    heads = tuple(work.heads(used))
    if not heads:
        message = "no output is left: each of them feeds an input"
        raise RefusedError(Fault(message, hint="leave one of them unconnected"))
    first = parts[0].graph
    joined = first.source.after_join([part.graph.source for part in parts[1:]])
    unchanged = len(first.nodes) if work.untouched else 0
    source = joined.after_rewrite(work.images[0], unchanged=unchanged)
    extra: dict[str, Any] = {}  # of keys that several files have, the first one's
    for part in parts:
        extra = {**part.graph.extra, **extra}
    result = Graph(nodes, heads, first.attrs, source, freeze(extra))
    branches = tuple(
        Branch(part.prefix, part.graph, images)
        for part, images in zip(parts, work.images, strict=True)
    )
    return Rewrite(result, branches, tuple(_rename_implied(parts)))


def find_collisions(
    parts: Sequence[Member], connect: Mapping[Place, Output], ties: Mapping[Place, Place]
) -> list[Collision]:
    """Return names that two parts bring into the result: nodes, implied states, SyncBatchNorm
    barriers.
    """
    owner: dict[tuple[str, str], int] = {}
    collisions: dict[tuple[str, str], Collision] = {}
    for number, part in enumerate(parts):
        gone = {node for i, node in (*connect, *ties) if i == number}
        for key in _list_names(part, gone):
            first = owner.setdefault(key, number)
            if first != number:
                kind, name = key
                what = kind and f"{kind} {name!r}"
                collisions.setdefault(key, Collision(name, first, number, what))
    return list(collisions.values())


def _list_names(part: Member, gone: set[Node]) -> Iterator[tuple[str, str]]:
    op, attribute = BARRIER
    for node in part.graph.nodes:
        if node.name and node not in gone:
            yield "", part.name(node)
        if node.op == op and attribute in node.attrs:
            yield f"the {attribute} of {op}", part.prefix + node.attrs[attribute]
    for implied in list_implied_variables(part.graph):
        yield "", (part.prefix if implied.node.name else "") + implied.name


def _rename_implied(parts: Sequence[Member]) -> Iterator[Rename]:
    for part in parts:
        if part.prefix:
            for variable in list_implied_variables(part.graph):
                if variable.node.name:
                    yield Rename(part.prefix, variable.name, part.prefix + variable.name)


def _order_places(
    parts: Sequence[Member], connect: Mapping[Place, Output], ties: Mapping[Place, Place]
) -> Iterator[Place]:
    """Yield remaining nodes, inputs before consumers, across the parts."""
    # If outputs feed later graphs only, graphs in a row are topologically ordered.
    if all(out[0] < place[0] for place, out in connect.items()):
        for number, part in enumerate(parts):
            yield from (
                (number, node) for node in topological(part.graph) if (number, node) not in connect
            )
        return
    places = [
        (number, node)
        for number, part in enumerate(parts)
        for node in part.graph.nodes
        if (number, node) not in connect
    ]

    def refuse(cycle: Sequence[Place]) -> RefusedError:
        return _refuse_circle(cycle, list(_list_namesakes(parts, connect)))

    yield from order_by_references(places, lambda place: _list_needed(place, connect, ties), refuse)


def _refuse_circle(places: Sequence[Place], others: Sequence[str] = ()) -> RefusedError:
    circle = " -> ".join(repr(node.name or node.op) for _, node in (places[0], *reversed(places)))
    hint = f"did you mean {' or '.join(map(repr, others))}?" if others else "leave one of them out"
    return RefusedError(Fault(f"the connections go round in a circle: {circle}", hint=hint))


def _list_namesakes(parts: Sequence[Member], connect: Mapping[Place, Output]) -> Iterator[str]:
    """Yield outputs with the file's name of an output that feeds its own graph."""
    own = {
        output_name(entry): number
        for (number, _), (source, entry) in connect.items()
        if number == source
    }
    for number, part in enumerate(parts):
        yield from (
            part.prefix + name
            for name, _ in internals(part.graph.nodes)
            if own.get(name, number) != number
        )


def _list_needed(
    place: Place, connect: Mapping[Place, Output], ties: Mapping[Place, Place]
) -> list[Place]:
    if place in ties:
        return [ties[place]]
    number, node = place
    needed = []
    for source in (*(entry.node for entry in node.inputs), *node.control_deps):
        output = connect.get((number, source))
        needed.append((number, source) if output is None else (output[0], output[1].node))
    return needed


def resolve_connections(connect: Mapping[Place, Output]) -> dict[Place, Output]:
    """Return the output that replaces each connected variable, through connected variables.

    Raises RefusedError for a cycle.
    """
    resolved: dict[Place, Output] = {}
    for start in connect:
        place = start
        way: dict[Place, Output] = {}
        while place in connect and place not in resolved:
            if place in way:
                raise _refuse_circle([*way][[*way].index(place) :])
            way[place] = output = connect[place]
            place = (output[0], output[1].node)
        if way:
            last = resolved.get(place) or list(way.values())[-1]
            resolved.update(dict.fromkeys(way, last))
    return resolved


class _Work:
    def __init__(
        self, parts: Sequence[Member], connect: Mapping[Place, Output], ties: Mapping[Place, Place]
    ) -> None:
        self._parts = parts
        self._connect = connect
        self._ties = ties
        changed = {number for number, _ in connect}
        self.untouched = 0 not in changed and not parts[0].prefix
        self.images: list[dict[Node, Node] | Kept] = [{} for _ in parts]
        if self.untouched:
            self.images[0] = Kept(parts[0].graph)
        self._placed: set[Node] = set(parts[0].graph.nodes) if self.untouched else set()
        self._mutations = _count_mutations(parts, ties)

    def add(self, number: int, nodes: Sequence[Node]) -> None:
        images = self.images[number]
        if not isinstance(images, Kept):
            change, redirect = partial(self._change, number), partial(self._redirect, number)
            rebuild(nodes, change, redirect=redirect, images=images)
            self._placed.update([images[node] for node in nodes])

    def _change(self, number: int, node: Node) -> Node:
        tied = self._ties.get((number, node))
        if tied is not None:
            return self.images[tied[0]][tied[1]]
        prefix = self._parts[number].prefix
        if prefix:
            return add_prefix(prefix, node)
        return replace(node) if node in self._placed else node  # two parts may have one node

    def _redirect(self, number: int, entry: Entry, _: Node | None = None) -> Entry | None:
        """Return an entry only for a connected or a mutated variable."""
        place = (number, entry.node)
        output = self._connect.get(place)
        if output is not None:
            return Entry(self.images[output[0]][output[1].node], output[1].index, entry.version)
        earlier = self._mutations.get(place, 0)
        if not earlier or not entry.version:
            return None
        image = self.images[number][entry.node]
        return Entry(image, entry.index, entry.version + earlier)

    def heads(self, used: Collection[tuple[int, Node, int]]) -> Iterator[Entry]:
        for number, part in enumerate(self._parts):
            for entry in part.graph.heads:
                if (number, entry.node, entry.index) not in used:
                    yield self._redirect(number, entry) or relink(entry, self.images[number])


def _count_mutations(parts: Sequence[Member], ties: Mapping[Place, Place]) -> dict[Place, int]:
    """Count mutations by earlier parts of the variable that each tied one becomes."""
    if not ties:
        return {}
    last = {
        (number, node): version
        for number, part in enumerate(parts)
        for node, version in find_last_versions(part.graph.nodes).items()
    }
    counts: dict[Place, int] = {}
    sums = {place: last.get(place, 0) for place in ties.values()}
    for place, target in sorted(ties.items(), key=lambda item: item[0][0]):
        counts[place] = sums[target]
        sums[target] += last.get(place, 0)
    return counts


def _in_file_order(
    parts: Sequence[Member], images: Sequence[Mapping[Node, Node]]
) -> Iterator[Node]:
    """Yield nodes part by part, in file order; a tied one at its first place."""
    placed: set[Node] = set()
    for number, part in enumerate(parts):
        for node in part.graph.nodes:
            image = images[number].get(node)
            if image is not None and image not in placed:
                placed.add(image)
                yield image
