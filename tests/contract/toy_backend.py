"""A backend that computes toy graphs in numpy, in double precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from graphshare.checkpoint.parameters import Parameters
from graphshare.errors import Fault, RefusedError
from graphshare.execute.backends.backend import Backend, Computation, Look
from graphshare.execute.interpreter import Run
from graphshare.execute.prepare.assignment import DEFAULT, Assignment, DrawOptions
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.inference import Inference


class ToyComputation(Computation):
    """The heads of a toy graph."""

    engine = "toy"

    def __init__(self, graph: Graph, parameters: ParameterFile | None, where: str) -> None:
        self.graph, self.where, self._held = graph, where, Parameters(parameters)

    def is_parameter(self, node: Node) -> bool:
        return node.name in self._held

    is_constant = is_parameter

    def draw(
        self,
        feeds: Mapping[Node, Any] = EMPTY,
        shapes: Mapping[Node, Any] = EMPTY,
        options: DrawOptions = DEFAULT,
    ) -> Assignment:
        inputs = [
            node
            for node in self.graph.variables()
            if node not in feeds and not self.is_parameter(node)
        ]
        if missing := [node for node in inputs if node not in shapes or None in shapes[node]]:
            hint = "give it with `shapes={NAME: SIZES}`"
            raise RefusedError(
                [
                    Fault("has no shape", where=self.where, node=node.name, hint=hint)
                    for node in missing
                ]
            )
        numbers = np.random.default_rng(options.seed)
        drawn = {node: numbers.standard_normal(shapes[node]) for node in inputs}
        return Assignment({**feeds, **drawn}, Inference([], {}, {}), inputs=inputs)

    def run(
        self, values: Mapping[Node, Any], *, seed: int | None = None, profile: bool = False
    ) -> Run:
        known = self._compute(values)
        return Run([known[entry.node] for entry in self.graph.heads])

    def watch(self, values: Mapping[Node, Any], look: Look, *, seed: int | None = None) -> None:
        for node, value in self._compute(values).items():
            if node.op:
                look(node, 0, value)

    def select(self, heads: Sequence[Entry]) -> ToyComputation:
        copy = object.__new__(ToyComputation)
        copy.graph, copy.where, copy._held = (
            msgspec.structs.replace(self.graph, heads=tuple(heads)),
            self.where,
            self._held,
        )
        return copy

    def complete(self, values: Mapping[Node, Any]) -> tuple[Mapping[Node, Any], Inference]:
        return {
            node: value for node, value in self._compute(values).items() if not node.op
        }, Inference([], {}, {})

    def _compute(self, values: Mapping[Node, Any]) -> dict[Node, Any]:
        known: dict[Node, Any] = {}
        for node in post_order(entry.node for entry in self.graph.heads):
            operands = [known[entry.node] for entry in node.inputs]
            if node.op in ("product", "positive"):
                try:
                    known[node] = (
                        operands[0] @ operands[1]
                        if node.op == "product"
                        else np.maximum(operands[0], 0)
                    )
                except (ValueError, LookupError) as error:
                    raise RefusedError(
                        Fault(f"cannot be computed: {error}", where=self.where, node=node.name)
                    ) from error
            elif node.op:
                raise RefusedError(
                    Fault(f"operator {node.op} cannot be run", where=self.where, node=node.name)
                )
            else:
                known[node] = np.float64(values[node] if node in values else self._held[node.name])
        return known


class ToyBackend(Backend):
    """numpy, in double precision."""

    name = "toy"

    def open(
        self,
        graph: Graph,
        parameters: ParameterFile | None,
        where: str,
        executor: object,
        **options: object,
    ) -> Computation:
        return ToyComputation(graph, parameters, where)


BACKEND = ToyBackend()
