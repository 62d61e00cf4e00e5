"""Where a result may go: the buffer of an input that nobody needs afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphshare.ops.kernel import Array, Context


def reuse_buffer(context: Context, *inputs: Array, dtype: Any = None) -> Array | None:
    """The buffer an elementwise result of ``inputs`` may be written over, None when there is none.

    It is that of the first dead input which has the result's full shape and type.
    """
    shape, wanted = _outcome(inputs, dtype)
    for x, dead in zip(inputs, context.dead, strict=False):
        if dead and x.shape == shape and x.dtype == wanted and x.flags.writeable:
            return x
    return None


def result_buffer(context: Context, *inputs: Array, dtype: Any = None) -> Array:
    """Where an elementwise result of ``inputs`` goes: over a dead one of them, else into a new array."""
    over = reuse_buffer(context, *inputs, dtype=dtype)
    return context.empty(*_outcome(inputs, dtype)) if over is None else over


def _outcome(inputs: tuple[Array, ...], dtype: Any) -> tuple[tuple[int, ...], Any]:
    shape = np.broadcast_shapes(*(x.shape for x in inputs)) if len(inputs) > 1 else inputs[0].shape
    return shape, np.result_type(*inputs) if dtype is None else np.dtype(dtype)
