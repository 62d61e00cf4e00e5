"""``params show`` and ``params stats``: what a parameter file holds, array by array, and what its arrays share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.equal import equal_arrays
from graphshare.formats.params.records import ParameterFile, Record
from graphshare.formats.params.registry import read_index
from graphshare.formats.params.select import selection
from graphshare.progress import task

if TYPE_CHECKING:
    from graphshare.formats.params.statistics import Statistics


class ShownArray(msgspec.Struct, frozen=True):
    """One array. ``offset`` is where its data begin in the file, None inside a compressed member; ``size`` its data's bytes.

    ``tied_to`` is the key whose bytes it shares, ``equal_to`` an earlier key with the same values and bytes of its own.
    """

    key: str | None
    shape: tuple[int, ...] | None
    dtype: str | None
    storage: str
    layout: str
    offset: int | None
    size: int
    tied_to: str | None = None
    equal_to: str | None = None


class Shown(msgspec.Struct, frozen=True):
    """``arrays`` of the file, those that were selected. ``repeated`` counts the bytes that equal arrays take again."""

    path: str
    format: str
    arrays: tuple[ShownArray, ...]
    size: int
    repeated: int


class MeasuredArray(msgspec.Struct, frozen=True):
    """One array with its statistics, None for one that was never filled."""

    key: str | None
    shape: tuple[int, ...] | None
    dtype: str | None
    storage: str
    statistics: Statistics | None


class Measured(msgspec.Struct, frozen=True):
    """``arrays`` of the file, those that were selected."""

    path: str
    format: str
    arrays: tuple[MeasuredArray, ...]


def show_params(path: str, *, select: Sequence[str] = ()) -> Shown:
    """What the file holds and what is equal in it; arrays are read piece by piece.

    Raises:
        InputError: it cannot be read.
        RefusedError: a pattern of ``select`` matches nothing.
    """
    file = read_index(path)
    records = _selected(file, select)
    equal = {key: kept for kept, others in equal_arrays(file, records) for key in others}
    shown = tuple(_shown(record, equal) for record in records)
    repeated = sum(array.size for array in shown if array.equal_to is not None)
    return Shown(file.path, file.format, shown, sum(a.size for a in shown if a.tied_to is None), repeated)


def _selected(file: ParameterFile, select: Sequence[str]) -> list[Record]:
    chosen = selection(file, select)
    return [record for record in file.records if not select or record.key in chosen]


def _shown(record: Record, equal: dict[str, str]) -> ShownArray:
    size = record.data_size + sum(part.size for part in record.parts)
    twin = equal.get(record.key or "") if record.tied_to is None else None
    return ShownArray(record.key, record.shape, record.dtype, record.storage, record.layout, record.data_offset, size,
                      record.tied_to, twin)  # fmt: skip


def measure_params(path: str, *, select: Sequence[str] = ()) -> Measured:
    """The statistics of each array of the file, read piece by piece.

    Raises:
        InputError: it cannot be read.
        RefusedError: a pattern of ``select`` matches nothing.
    """
    from graphshare.formats.params.statistics import statistics  # brings numpy along

    file = read_index(path)
    records = _selected(file, select)
    found = []
    with ArrayReader(file) as reader, task("measuring", sum(r.data_size for r in records), "B") as advance:
        for record in records:
            numbers = None if record.shape is None else statistics(reader, record, advance)
            found.append(MeasuredArray(record.key, record.shape, record.dtype, record.storage, numbers))
    return Measured(file.path, file.format, tuple(found))
