"""Differences between onnxruntime and the executor that are nobody's fault, each with its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.elementwise import describe_mismatch
from tests.export.known_differences import NAN_IN_REDUCTION, NAN_IN_WINDOW, SMALL_SIGMOID

_OF_NAN = {
    **dict.fromkeys(("Pooling", "Pooling_v1"), NAN_IN_WINDOW.reason),
    **dict.fromkeys(("argmax", "argmin", "argmax_channel", "max", "min", "_np_max", "_np_min"), NAN_IN_REDUCTION.reason),
    **dict.fromkeys(("_npi_argmax", "_npi_argmin"), NAN_IN_REDUCTION.reason),
}
_PRODUCT = "ONNX leaves open what becomes of a product that leaves an integer's range; onnxruntime saturates"
_NO_INVERSE = "a matrix that is singular up to rounding has a determinant of 0 or a tiny one of either sign"


def known_reason(op: str, attrs: Mapping[str, str], inputs: Sequence[Any], got: Any, want: Any) -> str:
    """Return why an operator may differ on these inputs; empty where it may not."""
    floats = [x for x in inputs if x.dtype.kind == "f"]
    if op in _OF_NAN and not all(np.isfinite(x).all() for x in floats):
        return _OF_NAN[op]
    if op in ("_linalg_det", "_linalg_slogdet") and np.any(np.linalg.cond(inputs[0].astype(np.float64)) > 1e7):
        return _NO_INVERSE
    if op in ("prod", "nanprod", "_np_prod") and want.dtype.kind in "iu" and _overflows(inputs[0], want):
        return _PRODUCT
    if op == "sigmoid" or attrs.get("act_type") == "sigmoid":
        return SMALL_SIGMOID.reason if describe_mismatch(got, want, SMALL_SIGMOID.tolerance) is None else ""
    return ""


def _overflows(x: Any, want: Any) -> bool:
    """Return whether a product may leave the range in which onnxruntime computes, int32 for narrow integers."""
    sizes = np.sort(np.abs(x.astype(np.float64)).ravel())[::-1]
    with np.errstate(over="ignore"):
        largest = np.prod(np.maximum(sizes[: max(1, x.size // max(1, want.size))], 1))
    return bool(largest > np.iinfo(np.int64 if want.dtype == np.int64 else np.int32).max)
