"""Operators on padded sequences: time along one of the first two axes, samples along the other; and their gradients.

Lengths have no gradient.
"""

from __future__ import annotations

import numpy as np

from graphshare.ops.conversion import convert
from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.kernel import Array, Attrs, Context, Kernel, KernelError, Shape, Shapes, Types, reuse_buffer
from graphshare.ops.limits import Limits, with_limits
from graphshare.ops.permutation import permutation_vjp
from graphshare.ops.unification import unify
from graphshare.text.format import format_count, format_shape


def _lengths(length: Array, steps: int, least: int) -> Array:
    counts = convert(length, np.int64)
    if counts.size and not (counts.min() >= least and counts.max() <= steps):
        raise KernelError(f"lengths are {counts.min()} to {counts.max()}, but sequences have {format_count(steps, 'step')}")
    return counts


def sequence_mask(context: Context, attrs: Attrs, data: Array, length: Array | None = None) -> Array:
    """Return ``data`` with ``value`` from each sample's length on."""
    if length is None:
        return data
    axis = attrs["axis"]
    steps = np.arange(data.shape[axis])
    counts = convert(length, np.int64)
    over = steps[:, None] >= counts if axis == 0 else steps >= counts[:, None]
    out = reuse_buffer(context, data)
    result = data.copy() if out is None else out
    result[over] = convert(np.asarray(attrs["value"]), data.dtype)
    return result


def sequence_last(context: Context, attrs: Attrs, data: Array, length: Array | None = None) -> Array:
    """Return the last step of each sample."""
    axis = attrs["axis"]
    if length is None:
        return np.asarray(np.take(data, -1, axis))
    last = _lengths(length, data.shape[axis], 1) - 1
    samples = np.arange(len(last))
    return np.asarray(data[last, samples] if axis == 0 else data[samples, last])


def sequence_reverse(context: Context, attrs: Attrs, data: Array, length: Array | None = None) -> Array:
    """Return each sample's steps in reverse, those behind its length unchanged."""
    if length is None:
        return np.asarray(data[::-1].copy())
    counts = _lengths(length, data.shape[0], 0)
    steps = np.arange(data.shape[0])[:, None]
    order = np.where(steps < counts, counts - 1 - steps, steps)
    return np.asarray(data[order, np.arange(len(counts))])


def _mask_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    data = unify(inputs[0], outputs[0])
    return _with_lengths(attrs, [data, *inputs[1:]]), [data]


def _last_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    known = _with_lengths(attrs, inputs)
    data = known[0]
    if data is None:
        return known, outputs
    return known, [unify(data[1:] if attrs["axis"] == 0 else (data[0], *data[2:]), outputs[0])]


def _reverse_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    if attrs["axis"] != 0:
        raise KernelError(f"SequenceReverse along axis {attrs['axis']}; MXNet supports only axis 0")
    return _mask_shapes(attrs, inputs, outputs)


def _with_lengths(attrs: Attrs, inputs: Shapes) -> Shapes:
    data = inputs[0]
    if attrs["axis"] not in (0, 1):
        raise KernelError(f"time is along axis {attrs['axis']}, expected 0 or 1")
    if data is None:
        return [None, *(unify(length, (None,)) for length in inputs[1:])]
    if len(data) < 2:
        raise KernelError(f"{format_shape(data)} has no axes for time and samples")
    samples: Shape = (data[1 - attrs["axis"]],)
    try:
        return [data, *(unify(length, samples) for length in inputs[1:])]
    except KernelError:
        raise KernelError(f"sequence_length is {format_shape(inputs[1])}, expected {format_shape(samples)}") from None


def _types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer the dtype of the data also for lengths that have no other."""
    dtype = inputs[0] or outputs[0]
    return [dtype, *(length or dtype for length in inputs[1:])], [dtype]


KERNELS = with_limits(
    Limits(elements=True),
    Kernel("SequenceMask", sequence_mask, _mask_shapes, _types),
    Kernel("SequenceLast", sequence_last, _last_shapes, _types),
    Kernel("SequenceReverse", sequence_reverse, _reverse_shapes, _types),
)


def sequence_mask_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` before each sample's length, zeros from there on."""
    if len(entry.inputs) == 1:
        return dy
    axis = entry.attrs["axis"]
    steps, counts = np.arange(dy.shape[axis]), convert(entry.inputs[1], np.int64)
    within = steps[:, None] < counts if axis == 0 else steps < counts[:, None]
    return np.asarray(dy * within.reshape(*within.shape, *(1,) * (dy.ndim - 2)))


GRADIENTS = (
    Gradient("SequenceMask", sequence_mask_gradient, reads_outputs=False),
    *(Gradient(name, permutation_vjp(name), reads_outputs=False) for name in ("SequenceLast", "SequenceReverse")),
)
