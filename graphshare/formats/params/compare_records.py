"""Compare two arrays of parameter files: how many numbers differ, and by how much at most."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

import msgspec
import numpy as np

from graphshare.formats.params.arrays import ArrayReader, SparseArray
from graphshare.formats.params.comparison import NumberComparer
from graphshare.formats.params.records import Record, element_count
from graphshare.formats.params.rows import Array, align_rows, read_rows
from graphshare.progress import Advance, noop_progress


class Distance(msgspec.Struct, frozen=True):
    """``differing`` of ``count`` numbers differ, by ``max_abs`` at most; that is None where a NaN or infinity meets another
    value. ``densified`` says that sparse arrays were compared in dense form. True when nothing differs."""

    count: int
    differing: int
    max_abs: float | None
    densified: bool = False

    def __bool__(self) -> bool:
        return self.differing == 0


def compare_records(
    reader: ArrayReader,
    record: Record,
    reference_reader: ArrayReader,
    reference: Record,
    *,
    atol: float = 0.0,
    rtol: float = 0.0,
    advance: Advance = noop_progress,
) -> Distance:
    """Compare an array with a reference of the same shape, a piece at a time (:mod:`graphshare.formats.params.comparison`).

    Sparse arrays of one storage type stay sparse. ``advance`` receives the bytes of the reference.
    """
    stays_sparse = record.storage == reference.storage != "default"
    if stays_sparse:
        rows = _sparse_rows(reader.read_sparse(record), reference_reader.read_sparse(reference))
    else:
        rows = align_rows(read_rows(reader, record), read_rows(reference_reader, reference, advance))
    numbers = NumberComparer(atol, rtol, relative=False)
    for row, expected in rows:
        numbers.add(row, expected)
    differs = numbers.differing > 0
    known = not numbers.apart and isfinite(numbers.max_abs)
    return Distance(
        count=element_count(reference.shape or ()),
        differing=numbers.differing,
        max_abs=(numbers.max_abs if known else None) if differs else 0.0,
        densified=not stays_sparse and (record.storage != "default" or reference.storage != "default"),
    )


def _sparse_rows(a: SparseArray, b: SparseArray) -> Iterable[tuple[Array, Array]]:
    """Yield the values of both at every place where one of them stores some; what is not stored is zero."""
    sides = [(np.sort(places), array, np.argsort(places, kind="stable")) for array in (a, b) for places in (_places(array),)]
    union = np.union1d(sides[0][0], sides[1][0])
    step = max(1, (1 << 17) // max(1, int(np.prod(a.values.shape[1:], dtype=np.int64))))
    for start in range(0, len(union), step):
        part = union[start : start + step]
        yield _at(*sides[0], part), _at(*sides[1], part)


def _places(array: SparseArray) -> Array:
    """Return where each stored value lies: its row, or for csr its number in C order."""
    if array.indptr is None:
        return array.indices.astype(np.int64)
    rows = np.repeat(np.arange(array.shape[0], dtype=np.int64), np.diff(array.indptr))
    places: Array = rows * array.shape[1] + array.indices.astype(np.int64)
    return places


def _at(places: Array, array: SparseArray, order: Array, targets: Array) -> Array:
    """Return the values at ``targets`` places; ``places`` are those of the stored values, sorted by ``order``."""
    values = np.zeros((len(targets), *array.values.shape[1:]), array.values.dtype)
    if len(places):
        positions = np.searchsorted(places, targets, side="right") - 1
        known = (positions >= 0) & (places[positions] == targets)
        values[known] = array.values[order[positions[known]]]
    return values.reshape(-1)
