"""The types of attribute values in ONNX, and ONNX's numbers for dtypes.

dtypes are called as everywhere (``float32``, ``bfloat16``, ``bool``).
"""

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


class Tensor(msgspec.Struct, frozen=True, eq=False):
    """An array: ``content`` are its bytes, little endian and in C order; None where they are kept elsewhere."""

    dtype: str
    shape: tuple[int, ...]
    content: bytes | None


class Float(msgspec.Struct, frozen=True):
    """A list of numbers that an operator takes as floats, also where it is empty or holds integers alone."""

    values: tuple[float, ...]


AttributeValue = int | float | str | Tensor | Graph | Sequence[int] | Sequence[str] | Float
"""The value of an attribute; a graph is the body of a loop or branch."""
Attributes = Mapping[str, AttributeValue]
