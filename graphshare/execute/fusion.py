"""Fusion: a convolution or BatchNorm and its epilogue run as one step, where no other node uses the values between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from graphshare.execute.step import Step
from graphshare.ops.batch_norm.kernel import BATCH_NORM_RELU
from graphshare.ops.convolution.fused import CHAIN, Chain
from graphshare.ops.windows import is_channels_last

FUSED = ("Convolution", "BatchNorm", "elemwise_add", "_grad_add", "relu", "Activation", "clip")
"""The operators of such chains: a convolution, and those that can follow it."""


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
        if here.kernel is CHAIN or (here.kernel.operator == "BatchNorm" and len(here.outputs) == 1):
            producers[here.outputs[0]] = position
    return _with_last_uses([kept[position] for position in sorted(kept)], wanted)


def _start_chain(step: Step) -> Step:
    """Return a convolution as a chain of one, any other step unchanged."""
    if step.kernel.operator != "Convolution" or is_channels_last(step.attrs["layout"]):
        return step
    return msgspec.structs.replace(step, kernel=CHAIN, attrs={"chain": Chain(step.attrs)})


def _fuse(first: Step, second: Step, place: int) -> Step | None:
    """Return both steps as one, ``first`` being input ``place`` of ``second``; None where they cannot be fused."""
    if first.kernel is not CHAIN:
        return msgspec.structs.replace(first, kernel=BATCH_NORM_RELU, outputs=second.outputs) if _is_relu(second) else None
    chain: Chain = first.attrs["chain"]
    operator, attrs, others = second.kernel.operator, second.attrs, second.inputs[:place] + second.inputs[place + 1 :]
    if chain.ends or operator not in FUSED:
        return None
    if operator == "BatchNorm" and place == 0 and chain.normalization is None and not chain.adds:
        if attrs["axis"] != 1 or len(second.outputs) > 1:
            return None
        following = msgspec.structs.replace(chain, normalization=attrs)
    elif operator in ("elemwise_add", "_grad_add") and not chain.adds and others[0] != first.outputs[0]:
        following = msgspec.structs.replace(chain, adds=True)
    elif _is_relu(second):
        following = msgspec.structs.replace(chain, low=0.0)
    elif operator == "clip" and attrs["a_min"] <= attrs["a_max"]:
        following = msgspec.structs.replace(chain, low=attrs["a_min"], high=attrs["a_max"])
    else:
        return None
    return Step(first.node, CHAIN, {"chain": following}, first.inputs + others, second.outputs, frozenset())


def _is_relu(step: Step) -> bool:
    operator = step.kernel.operator
    return operator == "relu" or (operator == "Activation" and bool(step.attrs["act_type"] == "relu"))


def _with_last_uses(steps: Sequence[Step], wanted: Sequence[int]) -> tuple[Step, ...]:
    kept, updated = set(wanted), []
    for step in reversed(steps):
        own = {*step.inputs, step.outputs[0]}
        updated.append(msgspec.structs.replace(step, last=frozenset(own - kept)))
        kept |= own
    return tuple(reversed(updated))
