"""The plan of a run: kernels in order, the slots of values, and their last uses.

An operator and its epilogue are one step if nothing else uses the values between; kernels declare
what can be fused (:mod:`graphshare.ops.kernel`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from graphshare.analysis.name_lists import find_missing_outputs
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Entry, Node
from graphshare.ir.walk import list_value_places, post_order
from graphshare.ops.bodies import inner_operators
from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.inference import bind_bodies
from graphshare.ops.kernel import Array, Kernel, KernelError
from graphshare.ops.registry import find_node_kernel, find_signature


class PlanStep(msgspec.Struct, frozen=True, eq=False):
    """One operator. ``inputs`` and ``outputs`` are slots, -1 for an unused output; ``last`` are
    slots not used later.

    ``inner`` are the operators of the first subgraph with their attributes. ``direct`` computes a
    small output from the inputs alone.
    """

    node: Node
    kernel: Kernel
    attrs: Mapping[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    last: frozenset[int]
    inner: Sequence[tuple[str, Mapping[str, Any]]] = ()
    direct: Callable[..., Array] | None = None


class RecordedStep(msgspec.Struct, eq=False):
    """A step of the forward pass that the backward pass needs.

    ``inputs`` and ``outputs`` are shapes and dtypes; ``updates`` maps mutated inputs to their old
    and new values.
    """

    step: PlanStep
    gradient: Gradient
    entry: TapeEntry
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    outputs: tuple[tuple[tuple[int, ...], Any], ...]
    updates: Mapping[int, tuple[Array, Array]]


class UnsupportedError(RefusedError):
    """Operators without a kernel; every node is listed, before anything runs."""


class ExecutionPlan(msgspec.Struct, frozen=True, eq=False):
    """The steps of a run. ``variables`` has each variable's slot, ``targets`` the results' slots.

    ``fused`` are the steps for inference without watching nodes; only they use ``constants``,
    values by slot.
    """

    steps: tuple[PlanStep, ...]
    fused: tuple[PlanStep, ...]
    slots: int
    variables: Mapping[Node, int]
    targets: tuple[int, ...]
    constants: Mapping[int, Array] = {}


def missing_kernels(nodes: Iterable[Node]) -> list[Fault]:
    """Return a fault for each operator without a kernel, also in subgraphs."""
    return [fault for _, fault in list_without_kernels(nodes)]


def list_without_kernels(nodes: Iterable[Node]) -> Iterator[tuple[Node, Fault]]:
    """Yield each operator without a kernel, also in subgraphs, with its fault."""
    for node in nodes:
        if node.is_variable:
            continue
        kernel = find_node_kernel(node)
        if kernel is None:
            signature = find_signature(node)
            reason = signature.no_kernel if signature is not None else ""
            hint = "register a kernel for it (entry point graphshare.kernels), or compare structure and parameters only"
            hint = f"{reason}; {hint}" if reason else hint
            yield node, Fault(f"operator {node.op} cannot be run", node=node.name, hint=hint)
        elif kernel.refuses is not None and (refusal := _explain_refusal(node, kernel.refuses)):
            hint = "compare structure and parameters only"
            message = f"operator {node.op} cannot be run with these attributes: {refusal}"
            yield node, Fault(message, node=node.name, hint=hint)
        for graph in node.subgraphs:
            yield from list_without_kernels(post_order(entry.node for entry in graph.heads))


def _explain_refusal(node: Node, refuses: Callable[..., str | None]) -> str | None:
    """Return why a kernel refuses a node's attributes, if so."""
    signature = find_signature(node)
    attrs, faults = signature.parse(node.attrs) if signature is not None else ({}, ())
    if signature is None or faults:  # reported unchanged
        return None
    try:
        return refuses(attrs, bind_bodies(node))
    except KernelError as error:
        return str(error)


def find_unsupported_operators(nodes: Sequence[Node]) -> list[Fault]:
    """Return a fault for each operator without a kernel, and for unreadable attributes."""
    faults = missing_kernels(nodes)
    for node in nodes:
        signature = find_signature(node) if not node.is_variable else None
        if signature is not None and find_node_kernel(node) is not None:
            faults += [
                Fault(fault.message, node=node.name) for fault in signature.parse(node.attrs)[1]
            ]
    return faults


