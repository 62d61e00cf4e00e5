"""Constants among the terms of an ONNX model: what a term contains, and the terms of new constants."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from graphshare.formats.onnx.constants import BOOL, INT32, INT64, STRING, unpack_integers
from graphshare.ir.onnx import dtype_code, dtype_name
from graphshare.ir.terms import NormalForm, shorten


class ConstantTerms(NormalForm):
    """The part of a normal form that reads and adds constants."""

    def read_content(self, term: int | None) -> Any:
        """Return a constant's content, of an array (dtype, shape, data); None for others."""
        if term is None:
            return None
        key = self.table.keys[term]
        return key[1] if key[0] == "constant" else None

    def find_truth(self, term: int) -> bool | None:
        content = self.read_content(term)
        if content is None or content[0] != BOOL:
            return None
        return {(b"\0",): False, (b"\1",): True}.get(content[2])

    def read_number(self, term: int) -> tuple[str, tuple[int, ...], bytes] | None:
        content = self.read_content(term)
        if content is None or not isinstance(content[0], int):
            return None
        dtype, shape, data = content
        if len(data) != 1:
            return None
        return dtype_name(dtype), shape, data[0]

    def find_zero(self, term: int | None) -> int:
        """Return the dtype of a constant of one number with all bits 0 (not -0); 0 for others."""
        content = self.read_content(term)
        if content is None or not isinstance(content[0], int) or content[0] == STRING:
            return 0
        dtype, shape, data = content
        is_zero = prod(shape) == 1 and not any(data[0])
        return dtype if is_zero else 0

    def read_integers(self, term: int | None) -> list[int] | None:
        """Return the numbers of a small int64 or int32 constant."""
        content = self.read_content(term)
        if content is None or content[0] not in (INT64, INT32) or len(content[2]) != 1:
            return None
        width = 8 if content[0] == INT64 else 4
        return unpack_integers(content[2][0], width)

    def number_integers(self, values: Sequence[int]) -> int:
        """Return the term of a list of int64."""
        data = b"".join(value.to_bytes(8, "little", signed=True) for value in values)
        return self.number_array("int64", (len(values),), data)

    def number_array(self, dtype: str, shape: tuple[int, ...], data: bytes) -> int:
        """Return the term of an array."""
        return self.table.number("constant", (dtype_code(dtype), shape, shorten([data])))
