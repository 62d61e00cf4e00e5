"""Gradients of output layers: MXNet's own rules, which are not derivatives of what these operators output.

All but ``softmax_cross_entropy`` ignore the gradient of their output, so a backward pass can start at them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphshare.gradients.gradient import Gradient, Record
from graphshare.kernels.conversion import convert
from graphshare.kernels.kernel import Array, Attrs


def make_loss(record: Record, dy: Array) -> Array:
    """``grad_scale`` everywhere, divided by the samples (``batch``) or by the values above ``valid_thresh`` (``valid``)."""
    (x,) = record.inputs
    scale = record.attrs["grad_scale"]
    if record.attrs["normalization"] == "batch":
        scale /= x.shape[0]
    elif record.attrs["normalization"] == "valid":
        scale /= max(1, np.count_nonzero(x > record.attrs["valid_thresh"]))
    return np.full_like(x, scale)


def softmax_output(record: Record, dy: Array) -> Array:
    """``p`` less the wished probabilities, scaled; ``out_grad`` multiplies by the output, which is what MXNet does."""
    attrs, (x, label), p = record.attrs, record.inputs, record.outputs[0]
    if label.shape == x.shape:
        result: Array = (p - label) * p.dtype.type(attrs["grad_scale"])
    else:
        result = _by_class(attrs, p, label)
    if attrs["out_grad"]:
        result = result * p
    return result.astype(x.dtype, copy=False)


def _by_class(attrs: Attrs, p: Array, label: Array) -> Array:
    """The softmax's axis is 1 in a view of three: samples, classes, places.

    Without a flag a sample is one softmax whatever its axes, and of the labels only as many count as there are samples.
    """
    if attrs["multi_output"]:
        shape: tuple[int, ...] = (p.shape[0], p.shape[1], -1)
    elif attrs["preserve_shape"]:
        shape = (p.size // p.shape[-1], p.shape[-1], 1)
    else:
        shape = (p.shape[0], -1, 1)
    view: Array = p.reshape(shape)
    given = label if attrs["multi_output"] or attrs["preserve_shape"] else label.reshape(-1)[: len(view)]
    classes = convert(given, np.int64).reshape(view.shape[0], 1, -1)
    count, smoothed = view.shape[1], 0.0 if attrs["multi_output"] else attrs["smooth_alpha"]  # MXNet has it for one axis only
    hit = np.arange(count).reshape(1, -1, 1) == classes
    target = np.where(hit, 1 - smoothed, smoothed / (count - 1) if count > 1 else 0).astype(p.dtype)
    result: Array = view - target
    ignored = classes == int(attrs["ignore_label"])
    if attrs["use_ignore"]:
        result = np.where(ignored, p.dtype.type(0), result)
    scale = attrs["grad_scale"]
    if attrs["normalization"] == "batch":
        scale /= label.size if not attrs["multi_output"] else view.shape[0]
    elif attrs["normalization"] == "valid":
        scale /= max(1, np.count_nonzero(convert(label, np.int64) != int(attrs["ignore_label"])))
    if attrs["multi_output"] and attrs["normalization"] != "valid":
        scale /= view.shape[2]
    return np.asarray((result * p.dtype.type(scale)).reshape(p.shape))


def _regression(difference: Any) -> Any:
    def vjp(record: Record, dy: Array) -> Array:
        x, label = record.inputs
        per_sample = max(1, label.size // max(1, label.shape[0]))
        scale = record.attrs["grad_scale"] / per_sample
        result: Array = difference(record.outputs[0], label.reshape(x.shape)) * x.dtype.type(scale)
        return result

    return vjp


def svm_output(record: Record, dy: Array) -> Array:
    """Hinge loss against every other class, squared unless ``use_linear``."""
    x, label = record.inputs
    margin, scale = x.dtype.type(record.attrs["margin"]), x.dtype.type(record.attrs["regularization_coefficient"])
    hit = np.arange(x.shape[1]) == convert(label, np.int64)[:, None]
    if record.attrs["use_linear"]:
        inner = np.where(hit, -(margin > x).astype(x.dtype), (margin > -x).astype(x.dtype))
    else:
        inner = np.where(hit, -2 * np.maximum(margin - x, 0), 2 * np.maximum(margin + x, 0))
    return np.asarray((inner * scale).astype(x.dtype))


def softmax_cross_entropy(record: Record, dy: Array) -> Array:
    """The head gradient times ``p - onehot``."""
    from graphshare.kernels.softmax import softmax_along

    x, label = record.inputs
    p = softmax_along(x, 1)
    np.subtract.at(p, (np.arange(len(p)), convert(label, np.int64)), x.dtype.type(1))
    return p * dy.reshape(())


GRADIENTS = (
    Gradient("MakeLoss", make_loss, reads_outputs=False, is_loss=True),
    Gradient("SoftmaxOutput", softmax_output, is_loss=True),
    Gradient("LinearRegressionOutput", _regression(np.subtract), is_loss=True),
    Gradient("LogisticRegressionOutput", _regression(np.subtract), is_loss=True),
    Gradient("MAERegressionOutput", _regression(lambda x, y: np.sign(x - y)), is_loss=True),
    Gradient("SVMOutput", svm_output, is_loss=True),
    Gradient("softmax_cross_entropy", softmax_cross_entropy, reads_outputs=False),
)
