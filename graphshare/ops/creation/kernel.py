"""Arrays created from attributes or another array's shape; their gradients are zero.

A dimension 0 (or -1) in ``shape`` is unknown: inference completes it from the array's uses, and a
run passes it in ``context.shapes``. Under NumPy shapes 0 is a size, and a shape may be empty.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

import numpy as np

from graphshare.ops.conversion import NO_BFLOAT16
from graphshare.ops.gradient import no_gradient
from graphshare.ops.kernel import (
    NP_SHAPE,
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
from graphshare.ops.limits import Limits, require, with_limits
from graphshare.ops.unification import (
    attribute_rule,
    dtype_rule,
    is_known,
    normalize_axis,
    output_rule,
    same_dtypes,
    same_shapes,
    unify,
)
from graphshare.text.format import format_shape


def read_dtype(attrs: Attrs) -> str:
    """Return the attribute ``dtype``.

    Raises:
        KernelError: it is bfloat16.
    """
    name: str = attrs["dtype"]
    require(name != "bfloat16", NO_BFLOAT16)
    return name


def attribute_dtype(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer the output's dtype from the attribute ``dtype``."""
    return inputs, same_dtypes(attrs, [read_dtype(attrs)], outputs)[1]


ShapeOf = Callable[[Attrs], Shape]
Values = Callable[[Attrs, tuple[int, ...], Any], Array]


def complete_shape(context: Context, attrs: Attrs, shape_of: ShapeOf) -> tuple[int, ...]:
    """Return the inferred output shape, else the attributes' shape.

    Raises:
        KernelError: dimensions are still unknown.
    """
    inferred = context.shapes[0] if context.shapes else None
    shape = inferred if inferred is not None and is_known(inferred) else shape_of(attrs)
    if shape is None or not is_known(shape):
        raise KernelError(
            f"the shape {format_shape(shape)} is not fully known; specify the shapes of the graph's inputs"
        )
    return tuple(d for d in shape if d is not None)


def _creation_kernel(operator: str, shape_of: ShapeOf, values: Values) -> Kernel:
    """``values(attrs, shape, dtype)`` fills the shape ``shape_of(attrs)``."""

    def forward(context: Context, attrs: Attrs) -> Array:
        return values(attrs, complete_shape(context, attrs, shape_of), read_dtype(attrs))

    return Kernel(operator, forward, attribute_rule(shape_of), attribute_dtype)


def attribute_shape(attrs: Attrs) -> Shape:
    """Return ``shape``, with None for unknown sizes."""
    shape = attrs["shape"]
    if shape is None:
        return None
    if attrs.get(NP_SHAPE):
        return tuple(size if size >= 0 else None for size in shape)
    return tuple(size if size > 0 else None for size in shape) or None


# This operator takes a dtype's number, others its name.
_FLAGS = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")


def _name_dtype(attrs: Attrs) -> str:
    """Dtype -1 (undetermined) becomes float32."""
    flag = attrs["dtype"]
    require(
        -1 <= flag < len(_FLAGS),
        f"dtype {flag} is not a number of a dtype, expected -1 to {len(_FLAGS) - 1}",
    )
    return _FLAGS[max(flag, 0)]


def zeros_without_dtype(context: Context, attrs: Attrs) -> Array:
    """Return zeros; float32 if the dtype is undetermined."""
    return np.zeros(complete_shape(context, attrs, attribute_shape), _name_dtype(attrs))


