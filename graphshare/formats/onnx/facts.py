"""Describe ONNX's operators in pictures: attributes, input names, and the numbers of small constants."""

from __future__ import annotations

import re
import struct

from graphshare.formats.onnx.constants import BOOL, FLOAT32, INTEGER_FORMS
from graphshare.formats.onnx.protobuf import WireError
from graphshare.formats.onnx.stored import Span, find_stored
from graphshare.formats.onnx.tensors import is_weight, locate_tensor, read_elements
from graphshare.formats.onnx.values import StoredValue
from graphshare.formats.params.records import ITEM_SIZES, element_count
from graphshare.ir.graph import Node
from graphshare.ir.onnx import DTYPE_NAMES, dtype_name
from graphshare.ir.walk import list_operands
from graphshare.text.format import format_count, format_dims

Number = int | float
_TENSOR = 5  # the field of an AttributeProto
_LARGEST = 160  # bytes of a constant whose numbers a picture shows
_LONGEST = 28  # characters of them
_ENDLESS = 1 << 31  # a Slice to the end has the largest number of its dtype
_FLOATS = ("float16", "float32", "float64")
_FORMS = {**INTEGER_FORMS, BOOL: "B", FLOAT32: "f", 10: "e", 11: "d"}
"""The letters of struct by ONNX's number of the dtype, for dtypes whose numbers are read."""
_SHOWN = (
    "axis",
    "axes",
    "perm",
    "direction",
    "hidden_size",
    "equation",
    "mode",
    "alpha",
    "blocksize",
    "num_heads",
)
_NAMED = frozenset(("direction", "equation", "mode"))  # attributes whose value says enough
_FORMALS = {
    "Clip": ("", "min", "max"),
    "ConstantOfShape": ("shape",),
    "DequantizeLinear": ("", "scale", "zero"),
    "Dropout": ("", "ratio", "training_mode"),
    "Expand": ("", "shape"),
    "Gather": ("data", "indices"),
    "GatherElements": ("data", "indices"),
    "GatherND": ("data", "indices"),
    "If": ("cond",),
    "Loop": ("M", "cond"),
    "OneHot": ("indices", "depth", "values"),
    "Pad": ("", "pads", "value", "axes"),
    "QuantizeLinear": ("", "scale", "zero"),
    "Range": ("start", "limit", "delta"),
    "Reshape": ("", "shape"),
    "Resize": ("", "roi", "scales", "sizes"),
    "Slice": ("", "starts", "ends", "axes", "steps"),
    "Split": ("", "split"),
    "Squeeze": ("", "axes"),
    "Tile": ("", "repeats"),
    "TopK": ("", "K"),
    "Unsqueeze": ("", "axes"),
    "Upsample": ("", "scales"),
    "Where": ("condition", "X", "Y"),
}


def describe_operator(node: Node) -> list[str]:
    """Return an operator's most telling attributes, abbreviated: kernel, filters, stride and the like."""
    attrs = node.attrs
    parts = ["×".join(_split(attrs.get("kernel_shape", "")))]
    parts += _count_filters(node)
    strides = _split(attrs.get("strides", ""))
    if set(strides) - {"1"}:
        is_equal = len(set(strides)) == 1
        parts.append(f"/{strides[0] if is_equal else '×'.join(strides)}")
    if attrs.get("group", "1") != "1":
        parts.append(f"group {attrs['group']}")
    if node.op == "Cast" and re.fullmatch("[0-9]{1,3}", attrs.get("to", "")):
        parts.append(dtype_name(int(attrs["to"])))
    if node.op not in ("BatchNormalization", "LeakyRelu", "Constant"):
        parts += [
            attrs[key] if key in _NAMED else f"{key} {attrs[key]}" for key in _SHOWN if key in attrs
        ]
    return [part for part in parts if part and len(part) <= _LONGEST]


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.strip("[]").split(",") if part.strip()]


def _count_filters(node: Node) -> list[str]:
    """Return a convolution's or matrix product's output channels; nothing without a weight."""
    # M counts the filters: weights are (M, C/group, ...) in Conv, (C, M/group, ...) in
    # ConvTranspose.
    groups = node.attrs.get("group", "1") if node.op == "ConvTranspose" else "1"
    axis = {"Conv": 0, "ConvInteger": 0, "ConvTranspose": 1, "MatMul": -1}.get(node.op)
    if axis is None or len(node.inputs) < 2:
        return []
    place = find_stored(node.inputs[1].node.details).place
    if place is None or len(place.shape) < 2 or not groups.isdecimal():
        return []
    return [str(place.shape[axis] * int(groups))]


def name_operand(node: Node, position: int) -> str:
    """Return an input's name in a picture: ONNX's if known, else ``A`` and ``B`` of two inputs."""
    names = _FORMALS.get(node.op, ())
    if node.op.startswith("Reduce"):
        names = ("", "axes")
    if position < len(names):
        return names[position]
    return "AB"[position] if len(list_operands(node)) == 2 else f"input {position}"


def measure_attributes(node: Node) -> dict[str, int]:
    """Return the size in bytes of each attribute that is an array or a list, by name."""
    return {
        name: value.span.size
        for name, value in node.details.values.items()
        if isinstance(value, StoredValue)
    }


def describe_constant(node: Node) -> str:
    """Return the value of a Constant, or of an initializer of few integers or one number; else empty."""
    place = find_stored(node.details).place
    if node.op:
        is_small = node.op == "Constant" and not node.details.domain
    else:
        is_small = place is not None and not is_weight(place.shape, place.code)
    if not is_small:
        return ""
    try:
        dtype, shape, numbers = read_constant(node, _LARGEST)
    except WireError:
        return ""
    if numbers is None and node.op:
        return next(iter(node.attrs.values()), "")[:_LONGEST]
    if numbers is None:
        return ""
    if not node.op and len(numbers) != 1 and dtype in _FLOATS:
        return ""
    texts = [_format_number(number) for number in numbers]
    text = f"[{', '.join(texts)}]" if shape else texts[0]
    return text if len(text) <= _LONGEST else f"{dtype} {format_dims(shape, separator='×')}"


def _format_number(number: Number) -> str:
    if isinstance(number, float):
        return f"{number:.4g}"
    if abs(number) < _ENDLESS:
        return str(number)
    return "-∞" if number < 0 else "∞"


def read_constant(node: Node, largest: int) -> tuple[str, tuple[int, ...], list[Number] | None]:
    """Return dtype, shape and numbers of an initializer or Constant of at most ``largest`` bytes, or None.

    Raises:
        WireError: its tensor is malformed.
    """
    span = _find_tensor(node)
    if span is None:
        return "", (), None
    place = locate_tensor(span.file, span.start, span.end)
    dtype = DTYPE_NAMES.get(place.code, "")
    if place.path or span.size > largest or place.code not in _FORMS:
        return dtype, place.shape, None
    data, width = b"".join(read_elements(span, place)), ITEM_SIZES[dtype]
    # A field of another dtype may have any number of bytes
    if len(data) != element_count(place.shape) * width:
        message = f"a tensor has {format_count(len(data), 'byte')} of data; its shape and dtype need a different number"
        raise WireError(message, span.start)
    numbers = struct.unpack(f"<{len(data) // width}{_FORMS[place.code]}", data)
    return dtype, place.shape, list(numbers)


def _find_tensor(node: Node) -> Span | None:
    if node.op == "Constant" and "value" in node.attrs:
        attribute: StoredValue = node.details.values["value"]
        return attribute.span.find_field(_TENSOR)
    stored = find_stored(node.details)
    return None if stored.place is None else stored.tensor
