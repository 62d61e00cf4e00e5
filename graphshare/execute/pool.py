"""Reusable buffers of a run: memory that is reused needs no new pages, and stays in the cache."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from operator import attrgetter
from sys import getrefcount
from typing import Any

import numpy as np

from graphshare.ops.kernel import Array

SMALL = 1 << 15
"""Bytes below which the allocator is faster."""
_KEPT = 1 << 26
"""Bytes that may always stay idle."""
_SLACK = 4
"""The factor by which a buffer may be too large."""
_NBYTES = attrgetter("nbytes")
_UNUSED = 3
"""The :func:`getrefcount` of a buffer that only the pool and the caller refer to."""


class Pool:
    """Creates uninitialised arrays. A buffer is reusable as soon as no array refers to it; none is returned explicitly."""

    def __init__(self) -> None:
        self._buffers: list[Array] = []  # by size

    def empty(self, shape: Sequence[int], dtype: Any) -> Array:
        """Return an array as ``numpy.empty`` does. Its buffer may be larger."""
        dtype = np.dtype(dtype)
        size = dtype.itemsize
        for n in shape:
            size *= int(n)
        if size < SMALL or dtype.hasobject:
            return np.empty(shape, dtype)
        buffer = self._free(size)
        if buffer is None:
            self._make_room(size)
            buffer = np.empty(size, np.uint8)
            insort(self._buffers, buffer, key=_NBYTES)
        array: Array = buffer[:size].view(dtype).reshape(shape)
        return array

    def _free(self, size: int) -> Array | None:
        """Return the smallest unused buffer with room for ``size`` bytes."""
        for i in range(bisect_left(self._buffers, size, key=_NBYTES), len(self._buffers)):
            buffer = self._buffers[i]
            if buffer.nbytes > _SLACK * size:
                break
            if getrefcount(buffer) == _UNUSED:
                return buffer
        return None

    def _make_room(self, size: int) -> None:
        """Release idle buffers, large ones first, until they take no more than those in use or ``_KEPT``."""
        idle = [i for i in range(len(self._buffers)) if getrefcount(self._buffers[i]) == _UNUSED - 1]
        total = sum(self._buffers[i].nbytes for i in idle)
        used = sum(buffer.nbytes for buffer in self._buffers) - total + size
        for i in reversed(idle):
            if total <= max(used, _KEPT):
                break
            total -= self._buffers[i].nbytes
            del self._buffers[i]
