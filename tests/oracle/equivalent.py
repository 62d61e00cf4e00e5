"""Results that have no single answer: two factorizations of a matrix are both right if both give the matrix again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

RTOL = 1e-3
"""Of the largest number of the matrix: float32 through a factorization and back."""


def _from_svd(a: Any, left: Any, values: Any, right: Any) -> tuple[Any, ...]:
    return left * values[..., None, :] @ right, np.matmul(left, left.swapaxes(-1, -2))


def _from_eigenvectors(a: Any, values: Any, vectors: Any) -> tuple[Any, ...]:
    """The products of the matrix and its eigenvectors, less the scaled vectors: the matrix less zeros."""
    return a - (a @ vectors - vectors * values[..., None, :]), np.square(vectors).sum(axis=-2)


def _from_symmetric_rows(a: Any, rows: Any, values: Any) -> tuple[Any, ...]:
    return (
        rows.swapaxes(-1, -2) * values[..., None, :] @ rows,
        np.matmul(rows, rows.swapaxes(-1, -2)),
    )


def _from_lq(a: Any, q: Any, low: Any) -> tuple[Any, ...]:
    return low @ q, np.matmul(q, q.swapaxes(-1, -2))


REBUILT: dict[str, Callable[..., tuple[Any, ...]]] = {
    "_npi_svd": _from_svd,
    "_npi_eig": _from_eigenvectors,
    "_linalg_syevd": _from_symmetric_rows,
    "_npi_eigh": lambda a, values, vectors: _from_symmetric_rows(
        a, vectors.swapaxes(-1, -2), values
    ),
    "_linalg_gelqf": _from_lq,
}
"""What follows from the matrix and the outputs whatever the signs of vectors, and their choice for equal values."""

VALUES = {"_npi_svd": 1, "_npi_eig": 0, "_linalg_syevd": 1, "_npi_eigh": 0}
"""The output with the values, which are unique but for their order."""


def are_equivalent(
    case: dict[str, Any], inputs: list[Any], got: list[Any], want: list[Any]
) -> bool:
    """Whether two answers factorize the same matrix: equal values, and both give the matrix again."""
    rebuild = REBUILT.get(case["op"])
    if rebuild is None or any(
        a.shape != b.shape or a.dtype != b.dtype for a, b in zip(got, want, strict=True)
    ):
        return False
    wide = [[x.astype(np.float64) for x in outputs] for outputs in (got, want)]
    a = inputs[0].astype(np.float64)
    if case["op"] in ("_linalg_syevd", "_npi_eigh"):  # both read one triangle only
        low = case["attrs"].get("UPLO", "L") == "L" or case["op"] == "_linalg_syevd"
        half = np.tril(a) if low else np.triu(a)
        a = half + half.swapaxes(-1, -2) - half * np.eye(a.shape[-1])
    least = RTOL * max(1.0, float(abs(a).max(initial=0)))
    place = VALUES.get(case["op"])
    if place is not None and not np.allclose(
        *(np.sort(x[place], axis=-1) for x in wide), rtol=RTOL, atol=least
    ):
        return False
    return all(
        np.allclose(x, y, rtol=RTOL, atol=least)
        for x, y in zip(*(rebuild(a, *outputs) for outputs in wide), strict=True)
    )
