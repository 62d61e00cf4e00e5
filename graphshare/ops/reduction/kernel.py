"""Reductions over axes. Over all axes the shape is ``(1,)``; in the numpy interface ``()``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from graphshare.ops.conversion import convert
from graphshare.ops.gradient import Gradient, GradientError, TapeEntry, no_gradient
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Context,
    Dims,
    Forward,
    Kernel,
    KernelError,
    Shape,
    Shapes,
    Types,
)
from graphshare.ops.limits import NUMBERS, Limits, require, with_limits
from graphshare.ops.unification import (
    count_elements,
    dtype_rule,
    normalize_axis,
    output_rule,
    same_dtypes,
    unify,
    without_axes,
)
from graphshare.text.format import format_count

Reduce = Callable[[Array, tuple[int, ...], bool], Array]


def read_axes(attrs: Attrs, rank: int, key: str = "axis") -> tuple[int, ...]:
    """Return the reduced axes: the attribute's, all if empty; with ``exclude`` the others."""
    axes = attrs[key]
    if axes is None or axes == ():
        return tuple(range(rank))
    distinct = _axis_set((axes,) if isinstance(axes, int) else axes, rank)
    return tuple(axis for axis in range(rank) if (axis in distinct) != attrs.get("exclude", False))


def read_np_axes(attrs: Attrs, rank: int, key: str = "axis") -> tuple[int, ...]:
    """Return the numpy interface's axes: the attribute's (possibly none); all for None."""
    axes = attrs[key]
    if axes is None:
        return tuple(range(rank))
    return tuple(sorted(_axis_set((axes,) if isinstance(axes, int) else axes, rank)))


def _axis_set(axes: Sequence[int], rank: int) -> set[int]:
    # An array without axes may be reduced along its first
    if not rank and tuple(axes) in (
        (0,),
        (-1,),
    ):
        return set()
    distinct = {normalize_axis(axis, rank) for axis in axes}
    if len(distinct) < len(axes):
        raise KernelError(
            f"axes {tuple(axes)} of an array with {format_count(rank, 'axis')} name one of them twice"
        )
    return distinct


def _reduce_shape(shape: Dims, axes: tuple[int, ...], keepdims: bool, scalar: Dims) -> Shape:
    if keepdims:
        return tuple(1 if axis in axes else d for axis, d in enumerate(shape))
    return without_axes(shape, axes) or scalar


_shapes = output_rule(
    lambda attrs, x: _reduce_shape(x, read_axes(attrs, len(x)), attrs["keepdims"], (1,))
)
np_shapes = output_rule(
    lambda attrs, x: _reduce_shape(x, read_np_axes(attrs, len(x)), attrs["keepdims"], ())
)
"""Infers the shape without the reduced axes."""


def _forward(
    reduce: Reduce, scalar: tuple[int, ...] = (1,), axes_named: Any = read_axes
) -> Callable[[Context, Attrs, Array], Array]:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        result = reduce(x, axes_named(attrs, x.ndim), attrs["keepdims"])
        return result if result.ndim or attrs["keepdims"] else result.reshape(scalar)

    return forward


def _accumulator_dtype(x: Array) -> Any:
    """Integers wrap in their own dtype."""
    return np.float64 if x.dtype.kind == "f" else x.dtype


