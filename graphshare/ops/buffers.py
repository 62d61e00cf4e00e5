"""Buffers of elementwise results: that of an input after its last use, or a new one."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphshare.ops.kernel import Array, Context


def reuse_buffer(context: Context, *inputs: Array, dtype: Any = None) -> Array | None:
    """Return the buffer of the first reusable input that has the shape and dtype of an elementwise result, or None."""
    shape, result_dtype = _shape_and_dtype(inputs, dtype)
    for x, reusable in zip(inputs, context.reusable, strict=False):
        if reusable and x.shape == shape and x.dtype == result_dtype and x.flags.writeable:
            return x
    return None


def result_buffer(context: Context, *inputs: Array, dtype: Any = None) -> Array:
    """Return the buffer for an elementwise result of ``inputs``: that of a reusable one, otherwise a new array."""
    over = reuse_buffer(context, *inputs, dtype=dtype)
    return context.empty(*_shape_and_dtype(inputs, dtype)) if over is None else over


def _shape_and_dtype(inputs: tuple[Array, ...], dtype: Any) -> tuple[tuple[int, ...], Any]:
    first, last = inputs[0], inputs[-1]
    if dtype is None and first.dtype == last.dtype and last.shape in (first.shape, ()) and len(inputs) <= 2:
        return first.shape, first.dtype  # the usual case, at a tenth of the time
    shape = np.broadcast_shapes(*(x.shape for x in inputs)) if len(inputs) > 1 else inputs[0].shape
    return shape, np.result_type(*inputs) if dtype is None else np.dtype(dtype)
