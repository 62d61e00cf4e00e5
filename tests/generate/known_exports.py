"""Differences between onnxruntime and the executor that are nobody's fault, each with its evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.elementwise import describe_mismatch
from tests.export.known_differences import NAN_IN_REDUCTION, NAN_IN_WINDOW, SMALL_SIGMOID

_OF_NAN = {
    **dict.fromkeys(("Pooling", "Pooling_v1"), NAN_IN_WINDOW.reason),
    **dict.fromkeys(
        ("argmax", "argmin", "argmax_channel", "max", "min", "_np_max", "_np_min"),
        NAN_IN_REDUCTION.reason,
    ),
    **dict.fromkeys(("_npi_argmax", "_npi_argmin"), NAN_IN_REDUCTION.reason),
}
_PRODUCT = "ONNX leaves open what becomes of a product that leaves an integer's range; onnxruntime saturates"
_NO_INVERSE = (
    "a matrix that is singular up to rounding has a determinant of 0 or a tiny one of either sign"
)


_TRUNCATED = (
    "a density among whole numbers is truncated, and a last digit of its logarithm becomes one"
)
NOT_ROUNDED = (
    "onnxruntime computes chains of float16 in float32: a value need not follow from the rounded "
    "values before it"
)
_ROUNDING = "rounding: a last digit of the inputs moves the executor's result as far"
_DRAWS, _TIMES = 4, 4.0
Compute = Callable[[Sequence[Any]], Any]
"""Computes the output with the executor, on other inputs."""


def known_reason(
    op: str,
    attrs: Mapping[str, str],
    inputs: Sequence[Any],
    got: Any,
    want: Any,
    compute: Compute | None = None,
) -> str:
    """Return why an operator may differ on these inputs; empty where it may not. ``compute`` is the executor."""
    floats = [x for x in inputs if x.dtype.kind == "f"]
    if op in _OF_NAN and not all(np.isfinite(x).all() for x in floats):
        return (
            _OF_NAN[op] if compute is None or _is_near_elsewhere(inputs, got, want, compute) else ""
        )
    if (
        compute is not None
        and floats
        and want.dtype.kind == "f"
        and _is_rounding(inputs, got, want, compute)
    ):
        return _ROUNDING
    if op in ("_linalg_det", "_linalg_slogdet") and np.any(
        np.linalg.cond(inputs[0].astype(np.float64)) > 1e7
    ):
        return _NO_INVERSE
    if (
        op in ("prod", "nanprod", "_np_prod")
        and want.dtype.kind in "iu"
        and _overflows(inputs[0], want)
    ):
        return _PRODUCT
    if op.startswith("_random_pdf_") and want.dtype.kind in "iu" and got.shape == want.shape:
        return _TRUNCATED if np.abs(got - want).max(initial=0) <= 1 else ""
    if op == "sigmoid" or attrs.get("act_type") == "sigmoid":
        return (
            SMALL_SIGMOID.reason
            if describe_mismatch(got, want, SMALL_SIGMOID.tolerance) is None
            else ""
        )
    return ""


def _is_near_elsewhere(inputs: Sequence[Any], got: Any, want: Any, compute: Compute) -> bool:
    """Return whether outputs are near that do not depend on NaN or infinities: whatever number
    stands in their place.
    """
    by_number = []
    for number in (0, 1e4, -1e4):
        replaced = [
            np.where(np.isfinite(x), x, number).astype(x.dtype) if x.dtype.kind == "f" else x
            for x in inputs
        ]
        by_number.append(compute(replaced))
    apart = np.equal(by_number[0], by_number[1]) & np.equal(by_number[0], by_number[2])
    return describe_mismatch(got[apart], want[apart]) is None


def _is_rounding(inputs: Sequence[Any], got: Any, want: Any, compute: Compute) -> bool:
    """Return whether the outputs differ by no more than noise in the last digit of the inputs changes them."""
    if not (np.isfinite(got).all() and np.isfinite(want).all()):
        return False
    stream, moved = np.random.default_rng(0), 0.0
    with np.errstate(all="ignore"):
        for _ in range(_DRAWS):
            noisy = [_add_noise(stream, x) if x.dtype.kind == "f" else x for x in inputs]
            moved = max(
                moved,
                float(np.abs(np.subtract(compute(noisy), want, dtype=np.float64)).max(initial=0)),
            )
    return bool(np.abs(np.subtract(got, want, dtype=np.float64)).max(initial=0) <= _TIMES * moved)


def _add_noise(stream: np.random.Generator, x: Any) -> Any:
    noisy = x * (1 + np.finfo(x.dtype).eps * stream.standard_normal(x.shape))
    return np.where(x == np.rint(x), x, noisy).astype(x.dtype)  # whole numbers may be indices


def _overflows(x: Any, want: Any) -> bool:
    """Return whether a product may leave the range in which onnxruntime computes, int32 for narrow integers."""
    sizes = np.sort(np.abs(x.astype(np.float64)).ravel())[::-1]
    with np.errstate(over="ignore"):
        largest = np.prod(np.maximum(sizes[: max(1, x.size // max(1, want.size))], 1))
    return bool(largest > np.iinfo(np.int64 if want.dtype == np.int64 else np.int32).max)
