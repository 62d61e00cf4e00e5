"""Operators whose output size depends on values: unique values, indices and counts; and checks of values."""

from __future__ import annotations

import numpy as np

from graphshare.ops.gradient import Gradient, no_gradient
from graphshare.ops.kernel import Array, Attrs, Context, Kernel, KernelError, Shapes, Types
from graphshare.ops.limits import Limits, refuse_invalid_call, with_limits
from graphshare.ops.unary.gradient import factor_vjp
from graphshare.ops.unification import (
    attribute_rule,
    axis_of,
    dtype_rule,
    output_rule,
    same_dtypes,
    same_shapes,
    unify,
    with_dim,
)
from graphshare.text.format import format_count


def unique(context: Context, attrs: Attrs, x: Array) -> tuple[Array, ...]:
    """Return the sorted unique values; then, if requested, first indices, inverse indices and counts."""
    flags = {key: attrs[key] for key in ("return_index", "return_inverse", "return_counts")}
    axis = None if attrs["axis"] is None else axis_of(attrs["axis"], x.ndim)
    result = np.unique(x, axis=axis, **flags)
    values, *more = result if isinstance(result, tuple) else (result,)
    return (values, *(np.ravel(part).astype(np.int64) for part in more))


def nonzero(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the indices ``(n, axes)`` of all numbers that are not 0."""
    return np.argwhere(x).astype(np.int64)


def bincount(context: Context, attrs: Attrs, x: Array, weights: Array | None = None) -> Array:
    """Return the count, or the sum of the weights, of each number from 0; at least ``minlength`` numbers."""
    if x.size and x.min() < 0:
        raise KernelError(f"numbers must be 0 or more, not {x.min()}")
    limit = attrs["minlength"] + 16 * x.size + (1 << 24)  # a single large number could request any length
    if x.size and x.max() > limit:
        raise KernelError(f"the largest number is {x.max()}, expected at most {limit} for {format_count(x.size, 'number')}")
    with refuse_invalid_call():
        counts = np.bincount(x.astype(np.int64), weights, attrs["minlength"])
    return counts.astype(x.dtype if weights is None else weights.dtype)


def constraint_check(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return True, or raise KernelError with the message ``msg`` unless all of ``x`` is true."""
    if not x.all():
        raise KernelError(attrs["msg"])
    return np.asarray(True)


def shares_memory(context: Context, attrs: Attrs, a: Array, b: Array) -> Array:
    """Return False: arrays of a graph do not share memory."""
    return np.asarray(False)


def cross_device_copy(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the array: there is only one device."""
    return x


def _infer_unique_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x = inputs[0]
    if x is None:
        return inputs, outputs
    axis = attrs["axis"]
    values = (None,) if axis is None else with_dim(x, axis % len(x), None)
    return inputs, [unify(values, outputs[0]), *(unify((None,), y) for y in outputs[1:])]


def _infer_unique_dtypes(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, [inputs[0], *["int64"] * (len(outputs) - 1)]


def _infer_bincount_dtypes(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, [inputs[-1]]


KERNELS = with_limits(
    Limits(not_negative=("minlength",), ranks=(1,)),
    Kernel("_npi_unique", unique, _infer_unique_shapes, _infer_unique_dtypes),
    Kernel("_npx_nonzero", nonzero, output_rule(lambda attrs, x: (None, len(x))), dtype_rule("int64")),
    Kernel("_npi_bincount", bincount, attribute_rule(lambda attrs: (None,)), _infer_bincount_dtypes),
    Kernel("_npx_constraint_check", constraint_check, attribute_rule(lambda attrs: ()), dtype_rule("bool")),
    Kernel("_npi_share_memory", shares_memory, attribute_rule(lambda attrs: ()), dtype_rule("bool")),
    Kernel("_CrossDeviceCopy", cross_device_copy, same_shapes, same_dtypes),
)

GRADIENTS = (
    Gradient("_CrossDeviceCopy", factor_vjp(1.0), reads_inputs=False, reads_outputs=False),
    *no_gradient(
        "the result is counted, compared or constant",
        "_npi_bincount",
        "_npi_share_memory",
        "_npi_unique",
        "_npx_constraint_check",
        "_npx_nonzero",
    ),
)
