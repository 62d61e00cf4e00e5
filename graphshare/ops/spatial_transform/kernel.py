"""Sampling of feature maps at any coordinates: grids, spatial transformers, correlation."""

from __future__ import annotations

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shapes
from graphshare.ops.limits import FLOATS, Limits, require, with_limits
from graphshare.ops.unification import dims_of_rank, same_dtypes, unify


def sample_bilinear(x: Array, rows: Array, columns: Array) -> Array:
    """Sample ``x`` ``(C, H, W)`` at coordinates ``(...)``: ``(C, ...)``, zeros outside."""
    height, width = x.shape[1:]
    top, left = np.floor(rows), np.floor(columns)
    out: Array = np.zeros((x.shape[0], *rows.shape), x.dtype)
    for down in (0, 1):
        for right in (0, 1):
            r, c = top + down, left + right
            weight = (1 - np.abs(rows - r)) * (1 - np.abs(columns - c))
            inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
            r, c = np.where(inside, r, 0).astype(np.intp), np.where(inside, c, 0).astype(np.intp)
            out += x[:, r, c] * np.where(inside, weight, 0).astype(x.dtype)
    return out


def sample_clamped(x: Array, rows: Array, columns: Array) -> Array:
    """Sample bilinearly, the last row and column extended by one, and 0 before the first."""
    height, width = x.shape[1:]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    return np.where(
        inside,
        sample_bilinear(x, rows.clip(0, height - 1), columns.clip(0, width - 1)),
        x.dtype.type(0),
    )


def unit_grid(height: int, width: int, dtype: np.dtype[np.generic]) -> Array:
    """Return each pixel's x, y (-1 to 1 inclusive) and 1: ``(3, H*W)``."""
    # A single pixel has no distance to the next, and becomes NaN as in MXNet
    with np.errstate(all="ignore"):
        x = -1 + np.arange(width) * np.divide(2, width - 1)
        y = -1 + np.arange(height) * np.divide(2, height - 1)
    return np.asarray(
        np.stack([*(a.reshape(-1) for a in np.meshgrid(x, y)), np.ones(height * width)]).astype(
            dtype
        )
    )


def affine_grid(theta: Array, height: int, width: int) -> Array:
    """Return the grid ``(N, 2, H, W)`` of matrices ``(N, 6)``."""
    grid: Array = theta.reshape(-1, 2, 3) @ unit_grid(height, width, theta.dtype)
    return grid.reshape(-1, 2, height, width)


