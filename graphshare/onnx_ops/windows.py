"""Attributes of window operators in one form: pads instead of ``auto_pad``, and no defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphshare.formats.onnx.constants import INTS, read_parts, unpack_integers
from graphshare.formats.onnx.values import Content
from graphshare.onnx_ops.operators import encode_value

WEIGHTS = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "QLinearConv": 3}
"""Window operators whose weights have the sizes of the window, and the position of the weights."""
WINDOWS = frozenset(("AveragePool", "LpPool", "MaxPool", *WEIGHTS))
_PLAIN = {"strides": 1, "dilations": 1, "pads": 0, "output_padding": 0}
_AUTO: Mapping[Content | None, str] = {
    encode_value(name): name for name in ("VALID", "SAME_UPPER", "SAME_LOWER")
}


def settle_windows(
    op: str,
    attributes: dict[str, Content],
    weight: Sequence[int] | None,
    sizes: Sequence[int | str | None] | None,
) -> None:
    """Normalize an operator's attributes, so that all its spellings are equal.

    ``weight`` is the shape of the weights, if there are any, ``sizes`` of the data; both may be
    partly unknown.
    """
    for name, number in _PLAIN.items():
        numbers = read_integers(attributes.get(name))
        if numbers is not None and set(numbers) == {number}:
            del attributes[name]
    window = read_integers(attributes.get("kernel_shape"))
    if weight is not None and window in (None, list(weight[2:])):
        window = list(weight[2:])
        attributes.pop("kernel_shape", None)  # the weights have the same sizes
    auto = _AUTO.get(attributes.get("auto_pad"), "")
    # With stated pads, or a stated output shape, auto_pad has no unique meaning.
    if not auto or "pads" in attributes or "output_shape" in attributes:
        return
    if auto == "VALID":  # no padding
        del attributes["auto_pad"]
        return
    # The part that ConvTranspose cuts off has changed between versions of its definition.
    if op == "ConvTranspose" or not window:
        return
    pads = _find_pads(auto, attributes, window, sizes)
    if pads is None:
        return
    del attributes["auto_pad"]
    if any(pads):
        attributes["pads"] = encode_value(pads)


def read_integers(content: Content | None) -> list[int] | None:
    """Return the integers of an attribute with a short list of them; None for others."""
    data: tuple[Any, ...] = read_parts(content).get(INTS, ()) if content else ()
    if len(data) != 1:
        return None
    return unpack_integers(data[0], 8)


def _find_pads(
    auto: str,
    attributes: dict[str, Content],
    window: Sequence[int],
    sizes: Sequence[int | str | None] | None,
) -> tuple[int, ...] | None:
    """Return pads for an output as large as the data over the strides, rounded up; None if unknown."""
    axes: Sequence[int | str | None] = [None] * len(window) if sizes is None else sizes[2:]
    strides = read_integers(attributes.get("strides")) or [1] * len(window)
    # onnxruntime does not take dilations into account, or refuses them.
    if "dilations" in attributes or not len(axes) == len(strides) == len(window):
        return None
    begins, ends = [], []
    for size, stride, length in zip(axes, strides, window, strict=True):
        if stride == 1:  # fits any size, because the output has it, too
            whole = length - 1
        elif isinstance(size, int) and stride > 1:
            whole = ((size + stride - 1) // stride - 1) * stride + length - size
        else:
            return None
        # Steps longer than the window: only some programs cut the data.
        if whole < 0:
            return None
        begins.append(whole // 2 if auto == "SAME_UPPER" else whole - whole // 2)
        ends.append(whole - begins[-1])
    return (*begins, *ends)
