"""Output layers and losses. Labels usually affect only gradients; output layers ignore ``dy``.

In a Hawkes process marked events excite each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import Any

import numpy as np

from graphshare.ops.activation.kernel import sigmoid
from graphshare.ops.activation.softmax import log_softmax_along, softmax_along
from graphshare.ops.conversion import convert, to_floating
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Context,
    Forward,
    Kernel,
    KernelError,
    Shape,
    Shapes,
    Types,
    reuse_buffer,
)
from graphshare.ops.limits import LAPACK, Limits, lie_within, require, with_limits
from graphshare.ops.loss.ctc import GRADIENTS as CTC_GRADIENTS
from graphshare.ops.loss.ctc import KERNELS as CTC_KERNELS
from graphshare.ops.loss.value import shape_classes, view_labels
from graphshare.ops.unification import (
    count_elements,
    dims_of_rank,
    is_known,
    same_floating_dtypes,
    same_shapes,
    unify,
)
from graphshare.text.format import format_count, format_shape


def require_one_dtype(dtypes: Sequence[str]) -> None:
    """Refuse dtypes that MXNet rejects for a log likelihood."""
    real = {dtype for i, dtype in enumerate(dtypes) if i != 5}
    names = ", ".join(sorted(real))
    require(
        len(real) == 1 and dtypes[0].startswith("float"),
        f"dtypes {names}, expected one floating-point dtype",
    )
    require(dtypes[5] == "int32", f"marks are {dtypes[5]}, expected int32")


def log_likelihood(context: Context, attrs: Attrs, *inputs: Array) -> tuple[Array, Array]:
    """Return each sequence's log likelihood ``(N,)`` and final memory of marks ``(N, K)``.

    Inputs are rates ``(N, K)``, branching ratios and decays ``(K,)``, initial memories ``(N, K)``,
    waiting times and marks ``(N, T)``, and per sequence the number of events and the end time.
    """
    require_one_dtype([str(x.dtype) for x in inputs])
    rates, ratios, decays, state, lags, marks, counts, ends = inputs
    number = lags.dtype.type
    memory, likelihood = state.copy(), np.zeros(len(lags), lags.dtype)
    for i in range(len(lags)):
        last, now = np.zeros(rates.shape[1], lags.dtype), number(0)
        # MXNet compares event numbers with a floating-point count: 2.5 are three events.
        for lag, mark in zip(lags[i, : ceil(counts[i])], marks[i], strict=False):
            if not 0 <= mark < rates.shape[1]:
                raise KernelError(
                    f"mark {mark} is out of range for {format_count(rates.shape[1], 'mark')}"
                )
            now = now + lag
            wait = now - last[mark]
            fading = np.exp(-decays[mark] * wait)
            rate = rates[i, mark] + ratios[mark] * decays[mark] * memory[i, mark] * fading
            expected = rates[i, mark] * wait + ratios[mark] * memory[i, mark] * (1 - fading)
            likelihood[i] += np.log(rate) - expected
            memory[i, mark] = 1 + memory[i, mark] * fading
            last[mark] = now
        wait = ends[i] - last
        fading = np.exp(-decays * wait)
        likelihood[i] -= (rates[i] * wait + ratios * memory[i] * (1 - fading)).sum()
        memory[i] *= fading
    return likelihood, memory


def _infer_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    both = unify(unify(inputs[0], inputs[3]), outputs[1])
    count, marks = dims_of_rank(both, 2)
    steps = unify(unify(inputs[4], inputs[5]), (count, None))
    count = dims_of_rank(steps, 2)[0]
    each, by_mark = (count, marks), (marks,)
    shapes = [each, by_mark, by_mark, each, steps, steps, (count,), (count,)]
    return [unify(a, b) for a, b in zip(shapes, inputs, strict=True)], [
        unify((count,), outputs[0]),
        each,
    ]


def _infer_dtypes(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    dtype = inputs[0]
    return [dtype, dtype, dtype, dtype, dtype, "int32", dtype, dtype], [dtype, dtype]


def log_likelihood_gradient(entry: TapeEntry, dy: Array, dmemory: Array | None = None) -> Gradients:
    """Return gradients of rates, branching ratios and decays, event by event."""
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
            by_decay[k] += ratios[k] * (
                fading * excited / rate - slope[k] * (1 - fading) - memory[k] * wait * fading
            )
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


def softmax_output(context: Context, attrs: Attrs, x: Array, label: Array) -> Array:
    """Return the softmax over axis 1 (``multi_output``), the last (``preserve_shape``), or samples.

    Without either flag the fast path of MXNet's default build (inference on float32 with 1, 2 or 4
    axes) uses the last axis.

    Raises:
        KernelError: ``multi_output`` is set but data has one axis (shape inference accepts that
            for a label of the same shape).
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
    return convert(
        softmax_along(data, axis, reuse_buffer(context, x) if data is x else None), x.dtype
    )


