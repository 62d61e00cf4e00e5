"""The variables of branches that have one place, and the rule for values: one that is given for a branch holds for its twins.

A shape or a feed of ``data`` holds for the input of every other branch that has the place of ``data`` there and none of its
own. ``run``, ``train``, ``verify`` and ``export`` follow it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from graphshare.analysis.branches import HeadPairs, find_prefixes, pair_by_prefix
from graphshare.analysis.roles import assign_roles
from graphshare.analysis.targets import resolve_targets
from graphshare.errors import RefusedError
from graphshare.ir.compare import compare_structure
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.normalization.signature import BARRIER_KEYS
from graphshare.text.format import format_names

NodePair = tuple[Node, Node]
F = TypeVar("F")
S = TypeVar("S")


class Twins:
    """The variables of all branches that have the place of one variable of the reference, by branch."""

    def __init__(self, branches: Iterable[tuple[HeadPairs, Iterable[NodePair]]]) -> None:
        self._members: dict[Node, dict[str, Node]] = {}
        for pair, nodes in branches:
            for a, b in nodes:
                if a.is_variable:
                    self._members.setdefault(a, {pair.reference: a})[pair.label] = b

    def names(self, node: Node) -> dict[str, str]:
        """Return the names of a reference's variable in all branches, by branch, the reference first."""
        return {label: twin.name for label, twin in self._members.get(node, {"": node}).items()}

    def expand(self, names: Collection[str]) -> set[str]:
        """Return ``names`` with those of all their twins."""
        classes = (set(self.names(node).values()) for node in self._members) if names else ()
        return set(names).union(*(members for members in classes if not members.isdisjoint(names)))

    def describe(self, node: Node) -> list[str]:
        """Return the names of a variable, each with the branch that it belongs to."""
        names = self.names(node)
        if len(names) > 1 and len({id(twin) for twin in self._members[node].values()}) == 1:
            return [f"{node.name!r} (all branches)"]
        return [f"{name!r} ({label or 'original'})" for label, name in names.items()]

    def find_givers(self, names: Collection[str]) -> dict[str, str]:
        """Return the twin in ``names`` whose value a variable takes that is not in ``names``, for each that has one."""
        givers = {}
        for node in self._members:
            twins = self.names(node).values()
            giver = next((name for name in twins if name in names), None)
            if giver is not None:
                givers.update({name: giver for name in twins if name not in names})
        return givers

    def spread(
        self, feeds: Mapping[str, F], shapes: Mapping[str, S], own: Collection[str] = ()
    ) -> tuple[dict[str, F], dict[str, S]]:
        """Return feeds and shapes that hold for twins too which have none; variables in ``own`` have a value elsewhere."""
        givers = self.find_givers({**feeds, **shapes})
        taken = [(name, giver) for name, giver in givers.items() if name not in own]
        more_feeds = {name: feeds[giver] for name, giver in taken if giver in feeds}
        more_shapes = {name: shapes[giver] for name, giver in taken if giver in shapes}
        return {**feeds, **more_feeds}, {**shapes, **more_shapes}


def find_twins(graph: Graph) -> Twins:
    """Return the variables with the same place in the branches that the names of outputs tell; none in other graphs."""
    try:
        pairs = pair_by_prefix(graph, find_prefixes(graph))
    except RefusedError:
        return Twins(())
    return Twins((pair, compare_structure(pair.left, pair.right, exempt=BARRIER_KEYS).pairs) for pair in pairs)


def spread_inputs(
    graph: Graph,
    feeds: Mapping[str, F],
    shapes: Mapping[str, S],
    *,
    targets: Sequence[str] = (),
    option: str = "`targets`",
    held: Collection[str] | None = None,
    as_input: Collection[str] = (),
) -> tuple[dict[str, F], dict[str, S], list[str]]:
    """Return feeds and shapes that hold for the twins of their inputs too, and notes on these.

    Twins are inputs that ``targets`` (of ``option``) or the heads need; parameters keep the values that they have. ``held`` are
    the names in the parameter file.

    Raises:
        RefusedError: targets are not in the graph.
    """
    twins = find_twins(graph) if feeds or shapes else Twins(())
    if not twins.find_givers({**feeds, **shapes}):  # most graphs have one branch, and need no roles here
        return dict(feeds), dict(shapes), []
    roles = assign_roles(graph, held=held, as_input=as_input)
    heads = resolve_targets(targets, graph.nodes, option=option) if targets else graph.heads
    needed = set(post_order(entry.node for entry in heads))
    own = {node.name for node, role in roles.items() if role.is_parameter or node not in needed}
    more_feeds, more_shapes = twins.spread(feeds, shapes, own)
    notes = []
    for what, verb, given, more in (("values", "hold", feeds, more_feeds), ("shape", "holds", shapes, more_shapes)):
        names = [name for name in more if name not in given]
        if names:
            notes.append(f"the {what} of an input {verb} for its twins in other branches too: {format_names(names)}")
    return more_feeds, more_shapes, notes
