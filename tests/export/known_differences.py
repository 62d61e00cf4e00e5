"""Recorded cases in which onnxruntime may differ from MXNet, each with the evidence. An entry in vain is a failure."""

from __future__ import annotations

from typing import NamedTuple

from tests.elementwise import Tolerance


class Difference(NamedTuple):
    """Why a case differs, and how it is judged instead.

    ``tolerance`` takes the place of the case's own. With ``reference`` onnx's reference evaluator
    computes the model; with ``ordinary_only`` elements are compared where neither side is NaN or as
    large as the largest number or larger.
    """

    reason: str
    tolerance: Tolerance | None = None
    reference: bool = False
    ordinary_only: bool = False


NAN_IN_WINDOW = Difference(
    "ONNX leaves open what MaxPool, GlobalMaxPool and ReduceMax make of NaN: MXNet's Pooling "
    "ignores it and returns the least "
    "finite number for windows of nothing else or of -inf, its Pooling_v1 returns NaN, and "
    "MaxPool of onnxruntime one or the "
    "other, by the width of its vectors",
    ordinary_only=True,
)

NAN_IN_REDUCTION = Difference(
    "ONNX leaves open what ReduceMax, ReduceMin, ArgMax and ArgMin make of NaN: MXNet and the "
    "reference evaluator return it or "
    "its place, onnxruntime ignores it",
    reference=True,
)

SMALL_SIGMOID = Difference(
    "onnxruntime's Sigmoid of float32 is a rational function with an absolute error of 4e-8, seen in results near 1e-6",
    tolerance=Tolerance(1e-7, 1e-5),
)

_SMALL_SELU = Difference(
    "onnxruntime subtracts 1 from exp(x) in float32, as ONNX's definition of Selu reads; MXNet "
    "has expm1, which keeps the last "
    "digits near 0",
    tolerance=Tolerance(1e-7, 1e-5),
)

KNOWN: dict[str, Difference] = {
    **{f"pooling-{number}-Pooling": NAN_IN_WINDOW for number in (67, 68, 69, 71, 73, 74, 75)},
    **{f"pooling-{number}-Pooling_v1": NAN_IN_WINDOW for number in (76, 78, 79, 81, 82, 83, 84)},
    **{
        f"reduction-{case}": NAN_IN_REDUCTION
        for case in ("211-max", "212-min", "314-argmax", "315-argmin")
    },
    **{f"magnitudes-{case}": SMALL_SIGMOID for case in ("96-Activation", "114-sigmoid")},
    "magnitudes-108-LeakyReLU": _SMALL_SELU,
}
"""By the id of the case in ``test_recorded.py``: family, number, operator."""