def _add(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    # A third of the time of np.sum for small arrays; its types want a literal keepdims
    add: Any = np.add.reduce
    return np.asarray(add(x, axis=axes, keepdims=keepdims, dtype=_accumulator_dtype(x)))


def reduce_sum(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Return the sum."""
    return convert(_add(x, axes, keepdims), x.dtype)


def reduce_product(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Return the product."""
    return convert(
        np.asarray(np.prod(x, axis=axes, keepdims=keepdims, dtype=_accumulator_dtype(x))), x.dtype
    )


def reduce_mean(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Return the mean; of integers the wrapped sum, divided and truncated."""
    total = _add(x, axes, keepdims)
    count = x.size // total.size if total.size else 1
    if x.dtype.kind in "iu":
        # C truncates towards 0, // rounds down; the least number has no absolute value in its
        # dtype.
        wide = total.astype(np.int64)
        return np.asarray((wide - np.fmod(wide, count)) // count).astype(x.dtype)
    return convert(total / np.float64(count), x.dtype)


def _extremum(function: Any) -> Reduce:
    return lambda x, axes, keepdims: np.asarray(function(x, axis=axes, keepdims=keepdims))


def _ignore_nan(reduce: Reduce, neutral: int) -> Reduce:
    def forward(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
        known = np.where(np.isnan(x), x.dtype.type(neutral), x) if x.dtype.kind == "f" else x
        return reduce(known, axes, keepdims)

    return forward


def norm(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the sum of absolute values (``ord`` 1) or the root of the sum of squares (2).

    MXNet adds squares relative to the largest: only integers as large as the largest count.
    """
    axes, keep = read_axes(attrs, x.ndim), attrs["keepdims"]
    size = np.abs(x)
    if attrs["ord"] == 1:
        result = reduce_sum(size, axes, keep)
    elif x.dtype.kind == "f":
        square = np.square(size, dtype=np.float64)
        result = convert(np.sqrt(np.asarray(np.sum(square, axis=axes, keepdims=keep))), x.dtype)
    else:
        largest = np.max(size, axis=axes, keepdims=True)
        count = np.sum(size == largest, axis=axes, keepdims=keep)
        result = convert(np.asarray(largest.reshape(np.shape(count)) * np.sqrt(count)), x.dtype)
    result = result.reshape(_shapes(attrs, [x.shape], [None])[1][0])
    return convert(result, attrs["out_dtype"] or x.dtype)


def _norm_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    require(attrs["ord"] in (1, 2), f"ord is {attrs['ord']}, expected 1 or 2")
    return _shapes(attrs, inputs, outputs)


def _norm_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    if attrs["out_dtype"]:
        return inputs, [attrs["out_dtype"]]
    return same_dtypes(attrs, inputs, outputs)


def moments(context: Context, attrs: Attrs, x: Array) -> tuple[Array, Array]:
    """Return mean and biased variance."""
    axes = read_axes(attrs, x.ndim, "axes")
    wide = x.astype(np.float64) if x.dtype.kind == "f" else x
    mean = reduce_mean(wide, axes, True)
    variance = reduce_mean(np.square(wide - mean), axes, True)
    shape = _moments_shapes(attrs, [x.shape], [None, None])[1][0]
    return convert(mean, x.dtype).reshape(shape), convert(variance, x.dtype).reshape(shape)


def _moments_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    require(attrs["axes"], "axes are required, also for moments over all axes")
    shape = inputs[0]
    if shape is None:
        return inputs, outputs
    result = _reduce_shape(shape, read_axes(attrs, len(shape), "axes"), attrs["keepdims"], (1,))
    return inputs, [unify(result, known) for known in outputs]


def _arg_extremum(function: Any, dtype: Any = None) -> Forward:
    """NaN is both extrema."""

    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        axis = attrs["axis"]
        index = np.asarray(
            function(x.reshape(-1) if axis is None else x, axis=0 if axis is None else axis)
        )
        shapes = np_shapes if dtype else _shapes
        return index.astype(dtype or x.dtype).reshape(shapes(attrs, [x.shape], [None])[1][0])

    return forward


def argmax_channel(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the maximum's index along axis 1."""
    return np.asarray(np.argmax(x, axis=1)).astype(x.dtype)


def cumsum(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return running sums along an axis, or of the flattened array."""
    (dtype,) = _np_types(attrs, [str(x.dtype)], [None])[1]
    return np.cumsum(x, axis=attrs["axis"], dtype=dtype)


def _cumsum_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape, axis = inputs[0], attrs["axis"]
    if axis is not None:
        shape = unify(shape, outputs[0])
        if shape is not None:
            normalize_axis(axis, len(shape))
        return [shape], [shape]
    if shape is None:
        return inputs, outputs
    return inputs, [(count_elements(shape),)]


def _np_reduction(reduce: Reduce, *, floating: bool = False) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        if attrs["initial"] is not None:
            raise KernelError("MXNet does not support an initial value for reductions")
        rule = _np_mean_types if floating else _np_types
        (dtype,) = rule(attrs, [str(x.dtype)], [None])[1]
        if not x.size:  # in MXNet an empty product is 0 too
            return np.zeros(np_shapes(attrs, [x.shape], [None])[1][0], dtype)  # type: ignore[arg-type]
        return _forward(reduce, (), read_np_axes)(context, attrs, convert(x, dtype))

    return forward


def _np_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    name = attrs.get("dtype") or inputs[0]
    return inputs, ["int64" if name == "bool" else name]


def _np_mean_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    if attrs.get("dtype"):
        return inputs, [attrs["dtype"]]
    return inputs, [inputs[0] if inputs[0] is None or inputs[0].startswith("float") else "float32"]


_REDUCTIONS: dict[str, Reduce] = {
    "sum": reduce_sum,
    "mean": reduce_mean,
    "max": _extremum(np.max),
    "min": _extremum(np.min),
    "prod": reduce_product,
    "nansum": _ignore_nan(reduce_sum, 0),
    "nanprod": _ignore_nan(reduce_product, 1),
}


KERNELS = with_limits(
    Limits(dtypes=NUMBERS, elements=True),
    *(
        Kernel(operator, _forward(reduce), _shapes, same_dtypes)
        for operator, reduce in _REDUCTIONS.items()
    ),
    Kernel("norm", norm, _norm_shapes, _norm_types),
    Kernel("moments", moments, _moments_shapes, same_dtypes),
    Kernel("argmax", _arg_extremum(np.argmax), _shapes, same_dtypes),
    Kernel("argmin", _arg_extremum(np.argmin), _shapes, same_dtypes),
    Kernel(
        "argmax_channel",
        argmax_channel,
        output_rule(lambda attrs, x: _reduce_shape(x, (normalize_axis(1, len(x)),), False, (1,))),
        same_dtypes,
    ),
    Kernel("_npi_argmax", _arg_extremum(np.argmax, np.int64), np_shapes, dtype_rule("int64")),
    Kernel("_npi_argmin", _arg_extremum(np.argmin, np.int64), np_shapes, dtype_rule("int64")),
    Kernel("_np_cumsum", cumsum, _cumsum_shapes, _np_types),
    Kernel("_np_sum", _np_reduction(reduce_sum), np_shapes, _np_types),
    Kernel("_np_prod", _np_reduction(reduce_product), np_shapes, _np_types),
    Kernel("_np_max", _forward(_REDUCTIONS["max"], (), read_np_axes), np_shapes, same_dtypes),
    Kernel("_np_min", _forward(_REDUCTIONS["min"], (), read_np_axes), np_shapes, same_dtypes),
    Kernel("_npi_mean", _np_reduction(reduce_mean, floating=True), np_shapes, _np_mean_types),
)

AxesRule = Callable[..., tuple[int, ...]]


def restore_axes(x: Array, reduced: Array, axes: tuple[int, ...]) -> Array:
    """Return a reduced array with ``axes`` as 1."""
    return reduced.reshape([1 if axis in axes else size for axis, size in enumerate(x.shape)])


def _restore_axes(entry: TapeEntry, reduced: Array, axes_rule: AxesRule = read_axes) -> Array:
    x = entry.inputs[0]
    return restore_axes(
        x, reduced, axes_rule(entry.attrs, x.ndim, "axes" if "axes" in entry.attrs else "axis")
    )


def sum_gradient(entry: TapeEntry, dy: Array, *, axes_rule: AxesRule = read_axes) -> Array:
    """Return ``dy`` for every element."""
    x = entry.inputs[0]
    return np.broadcast_to(_restore_axes(entry, dy, axes_rule), x.shape).astype(x.dtype, copy=False)


def mean_gradient(entry: TapeEntry, dy: Array, *, axes_rule: AxesRule = read_axes) -> Array:
    """Divide ``dy`` by the number of elements."""
    x = entry.inputs[0]
    share = _restore_axes(entry, dy, axes_rule) / max(1, x.size // max(1, dy.size))
    return np.broadcast_to(share, x.shape).astype(x.dtype, copy=False)


def extremum_gradient(entry: TapeEntry, dy: Array, *, axes_rule: AxesRule = read_axes) -> Array:
    """Return ``dy`` at every extremum; each of several gets all of it."""
    x = entry.inputs[0]
    result: Array = _restore_axes(entry, dy, axes_rule) * (
        x == _restore_axes(entry, entry.outputs[0], axes_rule)
    )
    return result.astype(x.dtype, copy=False)


def product_gradient(entry: TapeEntry, dy: Array, *, axes_rule: AxesRule = read_axes) -> Array:
    """Return the others' product, by division: NaN for 0, as in MXNet."""
    x = entry.inputs[0]
    result: Array = _restore_axes(entry, dy, axes_rule) * (
        _restore_axes(entry, entry.outputs[0], axes_rule) / x
    )
    return result.astype(x.dtype, copy=False)


def skip_nan(
    entry: TapeEntry, dy: Array, *, gradient: Callable[[TapeEntry, Array], Array]
) -> Array:
    """Return ``gradient(entry, dy)``, 0 for NaN."""
    x = entry.inputs[0]
    return np.where(np.isnan(x), x.dtype.type(0), gradient(entry, dy))


def norm_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` times the sign (``ord`` 1) or times element / norm."""
    x = entry.inputs[0]
    slope = np.sign(x) if entry.attrs["ord"] == 1 else x / _restore_axes(entry, entry.outputs[0])
    result: Array = _restore_axes(entry, dy) * slope
    return result.astype(x.dtype, copy=False)


def moments_gradient(entry: TapeEntry, dmean: Array, dvariance: Array | None) -> Array:
    """Return the gradient through mean and variance, ``2 (x - mean) / n``."""
    x = entry.inputs[0]
    count = x.size // max(1, dmean.size)
    result: Array = _restore_axes(entry, dmean) / count
    if dvariance is not None:
        result = (
            result
            + _restore_axes(entry, dvariance)
            * 2
            * (x - _restore_axes(entry, entry.outputs[0]))
            / count
        )
    return np.broadcast_to(result, x.shape).astype(x.dtype, copy=False)


def cumsum_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return running sums of ``dy`` from the end."""
    x, axis = entry.inputs[0], entry.attrs["axis"]
    if axis is None:
        dy = dy.reshape(-1)
    result: Array = np.flip(np.cumsum(np.flip(dy, axis or 0), axis=axis or 0), axis or 0)
    return np.asarray(result.reshape(x.shape).astype(x.dtype, copy=False))


def np_product_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return :func:`product_gradient` in the numpy interface."""
    if entry.inputs[0].dtype.kind != "f":
        raise GradientError("the product of integers has no gradient")
    return product_gradient(entry, dy, axes_rule=read_np_axes)


GRADIENTS = (
    Gradient("sum", sum_gradient, reads_outputs=False),
    Gradient("_np_sum", partial(sum_gradient, axes_rule=read_np_axes), reads_outputs=False),
    Gradient("mean", mean_gradient, reads_outputs=False),
    Gradient("_npi_mean", partial(mean_gradient, axes_rule=read_np_axes), reads_outputs=False),
    *(Gradient(name, extremum_gradient) for name in ("max", "min")),
    *(
        Gradient(name, partial(extremum_gradient, axes_rule=read_np_axes))
        for name in ("_np_max", "_np_min")
    ),
    Gradient("prod", product_gradient),
    Gradient("_np_prod", np_product_gradient),
    Gradient("nansum", partial(skip_nan, gradient=sum_gradient), reads_outputs=False),
    Gradient("nanprod", partial(skip_nan, gradient=product_gradient)),
    Gradient("norm", norm_gradient),
    Gradient("moments", moments_gradient),
    Gradient("_np_cumsum", cumsum_gradient, reads_outputs=False),
    *no_gradient(
        "an index has no derivative",
        "argmax",
        "argmin",
        "argmax_channel",
        "_npi_argmax",
        "_npi_argmin",
    ),
)
