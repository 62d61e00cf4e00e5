"""Reverse accumulation over a plan: a forward pass that leaves records, and a backward pass that uses them up.

Gradients of a value are summed over all its uses. A record, and the gradients of what a node gave, are freed as soon as the
node has been passed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.node_errors import explain_failure
from graphshare.errors import Fault, RefusedError
from graphshare.execute.interpreter import computed
from graphshare.execute.plan import Plan, make_plan
from graphshare.execute.step import Step
from graphshare.ir.graph import Node
from graphshare.ir.walk import reachable
from graphshare.ops.gradient import Gradient, GradientError, Gradients, TapeEntry
from graphshare.ops.kernel import Array, Context, KernelError, Shape
from graphshare.ops.registry import find_gradient
from graphshare.text.format import format_shape

Streams = Callable[[Node], np.random.Generator]
"""The random numbers of a node: a new generator each time, which begins with the same numbers."""


class Passed(msgspec.Struct, eq=False):
    """A step that the forward pass made and the backward pass will come by."""

    step: Step
    gradient: Gradient
    record: TapeEntry
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    outputs: tuple[tuple[tuple[int, ...], Any], ...]
    updates: Mapping[int, tuple[Array, Array]]


class Backward(msgspec.Struct, eq=False):
    """What a backward pass gave: ``gradients`` of the wanted variables that have one, and new values of auxiliary states."""

    gradients: dict[Node, Array]
    updates: dict[Node, Array]


def needs_head_gradient(node: Node) -> bool:
    """Whether a backward pass that starts at this node needs to be told its output's gradient."""
    gradient = find_gradient(node.op) if not node.is_variable else None
    return gradient is None or (isinstance(gradient, Gradient) and not gradient.is_loss)


