"""Parameter values of a session, inference for runs, and updates in training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from graphshare.analysis.roles import Kind, assign_roles
from graphshare.builder.var import Registry, Var
from graphshare.errors import Fault, RefusedError
from graphshare.execute.plan import ExecutionPlan
from graphshare.execute.prepare.memory import check_memory
from graphshare.execute.prepare.variable_values import (
    check_shapes,
    convert_feed,
    initial_value,
    unknown_shapes,
)
from graphshare.execute.train.sgd import Momentum, Sgd
from graphshare.execute.train.trainer import (
    Backpropagation,
    NodeStreams,
    backpropagate,
    batch_rescale,
    fill_zeros,
    first_data,
)
from graphshare.formats.mxnet.source import VERSION, MxnetSource
from graphshare.ir.graph import Graph, Node, freeze
from graphshare.ir.walk import post_order
from graphshare.ops.inference import Inference, infer
from graphshare.ops.kernel import Array

CACHE_SIZE = 64  # cached plans, and cached inferences

_RunKey = tuple[ExecutionPlan, tuple[tuple[Node, tuple[int, ...], str], ...]]
MXNET_VERSION = ("int", 10901)


class ParameterValues:
    """Read-only values of the variables that were set or needed."""

    def __init__(self, registry: Registry, seed: int) -> None:
        self._registry, self._seed = registry, seed
        self._arrays: dict[Node, Array] = {}
        self._inferences: dict[_RunKey, Inference] = {}

    def set(self, node: Node, value: Array) -> None:
        """The array becomes read-only, because :meth:`get` returns it without a copy."""
        value.setflags(write=False)
        self._arrays[node] = value

    def get(self, var: Var) -> Array:
        """Return the value, or the initial one if none was set.

        Raises:
            RefusedError: the shape is unknown.
        """
        if var.node not in self._arrays:
            self._initialise([var.node], self._infer_alone(var))
        return self._arrays[var.node]

    def convert(self, var: Var, array: Array) -> Array:
        """Return ``array`` in the parameter's dtype, without a copy if possible.

        Raises:
            RefusedError: ``array`` has a different shape, or a dtype that does not convert.
        """
        inference = self._infer_alone(var)
        check_shapes({var.node: array.shape}, inference)
        return convert_feed(var.node.name, array, inference.types[var.node][0])

    def complete(
        self, plan: ExecutionPlan, targets: Sequence[Var], fed: Mapping[Node, Array]
    ) -> tuple[dict[Node, Array], Inference]:
        """Return the values of all variables of ``plan``: fed ones in their dtypes, set ones, else
        initial ones.

        Raises:
            RefusedError: shapes do not fit or are unknown.
        """
        key = (plan, tuple((node, array.shape, str(array.dtype)) for node, array in fed.items()))
        if key not in self._inferences:
            if len(self._inferences) >= CACHE_SIZE:
                self._inferences.clear()
            inference = self._infer_run(plan, targets, fed)
            arrays = dict(fed)
            arrays.update(
                (node, self._arrays[node]) for node in plan.variables if node in self._arrays
            )
            heads = [var.entry for var in targets]
            # A run's memory follows from its shapes: one check that passes is enough for each key.
            check_memory(inference.nodes, heads, inference, arrays)
            self._inferences[key] = inference
        inference = self._inferences[key]
        values = {
            node: convert_feed(node.name, array, inference.types[node][0])
            for node, array in fed.items()
        }
        self._initialise([node for node in plan.variables if node not in fed], inference)
        complete = {
            node: values[node] if node in fed else self._arrays[node] for node in plan.variables
        }
        return complete, inference

    def _initialise(self, nodes: Sequence[Node], inference: Inference) -> None:
        missing = [node for node in nodes if node not in self._arrays]
        faults = unknown_shapes(inference, missing)
        if faults:
            hint = "pass shape= to variable(...), or run it together with an operator that uses it"
            raise RefusedError(
                [Fault(fault.message, node=fault.node, hint=hint) for fault in faults]
            )
        for node in missing:
            shape, dtype = inference.shapes[node][0], inference.types[node][0] or "float32"
            sizes = tuple(size or 0 for size in shape or ())
            self.set(node, initial_value(node, sizes, dtype, seed=self._seed))

    def _infer_alone(self, var: Var) -> Inference:
        shapes, dtypes = self._collect_shapes([var.node]), self._collect_dtypes([var.node])
        return infer(extract_graph([var]), shapes, dtypes)

    def _infer_run(
        self, plan: ExecutionPlan, targets: Sequence[Var], fed: Mapping[Node, Array]
    ) -> Inference:
        graph = extract_graph(targets)
        known = self._collect_shapes(node for node in plan.variables if node not in fed)
        dtypes = self._collect_dtypes(plan.variables)
        fed_shapes = {node: array.shape for node, array in fed.items()}
        # For the message: the shapes that would have fit.
        without_feed = infer(graph, known, dtypes, nodes=graph.nodes)
        check_shapes(fed_shapes, without_feed)
        return infer(graph, {**known, **fed_shapes}, dtypes, nodes=graph.nodes)

    def _collect_shapes(self, nodes: Iterable[Node]) -> dict[Node, tuple[int | None, ...]]:
        known: dict[Node, tuple[int | None, ...]] = {}
        for node in nodes:
            shape = self._registry.shapes[node][0]
            if node in self._arrays:
                shape = self._arrays[node].shape
            if shape is not None:
                known[node] = shape
        return known

    def _collect_dtypes(self, nodes: Iterable[Node]) -> dict[Node, str]:
        known: dict[Node, str] = {}
        for node in nodes:
            dtype = self._registry.dtypes[node][0]
            if dtype is not None:
                known[node] = dtype
        return known


class TrainingState:
    """The training state of one session; ``gradients`` are from the last pass that reached
    parameters.

    Momentum belongs to a parameter, regardless of the targets. Nodes draw new random numbers after
    each update.
    """

    def __init__(self, registry: Registry, values: ParameterValues, seed: int) -> None:
        self.gradients: dict[Var, Array] = {}
        self._registry, self._values, self._seed = registry, values, seed
        self._states: dict[Node, Array] = {}
        self._rescale = 1.0
        self._momentum: dict[Node, Array] = {}
        self._updates = 0

    def backpropagate(
        self,
        targets: Sequence[Var],
        plan: ExecutionPlan,
        fed: Mapping[Node, Array],
        wrt: Sequence[Var] | None,
        head_gradients: Mapping[Var, Array],
    ) -> Backpropagation:
        """Run ``plan`` forward and backward, with a gradient for each variable of ``wrt``.

        Raises RefusedError as :meth:`graphshare.builder.session.Session.gradients`.
        """
        nodes = self._resolve_wrt(plan, fed, wrt)
        unused = [
            Fault(f"{head.name!r} has a head gradient, but is not a target")
            for head in head_gradients
            if head not in targets
        ]
        if unused:
            raise RefusedError(unused)
        values, inference = self._values.complete(plan, targets, fed)
        graph = extract_graph(targets)
        streams = NodeStreams(self._seed).start(self._updates)
        heads = [head_gradients.get(target) for target in targets]
        result = backpropagate(
            plan, graph.heads, values, nodes, heads=heads, streams=streams, shapes=inference.shapes
        )
        result.gradients = fill_zeros(result.gradients, nodes, values)
        variables = self._registry.variables
        parameters = [var for var in self._list_parameters() if var.node in result.gradients]
        if parameters:  # a pass for only the gradients of inputs does not change the next update
            inputs = [node for node in graph.variables() if variables[node.name].kind is Kind.INPUT]
            self.gradients = {var: result.gradients[var.node] for var in parameters}
            self._rescale = batch_rescale(first_data(inputs, values, assign_roles(graph)), values)
            # A fed state belongs to the caller and is not written back.
            self._states = {node: value for node, value in result.states.items() if node not in fed}
        return result

    def _list_parameters(self) -> list[Var]:
        variables = self._registry.variables.values()
        return [variable.var for variable in variables if variable.kind is Kind.PARAMETER]

    def _resolve_wrt(
        self, plan: ExecutionPlan, fed: Mapping[Node, Array], wrt: Sequence[Var] | None
    ) -> list[Node]:
        if wrt is None:
            parameters = [var.node for var in self._list_parameters()]
            needed = [node for node in parameters if node in plan.variables and node not in fed]
            if not needed:
                hint = "wrt= also accepts inputs"
                raise RefusedError(
                    Fault("the targets need no parameter that could be trained", hint=hint)
                )
            return needed
        faults = []
        for var in wrt:
            variable = self._registry.variables.get(var.name)
            is_own = variable is not None and variable.var is var
            if variable is None or not is_own or variable.kind is Kind.AUXILIARY:
                message = f"{var.name!r} is neither a parameter nor an input, so no gradient is kept for it"
                faults.append(Fault(message))
            elif var.node not in plan.variables:
                faults.append(Fault(f"the targets do not need {var.name!r}"))
        if faults:
            raise RefusedError(faults)
        return [var.node for var in wrt]

    def update(
        self, gradients: Mapping[Var, Array] | None, settings: Sgd, rescale: float | None
    ) -> None:
        """Apply ``gradients``, or (once) the last pass's gradients with its auxiliary states.

        Raises RefusedError as :meth:`graphshare.builder.session.Session.update`.
        """
        if gradients is None:
            applied, factor = self.gradients, self._rescale
        else:
            applied, factor = self._convert(gradients), 1.0
        if not applied:
            hint = "Session.gradients(targets, feed) computes some"
            raise RefusedError(Fault("there are no gradients to apply", hint=hint))
        if rescale is not None:
            factor = rescale
        by_node = {var.node: gradient for var, gradient in applied.items()}
        rescaled = msgspec.structs.replace(settings, rescale=factor)
        momentum = Momentum(rescaled, list(by_node), self._momentum)
        if gradients is None:
            # Before the parameters, because a fixed gamma is among the states.
            for node, state in self._states.items():
                self._values.set(node, state)
            self._states = {}
        values = {var.node: self._values.get(var) for var in applied}
        for node, value in momentum.update(values, by_node).items():
            self._values.set(node, value)
        self._updates += 1

    def _convert(self, gradients: Mapping[Var, Array]) -> dict[Var, Array]:
        parameters = self._list_parameters()
        faults = [
            Fault(f"{var.name!r} is not a parameter, so it is not trained")
            for var in gradients
            if var not in parameters
        ]
        if faults:
            raise RefusedError(faults)
        for var in gradients:
            self._values.get(var)  # the initial value determines the shape of the gradient
        return {var: self._values.convert(var, array) for var, array in gradients.items()}


def list_needed(targets: Iterable[Var]) -> list[Node]:
    """Return the nodes that ``targets`` need, inputs first."""
    return post_order(target.node for target in targets)


def operators(targets: Iterable[Var]) -> list[Node]:
    """Return the operators that ``targets`` need, in order."""
    return [node for node in list_needed(targets) if not node.is_variable]


def extract_graph(targets: Sequence[Var]) -> Graph:
    """Return the minimal graph with ``targets`` as its heads, as MXNet 1.9.1 would write it."""
    heads = tuple(target.entry for target in targets)
    return Graph(
        tuple(list_needed(targets)), heads, freeze({VERSION: list(MXNET_VERSION)}), MxnetSource()
    )


def groups(nodes: Iterable[Node]) -> dict[str, list[Node]]:
    """Group operators by the scope in their names (empty for none), for drawing."""
    by_scope: dict[str, list[Node]] = {}
    for node in nodes:
        if not node.is_variable:
            by_scope.setdefault(node.name.rpartition("/")[0], []).append(node)
    return by_scope
