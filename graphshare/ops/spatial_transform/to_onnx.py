"""Grids and the sampling of feature maps in ONNX: ``GridSample`` from opset 16 on, before it plain operators."""

from __future__ import annotations

import numpy as np

from graphshare.ops.spatial_transform.correlation_onnx import translate_correlation
from graphshare.ops.spatial_transform.kernel import target_of, unit_grid
from graphshare.ops.spatial_transform.sampling_onnx import sample_bilinear
from graphshare.ops.translation import Translation, Translator, Value


def translate_grid_generator(t: Translation) -> str:
    """Emit the product of affine matrices with a grid of pixels, or the pixels that a flow reaches."""
    x = t.inputs[0]
    if not x.dtype.startswith("float"):
        t.refuse(f"its data is {x.dtype}")
    if t.attrs["transform_type"] == "affine":
        height, width = target_of(t.attrs)
        return t.reshape(_affine_grid(t, x, height, width), (x.shape[0], 2, height, width))
    height, width = x.shape[2:]
    wide = _compute_dtype(x.dtype)
    pixels = np.stack(np.meshgrid(np.arange(width), np.arange(height)))
    half = np.array([(width - 1) / 2, (height - 1) / 2]).reshape(1, 2, 1, 1)
    flow = t.emit("Add", t.cast(x, wide), t.constant(pixels[None], wide))
    return t.cast(t.emit("Sub", t.emit("Div", flow, t.constant(half, wide)), t.number(1, wide)), x.dtype, of=wide)


def translate_bilinear_sampler(t: Translation) -> str:
    """Emit ``GridSample`` at the coordinates of a grid ``(N, 2, h, w)``."""
    x, grid = t.inputs
    count, height, width = grid.shape[0], *grid.shape[2:]
    rows = t.reshape(grid, (count, 2, height * width))
    return _sample_grid(t, x, rows, (height, width), is_somewhere=False)


def translate_spatial_transformer(t: Translation) -> str:
    """Emit ``GridSample`` at the coordinates of affine matrices."""
    x, theta = t.inputs
    if "bool" in (x.dtype, theta.dtype):
        t.refuse("its data is bool")
    height, width = target_of(t.attrs)
    several = 1 not in (height, width)  # MXNet divides by the number of distances between pixels: a single one becomes NaN
    return _sample_grid(t, x, _affine_grid(t, theta, height, width), (height, width), is_somewhere=several)


def _affine_grid(t: Translation, theta: Value, height: int, width: int) -> str:
    """Return x and y of each pixel: (N, 2, height * width)."""
    matrices = t.reshape(theta, (theta.shape[0], 2, 3))
    return t.emit("MatMul", matrices, t.constant(unit_grid(height, width, np.dtype(theta.dtype)), theta.dtype))


def _sample_grid(t: Translation, x: Value, grid: str, size: tuple[int, int], *, is_somewhere: bool) -> str:
    """Return samples at a grid (N, 2, h * w) from -1 to 1; where it has NaN, unless it ``is_somewhere``, they are NaN."""
    count, channels, height, width = x.shape
    points = t.transpose(grid, (0, 2, 1))
    if x.dtype == "float32" and t.opset >= 16:
        places = t.reshape(points, (count, *size, 2))
        mode = "bilinear" if t.opset < 20 else "linear"
        out = t.emit("GridSample", x, places, mode=mode, padding_mode="zeros", align_corners=1)
        if is_somewhere:
            return out
        nowhere = t.emit("IsNaN", t.reshape(t.reduce("ReduceSum", points, [2]), (count, 1, *size)))
        return t.emit("Where", nowhere, t.number(np.nan, x.dtype), out)
    wide = _compute_dtype(x.dtype)
    half = t.constant([(width - 1) / 2, (height - 1) / 2], wide)
    pixels = t.emit("Mul", t.emit("Add", t.cast(points, wide, of=x.dtype), t.number(1, wide)), half)
    columns, rows = (t.emit("Gather", pixels, t.number(i, "int64"), axis=2) for i in (0, 1))
    table = t.transpose(t.reshape(t.cast(x, wide), (count, channels, height * width)), (0, 2, 1))

    def gather(index: str) -> str:
        return t.emit("GatherND", table, t.emit("Unsqueeze", index, t.integers([-1])), batch_dims=1)

    out = sample_bilinear(t, (height, width), rows, columns, wide, gather, deep=True)
    if not is_somewhere:
        nowhere = t.emit("IsNaN", t.emit("Add", rows, columns))
        out = t.emit("Where", t.emit("Unsqueeze", nowhere, t.integers([-1])), t.number(np.nan, wide), out)
    return t.reshape(t.cast(t.transpose(out, (0, 2, 1)), x.dtype, of=wide), t.outputs[0].shape)


def _compute_dtype(dtype: str) -> str:
    return "float32" if dtype == "float16" else dtype


TRANSLATIONS = (
    Translator("GridGenerator", translate_grid_generator, "its data is floating point"),
    Translator("BilinearSampler", translate_bilinear_sampler),
    Translator("SpatialTransformer", translate_spatial_transformer, "its data is not bool"),
    Translator("Correlation", translate_correlation),
)
