"""The numpy interface's means, deviations, norms, counts, differences and checks; gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isinf, prod
from typing import Any

import numpy as np

from graphshare.ops.conversion import convert
from graphshare.ops.gradient import Gradient, GradientError, Gradients, TapeEntry, no_gradient
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Context,
    Dim,
    Dims,
    Kernel,
    KernelError,
    Shape,
    Shapes,
    Types,
)
from graphshare.ops.limits import NUMBERS, Limits, refuse_invalid_call, require, with_limits
from graphshare.ops.linear_algebra.kernel import check_finite
from graphshare.ops.reduction.kernel import np_shapes, read_np_axes, restore_axes
from graphshare.ops.unification import (
    attribute_rule,
    compare_dtypes,
    count_elements,
    dtype_rule,
    is_known,
    normalize_axis,
    output_rule,
    same_dtypes,
    unify,
    with_dim,
)
from graphshare.ops.windows import unify_dims
from graphshare.text.format import format_count


def _reduce_truth(function: Any) -> Any:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        axes = read_np_axes(attrs, x.ndim)
        return np.asarray(function(x != 0, axis=axes, keepdims=attrs["keepdims"]))

    return forward


def _deviation(*, root: bool) -> Any:
    """Return variance (``ddof``) or its root, and mean (truncated for integers)."""

    def forward(context: Context, attrs: Attrs, x: Array) -> tuple[Array, ...]:
        (dtype, *_) = _attribute_dtype(attrs, [str(x.dtype)], [None, None])[1]
        axis, keep = read_np_axes(attrs, x.ndim), attrs["keepdims"]
        wide = x.astype(np.float64)
        mean = np.asarray(np.mean(wide, axis=axis, keepdims=True))
        if x.dtype.kind != "f":
            mean = np.trunc(mean)
        squares = np.asarray(np.square(wide - mean).sum(axis=axis, keepdims=keep))
        variance = squares / (x.size // max(1, squares.size) - attrs["ddof"])
        mean = mean.reshape(squares.shape)
        return convert(np.sqrt(variance) if root else variance, dtype), convert(mean, dtype)

    return forward


def _deviation_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    _, (result,) = np_shapes(attrs, inputs, outputs[:1])
    return inputs, [result] * len(outputs)


def _attribute_dtype(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    name = attrs["dtype"] or inputs[0]
    return inputs, [name] * len(outputs)


def average(
    context: Context, attrs: Attrs, x: Array, weights: Array | None = None
) -> Array | tuple[Array, ...]:
    """Return the weighted mean and, if ``returned``, the sum of weights.

    Weights of one axis have one sum.
    """
    axis = read_np_axes(attrs, x.ndim)
    of_axis = weights is not None and weights.ndim != x.ndim
    if weights is None:
        mean = np.asarray(np.mean(x, axis=axis, dtype=np.float64))
        count = np.asarray(x.size / max(1, mean.size))
    else:
        with refuse_invalid_call():
            if of_axis:
                weights = _align_weights(weights, axis, x.ndim)
            wide = np.broadcast_to(weights, x.shape).astype(np.float64)
        count = np.asarray(wide.sum(axis=axis))
        mean = (x * wide).sum(axis=axis) / count
    result = convert(np.asarray(mean), x.dtype)
    if not attrs["returned"]:
        return result
    if of_axis:
        count = count.reshape(-1)[:1].reshape(())
    return result, convert(count, x.dtype)


def _align_weights(weights: Array, axes: Sequence[int], rank: int) -> Array:
    """Return the weights of one axis with ``rank`` axes, all but theirs of size 1."""
    return weights.reshape([-1 if axis in axes else 1 for axis in range(rank)])


def _average_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    _, (result,) = np_shapes({**attrs, "keepdims": False}, inputs[:1], [None])
    array, weights, *_ = (*inputs, None)
    if array is None or result is None:
        return inputs, outputs
    count: Shape = ()
    if weights is not None and len(weights) == len(array):
        unify(array, weights)
        count = result
    elif weights is not None:
        require(
            len(weights) == 1,
            f"weights have {format_count(len(weights), 'axis')}, expected 1 or those of the array",
        )
        axes = read_np_axes(attrs, len(array))
        require(
            len(axes) == 1,
            f"weights of one axis need one axis to average over, not {format_count(len(axes), 'axis')}",
        )
        unify_dims(array[axes[0]], weights[0], "weights against the axis they belong to")
    return inputs, [unify(a, b) for a, b in zip((result, count), outputs, strict=False)]


def norm_axes(attrs: Attrs, rank: int) -> tuple[int, ...]:
    """Return a norm's axes: all for flag -2, else ``axis``, or the last two, or the only one."""
    axis = attrs["axis"]
    named = tuple(normalize_axis(i, rank) for i in axis or ())
    require(len(set(named)) == len(named), f"axis is {axis}, which names an axis twice")
    if attrs["flag"] == -2:
        return tuple(range(rank))
    return tuple(range(max(0, rank - 2), rank)) if axis is None else named


