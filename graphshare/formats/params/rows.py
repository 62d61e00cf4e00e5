"""Read an array of a parameter file as a stream of short rows of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphshare.formats.params.arrays import ArrayReader, storage_dtype, widen_bfloat16
from graphshare.formats.params.records import ITEM_SIZES, Record
from graphshare.progress import Advance, noop_progress

Array = NDArray[Any]


def read_rows(reader: ArrayReader, record: Record, advance: Advance = noop_progress) -> Iterator[Array]:
    """Yield the array's numbers in C order, in rows of any length; bfloat16 as float32 by value.

    A sparse array is densified for it, one array at a time. ``advance`` receives the numbers of bytes.
    """
    stored = np.dtype(storage_dtype(record)).newbyteorder("<")
    size = ITEM_SIZES[record.dtype or "float32"]
    rest = b""
    for chunk in reader.chunks(record):
        advance(len(chunk))
        if rest or len(chunk) % size:  # a chunk of an archive may end inside a number
            chunk = rest + bytes(chunk)
            whole = len(chunk) - len(chunk) % size
            chunk, rest = chunk[:whole], chunk[whole:]
        if len(chunk):
            yield widen_bfloat16(np.frombuffer(chunk, stored), record.dtype)


def align_rows(left: Iterator[Array], right: Iterator[Array]) -> Iterator[tuple[Array, Array]]:
    """Yield two streams of equally many numbers in rows of equal length."""
    a = b = np.empty(0)
    while True:
        if not a.size:
            a = next(left, np.empty(0))
        if not b.size:
            b = next(right, np.empty(0))
        count = min(a.size, b.size)
        if not count:
            return
        yield a[:count], b[:count]
        a, b = a[count:], b[count:]
