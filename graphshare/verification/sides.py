"""What ``verify`` compares: two graphs with their parameter files, and which variables have the same place in all branches."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from graphshare.analysis.branches import HeadPairs
from graphshare.analysis.roles import Kind, Role, assign_roles
from graphshare.formats.params.lookup import RecordsByName
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph, Node

NodePair = tuple[Node, Node]


class Side(msgspec.Struct, frozen=True, eq=False):
    """A graph with its parameter file."""

    graph: Graph
    params: ParameterFile | None


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

    def describe(self, node: Node) -> str:
        """Return the names of a variable with the branches that they belong to."""
        names = self.names(node)
        if len(names) > 1 and len({id(twin) for twin in self._members[node].values()}) == 1:
            return f"{node.name!r} (all branches)"
        return ", ".join(f"{name!r} ({label or 'original'})" for label, name in names.items())


class Sides:
    """The graphs, records and roles of the reference and of the branch that is compared with it, often in one file.

    ``as_input`` are the names of variables that are inputs, whatever they look like.
    """

    def __init__(self, left: Side, right: Side, as_input: Collection[str] = ()) -> None:
        self.graphs = (left.graph, right.graph)
        self.files = (left.params, right.params)
        first = RecordsByName(left.params) if left.params is not None else None
        second = first if left is right else RecordsByName(right.params) if right.params is not None else None
        self.records: tuple[RecordsByName | None, RecordsByName | None] = (first, second)
        self.roles: dict[Node, Role] = {}
        for graph, records in zip(self.graphs, self.records, strict=True):
            held = None if records is None else frozenset(records.names())
            self.roles.update(assign_roles(graph, held=held, as_input=as_input))

    def is_auxiliary(self, node: Node) -> bool:
        """Whether a variable is an auxiliary state."""
        return self.roles[node].kind is Kind.AUXILIARY

    def is_parameter(self, a: Node, b: Node) -> bool:
        """Whether a variable or its twin is a parameter."""
        return self.roles[a].is_parameter or self.roles[b].is_parameter
