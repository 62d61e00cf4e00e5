"""The parts of finding types: what branches have in common, and tensors without their data."""

from __future__ import annotations

import pytest
from onnx import TensorProto

from graphshare.formats.facets import TensorType
from graphshare.formats.onnx import value_types
from graphshare.formats.onnx.stored import MemoryFile, Span
from graphshare.formats.onnx.types import parse_type

ONE = TensorType("float32", (2, "n", 3))


@pytest.mark.parametrize(
    ("types", "common"),
    [
        ([ONE, ONE], TensorType("float32", (2, None, 3))),
        ([ONE, TensorType("float32", (4, 2, 3))], TensorType("float32", (None, None, 3))),
        ([TensorType("int8", ()), TensorType("int8", ())], TensorType("int8", ())),
        ([ONE, TensorType("float32", (2, 3))], None),
        ([ONE, TensorType("int8", (2, 2, 3))], None),
        ([None, ONE], None),
        ([None, None], None),
        ([ONE, None], None),
        ([ONE, TensorType("float32")], None),
        ([ONE, TensorType("", (2, 2, 3))], None),
        ([TensorType("", (2,)), TensorType("", (2,))], None),
    ],
)
def test_the_dtype_and_the_sizes_that_both_have(
    types: list[TensorType | None], common: TensorType | None
) -> None:
    data = value_types._find_common_type(*types)
    assert (parse_type(data, 0, len(data)) if data else None) == common


def shrink(
    source: TensorProto, name: str | None = None, *, location: str = "", has_data: bool = True
) -> TensorProto:
    data = source.SerializeToString()
    span = Span(MemoryFile(b"x" + data + b"x"), 1, len(data) + 1)
    message = value_types._shrink_tensor(span, name, location=location, has_data=has_data)
    tensor = TensorProto()
    tensor.ParseFromString(b"".join(bytes(piece) for piece in message.pieces()))
    return tensor


def without(tensor: TensorProto, location: str = "", length: int | None = None) -> TensorProto:
    """Return a tensor without data, which is in a file if that is given, with its length there."""
    left = TensorProto()
    left.CopyFrom(tensor)
    left.ClearField("raw_data")
    left.ClearField("string_data")
    if location:
        left.data_location = TensorProto.EXTERNAL
        size = len(tensor.raw_data) if length is None else length
        for key, value in (("location", location), ("offset", "0"), ("length", str(size))):
            left.external_data.add(key=key, value=value)
    return left


def test_large_data_is_left_out_and_small_data_kept() -> None:
    for size in (4000, 4096 - 9, 4096 - 8, 8000):
        tensor = TensorProto(
            name="w", dims=[size], data_type=TensorProto.INT8, raw_data=bytes(size)
        )
        is_small = tensor.ByteSize() <= 4096
        assert shrink(tensor) == (tensor if is_small else without(tensor))
        assert shrink(tensor, location="data") == (tensor if is_small else without(tensor, "data"))
        assert shrink(tensor, has_data=False) == without(tensor)
        assert shrink(tensor, location="data", has_data=False) == without(tensor, "data")
        named = TensorProto()
        named.CopyFrom(tensor)
        named.name = "other"
        assert shrink(tensor, "other") == (named if is_small else without(named))
    texts = TensorProto(
        name="t", dims=[5], data_type=TensorProto.STRING, string_data=[b"a" * 1000] * 5
    )
    # Texts cannot be in another file.
    assert shrink(texts, location="data") == texts
    assert shrink(texts) == without(texts)
    wrong = TensorProto(dims=[2], data_type=1, raw_data=b"abc")
    assert shrink(wrong) == without(wrong)
    assert shrink(wrong, location="data") == without(wrong, "data", 0)
