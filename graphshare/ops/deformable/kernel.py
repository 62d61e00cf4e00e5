"""Deformable convolution, deformable position-sensitive region pooling, and gradients.

Learned offsets move a window's taps or a region's bins; each bin has its own channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Context,
    Dim,
    Dims,
    Kernel,
    KernelError,
    Shapes,
    Sizes,
)
from graphshare.ops.limits import FLOATS, Limits, require, require_memory, with_limits
from graphshare.ops.spatial_transform.kernel import (
    bilinear_gradient,
    sample_bilinear,
    sample_clamped,
    window_pairs,
)
from graphshare.ops.unification import dims_of_rank, same_dtypes, unify
from graphshare.text.format import format_count


def _output_sizes(attrs: Attrs, sizes: Dims) -> Dims:
    result: list[Dim] = []
    for size, k, stride, dilate, pad in zip(sizes, *window_pairs(attrs), strict=True):
        room = None if size is None else size + 2 * pad - dilate * (k - 1) - 1
        if room is not None and room < 0:
            raise KernelError(
                f"an axis of size {size} with padding {pad} is smaller than the kernel"
            )
        result.append(None if room is None else room // stride + 1)
    return tuple(result)


def _place_taps(attrs: Attrs, samples: int, offset: Array) -> tuple[Array, Array, Array]:
    """Return offsets ``(N, G, kh, kw, 2, h, w)``, and rows and columns of the unmoved taps."""
    (kh, kw), *_ = window_pairs(attrs)
    h, w = offset.shape[2:]
    return offset.reshape(samples, attrs["num_deformable_group"], kh, kw, 2, h, w), *regular_taps(
        attrs, h, w
    )


def regular_taps(attrs: Attrs, height: int, width: int) -> tuple[Array, Array]:
    """Return rows and columns of the unmoved taps; they broadcast to ``(kh, kw, h, w)``."""
    (kh, kw), stride, dilate, pad = window_pairs(attrs)
    rows = np.arange(kh).reshape(kh, 1, 1, 1) * dilate[0] + (
        np.arange(height) * stride[0] - pad[0]
    ).reshape(height, 1)
    return rows, np.arange(kw).reshape(1, kw, 1, 1) * dilate[1] + np.arange(width) * stride[
        1
    ] - pad[1]


def deformable_convolution(
    context: Context, attrs: Attrs, x: Array, offset: Array, weight: Array, *bias: Array
) -> Array:
    """Convolve with taps moved by ``offset`` ``(N, 2*G*kh*kw, h, w)``, (y, x) per tap."""
    return _convolve_deformed(attrs, x, offset, None, weight, *bias)


def _convolve_deformed(
    attrs: Attrs, x: Array, offset: Array, mask: Array | None, weight: Array, *bias: Array
) -> Array:
    """A mask ``(N, G*kh*kw, h, w)`` scales samples; with one, samples outside the data are 0."""
    places, rows, columns = _place_taps(attrs, len(x), offset)
    (n, shifts, kh, kw, _, h, w), channels, groups = places.shape, x.shape[1], attrs["num_group"]
    require_memory(n * channels * kh * kw * h * w * x.itemsize)
    cells: Array = np.empty((n, channels, kh, kw, h, w), x.dtype)
    each = channels // shifts
    interpolate = sample_clamped if mask is None else sample_bilinear
    for sample, group in np.ndindex(n, shifts):
        part = slice(group * each, group * each + each)
        at = places[sample, group]
        cells[sample, part] = interpolate(
            x[sample, part], rows + at[:, :, 0], columns + at[:, :, 1]
        )
        if mask is not None:
            cells[sample, part] *= mask[sample].reshape(shifts, kh, kw, h, w)[group]
    kernels = weight.reshape(groups, weight.shape[0] // groups, -1)
    out: Array = (kernels @ cells.reshape(n, groups, kernels.shape[2], h * w)).reshape(
        n, weight.shape[0], h, w
    )
    if bias:
        out += bias[0].reshape(-1, 1, 1)
    return out


def _infer_convolution_shapes(
    attrs: Attrs, inputs: Shapes, outputs: Shapes
) -> tuple[Shapes, Shapes]:
    require(
        attrs["layout"] in (None, "NCHW"),
        f"layout {attrs['layout']} is not supported, expected NCHW",
    )
    n, channels, *sizes = dims_of_rank(inputs[0], 4)
    kernel, filters, groups = tuple(attrs["kernel"]), attrs["num_filter"], attrs["num_group"]
    weight = dims_of_rank(inputs[2], 4)
    if channels is None and weight[1] is not None:
        channels = weight[1] * groups
    if filters % groups:
        raise KernelError(f"num_filter {filters} is not a multiple of num_group {groups}")
    if channels is not None and (channels % groups or channels % attrs["num_deformable_group"]):
        raise KernelError(
            f"{format_count(channels, 'channel')} cannot be divided into num_group and num_deformable_group equal parts"
        )
    if filters % attrs["num_deformable_group"]:
        raise KernelError(
            f"num_filter {filters} is not a multiple of num_deformable_group {attrs['num_deformable_group']}"
        )
    output = dims_of_rank(unify((n, filters, *_output_sizes(attrs, tuple(sizes))), outputs[0]), 4)
    shapes = (
        (output[0], channels, *sizes),
        (output[0], 2 * attrs["num_deformable_group"] * kernel[0] * kernel[1], *output[2:]),
        (filters, None if channels is None else channels // groups, *kernel),
        (filters,),
    )
    return [unify(a, b) for a, b in zip(inputs, shapes, strict=False)], [output]


def _infer_mask_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    rest, (output,) = _infer_convolution_shapes(attrs, [*inputs[:2], *inputs[3:]], outputs)
    n, _, *places = dims_of_rank(output, 4)
    kernel = attrs["kernel"]
    mask = unify(inputs[2], (n, attrs["num_deformable_group"] * kernel[0] * kernel[1], *places))
    return [*rest[:2], mask, *rest[2:]], [output]


def _count_taps(attrs: Attrs, inputs: Sizes, outputs: Sizes) -> int:
    weight = next(shape for shape in reversed(inputs) if len(shape) == 4)
    return prod(outputs[0]) * prod(weight[1:])


class Bin(NamedTuple):
    """One bin of one region: its index in the result, sample, channel, and sampled points.

    ``rows`` and ``columns`` are points inside the image, clamped to its pixels; ``extent`` is the
    region's (width, height), ``shift`` the index in ``trans`` of the offsets (x, y), or None.
    """

    place: tuple[int, int, int, int]
    sample: int
    channel: int
    rows: Array
    columns: Array
    extent: Array
    shift: tuple[int, slice, int, int] | None


def shift_bins(attrs: Attrs, shape: tuple[int, ...], rois: Array, *trans: Array) -> Iterator[Bin]:
    """Yield the bins of regions over images of ``shape`` (N, C, H, W).

    Raises:
        KernelError: a region refers to a sample that does not exist.
    """
    size, count, group = attrs["pooled_size"], attrs["output_dim"], attrs["group_size"]
    part, points = attrs["part_size"] or size, attrs["sample_per_part"]
    shifted, number = not attrs["no_trans"], rois.dtype.type
    classes = trans[0].shape[1] // 2 if shifted else 1
    height, width = shape[2:]
    cells = np.clip(np.arange(size) * group // size, 0, group - 1)
    parts = np.arange(size) * part // size
    steps = np.arange(points).astype(rois.dtype)
    for r, region in enumerate(rois):
        sample = int(region[0])
        if not 0 <= sample < shape[0]:
            raise KernelError(f"a region refers to sample {sample}, but there are {shape[0]}")
        # C rounds half away from 0, numpy half to even.
        corners = np.copysign(np.floor(np.abs(region[1:]) + number(0.5)), region[1:])
        start = corners[:2] * number(attrs["spatial_scale"]) - number(0.5)
        # Regions include their corners; as in MXNet, none is smaller than 0.1 cells.
        extent = np.maximum(
            (corners[2:] + 1) * number(attrs["spatial_scale"]) - number(0.5) - start, number(0.1)
        )
        each = extent / number(size)
        for channel, i, j in np.ndindex(count, size, size):
            first = np.array([j, i], rois.dtype) * each + start
            place = None
            if shifted:
                require(
                    count >= classes,
                    f"{format_count(classes, 'class')} of offsets for {format_count(count, 'channel')}",
                )
                # The classes of offsets share the channels evenly.
                begin = 2 * (channel // (count // classes))
                place = (r, slice(begin, begin + 2), int(parts[i]), int(parts[j]))
                first = first + trans[0][place] * number(attrs["trans_std"]) * extent
            columns, rows = (first[axis] + steps * (each[axis] / number(points)) for axis in (0, 1))
            yy, xx = np.meshgrid(rows, columns, indexing="ij")
            # Points count up to half a pixel beyond the outermost centres.
            inside = (xx >= -0.5) & (xx <= width - 0.5) & (yy >= -0.5) & (yy <= height - 0.5)
            plane = int((channel * group + cells[i]) * group + cells[j])
            rows, columns = yy[inside].clip(0, height - 1), xx[inside].clip(0, width - 1)
            yield Bin((r, channel, i, j), sample, plane, rows, columns, extent, place)


def deformable_ps_roi_pooling(
    context: Context, attrs: Attrs, x: Array, rois: Array, *trans: Array
) -> tuple[Array, Array]:
    """Return each bin's mean ``(R, output_dim, p, p)``, 0 without points, and their number.

    A region is (sample, x1, y1, x2, y2); ``trans`` ``(R, 2 * classes, part, part)`` moves bins in
    units of its size.
    """
    size = attrs["pooled_size"]
    out = np.zeros((len(rois), attrs["output_dim"], size, size), x.dtype)
    inside = np.zeros_like(out)
    for part in shift_bins(attrs, x.shape, rois, *trans):
        inside[part.place] = part.rows.size
        if part.rows.size:
            out[part.place] = sample_bilinear(
                x[part.sample, part.channel][None], part.rows, part.columns
            ).mean()
    return out, inside


def _infer_pooling_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    count, _ = dims_of_rank(unify(inputs[1], (None, 5)), 2)
    size = attrs["pooled_size"]
    pooled = (count, attrs["output_dim"], size, size)
    part = attrs["part_size"] or size
    channels = attrs["output_dim"] * attrs["group_size"] ** 2
    shifts = [unify(shape, (count, None, part, part)) for shape in inputs[2:]]
    for shift in shifts:
        pairs = None if shift is None else shift[1]
        fits = pairs is None or 2 <= pairs <= 2 * attrs["output_dim"] + 1
        require(
            fits,
            f"trans has {pairs} channels, expected two for each class, and at most output_dim classes",
        )
    return [unify(inputs[0], (None, channels, None, None)), (count, 5), *shifts], [
        unify(pooled, y) for y in outputs
    ]


KERNELS = with_limits(
    Limits(
        dtypes=FLOATS,
        elements=True,
        positive=("kernel", "stride", "dilate", "num_group", "num_deformable_group"),
    ),
    Kernel(
        "_contrib_DeformableConvolution",
        deformable_convolution,
        _infer_convolution_shapes,
        same_dtypes,
        cost=_count_taps,
    ),
    Kernel(
        "_contrib_ModulatedDeformableConvolution",
        lambda context, attrs, *inputs: _convolve_deformed(attrs, *inputs),
        _infer_mask_shapes,
        same_dtypes,
        cost=_count_taps,
    ),
    *with_limits(
        Limits(
            dtypes=FLOATS,
            elements=True,
            finite=True,
            positive=("pooled_size", "group_size", "output_dim"),
        ),
        Kernel(
            "_contrib_DeformablePSROIPooling",
            deformable_ps_roi_pooling,
            _infer_pooling_shapes,
            same_dtypes,
        ),
    ),
)


def deformable_ps_roi_pooling_gradient(
    entry: TapeEntry, dy: Array, dinside: Array | None = None
) -> Gradients:
    """Return gradients of data and offsets (on a pixel, 0 along that axis)."""
    x, rois, *trans = entry.inputs
    dx, dtrans = np.zeros_like(x), [np.zeros_like(shift) for shift in trans]
    factor = x.dtype.type(entry.attrs["trans_std"])
    for part in shift_bins(entry.attrs, x.shape, rois, *trans):
        if not part.rows.size:
            continue
        share = np.full((1, part.rows.size), dy[part.place] / x.dtype.type(part.rows.size), x.dtype)
        plane = x[part.sample, part.channel][None]
        dplane, drows, dcolumns = bilinear_gradient(plane, part.rows, part.columns, share)
        dx[part.sample, part.channel] += dplane[0]
        if part.shift is not None:
            # On a pixel the slopes differ; MXNet takes neither.
            along = [
                (d * (at != np.floor(at))).sum()
                for d, at in ((dcolumns, part.columns), (drows, part.rows))
            ]
            dtrans[0][part.shift] += np.array(along, x.dtype) * factor * part.extent
    return [dx, None, *dtrans]


def deformable_convolution_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return gradients of data, offsets (0 if clamped), mask, weight and bias.

    With a mask, MXNet computes them only on GPUs.
    """
    x, offset, *mask, weight = entry.inputs[: len(entry.inputs) - (not entry.attrs["no_bias"])]
    dx, doffset, dmask, dweight = _gradients(
        entry.attrs, x, offset, mask[0] if mask else None, weight, dy
    )
    bias = [] if entry.attrs["no_bias"] else [dy.sum(axis=(0, 2, 3))]
    return [dx, doffset, *([dmask] if mask else []), dweight, *bias]


