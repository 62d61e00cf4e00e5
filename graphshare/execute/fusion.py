"""Steps that are run as one: a convolution or BatchNorm and what follows, where nobody else reads what lies between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from graphshare.execute.step import Step
from graphshare.ops.batch_norm.kernel import BATCH_NORM_RELU
from graphshare.ops.convolution.fused import CHAIN, Chain
from graphshare.ops.windows import is_channels_last


def fused(steps: Sequence[Step], wanted: Sequence[int]) -> tuple[Step, ...]:
    """``steps`` for inference with such chains joined, each where its last step stands; what lies between is not made.

    Only a value with a single reader that is not wanted itself is left out, so what one branch computes is never another's.
    """
    readers = Counter(wanted)
    for step in steps:
        readers.update(step.inputs)
    made: dict[int, int] = {}
    kept: dict[int, Step] = {}
    for position, step in enumerate(steps):
        here = _begun(step)
        for i in reversed(range(len(step.inputs[:2]))):
            earlier = made.get(step.inputs[i]) if readers[step.inputs[i]] == 1 else None
            joined = _joined(kept[earlier], step, i) if earlier is not None else None
            if earlier is not None and joined is not None:
                del kept[earlier]
                here = joined
                break
        kept[position] = here
        if here.kernel is CHAIN or (here.kernel.operator == "BatchNorm" and len(here.outputs) == 1):
            made[here.outputs[0]] = position
    return _with_last_uses([kept[position] for position in sorted(kept)], wanted)


def _begun(step: Step) -> Step:
    """A convolution as a chain of one."""
    if step.kernel.operator != "Convolution" or is_channels_last(step.attrs["layout"]):
        return step
    return msgspec.structs.replace(step, kernel=CHAIN, attrs={"chain": Chain(step.attrs)})


def _joined(first: Step, second: Step, place: int) -> Step | None:
    """Both as one, ``first`` being input ``place`` of ``second``; None if they are nothing that is run together."""
    if first.kernel is not CHAIN:
        return msgspec.structs.replace(first, kernel=BATCH_NORM_RELU, outputs=second.outputs) if _is_relu(second) else None
    chain: Chain = first.attrs["chain"]
    operator, attrs, others = second.kernel.operator, second.attrs, second.inputs[:place] + second.inputs[place + 1 :]
    if chain.ends:
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
    kept, found = set(wanted), []
    for step in reversed(steps):
        mine = {*step.inputs, step.outputs[0]}
        found.append(msgspec.structs.replace(step, last=frozenset(mine - kept)))
        kept |= mine
    return tuple(reversed(found))
