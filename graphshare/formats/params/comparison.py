"""Compare arrays: their distances from a reference, and the tolerance that would pass.

A number passes when ``abs(a - b) <= atol + rtol * abs(b)``, ``b`` being the reference's, as in
numpy. NaN equals NaN, an infinity equals one of the same sign, and no tolerance applies to them.
Differences of integers are exact. Parameter files are compared row by row, sparse arrays at the
places that either has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from graphshare.formats.params.arrays import ArrayReader, SparseArray, storage_dtype, widen_bfloat16
from graphshare.formats.params.narrow_dtypes import is_floating, name_dtype
from graphshare.formats.params.records import ITEM_SIZES, Record, element_count
from graphshare.progress import Advance, noop_progress

Array = NDArray[Any]


class Comparison(msgspec.Struct, frozen=True):
    """``max_abs`` and ``max_rel`` are the tolerances that would each have passed.

    Both are infinite if NaN, infinities, shapes or dtypes differ (see ``reason``). ``identical``
    means bit for bit.
    """

    equal: bool
    identical: bool
    max_abs: float
    max_rel: float
    reason: str = ""

    def __bool__(self) -> bool:
        return self.equal


_APART = float("inf")


def compare_arrays(array: Array, reference: Array, *, atol: float, rtol: float) -> Comparison:
    """Compare ``array`` with ``reference``. Shapes and dtypes must match; nothing is broadcast."""
    if array.shape != reference.shape:
        return Comparison(
            False, False, _APART, _APART, f"shapes {array.shape} and {reference.shape}"
        )
    if array.dtype != reference.dtype:
        return Comparison(
            False,
            False,
            _APART,
            _APART,
            f"types {name_dtype(array.dtype)} and {name_dtype(reference.dtype)}",
        )
    numbers = NumberComparer(atol, rtol)
    numbers.add(array, reference)
    if numbers.apart:
        return Comparison(False, False, _APART, _APART, "NaN or infinities in different places")
    reason = "values differ" if numbers.differing else ""
    return Comparison(
        not numbers.differing, numbers.identical, numbers.max_abs, numbers.max_rel, reason
    )


class NumberComparer:
    """Compares numbers piece by piece.

    ``differing`` of ``count`` numbers are beyond the tolerance. ``max_abs`` and (with ``relative``)
    ``max_rel`` are the largest finite distances. ``apart`` is True if a NaN or infinity met another
    number, ``identical`` if all bytes and dtypes were equal.
    """

    def __init__(self, atol: float, rtol: float, *, relative: bool = True) -> None:
        self._atol, self._rtol, self._relative = atol, rtol, relative
        self.count = self.differing = 0
        self.max_abs = self.max_rel = 0.0
        self.apart, self.identical = False, True

    def add(self, array: Array, reference: Array) -> None:
        self.count += array.size
        # Equal bytes, the usual case, need no arithmetic.
        if array.dtype == reference.dtype and array.tobytes() == reference.tobytes():
            return
        self.identical = False
        wide = _widen(array, reference)
        a, b = array.astype(wide), reference.astype(wide)
        with np.errstate(over="ignore", invalid="ignore"):
            distance = np.asarray(np.abs(a - b))  # for one object it is a number
        # NaN or an infinity on one side makes the largest distance NaN or infinite.
        if not np.isfinite(float(distance.max())):
            a, b, distance = self._set_apart(a, b, distance)
        if not distance.any():
            return
        with np.errstate(over="ignore"):
            size = np.asarray(np.abs(b))
            self.differing += int(np.count_nonzero(~(distance <= self._atol + self._rtol * size)))
        self.max_abs = max(self.max_abs, float(distance.max()))
        if self._relative:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                # 0 / 0 is NaN, and no distance
                relative = distance.astype("float64") / size.astype("float64")
            self.max_rel = max(self.max_rel, float(np.fmax.reduce(relative, axis=None)))

    def _set_apart(self, a: Array, b: Array, distance: Array) -> tuple[Array, Array, Array]:
        """Count NaN and infinities that met another number; return finite numbers and distances."""
        finite = np.isfinite(a) & np.isfinite(b)
        differing = int(np.count_nonzero(~finite & (a != b) & ~(np.isnan(a) & np.isnan(b))))
        self.differing += differing
        self.apart = self.apart or differing > 0
        return a[finite], b[finite], distance[finite]


def _widen(a: Array, b: Array) -> str:
    if is_floating(a.dtype) or is_floating(b.dtype):
        return "float64"
    # Differences of 64-bit integers need Python integers.
    return "int64" if max(a.dtype.itemsize, b.dtype.itemsize) < 8 else "object"


class Distance(msgspec.Struct, frozen=True):
    """The distance of two arrays: ``differing`` of ``count`` numbers differ. True when nothing
    differs.

    ``max_abs`` is None if a NaN or infinity meets another value. ``densified``: sparse arrays were
    compared in dense form. Without a tolerance ``bits`` counts differing numbers that are equal: 0
    and -0, or NaN with different digits.
    """

    count: int
    differing: int
    max_abs: float | None
    densified: bool = False
    bits: int = 0

    def __bool__(self) -> bool:
        return self.differing == 0

    @property
    def is_near(self) -> bool:
        """Whether all numbers are within the tolerance, and some differ."""
        return self.differing == 0 and bool(self.max_abs)


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
    """Compare an array with a reference of the same shape, a piece at a time.

    Sparse arrays of one storage type stay sparse. ``advance`` receives the bytes of the reference.
    """
    stays_sparse = record.storage == reference.storage != "default"
    if stays_sparse:
        rows = _sparse_rows(reader.read_sparse(record), reference_reader.read_sparse(reference))
    else:
        rows = align_rows(
            read_rows(reader, record), read_rows(reference_reader, reference, advance)
        )
    numbers = NumberComparer(atol, rtol, relative=False)
    unlike, is_exact = 0, not (atol or rtol)
    for row, expected in rows:
        numbers.add(row, expected)
        if is_exact and not numbers.identical:
            unlike += count_unlike(row, expected)
    bits = max(unlike - numbers.differing, 0)  # none where dtypes differ
    known = not numbers.apart and isfinite(numbers.max_abs)
    return Distance(
        count=element_count(reference.shape or ()),
        differing=numbers.differing + bits,
        max_abs=numbers.max_abs if known else None,
        densified=not stays_sparse
        and (record.storage != "default" or reference.storage != "default"),
        bits=bits,
    )


def count_unlike(a: Array, b: Array) -> int:
    """Count elements of equally shaped arrays whose bits differ; 0 if the dtypes differ."""
    if a.dtype != b.dtype:
        return 0
    integers = f"u{a.dtype.itemsize}"
    return int(np.count_nonzero(a.view(integers) != b.view(integers)))


def _sparse_rows(a: SparseArray, b: SparseArray) -> Iterable[tuple[Array, Array]]:
    """Yield both values at every place that either stores; others are zero."""
    sides = [
        (np.sort(places), array, np.argsort(places, kind="stable"))
        for array in (a, b)
        for places in (_places(array),)
    ]
    union = np.union1d(sides[0][0], sides[1][0])
    step = max(1, (1 << 17) // max(1, int(np.prod(a.values.shape[1:], dtype=np.int64))))
    for start in range(0, len(union), step):
        part = union[start : start + step]
        yield _at(*sides[0], part), _at(*sides[1], part)


def _places(array: SparseArray) -> Array:
    """Return each stored value's row, or for csr its number in C order."""
    if array.indptr is None:
        return array.indices.astype(np.int64)
    rows = np.repeat(np.arange(array.shape[0], dtype=np.int64), np.diff(array.indptr))
    places: Array = rows * array.shape[1] + array.indices.astype(np.int64)
    return places


def _at(places: Array, array: SparseArray, order: Array, targets: Array) -> Array:
    """Return the values at ``targets``; stored values' ``places`` are sorted by ``order``."""
    values = np.zeros((len(targets), *array.values.shape[1:]), array.values.dtype)
    if len(places):
        # If a place is stored twice, the last value counts, as in dense form.
        positions = np.searchsorted(places, targets, side="right") - 1
        known = (positions >= 0) & (places[positions] == targets)
        values[known] = array.values[order[positions[known]]]
    return values.reshape(-1)


def read_rows(
    reader: ArrayReader, record: Record, advance: Advance = noop_progress
) -> Iterator[Array]:
    """Yield the array's numbers in C order, in rows of any length; bfloat16 as float32.

    A sparse array is densified. ``advance`` receives the numbers of bytes.
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
