"""Where a result may go: the buffer of an input that nobody needs afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphshare.kernels.kernel import Array, Context


def target(context: Context, *inputs: Array, dtype: Any = None) -> Array | None:
    """The buffer an elementwise result of ``inputs`` may be written into, None when a new one is needed.

    It is that of the first dead input which has the result's full shape and type.
    """
    shape = np.broadcast_shapes(*(x.shape for x in inputs)) if len(inputs) > 1 else inputs[0].shape
    wanted = np.result_type(*inputs) if dtype is None else np.dtype(dtype)
    for x, dead in zip(inputs, context.dead, strict=False):
        if dead and x.shape == shape and x.dtype == wanted and x.flags.writeable:
            return x
    return None
