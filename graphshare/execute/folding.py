"""BatchNorm folded into the weights of the convolution before it, once for many runs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from graphshare.execute.plan import Plan
from graphshare.execute.step import Step
from graphshare.ir.graph import Node
from graphshare.ops.batch_norm.kernel import plain_scaling
from graphshare.ops.convolution.fused import Chain
from graphshare.ops.kernel import Array


def fold_batch_norm(plan: Plan, parameters: Mapping[Node, Array]) -> Plan:
    """Return ``plan`` for inference with these parameters, which must not change any more.

    The folded weights take as much memory as the original ones.
    """
    known = {slot: parameters[node] for node, slot in plan.variables.items() if node in parameters}
    constants = dict(plan.constants)
    steps, slots = [], plan.slots
    for step in plan.fused:
        replacement = _fold(step, known) if isinstance(step.attrs.get("chain"), Chain) else None
        if replacement is None:
            steps.append(step)
            continue
        chain, weight, term = replacement
        constants[slots], constants[slots + 1] = weight, term
        others = step.inputs[-1:] if chain.adds else ()
        inputs = (step.inputs[0], slots, slots + 1, *others)
        steps.append(
            msgspec.structs.replace(step, attrs={"chain": chain}, inputs=inputs, last=step.last & {*inputs, *step.outputs})
        )
        slots += 2
    return msgspec.structs.replace(plan, fused=tuple(steps), slots=slots, constants=constants)


def _fold(step: Step, known: Mapping[int, Array]) -> tuple[Chain, Array, Array] | None:
    """Return the chain without its BatchNorm, the weight and the bias; None where it cannot be folded."""
    chain: Chain = step.attrs["chain"]
    own = step.inputs[1:-1] if chain.adds else step.inputs[1:]
    if chain.normalization is None or not all(slot in known for slot in own):
        return None
    weight, *rest = (known[slot] for slot in own)
    bias = None if chain.convolution["no_bias"] else rest.pop(0)
    factor, term = plain_scaling(chain.normalization, *rest)
    if factor is None or term is None or weight.dtype != factor.dtype or weight.dtype not in (np.float32, np.float64):
        return None
    if bias is not None:
        term = term + bias * factor
    scaled = weight * factor.reshape(-1, *(1,) * (weight.ndim - 1))
    return msgspec.structs.replace(chain, convolution={**chain.convolution, "no_bias": False}, normalization=None), scaled, term
