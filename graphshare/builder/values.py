"""The values of a session's parameters, and the shapes and types of what runs with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphshare.analysis.shapes import Inference, infer
from graphshare.builder.registry import Registry
from graphshare.builder.topology import graph_of
from graphshare.builder.var import Var
from graphshare.errors import Fault, RefusedError
from graphshare.execute.initial import initial_value
from graphshare.execute.plan import Plan
from graphshare.execute.values import check_shapes, converted, unknown_shapes
from graphshare.ir.graph import Node
from graphshare.kernels.kernel import Array

KEPT = 64  # plans, and inferences, of runs


class Values:
    """Values by variable, read-only; what was never given nor needed has none."""

    def __init__(self, registry: Registry, seed: int) -> None:
        self.arrays: dict[Node, Array] = {}
        self._registry, self._seed = registry, seed
        self._found: dict[Any, Inference] = {}

    def keep(self, node: Node, value: Array) -> None:
        """A value is handed out as it is, so nobody may write into it."""
        value.setflags(write=False)
        self.arrays[node] = value

    def of(self, var: Var) -> Array:
        """The value of a parameter; the first one where it has none and its shape is known.

        Raises:
            RefusedError: the shape is not known.
        """
        if var.node not in self.arrays:
            self.initialise([var.node], self._alone(var))
        return self.arrays[var.node]

    def fitted(self, var: Var, array: Array) -> Array:
        """``array`` as a value of the parameter, in its type; it may be the same one.

        Raises:
            RefusedError: it has another shape, or a type that does not convert.
        """
        found = self._alone(var)
        check_shapes({var.node: array}, found)
        return converted(var.node, array, found.types[var.node][0])

    def completed(self, plan: Plan, wanted: Sequence[Var], fed: Mapping[Node, Array]) -> tuple[dict[Node, Array], Inference]:
        """The values of all variables of ``plan``: fed ones in their types, held ones, and first ones for parameters without.

        Raises:
            RefusedError: shapes do not fit or are not known.
        """
        key = (plan, tuple((node, array.shape, str(array.dtype)) for node, array in fed.items()))
        if key not in self._found:  # once for the same shapes
            if len(self._found) >= KEPT:
                self._found.clear()
            self._found[key] = self._inferred(plan, wanted, fed)
        found = self._found[key]
        given = {node: converted(node, array, found.types[node][0]) for node, array in fed.items()}
        self.initialise([node for node in plan.variables if node not in given], found)
        return {node: given[node] if node in given else self.arrays[node] for node in plan.variables}, found

    def initialise(self, nodes: Sequence[Node], found: Inference) -> None:
        """First values for the parameters among ``nodes`` that have none.

        Raises:
            RefusedError: shapes are not known; all are listed.
        """
        missing = [node for node in nodes if node not in self.arrays]
        faults = unknown_shapes(found, missing)
        if faults:
            hint = "give variable(...) its shape, or run it with what uses it"
            raise RefusedError([Fault(fault.message, node=fault.node, hint=hint) for fault in faults])
        for node in missing:
            shape = tuple(size or 0 for size in found.shapes[node][0] or ())
            self.keep(node, initial_value(node, shape, found.types[node][0] or "float32", seed=self._seed))

    def _alone(self, var: Var) -> Inference:
        return infer(graph_of([var]), self._known_shapes([var.node]), self._known_types([var.node]))

    def _inferred(self, plan: Plan, wanted: Sequence[Var], fed: Mapping[Node, Array]) -> Inference:
        part = graph_of(wanted)
        others = [node for node in plan.variables if node not in fed]
        types = self._known_types(plan.variables)
        without = infer(part, self._known_shapes(others), types, nodes=part.nodes, default_type="float32")
        check_shapes(fed, without)
        known = {**self._known_shapes(others), **{node: array.shape for node, array in fed.items()}}
        return infer(part, known, types, nodes=part.nodes)

    def _known_shapes(self, nodes: Iterable[Node]) -> dict[Node, tuple[int | None, ...]]:
        known = {node: shape for node in nodes if (shape := self._registry.shapes[node][0]) is not None}
        return {**known, **{node: self.arrays[node].shape for node in nodes if node in self.arrays}}

    def _known_types(self, nodes: Iterable[Node]) -> dict[Node, str]:
        return {node: dtype for node in nodes if (dtype := self._registry.types[node][0]) is not None}
