"""Training of what was authored: passes forward and back, and updates with what they remember."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphshare.analysis.roles import Kind, assign_roles
from graphshare.builder.registry import Registry
from graphshare.builder.topology import graph_of
from graphshare.builder.values import Values
from graphshare.builder.var import Var
from graphshare.errors import Fault, RefusedError
from graphshare.execute.plan import Plan
from graphshare.execute.sgd import Momentum, Sgd
from graphshare.execute.training import (
    Backpropagation,
    backpropagated,
    batch_rescale,
    first_data,
    node_streams,
    with_zeros,
)
from graphshare.ir.graph import Node
from graphshare.kernels.kernel import Array


class Learning:
    """What one session trains by. ``gradients`` are those of the last pass that went back to parameters.

    Momentum belongs to a parameter, whichever targets train it. What nodes draw at random changes with each update.
    """

    def __init__(self, registry: Registry, values: Values, seed: int) -> None:
        self.gradients: dict[Var, Array] = {}
        self._registry, self._values, self._seed = registry, values, seed
        self._states: dict[Node, Array] = {}
        self._rescale = 1.0
        self._memory: dict[Node, Array] = {}
        self._updates = 0

    def passed(
        self,
        targets: Sequence[Var],
        plan: Plan,
        fed: Mapping[Node, Array],
        wrt: Sequence[Var] | None,
        head_gradients: Mapping[Var, Array],
    ) -> Backpropagation:
        """A pass forward and back from ``targets``, whose ``plan`` is given, with a gradient for all of ``wrt``.

        Raises:
            RefusedError: ``targets`` do not need what is asked for, an operator has no gradient, or shapes do not fit.
        """
        nodes = self._asked(plan, fed, wrt)
        idle = [Fault(f"{head.name!r} has a head gradient and is no target") for head in head_gradients if head not in targets]
        if idle:
            raise RefusedError(idle)
        values, inference = self._values.completed(plan, targets, fed)
        part = graph_of(targets)
        streams = node_streams(self._seed, self._updates)
        heads = [head_gradients.get(target) for target in targets]
        found = backpropagated(plan, part.heads, values, nodes, heads=heads, streams=streams, shapes=inference.shapes)
        found.gradients = with_zeros(found.gradients, nodes, values)
        variables = self._registry.variables
        inputs = [node for node in part.variables() if variables[node.name].kind is Kind.INPUT]
        gradients = {v.var: found.gradients[v.var.node] for v in variables.values() if v.var.node in found.gradients}
        kept = {var: gradient for var, gradient in gradients.items() if variables[var.name].kind is Kind.PARAMETER}
        if kept:  # a look at inputs' gradients alone leaves what an update goes by
            self.gradients = kept
            self._rescale = batch_rescale(first_data(inputs, values, assign_roles(part)), values)
            self._states = {node: value for node, value in found.states.items() if node not in fed}
        return found

    def _asked(self, plan: Plan, fed: Mapping[Node, Array], wrt: Sequence[Var] | None) -> list[Node]:
        """The variables that ``wrt`` names; without it the parameters that are not fed, in the order they were made."""
        if wrt is None:
            parameters = [v.var.node for v in self._registry.variables.values() if v.kind is Kind.PARAMETER]
            found = [node for node in parameters if node in plan.variables and node not in fed]
            if not found:
                hint = "wrt= names inputs too"
                raise RefusedError(Fault("the targets need no parameter that could be trained", hint=hint))
            return found
        faults = []
        for var in wrt:
            known = self._registry.variables.get(var.name)
            if known is None or known.var is not var or known.kind is Kind.AUXILIARY:
                faults.append(Fault(f"{var.name!r} is no parameter and no input, so no gradient is kept for it"))
            elif var.node not in plan.variables:
                faults.append(Fault(f"the targets do not need {var.name!r}"))
        if faults:
            raise RefusedError(faults)
        return [var.node for var in wrt]

    def update(self, given: Mapping[Var, Array] | None, settings: Sgd, rescale: float | None) -> None:
        """Applies ``given`` gradients, or those of the last pass along with its auxiliary states, which are applied once.

        Raises:
            RefusedError: there are none, or they are not those of parameters or do not fit; nothing has changed then.
        """
        gradients = self.gradients if given is None else self._fitted(given)
        if not gradients:
            raise RefusedError(Fault("there are no gradients to update by", hint="Session.gradients(targets, feed) finds some"))
        factor = rescale if rescale is not None else self._rescale if given is None else 1.0
        by_node = {var.node: gradient for var, gradient in gradients.items()}
        momentum = Momentum(msgspec.structs.replace(settings, rescale=factor), list(by_node), self._memory)
        if given is None:
            for node, state in self._states.items():  # first, for a fixed gamma is among them
                self._values.keep(node, state)
            self._states = {}
        held = {var.node: self._values.of(var) for var in gradients}
        for node, value in momentum.updated(held, by_node).items():
            self._values.keep(node, value)
        self._updates += 1

    def _fitted(self, given: Mapping[Var, Array]) -> dict[Var, Array]:
        trained = [v.var for v in self._registry.variables.values() if v.kind is Kind.PARAMETER]
        faults = [Fault(f"{var.name!r} is no parameter, so it is not trained") for var in given if var not in trained]
        if faults:
            raise RefusedError(faults)
        for var in given:
            self._values.of(var)  # its shape, if nothing else, is that of the gradient
        return {var: self._values.fitted(var, array) for var, array in given.items()}
