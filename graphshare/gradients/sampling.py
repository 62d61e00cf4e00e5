"""Gradients of sampling at any point, of what is sampled and of the places."""

from __future__ import annotations

import numpy as np

from graphshare.gradients.gradient import Gradient, Gradients, Record
from graphshare.kernels.kernel import Array, Attrs
from graphshare.kernels.sampling import affine_grid, bilinear, correlation_size, target_of, unit_grid, window_pairs


def of_bilinear(x: Array, rows: Array, columns: Array, dy: Array) -> tuple[Array, Array, Array]:
    """Of ``x`` (C, H, W), and of the places that it was sampled at."""
    height, width = x.shape[1:]
    top, left = np.floor(rows), np.floor(columns)
    dx: Array = np.zeros_like(x)
    drows: Array = np.zeros(rows.shape, x.dtype)
    dcolumns: Array = np.zeros(rows.shape, x.dtype)
    channels = np.arange(len(x)).reshape(-1, *(1,) * rows.ndim)
    for down in (0, 1):
        for right in (0, 1):
            r, c = top + down, left + right
            inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
            near_row, near_column = 1 - np.abs(rows - r), 1 - np.abs(columns - c)
            r, c = np.where(inside, r, 0).astype(np.intp), np.where(inside, c, 0).astype(np.intp)
            weighed = dy * np.where(inside, near_row * near_column, 0).astype(x.dtype)
            np.add.at(dx, (channels, r[None], c[None]), weighed)
            seen = (dy * x[:, r, c]).sum(axis=0) * inside
            drows += (seen * near_column * (1 if down else -1)).astype(x.dtype)
            dcolumns += (seen * near_row * (1 if right else -1)).astype(x.dtype)
    return dx, drows, dcolumns


def _of_sampled(x: Array, grid: Array, dy: Array) -> tuple[Array, Array]:
    height, width = x.shape[2:]
    columns, rows = (grid[:, 0] + 1) * ((width - 1) / 2), (grid[:, 1] + 1) * ((height - 1) / 2)
    dx, dgrid = np.zeros_like(x), np.zeros_like(grid)
    for n in range(len(x)):
        dx[n], drows, dcolumns = of_bilinear(x[n], rows[n], columns[n], dy[n])
        dgrid[n, 0], dgrid[n, 1] = dcolumns * ((width - 1) / 2), drows * ((height - 1) / 2)
    return dx, dgrid


def bilinear_sampler(record: Record, dy: Array) -> Gradients:
    """Of data and grid."""
    x, grid = record.inputs
    return _of_sampled(x, grid, dy)


def _of_affine(dgrid: Array, height: int, width: int) -> Array:
    """Of the matrices (N, 6) that a grid was made with."""
    flat = dgrid.reshape(len(dgrid), 2, -1)
    result: Array = (flat @ unit_grid(height, width, flat.dtype).T).reshape(-1, 6)
    return result


def grid_generator(record: Record, dy: Array) -> Array:
    """Of the matrices, or of the flow."""
    if record.attrs["transform_type"] == "affine":
        return _of_affine(dy, *record.attrs["target_shape"])
    height, width = dy.shape[2:]
    half = np.array([(width - 1) / 2, (height - 1) / 2], dy.dtype).reshape(1, 2, 1, 1)
    result: Array = dy / half
    return result


def spatial_transformer(record: Record, dy: Array) -> Gradients:
    """Of data and matrices."""
    x, theta = record.inputs
    size = target_of(record.attrs)
    dx, dgrid = _of_sampled(x, affine_grid(theta, *size), dy)
    return [dx, _of_affine(dgrid, *size)]


def correlation(record: Record, dy: Array) -> Gradients:
    """Of both images."""
    (x, y), attrs = record.inputs, record.attrs
    kernel, stride, pad, step = (attrs[key] for key in ("kernel_size", "stride1", "pad_size", "stride2"))
    height, width = correlation_size(attrs, *x.shape[2:])
    reach, first = attrs["max_displacement"] // step, attrs["max_displacement"]
    a, b = (np.pad(image, ((0, 0), (0, 0), (pad, pad), (pad, pad))) for image in (x, y))
    da, db = np.zeros_like(a), np.zeros_like(b)
    h, w = (height or 0) * stride, (width or 0) * stride
    share = dy / dy.dtype.type(kernel * kernel * x.shape[1])
    for channel in range(dy.shape[1]):
        down, right = (step * (place - reach) for place in divmod(channel, 2 * reach + 1))
        for r in range(first, first + kernel):
            for c in range(first, first + kernel):
                here = (slice(None), slice(None), slice(r, r + h, stride), slice(c, c + w, stride))
                there = (*here[:2], slice(r + down, r + down + h, stride), slice(c + right, c + right + w, stride))
                gradient = share[:, channel : channel + 1]
                if attrs["is_multiply"]:
                    da[here] += gradient * b[there]
                    db[there] += gradient * a[here]
                else:
                    sign = np.sign(a[here] - b[there])
                    da[here] += gradient * sign
                    db[there] -= gradient * sign
    inner = (slice(None), slice(None), slice(pad, pad + x.shape[2]), slice(pad, pad + x.shape[3]))
    return [da[inner], db[inner]]


