"""Outputs as sets of rows: what a list of detections is held against where equal scores may stand in either order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Operators that order boxes by score: a rounding of the last bit puts two of nearly equal scores the other way round.
ORDERING = frozenset(
    {
        "_contrib_box_nms",
        "_contrib_MultiBoxDetection",
        "_contrib_Proposal",
        "_contrib_MultiProposal",
    }
)


def difference_of_sets(got: Sequence[Any], wanted: Sequence[Any]) -> float:
    """The largest difference, relative to each output's largest value, of rows paired wherever they stand.

    Outputs of shape ``(batch, N, ...)`` with one N are columns of the same N rows. Infinite where rows find no partner.
    """
    worst = 0.0
    for columns in _grouped(got, wanted):
        ours, theirs = (
            _table([side[i] for i in columns], [wanted[i] for i in columns])
            for side in (got, wanted)
        )
        if ours is None or theirs is None or ours.shape != theirs.shape:
            return float("inf")
        for mine, other in zip(ours, theirs, strict=True):
            worst = max(worst, _paired(mine, other))
    return worst


def _grouped(got: Sequence[Any], wanted: Sequence[Any]) -> list[list[int]]:
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, array in enumerate(wanted):
        groups.setdefault(tuple(array.shape[:2]), []).append(i)
    return list(groups.values())


def _table(arrays: Sequence[Any], scales: Sequence[Any]) -> NDArray[Any] | None:
    """Rows (batch, N, all columns), each array divided by the largest finite value of its scale."""
    parts = []
    for array, scale in zip(arrays, scales, strict=True):
        if array.ndim < 2 or array.shape != scale.shape:
            return None
        finite = np.abs(np.asarray(scale, "float64"))
        largest = finite[np.isfinite(finite)].max(initial=0) or 1
        parts.append(np.asarray(array, "float64").reshape(*array.shape[:2], -1) / largest)
    return np.concatenate(parts, axis=2)


def _paired(mine: NDArray[Any], other: NDArray[Any], near: float = 1e-3) -> float:
    """The largest difference of rows; those apart by more than ``near`` in their places look for partners elsewhere."""
    apart = np.abs(_finite(mine) - _finite(other)).max(axis=1)
    apart[(np.isfinite(mine) != np.isfinite(other)).any(axis=1)] = np.inf
    moved = apart > near
    worst = float(apart[~moved].max(initial=0))
    left = list(mine[moved])
    for row in other[moved]:
        distances = [
            np.abs(_finite(row) - _finite(x)).max()
            if np.array_equal(np.isfinite(row), np.isfinite(x))
            else np.inf
            for x in left
        ]
        best = int(np.argmin(distances))
        worst = max(worst, float(distances[best]))
        left.pop(best)
    return worst


def _finite(x: NDArray[Any]) -> NDArray[Any]:
    return np.where(np.isfinite(x), x, 0)
