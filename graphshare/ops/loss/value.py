"""The values of losses, from an output layer's predictions and the label."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from graphshare.ops.conversion import convert
from graphshare.ops.kernel import Array, Attrs


class LossValue(NamedTuple):
    """A loss as a number: the mean of ``measure`` over samples (and positions)."""

    measure: str
    value: float


def measure_loss(op: str, attrs: Attrs, output: Array, label: Array | None) -> LossValue:
    """Return the loss of head ``op``; without a formula or label, the mean of ``output``."""
    measure, compute = _MEASURES.get(op, ("mean", None))
    values = output.astype(np.float64)
    if compute is None or label is None:
        return LossValue("mean", float(values.mean()) if values.size else float("nan"))
    # A probability rounded to 0 would make the loss infinite.
    floor = np.finfo(output.dtype).tiny if np.issubdtype(output.dtype, np.floating) else 0.0
    return LossValue(measure, float(compute(attrs, values, label, float(floor))))


def shape_classes(attrs: Attrs, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return SoftmaxOutput's (samples, classes, positions) for ``shape``.

    Without a flag each sample is one softmax.
    """
    if attrs["multi_output"]:
        return shape[0], shape[1], -1
    if attrs["preserve_shape"]:
        return int(np.prod(shape[:-1])), shape[-1], 1
    return shape[0], -1, 1


def view_labels(attrs: Attrs, label: Array, samples: int) -> Array:
    """Return class labels as (samples, 1, positions)."""
    labels = (
        label if attrs["multi_output"] or attrs["preserve_shape"] else label.reshape(-1)[:samples]
    )
    return convert(labels, np.int64).reshape(samples, 1, -1)


def _softmax_cross_entropy(attrs: Attrs, p: Array, label: Array, floor: float) -> Any:
    view = np.log(np.maximum(p.reshape(shape_classes(attrs, p.shape)), floor))
    if label.shape == p.shape:
        return -(view * label.reshape(view.shape)).sum(axis=1).mean()
    classes = view_labels(attrs, label, len(view))
    counts = (classes >= 0) & (classes < view.shape[1])
    if attrs["use_ignore"]:
        counts &= classes != int(attrs["ignore_label"])
    chosen = np.take_along_axis(view, np.where(counts, classes, 0), axis=1)
    return -chosen[counts].mean() if counts.any() else float("nan")


def _binary_cross_entropy(attrs: Attrs, p: Array, label: Array, floor: float) -> Any:
    y = label.reshape(p.shape)
    return -(y * np.log(np.maximum(p, floor)) + (1 - y) * np.log(np.maximum(1 - p, floor))).mean()


_MEASURES: dict[str, tuple[str, Callable[[Attrs, Array, Array, float], Any]]] = {
    "SoftmaxOutput": ("cross entropy", _softmax_cross_entropy),
    "LogisticRegressionOutput": ("cross entropy", _binary_cross_entropy),
    "LinearRegressionOutput": (
        "squared error",
        lambda attrs, p, label, floor: np.square(p - label.reshape(p.shape)).mean(),
    ),
    "MAERegressionOutput": (
        "absolute error",
        lambda attrs, p, label, floor: np.abs(p - label.reshape(p.shape)).mean(),
    ),
}