def matrix_order(order: float) -> float:
    """Return a matrix norm's order: MXNet reads unknown ones above 0 as inf, the rest as -inf."""
    if order in (1, -1, 2, -2):
        return order
    return inf if order > 0 else -inf


def is_frobenius(attrs: Attrs, axes: Sequence[int]) -> bool:
    """Return whether the norm is the root of the sum of squares, over any number of axes."""
    return attrs["flag"] == -2 or (attrs["flag"] == 1 and len(axes) == 2)


def _vector_norm(x: Array, order: float, axes: tuple[int, ...], keep: bool) -> Array:
    """Return the norm without zeros: one would make an order below 0 give 0."""
    if isinf(order) or len(axes) != 1:
        with refuse_invalid_call():
            return np.asarray(np.linalg.norm(x, order, axes[0] if len(axes) == 1 else axes, keep))
    if order == 0:
        return np.asarray(np.count_nonzero(x, axis=axes, keepdims=keep))
    powers = np.power(np.abs(x), order, where=x != 0, out=np.zeros_like(x))
    result = np.asarray(powers.sum(axis=axes, keepdims=keep))
    return np.asarray(np.power(result, 1 / order, where=result != 0, out=np.zeros_like(result)))


def norm(context: Context, attrs: Attrs, x: Array) -> tuple[Array, ...]:
    """Return the norm of vectors (one axis) or matrices (two); more outputs serve the gradient."""
    axes, keep, order = norm_axes(attrs, x.ndim), attrs["keepdims"], attrs["ord"]
    wide = x.astype(np.float64)
    if is_frobenius(attrs, axes):
        result = np.sqrt(np.square(wide).sum(axis=axes, keepdims=keep))
    elif len(axes) == 2 and order in (2, -2):  # by singular values
        if x.dtype == np.float16 or x.shape[axes[0]] > x.shape[axes[1]]:
            raise KernelError(
                "singular values need float32 or float64 matrices with at most as many rows as columns"
            )
        named: Any = "nuc" if attrs["flag"] == 2 else order
        result = np.linalg.norm(check_finite(wide), named, axes, keep)
    elif len(axes) == 2:
        result = np.linalg.norm(wide, matrix_order(order), axes, keep)
    else:
        result = _vector_norm(wide, order, axes, keep)
    empty = np.zeros((0,), x.dtype)
    return convert(np.asarray(result), x.dtype), empty, empty, empty


_TO_ELEMENTS: dict[str, Callable[[Any], Any]] = {
    "lower": np.floor,
    "higher": np.ceil,
    "nearest": lambda x: np.floor(x + 0.5),
}
"""How a place between two elements becomes one: halves up."""


def percentile(context: Context, attrs: Attrs, x: Array, q: Array | None = None) -> Array:
    """Return the value that ``q`` percent do not exceed; float32 for all dtypes but float64."""
    percent = np.asarray(np.float64(attrs["q_scalar"]) if q is None else q)
    axes, method = read_np_axes(attrs, x.ndim), attrs["interpolation"]
    require(bool(np.all((percent >= 0) & (percent <= 100))), "q must be from 0 to 100")
    steps = prod(x.shape[axis] for axis in axes) - 1
    if steps > 0:
        # MXNet computes the place in the dtype of q, and rounds it to float32. numpy takes a
        # percentage.
        kind = percent.dtype.type if percent.dtype.kind == "f" else np.float64
        place = (
            (percent.astype(kind) * kind(steps) / kind(100)).astype(np.float32).astype(np.float64)
        )
        if method in _TO_ELEMENTS:  # numpy rounds half to even
            place, method = _TO_ELEMENTS[method](place), "nearest"
        percent = np.minimum(place * 100 / steps, 100)
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    with refuse_invalid_call():
        result = np.percentile(wide, percent, axes, method=method, keepdims=attrs["keepdims"])
    return np.asarray(result).astype(x.dtype if x.dtype == np.float64 else np.float32)