def _infer_softmax_output_shapes(
    attrs: Attrs, inputs: Shapes, outputs: Shapes
) -> tuple[Shapes, Shapes]:
    """The label has the data's shape (probabilities) or one class per softmax."""
    data, label = unify(inputs[0], outputs[0]), inputs[1]
    if data is None:
        return [data, label], [data]
    if label is not None and len(label) == len(data) and _fits(label, data):
        return [data, unify(label, data) if not attrs["multi_output"] else label], [data]
    if not attrs["multi_output"]:
        return [data, _unify_label(label, data[:-1])], [data]
    _require_axis(data)
    flat = (data[0], prod(d for d in data[2:] if d is not None) if is_known(data[2:]) else None)
    # MXNet accepts these forms of label, and infers the first.
    forms: list[Shape] = [flat, (data[0], *data[2:]), (data[0], 1, *data[2:])]
    if label is None:
        return [data, flat], [data]
    if any(_fits(label, form) for form in forms):
        return [data, label], [data]
    raise KernelError(
        f"label is {format_shape(label)}, expected {format_shape(forms[0])}, "
        f"{format_shape(forms[1])} or the shape of data, "
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


def _infer_regression_shapes(
    attrs: Attrs, inputs: Shapes, outputs: Shapes
) -> tuple[Shapes, Shapes]:
    """The label has the data's shape, but ``(N,)`` for data ``(N, 1)``."""
    data, label = unify(inputs[0], outputs[0]), inputs[1]
    if data is None:
        return [data, label], [data]
    is_column = len(data) == 2 and data[1] == 1
    if is_column and (label is None or len(label) == 1):
        return [data, _unify_label(label, (data[0],))], [data]
    if label is not None and is_known(label) and is_known(data):
        has_same_size = count_elements(label) == count_elements(data)
        if data[0] == label[0] and has_same_size:
            return [data, label], [data]
    return [data, _unify_label(label, data)], [data]


def _infer_svm_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    data = unify(inputs[0], outputs[0])
    return [data, inputs[1] if data is None else _unify_label(inputs[1], data[:-1])], [data]


def softmax_cross_entropy(context: Context, attrs: Attrs, x: Array, label: Array) -> Array:
    """Sum -log(probability of the label) over samples, with probabilities of at least 1e-8."""
    classes = convert(label, np.int64)
    if not lie_within(classes, 0, x.shape[1] - 1):
        raise KernelError(
            f"labels are from {classes.min()} to {classes.max()}, expected 0 to {x.shape[1] - 1}"
        )
    chosen = np.take_along_axis(log_softmax_along(to_floating(x), 1), classes[:, None], 1)
    least = np.log(np.asarray(1e-8, chosen.dtype))
    return convert(-np.sum(np.maximum(chosen, least), dtype=np.float64).reshape(1), x.dtype)


def _infer_cross_entropy_shapes(
    attrs: Attrs, inputs: Shapes, outputs: Shapes
) -> tuple[Shapes, Shapes]:
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
    _kernel(
        "LogisticRegressionOutput",
        lambda context, attrs, x, label: sigmoid(context, attrs, x),
        _infer_regression_shapes,
    ),
    _kernel("SVMOutput", _return_data, _infer_svm_shapes),
    _kernel("MakeLoss", lambda context, attrs, x: x, same_shapes),
    _kernel("softmax_cross_entropy", softmax_cross_entropy, _infer_cross_entropy_shapes),
    *CTC_KERNELS,
    *with_limits(
        Limits(first=LAPACK, finite=True),
        Kernel("_contrib_hawkesll", log_likelihood, _infer_shapes, _infer_dtypes),
    ),
)


