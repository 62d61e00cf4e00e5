"""The values of a parameter file, one array at a time, numpy only when asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphshare.checks.subject import Subject
from graphshare.errors import GraphshareError

_PIECE = 1 << 20  # elements looked at together


def not_finite(subject: Subject) -> Iterator[tuple[str, int, int]]:
    """Place of each record with values that are NaN or infinite, how many they are, and the array's size in elements."""
    if subject.params is None:
        return
    import numpy as np

    from graphshare.formats.params.arrays import ArrayReader

    with ArrayReader(subject.params) as reader:
        for held in subject.records:
            record = held.record
            if record.shape is None or record.dtype is None or "float" not in record.dtype:
                continue
            try:
                values = reader.read(record).reshape(-1)
            except GraphshareError:
                continue  # another rule's matter
            count = sum(
                int(values[i : i + _PIECE].size - np.isfinite(values[i : i + _PIECE]).sum())
                for i in range(0, values.size, _PIECE)
            )
            if count:
                yield held.place, count, int(values.size)


def unreadable(subject: Subject) -> Iterator[tuple[str, str]]:
    """Place of each record whose data cannot be decoded, and why."""
    if subject.params is None:
        return
    from graphshare.formats.params.arrays import ArrayReader

    with ArrayReader(subject.params) as reader:
        for held in subject.records:
            try:
                if held.record.shape is not None and held.record.data_offset is None:  # compressed, with a checksum
                    reader.read(held.record)
            except GraphshareError as error:
                yield held.place, error.faults[0].message


def below_zero(subject: Subject, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Place and variable of each record among ``names`` that holds a value below -0.001, beyond what eps makes up for."""
    if subject.params is None:
        return
    from graphshare.formats.params.arrays import ArrayReader

    with ArrayReader(subject.params) as reader:
        for name in names:
            held = subject.record_of(name, ("aux", ""))
            if held is None or held.record.shape is None or "float" not in (held.record.dtype or ""):
                continue
            try:
                values = reader.read(held.record)
            except GraphshareError:
                continue  # another rule's matter
            if values.size and float(values.min()) < -1e-3:
                yield held.place, name
