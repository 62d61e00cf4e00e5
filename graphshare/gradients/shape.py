"""Gradients of the same elements under another shape, in another order, in parts, joined or stretched."""

from __future__ import annotations

import numpy as np

from graphshare.gradients.gradient import Gradient, GradientError, Gradients, Record, no_gradient, summed_to
from graphshare.gradients.moving import moved, moved_all
from graphshare.kernels.inference import axis_of
from graphshare.kernels.kernel import Array
from graphshare.kernels.numpy_joining import pad_widths
from graphshare.kernels.slicing import axis_span, slices


def reshaped(record: Record, dy: Array) -> Array:
    """Back to the input's shape."""
    return np.asarray(dy.reshape(record.inputs[0].shape))


def turned_again(record: Record, dy: Array) -> Array:
    """Turned by ``k`` once more, which is what MXNet does; the way back would be ``-k``."""
    return np.rot90(dy, record.attrs["k"], record.attrs["axes"])


def transposed(record: Record, dy: Array) -> Array:
    """Back by the inverse order."""
    axes = record.attrs["axes"]
    if not axes:
        return np.asarray(dy.transpose())
    return np.asarray(dy.transpose(np.argsort([axis_of(axis, dy.ndim) for axis in axes]).tolist()))


def swapped(record: Record, dy: Array) -> Array:
    """The same two axes swapped."""
    return np.asarray(dy.swapaxes(record.attrs["dim1"], record.attrs["dim2"]))


def reversed_(record: Record, dy: Array) -> Array:
    """The same axes reversed."""
    return np.flip(dy, tuple(axis_of(axis, dy.ndim) for axis in record.attrs["axis"]))


def sliced(record: Record, dy: Array) -> Array:
    """Zeros, and the gradient in the part's place."""
    dx = np.zeros_like(record.inputs[0])
    dx[slices(record.attrs, dx.ndim)] = dy
    return np.asarray(dx)


def sliced_axis(record: Record, dy: Array) -> Array:
    """Zeros, and the gradient in the part's place."""
    dx = np.zeros_like(record.inputs[0])
    axis = axis_of(record.attrs["axis"], dx.ndim)
    dx[(slice(None),) * axis + (slice(*axis_span(record.attrs, dx.shape[axis])),)] = dy
    return np.asarray(dx)


def sliced_like(record: Record, dy: Array) -> Array:
    """Zeros, and the gradient at the beginning."""
    dx = np.zeros_like(record.inputs[0])
    dx[tuple(slice(0, size) for size in dy.shape)] = dy
    return np.asarray(dx)


def assigned(record: Record, dy: Array) -> Gradients:
    """Of what is left, and of what was put into the part."""
    part = slices(record.attrs, dy.ndim)
    dx = dy.copy()
    dx[part] = 0
    return [dx, dy[part]] if len(record.wanted) > 1 else [dx]


def joined(record: Record, dy: Array) -> Gradients:
    """To each input its part."""
    axis = record.attrs["dim"] if "dim" in record.attrs else record.attrs["axis"]
    if axis is None:
        dy, axis, sizes = dy.reshape(-1), 0, [x.size for x in record.inputs]
    else:
        axis = axis_of(axis, dy.ndim)
        sizes = [x.shape[axis] for x in record.inputs]
    parts = np.split(dy, np.cumsum(sizes)[:-1].tolist(), axis)
    return [part.reshape(x.shape).astype(x.dtype, copy=False) for part, x in zip(parts, record.inputs, strict=True)]


def stacked(record: Record, dy: Array) -> Gradients:
    """To each input its part."""
    return list(np.moveaxis(dy, record.attrs["axis"], 0))


