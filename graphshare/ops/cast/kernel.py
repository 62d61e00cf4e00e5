"""Conversions of dtype, and gradients."""

from __future__ import annotations

import numpy as np

from graphshare.ops.conversion import convert
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array, Attrs, Context, Kernel, Shapes, Types
from graphshare.ops.limits import FLOATS
from graphshare.ops.unification import dtype_from_attribute, same_shapes, unify

GREATEST = {"int8": 127.0, "uint8": 255.0, "int32": 2147483520.0}
"""The greatest numbers of these dtypes that float32 can represent."""


def cast(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return ``x`` as ``dtype``."""
    return convert(x, attrs["dtype"])


def amp_cast(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return floats as ``dtype``, others unchanged.

    As in oneDNN, float32 is rounded to integers and clipped to their range.
    """
    name = attrs["dtype"]
    if x.dtype == np.float32 and name in GREATEST:
        greatest = GREATEST[name]
        rounded = np.rint(np.clip(x, np.iinfo(name).min, greatest))
        # oneDNN's vector instructions turn NaN into the greatest integer, for uint8 into 0.
        return np.where(np.isnan(x), 0 if name == "uint8" else greatest, rounded).astype(name)
    return convert(x, name) if x.dtype.kind == "f" else x


def amp_multicast(context: Context, attrs: Attrs, *arrays: Array) -> tuple[Array, ...]:
    """Convert all float16 and float32 arrays to one dtype."""
    _, names = _infer_multicast_dtypes(attrs, [str(x.dtype) for x in arrays], [None] * len(arrays))
    return tuple(convert(x, name) for x, name in zip(arrays, names, strict=True))


def _infer_amp_cast_dtypes(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    if inputs[0] is None:
        return inputs, outputs
    return inputs, [attrs["dtype"] if inputs[0] in (*FLOATS, "bfloat16") else inputs[0]]


def _infer_multicast_dtypes(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer one dtype for all float16 and float32 arrays; others keep theirs.

    With ``cast_narrow`` it is float16 if an input has it; else float32 if one has it; else the
    first dtype.
    """
    if None in inputs:
        return inputs, outputs
    if attrs["cast_narrow"] and "float16" in inputs:
        common: str | None = "float16"
    else:
        common = "float32" if "float32" in inputs else inputs[0]
    return inputs, [common if name in ("float16", "float32") else name for name in inputs]


def _infer_pairwise_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shapes = [unify(a, b) for a, b in zip(inputs, outputs, strict=False)]
    return shapes, shapes


KERNELS = (
    Kernel("Cast", cast, same_shapes, dtype_from_attribute),
    Kernel("amp_cast", amp_cast, same_shapes, _infer_amp_cast_dtypes),
    Kernel("amp_multicast", amp_multicast, _infer_pairwise_shapes, _infer_multicast_dtypes),
)


def cast_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` in the input's dtype."""
    return dy.astype(entry.inputs[0].dtype, copy=False)


def multicast_gradient(entry: TapeEntry, *dys: Array | None) -> Gradients:
    """Return each gradient in its input's dtype."""
    return [
        None if dy is None else dy.astype(x.dtype, copy=False)
        for dy, x in zip(dys, entry.inputs, strict=False)
    ]


GRADIENTS = (
    Gradient("Cast", cast_gradient, reads_outputs=False),
    Gradient("amp_cast", cast_gradient, reads_outputs=False),
    Gradient("amp_multicast", multicast_gradient, reads_outputs=False),
)
