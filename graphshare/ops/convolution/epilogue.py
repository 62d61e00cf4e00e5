"""Operations on the result of a convolution while it is in the cache, instead of in separate passes over memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graphshare.ops.kernel import Array

_PART = 1 << 17
"""Number of elements processed at a time."""


class Epilogue(NamedTuple):
    """``result * factor + term + addend``, clipped to ``low`` and ``high``; None skips an operation.

    ``factor`` and ``term`` have one number for each channel, ``addend`` has the shape of the result (N, C, spatial).
    """

    factor: Array | None = None
    term: Array | None = None
    addend: Array | None = None
    low: float | None = None
    high: float | None = None

    def apply(self, number: int, result: Array, source: Array | None = None, channel: int = 0) -> None:
        """Write the epilogue of ``source`` (default: ``result``) to ``result`` (C, ..., cells) of sample ``number``.

        Both have the same shape; their first channel is number ``channel``.
        """
        if source is None:
            source = result
        channels = slice(channel, channel + len(result))
        addend = None if self.addend is None else self.addend[number, channels].reshape(result.shape)
        step = max(1, _PART * len(result) // max(1, result.size))
        tail = (-1, *(1,) * (result.ndim - 1))
        factor = None if self.factor is None else self.factor[channels].reshape(tail)
        term = None if self.term is None else self.term[channels].reshape(tail)
        ends = None if self.low is None and self.high is None else self._ends(result.dtype)
        for first in range(0, len(result), step):
            part = slice(first, first + step)
            cells, values = result[part], source[part]
            if factor is not None:
                values = np.multiply(values, factor[part], out=cells)
            if term is not None:
                values = np.add(values, term[part], out=cells)
            if addend is not None:
                values = np.add(values, addend[part], out=cells)
            if ends is not None:
                values = np.clip(values, *ends, out=cells)  # one pass, and faster than maximum even without an upper bound
            if values is not cells and source is not result:
                cells[...] = values

    def _ends(self, dtype: Any) -> tuple[Any, Any]:
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        return dtype.type(low), dtype.type(high)
