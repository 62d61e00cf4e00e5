"""A convolution fused at inference with BatchNorm, an addition, relu or clip."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from graphshare.ops.activation.kernel import relu
from graphshare.ops.convolution.correlation import convolution, correlate
from graphshare.ops.convolution.grid import Epilogue
from graphshare.ops.kernel import Add, Array, Attrs, Clip, Context, Kernel, Operation
from graphshare.ops.normalization.batch_norm import batch_norm, plain_scaling
from graphshare.ops.unification import infer_nothing, same_dtypes
from graphshare.ops.windows import is_channels_last, read_window


class Chain(msgspec.Struct, frozen=True):
    """Fused operators: attributes of convolution and BatchNorm, an addition, bounds of a clip."""

    convolution: Attrs
    normalization: Attrs | None = None
    adds: bool = False
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> bool:
        """Whether the chain cannot be continued."""
        return self.low is not None or self.high is not None


def run_chain(context: Context, attrs: Attrs, *inputs: Array) -> Array:
    """Run ``attrs["chain"]``.

    Inputs are the convolution's, BatchNorm's after its first, and the other branch.
    """
    chain: Chain = attrs["chain"]
    x, weight, *rest = inputs
    addend = rest.pop() if chain.adds else None
    bias = None if chain.convolution["no_bias"] else rest.pop(0)
    factor, term = None, bias
    if chain.normalization is not None:
        factor, term = plain_scaling(chain.normalization, *rest)
        # Factor and term lose digits if a moving mean far exceeds its deviation.
        if factor is None or term is None:
            return _run_separately(context, chain, x, weight, bias, rest, addend)
        if bias is not None:
            term = term + bias * factor
    operands = (weight, term, addend)
    if x.dtype not in (np.float32, np.float64) or any(
        a is not None and a.dtype != x.dtype for a in operands
    ):
        return _run_separately(context, chain, x, weight, bias, rest, addend)
    epilogue = Epilogue(factor, term, addend, chain.low, chain.high)
    return correlate(
        x,
        weight,
        epilogue,
        read_window(chain.convolution),
        chain.convolution["num_group"],
        context.empty,
    )


def _run_separately(
    context: Context,
    chain: Chain,
    x: Array,
    weight: Array,
    bias: Array | None,
    statistics: list[Array],
    addend: Array | None,
) -> Array:
    """Run operators one by one where fusion would round differently."""
    alone = Context(empty=context.empty)
    in_place = Context(empty=context.empty, reusable=(True,))
    out: Any = convolution(alone, chain.convolution, x, weight, bias)
    if chain.normalization is not None:
        out = batch_norm(in_place, chain.normalization, out, *statistics)
    if addend is not None:
        out = out + addend
    if chain.low == 0 and chain.high is None:
        return relu(in_place, {}, out)
    if chain.ends:
        np.clip(out, out.dtype.type(chain.low), out.dtype.type(chain.high), out=out)
    result: Array = out
    return result


def begin_chain(attrs: Attrs) -> tuple[Kernel, Attrs] | None:
    """Return a chain of one convolution; None with channels last."""
    return None if is_channels_last(attrs["layout"]) else (CHAIN, {"chain": Chain(attrs)})


def extend_chain(attrs: Attrs, operation: Operation, place: int) -> tuple[Kernel, Attrs] | None:
    """Append to ``attrs["chain"]``; None if order or axis forbid it."""
    chain: Chain = attrs["chain"]
    if chain.ends:
        return None
    if isinstance(operation, Clip):
        longer = msgspec.structs.replace(chain, low=operation.low, high=operation.high)
    elif chain.adds:
        return None
    elif isinstance(operation, Add):
        longer = msgspec.structs.replace(chain, adds=True)
    # BatchNorm normalizes input 0 only; here the channels are on axis 1.
    elif place or chain.normalization is not None or operation.attrs["axis"] != 1:
        return None
    else:
        longer = msgspec.structs.replace(chain, normalization=operation.attrs)
    return CHAIN, {"chain": longer}


CHAIN = Kernel("Convolution ...", run_chain, infer_nothing, same_dtypes, extend=extend_chain)
