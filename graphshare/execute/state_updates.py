"""New values of auxiliary states after a backward pass, in MXNet's order."""

from __future__ import annotations

from collections.abc import Sequence

from graphshare.execute.plan import Plan
from graphshare.execute.step import RecordedStep, Step
from graphshare.ir.graph import Node
from graphshare.ops.kernel import Array


def update_states(recorded: list[RecordedStep], plan: Plan, wanted: Sequence[int]) -> dict[Node, Array]:
    """Return the new values of the states that the steps update, given as they ran; shared states are updated in turn.

    ``wanted`` are the slots of the variables whose gradients are computed.
    """
    updates: dict[Node, Array] = {}
    for one in _order_updates(recorded, plan, wanted):
        for position, (old, value) in one.updates.items():
            node = one.step.node.inputs[position].node
            if node in updates:  # the update is linear in the old value
                value = value + (updates[node] - old) * value.dtype.type(one.step.attrs["momentum"])
            updates[node] = value
    return updates


def _order_updates(recorded: list[RecordedStep], plan: Plan, wanted: Sequence[int]) -> list[RecordedStep]:
    """Sort the steps, given as they ran, in the order in which MXNet updates their states.

    MXNet walks its backward graph from the gradients of the ``wanted`` variables, in their order, and a gradient is a sum over
    uses of which the last comes first. So of two branches that share a state the first head's is updated first where its
    parameters are its own, and last where all are shared.
    """
    counts: dict[Node, int] = {}
    for one in recorded:
        for position in one.updates:
            node = one.step.node.inputs[position].node
            counts[node] = counts.get(node, 0) + 1
    if all(count == 1 for count in counts.values()):
        return recorded
    uses: dict[int, list[Step]] = {}
    for step in reversed(plan.steps):
        for slot in dict.fromkeys(step.inputs):
            uses.setdefault(slot, []).append(step)
    order: dict[Node, int] = {}
    waiting: list[tuple[Step, bool]] = [(step, False) for slot in reversed(wanted) for step in reversed(uses.get(slot, []))]
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
