"""Gradients of losses. Output layers ignore the gradient of their output."""

from __future__ import annotations

from math import ceil, prod
from typing import Any

import numpy as np

from graphshare.ops.conversion import convert
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array, Attrs
from graphshare.ops.loss.ctc import advance_paths, extend_label, read_labels
from graphshare.ops.loss.value import shape_classes, view_labels
from graphshare.ops.softmax.kernel import log_softmax_along, softmax_along


def ctc_loss(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Return the softmax minus the posterior of each class, times the head gradient; 0 if the label is too long."""
    data = entry.inputs[0]
    times, words, blank = read_labels(entry.attrs, *entry.inputs)
    logs = log_softmax_along(data.astype(np.float64), 2)
    dx: Array = np.zeros(data.shape, np.float64)
    for n, (steps, word) in enumerate(zip(times, words, strict=True)):
        dx[:steps, n] = _sample_gradient(logs[:steps, n], word, blank) * float(dy[n])
    return dx.astype(data.dtype)


def _sample_gradient(logs: Array, word: Array, blank: int) -> Array:
    """Return the gradient of one sample, ``logs`` (T, C), by forward and backward recursions over the extended word."""
    if len(logs) < len(word) + int(np.sum(word[1:] == word[:-1])):
        return np.zeros_like(logs)
    path, may_skip = extend_label(word, blank)
    here = logs[:, path]
    ahead, behind = np.full(here.shape, -np.inf), np.full(here.shape, -np.inf)
    ahead[0, :2], behind[-1, -2:] = here[0, :2], 0
    for t in range(1, len(here)):
        ahead[t] = advance_paths(ahead[t - 1], may_skip) + here[t]
    for t in reversed(range(len(here) - 1)):
        back = (behind[t + 1] + here[t + 1])[::-1]
        skips = np.concatenate((may_skip[2:][::-1], [False, False]))[: len(path)]
        behind[t] = advance_paths(back, np.concatenate(([False, False], skips))[: len(path)])[::-1]
    whole = np.logaddexp.reduce(ahead[-1, -2:])
    posterior = np.zeros_like(logs)
    share = np.exp(ahead + behind - whole)
    for place, label in enumerate(path):
        posterior[:, label] += share[:, place]
    return np.asarray(np.exp(logs) - posterior)


def log_likelihood(entry: TapeEntry, dy: Array, dmemory: Array | None = None) -> Gradients:
    """Return the gradients of rates, branching ratios and decays, event by event in the order of the forward pass."""
    rates, ratios, decays, state, lags, marks, counts, ends = entry.inputs
    number = lags.dtype.type
    drates, dratios, ddecays = (np.zeros_like(x) for x in (rates, ratios, decays))
    for i in range(len(lags)):
        memory, slope = state[i].copy(), np.zeros_like(decays)
        last, now = np.zeros_like(decays), number(0)
        by_rate, by_ratio, by_decay = (np.zeros_like(decays) for _ in range(3))
        for lag, k in zip(lags[i, : ceil(counts[i])], marks[i], strict=False):
            now = now + lag
            wait = now - last[k]
            fading = np.exp(-decays[k] * wait)
            rate = rates[i, k] + ratios[k] * decays[k] * memory[k] * fading
            by_rate[k] += 1 / rate - wait
            by_ratio[k] += decays[k] * memory[k] * fading / rate - memory[k] * (1 - fading)
            excited = memory[k] * (1 - decays[k] * wait) + decays[k] * slope[k]
            by_decay[k] += ratios[k] * (fading * excited / rate - slope[k] * (1 - fading) - memory[k] * wait * fading)
            slope[k] = fading * (slope[k] - wait * memory[k])
            memory[k] = 1 + memory[k] * fading
            last[k] = now
        wait = ends[i] - last
        fading = np.exp(-decays * wait)
        by_rate -= wait
        by_ratio -= memory * (1 - fading)
        by_decay -= ratios * (slope * (1 - fading) + memory * wait * fading)
        drates[i] = dy[i] * by_rate
        dratios += dy[i] * by_ratio
        ddecays += dy[i] * by_decay
    return [drates, dratios, ddecays]


def make_loss(entry: TapeEntry, dy: Array) -> Array:
    """Return ``grad_scale``, divided by the number of rows (``batch``) or of values above ``valid_thresh`` (``valid``).

    As in MXNet the rows are all along the last axis, not the samples of the first; one axis is one row.
    """
    (x,) = entry.inputs
    scale = entry.attrs["grad_scale"]
    if entry.attrs["normalization"] == "batch":
        scale /= max(1, prod(x.shape[:-1]))
    elif entry.attrs["normalization"] == "valid":
        scale /= max(1, np.count_nonzero(x > entry.attrs["valid_thresh"]))
    return np.full_like(x, scale)


def softmax_output(entry: TapeEntry, dy: Array) -> Array:
    """Return ``p`` minus the target probabilities, scaled; ``out_grad`` multiplies by the output, as in MXNet."""
    attrs, (x, label), p = entry.attrs, entry.inputs, entry.outputs[0]
    if label.shape == x.shape:
        result: Array = (p - label) * p.dtype.type(attrs["grad_scale"])
    else:
        result = _class_gradient(attrs, p, label)
    if attrs["out_grad"]:
        result = result * p
    return result.astype(x.dtype, copy=False)


def _class_gradient(attrs: Attrs, p: Array, label: Array) -> Array:
    """Return the gradient for labels that are classes, in a view of samples, classes and positions."""
    view: Array = p.reshape(shape_classes(attrs, p.shape))
    classes = view_labels(attrs, label, len(view))
    count, alpha = view.shape[1], 0.0 if attrs["multi_output"] else attrs["smooth_alpha"]  # as in MXNet
    hit = np.arange(count).reshape(1, -1, 1) == classes
    target = np.where(hit, 1 - alpha, alpha / (count - 1) if count > 1 else 0).astype(p.dtype)
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


def _regression_vjp(difference: Any) -> Any:
    def vjp(entry: TapeEntry, dy: Array) -> Array:
        x, label = entry.inputs
        per_sample = max(1, label.size // max(1, label.shape[0]))
        scale = entry.attrs["grad_scale"] / per_sample
        result: Array = difference(entry.outputs[0], label.reshape(x.shape)) * x.dtype.type(scale)
        return result

    return vjp


def _sign_of_difference(x: Array, label: Array) -> Array:
    """Return 1 above the label, else -1, also where both are equal."""
    return np.asarray(np.where(x > label, x.dtype.type(1), x.dtype.type(-1)))


def svm_output(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient of the hinge loss, squared unless ``use_linear``; classes are on the last axis."""
    x, label = entry.inputs
    margin, scale = x.dtype.type(entry.attrs["margin"]), x.dtype.type(entry.attrs["regularization_coefficient"])
    shape, x = x.shape, x.reshape(-1, x.shape[-1])
    hit = np.arange(x.shape[1]) == convert(label, np.int64).reshape(-1, 1)
    if entry.attrs["use_linear"]:
        inner = np.where(hit, -(margin > x).astype(x.dtype), (margin > -x).astype(x.dtype))
    else:
        inner = np.where(hit, -2 * np.maximum(margin - x, 0), 2 * np.maximum(margin + x, 0))
    result: Array = (inner * scale).astype(x.dtype).reshape(shape)
    return result


def softmax_cross_entropy(entry: TapeEntry, dy: Array) -> Array:
    """Return the head gradient times ``p - onehot``."""
    x, label = entry.inputs
    p = softmax_along(x, 1)
    np.subtract.at(p, (np.arange(len(p)), convert(label, np.int64)), x.dtype.type(1))
    return p * dy.reshape(())


GRADIENTS = (
    Gradient("CTCLoss", ctc_loss, reads_outputs=False),
    Gradient("_contrib_hawkesll", log_likelihood, reads_outputs=False),
    Gradient("MakeLoss", make_loss, reads_outputs=False, is_loss=True),
    Gradient("SoftmaxOutput", softmax_output, is_loss=True),
    Gradient("LinearRegressionOutput", _regression_vjp(np.subtract), is_loss=True),
    Gradient("LogisticRegressionOutput", _regression_vjp(np.subtract), is_loss=True),
    Gradient("MAERegressionOutput", _regression_vjp(_sign_of_difference), is_loss=True),
    Gradient("SVMOutput", svm_output, is_loss=True),
    Gradient("softmax_cross_entropy", softmax_cross_entropy, reads_outputs=False),
)
