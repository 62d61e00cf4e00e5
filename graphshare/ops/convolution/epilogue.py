"""What is done to the result of a convolution while it is in the cache, instead of by passes of their own over memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graphshare.ops.kernel import Array

_PART = 1 << 17
"""How many numbers are finished at a time."""


class Epilogue(NamedTuple):
    """``result * factor + term + addend``, then no less than ``low`` and no more than ``high``; what is None is left out.

    ``factor`` and ``term`` have one number for each channel, ``addend`` has the shape of the result (N, C, spatial).
    """

    factor: Array | None = None
    term: Array | None = None
    addend: Array | None = None
    low: float | None = None
    high: float | None = None

    def apply(self, number: int, result: Array, source: Array | None = None, channel: int = 0) -> None:
        """To ``result`` (C, ..., cells) of sample ``number``, made of ``source``, of the same shape, where that is given.

        It holds the channels from ``channel`` on.
        """
        if source is None:
            source = result
        held = slice(channel, channel + len(result))
        addend = None if self.addend is None else self.addend[number, held].reshape(result.shape)
        step = max(1, _PART * len(result) // max(1, result.size))
        tail = (-1, *(1,) * (result.ndim - 1))
        factor = None if self.factor is None else self.factor[held].reshape(tail)
        term = None if self.term is None else self.term[held].reshape(tail)
        ends = None if self.low is None and self.high is None else self._ends(result.dtype)
        for first in range(0, len(result), step):
            part = slice(first, first + step)
            cells, found = result[part], source[part]
            if factor is not None:
                found = np.multiply(found, factor[part], out=cells)
            if term is not None:
                found = np.add(found, term[part], out=cells)
            if addend is not None:
                found = np.add(found, addend[part], out=cells)
            if ends is not None:
                found = np.clip(found, *ends, out=cells)  # one pass, and faster than maximum even where there is no upper end
            if found is not cells and source is not result:
                cells[...] = found

    def _ends(self, dtype: Any) -> tuple[Any, Any]:
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        return dtype.type(low), dtype.type(high)
