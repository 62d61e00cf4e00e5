"""Forward passes of output layers and losses. Labels usually affect only the gradients."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from graphshare.ops.activation.kernel import sigmoid
from graphshare.ops.buffers import reuse_buffer
from graphshare.ops.conversion import convert, to_floating
from graphshare.ops.kernel import Array, Attrs, Context, Forward, Kernel, KernelError, Shape, Shapes
from graphshare.ops.limits import Limits, with_limits
from graphshare.ops.loss.ctc import KERNELS as CTC_KERNELS
from graphshare.ops.loss.hawkes import KERNELS as HAWKES_KERNELS
from graphshare.ops.softmax.kernel import log_softmax_along, softmax_along
from graphshare.ops.unification import dims_of_rank, is_known, same_floating_dtypes, same_shapes, size_of, unify
from graphshare.text.format import format_shape


def softmax_output(context: Context, attrs: Attrs, x: Array, label: Array) -> Array:
    """Return the softmax over axis 1 (``multi_output``), the last axis (``preserve_shape``), or each sample as a whole.

    Without either flag the fast path of MXNet's default build takes the last axis instead: at inference on float32 with 1, 2 or
    4 axes. For two axes there is no difference.

    Raises:
        KernelError: ``multi_output`` with data of one axis, whose shapes MXNet infers too where labels have the shape of data.
    """
    if attrs["multi_output"]:
        _require_axis(x.shape)
        return _softmax(context, x, 1)
    fast = not context.training and x.dtype == np.float32 and x.ndim in (1, 2, 4)
    if attrs["preserve_shape"] or fast:
        return _softmax(context, x, -1)
    return _softmax(context, x.reshape(x.shape[0], -1), -1).reshape(x.shape)


def _require_axis(data: Sequence[int | None]) -> None:
    if len(data) < 2:
        raise KernelError(f"data {format_shape(data)} has no axis 1 for multi_output")


def _softmax(context: Context, x: Array, axis: int) -> Array:
    data = to_floating(x)
    return convert(softmax_along(data, axis, reuse_buffer(context, x) if data is x else None), x.dtype)


def _infer_softmax_output_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the label: the shape of the data (probabilities) or one class for each softmax."""
    data, label = unify(inputs[0], outputs[0]), inputs[1]
    if data is None:
        return [data, label], [data]
    if label is not None and len(label) == len(data) and _fits(label, data):
        return [data, unify(label, data) if not attrs["multi_output"] else label], [data]
    if not attrs["multi_output"]:
        return [data, _unify_label(label, data[:-1])], [data]
    _require_axis(data)
    flat = (data[0], prod(d for d in data[2:] if d is not None) if is_known(data[2:]) else None)
    forms: list[Shape] = [flat, (data[0], *data[2:]), (data[0], 1, *data[2:])]
    if label is None:
        return [data, flat], [data]
    if any(_fits(label, form) for form in forms):
        return [data, label], [data]
    raise KernelError(
        f"label is {format_shape(label)}, expected {format_shape(forms[0])}, {format_shape(forms[1])} or the shape of data, "
        f"{format_shape(data)}"
    )


def _fits(a: Shape, b: Shape) -> bool:
    try:
        unify(a, b)
    except KernelError:
        return False
    return True


def _unify_label(label: Shape, expected: Shape) -> Shape:
    if not _fits(label, expected):
        raise KernelError(f"label is {format_shape(label)}, expected {format_shape(expected)}")
    return unify(label, expected)


def _return_data(context: Context, attrs: Attrs, x: Array, label: Array) -> Array:
    return x


def _logistic(context: Context, attrs: Attrs, x: Array, label: Array) -> Array:
    return sigmoid(context, attrs, x)


def _infer_regression_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the shape of the data for the label; for ``(N, 1)`` infer ``(N,)``."""
    data, label = unify(inputs[0], outputs[0]), inputs[1]
    if data is None:
        return [data, label], [data]
    if len(data) == 2 and data[1] == 1 and (label is None or len(label) == 1):
        return [data, _unify_label(label, (data[0],))], [data]
    if label is not None and is_known(label) and is_known(data) and data[0] == label[0] and size_of(label) == size_of(data):
        return [data, label], [data]
    return [data, _unify_label(label, data)], [data]


def _infer_svm_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    data = unify(inputs[0], outputs[0])
    return [data, inputs[1] if data is None else _unify_label(inputs[1], data[:-1])], [data]


def make_loss(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return ``x``."""
    return x


def softmax_cross_entropy(context: Context, attrs: Attrs, x: Array, label: Array) -> Array:
    """Return the sum over the samples of -log(probability of the label), with probabilities of at least 1e-8."""
    classes = convert(label, np.int64)
    if classes.size and not (classes.min() >= 0 and classes.max() < x.shape[1]):
        raise KernelError(f"labels are from {classes.min()} to {classes.max()}, expected 0 to {x.shape[1] - 1}")
    chosen = np.take_along_axis(log_softmax_along(to_floating(x), 1), classes[:, None], 1)
    least = np.log(np.asarray(1e-8, chosen.dtype))
    return convert(-np.sum(np.maximum(chosen, least), dtype=np.float64).reshape(1), x.dtype)


def _infer_cross_entropy_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    data, label = dims_of_rank(inputs[0], 2), dims_of_rank(inputs[1], 1)
    (samples,) = _unify_label(label, data[:1]) or (None,)
    return [(samples, data[1]), (samples,)], [(1,)]


def _kernel(operator: str, forward: Forward, shapes: Any) -> Kernel:
    return Kernel(operator, forward, shapes, same_floating_dtypes)


KERNELS = with_limits(
    Limits(rank=1, elements=True),
    _kernel("SoftmaxOutput", softmax_output, _infer_softmax_output_shapes),
    _kernel("LinearRegressionOutput", _return_data, _infer_regression_shapes),
    _kernel("MAERegressionOutput", _return_data, _infer_regression_shapes),
    _kernel("LogisticRegressionOutput", _logistic, _infer_regression_shapes),
    _kernel("SVMOutput", _return_data, _infer_svm_shapes),
    _kernel("MakeLoss", make_loss, same_shapes),
    _kernel("softmax_cross_entropy", softmax_cross_entropy, _infer_cross_entropy_shapes),
    *CTC_KERNELS,
    *HAWKES_KERNELS,
)
