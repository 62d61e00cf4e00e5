"""The softmax family and its gradients, computed from the outputs."""

from __future__ import annotations

import numpy as np

from graphshare.ops.arrays import Array, Attrs, KernelError, Shapes, Types
from graphshare.ops.conversion import convert, to_floating
from graphshare.ops.gradient import Gradient, TapeEntry, Vjp
from graphshare.ops.kernel import Context, Forward, Kernel, result_buffer, reuse_buffer
from graphshare.ops.unification import normalize_axis, same_floating_dtypes, same_shapes, unify
from graphshare.text.format import format_count


def softmax_along(x: Array, axis: int, out: Array | None = None, temperature: float = 1.0) -> Array:
    """Return softmax along an axis; a row of -inf gives zeros."""
    if not x.size:
        return x
    with np.errstate(all="ignore"):
        largest = np.max(x, axis=axis, keepdims=True)
        if largest.dtype.kind == "f":
            # -inf minus -inf would be NaN.
            largest = np.where(largest == -np.inf, largest.dtype.type(0), largest)
        result: Array = np.asarray(np.subtract(x, largest, out=out))
        if temperature != 1:
            result /= result.dtype.type(temperature)
        np.exp(result, out=result)
        total = np.sum(result, axis=axis, keepdims=True)
        np.divide(result, np.where(total == 0, total.dtype.type(1), total), out=result)
    return result


def log_softmax_along(
    x: Array, axis: int, out: Array | None = None, temperature: float = 1.0
) -> Array:
    """Return the logarithm of :func:`softmax_along`."""
    if not x.size:
        return x
    with np.errstate(all="ignore"):
        result = np.asarray(np.subtract(x, np.max(x, axis=axis, keepdims=True), out=out))
        if temperature != 1:
            result /= result.dtype.type(temperature)
        result -= np.log(np.sum(np.exp(result), axis=axis, keepdims=True))
    return np.asarray(result)


def _prepare(context: Context, attrs: Attrs, x: Array, sign: int) -> tuple[Array, Array | None]:
    """Return the exponential's input, in the compute dtype, and a result buffer."""
    data = x.astype(np.float64) if attrs["dtype"] == "float64" else to_floating(x)
    if sign != 1:
        data = np.asarray(np.negative(data))
        return data, data
    return data, result_buffer(context, data) if data is x else None


def _softmax_member(along: Forward, sign: int = 1) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        if not x.ndim:
            return np.asarray(forward(context, attrs, x.reshape(1))).reshape(())
        data, out = _prepare(context, attrs, x, sign)
        result: Array = along(data, attrs["axis"], out, _temperature(attrs))  # type: ignore[assignment]
        return _round(result, attrs, x)

    return forward


def _round(result: Array, attrs: Attrs, x: Array) -> Array:
    """Convert to the output dtype; as in MXNet, wider outputs hold values of the dtype of ``x``."""
    dtype = np.dtype(attrs["dtype"] or x.dtype)
    return convert(
        convert(result, x.dtype) if x.dtype.kind == "f" and dtype.itemsize > x.itemsize else result,
        dtype,
    )


def _temperature(attrs: Attrs) -> float:
    return 1.0 if attrs["temperature"] is None else float(attrs["temperature"])


def softmax(context: Context, attrs: Attrs, x: Array, length: Array | None = None) -> Array:
    """Compute softmax along ``axis``; with ``use_length``, 0 after the first ``length`` elements."""
    if length is None:
        return np.asarray(_softmax_member(softmax_along)(context, attrs, x))
    data, _ = _prepare(context, attrs, x, 1)
    axis = normalize_axis(attrs["axis"], x.ndim)
    places = np.arange(x.shape[axis]).reshape((-1,) + (1,) * (x.ndim - 1 - axis))
    inside = places < np.expand_dims(length, axis)
    masked = np.where(inside, data, data.dtype.type(-np.inf))
    result = softmax_along(masked, axis, masked, _temperature(attrs))
    return _round(np.where(inside, result, result.dtype.type(0)), attrs, x)  # 0 also beside NaN


def softmax_activation(context: Context, attrs: Attrs, x: Array) -> Array:
    """Compute softmax over the channels at each position, or the last axis."""
    axis = 1 if attrs["mode"] == "channel" else -1
    return convert(
        softmax_along(
            to_floating(x), axis, reuse_buffer(context, x) if x.dtype != np.float16 else None
        ),
        x.dtype,
    )


def _softmax_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape = unify(inputs[0], outputs[0])
    if shape is None:
        return inputs, outputs
    axis = normalize_axis(attrs["axis"], max(1, len(shape)))
    if len(inputs) == 1:
        return [shape], [shape]
    rest = tuple(d for i, d in enumerate(shape) if i != axis)
    try:
        return [shape, unify(inputs[1], rest)], [shape]
    except KernelError as error:
        raise KernelError(
            f"length needs the shape of data without axis {attrs['axis']}: {error}"
        ) from None


def _single_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    if attrs["use_length"]:
        raise KernelError(
            "use_length is supported only by softmax; this operator does not take a length"
        )
    return _softmax_shapes(attrs, inputs, outputs)


def _channel_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    (shape,), _ = same_shapes(attrs, inputs, outputs)
    if attrs["mode"] == "channel" and shape is not None and len(shape) < 3:
        raise KernelError(
            f"softmax over channels of an array with {format_count(len(shape), 'axis')}, expected 3 or more"
        )
    return [shape], [shape]


def _softmax_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    for dtype, kinds, words in zip(
        inputs, (("float",), ("int", "uint")), ("floating point", "integers"), strict=False
    ):
        if dtype is not None and not dtype.startswith(kinds):
            raise KernelError(f"{dtype} is not supported, expected {words}")
    if attrs["dtype"] is not None:
        return inputs, [attrs["dtype"]]
    known = inputs[0] if inputs[0] is not None else outputs[0]
    return [known, *inputs[1:]], [known]


KERNELS = (
    Kernel("softmax", softmax, _softmax_shapes, _softmax_types),
    Kernel("log_softmax", _softmax_member(log_softmax_along), _single_shapes, _softmax_types),
    Kernel("softmin", _softmax_member(softmax_along, -1), _single_shapes, _softmax_types),
    Kernel("SoftmaxActivation", softmax_activation, _channel_shapes, same_floating_dtypes),
)


def _member(*, sign: int = 1, logarithm: bool = False) -> Vjp:
    def vjp(entry: TapeEntry, dy: Array) -> Array:
        x, y, axis = entry.inputs[0], entry.outputs[0], entry.attrs["axis"]
        if not y.ndim:
            return np.zeros_like(x)
        if logarithm:
            dx = dy - np.exp(y) * dy.sum(axis=axis, keepdims=True)
        else:
            dx = y * (dy - (dy * y).sum(axis=axis, keepdims=True))
        temperature = entry.attrs["temperature"]
        scale = sign if temperature is None else np.divide(sign, temperature)
        return np.asarray(dx if scale == 1 else dx * dx.dtype.type(scale)).astype(
            x.dtype, copy=False
        )

    return vjp


def softmax_activation_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return MXNet's gradient: over channels in both modes."""
    y = entry.outputs[0]
    return np.asarray(y * (dy - (dy * y).sum(axis=min(1, y.ndim - 1), keepdims=True)))


GRADIENTS = (
    Gradient("softmax", _member()),
    Gradient("softmin", _member(sign=-1)),
    Gradient("log_softmax", _member(logarithm=True)),
    Gradient("SoftmaxActivation", softmax_activation_gradient, reads_inputs=False),
)