def _gradients(
    attrs: Attrs, x: Array, offset: Array, mask: Array | None, weight: Array, dy: Array
) -> tuple[Array, Array, Array | None, Array]:
    places, rows, columns = _place_taps(attrs, len(x), offset)
    (n, shifts, kh, kw, _, h, w), channels, groups = places.shape, x.shape[1], attrs["num_group"]
    masks = None if mask is None else mask.reshape(n, shifts, kh, kw, h, w)
    kernels = weight.reshape(groups, weight.shape[0] // groups, -1)
    gradient = dy.reshape(n, groups, kernels.shape[1], h * w)
    dcells = (kernels.swapaxes(1, 2) @ gradient).reshape(n, channels, kh, kw, h, w)
    dx, doffset, dmasks = (
        np.zeros_like(x),
        np.zeros_like(places),
        None if masks is None else np.zeros_like(masks),
    )
    cells = np.empty_like(dcells)
    each = channels // shifts
    for sample, group in np.ndindex(n, shifts):
        part = slice(group * each, group * each + each)
        r, c = rows + places[sample, group, :, :, 0], columns + places[sample, group, :, :, 1]
        back = dcells[sample, part]
        if masks is None or dmasks is None:
            cells[sample, part], gradients = _clamp_gradient(x[sample, part], r, c, back)
        else:
            whole, factor = sample_bilinear(x[sample, part], r, c), masks[sample, group]
            dmasks[sample, group] = (back * whole).sum(axis=0)
            cells[sample, part], gradients = (
                whole * factor,
                bilinear_gradient(x[sample, part], r, c, back * factor),
            )
        dx[sample, part] += gradients[0]
        doffset[sample, group, :, :, 0], doffset[sample, group, :, :, 1] = gradients[1:]
    laid = cells.reshape(n, groups, kernels.shape[2], h * w)
    dweight = (gradient @ laid.swapaxes(2, 3)).sum(axis=0).reshape(weight.shape)
    return (
        dx,
        doffset.reshape(offset.shape),
        None if dmasks is None or mask is None else dmasks.reshape(mask.shape),
        dweight,
    )


def _clamp_gradient(
    x: Array, rows: Array, columns: Array, dy: Array
) -> tuple[Array, tuple[Array, Array, Array]]:
    """Return ``sample_clamped``'s result and the gradients of ``x`` and the positions."""
    height, width = x.shape[1:]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    r, c = rows.clip(0, height - 1), columns.clip(0, width - 1)
    dx, drows, dcolumns = bilinear_gradient(x, r, c, dy * inside)
    return sample_bilinear(x, r, c) * inside, (
        dx,
        drows * (rows <= height - 1),
        dcolumns * (columns <= width - 1),
    )


GRADIENTS = (
    Gradient(
        "_contrib_DeformablePSROIPooling", deformable_ps_roi_pooling_gradient, reads_outputs=False
    ),
    Gradient(
        "_contrib_DeformableConvolution", deformable_convolution_gradient, reads_outputs=False
    ),
    Gradient(
        "_contrib_ModulatedDeformableConvolution",
        deformable_convolution_gradient,
        reads_outputs=False,
    ),
)
