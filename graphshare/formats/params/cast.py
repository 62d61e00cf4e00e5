"""Another dtype for the floating-point arrays of a parameter file, piece by piece while it is written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from graphshare.formats.params.records import ITEM_SIZES, Record

FLOATS = ("float16", "float32", "float64")
"""What arrays can be converted to."""

_CONVERTED = frozenset((*FLOATS, "bfloat16"))


class Cast:
    """The conversion of floating-point arrays to ``dtype``; integers, booleans and the keys ``kept`` keep theirs.

    ``overflows`` counts, by key, the finite numbers that became infinite because ``dtype`` ends before them.
    """

    def __init__(self, dtype: str, kept: Collection[str] = ()) -> None:
        self.dtype = dtype
        self._kept = kept
        self.overflows: dict[str, int] = {}

    def changes(self, record: Record) -> bool:
        """Return whether ``record`` gets another dtype."""
        return record.dtype in _CONVERTED and record.dtype != self.dtype and record.key not in self._kept

    def record(self, record: Record) -> Record:
        """Return ``record`` as it is written."""
        return msgspec.structs.replace(record, dtype=self.dtype) if self.changes(record) else record

    def chunks(self, record: Record, key: str, chunks: Iterable[bytes | memoryview]) -> Iterable[bytes | memoryview]:
        """Return the dense bytes of ``record`` (little endian) in the new dtype, piece by piece."""
        return self._convert(record.dtype or "", key, chunks) if self.changes(record) else chunks

    def _convert(self, dtype: str, key: str, chunks: Iterable[bytes | memoryview]) -> Iterator[memoryview]:
        import numpy as np  # start-up: headers are read without numpy

        stored, target = np.dtype("<u2" if dtype == "bfloat16" else dtype).newbyteorder("<"), np.dtype(self.dtype)
        for piece in _split_whole(chunks, ITEM_SIZES[dtype]):
            values = np.frombuffer(piece, stored)
            if dtype == "bfloat16":  # its bits are the upper half of the float32 of the same value
                values = (values.astype("<u4") << np.uint32(16)).view("<f4")
            with np.errstate(over="ignore", invalid="ignore"):  # an overflow is counted, and NaN may signal
                new = values.astype(target.newbyteorder("<"))
            if target.itemsize < values.itemsize:
                count = int(np.count_nonzero(np.isinf(new) & ~np.isinf(values)))
                if count:
                    self.overflows[key] = self.overflows.get(key, 0) + count
            yield new.view(np.uint8).data


def _split_whole(chunks: Iterable[bytes | memoryview], size: int) -> Iterator[bytes | memoryview]:
    """Yield ``chunks`` again so that each has whole elements of ``size`` bytes: a decompressor cuts them anywhere."""
    rest = b""
    for chunk in chunks:
        if not rest and len(chunk) % size == 0:
            yield chunk
            continue
        data = rest + bytes(chunk)
        whole = len(data) - len(data) % size
        rest = data[whole:]
        if whole:
            yield data[:whole]
