"""Training of an authored graph: forward and backward passes, and updates with momentum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphshare.analysis.roles import Kind, assign_roles
from graphshare.builder.parameter_values import ParameterValues
from graphshare.builder.topology import extract_graph
from graphshare.builder.var import Registry, Var
from graphshare.errors import Fault, RefusedError
from graphshare.execute.plan import ExecutionPlan
from graphshare.execute.sgd import Momentum, Sgd
from graphshare.execute.trainer import (
    Backpropagation,
    backpropagate,
    batch_rescale,
    fill_zeros,
    first_data,
    node_streams,
)
from graphshare.ir.graph import Node
from graphshare.ops.kernel import Array


class TrainingState:
    """The training state of one session. ``gradients`` are those of the last pass that reached parameters.

    Momentum belongs to a parameter, whichever targets train it. The random numbers that nodes draw change with each update.
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
        """Run ``plan``, that of ``targets``, forward and backward, with a gradient for each variable of ``wrt``.

        Raises:
            RefusedError: ``targets`` do not need a variable of ``wrt``, an operator has no gradient, or shapes do not fit.
        """
        nodes = self._resolve_wrt(plan, fed, wrt)
        unused = [
            Fault(f"{head.name!r} has a head gradient and is not a target") for head in head_gradients if head not in targets
        ]
        if unused:
            raise RefusedError(unused)
        values, inference = self._values.complete(plan, targets, fed)
        graph = extract_graph(targets)
        streams = node_streams(self._seed, self._updates)
        heads = [head_gradients.get(target) for target in targets]
        result = backpropagate(plan, graph.heads, values, nodes, heads=heads, streams=streams, shapes=inference.shapes)
        result.gradients = fill_zeros(result.gradients, nodes, values)
        variables = self._registry.variables
        parameters = [v.var for v in variables.values() if v.kind is Kind.PARAMETER and v.var.node in result.gradients]
        if parameters:  # a pass for the gradients of inputs alone does not change the next update
            inputs = [node for node in graph.variables() if variables[node.name].kind is Kind.INPUT]
            self.gradients = {var: result.gradients[var.node] for var in parameters}
            self._rescale = batch_rescale(first_data(inputs, values, assign_roles(graph)), values)
            self._states = {node: value for node, value in result.states.items() if node not in fed}
        return result

    def _resolve_wrt(self, plan: ExecutionPlan, fed: Mapping[Node, Array], wrt: Sequence[Var] | None) -> list[Node]:
        """Return the variables of ``wrt``; without it the parameters that are not fed, in the order of creation."""
        if wrt is None:
            parameters = [v.var.node for v in self._registry.variables.values() if v.kind is Kind.PARAMETER]
            needed = [node for node in parameters if node in plan.variables and node not in fed]
            if not needed:
                hint = "wrt= takes inputs too"
                raise RefusedError(Fault("the targets need no parameter that could be trained", hint=hint))
            return needed
        faults = []
        for var in wrt:
            variable = self._registry.variables.get(var.name)
            if variable is None or variable.var is not var or variable.kind is Kind.AUXILIARY:
                faults.append(Fault(f"{var.name!r} is neither a parameter nor an input, so no gradient is kept for it"))
            elif var.node not in plan.variables:
                faults.append(Fault(f"the targets do not need {var.name!r}"))
        if faults:
            raise RefusedError(faults)
        return [var.node for var in wrt]

    def update(self, gradients: Mapping[Var, Array] | None, settings: Sgd, rescale: float | None) -> None:
        """Apply ``gradients``, or those of the last pass together with its auxiliary states, which are applied once.

        Raises:
            RefusedError: there are none, or they are not those of parameters or do not fit; nothing has changed then.
        """
        applied = self.gradients if gradients is None else self._convert(gradients)
        if not applied:
            raise RefusedError(Fault("there are no gradients to apply", hint="Session.gradients(targets, feed) computes some"))
        factor = rescale if rescale is not None else self._rescale if gradients is None else 1.0
        by_node = {var.node: gradient for var, gradient in applied.items()}
        momentum = Momentum(msgspec.structs.replace(settings, rescale=factor), list(by_node), self._momentum)
        if gradients is None:
            for node, state in self._states.items():  # before the parameters, because a fixed gamma is among the states
                self._values.set(node, state)
            self._states = {}
        values = {var.node: self._values.get(var) for var in applied}
        for node, value in momentum.update(values, by_node).items():
            self._values.set(node, value)
        self._updates += 1

    def _convert(self, gradients: Mapping[Var, Array]) -> dict[Var, Array]:
        parameters = [v.var for v in self._registry.variables.values() if v.kind is Kind.PARAMETER]
        faults = [Fault(f"{var.name!r} is not a parameter, so it is not trained") for var in gradients if var not in parameters]
        if faults:
            raise RefusedError(faults)
        for var in gradients:
            self._values.get(var)  # the initial value determines the shape of the gradient
        return {var: self._values.convert(var, array) for var, array in gradients.items()}
