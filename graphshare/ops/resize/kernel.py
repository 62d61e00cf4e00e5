"""Resizing of images by means or interpolation, as products along height and width; gradients."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from graphshare.ops.convolution.kernel import (
    deconvolution,
    deconvolution_gradients,
    deconvolution_shapes,
)
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array, Attrs, Context, Dim, Dims, Kernel, KernelError, Shapes
from graphshare.ops.limits import Limits, require, with_limits
from graphshare.ops.unification import dims_of_rank, same_dtypes, sum_if_known, unify
from graphshare.ops.windows import to_compute_dtype, unify_dims
from graphshare.text.format import format_count, format_shape


def bilinear_attrs(attrs: Attrs) -> dict[str, object]:
    """Return Deconvolution's attributes for bilinear upsampling."""
    scale, filters = attrs["scale"], attrs["num_filter"]
    # MXNet's formulas; the weight is an input and need not interpolate.
    kernel, pad = 2 * scale - scale % 2, -(-(scale - 1) // 2)
    return {
        "kernel": (kernel, kernel),
        "stride": (scale, scale),
        "pad": (pad, pad),
        "num_filter": filters,
        "num_group": filters,
        "layout": None,
    }


def upsampling(context: Context, attrs: Attrs, *arrays: Array) -> Array:
    """Resize images (N, C, H, W) to ``scale`` times the first one; concatenate or sum several."""
    if attrs["sample_type"] == "bilinear":
        return deconvolution(context, bilinear_attrs(attrs), *arrays)
    height = arrays[0].shape[2] * attrs["scale"]
    total = attrs["multi_input_mode"] == "sum"
    if len(arrays) == 1 or not total:
        channels = sum(x.shape[1] for x in arrays)
        out = np.empty(
            (len(arrays[0]), channels, height, arrays[0].shape[3] * attrs["scale"]), arrays[0].dtype
        )
    else:
        out = np.zeros(
            (*arrays[0].shape[:2], height, arrays[0].shape[3] * attrs["scale"]), arrays[0].dtype
        )
    first = 0
    for x in arrays:
        factor = height // x.shape[2]
        require(
            factor * x.shape[3] == out.shape[3],
            f"the size of {format_shape(x.shape)} does not divide {format_shape(out.shape[2:])}",
        )
        target = out if total else out[:, first : first + x.shape[1]]
        first += x.shape[1]
        blocks = target.reshape(*target.shape[:2], x.shape[2], factor, x.shape[3], factor)
        wide = x[:, :, :, None, :, None]
        if total and len(arrays) > 1:
            blocks += wide
        else:
            blocks[...] = wide
    return out


def upsampling_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the output, and the weight of bilinear upsampling."""
    if attrs["sample_type"] == "bilinear":
        return _bilinear_shapes(attrs, inputs, outputs)
    shapes = [dims_of_rank(shape, 4) for shape in inputs]
    scale, first = attrs["scale"], shapes[0]
    height, width = (None if n is None else n * scale for n in first[2:])
    batch, channels = dims_of_rank(outputs[0], 4)[0], None
    for shape in shapes:
        batch = unify_dims(shape[0], batch, "samples")
        for own, common, axis in ((shape[2], height, "height"), (shape[3], width, "width")):
            if own is not None and common is not None and common % own:
                raise KernelError(
                    f"the {axis} {own} of an input does not divide {common}, scale times the {axis} of the first"
                )
    if attrs["multi_input_mode"] == "sum":
        for shape in shapes:
            channels = unify_dims(shape[1], channels, "channels of images that are summed")
        shapes = [(s[0], channels, *s[2:]) for s in shapes]
    else:
        channels = sum_if_known([s[1] for s in shapes])
    return [(batch, *s[1:]) for s in shapes], [unify((batch, channels, height, width), outputs[0])]


def _bilinear_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    channels = dims_of_rank(inputs[0], 4)[1]
    if channels not in (None, attrs["num_filter"]):
        raise KernelError(
            f"num_filter is {attrs['num_filter']}, expected the {format_count(channels, 'channel')} of data"
        )
    return deconvolution_shapes(bilinear_attrs(attrs), inputs, outputs)


def adaptive_average(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return means over ``output_size`` bins (N, C, H, W), perhaps overlapping."""
    height, width = bin_counts(attrs)
    return apply_separable(
        x, averaging_matrix(x.shape[2], height), averaging_matrix(x.shape[3], width)
    )


def bilinear_resize(context: Context, attrs: Attrs, x: Array, like: Array | None = None) -> Array:
    """Interpolate between the four nearest pixels (N, C, H, W)."""
    height, width = _output_size(attrs, x.shape, None if like is None else like.shape)
    assert height is not None
    assert width is not None
    corners = attrs["align_corners"]
    return apply_separable(
        x,
        interpolation_matrix(x.shape[2], height, corners),
        interpolation_matrix(x.shape[3], width, corners),
    )


def apply_separable(x: Array, rows: Array, columns: Array) -> Array:
    """Return ``rows`` @ x @ ``columns`` transposed, per image."""
    wide = to_compute_dtype(x)
    out: Array = np.matmul(np.matmul(rows.astype(wide.dtype), wide), columns.T.astype(wide.dtype))
    return out.astype(x.dtype, copy=False)


@lru_cache(maxsize=64)
def averaging_matrix(size: int, bins: int) -> Array:
    """Return each cell's weight in each mean: (bins, size)."""
    cell, bin_ = np.arange(size), np.arange(bins)[:, None]
    inside = (cell >= bin_ * size // bins) & (cell < -(-(bin_ + 1) * size // bins))
    return np.asarray(inside / inside.sum(axis=1, keepdims=True))


@lru_cache(maxsize=64)
def interpolation_matrix(size: int, count: int, corners: bool) -> Array:
    """Return each cell's weight in each interpolated one: (count, size)."""
    # As in MXNet, a single pixel is the first, not the middle.
    if count == 1:
        place = np.zeros(1, dtype=np.float32)
    elif corners:
        scale = np.float32(size - 1) / np.float32(count - 1)
        place = scale * np.arange(count, dtype=np.float32)
    else:
        scale = np.float32(size) / np.float32(count)
        # As in MXNet, the scale is float32, the coordinate computed in float64 and rounded.
        place = np.maximum(np.float64(scale) * (np.arange(count) + 0.5) - 0.5, 0).astype(np.float32)
    lower = np.minimum(place.astype(np.int64), size - 1)
    part = place - lower
    weights = np.zeros((count, size))
    np.add.at(weights, (np.arange(count), lower), 1 - part)
    np.add.at(weights, (np.arange(count), np.minimum(lower + 1, size - 1)), part)
    return weights


def bin_counts(attrs: Attrs) -> tuple[int, int]:
    """Return the bins along height and width."""
    size = attrs["output_size"] or (1,)
    if len(size) > 2 or min(size) < 1:
        raise KernelError(f"output_size is {size}, expected one or two sizes of at least 1")
    return size[0], size[-1]


def _output_size(attrs: Attrs, shape: Dims, like: Dims | None) -> tuple[Dim, Dim]:
    mode = attrs["mode"]
    scaled = attrs["scale_height"] is not None  # MXNet looks only at the height
    if scaled and attrs["scale_width"] is None and mode == "size":
        raise KernelError("scale_height needs scale_width")
    if mode == "like":
        return (None, None) if like is None else (like[2], like[3])
    if mode == "size" and not scaled:
        return attrs["height"], attrs["width"]
    return _resize_axis(attrs, shape[2], "height"), _resize_axis(attrs, shape[3], "width")


def _resize_axis(attrs: Attrs, size: Dim, name: str) -> Dim:
    """Return the output size on the axis ``name``, by its scale or the mode's parity."""
    mode, scale = attrs["mode"], attrs[f"scale_{name}"]
    if size is None:
        return None
    if mode not in ("size", "odd_scale"):
        remainder = 0 if "even" in mode else 1
        if size % 2 == remainder:
            return size
        return size - 1 if mode.endswith("down") else size + 1
    if scale is None:
        raise KernelError(f"mode odd_scale needs scale_{name}")
    if mode == "odd_scale" and size % 2:
        return int(np.float32(size - 1) * np.float32(scale)) + 1
    return int(np.float32(scale) * np.float32(size))


def adaptive_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the output, samples and channels."""
    return _resize_shapes(inputs, outputs, bin_counts(attrs))


def resize_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the output by mode, samples and channels."""
    like = dims_of_rank(inputs[1], 4) if len(inputs) > 1 else None
    return _resize_shapes(inputs, outputs, _output_size(attrs, dims_of_rank(inputs[0], 4), like))


def _resize_shapes(inputs: Shapes, outputs: Shapes, size: tuple[Dim, Dim]) -> tuple[Shapes, Shapes]:
    data, out = dims_of_rank(inputs[0], 4), dims_of_rank(outputs[0], 4)
    front = tuple(
        unify_dims(a, b, "samples or channels of data and output")
        for a, b in zip(data[:2], out[:2], strict=True)
    )
    spatial = tuple(
        unify_dims(a, b, "height or width of the output")
        for a, b in zip(out[2:], size, strict=True)
    )
    return [(*front, *data[2:]), *inputs[1:]], [(*front, *spatial)]


KERNELS = with_limits(
    Limits(
        elements=True,
        positive=("height", "width", "num_filter", "scale"),
        above=("scale_height", "scale_width"),
    ),
    Kernel("_contrib_AdaptiveAvgPooling2D", adaptive_average, adaptive_shapes, same_dtypes),
    Kernel("_contrib_BilinearResize2D", bilinear_resize, resize_shapes, same_dtypes),
    Kernel("UpSampling", upsampling, upsampling_shapes, same_dtypes),
)


def upsampling_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Sum ``dy`` over each pixel's cells."""
    if entry.attrs["sample_type"] == "bilinear":
        return deconvolution_gradients(bilinear_attrs(entry.attrs), entry, dy)
    gradients, first = [], 0
    total = entry.attrs["multi_input_mode"] == "sum" and len(entry.inputs) > 1
    for x in entry.inputs:
        part = dy if total else dy[:, first : first + x.shape[1]]
        first += x.shape[1]
        down, right = dy.shape[2] // x.shape[2], dy.shape[3] // x.shape[3]
        blocks = part.reshape(*x.shape[:3], down, x.shape[3], right)
        gradients.append(blocks.sum(axis=(3, 5)))
    return gradients


def adaptive_average_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Share ``dy`` among each mean's cells."""
    (x,) = entry.inputs
    height, width = bin_counts(entry.attrs)
    return apply_separable(
        dy, averaging_matrix(x.shape[2], height).T, averaging_matrix(x.shape[3], width).T
    )


def bilinear_resize_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Share ``dy`` among the four pixels of each interpolation."""
    x, corners = entry.inputs[0], entry.attrs["align_corners"]
    rows, columns = (
        interpolation_matrix(x.shape[axis], dy.shape[axis], corners).T for axis in (2, 3)
    )
    return apply_separable(dy, rows, columns)


GRADIENTS = (
    Gradient("_contrib_AdaptiveAvgPooling2D", adaptive_average_gradient, reads_outputs=False),
    Gradient("_contrib_BilinearResize2D", bilinear_resize_gradient, reads_outputs=False),
    Gradient("UpSampling", upsampling_gradient, reads_outputs=False),
)
