"""ONNX's types of attribute values, and its numbers for dtypes by their usual names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphshare.ir.graph import Graph

DTYPE_CODES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
    "bfloat16": 16,
}
"""ONNX's numbers for dtypes (TensorProto.DataType)."""
DTYPE_NAMES = {code: dtype for dtype, code in DTYPE_CODES.items()}
OTHER_NAMES = {
    8: "string", 14: "complex64", 15: "complex128", 17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2",
    20: "float8e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4e2m1", 24: "float8e8m0", 25: "uint2", 26: "int2",
}  # fmt: skip
Dimensions = Sequence[int | str | None]
"""Sizes: a text names one that the caller chooses, None is unknown."""


def dtype_code(name: str) -> int:
    """Return ONNX's number of a dtype; 0 if unknown."""
    return DTYPE_CODES.get(name) or next(
        (code for code, other in OTHER_NAMES.items() if other == name), 0
    )


def dtype_name(code: int) -> str:
    """Return the name of a dtype by ONNX's number."""
    return DTYPE_NAMES.get(code) or OTHER_NAMES.get(code) or f"dtype {code}"


class Tensor(msgspec.Struct, frozen=True, eq=False):
    """An array: ``content`` are its bytes, little endian and in C order; None if elsewhere."""

    dtype: str
    shape: tuple[int, ...]
    content: bytes | None


class Float(msgspec.Struct, frozen=True):
    """Numbers that an operator takes as floats, even integers or none at all."""

    values: tuple[float, ...]


AttributeValue = int | float | str | Tensor | Graph | Sequence[int] | Sequence[str] | Float
"""The value of an attribute; a graph is the body of a loop or branch."""
Attributes = Mapping[str, AttributeValue]
