"""Arrays from nothing but attributes, or from the shape of another array.

A dimension 0 (or -1) in ``shape`` is unknown; inference completes it from what the array is used for, and the run hands the
shape over in ``context.shapes``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

import numpy as np

from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shape, Shapes, Types
from graphshare.ops.limits import Limits, with_limits
from graphshare.ops.unification import axis_of, is_known, same_dtypes, unify
from graphshare.text.format import format_shape


def type_of(attrs: Attrs) -> str:
    """The type that ``dtype`` names.

    Raises:
        KernelError: it is one that numpy has not.
    """
    name: str = attrs["dtype"]
    if name == "bfloat16":
        raise KernelError("bfloat16 is no type of numpy; float32 holds the same numbers")
    return name


def attribute_dtype(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """The output has the type that ``dtype`` names."""
    return inputs, same_dtypes(attrs, [type_of(attrs)], outputs)[1]


def complete_shape(context: Context, shape: Shape) -> tuple[int, ...]:
    """``shape`` with its unknown dimensions as inference found them.

    Raises:
        KernelError: they are still unknown.
    """
    if not is_known(shape) and context.shapes:
        shape = unify(shape, context.shapes[0])
    if shape is None or not is_known(shape):
        raise KernelError(f"the shape {format_shape(shape)} is not fully known; give the shapes of the graph's inputs")
    return tuple(d for d in shape if d is not None)


ShapeOf = Callable[[Attrs], Shape]


Values = Callable[[Attrs, tuple[int, ...]], Array]


def _creating(operator: str, shape_of: ShapeOf, values: Values) -> Kernel:
    """A kernel without inputs: ``values(attrs, shape)`` of the shape that ``shape_of(attrs)`` tells, as far as it does."""

    def forward(context: Context, attrs: Attrs) -> Array:
        return values(attrs, complete_shape(context, shape_of(attrs)))

    def shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
        return inputs, [unify(shape_of(attrs), outputs[0])]

    return Kernel(operator, forward, shapes, attribute_dtype)


def attribute_shape(attrs: Attrs) -> Shape:
    """The attribute ``shape``; 0 and -1 are unknown, and without any axis so is the rank."""
    return tuple(d if d > 0 else None for d in attrs["shape"]) if attrs["shape"] else None


def _zeros(attrs: Attrs, shape: tuple[int, ...]) -> Array:
    return np.zeros(shape, type_of(attrs))


_FLAGS = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")


def _name_dtype(attrs: Attrs) -> Attrs:
    """The attributes with the type by its name: a number names it, -1 leaves it to what the array is used for, float32 here."""
    flag = attrs["dtype"]
    if not -1 <= flag < len(_FLAGS):
        raise KernelError(f"dtype {flag} is no type of numpy")
    return {**attrs, "dtype": _FLAGS[max(flag, 0)]}


def zeros_of_any_type(context: Context, attrs: Attrs) -> Array:
    """Zeros, of a type that may be left open."""
    return _zeros(_name_dtype(attrs), complete_shape(context, attribute_shape(attrs)))


def _any_type_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return inputs, [unify(attribute_shape(attrs), outputs[0])]


def _any_type_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, outputs if attrs["dtype"] == -1 else [_name_dtype(attrs)["dtype"]]


def _ones(attrs: Attrs, shape: tuple[int, ...]) -> Array:
    return np.ones(shape, type_of(attrs))


def _full(attrs: Attrs, shape: tuple[int, ...]) -> Array:
    return np.full(shape, np.asarray(attrs["value"]).astype(type_of(attrs)))


def _arange_shape(attrs: Attrs) -> Shape:
    start, stop, step = attrs["start"], attrs["stop"], attrs["step"]
    if stop is None:
        if attrs["infer_range"]:
            return (None,)
        start, stop = 0.0, start
    if step == 0 or (stop - start) / step <= 0:
        raise KernelError(f"there is nothing from {start:g} to {stop:g} by {step:g}")
    return (ceil((stop - start) / step) * attrs["repeat"],)


def _arange(attrs: Attrs, shape: tuple[int, ...]) -> Array:
    """From ``start`` by ``step``, each ``repeat`` times, reckoned in the output's own type as MXNet does."""
    start = 0.0 if attrs["stop"] is None and not attrs["infer_range"] else attrs["start"]
    return _count_from(start, attrs["step"], attrs["repeat"], shape[0], type_of(attrs))


