"""ONNX operators by version: equal versions, default attributes, and attributes that became inputs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from graphshare.formats.onnx.messages import encode_attribute, keep_message
from graphshare.formats.onnx.values import Content, StoredValue, read_attribute
from graphshare.ir.graph import EMPTY

CHANGED: Mapping[str, tuple[int, int, Sequence[str]]] = {
    "Resize": (11, 19, ("antialias", "axes", "keep_aspect_ratio_policy"))
}
"""A version that means the same as a later one, unless these attributes are stated."""
MOVED: Mapping[str, tuple[int, Mapping[str, int]]] = {
    "Clip": (11, {"min": 1, "max": 2}),
    "Pad": (11, {"pads": 1, "value": 2}),
    "Slice": (10, {"starts": 1, "ends": 2, "axes": 3}),
    "Split": (13, {"split": 1}),
    "Squeeze": (13, {"axes": 1}),
    "TopK": (10, {"k": 1}),
    "Unsqueeze": (13, {"axes": 1}),
    "Upsample": (9, {"scales": 1}),
    "ReduceSum": (13, {"axes": 1}),
} | {
    f"Reduce{name}": (18, {"axes": 1})
    for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
}
"""The version that turns attributes of an operator into inputs, and their positions."""

DEPRECATED: Mapping[str, int] = {"Upsample": 10, "Scatter": 11}
"""The version that removes an operator; others replace it."""


def find_meaning(op: str, version: int) -> tuple[int, Mapping[str, Any]]:
    """Return the first version with the same meaning, and its default attributes."""
    ranges = _load_table().get(op, [])
    return next(
        ((first, defaults) for first, defaults in reversed(ranges) if first <= version),
        (version, EMPTY),
    )


@lru_cache(maxsize=256)
def encode_value(value: int | float | str | tuple[int, ...]) -> Content:
    """Return the content of an attribute with a value."""
    return StoredValue(keep_message(encode_attribute("", value)), read_attribute, "").content


@lru_cache(maxsize=1)
def _load_table() -> dict[str, list[tuple[int, dict[str, Any]]]]:
    with open(os.path.join(os.path.dirname(__file__), "operators.json"), "rb") as file:
        table: dict[str, list[tuple[int, dict[str, Any]]]] = json.load(file)
    return table
