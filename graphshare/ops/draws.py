"""Random numbers in the dtype that is wanted, without a whole array in float64: a stream drawn in blocks is the same stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphshare.ops.kernel import Array

_BLOCK = 1 << 18  # numbers that are drawn at a time: 2 MB of float64


def draw_in_blocks(draw: Callable[[int], Array], shape: Sequence[int], dtype: Any) -> Array:
    """Return ``draw(n)``, ``n`` numbers that follow each other in a stream, as an array of ``shape`` and ``dtype``."""
    result: Array = np.empty(tuple(shape), dtype)
    flat = result.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        part = flat[start : start + _BLOCK]
        part[...] = draw(part.size).astype(dtype, copy=False)
    return result
