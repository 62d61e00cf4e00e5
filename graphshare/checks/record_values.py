"""Values of a parameter file that break models, read one array at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from graphshare.checks.context import CheckContext, NamedRecord
from graphshare.errors import GraphshareError
from graphshare.formats.params.arrays import ArrayReader

if TYPE_CHECKING:
    import numpy as np

_CHUNK = 1 << 20  # elements tested at once
_MIN_VARIANCE = -1e-3  # eps makes up for values above this


def find_non_finite(context: CheckContext) -> Iterator[tuple[str, int, int]]:
    """Yield the place of each record with NaN or infinity, their number, and the record's size."""
    if context.params is None:
        return
    import numpy as np  # start-up

    for record, array in _read_floats(context, context.records):
        values = array.ravel()
        chunks = (values[i : i + _CHUNK] for i in range(0, values.size, _CHUNK))
        count = sum(int(chunk.size - np.isfinite(chunk).sum()) for chunk in chunks)
        if count:
            yield record.place, count, int(values.size)


def find_negative(context: CheckContext, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the place and variable of each auxiliary record among ``names`` with a value clearly
    below zero.
    """
    records = (context.find_record(name, ("aux", "")) for name in names)
    stored = (record for record in records if record is not None)
    for record, array in _read_floats(context, stored):
        if array.size and float(array.min()) < _MIN_VARIANCE:
            yield record.place, record.name


def find_unreadable(context: CheckContext) -> Iterator[tuple[str, str]]:
    """Yield the place of each record whose data cannot be decoded, and the reason."""
    if context.params is None:
        return
    with ArrayReader(context.params) as reader:
        for record in context.records:
            try:
                if record.record.data_offset is None:  # compressed, with a checksum
                    reader.read(record.record)
            except GraphshareError as error:
                yield record.place, error.faults[0].message


def _read_floats(
    context: CheckContext, records: Iterable[NamedRecord]
) -> Iterator[tuple[NamedRecord, np.ndarray]]:
    """Yield each floating record with its array; skip undecodable ones (GS410 reports them)."""
    if context.params is None:
        return
    with ArrayReader(context.params) as reader:
        for record in records:
            if record.shape is None or "float" not in (record.dtype or ""):
                continue
            try:
                array = reader.read(record.record)
            except GraphshareError:
                continue
            yield record, array
