"""Shapes and types of a checked graph: what follows from the graph alone, and with the parameter file; or a contradiction."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from graphshare.analysis.roles import Kind
from graphshare.analysis.shapes import Inference, infer
from graphshare.errors import Fault, GraphshareError
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import reachable
from graphshare.rewrite.upgrade import upgrade

if TYPE_CHECKING:
    from graphshare.checks.subject import Held, Subject

_MEANS_THE_SAME = 905  # from here on loading changes no input and no attribute that shapes depend on
GivenShape = tuple[int | None, ...]


class Shapes:
    """Asked only of graphs whose operators are known and fit (``Subject.sound`` and no error among the operators' rules)."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @cached_property
    def graph(self) -> Graph | None:
        """The graph as MXNet holds it after loading, implied variables as nodes; None where it refuses the file."""
        graph = self._subject.graph
        try:
            return upgrade(graph, keep_amp_cast=True).graph if (graph.version or 0) < _MEANS_THE_SAME else graph
        except GraphshareError:
            return None

    @cached_property
    def _nodes(self) -> list[Node]:
        if self.graph is self._subject.graph:
            return self._subject.reachable
        return reachable(self.graph) if self.graph is not None else []

    @cached_property
    def records(self) -> dict[Node, Held]:
        """The records that variables take their values from."""
        auxiliary = {v.node for v in self._subject.lists.variables if v.auxiliary}
        found = {}
        for node in self._nodes:
            if node.is_variable:
                role = self._subject.roles.get(node)
                aux = node in auxiliary or (role is not None and role.kind is Kind.AUXILIARY)
                held = self._subject.record_of(node.name, ("aux", "") if aux else ("arg", ""))
                if held is not None and held.record.shape is not None:
                    found[node] = held
        return found

    def _given(self) -> dict[Node, GivenShape]:
        return {
            node: self._subject.given[node.name]
            for node in self._nodes
            if node.is_variable and node.name in self._subject.given
        }

    def _infer(self, shapes: dict[Node, GivenShape], types: dict[Node, str] | None) -> Inference | Fault | None:
        if self.graph is None:
            return None
        try:
            return infer(self.graph, shapes, types, nodes=self._nodes, default_type=None)
        except GraphshareError as error:
            return error.faults[0]
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return None  # attributes that parse and mean nothing (a kernel of no axes): nothing can be told

    @cached_property
    def alone(self) -> Inference | Fault | None:
        """What follows without the parameter file; a Fault where it contradicts itself, None where nothing can be told."""
        return self._infer(self._given(), None)

    @cached_property
    def with_shapes(self) -> Inference | Fault | None:
        """What follows with the shapes of the parameter file, as :attr:`alone`."""
        held = {node: held.record.shape for node, held in self.records.items() if held.record.shape is not None}
        return self._infer({**held, **self._given()}, None)

    @cached_property
    def with_types(self) -> Inference | Fault | None:
        """What follows with the shapes and types of the parameter file, as :attr:`alone`."""
        held = {node: held.record.shape for node, held in self.records.items() if held.record.shape is not None}
        types = {node: dtype for node, held in self.records.items() if (dtype := held.record.dtype) is not None}
        types = {node: "float32" if dtype == "bfloat16" else dtype for node, dtype in types.items()}
        return self._infer({**held, **self._given()}, types)

    def original(self, name: str | None) -> Node | None:
        """The node of the file that a fault names."""
        return next((node for node in self._subject.graph.nodes if node.name == name and not node.is_variable), None)