def _percentile_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    _, (result,) = np_shapes(attrs, inputs[:1], [None])
    lead: Shape = () if len(inputs) == 1 else inputs[1]
    if result is None or lead is None:
        return inputs, outputs
    return inputs, [unify((*lead, *result), outputs[0])]


def _percentile_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, [inputs[0] if inputs[0] in (None, "float64") else "float32"]


def diff(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return differences of neighbours, ``n`` times."""
    size = x.shape[normalize_axis(attrs["axis"], x.ndim)]
    # n may be far larger than the size: no element is left then.
    return np.diff(x, min(attrs["n"], size), attrs["axis"])


def _diff_shape(attrs: Attrs, x: Dims) -> Shape:
    at = normalize_axis(attrs["axis"], len(x))
    size = x[at]
    return with_dim(x, at, None if size is None else max(0, size - attrs["n"]))


def ediff1d(context: Context, attrs: Attrs, x: Array, *ends: Array) -> Array:
    """Return differences of flattened neighbours, between ``to_begin`` and ``to_end``."""
    arrays = list(ends)
    parts = []
    for key in ("to_begin", "to_end"):
        part: Any = ()
        if attrs[f"{key}_arr_given"]:
            part = arrays.pop(0)
        elif attrs[f"{key}_scalar"] is not None:
            part = attrs[f"{key}_scalar"]
        parts.append(np.ravel(part).astype(x.dtype))
    return np.concatenate([parts[0], np.diff(x.reshape(-1)), parts[1]])


def _ediff1d_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    sizes = [count_elements(shape) for shape in inputs]
    if None in sizes:
        return inputs, outputs
    first, *arrays = [size or 0 for size in sizes]
    count = max(0, first - 1)
    # MXNet ignores arrays that are not announced.
    for key in ("to_begin", "to_end"):
        if attrs[f"{key}_arr_given"]:
            count += arrays.pop(0) if arrays else 0
        elif attrs[f"{key}_scalar"] is not None:
            count += 1
    return inputs, [unify((count,), outputs[0])]


def histogram(
    context: Context, attrs: Attrs, x: Array, bins: Array | None = None
) -> tuple[Array, Array]:
    """Return counts between edges (the last one included), and the edges."""
    if bins is None:
        if attrs["bin_cnt"] is None or attrs["range"] is None:
            raise KernelError("bin_cnt and range are required without bins")
        require(len(attrs["range"]) == 2, f"range is {attrs['range']}, expected two numbers")
        low, high = attrs["range"]
        bins = np.linspace(low, high, attrs["bin_cnt"] + 1).astype(x.dtype)
    with refuse_invalid_call():
        counts, _ = np.histogram(x.reshape(-1).astype(np.float64), bins.astype(np.float64))
    return counts.astype(np.int64), bins


def _histogram_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    edges: Dim = None
    if len(inputs) > 1:
        edges = inputs[1][0] if inputs[1] else None
    elif attrs["bin_cnt"] is not None:
        edges = attrs["bin_cnt"] + 1
    if edges is None:
        return inputs, outputs
    if edges < 2:
        raise KernelError(f"bins has {format_count(edges, 'edge')}, expected at least 2")
    return inputs, [unify((edges - 1,), outputs[0]), unify((edges,), outputs[1])]


def _histogram_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    known, _ = same_dtypes(attrs, inputs, [])
    return known, ["int64", known[0]]


def allclose(context: Context, attrs: Attrs, a: Array, b: Array) -> Array:
    """Return 1 where all elements are close, else 0."""
    close = np.allclose(a, b, attrs["rtol"], attrs["atol"], attrs["equal_nan"])
    return np.asarray(close, np.uint8)


def _allclose_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape = unify(*inputs)
    return [shape, shape], [unify((), outputs[0])] if is_known(shape) else outputs


def _norm_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    if inputs[0] is None:
        return inputs, outputs
    _, (result,) = np_shapes(
        {**attrs, "axis": norm_axes(attrs, len(inputs[0]))}, inputs, outputs[:1]
    )
    return inputs, [result, *outputs[1:]]


def bincount(context: Context, attrs: Attrs, x: Array, weights: Array | None = None) -> Array:
    """Return count or weight of each number from 0, at least ``minlength`` of them."""
    if x.size and x.min() < 0:
        raise KernelError(f"numbers must be 0 or more, not {x.min()}")
    # A single large number could request any length
    limit = attrs["minlength"] + 16 * x.size + (1 << 24)
    if x.size and x.max() > limit:
        raise KernelError(
            f"the largest number is {x.max()}, expected at most {limit} for {format_count(x.size, 'number')}"
        )
    with refuse_invalid_call():
        counts = np.bincount(x.astype(np.int64), weights, attrs["minlength"])
    return counts.astype(x.dtype if weights is None else weights.dtype)


def constraint_check(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return True; raise KernelError with ``msg`` unless all of ``x`` is true."""
    require(x.all(), attrs["msg"])
    return np.asarray(True)


def shares_memory(context: Context, attrs: Attrs, a: Array, b: Array) -> Array:
    """Return False: arrays of a graph do not share memory."""
    return np.asarray(False)


KERNELS = with_limits(
    Limits(dtypes=NUMBERS, rank=1, elements=True, not_negative=("n",), positive=("bin_cnt",)),
    Kernel("_np_all", _reduce_truth(np.all), np_shapes, dtype_rule("bool")),
    Kernel("_np_any", _reduce_truth(np.any), np_shapes, dtype_rule("bool")),
    Kernel("_npi_std", _deviation(root=True), _deviation_shapes, _attribute_dtype),
    Kernel("_npi_var", _deviation(root=False), _deviation_shapes, _attribute_dtype),
    Kernel("_npi_average", average, _average_shapes, same_dtypes),
    Kernel("_npi_norm", norm, _norm_shapes, same_dtypes),
    Kernel("_npi_percentile", percentile, _percentile_shapes, _percentile_types),
    Kernel("_npi_diff", diff, output_rule(_diff_shape), same_dtypes),
    Kernel("_npi_ediff1d", ediff1d, _ediff1d_shapes, same_dtypes),
    Kernel("_histogram", histogram, _histogram_shapes, _histogram_types),
    Kernel("_contrib_allclose", allclose, _allclose_shapes, compare_dtypes("uint8")),
    *with_limits(
        Limits(not_negative=("minlength",), ranks=(1,)),
        Kernel(
            "_npi_bincount",
            bincount,
            attribute_rule(lambda attrs: (None,)),
            lambda attrs, inputs, _: (inputs, [inputs[-1]]),
        ),
        Kernel(
            "_npx_constraint_check",
            constraint_check,
            attribute_rule(lambda attrs: ()),
            dtype_rule("bool"),
        ),
        Kernel(
            "_npi_share_memory", shares_memory, attribute_rule(lambda attrs: ()), dtype_rule("bool")
        ),
    ),
)


def average_gradient(entry: TapeEntry, dy: Array, *_: Array | None) -> Gradients:
    """Return gradients of numbers and weights; the sum of weights has none."""
    x, *weights = entry.inputs
    axes = read_np_axes(entry.attrs, x.ndim)
    gradient = restore_axes(x, dy, axes)
    if not weights:
        count = x.size // max(1, dy.size)
        return [np.broadcast_to(gradient / max(1, count), x.shape).astype(x.dtype, copy=False)]
    (weight,) = weights
    of_axis = weight.ndim != x.ndim
    wide = _align_weights(weight, axes, x.ndim) if of_axis else weight
    share = gradient / wide.sum(axis=axes, keepdims=True)
    dx = np.broadcast_to(share * wide, x.shape)
    dw = share * (x - restore_axes(x, entry.outputs[0], axes))
    if of_axis:
        dw = dw.sum(axis=tuple(axis for axis in range(x.ndim) if axis not in axes))
    return [dx.astype(x.dtype, copy=False), dw.astype(weight.dtype, copy=False)]


def norm_gradient(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Return the gradient of a norm; each of several extremal rows or values gets all of it.

    MXNet multiplies by ``dy`` twice for all matrix norms but nuclear and Frobenius.
    """
    x, order = entry.inputs[0], entry.attrs["ord"]
    axes = norm_axes(entry.attrs, x.ndim)
    whole, gradient = restore_axes(x, entry.outputs[0], axes), restore_axes(x, dy, axes)
    if is_frobenius(entry.attrs, axes):
        dx = gradient * x / whole
    elif len(axes) == 2 and order not in (2, -2):
        dx = _sum_norm_gradient(x, axes, order, gradient)
    elif len(axes) == 2 and entry.attrs["flag"] == 2:
        dx = _nuclear_gradient(x, axes, gradient)
    elif len(axes) == 2:
        dx = _spectral_gradient(x, axes, order, gradient)
    elif isinf(order):
        raise GradientError("MXNet does not support vector norms of infinite order")
    elif order == 1:
        dx = gradient * np.sign(x)
    elif order == 0:
        dx = gradient * np.zeros_like(x)
    else:
        # The quotient first: powers of the elements could overflow.
        dx = gradient * (np.power(np.abs(x) / whole, x.dtype.type(order - 1)) * np.sign(x))
    return np.asarray(dx).astype(x.dtype, copy=False)


def _sum_norm_gradient(x: Array, axes: tuple[int, ...], order: float, gradient: Array) -> Array:
    """Return signs in the column (or row) of extremal absolute sum, times ``dy`` squared."""
    named = matrix_order(order)
    sums = np.abs(x).sum(axis=axes[0 if named in (1, -1) else 1], keepdims=True)
    chosen = sums.max(axis=axes, keepdims=True) if named > 0 else sums.min(axis=axes, keepdims=True)
    return np.asarray(gradient * gradient * np.sign(x) * (sums == chosen))


def _nuclear_gradient(x: Array, axes: tuple[int, ...], gradient: Array) -> Array:
    """Return the product of both matrices of singular vectors, times ``dy``."""
    left, _, right = np.linalg.svd(np.moveaxis(x, axes, (-2, -1)), full_matrices=False)
    return np.asarray(gradient * np.moveaxis(left @ right, (-2, -1), axes))


def _spectral_gradient(x: Array, axes: tuple[int, ...], order: float, gradient: Array) -> Array:
    """Return the product of the extremal singular value's vectors, times ``dy`` squared.

    Values are weighted in the order of the input's axes; MXNet reads the weights in its matrices'
    order. Both agree only for the last two axes.
    """
    left, values, right = np.linalg.svd(np.moveaxis(x, axes, (-2, -1)), full_matrices=False)
    column = np.moveaxis(values[..., None], (-2, -1), axes)
    chosen = (
        column.max(axis=axes, keepdims=True) if order > 0 else column.min(axis=axes, keepdims=True)
    )
    weights = np.where(column == chosen, gradient, 0).reshape(values.shape)
    return np.asarray(
        gradient * np.moveaxis((left * weights[..., None, :]) @ right, (-2, -1), axes)
    )


def _diff_gradient(dy: Array, axis: int) -> Array:
    widths = [(1, 1) if i == axis % dy.ndim else (0, 0) for i in range(dy.ndim)]
    return -np.diff(np.pad(dy, widths), axis=axis)


def diff_gradient(entry: TapeEntry, dy: Array) -> Array | None:
    """Return the gradient through all ``n`` differences."""
    if not dy.size:
        return None
    for _ in range(entry.attrs["n"]):
        dy = _diff_gradient(dy, entry.attrs["axis"])
    return dy


def ediff1d_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return gradients of the array, and of ``to_begin`` and ``to_end``."""
    x, *ends = entry.inputs
    sizes = []
    arrays = list(ends)
    for key in ("to_begin", "to_end"):
        is_array = entry.attrs[f"{key}_arr_given"]
        sizes.append(
            arrays.pop(0).size if is_array else int(entry.attrs[f"{key}_scalar"] is not None)
        )
    begin, inner, end = np.split(dy, [sizes[0], dy.size - sizes[1]])
    dx = _diff_gradient(inner, 0).reshape(x.shape) if x.size else np.zeros_like(x)
    outer = []
    if entry.attrs["to_begin_arr_given"]:
        outer.append(begin)
    if entry.attrs["to_end_arr_given"]:
        outer.append(end)
    return [dx, *(part.reshape(side.shape) for part, side in zip(outer, ends, strict=True))]


GRADIENTS = (
    Gradient("_npi_average", average_gradient),
    Gradient("_npi_norm", norm_gradient),
    Gradient("_npi_diff", diff_gradient, reads_inputs=False, reads_outputs=False),
    Gradient("_npi_ediff1d", ediff1d_gradient, reads_outputs=False),
    *no_gradient("MXNet's gradient of it is zero everywhere", "_npi_std", "_npi_var"),
    *no_gradient(
        "its result is a count, a comparison or a constant",
        *"_contrib_allclose _histogram _np_all _np_any _npi_bincount _npi_percentile _npi_share_memory".split(),
        "_npx_constraint_check",
    ),
)