def make_loss_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``grad_scale``, by ``normalization`` divided by the number of rows or valid values.

    As in MXNet, a row is a vector along the last axis, not a sample.
    """
    (x,) = entry.inputs
    scale = entry.attrs["grad_scale"]
    if entry.attrs["normalization"] == "batch":
        scale /= max(1, prod(x.shape[:-1]))
    elif entry.attrs["normalization"] == "valid":
        scale /= max(1, np.count_nonzero(x > entry.attrs["valid_thresh"]))
    return np.full_like(x, scale)


def softmax_output_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return scaled ``p`` minus targets; as in MXNet, ``out_grad`` multiplies by ``p``."""
    attrs, (x, label), p = entry.attrs, entry.inputs, entry.outputs[0]
    if label.shape == x.shape:
        result: Array = (p - label) * p.dtype.type(attrs["grad_scale"])
    else:
        result = _class_gradient(attrs, p, label)
    if attrs["out_grad"]:
        result = result * p
    return result.astype(x.dtype, copy=False)


def _class_gradient(attrs: Attrs, p: Array, label: Array) -> Array:
    """Return the gradient for class labels: (samples, classes, positions)."""
    view: Array = p.reshape(shape_classes(attrs, p.shape))
    classes = view_labels(attrs, label, len(view))
    # As in MXNet, `multi_output` ignores `smooth_alpha`.
    count, alpha = view.shape[1], 0.0 if attrs["multi_output"] else attrs["smooth_alpha"]
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
    # MXNet averages over positions, except where it counts all valid labels.
    if attrs["multi_output"] and attrs["normalization"] != "valid":
        scale /= view.shape[2]
    return np.asarray((result * p.dtype.type(scale)).reshape(p.shape))


def _regression_vjp(difference: Any) -> Any:
    def vjp(entry: TapeEntry, dy: Array) -> Array:
        x, label = entry.inputs
        # MXNet divides by one sample's number of outputs, not by the number of samples.
        per_sample = max(1, label.size // max(1, label.shape[0]))
        scale = entry.attrs["grad_scale"] / per_sample
        result: Array = difference(entry.outputs[0], label.reshape(x.shape)) * x.dtype.type(scale)
        return result

    return vjp


def _sign_of_difference(x: Array, label: Array) -> Array:
    return np.asarray(np.where(x > label, x.dtype.type(1), x.dtype.type(-1)))


def svm_output_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient of the hinge loss (squared unless ``use_linear``), classes last."""
    x, label = entry.inputs
    margin, scale = (
        x.dtype.type(entry.attrs["margin"]),
        x.dtype.type(entry.attrs["regularization_coefficient"]),
    )
    shape, x = x.shape, x.reshape(-1, x.shape[-1])
    hit = np.arange(x.shape[1]) == convert(label, np.int64).reshape(-1, 1)
    if entry.attrs["use_linear"]:
        inner = np.where(hit, -(margin > x).astype(x.dtype), (margin > -x).astype(x.dtype))
    else:
        inner = np.where(hit, -2 * np.maximum(margin - x, 0), 2 * np.maximum(margin + x, 0))
    result: Array = (inner * scale).astype(x.dtype).reshape(shape)
    return result


def softmax_cross_entropy_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` times ``p - onehot``."""
    x, label = entry.inputs
    p = softmax_along(x, 1)
    np.subtract.at(p, (np.arange(len(p)), convert(label, np.int64)), x.dtype.type(1))
    return p * dy.reshape(())


GRADIENTS = (
    Gradient("MakeLoss", make_loss_gradient, reads_outputs=False, is_loss=True),
    Gradient("SoftmaxOutput", softmax_output_gradient, is_loss=True),
    Gradient("LinearRegressionOutput", _regression_vjp(np.subtract), is_loss=True),
    Gradient("LogisticRegressionOutput", _regression_vjp(np.subtract), is_loss=True),
    Gradient("MAERegressionOutput", _regression_vjp(_sign_of_difference), is_loss=True),
    Gradient("SVMOutput", svm_output_gradient, is_loss=True),
    Gradient("softmax_cross_entropy", softmax_cross_entropy_gradient, reads_outputs=False),
    *CTC_GRADIENTS,
    Gradient("_contrib_hawkesll", log_likelihood_gradient, reads_outputs=False),
)