def _count_from(start: float, step: float, repeat: int, count: int, dtype: Any) -> Array:
    first, by = np.asarray(start).astype(dtype), np.asarray(step).astype(dtype)
    result: Array = (first + (np.arange(count) // repeat).astype(dtype) * by).astype(dtype)
    return result


def _linspace_shape(attrs: Attrs) -> Shape:
    return (attrs["num"],)


def _linspace(attrs: Attrs, shape: tuple[int, ...]) -> Array:
    return np.linspace(attrs["start"], attrs["stop"], shape[0], endpoint=attrs["endpoint"]).astype(type_of(attrs))


def _eye_shape(attrs: Attrs) -> Shape:
    return attrs["N"], attrs["M"] or attrs["N"]


def _eye(attrs: Attrs, shape: tuple[int, ...]) -> Array:
    return np.eye(shape[0], shape[1], k=attrs["k"], dtype=type_of(attrs))


def _identity(attrs: Attrs, shape: tuple[int, ...]) -> Array:
    return np.eye(shape[0], dtype=type_of(attrs))


def _logspace(attrs: Attrs, shape: tuple[int, ...]) -> Array:
    powers = np.linspace(attrs["start"], attrs["stop"], shape[0], endpoint=attrs["endpoint"])
    return np.asarray(np.power(float(attrs["base"]), powers).astype(type_of(attrs)))


def _window(function: Callable[[int], Any]) -> Values:
    """A window of ``M`` numbers, as signal processing knows it."""

    def values(attrs: Attrs, shape: tuple[int, ...]) -> Array:
        return np.asarray(function(shape[0])).astype(type_of(attrs))

    return values


def _window_shape(attrs: Attrs) -> Shape:
    return (max(attrs["M"] or 0, 0),)


def _indices_shape(attrs: Attrs) -> Shape:
    return (len(attrs["dimensions"]), *attrs["dimensions"])


def _indices(attrs: Attrs, shape: tuple[int, ...]) -> Array:
    return np.indices(shape[1:], dtype=type_of(attrs))


def diagonal_places(context: Context, attrs: Attrs, x: Array) -> Array:
    """The places of the main diagonal of an array whose axes are equally long: a row for each axis."""
    return np.array(np.broadcast_to(np.arange(x.shape[0], dtype=np.int64), (x.ndim, x.shape[0])))


def _diagonal_places_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x = inputs[0]
    if x is None:
        return inputs, outputs
    if len(x) < 2 or len({d for d in x if d is not None}) > 1:
        raise KernelError(f"{format_shape(x)} is no array of two axes or more that are equally long")
    return inputs, [unify((len(x), x[0]), outputs[0])]


def _places_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, ["int64"]


def arange_like(context: Context, attrs: Attrs, x: Array) -> Array:
    """Counted numbers in the shape of ``x``, or as many as it has along ``axis``."""
    shape = x.shape if attrs["axis"] is None else (x.shape[attrs["axis"]],)
    return _count_from(attrs["start"], attrs["step"], attrs["repeat"], int(np.prod(shape)), x.dtype).reshape(shape)


def _arange_like_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x = inputs[0]
    if attrs["axis"] is None:
        shape = unify(x, outputs[0])
        return [shape], [shape]
    size: Dim = None if x is None else x[axis_of(attrs["axis"], len(x))]
    return inputs, [unify((size,), outputs[0])]


def full_like(context: Context, attrs: Attrs, x: Array) -> Array:
    """``fill_value`` in the shape of ``x``, and in its type unless ``dtype`` names one."""
    dtype = x.dtype if attrs["dtype"] is None else type_of(attrs)
    return np.full(x.shape, np.asarray(attrs["fill_value"]).astype(dtype))


def _full_like_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape = unify(inputs[0], outputs[0])
    return [shape], [shape]


def _full_like_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    if attrs["dtype"] is None:
        return same_dtypes(attrs, inputs, outputs)
    return attribute_dtype(attrs, inputs, outputs)


KERNELS = with_limits(
    Limits(not_negative=("num", "N", "M", "dimensions", "shape")),
    _creating("_zeros", attribute_shape, _zeros),
    _creating("_ones", attribute_shape, _ones),
    Kernel("_zeros_without_dtype", zeros_of_any_type, _any_type_shapes, _any_type_types),
    _creating("_full", attribute_shape, _full),
    _creating("_arange", _arange_shape, _arange),
    _creating("_linspace", _linspace_shape, _linspace),
    _creating("_eye", _eye_shape, _eye),
    _creating("_npi_zeros", attribute_shape, _zeros),
    _creating("_npi_ones", attribute_shape, _ones),
    _creating("_npi_identity", attribute_shape, _identity),
    _creating("_npi_arange", _arange_shape, _arange),
    _creating("_npi_eye", _eye_shape, _eye),
    _creating("_npi_logspace", _linspace_shape, _logspace),
    _creating("_npi_blackman", _window_shape, _window(np.blackman)),
    _creating("_npi_hamming", _window_shape, _window(np.hamming)),
    _creating("_npi_hanning", _window_shape, _window(np.hanning)),
    _creating("_npi_indices", _indices_shape, _indices),
    Kernel("_npi_diag_indices_from", diagonal_places, _diagonal_places_shapes, _places_types),
    Kernel("_contrib_arange_like", arange_like, _arange_like_shapes, same_dtypes),
    Kernel("_npi_full_like", full_like, _full_like_shapes, _full_like_types),
)
