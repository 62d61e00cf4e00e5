"""A graph compiled once, with its parameters, for many forward passes.

BatchNorm is folded into the convolution before it. Steps with small results are plain functions of
their inputs, without buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.roles import Role, assign_roles
from graphshare.errors import Fault, RefusedError
from graphshare.execute.backends.backend import Computation
from graphshare.execute.engines.executor import Executor, Program
from graphshare.execute.interpreter import SMALL, Memo, run_plan
from graphshare.execute.plan import ExecutionPlan, PlanStep, make_plan
from graphshare.execute.prepare.assignment import DrawOptions, assign_values
from graphshare.execute.prepare.feeds import for_variables
from graphshare.execute.prepare.variable_values import as_array, convert_feed, random_stream
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.convolution.fused import Chain
from graphshare.ops.inference import Inference
from graphshare.ops.kernel import Array
from graphshare.ops.normalization.batch_norm import plain_scaling
from graphshare.ops.unification import count_elements
from graphshare.resources import memory_limit
from graphshare.text.format import format_count, format_names

_KEPT = 16
"""The number of combinations of input shapes whose inference is cached."""


class Binding(msgspec.Struct, frozen=True, eq=False):
    """Settings of a bound graph: ``again`` binds its model anew, ``max_memory`` is in bytes."""

    again: Callable[[], Bound]
    seed: int
    max_memory: int | None


class _Case(msgspec.Struct, eq=False):
    """The results of one combination of input shapes: ``zeros`` are labels and states."""

    inference: Inference
    zeros: Mapping[Node, Any]
    plan: ExecutionPlan | None = None


class Bound:
    """A graph with its parameters: call it with inputs by name, and it returns outputs by name.

    Inputs may change their shapes between calls. One thread at a time may call it: ``copy.copy``
    makes one for another thread. A pickle contains the model, not the arrays; an unpickled or
    copied object is bound again, and draws from the start of ``seed``.
    """

    def __init__(
        self,
        part: Graph,
        outputs: list[str],
        parameters: Mapping[Node, Any],
        roles: Mapping[Node, Role],
        binding: Binding,
        executor: Executor | None = None,
    ) -> None:
        self.outputs, self._binding = outputs, binding
        self._part, self._parameters, self._roles = part, parameters, roles
        self._nodes = post_order(entry.node for entry in part.heads)
        self._inputs = [node for node in self._nodes if node.is_variable and node not in parameters]
        self._optional: list[Node] = []
        self._executor = executor if executor is not None and executor.engine is not None else None
        self._numpy = self._prepare_numpy() if self._executor is None else None
        self._rng = random_stream(binding.seed)
        self._known: dict[Any, _Case] = {}

    def __repr__(self) -> str:
        return f"<Bound: {format_count(len(self._nodes), 'node')}, inputs {format_names(self.inputs, 3)}>"

    @property
    def notes(self) -> list[str]:
        """Return the nodes that the engine has left to numpy so far."""
        return list(self._executor.notes) if self._executor is not None else []

    @property
    def inputs(self) -> list[str]:
        """Return the names of the variables that are not parameters; labels and RNN states default to zeros."""
        return [node.name for node in self._inputs]

    def __reduce__(self) -> tuple[Callable[[], Bound], tuple[()]]:
        return self._binding.again, ()

    def __call__(self, feeds: Any = None, /, **named: Any) -> dict[str, Any]:
        """Return the outputs for inputs by name, as keywords or in a mapping, or for the array of
        the only input.

        Labels and RNN states do not count as inputs here: they default to zeros.

        Raises:
            RefusedError: an input is missing, a name is not an input's, or shapes do not fit; all
                of a kind are listed. The pass takes more memory than allowed.
        """
        if feeds is not None and not isinstance(feeds, Mapping):
            feeds = {self._find_only_input(): feeds}
        by_name = {**(feeds or {}), **named}
        by_node = for_variables(by_name, [*self._inputs, *self._optional], option="input")
        fed = {node: as_array(value) for node, value in by_node.items()}
        return dict(zip(self.outputs, self._compute(fed), strict=True))

    def _compute(self, fed: Mapping[Node, Any]) -> Sequence[Any]:
        case = self._settle(fed)
        inference = case.inference
        values = {**self._parameters, **case.zeros}
        for node, array in fed.items():
            values[node] = convert_feed(node.name, array, inference.types[node][0])
        program = self._find_program(values, inference)
        if program is not None:
            done = program.run(values, self._rng)
        else:
            # An engine may leave some shapes to numpy; its plan is made when first needed.
            plan, memo = self._numpy = self._numpy or self._prepare_numpy()
            case.plan = case.plan or _call_directly(plan, inference)
            done = run_plan(case.plan, values, shapes=inference.shapes, rng=self._rng, memo=memo)
        return done.outputs

    def _find_only_input(self) -> str:
        """Return the only input except labels and RNN states. Raises RefusedError if there is not exactly one."""
        names = [node.name for node in self._inputs if not self._roles[node].is_optional]
        if len(names) != 1:
            example = ", ".join(f"{name!r}: ..." for name in names[:3])
            message = f"an array without a name is for one input, but there are {format_count(len(names), 'input')}"
            raise RefusedError(Fault(message, hint=f"name them: net({{{example}}})"))
        return names[0]

    def _prepare_numpy(self) -> tuple[ExecutionPlan, Memo]:
        plan = fold_batch_norm(make_plan(self._part.heads), self._parameters)
        constant = {slot for node, slot in plan.variables.items() if node in self._parameters}
        return plan, Memo(constant | plan.constants.keys())

    def _find_program(self, values: Mapping[Node, Any], inference: Inference) -> Program | None:
        if self._executor is None:
            return None
        with memory_limit(self._binding.max_memory):
            return self._executor.find_program(self._part.heads, values, inference, self._roles)

    def _list_missing(self, fed: Mapping[Node, Any]) -> list[Node]:
        """Return the inputs that are not fed. Raises RefusedError unless all are labels or RNN states."""
        missing = [node for node in self._inputs if node not in fed]
        faults = [
            Fault(f"input {node.name!r} has no value", node=node.name)
            for node in missing
            if not self._roles[node].is_optional
        ]
        if faults:
            raise RefusedError(faults)
        return missing

    def _settle(self, fed: Mapping[Node, Any]) -> _Case:
        """Return the case of inputs of these shapes and dtypes; cached."""
        key = tuple((node, array.shape, array.dtype) for node, array in fed.items())
        if key not in self._known:
            roles = self._roles
            missing = self._list_missing(fed)
            with memory_limit(self._binding.max_memory):
                assigned = assign_values(
                    self._part,
                    roles,
                    self._parameters,
                    feeds=fed,
                    shapes={},
                    options=DrawOptions(None),
                )
            if len(self._known) >= _KEPT:
                # The oldest goes: dicts keep the order of insertion.
                del self._known[next(iter(self._known))]
            zeros = {node: assigned.values[node] for node in missing}
            self._known[key] = _Case(assigned.inference, zeros)
        return self._known[key]


class BoundWhole(Bound):
    """A graph that its backend computes as a whole, and keeps open."""

    def __init__(self, computation: Computation, outputs: list[str], binding: Binding) -> None:
        self.outputs, self._binding = outputs, binding
        self._computation, self._executor = computation, None
        self._nodes, self._roles = list(computation.graph.nodes), assign_roles(computation.graph)
        variables = [node for node in self._nodes if node.is_variable]
        # An input with a value in the model may be fed.
        defaults = computation.list_defaults()
        self._optional = [node for node in variables if node.name in defaults]
        self._inputs = [node for node in variables if not node.details.holds_value]

    def _compute(self, fed: Mapping[Node, Any]) -> Sequence[Any]:
        self._list_missing(fed)
        with memory_limit(self._binding.max_memory):
            return self._computation.run(self._computation.draw(fed).values).outputs


def _call_directly(plan: ExecutionPlan, inference: Inference) -> ExecutionPlan:
    """Return ``plan`` with direct functions for small results."""
    return msgspec.structs.replace(
        plan, fused=tuple(_with_function(step, inference) for step in plan.fused)
    )


def _with_function(step: PlanStep, inference: Inference) -> PlanStep:
    node = step.node
    if step.kernel.direct is None or len(step.outputs) > 1:
        return step
    # Larger results belong in the pool's buffers; only a context provides those.
    if not _is_small(node, inference):
        return step
    dtypes: list[str] = []
    for entry in node.inputs:
        dtype = inference.types[entry.node][entry.index]
        if dtype is None:
            return step
        dtypes.append(dtype)
    function = step.kernel.direct(step.attrs, dtypes)
    return step if function is None else msgspec.structs.replace(step, direct=function)


def _is_small(node: Node, inference: Inference) -> bool:
    """Return whether the first output has axes, but needs no buffer."""
    shape, dtype = inference.shapes[node][0], inference.types[node][0]
    elements = count_elements(shape)
    if not shape or elements is None or dtype is None:
        return False
    return elements * np.dtype(dtype).itemsize < SMALL


def fold_batch_norm(plan: ExecutionPlan, parameters: Mapping[Node, Array]) -> ExecutionPlan:
    """Return ``plan`` for inference with these parameters; they must not change afterwards.

    The folded weights take as much memory as the original ones.
    """
    known = {slot: parameters[node] for node, slot in plan.variables.items() if node in parameters}
    constants = dict(plan.constants)
    steps, slots = [], plan.slots
    for step in plan.fused:
        chain = step.attrs.get("chain")
        folded = _fold(step, chain, known) if isinstance(chain, Chain) else None
        if folded is None:
            steps.append(step)
            continue
        chain, constants[slots], constants[slots + 1] = folded
        others = step.inputs[-1:] if chain.adds else ()
        inputs = (step.inputs[0], slots, slots + 1, *others)
        last = step.last & {*inputs, *step.outputs}
        steps.append(
            msgspec.structs.replace(step, attrs={"chain": chain}, inputs=inputs, last=last)
        )
        slots += 2
    return msgspec.structs.replace(plan, fused=tuple(steps), slots=slots, constants=constants)


def _fold(
    step: PlanStep, chain: Chain, known: Mapping[int, Array]
) -> tuple[Chain, Array, Array] | None:
    """Return the chain without its BatchNorm, the weight and the bias, if it can be folded."""
    own = step.inputs[1:-1] if chain.adds else step.inputs[1:]
    if chain.normalization is None or not known.keys() >= set(own):
        return None
    weight, *rest = (known[slot] for slot in own)
    bias = None if chain.convolution["no_bias"] else rest.pop(0)
    factor, term = plain_scaling(chain.normalization, *rest)
    if factor is None or term is None or weight.dtype != factor.dtype:
        return None
    if weight.dtype not in (np.float32, np.float64):
        return None
    if bias is not None:
        term = term + bias * factor
    scaled = weight * factor.reshape(-1, *(1,) * (weight.ndim - 1))
    convolution = {**chain.convolution, "no_bias": False}
    chain = msgspec.structs.replace(chain, convolution=convolution, normalization=None)
    return chain, scaled, term
