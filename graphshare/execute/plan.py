"""The plan of a run: which kernels run in which order, on which slots, and where each value has its last use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from graphshare.analysis.bodies import inner_operators
from graphshare.analysis.malformed import find_missing_outputs
from graphshare.analysis.shapes import bodies_of
from graphshare.errors import Fault, RefusedError
from graphshare.execute.fusion import fuse_steps
from graphshare.execute.step import Step
from graphshare.ir.graph import Entry, Node
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array, KernelError
from graphshare.ops.registry import kernel_of, signature_of


class UnsupportedError(RefusedError):
    """Operators without a kernel; every node is listed, before anything runs."""


class Plan(msgspec.Struct, frozen=True, eq=False):
    """The steps of a run. ``variables`` has the slot of each variable, ``targets`` the slots of the results.

    ``fused`` are the steps for inference without watching single nodes; ``constants`` are values of slots that only they use.
    """

    steps: tuple[Step, ...]
    fused: tuple[Step, ...]
    slots: int
    variables: Mapping[Node, int]
    targets: tuple[int, ...]
    constants: Mapping[int, Array] = {}


def missing_kernels(nodes: Sequence[Node]) -> list[Fault]:
    """Return a fault for each operator without a kernel, those in subgraphs too."""
    faults = []
    for node in nodes:
        if node.is_variable:
            continue
        kernel = kernel_of(node)
        if kernel is None:
            signature = signature_of(node)
            reason = signature.no_kernel if signature is not None else ""
            hint = "register a kernel for it (entry point graphshare.kernels), or compare structure and parameters only"
            hint = f"{reason}; {hint}" if reason else hint
            faults.append(Fault(f"operator {node.op} cannot be run", node=node.name, hint=hint))
        elif kernel.refuses is not None and (refusal := _explain_refusal(node, kernel.refuses)):
            hint = "compare structure and parameters only"
            message = f"operator {node.op} cannot be run with these attributes: {refusal}"
            faults.append(Fault(message, node=node.name, hint=hint))
        for graph in node.subgraphs:
            faults += missing_kernels(post_order(entry.node for entry in graph.heads))
    return faults


def _explain_refusal(node: Node, refuses: Callable[..., str | None]) -> str | None:
    """Return why a kernel that refuses some attributes cannot run this node, None where it can."""
    signature = signature_of(node)
    attrs, faults = signature.parse(node.attrs) if signature is not None else ({}, ())
    if signature is None or faults:  # reported as they are
        return None
    try:
        return refuses(attrs, bodies_of(node))
    except KernelError as error:
        return str(error)


def unsupported_operators(nodes: Sequence[Node]) -> list[Fault]:
    """Return a fault for each operator without a kernel, and for attributes that cannot be read."""
    faults = missing_kernels(nodes)
    for node in nodes:
        signature = signature_of(node) if not node.is_variable else None
        if signature is not None and kernel_of(node) is not None:
            faults += [Fault(fault.message, node=node.name) for fault in signature.parse(node.attrs)[1]]
    return faults


def make_plan(targets: Sequence[Entry]) -> Plan:
    """Plan what must run to compute ``targets``, and nothing else.

    Raises:
        UnsupportedError: operators without a kernel; all are listed.
        RefusedError: a node or target takes an output that is not there; all are listed.
    """
    nodes = post_order(entry.node for entry in targets)
    faults = unsupported_operators(nodes)
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
    return Plan(steps, fuse_steps(steps, wanted), len(slots), variables, wanted)


def _slots(nodes: Sequence[Node], targets: Sequence[Entry]) -> dict[tuple[Node, int], int]:
    """Return a slot for each output that is used, and for the first output of every node."""
    read: dict[tuple[Node, int], None] = {}
    for node in nodes:
        read[node, 0] = None
    for node in nodes:
        read.update(dict.fromkeys((entry.node, entry.index) for entry in node.inputs))
    read.update(dict.fromkeys((entry.node, entry.index) for entry in targets))
    return {output: slot for slot, output in enumerate(read)}


def _last_uses(nodes: Sequence[Node], slots: Mapping[tuple[Node, int], int], wanted: Sequence[int]) -> dict[Node, set[int]]:
    """Return for each node the slots whose last use it is; an unused output has its last use where it is computed."""
    last: dict[Node, set[int]] = {}
    kept = set(wanted)
    for node in reversed(nodes):
        if node.is_variable:
            continue
        own = {slots[entry.node, entry.index] for entry in node.inputs} | {slots[node, 0]}
        last[node] = own - kept
        kept |= own
    return last


def _step(node: Node, slots: Mapping[tuple[Node, int], int], counts: Mapping[Node, int], last: Mapping[Node, set[int]]) -> Step:
    kernel, signature = kernel_of(node), signature_of(node)
    assert kernel is not None
    count = counts.get(node, 1)
    outputs = tuple(slots.get((node, index), -1) for index in range(count))
    inputs = tuple(slots[entry.node, entry.index] for entry in node.inputs)
    attrs = signature.parse(node.attrs)[0] if signature is not None else node.attrs  # only a registered kernel knows it
    inner = inner_operators(node.subgraphs[0]) if node.subgraphs else ()
    return Step(node, kernel, attrs, inputs, outputs, frozenset(last[node]), inner)
