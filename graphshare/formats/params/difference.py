"""How far two arrays are apart: how many numbers differ, and by how much at most."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from graphshare.formats.params.arrays import ArrayReader, SparseArray
from graphshare.formats.params.pieces import Array, pieces, side_by_side
from graphshare.formats.params.records import Record, element_count
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


def distance(
    left: ArrayReader,
    x: Record,
    right: ArrayReader,
    y: Record,
    *,
    atol: float = 0.0,
    rtol: float = 0.0,
    advance: Advance = noop_progress,
) -> Distance:
    """Two arrays of one shape, held against each other a piece at a time. NaN equals NaN.

    A number differs when ``abs(a - b) > atol + rtol * abs(a)``. Sparse arrays of one storage type stay sparse. ``advance`` is
    told of the bytes of the first array.
    """
    count = element_count(x.shape or ())
    if x.storage == y.storage != "default":
        rows = _sparse_rows(left.read_sparse(x), right.read_sparse(y))
        return _measured(rows, count, atol, rtol, densified=False)
    rows = side_by_side(pieces(left, x, advance), pieces(right, y))
    return _measured(rows, count, atol, rtol, densified=x.storage != "default" or y.storage != "default")


def _measured(rows: Iterable[tuple[Array, Array]], count: int, atol: float, rtol: float, *, densified: bool) -> Distance:
    differing, largest, apart = 0, 0.0, False
    for a, b in rows:
        if a.dtype == b.dtype and a.tobytes() == b.tobytes():
            continue
        wide = _wide(a, b)
        x, y = a.astype(wide), b.astype(wide)
        with np.errstate(invalid="ignore", over="ignore"):
            away = np.abs(x - y)
            beyond = (x != y) & ~(away <= atol + rtol * np.abs(x))
        if wide == "float64":
            beyond &= ~(np.isnan(x) & np.isnan(y))
        differing += int(np.count_nonzero(beyond))
        if beyond.any():
            worst = away[beyond].max()
            apart = apart or not np.isfinite(float(worst))
            largest = max(largest, float(worst)) if not apart else largest
    return Distance(count, differing, None if apart else largest, densified)


def _wide(a: Array, b: Array) -> str:
    """A type in which differences of both are exact, or as exact as they can be."""
    if "f" in a.dtype.kind + b.dtype.kind:
        return "float64"
    return "int64" if max(a.dtype.itemsize, b.dtype.itemsize) < 8 else "object"


def _sparse_rows(a: SparseArray, b: SparseArray) -> Iterable[tuple[Array, Array]]:
    """The values of both at every place where one of them has some; what is not stored is zero."""
    sides = [(np.sort(places), array, np.argsort(places, kind="stable")) for array in (a, b) for places in (_places(array),)]
    union = np.union1d(sides[0][0], sides[1][0])
    step = max(1, (1 << 17) // max(1, int(np.prod(a.values.shape[1:], dtype=np.int64))))
    for start in range(0, len(union), step):
        part = union[start : start + step]
        yield _at(*sides[0], part), _at(*sides[1], part)


def _places(array: SparseArray) -> Array:
    """Where each stored value lies: its row, or for csr its number in C order."""
    if array.indptr is None:
        return array.indices.astype(np.int64)
    rows = np.repeat(np.arange(array.shape[0], dtype=np.int64), np.diff(array.indptr))
    found: Array = rows * array.shape[1] + array.indices.astype(np.int64)
    return found


def _at(places: Array, array: SparseArray, order: Array, wanted: Array) -> Array:
    """The values at ``wanted`` places; ``places`` are those of the stored values, sorted by ``order``."""
    values = np.zeros((len(wanted), *array.values.shape[1:]), array.values.dtype)
    if len(places):
        found = np.searchsorted(places, wanted, side="right") - 1
        known = (found >= 0) & (places[found] == wanted)
        values[known] = array.values[order[found[known]]]
    return values.reshape(-1)
