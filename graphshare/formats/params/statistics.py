"""Statistics of the numbers of one array."""

from __future__ import annotations

from math import sqrt

import msgspec
import numpy as np

from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.comparison import read_rows
from graphshare.formats.params.records import Record, element_count
from graphshare.progress import Advance, noop_progress


class Statistics(msgspec.Struct, frozen=True):
    """An array's finite numbers (None if there are none); ``norm`` is Euclidean.

    ``zeros``, ``nans`` and ``infinities`` are counts. ``stored`` counts the values of a sparse
    array, None for a dense one.
    """

    count: int
    min: float | None
    max: float | None
    mean: float | None
    std: float | None
    norm: float | None
    zeros: int
    nans: int
    infinities: int
    stored: int | None = None


def measure_array(
    reader: ArrayReader, record: Record, advance: Advance = noop_progress
) -> Statistics:
    """Measure one array piece by piece; a sparse one stays sparse."""
    shape, _ = record.shape_and_dtype()
    total = element_count(shape)
    if record.storage == "default":
        rows, stored = read_rows(reader, record, advance), None
    else:
        values = reader.read_sparse(record).values.reshape(-1)
        rows, stored = iter([values]), int(values.size)
    moments = _Moments()
    # A file may hold any bits, signalling NaN among them
    with np.errstate(over="ignore", invalid="ignore"):
        for row in rows:
            moments.add(row.astype(np.float64))
    if stored is not None and total > stored:
        moments.add_zeros(total - stored)
    return moments.finish(total, stored)


def count_in_bins(
    reader: ArrayReader, record: Record, statistics: Statistics, bins: int
) -> list[int]:
    """Count the finite numbers of a dense array in ``bins`` equal parts of its range, lowest first.

    Sparse arrays, and arrays whose finite numbers are all equal, have none.
    """
    low, high = statistics.min, statistics.max
    if record.storage != "default" or low is None or high is None or not 0 < high - low < np.inf:
        return []
    counts = np.zeros(bins, np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        for row in read_rows(reader, record, noop_progress):
            places = (row.astype(np.float64) - low) * (bins / (high - low))
            places = places[np.isfinite(places)].astype(np.int64)
            # The largest number lies on the right edge of the last bin.
            counts += np.bincount(np.clip(places, 0, bins - 1), minlength=bins)
    return [int(count) for count in counts]


class _Moments:
    """Running sums; the deviation is corrected piece by piece, so that a large mean does not drown
    it.
    """

    def __init__(self) -> None:
        self.low, self.high = np.inf, -np.inf
        self.count, self.mean, self.squares, self.length = 0, 0.0, 0.0, 0.0
        self.zeros = self.nans = self.infinities = 0

    def add(self, row: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
        nans = np.isnan(row)
        finite = np.isfinite(row)
        self.nans += int(nans.sum())
        self.infinities += int((~finite & ~nans).sum())
        self.zeros += int((row == 0).sum())
        row = row[finite] if not finite.all() else row
        if row.size:
            self.low, self.high = min(self.low, float(row.min())), max(self.high, float(row.max()))
            # np.dot would wake BLAS's threads for every row, and on a busy machine they wait for
            # each other.
            self.length += float(np.square(row).sum())
            mean = float(row.mean())
            self._join(row.size, mean, float(((row - mean) ** 2).sum()))

    def add_zeros(self, count: int) -> None:
        self.zeros += count
        self.low, self.high = min(self.low, 0.0), max(self.high, 0.0)
        self._join(count, 0.0, 0.0)

    def _join(self, count: int, mean: float, squares: float) -> None:
        # The update of Chan, Golub and LeVeque for mean and squared deviations of two parts.
        both = self.count + count
        away = mean - self.mean
        self.squares += squares + away * away * self.count * count / both
        self.mean += away * count / both
        self.count = both

    def finish(self, total: int, stored: int | None) -> Statistics:
        """A sum that overflows becomes None."""

        def number(value: float) -> float | None:
            return value if self.count and np.isfinite(value) else None

        return Statistics(
            count=total,
            min=number(self.low),
            max=number(self.high),
            mean=number(self.mean),
            std=number(sqrt(self.squares / self.count) if self.count else 0.0),
            norm=number(sqrt(self.length)),
            zeros=self.zeros,
            nans=self.nans,
            infinities=self.infinities,
            stored=stored,
        )
