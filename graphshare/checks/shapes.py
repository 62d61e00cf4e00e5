"""Shapes and dtypes of a checked graph, inferred alone and with the parameter file."""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from graphshare.analysis.name_lists import auxiliary_variables
from graphshare.checks.context import CheckContext, NamedRecord, PartialShape
from graphshare.checks.graph_facts import (
    find_attribute_faults,
    find_missing_outputs,
    find_reshapes_without_shape,
    find_wrong_input_counts,
)
from graphshare.errors import Fault, GraphshareError
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import reachable
from graphshare.rewrite.upgrade_graph import upgrade_graph

if TYPE_CHECKING:
    from graphshare.ops.inference import Inference

_STABLE_SINCE = 905  # loading files of this or a later version changes nothing that affects shapes


def find_shapes(context: CheckContext) -> Shapes | None:
    """Return the shapes if some are known and no operator lacks attributes or inputs."""
    if not context.has_graph:
        return None
    has_given = context.params is not None or bool(context.given_shapes)
    if not has_given and not _declares_shapes(context):
        return None
    faults = chain(
        find_missing_outputs(context),
        find_attribute_faults(context, "unreadable", "constraint", "missing"),
        find_reshapes_without_shape(context),
        find_wrong_input_counts(context),
    )
    # Other rules report these faults, and inference would only repeat one.
    return Shapes(context) if next(faults, None) is None else None


def _declares_shapes(context: CheckContext) -> bool:
    """Whether a variable declares its shape, or operators that share a parameter could disagree
    about it.
    """
    variables = (node for node in context.reachable if node.is_variable)
    if any("__shape__" in node.attrs for node in variables):
        return True
    return bool(context.shared_parameters)


class Shapes:
    """The shapes and dtypes of a graph, inferred on demand."""

    def __init__(self, context: CheckContext) -> None:
        self._context = context

    @cached_property
    def graph(self) -> Graph | None:
        """The graph as MXNet loads it, with implied variables as nodes; None if MXNet rejects the
        file.
        """
        graph = self._context.graph
        is_old = graph.version is None or graph.version < _STABLE_SINCE
        try:
            return upgrade_graph(graph, keep_amp_cast=True).graph if is_old else graph
        except GraphshareError:
            return None

    @cached_property
    def _nodes(self) -> list[Node]:
        if self.graph is self._context.graph:
            return self._context.reachable
        return reachable(self.graph) if self.graph is not None else []

    @cached_property
    def records(self) -> dict[Node, NamedRecord]:
        auxiliary = auxiliary_variables(self._nodes)
        records = {}
        for node in self._nodes:
            if node.is_variable:
                record = self._context.find_record(
                    node.name, ("aux", "") if node in auxiliary else ("arg", "")
                )
                if record is not None and record.shape is not None:
                    records[node] = record
        return records

    def _select_given_shapes(self) -> dict[Node, PartialShape]:
        stated_shapes = self._context.given_shapes
        return {
            node: stated_shapes[node.name]
            for node in self._nodes
            if node.is_variable and node.name in stated_shapes
        }

    def _collect_shapes(self) -> dict[Node, PartialShape]:
        stored = {
            node: record.shape for node, record in self.records.items() if record.shape is not None
        }
        return {**stored, **self._select_given_shapes()}

    def fit(self, graph: Graph) -> bool:
        """Whether the shapes also fit a different graph with the same variables."""
        return not isinstance(self._infer(self._collect_shapes(), None, graph), Fault)

    def _infer(
        self,
        shapes: dict[Node, PartialShape],
        dtypes: dict[Node, str] | None,
        other: Graph | None = None,
    ) -> Inference | Fault | None:
        if self.graph is None:
            return None
        # Start-up: inference needs numpy
        from graphshare.ops.inference import infer

        try:
            held = self.records.keys() - self._select_given_shapes().keys()
            graph, nodes = (self.graph, self._nodes) if other is None else (other, None)
            return infer(graph, shapes, dtypes, nodes=nodes, yielding=None, held=held)
        except GraphshareError as error:
            return error.faults[0]

    @cached_property
    def alone(self) -> Inference | Fault | None:
        """The shapes without the parameter file: a Fault if they contradict each other, None if none
        follow.
        """
        return self._infer(self._select_given_shapes(), None)

    @cached_property
    def with_shapes(self) -> Inference | Fault | None:
        """Like :attr:`alone`, but with the shapes of the parameter file."""
        return self._infer(self._collect_shapes(), None)

    @cached_property
    def with_dtypes(self) -> Inference | Fault | None:
        """Like :attr:`alone`, but with the shapes and dtypes of the parameter file."""
        dtypes: dict[Node, str] = {}
        for node, record in self.records.items():
            if record.dtype is not None:
                # Inference has no bfloat16; float32 can represent the same numbers.
                dtypes[node] = "float32" if record.dtype == "bfloat16" else record.dtype
        return self._infer(self._collect_shapes(), dtypes)

    def find_operator(self, name: str | None) -> Node | None:
        for node in self._context.graph.nodes:
            if node.name == name and not node.is_variable:
                return node
        return None
