"""An attribute whose value has another wire type than ONNX states: it is never read as 0, nor proved equal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from onnx import ModelProto, helper

import graphshare as gs
from graphshare.errors import GraphshareError, SelfCheckError
from tests.onnx_files.mutable import build, declare, node
from tests.onnx_files.wire import BYTES, FIXED32, VARINT, Field, Message, encode, parse

OTHERS = {VARINT: (FIXED32, b"abcd"), FIXED32: (BYTES, b"abc"), BYTES: (VARINT, 3)}
"""Another wire type for each, with a value."""
VALUES = {"f", "i", "s", "t", "floats", "ints", "strings", "type"}


def _with_constant(**value: object) -> ModelProto:
    steps = [
        node("Constant", "", "c", **value),
        node("Cast", "c", "f", to=1),
        node("Add", "x f", "y"),
    ]
    return build(steps, [declare("x", (2, 3))], [declare("y", (2, 3))])


def _with_step(op: str, **attributes: object) -> ModelProto:
    steps = [node(op, "x", "h", **attributes), node("Neg", "h", "y")]
    return build(steps, [declare("x", (2, 3))], [declare("y", None)])


MODELS = {
    "value": _with_constant(value=helper.make_tensor("", 1, (1,), [1.5])),
    "float": _with_constant(value_float=1.5),
    "floats": _with_constant(value_floats=[1.5, 2.0, 3.0]),
    "int": _with_constant(value_int=3),
    "ints": _with_constant(value_ints=[1, 2, 3]),
    "axis": _with_step("Softmax", axis=1),
    "flat": _with_step("Flatten", axis=1),
    "slope": _with_step("LeakyRelu", alpha=0.5),
    "order": _with_step("Transpose", perm=[1, 0]),
    "mean": _with_step("ReduceMean", axes=[1], keepdims=1),
}


def malform(model: ModelProto) -> Iterator[bytes]:
    """Yield the file with one field of an attribute's value changed at a time."""
    message = parse(model.SerializeToString())
    known = onnx.AttributeProto.DESCRIPTOR.fields_by_number
    for number, each in enumerate(message.walk()):
        if each.name != "AttributeProto":
            continue
        for place, field in enumerate(each.fields):
            if known[field.number].name not in VALUES:
                continue
            copy = message.copy()
            changed: Message = list(copy.walk())[number]
            wire, value = OTHERS[field.wire]
            changed.fields[place] = Field(field.number, wire, value)
            yield encode(copy)


@pytest.mark.parametrize("name", MODELS)
def test_a_malformed_value_is_no_other_value(name: str, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.onnx", tmp_path / "bad.onnx"
    good.write_bytes(MODELS[name].SerializeToString())
    files = list(malform(MODELS[name]))
    assert files
    for data in files:
        bad.write_bytes(data)
        for first, second in ((bad, good), (good, bad)):
            try:
                report = gs.compare(first, second)
            except SelfCheckError:
                raise
            except GraphshareError:
                continue
            assert report.rung != "exact"
