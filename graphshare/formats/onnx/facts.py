"""What pictures show of ONNX's operators: telling attributes, names of inputs, and the numbers of small constants."""

from __future__ import annotations

import struct

from graphshare.formats.onnx.protobuf import WireError, scan
from graphshare.formats.onnx.stored import Span, find_stored
from graphshare.formats.onnx.tensors import DTYPE_NAMES, dtype_name, is_weight, locate_tensor, read_elements
from graphshare.formats.params.records import ITEM_SIZES
from graphshare.ir.graph import Node
from graphshare.ir.walk import list_operands
from graphshare.text.format import format_dims

Number = int | float
_TENSOR = 5  # the field of an AttributeProto
_LARGEST = 160  # bytes of a constant whose numbers a picture shows
_LONGEST = 28  # characters of them
_FLOATS = {"float16": "e", "float32": "f", "float64": "d"}
_SHOWN = ("axis", "axes", "perm", "direction", "hidden_size", "equation", "mode", "alpha", "blocksize", "num_heads")
_NAMED = frozenset(("direction", "equation", "mode"))  # attributes whose value says enough
_FORMALS = {
    "Clip": ("", "min", "max"), "ConstantOfShape": ("shape",), "Dropout": ("", "ratio", "training_mode"),
    "Expand": ("", "shape"), "Gather": ("data", "indices"), "GatherElements": ("data", "indices"),
    "GatherND": ("data", "indices"), "If": ("cond",), "Loop": ("M", "cond"), "OneHot": ("indices", "depth", "values"),
    "Pad": ("", "pads", "value", "axes"), "Range": ("start", "limit", "delta"), "Reshape": ("", "shape"),
    "Resize": ("", "roi", "scales", "sizes"), "Slice": ("", "starts", "ends", "axes", "steps"), "Split": ("", "split"),
    "Squeeze": ("", "axes"), "Tile": ("", "repeats"), "TopK": ("", "K"), "Unsqueeze": ("", "axes"),
    "Upsample": ("", "scales"), "Where": ("condition", "X", "Y"),
}  # fmt: skip


def describe_operator(node: Node) -> list[str]:
    """Return the most telling attributes of an operator, abbreviated: kernel, filters, stride and the like."""
    attrs = node.attrs
    parts = ["×".join(_split(attrs["kernel_shape"]))] if "kernel_shape" in attrs else []
    filters = _count_filters(node)
    parts += [str(filters)] if filters is not None else []
    strides, dilations = set(_split(attrs.get("strides", ""))), set(_split(attrs.get("dilations", "")))
    parts += [f"/{'×'.join(_split(attrs['strides'])) if len(strides) > 1 else strides.pop()}"] if strides - {"1"} else []
    parts += [f"dilated {dilations.pop()}"] if len(dilations) == 1 and dilations != {"1"} else []
    parts += [f"{attrs['group']} groups"] if attrs.get("group", "1") != "1" else []
    parts += [dtype_name(int(attrs["to"]))] if node.op == "Cast" and attrs.get("to", "").isdecimal() else []
    if node.op not in ("BatchNormalization", "LeakyRelu", "Constant"):
        parts += [attrs[key] if key in _NAMED else f"{key} {attrs[key]}" for key in _SHOWN if key in attrs]
    return [part for part in parts if part and len(part) <= _LONGEST]


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.strip("[]").split(",") if part.strip()]


def _count_filters(node: Node) -> int | None:
    """Return how many channels a convolution or a product with a weight gives; None where that is not a weight."""
    axes = {"Conv": 0, "ConvInteger": 0, "ConvTranspose": 1, "MatMul": -1, "Gemm": 0 if node.attrs.get("transB") == "1" else 1}
    operands = list_operands(node)
    place = find_stored(operands[1].node.details).place if len(operands) > 1 and operands[1] is not None else None
    if node.op not in axes or place is None or len(place.shape) < 2:
        return None
    groups = node.attrs.get("group", "1") if node.op == "ConvTranspose" else "1"
    return place.shape[axes[node.op]] * (int(groups) if groups.isdecimal() else 1)


def name_operand(node: Node, position: int) -> str:
    """Return what a picture calls an input: ONNX's name where one is known, ``A`` and ``B`` of operators with two."""
    names = _FORMALS.get(node.op, ())
    if node.op.startswith("Reduce"):
        names = ("", "axes")
    if position < len(names):
        return names[position]
    return "AB"[position] if position < 2 and len(list_operands(node)) == 2 else f"input {position}"


def describe_constant(node: Node) -> str:
    """Return the value of a Constant, or of an initializer of a few integers or one number; empty for any other node."""
    place = find_stored(node.details).place
    if node.op and (node.op != "Constant" or node.details.domain):
        return ""
    if not node.op and (place is None or is_weight(place.shape, place.code)):
        return ""
    try:
        dtype, numbers = read_constant(node, _LARGEST)
    except WireError:
        return ""
    if node.op and numbers is None:
        return next((text for text in node.attrs.values()), "")[:_LONGEST]
    if numbers is None or (not node.op and len(numbers) != 1 and dtype in _FLOATS):
        return ""
    texts = [str(number) if isinstance(number, int) else f"{number:.4g}" for number in numbers]
    shape = place.shape if place is not None else _find_shape(node)
    text = texts[0] if len(texts) == 1 and len(shape) < 1 else f"[{', '.join(texts)}]"
    return text if len(text) <= _LONGEST else f"{dtype} {format_dims(shape, separator='×')}"


def _find_tensor(node: Node) -> Span | None:
    """Return the TensorProto of an initializer or of a Constant."""
    stored = find_stored(node.details)
    if stored.tensor is not None and stored.place is not None:
        return stored.tensor.span
    if node.op != "Constant" or "value" not in node.attrs:
        return None
    span = node.details.values["value"].span
    fields = scan(span.file.data, span.start, span.end)
    return next((Span(span.file, field[3], field[4]) for field in fields if field[0] == _TENSOR), None)


def _find_shape(node: Node) -> tuple[int, ...]:
    span = _find_tensor(node)
    return locate_tensor(span.file, span.start, span.end).shape if span is not None else ()


def read_constant(node: Node, largest: int) -> tuple[str, list[Number] | None]:
    """Return the dtype and the numbers of an initializer or a Constant of at most ``largest`` bytes; None for another.

    Raises:
        WireError: its tensor is malformed.
    """
    span = _find_tensor(node)
    if span is None:
        return "", None
    place = locate_tensor(span.file, span.start, span.end)
    dtype = DTYPE_NAMES.get(place.code, "")
    is_integer = "int" in dtype or dtype == "bool"
    if place.path or span.size > largest or not (is_integer or dtype in _FLOATS):
        return "", None
    data, width = b"".join(read_elements(span, place)), ITEM_SIZES[dtype]
    if not is_integer:
        return dtype, list(struct.unpack(f"<{len(data) // width}{_FLOATS[dtype]}", data))
    pieces = (data[start : start + width] for start in range(0, len(data), width))
    return dtype, [int.from_bytes(piece, "little", signed=dtype.startswith("int")) for piece in pieces]
