"""ONNX's operators by version: which versions mean the same, and the defaults of attributes in them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from graphshare.formats.onnx.messages import encode_attribute, keep_message
from graphshare.formats.onnx.values import Content, StoredValue, read_attribute
from graphshare.ir.graph import EMPTY


def find_meaning(op: str, version: int) -> tuple[int, Mapping[str, Any]]:
    """Return the first version that means the same as a version of an operator, and the defaults of attributes there."""
    ranges = _load_table().get(op, [])
    return next(((first, defaults) for first, defaults in reversed(ranges) if first <= version), (version, EMPTY))


@lru_cache(maxsize=256)
def encode_value(value: int | float | str | tuple[int, ...]) -> Content:
    """Return the content of an attribute with a value."""
    return StoredValue(keep_message(encode_attribute("", value)), read_attribute, "").content


@lru_cache(maxsize=1)
def _load_table() -> dict[str, list[tuple[int, dict[str, Any]]]]:
    with open(os.path.join(os.path.dirname(__file__), "operators.json"), "rb") as file:
        table: dict[str, list[tuple[int, dict[str, Any]]]] = json.load(file)
    return table
