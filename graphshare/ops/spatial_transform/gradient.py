"""Gradients of bilinear sampling, of the sampled maps and of the coordinates."""

from __future__ import annotations

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array
from graphshare.ops.spatial_transform.kernel import affine_grid, correlation_size, target_of, unit_grid


def bilinear_gradient(x: Array, rows: Array, columns: Array, dy: Array) -> tuple[Array, Array, Array]:
    """Return the gradients of ``x`` (C, H, W), and of the coordinates of the samples."""
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
            weighted = dy * np.where(inside, near_row * near_column, 0).astype(x.dtype)
            np.add.at(dx, (channels, r[None], c[None]), weighted)
            product = (dy * x[:, r, c]).sum(axis=0) * inside
            drows += (product * near_column * (1 if down else -1)).astype(x.dtype)
            dcolumns += (product * near_row * (1 if right else -1)).astype(x.dtype)
    return dx, drows, dcolumns


def _sample_gradient(x: Array, grid: Array, dy: Array) -> tuple[Array, Array]:
    height, width = x.shape[2:]
    columns, rows = (grid[:, 0] + 1) * ((width - 1) / 2), (grid[:, 1] + 1) * ((height - 1) / 2)
    dx, dgrid = np.zeros_like(x), np.zeros_like(grid)
    for n in range(len(x)):
        dx[n], drows, dcolumns = bilinear_gradient(x[n], rows[n], columns[n], dy[n])
        dgrid[n, 0], dgrid[n, 1] = dcolumns * ((width - 1) / 2), drows * ((height - 1) / 2)
    return dx, dgrid


def bilinear_sampler(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of data and grid."""
    x, grid = entry.inputs
    return _sample_gradient(x, grid, dy)


def _affine_gradient(dgrid: Array, height: int, width: int) -> Array:
    """Return the gradient of the matrices (N, 6) of a grid."""
    flat = dgrid.reshape(len(dgrid), 2, -1)
    return np.asarray((flat @ unit_grid(height, width, flat.dtype).T).reshape(-1, 6))


def grid_generator(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient of the matrices, or of the flow."""
    if entry.attrs["transform_type"] == "affine":
        return _affine_gradient(dy, *entry.attrs["target_shape"])
    height, width = dy.shape[2:]
    half = np.array([(width - 1) / 2, (height - 1) / 2], dy.dtype).reshape(1, 2, 1, 1)
    return np.asarray(dy / half)


def spatial_transformer(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of data and matrices."""
    x, theta = entry.inputs
    size = target_of(entry.attrs)
    dx, dgrid = _sample_gradient(x, affine_grid(theta, *size), dy)
    return [dx, _affine_gradient(dgrid, *size)]


def correlation(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of both images."""
    (x, y), attrs = entry.inputs, entry.attrs
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
                    sign = np.where(a[here] >= b[there], x.dtype.type(1), x.dtype.type(-1))  # as in MXNet, 1 for 0
                    da[here] += gradient * sign
                    db[there] -= gradient * sign
    inner = (slice(None), slice(None), slice(pad, pad + x.shape[2]), slice(pad, pad + x.shape[3]))
    return [da[inner], db[inner]]


GRADIENTS = (
    Gradient("GridGenerator", grid_generator, reads_inputs=False, reads_outputs=False),
    Gradient("BilinearSampler", bilinear_sampler, reads_outputs=False),
    Gradient("SpatialTransformer", spatial_transformer, reads_outputs=False),
    Gradient("Correlation", correlation, reads_outputs=False),
)
