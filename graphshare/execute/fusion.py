"""Fusion: an operator and its epilogue run as one step, where no other node uses the values between.

The kernels of the operators declare what can be fused (:mod:`graphshare.ops.fusion`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from graphshare.execute.step import Step


def fuse_steps(steps: Sequence[Step], wanted: Sequence[int]) -> tuple[Step, ...]:
    """Return ``steps`` for inference with such chains fused, each at the position of its last step.

    Only a value with a single use that is not a target is left out, so no work is shared between branches.
    """
    uses = Counter(wanted)
    for step in steps:
        uses.update(step.inputs)
    producers: dict[int, int] = {}
    kept: dict[int, Step] = {}
    for position, step in enumerate(steps):
        here = _start_chain(step)
        for i in reversed(range(len(step.inputs[:2]))):
            earlier = producers.get(step.inputs[i]) if uses[step.inputs[i]] == 1 else None
            both = _fuse(kept[earlier], step, i) if earlier is not None else None
            if earlier is not None and both is not None:
                del kept[earlier]
                here = both
                break
        kept[position] = here
        if here.kernel.extend is not None and len(here.outputs) == 1:
            producers[here.outputs[0]] = position
    return _with_last_uses([kept[position] for position in sorted(kept)], wanted)


def _start_chain(step: Step) -> Step:
    """Return a step that can begin a chain as a chain of one, any other step unchanged."""
    chain = step.kernel.begin(step.attrs) if step.kernel.begin is not None else None
    return step if chain is None else msgspec.structs.replace(step, kernel=chain[0], attrs=chain[1])


def _fuse(first: Step, second: Step, place: int) -> Step | None:
    """Return both steps as one, ``first`` being input ``place`` of ``second``; None where they cannot be fused."""
    if first.kernel.extend is None or second.kernel.epilogue is None or len(second.outputs) > 1:
        return None
    operation = second.kernel.epilogue(second.attrs)
    both = first.kernel.extend(first.attrs, operation, place) if operation is not None else None
    if both is None:
        return None
    others = second.inputs[:place] + second.inputs[place + 1 :]
    return Step(first.node, *both, first.inputs + others, second.outputs, frozenset())


def _with_last_uses(steps: Sequence[Step], wanted: Sequence[int]) -> tuple[Step, ...]:
    kept, updated = set(wanted), []
    for step in reversed(steps):
        own = {*step.inputs, step.outputs[0]}
        updated.append(msgspec.structs.replace(step, last=frozenset(own - kept)))
        kept |= own
    return tuple(reversed(updated))
