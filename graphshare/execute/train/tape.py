"""Reverse accumulation over a plan: a forward pass records a tape, and a backward pass consumes it.

Gradients of a value are summed over its uses. Tape entries and gradients of outputs are freed once
used. Auxiliary states are updated after a backward pass, in MXNet's order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from graphshare.errors import Fault, RefusedError
from graphshare.execute.interpreter import has_np_shape, infer_body, run_kernel
from graphshare.execute.plan import ExecutionPlan, PlanStep, RecordedStep, make_plan
from graphshare.ir.graph import EMPTY, Node
from graphshare.ir.walk import reachable
from graphshare.ops.bodies import inner_operators
from graphshare.ops.gradient import Gradient, GradientError, Gradients, TapeEntry
from graphshare.ops.kernel import Array, Attrs, Context, KernelError, KernelResult, Shape
from graphshare.ops.node_errors import KernelCall, explain_failure
from graphshare.ops.registry import find_gradient
from graphshare.text.format import format_shape

Streams = Callable[[Node], np.random.Generator]
"""Returns a node's random numbers: each time a new generator with the same numbers."""

Subruns = list[tuple[int, Callable[[Gradients], Gradients]]]
"""The number of a body that an operator ran, and its backward pass."""


class Backward(msgspec.Struct, eq=False):
    """Gradients of the wanted variables that have one, and new values of auxiliary states."""

    gradients: dict[Node, Array]
    updates: dict[Node, Array]


def needs_head_gradient(node: Node) -> bool:
    """Return whether a backward pass from here needs the output's gradient."""
    if node.is_variable:
        return True
    gradient = find_gradient(node.op)
    return gradient is None or (isinstance(gradient, Gradient) and not gradient.is_loss)


