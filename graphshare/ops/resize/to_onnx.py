"""Images resized in ONNX: ``Resize`` for nearest pixels, else products with the kernel's weights.

``Resize`` leaves the rounding of coordinates open: between 224 and 299 pixels onnxruntime's linear
mode differs from MXNet by 1e-4.
"""

from __future__ import annotations

from graphshare.ops.convolution.to_onnx import emit_deconvolution
from graphshare.ops.kernel import Array
from graphshare.ops.onnx_terms import Term
from graphshare.ops.resize.kernel import (
    averaging_matrix,
    bilinear_attrs,
    bin_counts,
    interpolation_matrix,
)
from graphshare.ops.translation import Translation, Translator, Value, wide_dtype


def translate_upsampling(t: Translation) -> str:
    """Emit ``Resize`` to the output's size, and ``Concat`` or ``Sum``; or ``ConvTranspose``."""
    if t.attrs["sample_type"] == "bilinear":
        t.require_floats()
        return emit_deconvolution(t, bilinear_attrs(t.attrs))
    height = t.outputs[0].shape[2]
    images = [_repeat(t, x, height // x.shape[2]) for x in t.inputs]
    if len(images) == 1:
        return images[0]
    if t.attrs["multi_input_mode"] == "concat":
        return t.emit("Concat", *images, axis=1)
    total, *rest = (Term(t, image, x.dtype) for image, x in zip(images, t.inputs, strict=True))
    for image in rest:
        total = total + image
    return total.name


def _repeat(t: Translation, x: Value, factor: int) -> str:
    if factor == 1:
        return x.name
    # onnxruntime's Resize takes only these.
    if x.dtype in ("float32", "float16", "int32", "int8", "uint8"):
        scales = t.constant([1, 1, factor, factor], "float32")
        return t.emit(
            "Resize",
            x,
            "",
            scales,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
    n, c, h, w = x.shape
    cells = t.emit(
        "Expand", t.reshape(x, (n, c, h, 1, w, 1)), t.integers([1, 1, 1, factor, 1, factor])
    )
    return t.reshape(cells, (n, c, h * factor, w * factor))


def translate_adaptive_average(t: Translation) -> str:
    """Emit ``GlobalAveragePool`` for one bin, ``AveragePool`` for equal bins, else products."""
    x, bins = t.inputs[0], bin_counts(t.attrs)
    if 0 in x.shape:
        t.refuse("its data has no elements")
    if x.dtype != "float64" and x.dtype.startswith("float"):
        if bins == (1, 1):
            return t.emit("GlobalAveragePool", x)
        if all(n % count == 0 for n, count in zip(x.shape[2:], bins, strict=True)):
            window = [n // count for n, count in zip(x.shape[2:], bins, strict=True)]
            return t.emit("AveragePool", x, kernel_shape=window, strides=window)
    return _multiply(
        t, averaging_matrix(x.shape[2], bins[0]), averaging_matrix(x.shape[3], bins[1])
    )


def translate_bilinear_resize(t: Translation) -> str:
    """Emit products with the nearest pixels' weights."""
    x, (height, width) = t.inputs[0], t.outputs[0].shape[2:]
    corners = t.attrs["align_corners"]
    if 0 in (height, width):
        t.refuse("its result has no elements")
    return _multiply(
        t,
        interpolation_matrix(x.shape[2], height, corners),
        interpolation_matrix(x.shape[3], width, corners),
    )


def _multiply(t: Translation, rows: Array, columns: Array) -> str:
    x = t.inputs[0]
    wide = wide_dtype(x.dtype)
    if not wide.startswith("float"):
        t.refuse(f"its data is {x.dtype}; ONNX multiplies only floating-point numbers by fractions")
    product = t.emit("MatMul", t.constant(rows, wide), t.cast(x, wide))
    return t.cast(t.emit("MatMul", product, t.constant(columns.T, wide)), x.dtype, dtype=wide)


TRANSLATIONS = (
    Translator(
        "_contrib_AdaptiveAvgPooling2D",
        translate_adaptive_average,
        "its data is floating point and has elements",
    ),
    Translator(
        "_contrib_BilinearResize2D", translate_bilinear_resize, "its data is floating point"
    ),
    Translator(
        "UpSampling", translate_upsampling, "its data is floating point, or sample_type is nearest"
    ),
)