def deformable_convolution(record: Record, dy: Array) -> Gradients:
    """Of data, offsets, weight and bias. Where a place is held at the border, its offset has none."""
    x, offset, weight, *bias = record.inputs
    dx, doffset, _, dweight = _of_deformed(record.attrs, (x, offset, weight), dy)
    return [dx, doffset, dweight, *([dy.sum(axis=(0, 2, 3))] if bias else [])]


def modulated_deformable_convolution(record: Record, dy: Array) -> Gradients:
    """Of data, offsets, mask, weight and bias: the derivative, which MXNet has on GPUs and refuses on the CPU."""
    x, offset, mask, weight, *bias = record.inputs
    found = _of_deformed(record.attrs, (x, offset, weight), dy, mask)
    return [*found, *([dy.sum(axis=(0, 2, 3))] if bias else [])]


def _of_deformed(
    attrs: Attrs, inputs: tuple[Array, Array, Array], dy: Array, mask: Array | None = None
) -> tuple[Array, Array, Array | None, Array]:
    """Of data, offsets, mask and weight."""
    x, offset, weight = inputs
    (kh, kw), stride, dilate, pad = window_pairs(attrs)
    n, channels = x.shape[:2]
    h, w = offset.shape[2:]
    moved, groups = attrs["num_deformable_group"], attrs["num_group"]
    places = offset.reshape(n, moved, kh, kw, 2, h, w)
    masks = None if mask is None else mask.reshape(n, moved, kh, kw, h, w)
    rows = np.arange(kh).reshape(kh, 1, 1, 1) * dilate[0] + (np.arange(h) * stride[0] - pad[0]).reshape(h, 1)
    columns = np.arange(kw).reshape(1, kw, 1, 1) * dilate[1] + np.arange(w) * stride[1] - pad[1]
    kernels = weight.reshape(groups, weight.shape[0] // groups, -1)
    gradient = dy.reshape(n, groups, kernels.shape[1], h * w)
    dseen = (kernels.swapaxes(1, 2) @ gradient).reshape(n, channels, kh, kw, h, w)
    dx, doffset, dmasks = np.zeros_like(x), np.zeros_like(places), None if masks is None else np.zeros_like(masks)
    seen = np.empty_like(dseen)
    each = channels // moved
    for sample, group in np.ndindex(n, moved):
        part = slice(group * each, group * each + each)
        r, c = rows + places[sample, group, :, :, 0], columns + places[sample, group, :, :, 1]
        back = dseen[sample, part]
        if masks is None or dmasks is None:
            seen[sample, part], found = _of_held(x[sample, part], r, c, back)
        else:
            whole, factor = bilinear(x[sample, part], r, c), masks[sample, group]
            dmasks[sample, group] = (back * whole).sum(axis=0)
            seen[sample, part], found = whole * factor, of_bilinear(x[sample, part], r, c, back * factor)
        dx[sample, part] += found[0]
        doffset[sample, group, :, :, 0], doffset[sample, group, :, :, 1] = found[1:]
    laid = seen.reshape(n, groups, kernels.shape[2], h * w)
    dweight = (gradient @ laid.swapaxes(2, 3)).sum(axis=0).reshape(weight.shape)
    return dx, doffset.reshape(offset.shape), None if dmasks is None or mask is None else dmasks.reshape(mask.shape), dweight


def _of_held(x: Array, rows: Array, columns: Array, dy: Array) -> tuple[Array, tuple[Array, Array, Array]]:
    """What :func:`graphshare.kernels.sampling.held` sees, and the gradients of ``x`` and of the places."""
    height, width = x.shape[1:]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    r, c = rows.clip(0, height - 1), columns.clip(0, width - 1)
    dx, drows, dcolumns = of_bilinear(x, r, c, dy * inside)
    return bilinear(x, r, c) * inside, (dx, drows * (rows <= height - 1), dcolumns * (columns <= width - 1))


GRADIENTS = (
    Gradient("GridGenerator", grid_generator, reads_inputs=False, reads_outputs=False),
    Gradient("BilinearSampler", bilinear_sampler, reads_outputs=False),
    Gradient("SpatialTransformer", spatial_transformer, reads_outputs=False),
    Gradient("Correlation", correlation, reads_outputs=False),
    Gradient("_contrib_DeformableConvolution", deformable_convolution, reads_outputs=False),
    Gradient("_contrib_ModulatedDeformableConvolution", modulated_deformable_convolution, reads_outputs=False),
)