def grid_generator(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return x and y (-1 to 1) by matrices ``(N, 6)`` or a flow ``(N, 2, H, W)`` in pixels."""
    if attrs["transform_type"] == "affine":
        return affine_grid(x, *attrs["target_shape"])
    height, width = x.shape[2:]
    flow = x + np.stack(np.meshgrid(np.arange(width), np.arange(height))).astype(x.dtype)
    half = np.array([(width - 1) / 2, (height - 1) / 2], x.dtype).reshape(1, 2, 1, 1)
    return np.asarray(flow / half - 1)


def _grid_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    if attrs["transform_type"] == "warp":
        shape = unify(unify(inputs[0], outputs[0]), (None, 2, None, None))
        return [shape], [shape]
    (n, _), (height, width) = dims_of_rank(unify(inputs[0], (None, 6)), 2), read_target_shape(attrs)
    output = dims_of_rank(unify((n, 2, height, width), outputs[0]), 4)
    return [(output[0], 6)], [output]


def read_target_shape(attrs: Attrs) -> tuple[int, int]:
    """Return ``target_shape``.

    Raises:
        KernelError: it is not a height and a width.
    """
    height, width = attrs["target_shape"] if len(attrs["target_shape"] or ()) == 2 else (0, 0)
    if height <= 0 or width <= 0:
        raise KernelError(f"target_shape {attrs['target_shape']} must be a height and a width")
    return height, width


def _sample_grid(x: Array, grid: Array) -> Array:
    """Sample ``(N, C, H, W)`` at ``(N, 2, h, w)``: ``(N, C, h, w)``."""
    height, width = x.shape[2:]
    columns, rows = (grid[:, 0] + 1) * ((width - 1) / 2), (grid[:, 1] + 1) * ((height - 1) / 2)
    out: Array = np.stack(
        [sample_bilinear(*sample) for sample in zip(x, rows, columns, strict=True)]
    )
    # sample_bilinear gives 0 at NaN, MXNet NaN.
    nowhere = np.isnan(rows + columns)
    return np.where(nowhere[:, None], out.dtype.type(np.nan), out) if nowhere.any() else out


def _sampler_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    n, c, height, width = dims_of_rank(inputs[0], 4)
    grid = dims_of_rank(unify(inputs[1], (n, 2, None, None)), 4)
    output = dims_of_rank(unify((grid[0], c, *grid[2:]), outputs[0]), 4)
    return [(output[0], output[1], height, width), unify(grid, (output[0], 2, *output[2:]))], [
        output
    ]


def spatial_transformer(context: Context, attrs: Attrs, x: Array, theta: Array) -> Array:
    """Sample ``(N, C, H, W)`` by affine matrices ``(N, 6)``."""
    return _sample_grid(x, affine_grid(theta, *read_target_shape(attrs)))


def _transformer_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    n, c, height, width = dims_of_rank(inputs[0], 4)
    (m, _) = dims_of_rank(unify(inputs[1], (n, 6)), 2)
    output = dims_of_rank(unify((m, c, *read_target_shape(attrs)), outputs[0]), 4)
    return [(*output[:2], height, width), (output[0], 6)], [output]


def correlation_size(attrs: Attrs, height: Dim, width: Dim) -> tuple[Dim, Dim]:
    """Return the result's height and width.

    Raises:
        KernelError: the images are too small.
    """
    # Centres stay this far from the edge: displaced patches lie inside the padded image.
    margin = attrs["max_displacement"] + (attrs["kernel_size"] - 1) // 2
    result: list[Dim] = []
    for size in (height, width):
        room = None if size is None else size + 2 * attrs["pad_size"] - 2 * margin
        if room is not None and room < 1:
            raise KernelError(
                f"an axis of size {size} is too small for this displacement and kernel without a larger pad_size"
            )
        result.append(None if room is None else -(-room // attrs["stride1"]))
    return result[0], result[1]


def correlation(context: Context, attrs: Attrs, x: Array, y: Array) -> Array:
    """Correlate patches of ``x`` and displaced patches of ``y``: ``(N, D*D, h, w)``, by row first.

    The mean over patch and channels of products (absolute differences unless ``is_multiply``).
    """
    kernel, stride, pad = attrs["kernel_size"], attrs["stride1"], attrs["pad_size"]
    require(kernel % 2, f"kernel_size {kernel} must be odd")
    height, width = correlation_size(attrs, *x.shape[2:])
    reach = attrs["max_displacement"] // attrs["stride2"]
    widths = ((0, 0), (0, 0), (pad, pad), (pad, pad))
    x, y = np.pad(x, widths), np.pad(y, widths)
    h, w = (height or 0) * stride, (width or 0) * stride
    out: Array = np.zeros((x.shape[0], (2 * reach + 1) ** 2, height or 0, width or 0), x.dtype)
    # Start of the first patch: the margin less half a kernel.
    first = attrs["max_displacement"]
    for channel in range(out.shape[1]):
        down, right = (
            attrs["stride2"] * (place - reach) for place in divmod(channel, 2 * reach + 1)
        )
        for r in range(first, first + kernel):
            for c in range(first, first + kernel):
                a = x[:, :, r : r + h : stride, c : c + w : stride]
                b = y[:, :, r + down : r + down + h : stride, c + right : c + right + w : stride]
                out[:, channel] += (a * b if attrs["is_multiply"] else np.abs(a - b)).sum(axis=1)
    out /= kernel * kernel * x.shape[1]
    return out


def _correlation_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    both = dims_of_rank(unify(*inputs), 4)
    side = 2 * (attrs["max_displacement"] // attrs["stride2"]) + 1
    output = dims_of_rank(
        unify((both[0], side * side, *correlation_size(attrs, *both[2:])), outputs[0]), 4
    )
    image = (output[0], *both[1:])
    return [image, image], [output]


_WINDOW = ("kernel", "stride", "dilate", "pad")


def window_pairs(attrs: Attrs) -> tuple[tuple[int, int], ...]:
    """Return kernel, stride, dilate and pad along height and width."""
    pairs = tuple(
        tuple(attrs[key] or (0, 0) if key == "pad" else attrs[key] or (1, 1)) for key in _WINDOW
    )
    for key, pair in zip(_WINDOW, pairs, strict=True):
        require(len(pair) == 2, f"{key} {pair} must be a height and a width")
    return pairs


KERNELS = with_limits(
    Limits(dtypes=FLOATS, elements=True, positive=("stride1", "stride2")),
    Kernel("GridGenerator", grid_generator, _grid_shapes, same_dtypes),
    Kernel(
        "BilinearSampler",
        lambda context, attrs, x, grid: _sample_grid(x, grid),
        _sampler_shapes,
        same_dtypes,
    ),
    Kernel("SpatialTransformer", spatial_transformer, _transformer_shapes, same_dtypes),
    Kernel("Correlation", correlation, _correlation_shapes, same_dtypes),
)


def bilinear_gradient(
    x: Array, rows: Array, columns: Array, dy: Array
) -> tuple[Array, Array, Array]:
    """Return gradients of ``x`` (C, H, W) and of the coordinates."""
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


def _affine_gradient(dgrid: Array, height: int, width: int) -> Array:
    """Return the gradient of a grid's matrices (N, 6)."""
    flat = dgrid.reshape(len(dgrid), 2, -1)
    return np.asarray((flat @ unit_grid(height, width, flat.dtype).T).reshape(-1, 6))


def grid_generator_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient of matrices or flow."""
    if entry.attrs["transform_type"] == "affine":
        return _affine_gradient(dy, *entry.attrs["target_shape"])
    height, width = dy.shape[2:]
    half = np.array([(width - 1) / 2, (height - 1) / 2], dy.dtype).reshape(1, 2, 1, 1)
    return np.asarray(dy / half)


def spatial_transformer_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return gradients of data and matrices."""
    x, theta = entry.inputs
    size = read_target_shape(entry.attrs)
    dx, dgrid = _sample_gradient(x, affine_grid(theta, *size), dy)
    return [dx, _affine_gradient(dgrid, *size)]


def correlation_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return both images' gradients."""
    (x, y), attrs = entry.inputs, entry.attrs
    kernel, stride, pad, step = (
        attrs[key] for key in ("kernel_size", "stride1", "pad_size", "stride2")
    )
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
                there = (
                    *here[:2],
                    slice(r + down, r + down + h, stride),
                    slice(c + right, c + right + w, stride),
                )
                gradient = share[:, channel : channel + 1]
                if attrs["is_multiply"]:
                    da[here] += gradient * b[there]
                    db[there] += gradient * a[here]
                else:
                    # As in MXNet, 1 for 0
                    sign = np.where(a[here] >= b[there], x.dtype.type(1), x.dtype.type(-1))
                    da[here] += gradient * sign
                    db[there] -= gradient * sign
    inner = (slice(None), slice(None), slice(pad, pad + x.shape[2]), slice(pad, pad + x.shape[3]))
    return [da[inner], db[inner]]


GRADIENTS = (
    Gradient("GridGenerator", grid_generator_gradient, reads_inputs=False, reads_outputs=False),
    Gradient(
        "BilinearSampler",
        lambda entry, dy: _sample_gradient(entry.inputs[0], entry.inputs[1], dy),
        reads_outputs=False,
    ),
    Gradient("SpatialTransformer", spatial_transformer_gradient, reads_outputs=False),
    Gradient("Correlation", correlation_gradient, reads_outputs=False),
)