def make_plan(targets: Sequence[Entry]) -> ExecutionPlan:
    """Plan the steps that compute ``targets``, and nothing else.

    Raises:
        UnsupportedError: operators without a kernel; all are listed.
        RefusedError: a node or target takes an output that is not there; all are listed.
    """
    nodes = post_order(entry.node for entry in targets)
    faults = find_unsupported_operators(nodes)
    if faults:
        raise UnsupportedError(faults)
    missing = find_missing_outputs(nodes, targets)
    if missing:
        raise RefusedError(missing)
    slots = _slots(nodes, targets)
    wanted = tuple(slots[entry.node, entry.index] for entry in targets)
    last = _last_uses(nodes, slots, wanted)
    counts: dict[Node, int] = {}
    for node, index in slots:
        counts[node] = max(counts.get(node, 1), index + 1)
    steps = tuple(_step(node, slots, counts, last) for node in nodes if not node.is_variable)
    variables = {node: slots[node, 0] for node in nodes if node.is_variable}
    return ExecutionPlan(steps, _fuse_steps(steps, wanted), len(slots), variables, wanted)


def _slots(nodes: Sequence[Node], targets: Sequence[Entry]) -> dict[tuple[Node, int], int]:
    read: dict[tuple[Node, int], None] = {}
    # A step needs a place for its first output, even if unread.
    for node in nodes:
        read[node, 0] = None
    for node in nodes:
        read.update(dict.fromkeys(list_value_places(node.inputs)))
    read.update(dict.fromkeys(list_value_places(targets)))
    return {output: slot for slot, output in enumerate(read)}


def _last_uses(
    nodes: Sequence[Node], slots: Mapping[tuple[Node, int], int], wanted: Sequence[int]
) -> dict[Node, set[int]]:
    """Return for each node the slots not used later; an unused output ends at its own node."""
    last: dict[Node, set[int]] = {}
    kept = set(wanted)
    for node in reversed(nodes):
        if node.is_variable:
            continue
        own = {slots[entry.node, entry.index] for entry in node.inputs} | {slots[node, 0]}
        last[node] = own - kept
        kept |= own
    return last


def _step(
    node: Node,
    slots: Mapping[tuple[Node, int], int],
    counts: Mapping[Node, int],
    last: Mapping[Node, set[int]],
) -> PlanStep:
    kernel, signature = find_node_kernel(node), find_signature(node)
    assert kernel is not None
    count = counts.get(node, 1)
    outputs = tuple(slots.get((node, index), -1) for index in range(count))
    inputs = tuple(slots[entry.node, entry.index] for entry in node.inputs)
    # Without a signature only a registered kernel knows the operator.
    attrs = signature.parse(node.attrs)[0] if signature is not None else node.attrs
    inner = inner_operators(node.subgraphs[0]) if node.subgraphs else ()
    return PlanStep(node, kernel, attrs, inputs, outputs, frozenset(last[node]), inner)


def _fuse_steps(steps: Sequence[PlanStep], wanted: Sequence[int]) -> tuple[PlanStep, ...]:
    """Fuse chains for inference, each at the position of its last step.

    Only values with a single use that are not targets disappear: branches never share work.
    """
    uses = Counter(wanted)
    for step in steps:
        uses.update(step.inputs)
    producers: dict[int, int] = {}
    kept: dict[int, PlanStep] = {}
    for position, step in enumerate(steps):
        here = _start_chain(step)
        for i in reversed(range(len(step.inputs[:2]))):
            slot = step.inputs[i]
            if uses[slot] != 1 or slot not in producers:
                continue
            both = _fuse(kept[producers[slot]], step, i)
            if both is not None:
                del kept[producers[slot]]
                here = both
                break
        kept[position] = here
        if here.kernel.extend is not None and len(here.outputs) == 1:
            producers[here.outputs[0]] = position
    return _with_last_uses([kept[position] for position in sorted(kept)], wanted)


def _start_chain(step: PlanStep) -> PlanStep:
    """Return a step as a chain of one if it can begin one."""
    if step.kernel.begin is None:
        return step
    chain = step.kernel.begin(step.attrs)
    return step if chain is None else msgspec.structs.replace(step, kernel=chain[0], attrs=chain[1])


def _fuse(first: PlanStep, second: PlanStep, place: int) -> PlanStep | None:
    """Fuse ``first`` with ``second``, whose input ``place`` it is, if possible."""
    if first.kernel.extend is None or second.kernel.epilogue is None or len(second.outputs) > 1:
        return None
    operation = second.kernel.epilogue(second.attrs)
    if operation is None:
        return None
    both = first.kernel.extend(first.attrs, operation, place)
    if both is None:
        return None
    others = second.inputs[:place] + second.inputs[place + 1 :]
    return PlanStep(first.node, *both, first.inputs + others, second.outputs, frozenset())


def _with_last_uses(steps: Sequence[PlanStep], wanted: Sequence[int]) -> tuple[PlanStep, ...]:
    kept, updated = set(wanted), []
    for step in reversed(steps):
        own = {*step.inputs, step.outputs[0]}
        updated.append(msgspec.structs.replace(step, last=frozenset(own - kept)))
        kept |= own
    return tuple(reversed(updated))
