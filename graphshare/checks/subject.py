"""One graph file with its parameter file, and what rules ask about them: each answer is found once, when first asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from graphshare.analysis.implied import implied_inputs, implied_variables, implies_variables
from graphshare.analysis.name_lists import Listed, NameLists
from graphshare.analysis.roles import Kind, Role, assign_roles, implied_role
from graphshare.checks.document import Reading, Steps, graphs_of, read
from graphshare.checks.signatures import Facts, facts_of
from graphshare.errors import Fault, InputError
from graphshare.formats.params.records import ParameterFile, Record, format_record
from graphshare.formats.params.registry import read_index
from graphshare.ir.graph import VARIABLE, Graph, Node
from graphshare.ir.walk import consumers, node_ids, reachable
from graphshare.ops.registry import lookup
from graphshare.text.names import split_key

if TYPE_CHECKING:
    from graphshare.checks.shapes import Shapes


class Held:
    """A named record of the parameter file: ``kind`` is ``arg``, ``aux`` or empty, ``place`` how messages call it."""

    __slots__ = ("kind", "name", "number", "place", "record")

    def __init__(self, number: int, record: Record) -> None:
        self.number, self.record = number, record
        self.kind, self.name = split_key(record.key or "")
        self.place = format_record(record.key, number)


class Subject:
    """What is checked. ``params_path`` names a parameter file or is empty; ``given`` are shapes by variable name.

    ``graph`` and what follows from it may only be asked for where ``sound`` is true.
    """

    def __init__(
        self, where: str, data: bytes, *, params_path: str = "", given: Mapping[str, tuple[int | None, ...]] | None = None
    ) -> None:
        self.where, self.data, self.params_path, self.given = where, data, params_path, given or {}
        self._facts: dict[tuple[str, int], Facts] = {}

    @cached_property
    def reading(self) -> Reading:
        return read(self.data)

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the text; none where it cannot be decoded."""
        text = self.reading.text
        return [] if text is None else [line.removesuffix("\r") for line in text.split("\n")]

    @property
    def sound(self) -> bool:
        """Whether there is a graph."""
        return self.reading.graph is not None

    @cached_property
    def documents(self) -> list[tuple[Steps, dict[str, Any]]]:
        """The graph objects of the JSON, sub-graphs too; none where they have not the form of graphs."""
        reading = self.reading
        return [] if reading.value is None or reading.misshapen or reading.malformed else list(graphs_of(reading.value))

    @property
    def graph(self) -> Graph:
        graph = self.reading.graph
        assert graph is not None
        return graph

    @cached_property
    def graphs(self) -> list[tuple[Steps, Graph]]:
        """The graph and its sub-graphs, with their places; none where there is no graph."""
        if not self.sound:
            return []
        found: list[tuple[Steps, Graph]] = [((), self.graph)]
        for steps, graph in found:  # grows while it is walked
            for i, node in enumerate(graph.nodes):
                found.extend(((*steps, "nodes", i, "subgraphs", k), part) for k, part in enumerate(node.subgraphs))
        return found

    def operators(self) -> Iterator[tuple[Steps, Node]]:
        """Every operator node of the graph and its sub-graphs, with its place."""
        for steps, graph in self.graphs:
            for i, node in enumerate(graph.nodes):
                if node.op != VARIABLE:
                    yield (*steps, "nodes", i), node

    def is_known(self, node: Node) -> bool:
        """Whether anybody knows the operator's inputs."""
        return lookup(node.op) is not None

    @cached_property
    def ids(self) -> dict[Node, int]:
        return node_ids(self.graph)

    def steps_of(self, node: Node | None) -> Steps:
        """The place of a node of the outermost graph; the document's for None and for nodes that no file has."""
        return ("nodes", self.ids[node]) if node is not None and node in self.ids else ()

    @cached_property
    def reachable(self) -> list[Node]:
        """The nodes that the heads need, in MXNet's order."""
        return reachable(self.graph)

    @cached_property
    def lists(self) -> NameLists:
        return NameLists(self.graph)

    @cached_property
    def listed(self) -> list[tuple[Listed, Node]]:
        """The variables in MXNet's order, each with its node; one that the file implies with the operator that implies it."""
        implies = implies_variables(self.graph)
        owners: list[Node] = []
        for node in self.reachable:
            if node.is_variable:
                owners.append(node)
            elif implies:
                owners += [node for _ in implied_inputs(node)]
        return list(zip(self.lists.variables, owners, strict=True))

    @cached_property
    def roles(self) -> dict[Node, Role]:
        held = None if self.params is None or not self.params.named else frozenset(self.held)
        return assign_roles(self.graph, held=held)

    @cached_property
    def kinds(self) -> dict[str, set[str]]:
        """``arg`` and ``aux`` by variable name, implied variables too: under which prefix a parameter file keeps each."""
        found: dict[str, set[str]] = {}
        for node, role in self.roles.items():
            found.setdefault(node.name, set()).add("aux" if role.kind is Kind.AUXILIARY else "arg")
        for implied in implied_variables(self.graph):
            found.setdefault(implied.name, set()).add("aux" if implied.auxiliary else "arg")
        return found

    @cached_property
    def wanted(self) -> dict[str, Node | None]:
        """The names of what a parameter file should hold, each with its node (None for an implied variable)."""
        needed = set(self.reachable)
        # An initialiser alone makes no parameter of what operators take for data: inputs may have one too.
        names: dict[str, Node | None] = {
            n.name: n for n, role in self.roles.items() if role.is_parameter and n in needed and "__init__" not in role.why
        }
        for implied in implied_variables(self.graph):
            if implied.node in needed and implied_role(implied).is_parameter:
                names.setdefault(implied.name, None)
        return names

    @cached_property
    def _index(self) -> tuple[ParameterFile | None, tuple[Fault, ...]]:
        if not self.params_path:
            return None, ()
        try:
            return read_index(self.params_path), ()
        except InputError as error:
            return None, error.faults

    @property
    def params(self) -> ParameterFile | None:
        """The index of the parameter file; None without one and for one that cannot be read."""
        return self._index[0]

    @property
    def params_faults(self) -> tuple[Fault, ...]:
        """Why the parameter file cannot be read."""
        return self._index[1]

    @cached_property
    def records(self) -> list[Held]:
        """The records of the parameter file that have names."""
        return [Held(i, r) for i, r in enumerate(self.params.records if self.params else ()) if r.key is not None]

    @cached_property
    def held(self) -> dict[str, list[Held]]:
        """Records by the variable's name they bear."""
        found: dict[str, list[Held]] = {}
        for record in self.records:
            found.setdefault(record.name, []).append(record)
        return found

    def record_of(self, name: str, kinds: Collection[str] = ()) -> Held | None:
        """The record of a variable, under one of ``kinds`` first; of several with one key the last, as MXNet reads them."""
        found = self.held.get(name, ())
        return next((held for held in reversed(found) if held.kind in kinds), found[-1] if found else None)

    @cached_property
    def inferable(self) -> bool:
        """Whether shapes can be asked for, and anything says some: operators have the attributes and inputs they need."""
        from graphshare.checks.rules import (
            gs105_output_index,
            gs304_attribute_value,
            gs305_missing_attribute,
            gs306_input_count,
        )

        if not self.sound or not (self.params is not None or self.given or self._declares_shapes()):
            return False
        needed = (gs105_output_index, gs304_attribute_value, gs305_missing_attribute, gs306_input_count)
        return not any(True for module in needed for _ in module.find(self))

    def _declares_shapes(self) -> bool:
        """Whether a variable says its shape, or two operators that may disagree share a parameter."""
        if any("__shape__" in node.attrs for node in self.reachable if node.is_variable):
            return True
        return bool(self.shared)

    @cached_property
    def users(self) -> dict[Node, list[tuple[Node, int]]]:
        """For each node that feeds another of those the heads need: consumer and input position."""
        return consumers(self.reachable)

    @cached_property
    def shared(self) -> list[Node]:
        """The parameters with several consumers."""
        return [node for node, role in self.roles.items() if role.is_parameter and len(self.users.get(node, ())) > 1]

    def facts(self, node: Node) -> Facts:
        """What the signature of an operator node says of it."""
        # Nodes with equal attributes hold one map, and the graph keeps the maps alive, so identity stands for content.
        key = (node.op, id(node.attrs))
        found = self._facts.get(key) if not node.subgraphs else facts_of(node)
        if found is None:
            found = self._facts[key] = facts_of(node)
        return found

    @cached_property
    def shapes(self) -> Shapes:
        """What follows for the shapes and types of the graph. Brings numpy along."""
        from graphshare.checks.shapes import Shapes

        return Shapes(self)