class Tape:
    """A forward pass that can be gone back, once.

    ``overwritten`` are variables that the forward pass gave new values, as MXNet does with the gamma of a BatchNorm that is
    fixed.
    """

    def __init__(
        self,
        plan: Plan,
        values: Mapping[Node, Array],
        wanted: Sequence[Node],
        *,
        streams: Streams | None = None,
        shapes: Mapping[Node, Sequence[Shape]] | None = None,
        training: bool = True,
        repeatable: bool = True,
    ) -> None:
        """Runs ``plan`` on ``values``, which are not written to, and keeps what the gradients of ``wanted`` need.

        ``repeatable`` tells that ``streams`` begins anew each time; in a sub-graph one stream serves all runs.

        Raises:
            RefusedError: a kernel cannot take its inputs, or an operator that gradients would pass has none.
        """
        self.plan = plan
        self.overwritten: dict[Node, Array] = {}
        self._passed: list[Passed] = []
        self._wanted = {plan.variables[node]: node for node in wanted if node in plan.variables}
        self._live = set(self._wanted)
        self._values: list[Any] = [None] * plan.slots
        self._training, self._streams, self._shapes = training, streams, shapes or {}
        self._repeatable = repeatable
        check_gradients(plan, wanted)
        for node, slot in plan.variables.items():
            self._values[slot] = values[node]
        for step in plan.steps:
            self._forward(step)
        self.outputs: list[Array] = [self._values[slot] for slot in plan.targets]
        self._values = []

    def _forward(self, step: Step) -> None:
        gradient = find_gradient(step.node.op)
        carried = isinstance(gradient, Gradient) and any(slot in self._live for slot in step.inputs)
        inputs = [self._values[slot] for slot in step.inputs]
        if isinstance(gradient, Gradient) and gradient.overwrites is not None and self._training:
            for position, value in gradient.overwrites(step.attrs, inputs).items():
                inputs[position] = self._values[step.inputs[position]] = value
                self.overwritten[step.node.inputs[position].node] = value
        subruns: list[tuple[int, Callable[[Gradients], Gradients]]] = []
        context = Context(
            training=self._training,
            rng=self._streams(step.node) if self._streams is not None else None,
            reusable=(False,) * len(inputs),
            num_outputs=len(step.outputs),
            shapes=self._shapes.get(step.node, ()),
            run_subgraph=self._subgraphs(step.node, subruns) if step.node.subgraphs else None,
        )
        result = computed(step, context, inputs)
        for slot, value in zip(step.outputs, result.outputs, strict=False):
            if slot >= 0:
                self._values[slot] = value
        if carried and isinstance(gradient, Gradient):
            self._live.update(slot for slot in step.outputs if slot >= 0)
            wanted = tuple(slot in self._live and x.dtype.kind == "f" for slot, x in zip(step.inputs, inputs, strict=True))
            streams = self._streams
            record = TapeEntry(
                step.attrs,
                inputs if gradient.reads_inputs else (),
                result.outputs if gradient.reads_outputs else (),
                result.residuals if gradient.reads_outputs else None,
                self._training,
                wanted,
                subruns,
                (lambda: streams(step.node)) if streams is not None and self._repeatable else None,
            )
            kinds = tuple((x.shape, x.dtype) for x in result.outputs)
            updates = {position: (inputs[position], value) for position, value in result.updates.items()}
            self._passed.append(Passed(step, gradient, record, tuple((x.shape, str(x.dtype)) for x in inputs), kinds, updates))
        for slot in step.last:
            self._values[slot] = None

    def _subgraphs(
        self, node: Node, subruns: list[tuple[int, Callable[[Gradients], Gradients]]]
    ) -> Callable[[int, Sequence[Array]], list[Array]]:
        """Runs a sub-graph of ``node``, and notes its backward pass. One stream of random numbers serves all its runs."""
        plans: dict[int, tuple[Plan, list[Node]]] = {}
        stream = self._streams(node) if self._streams is not None else None

        def run_subgraph(number: int, arrays: Sequence[Array]) -> list[Array]:
            if number not in plans:
                graph = node.subgraphs[number]
                plans[number] = (make_plan(graph.heads), [n for n in reachable(graph) if n.is_variable])
            plan, variables = plans[number]
            streams = None if stream is None else (lambda _: stream)
            values = dict(zip(variables, arrays, strict=True))
            tape = Tape(plan, values, variables, streams=streams, training=self._training, repeatable=False)

            def backward(heads: Gradients) -> Gradients:
                found = tape.backward(heads).gradients
                return [found.get(variable) for variable in variables]

            subruns.append((number, backward))
            return tape.outputs

        return run_subgraph

    def backward(self, heads: Gradients) -> Backward:
        """Goes back from the gradients of the targets; None is zero.

        As in MXNet every loss starts with its own gradient, also one that a BlockGrad or an operator without a gradient hides,
        and statistics are updated wherever a gradient could pass, even if it is zero.

        Raises:
            RefusedError: a gradient cannot be computed; the node is named.
        """
        sums = _Sums()
        for slot, gradient in zip(self.plan.targets, heads, strict=True):
            if gradient is not None:
                sums.add(slot, gradient)
        found = Backward({}, {})
        pending: list[Passed] = []
        while self._passed:
            passed = self._passed.pop()
            slots = passed.step.outputs
            given = [sums.take(slot) for slot in slots]
            if passed.updates:
                pending.append(passed)
            if not passed.gradient.is_loss and all(g is None for g in given):
                continue
            for slot, live, gradient in zip(
                passed.step.inputs, passed.record.requested, _gone_back(passed, given), strict=True
            ):
                if live and gradient is not None:
                    sums.add(slot, gradient)
            passed.record = TapeEntry({}, (), ())
        wanted = [slot for slot in self.plan.variables.values() if slot in self._wanted]
        for passed in _order_of_updates(pending[::-1], self.plan, wanted):
            _update(found.updates, passed)
        for slot, node in self._wanted.items():
            total = sums.take(slot)
            if total is not None:
                found.gradients[node] = total
        return found


class _Sums:
    """Gradients by slot, added up. An array that came from a gradient function may be another's too, so it is not added to."""

    def __init__(self) -> None:
        self._sums: dict[int, Array] = {}
        self._own: set[int] = set()

    def add(self, slot: int, gradient: Array) -> None:
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