def _infer_undetermined_dtypes(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, outputs if attrs["dtype"] == -1 else [_name_dtype(attrs)]


_BLOCK = 1 << 22  # elements, at most 32 MB: a time limit ends the run between blocks


def fill(shape: tuple[int, ...], value: Any, dtype: Any) -> Array:
    """Return an array of one number, written in blocks."""
    result: Array = np.empty(shape, dtype)
    flat = result.reshape(-1)
    for begin in range(0, flat.size, _BLOCK):
        flat[begin : begin + _BLOCK] = value
    return result


def _arange_shape(attrs: Attrs) -> Shape:
    require(attrs["repeat"] > 0, f"repeat is {attrs['repeat']}, expected at least 1")
    start, stop, step = attrs["start"], attrs["stop"], attrs["step"]
    if stop is None:
        # The range's uses determine its length.
        if attrs["infer_range"]:
            return (None,)
        start, stop = 0.0, start
    if step == 0 or (stop - start) / step <= 0:
        raise KernelError(f"the range from {start:g} to {stop:g} by {step:g} is empty")
    return (ceil((stop - start) / step) * attrs["repeat"],)


def _npi_arange_shape(attrs: Attrs) -> Shape:
    """Under NumPy shapes a range may be empty."""
    require(attrs["repeat"] == 1, f"repeat is {attrs['repeat']}, expected 1")
    start, stop = (
        (attrs["start"], attrs["stop"]) if attrs["stop"] is not None else (0.0, attrs["start"])
    )
    if attrs.get(NP_SHAPE) and attrs["step"] and (stop - start) / attrs["step"] <= 0:
        return (0,)
    return _arange_shape(attrs)


def _arange(attrs: Attrs, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return a range, each number ``repeat`` times, computed in the output dtype as in MXNet."""
    start = 0.0 if attrs["stop"] is None and not attrs["infer_range"] else attrs["start"]
    return _count_from(start, attrs["step"], attrs["repeat"], shape[0], dtype)


def _count_from(start: float, step: float, repeat: int, count: int, dtype: Any) -> Array:
    first, by = np.asarray(start).astype(dtype), np.asarray(step).astype(dtype)
    result: Array = (first + (np.arange(count) // repeat).astype(dtype) * by).astype(dtype)
    return result


def _eye(operator: str) -> Kernel:
    def values(attrs: Attrs, shape: tuple[int, ...], dtype: Any) -> Array:
        return np.eye(shape[0], shape[1], k=attrs["k"], dtype=dtype)

    return _creation_kernel(operator, lambda attrs: (attrs["N"], attrs["M"] or attrs["N"]), values)


def _make_spaced_kernel(operator: str, function: Callable[[Attrs, Array], Array]) -> Kernel:
    def values(attrs: Attrs, shape: tuple[int, ...], dtype: Any) -> Array:
        return np.asarray(function(attrs, _even_steps(attrs, shape[0])).astype(dtype))

    return _creation_kernel(operator, lambda attrs: (attrs["num"],), values)


def _window(operator: str, function: Callable[[int], Any]) -> Kernel:
    """Return a signal-processing window's kernel."""
    return _creation_kernel(
        operator,
        _window_shape,
        lambda attrs, shape, dtype: np.asarray(function(shape[0])).astype(dtype),
    )


def _even_steps(attrs: Attrs, count: int) -> Array:
    """As in MXNet, add whole steps to ``start`` in float64."""
    steps = count - 1 if attrs["endpoint"] else count
    step = (attrs["stop"] - attrs["start"]) / steps if steps > 0 else 0.0
    with np.errstate(all="ignore"):
        return np.asarray(attrs["start"] + step * np.arange(count))


def _identity(attrs: Attrs, shape: tuple[int, ...], dtype: Any) -> Array:
    result = np.zeros(shape, dtype)
    if 0 in shape:
        return result
    require(len(shape) >= 2, f"shape is {shape}, expected the rows and columns of a matrix")
    result.reshape(-1)[: shape[0] ** 2 : shape[0] + 1] = (
        1  # as in MXNet, even if the shape is not a square matrix
    )
    return result


def _window_shape(attrs: Attrs) -> Shape:
    if attrs["M"] is None:
        raise KernelError("M is required: the number of points of the window")
    # As in numpy, a negative number of points gives an empty window.
    return (max(attrs["M"], 0),)


def diagonal_indices(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the main diagonal's indices, a row per (equal) axis."""
    return np.array(np.broadcast_to(np.arange(x.shape[0], dtype=np.int64), (x.ndim, x.shape[0])))


def _diagonal_shape(attrs: Attrs, x: Dims) -> Shape:
    if len(x) < 2 or len({d for d in x if d is not None}) > 1:
        raise KernelError(
            f"the shape is {format_shape(x)}, expected at least two axes of the same size"
        )
    return len(x), x[0]


def arange_like(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return a range in the shape of ``x``, or of its length along ``axis``."""
    shape = x.shape if attrs["axis"] is None else (x.shape[attrs["axis"]],)
    return _count_from(
        attrs["start"], attrs["step"], attrs["repeat"], int(np.prod(shape)), x.dtype
    ).reshape(shape)


def _infer_arange_like_shapes(
    attrs: Attrs, inputs: Shapes, outputs: Shapes
) -> tuple[Shapes, Shapes]:
    require(attrs["repeat"] > 0, f"repeat is {attrs['repeat']}, expected at least 1")
    if attrs["axis"] is None:
        return same_shapes(attrs, inputs, outputs)
    x = inputs[0]
    size: Dim = None if x is None else x[normalize_axis(attrs["axis"], len(x))]
    return inputs, [unify((size,), outputs[0])]


def full_like(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return ``fill_value`` in the shape, and by default the dtype, of ``x``."""
    dtype = x.dtype if attrs["dtype"] is None else read_dtype(attrs)
    return fill(x.shape, np.asarray(attrs["fill_value"]).astype(dtype), dtype)


def _infer_full_like_dtypes(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    if attrs["dtype"] is None:
        return same_dtypes(attrs, inputs, outputs)
    return attribute_dtype(attrs, inputs, outputs)


KERNELS = with_limits(
    Limits(not_negative=("num", "N", "M", "dimensions", "shape")),
    *(
        _creation_kernel(name, attribute_shape, lambda attrs, shape, dtype: np.zeros(shape, dtype))
        for name in ("_zeros", "_npi_zeros")
    ),
    *(
        _creation_kernel(name, attribute_shape, lambda attrs, shape, dtype: fill(shape, 1, dtype))
        for name in ("_ones", "_npi_ones")
    ),
    Kernel(
        "_zeros_without_dtype",
        zeros_without_dtype,
        attribute_rule(attribute_shape),
        _infer_undetermined_dtypes,
    ),
    _creation_kernel(
        "_full",
        attribute_shape,
        lambda attrs, shape, dtype: fill(shape, np.asarray(attrs["value"]).astype(dtype), dtype),
    ),
    _creation_kernel("_arange", _arange_shape, _arange),
    _creation_kernel("_npi_arange", _npi_arange_shape, _arange),
    _creation_kernel("_npi_identity", attribute_shape, _identity),
    *map(_eye, ("_eye", "_npi_eye")),
    _make_spaced_kernel("_linspace", lambda attrs, steps: steps),
    _make_spaced_kernel(
        "_npi_logspace", lambda attrs, steps: np.power(float(attrs["base"]), steps)
    ),
    _window("_npi_blackman", np.blackman),
    _window("_npi_hamming", np.hamming),
    _window("_npi_hanning", np.hanning),
    _creation_kernel(
        "_npi_indices",
        lambda attrs: (len(attrs["dimensions"]), *attrs["dimensions"]),
        lambda attrs, shape, dtype: np.indices(shape[1:], dtype=dtype),
    ),
    Kernel(
        "_npi_diag_indices_from",
        diagonal_indices,
        output_rule(_diagonal_shape),
        dtype_rule("int64"),
    ),
    Kernel("_contrib_arange_like", arange_like, _infer_arange_like_shapes, same_dtypes),
    Kernel("_npi_full_like", full_like, same_shapes, _infer_full_like_dtypes),
)

GRADIENTS = (
    *no_gradient(
        "it has no floating-point inputs",
        *"_zeros _ones _full _arange _linspace _eye _npi_zeros _npi_ones _npi_identity _npi_arange _npi_eye".split(),
    ),
    *no_gradient("it reads only the shape of its input", "_contrib_arange_like", "_npi_full_like"),
    *no_gradient(
        "the result is counted, compared or constant",
        *"_npi_blackman _npi_diag_indices_from _npi_hamming _npi_hanning _npi_indices _npi_logspace".split(),
        "_zeros_without_dtype",
    ),
)