def split(record: Record, *dys: Array | None) -> Array:
    """The parts' gradients where the parts were, zeros for those that nobody read."""
    (x,) = record.inputs
    axis = axis_of(record.attrs["axis"], x.ndim)
    dx = np.zeros_like(x)
    count, sections = x.shape[axis], record.attrs.get("num_outputs") or record.attrs.get("sections") or 0
    bounds = [i * count // sections for i in range(sections + 1)] if sections else [*record.attrs["indices"], count]
    for dy, begin, end in zip(dys, bounds, bounds[1:], strict=False):
        if dy is not None:
            part = dx[(slice(None),) * axis + (slice(begin, end),)]
            part += dy.reshape(part.shape)
    return np.asarray(dx)


def summed(record: Record, dy: Array) -> Array:
    """The sum over all places that an element was stretched to."""
    return summed_to(dy, record.inputs[0].shape)


def bordered(record: Record, dy: Array) -> Array:
    """Of what is inside the border, which is a constant."""
    if record.attrs["mode"] != "constant":
        raise GradientError(f"MXNet has none for a border of mode {record.attrs['mode']}")
    (x,) = record.inputs
    widths = pad_widths(record.attrs, x.ndim)
    return dy[tuple(slice(before, before + size) for (before, _), size in zip(widths, x.shape, strict=True))]


def trace(record: Record, dy: Array) -> Array:
    """To every element of the diagonal that was added up."""
    dx, attrs = np.zeros_like(record.inputs[0]), record.attrs
    matrices = np.moveaxis(dx, (attrs["axis1"], attrs["axis2"]), (-2, -1))  # a view
    steps = np.arange(np.diagonal(matrices, attrs["offset"], -2, -1).shape[-1])
    matrices[..., steps + max(0, -attrs["offset"]), steps + max(0, attrs["offset"])] = dy[..., None]
    return np.asarray(dx)


_MOVING = (
    "Crop tile repeat depth_to_space space_to_depth SequenceLast SequenceReverse im2col diag _np_diag _np_diagflat "
    "_np_diagonal _np_roll _np_moveaxis _npi_flip _npi_tril _linalg_makediag _linalg_maketrian "
    "_linalg_extractdiag _linalg_extracttrian _npi_hsplit _image_crop"
).split()
_MOVING_ALL = "_npi_stack _npi_vstack _npi_hstack _npi_dstack _npi_column_stack".split()

GRADIENTS = (
    *(
        Gradient(name, reshaped, reads_outputs=False)
        for name in (
            "Reshape",
            "Flatten",
            "reshape_like",
            "expand_dims",
            "squeeze",
            "_np_reshape",
            "_npx_reshape",
            "_np_squeeze",
            "_np_copy",
        )
    ),
    Gradient("transpose", transposed, reads_inputs=False, reads_outputs=False),
    Gradient("_np_transpose", transposed, reads_inputs=False, reads_outputs=False),
    Gradient("SwapAxis", swapped, reads_inputs=False, reads_outputs=False),
    Gradient("reverse", reversed_, reads_inputs=False, reads_outputs=False),
    Gradient("slice", sliced, reads_outputs=False),
    Gradient("slice_axis", sliced_axis, reads_outputs=False),
    Gradient("slice_like", sliced_like, reads_outputs=False),
    Gradient("_slice_assign", assigned, reads_inputs=False, reads_outputs=False),
    Gradient("_slice_assign_scalar", assigned, reads_inputs=False, reads_outputs=False),
    *(Gradient(name, joined, reads_outputs=False) for name in ("Concat", "_rnn_param_concat", "_npi_concatenate")),
    Gradient("stack", stacked, reads_inputs=False, reads_outputs=False),
    Gradient("SliceChannel", split, reads_outputs=False),
    Gradient("_split_v2", split, reads_outputs=False),
    *(Gradient(name, summed, reads_outputs=False) for name in ("broadcast_to", "broadcast_axis", "broadcast_like")),
    *(Gradient(name, moved(name), reads_outputs=False) for name in _MOVING),
    *(Gradient(name, moved_all(name), reads_outputs=False) for name in _MOVING_ALL),
    Gradient("_npi_rot90", turned_again, reads_inputs=False, reads_outputs=False),
    Gradient("_npi_broadcast_to", summed, reads_outputs=False),
    Gradient("_npi_pad", bordered, reads_outputs=False),
    Gradient("_np_trace", trace, reads_outputs=False),
    *no_gradient(
        "MXNet has none for it", "_npi_delete", *(f"_npi_insert_{w}" for w in ("scalar", "slice", "tensor")), is_zero=False
    ),
    Gradient("Pad", moved("Pad", attrs={"constant_value": -1.0}), reads_outputs=False),
)