def _gone_back(passed: Passed, given: list[Array | None]) -> list[Array | None]:
    """The gradients of a step's inputs, one for each."""
    step = passed.step
    if given[0] is None:
        shape, dtype = passed.outputs[0]
        given[0] = np.zeros(shape, dtype)
    given += [None] * (len(passed.outputs) - len(given))
    try:
        with np.errstate(all="ignore"):
            result = passed.gradient.vjp(passed.record, *given)
    except (GradientError, KernelError) as error:
        shapes = ", ".join(format_shape(shape) for shape, _ in passed.outputs)
        raise RefusedError(Fault(f"the gradient of {step.node.op}, output {shapes}: {error}", node=step.node.name)) from error
    except Exception as error:
        shapes, dtypes = zip(*passed.inputs, strict=True) if passed.inputs else ((), ())
        raise explain_failure(
            step.node, "gradient", error, step.kernel, step.attrs, shapes, dtypes, passed.record.inputs
        ) from error
    found = [result] if result is None or isinstance(result, (np.ndarray, np.generic)) else list(result)
    found = [None if gradient is None else np.asarray(gradient) for gradient in found]  # arithmetic without axes gives numbers
    return found + [None] * (len(step.inputs) - len(found))


def _order_of_updates(passed: list[Passed], plan: Plan, wanted: Sequence[int]) -> list[Passed]:
    """The steps, given as they ran, in the order in which MXNet updates their states.

    MXNet walks its backward graph from the gradients of the ``wanted`` variables, in their order, and a gradient is a sum over
    uses of which the last comes first. So of two branches that share a state the first head's is updated first where its
    parameters are its own, and last where all are shared.
    """
    holders: dict[Node, int] = {}
    for one in passed:
        for position in one.updates:
            node = one.step.node.inputs[position].node
            holders[node] = holders.get(node, 0) + 1
    if all(count == 1 for count in holders.values()):
        return passed
    uses: dict[int, list[Step]] = {}
    for step in reversed(plan.steps):
        for slot in dict.fromkeys(step.inputs):
            uses.setdefault(slot, []).append(step)
    place: dict[Node, int] = {}
    waiting: list[tuple[Step, bool]] = [(step, False) for slot in reversed(wanted) for step in reversed(uses.get(slot, []))]
    begun: set[Node] = set()
    while waiting:
        step, done = waiting.pop()
        if done:
            place[step.node] = len(place)
        elif step.node not in begun:
            begun.add(step.node)
            waiting.append((step, True))
            later = [use for slot in step.outputs for use in uses.get(slot, [])]
            waiting += [(use, False) for use in reversed(later)]
    return sorted(passed, key=lambda one: place.get(one.step.node, -1))


def _update(updates: dict[Node, Array], passed: Passed) -> None:
    """New values of auxiliary states, on top of those that operators before it gave the same states."""
    for position, (old, value) in passed.updates.items():
        node = passed.step.node.inputs[position].node
        if node in updates:  # the update is linear in the old value
            value = value + (updates[node] - old) * value.dtype.type(passed.step.attrs["momentum"])
        updates[node] = value


def check_gradients(plan: Plan, wanted: Sequence[Node]) -> None:
    """Holds the operators that gradients of ``wanted`` would pass against what is known.

    Raises:
        RefusedError: some have no gradient; all are listed.
    """
    live = {plan.variables[node] for node in wanted if node in plan.variables}
    faults = []
    for step in plan.steps:
        if not any(slot in live for slot in step.inputs):
            continue
        gradient = find_gradient(step.node.op)
        if isinstance(gradient, Gradient):
            live.update(step.outputs)
        elif gradient is None or not gradient.is_zero:
            reason = "none is known" if gradient is None else gradient.reason
            hint = "register one (entry point graphshare.gradients), or train a part of the graph without it"
            faults.append(Fault(f"operator {step.node.op} has no gradient: {reason}", node=step.node.name, hint=hint))
    if faults:
        raise RefusedError(faults)
