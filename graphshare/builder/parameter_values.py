"""The values of a session's parameters, and the shapes and dtypes of the runs that use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graphshare.analysis.shapes import Inference, infer
from graphshare.builder.topology import extract_graph
from graphshare.builder.var import Registry, Var
from graphshare.errors import Fault, RefusedError
from graphshare.execute.memory import check_memory
from graphshare.execute.plan import ExecutionPlan
from graphshare.execute.variable_values import check_shapes, convert_feed, initial_value, unknown_shapes
from graphshare.ir.graph import Node
from graphshare.ops.kernel import Array

CACHE_SIZE = 64  # plans, and inferences, of runs

_RunKey = tuple[ExecutionPlan, tuple[tuple[Node, tuple[int, ...], str], ...]]


class ParameterValues:
    """Values by variable, read-only; a variable that was never set nor needed has none."""

    def __init__(self, registry: Registry, seed: int) -> None:
        self._registry, self._seed = registry, seed
        self._arrays: dict[Node, Array] = {}
        self._inferences: dict[_RunKey, Inference] = {}

    def set(self, node: Node, value: Array) -> None:
        """Set a value and make the array read-only, because :meth:`get` returns it without a copy."""
        value.setflags(write=False)
        self._arrays[node] = value

    def get(self, var: Var) -> Array:
        """Return the value of a parameter; the initial one if it has none and its shape is known.

        Raises:
            RefusedError: the shape is not known.
        """
        if var.node not in self._arrays:
            self._initialise([var.node], self._infer_alone(var))
        return self._arrays[var.node]

    def convert(self, var: Var, array: Array) -> Array:
        """Return ``array`` in the parameter's dtype, without a copy if possible.

        Raises:
            RefusedError: it has another shape, or a dtype that does not convert.
        """
        inference = self._infer_alone(var)
        check_shapes({var.node: array.shape}, inference)
        return convert_feed(var.node.name, array, inference.types[var.node][0])

    def complete(
        self, plan: ExecutionPlan, targets: Sequence[Var], fed: Mapping[Node, Array]
    ) -> tuple[dict[Node, Array], Inference]:
        """Return the values of all variables of ``plan``: fed ones in their dtypes, set ones, and initial ones for the rest.

        Raises:
            RefusedError: shapes do not fit or are not known.
        """
        key = (plan, tuple((node, array.shape, str(array.dtype)) for node, array in fed.items()))
        if key not in self._inferences:
            if len(self._inferences) >= CACHE_SIZE:
                self._inferences.clear()
            self._inferences[key] = self._infer_run(plan, targets, fed)
            arrays = {**fed, **{node: self._arrays[node] for node in plan.variables if node in self._arrays}}
            check_memory(self._inferences[key].nodes, [var.entry for var in targets], self._inferences[key], arrays)
        inference = self._inferences[key]
        values = {node: convert_feed(node.name, array, inference.types[node][0]) for node, array in fed.items()}
        self._initialise([node for node in plan.variables if node not in fed], inference)
        return {node: values[node] if node in fed else self._arrays[node] for node in plan.variables}, inference

    def _initialise(self, nodes: Sequence[Node], inference: Inference) -> None:
        """Set initial values for the parameters among ``nodes`` that have none.

        Raises:
            RefusedError: shapes are not known; all are listed.
        """
        missing = [node for node in nodes if node not in self._arrays]
        faults = unknown_shapes(inference, missing)
        if faults:
            hint = "give variable(...) its shape, or run it with what uses it"
            raise RefusedError([Fault(fault.message, node=fault.node, hint=hint) for fault in faults])
        for node in missing:
            shape = tuple(size or 0 for size in inference.shapes[node][0] or ())
            self.set(node, initial_value(node, shape, inference.types[node][0] or "float32", seed=self._seed))

    def _infer_alone(self, var: Var) -> Inference:
        return infer(extract_graph([var]), self._collect_shapes([var.node]), self._collect_dtypes([var.node]))

    def _infer_run(self, plan: ExecutionPlan, targets: Sequence[Var], fed: Mapping[Node, Array]) -> Inference:
        graph = extract_graph(targets)
        known = self._collect_shapes(node for node in plan.variables if node not in fed)
        dtypes = self._collect_dtypes(plan.variables)
        without_feed = infer(graph, known, dtypes, nodes=graph.nodes, default_type="float32")
        check_shapes({node: array.shape for node, array in fed.items()}, without_feed)
        return infer(graph, {**known, **{node: array.shape for node, array in fed.items()}}, dtypes, nodes=graph.nodes)

    def _collect_shapes(self, nodes: Iterable[Node]) -> dict[Node, tuple[int | None, ...]]:
        known: dict[Node, tuple[int | None, ...]] = {}
        for node in nodes:
            shape = self._arrays[node].shape if node in self._arrays else self._registry.shapes[node][0]
            if shape is not None:
                known[node] = shape
        return known

    def _collect_dtypes(self, nodes: Iterable[Node]) -> dict[Node, str]:
        return {node: dtype for node in nodes if (dtype := self._registry.dtypes[node][0]) is not None}