class Tape:
    """A forward pass recorded for one backward pass.

    ``overwritten`` has the new values of variables that it overwrites, as MXNet does BatchNorm's
    fixed gamma.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        values: Mapping[Node, Array],
        wanted: Sequence[Node],
        *,
        streams: Streams | None = None,
        shapes: Mapping[Node, Sequence[Shape]] | None = None,
        training: bool = True,
        repeatable: bool = True,
    ) -> None:
        """Run ``plan`` on ``values`` without writing to them, and keep values for the gradients of
        ``wanted``.

        ``repeatable`` means that ``streams`` starts anew each time; in a subgraph one stream serves
        all runs.

        Raises:
            RefusedError: a kernel cannot take its inputs, or an operator lacks a needed gradient.
        """
        self.plan = plan
        self.overwritten: dict[Node, Array] = {}
        self._steps: list[RecordedStep] = []
        self._wanted = {plan.variables[node]: node for node in wanted if node in plan.variables}
        self._live = set(self._wanted)
        self._values: list[Any] = [None] * plan.slots
        self._training, self._streams = training, streams
        self._shapes = EMPTY if shapes is None else shapes
        self._np_shape = has_np_shape(self._shapes)
        self._repeatable = repeatable
        check_gradients(plan, wanted)
        for node, slot in plan.variables.items():
            self._values[slot] = values[node]
        with np.errstate(all="ignore"):
            for step in plan.steps:
                self._forward(step)
        self.outputs: list[Array] = [self._values[slot] for slot in plan.targets]
        self._values = []

    def _forward(self, step: PlanStep) -> None:
        rule = find_gradient(step.node.op)
        gradient = rule if isinstance(rule, Gradient) else None
        inputs = [self._values[slot] for slot in step.inputs]
        if gradient is not None and gradient.overwrites is not None and self._training:
            for position, value in gradient.overwrites(step.attrs, inputs).items():
                inputs[position] = self._values[step.inputs[position]] = value
                self.overwritten[step.node.inputs[position].node] = value
        subruns: Subruns = []
        inner: Sequence[tuple[str, Attrs]] = ()
        run_subgraph = None
        if step.node.subgraphs:
            inner = inner_operators(step.node.subgraphs[0])
            run_subgraph = self._subgraphs(step.node, subruns)
        context = Context(
            training=self._training,
            rng=self._start_stream(step.node),
            # The backward pass reads inputs again, so no kernel may overwrite one.
            reusable=(False,) * len(inputs),
            num_outputs=len(step.outputs),
            shapes=self._shapes.get(step.node, ()),
            inner=inner,
            run_subgraph=run_subgraph,
        )
        result = run_kernel(step, context, inputs)
        for slot, value in zip(step.outputs, result.outputs, strict=False):
            if slot >= 0:
                self._values[slot] = value
        if gradient is not None and not self._live.isdisjoint(step.inputs):
            self._live.update(step.outputs)
            self._steps.append(self._record(step, gradient, inputs, result, subruns))
        for slot in step.last:
            self._values[slot] = None

    def _start_stream(self, node: Node) -> np.random.Generator | None:
        return self._streams(node) if self._streams is not None else None

    def _record(
        self,
        step: PlanStep,
        gradient: Gradient,
        inputs: list[Array],
        result: KernelResult,
        subruns: Subruns,
    ) -> RecordedStep:
        streams = self._streams
        entry = TapeEntry(
            step.attrs,
            inputs if gradient.reads_inputs else (),
            result.outputs if gradient.reads_outputs else (),
            result.residuals if gradient.reads_outputs else None,
            self._training,
            tuple(
                slot in self._live and x.dtype.kind == "f"
                for slot, x in zip(step.inputs, inputs, strict=True)
            ),
            subruns,
            partial(streams, step.node) if streams is not None and self._repeatable else None,
        )
        input_kinds = tuple((x.shape, str(x.dtype)) for x in inputs)
        output_kinds = tuple((x.shape, x.dtype) for x in result.outputs)
        updates = {
            position: (inputs[position], value) for position, value in result.updates.items()
        }
        return RecordedStep(step, gradient, entry, input_kinds, output_kinds, updates)

    def _subgraphs(
        self, node: Node, subruns: Subruns
    ) -> Callable[[int, Sequence[Array]], list[Array]]:
        """Return a function that runs and records a subgraph; one random stream serves all runs."""
        plans: dict[int, tuple[ExecutionPlan, list[Node]]] = {}
        stream = self._start_stream(node)
        streams: Streams | None = None if stream is None else (lambda _: stream)

        def run_subgraph(number: int, arrays: Sequence[Array]) -> list[Array]:
            if number not in plans:
                graph = node.subgraphs[number]
                variables = [inner for inner in reachable(graph) if inner.is_variable]
                plans[number] = make_plan(graph.heads), variables
            plan, variables = plans[number]
            values = dict(zip(variables, arrays, strict=True))
            shapes = None
            # Created arrays may take their shapes from others.
            if self._np_shape or any(not step.inputs for step in plan.steps):
                shapes = infer_body(node.subgraphs[number], values, np_shape=self._np_shape).shapes
            tape = Tape(
                plan,
                values,
                variables,
                streams=streams,
                training=self._training,
                repeatable=False,
                shapes=shapes,
            )

            def backward(heads: Gradients) -> Gradients:
                gradients = tape.backward(heads).gradients
                return [gradients.get(variable) for variable in variables]

            subruns.append((number, backward))
            return tape.outputs

        return run_subgraph

    def backward(self, heads: Gradients) -> Backward:
        """Run the backward pass from the gradients of the targets; None is zero.

        As in MXNet every loss and penalty starts with its own gradient, even before a BlockGrad or
        an operator without a gradient, and statistics are updated wherever a gradient could flow,
        even a zero one.

        Raises:
            RefusedError: a gradient cannot be computed; the node is named.
        """
        sums = _Sums()
        for slot, gradient in zip(self.plan.targets, heads, strict=True):
            sums.add(slot, gradient)
        result = Backward({}, {})
        updating: list[RecordedStep] = []
        while self._steps:
            recorded = self._steps.pop()
            outputs = [sums.take(slot) for slot in recorded.step.outputs]
            if recorded.updates:
                updating.append(recorded)
            starts = recorded.gradient.is_loss or recorded.gradient.adds_penalty
            if not starts and all(gradient is None for gradient in outputs):
                continue
            gradients = _apply_vjp(recorded, outputs)
            for slot, is_wanted, gradient in zip(
                recorded.step.inputs, recorded.entry.requested, gradients, strict=True
            ):
                if is_wanted:
                    sums.add(slot, gradient)
            # This frees arrays; updates still need the shapes.
            recorded.entry = TapeEntry({}, (), ())
        wanted = [slot for slot in self.plan.variables.values() if slot in self._wanted]
        # Collected backwards, passed on in forward order.
        result.updates = _update_states(updating[::-1], self.plan, wanted)
        for slot, node in self._wanted.items():
            total = sums.take(slot)
            if total is not None:
                result.gradients[node] = total
        return result


class _Sums:
    """Sums of gradients by slot. Gradient functions may share arrays, so these are never added to in place."""

    def __init__(self) -> None:
        self._sums: dict[int, Array] = {}
        self._own: set[int] = set()

    def add(self, slot: int, gradient: Array | None) -> None:
        if gradient is None:  # zero
            return
        if slot not in self._sums:
            self._sums[slot] = gradient
        elif slot in self._own:
            np.add(self._sums[slot], gradient, out=self._sums[slot])
        else:
            self._sums[slot] = self._sums[slot] + gradient
            self._own.add(slot)

    def take(self, slot: int) -> Array | None:
        self._own.discard(slot)
        return self._sums.pop(slot, None)


def _apply_vjp(recorded: RecordedStep, outputs: list[Array | None]) -> list[Array | None]:
    step = recorded.step
    # Losses start without a gradient, and a gradient may reach only a later output.
    if outputs[0] is None:
        shape, dtype = recorded.outputs[0]
        outputs[0] = np.zeros(shape, dtype)
    outputs += [None] * (len(recorded.outputs) - len(outputs))
    try:
        with np.errstate(all="ignore"):
            result = recorded.gradient.vjp(recorded.entry, *outputs)
    except (GradientError, KernelError) as error:
        shapes = ", ".join(format_shape(shape) for shape, _ in recorded.outputs)
        raise RefusedError(
            Fault(f"the gradient of {step.node.op}, output {shapes}: {error}", node=step.node.name)
        ) from error
    except Exception as error:
        known = [shape for shape, _ in recorded.inputs]
        dtypes = [dtype for _, dtype in recorded.inputs]
        call = KernelCall(step.node, step.kernel, step.attrs, known, dtypes, recorded.entry.inputs)
        raise explain_failure(call, "gradient", error) from error
    if result is None or isinstance(result, (np.ndarray, np.generic)):
        result = [result]
    # Gradients of rank 0 may be plain numbers.
    gradients = [None if gradient is None else np.asarray(gradient) for gradient in result]
    return gradients + [None] * (len(step.inputs) - len(gradients))


def check_gradients(plan: ExecutionPlan, wanted: Sequence[Node]) -> None:
    """Check that every operator between the variables ``wanted`` and the targets has a gradient.

    Raises:
        RefusedError: some have no gradient; all are listed.
    """
    live = {plan.variables[node] for node in wanted if node in plan.variables}
    faults = []
    hint = (
        "register one (entry point graphshare.gradients), or train a part of the graph without it"
    )
    for step in plan.steps:
        if live.isdisjoint(step.inputs):
            continue
        gradient = find_gradient(step.node.op)
        if isinstance(gradient, Gradient):
            live.update(step.outputs)
        elif gradient is None or not gradient.is_zero:
            reason = "none is known" if gradient is None else gradient.reason
            message = f"operator {step.node.op} has no gradient: {reason}"
            faults.append(Fault(message, node=step.node.name, hint=hint))
    if faults:
        raise RefusedError(faults)


def _update_states(
    recorded: list[RecordedStep], plan: ExecutionPlan, wanted: Sequence[int]
) -> dict[Node, Array]:
    """Return the states' new values, from steps in forward order; shared states are updated in
    turn.

    ``wanted`` are the slots of variables with gradients.
    """
    updates: dict[Node, Array] = {}
    for one in _order_updates(recorded, plan, wanted):
        for position, (old, value) in one.updates.items():
            node = one.step.node.inputs[position].node
            if node in updates:  # the update is linear in the old value
                value = value + (updates[node] - old) * value.dtype.type(one.step.attrs["momentum"])
            updates[node] = value
    return updates


def _order_updates(
    recorded: list[RecordedStep], plan: ExecutionPlan, wanted: Sequence[int]
) -> list[RecordedStep]:
    """Sort the steps, in forward order, by MXNet's order of updates.

    MXNet walks its backward graph from the gradients of the ``wanted`` variables, in order; a
    gradient is a sum over uses, the last first. So of two branches with a shared state, the first
    head's is updated first if it has its own parameters, and last if all are shared.
    """
    states: list[Node] = []
    for one in recorded:
        states += [one.step.node.inputs[position].node for position in one.updates]
    # Without a shared state the order changes nothing.
    if len(set(states)) == len(states):
        return recorded
    uses: dict[int, list[PlanStep]] = {}
    # Later uses first, as in MXNet's sums.
    for step in reversed(plan.steps):
        for slot in dict.fromkeys(step.inputs):
            uses.setdefault(slot, []).append(step)
    order: dict[Node, int] = {}
    waiting: list[tuple[PlanStep, bool]] = [
        (step, False) for slot in reversed(wanted) for step in reversed(uses.get(slot, []))
    ]
    visited: set[Node] = set()
    while waiting:
        step, done = waiting.pop()
        if done:
            order[step.node] = len(order)
        elif step.node not in visited:
            visited.add(step.node)
            waiting.append((step, True))
            later = [use for slot in step.outputs for use in uses.get(slot, [])]
            waiting += [(use, False) for use in reversed(later)]
    return sorted(recorded, key=lambda one: order.get(one.step.node, -1))
