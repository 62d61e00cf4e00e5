"""Changes of type."""

from __future__ import annotations

import numpy as np

from graphshare.ops.conversion import convert
from graphshare.ops.kernel import Array, Attrs, Context, Kernel, KernelError, Shapes, Types
from graphshare.ops.unification import same_shapes, unify

_GREATEST = {"int8": 127.0, "uint8": 255.0, "int32": 2147483520.0}
"""The greatest number that float32 has of a type."""


_FLOATS = ("float16", "float32", "float64")


def cast(context: Context, attrs: Attrs, x: Array) -> Array:
    """``x`` as ``dtype``."""
    return convert(x, _numpy_name(attrs["dtype"]))


def amp_cast(context: Context, attrs: Attrs, x: Array) -> Array:
    """``x`` as ``dtype`` where it is of floating point, as it is otherwise.

    From float32 to integers oneDNN does it, which rounds to the nearest and stops at the least and the greatest number.
    """
    name = _numpy_name(attrs["dtype"])
    if x.dtype == np.float32 and name in _GREATEST:
        greatest = _GREATEST[name]
        rounded = np.rint(np.clip(x, np.iinfo(name).min, greatest))
        return np.where(np.isnan(x), 0 if name == "uint8" else greatest, rounded).astype(name)
    return convert(x, name) if x.dtype.kind == "f" else x


def amp_multicast(context: Context, attrs: Attrs, *arrays: Array) -> tuple[Array, ...]:
    """All arrays of float16 and float32 in one type."""
    _, names = _multicast_types(attrs, [str(x.dtype) for x in arrays], [None] * len(arrays))
    return tuple(convert(x, name) for x, name in zip(arrays, names, strict=True))


def _numpy_name(name: str) -> str:
    if name == "bfloat16":
        raise KernelError("bfloat16 is not a type that numpy has")
    return name


def _cast_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, [attrs["dtype"]]


def _amp_cast_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    if inputs[0] is None:
        return inputs, outputs
    return inputs, [attrs["dtype"] if inputs[0] in _FLOATS else inputs[0]]


def _multicast_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Arrays of float16 and float32 take one type; others keep theirs.

    It is float16 where the narrow one is wanted and occurs, else float32 where that occurs, else the type of the first array.
    """
    if None in inputs:
        return inputs, outputs
    if attrs["cast_narrow"] and "float16" in inputs:
        common: str | None = "float16"
    else:
        common = "float32" if "float32" in inputs else inputs[0]
    return inputs, [common if name in ("float16", "float32") else name for name in inputs]


def _same_shapes_in_pairs(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shapes = [unify(a, b) for a, b in zip(inputs, outputs, strict=False)]
    return shapes, shapes


KERNELS = (
    Kernel("Cast", cast, same_shapes, _cast_types),
    Kernel("amp_cast", amp_cast, same_shapes, _amp_cast_types),
    Kernel("amp_multicast", amp_multicast, _same_shapes_in_pairs, _multicast_types),
)
