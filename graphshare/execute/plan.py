"""A plan made once: which kernels run in which order, on which slots, and when a value is needed no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphshare.analysis.shapes import bodies_of
from graphshare.errors import Fault, RefusedError
from graphshare.execute.fusion import fused
from graphshare.execute.step import Step
from graphshare.ir.graph import Entry, Node
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array, KernelError
from graphshare.ops.registry import find_kernel, lookup


class UnsupportedError(RefusedError):
    """Operators that nothing here can compute; every node is listed, before anything runs."""


class Plan(msgspec.Struct, frozen=True, eq=False):
    """``variables`` gives the slot of each variable that is needed, ``targets`` the slots that are wanted at the end.

    ``fused`` are the steps for inference where nobody looks at single nodes; ``constants`` fills slots that only they read.
    """

    steps: tuple[Step, ...]
    fused: tuple[Step, ...]
    slots: int
    variables: Mapping[Node, int]
    targets: tuple[int, ...]
    constants: Mapping[int, Array] = {}


def without_kernel(nodes: Sequence[Node]) -> list[Fault]:
    """A fault for each operator without a kernel, those inside of sub-graphs too."""
    faults = []
    for node in nodes:
        if not node.is_variable and find_kernel(node.op) is None:
            signature = lookup(node.op)
            reason = signature.no_kernel if signature is not None else ""
            hint = "register a kernel for it (entry point graphshare.kernels), or compare structure and parameters only"
            hint = f"{reason}; {hint}" if reason else hint
            faults.append(Fault(f"operator {node.op} cannot be run", node=node.name, hint=hint))
        elif reason := _refused(node):
            hint = "compare structure and parameters only"
            faults.append(Fault(f"operator {node.op} cannot be run as this node has it: {reason}", node=node.name, hint=hint))
        for graph in node.subgraphs:
            faults += without_kernel(post_order(entry.node for entry in graph.heads))
    return faults


def _refused(node: Node) -> str | None:
    """Why the kernel of the node's operator does not serve this node."""
    kernel, signature = find_kernel(node.op), lookup(node.op)
    if kernel is None or kernel.refuses is None or signature is None:
        return None
    try:
        return kernel.refuses(signature.parse(node.attrs)[0], bodies_of(node))
    except KernelError as error:
        return str(error)


def unsupported(nodes: Sequence[Node]) -> list[Fault]:
    """A fault for each operator without a kernel, and for attributes that cannot be read."""
    faults = without_kernel(nodes)
    for node in nodes:
        signature = lookup(node.op) if not node.is_variable else None
        if signature is not None and find_kernel(node.op) is not None:
            faults += [Fault(fault.message, node=node.name) for fault in signature.parse(node.attrs)[1]]
    return faults


def make_plan(targets: Sequence[Entry]) -> Plan:
    """What must run to compute ``targets``, and nothing else.

    Raises:
        UnsupportedError: operators without a kernel; all are listed.
    """
    nodes = post_order(entry.node for entry in targets)
    faults = unsupported(nodes)
    if faults:
        raise UnsupportedError(faults)
    slots = _slots(nodes, targets)
    wanted = tuple(slots[entry.node, entry.index] for entry in targets)
    last = _last_uses(nodes, slots, wanted)
    counts: dict[Node, int] = {}
    for node, index in slots:
        counts[node] = max(counts.get(node, 1), index + 1)
    steps = tuple(_step(node, slots, counts, last) for node in nodes if not node.is_variable)
    variables = {node: slots[node, 0] for node in nodes if node.is_variable}
    return Plan(steps, fused(steps, wanted), len(slots), variables, wanted)


def _slots(nodes: Sequence[Node], targets: Sequence[Entry]) -> dict[tuple[Node, int], int]:
    """A slot for each output that somebody reads, and for the first output of every node."""
    read: dict[tuple[Node, int], None] = {}
    for node in nodes:
        read[node, 0] = None
    for node in nodes:
        read.update(dict.fromkeys((entry.node, entry.index) for entry in node.inputs))
    read.update(dict.fromkeys((entry.node, entry.index) for entry in targets))
    return {output: slot for slot, output in enumerate(read)}


def _last_uses(nodes: Sequence[Node], slots: Mapping[tuple[Node, int], int], wanted: Sequence[int]) -> dict[Node, set[int]]:
    """The slots that a node is the last to read; an output that nobody reads dies where it is made."""
    last: dict[Node, set[int]] = {}
    kept = set(wanted)
    for node in reversed(nodes):
        if node.is_variable:
            continue
        mine = {slots[entry.node, entry.index] for entry in node.inputs} | {slots[node, 0]}
        last[node] = mine - kept
        kept |= mine
    return last


def _step(node: Node, slots: Mapping[tuple[Node, int], int], counts: Mapping[Node, int], last: Mapping[Node, set[int]]) -> Step:
    kernel, signature = find_kernel(node.op), lookup(node.op)
    assert kernel is not None
    count = counts.get(node, 1)
    outputs = tuple(slots.get((node, index), -1) for index in range(count))
    inputs = tuple(slots[entry.node, entry.index] for entry in node.inputs)
    attrs = signature.parse(node.attrs)[0] if signature is not None else node.attrs  # only a registered kernel knows it
    return Step(node, kernel, attrs, inputs, outputs, frozenset(last[node]))
