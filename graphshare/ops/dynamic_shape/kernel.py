"""Operators whose result has a size that only the values tell: what occurs, where, how often; and checks of values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shapes, Types
from graphshare.ops.limits import Limits, refuse_invalid_call, with_limits
from graphshare.ops.unification import axis_of, same_dtypes, same_shapes, unify


def unique(context: Context, attrs: Attrs, x: Array) -> tuple[Array, ...]:
    """Every value once, in order; then first places, the place of each among them, and counts, as far as they are asked for."""
    flags = {key: attrs[key] for key in ("return_index", "return_inverse", "return_counts")}
    axis = None if attrs["axis"] is None else axis_of(attrs["axis"], x.ndim)
    found = np.unique(x, axis=axis, **flags)
    values, *more = found if isinstance(found, tuple) else (found,)
    return (values, *(np.ravel(part).astype(np.int64) for part in more))


def nonzero(context: Context, attrs: Attrs, x: Array) -> Array:
    """The places ``(n, axes)`` of all numbers that are not 0."""
    return np.argwhere(x).astype(np.int64)


def bincount(context: Context, attrs: Attrs, x: Array, weights: Array | None = None) -> Array:
    """How often each number from 0 on occurs, or the sum of the weights that stand with it; ``minlength`` numbers at least."""
    if x.size and x.min() < 0:
        raise KernelError(f"numbers from 0 on are counted, not {x.min()}")
    limit = attrs["minlength"] + 16 * x.size + (1 << 24)  # what a person may mean; a single number could ask for any length
    if x.size and x.max() > limit:
        raise KernelError(f"{x.max()} would give as many counts; {limit} are the most for these numbers")
    with refuse_invalid_call():
        found = np.bincount(x.astype(np.int64), weights, attrs["minlength"])
    return found.astype(x.dtype if weights is None else weights.dtype)


def constraint_check(context: Context, attrs: Attrs, x: Array) -> Array:
    """True; where not all of ``x`` is, the message ``msg``."""
    if not x.all():
        raise KernelError(attrs["msg"])
    return np.asarray(True)


def shares_memory(context: Context, attrs: Attrs, a: Array, b: Array) -> Array:
    """False: what graphs compute with has memory of its own."""
    return np.asarray(False)


def pass_on(context: Context, attrs: Attrs, x: Array) -> Array:
    """The array as it is, on the device that there is."""
    return x


def _rank(rank: int) -> Sequence[Dim]:
    return (None,) * rank


def _unique_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x = inputs[0]
    if x is None:
        return inputs, outputs
    axis = attrs["axis"]
    values = tuple(_rank(1)) if axis is None else tuple(None if i == axis % len(x) else d for i, d in enumerate(x))
    return inputs, [unify(values, outputs[0]), *(unify(tuple(_rank(1)), y) for y in outputs[1:])]


def _unique_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, [inputs[0], *["int64"] * (len(outputs) - 1)]


def _nonzero_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return inputs, outputs if inputs[0] is None else [unify((None, len(inputs[0])), outputs[0])]


def _int64(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, ["int64"]


def _bincount_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return inputs, [unify((None,), outputs[0])]


def _bincount_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, [inputs[-1]]


def _single(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return inputs, [unify((), outputs[0])]


def _boolean(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, ["bool"]


KERNELS = with_limits(
    Limits(not_negative=("minlength",), ranks=(1,)),
    Kernel("_npi_unique", unique, _unique_shapes, _unique_types),
    Kernel("_npx_nonzero", nonzero, _nonzero_shapes, _int64),
    Kernel("_npi_bincount", bincount, _bincount_shapes, _bincount_types),
    Kernel("_npx_constraint_check", constraint_check, _single, _boolean),
    Kernel("_npi_share_memory", shares_memory, _single, _boolean),
    Kernel("_CrossDeviceCopy", pass_on, same_shapes, same_dtypes),
)
