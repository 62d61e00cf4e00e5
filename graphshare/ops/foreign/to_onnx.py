"""Operators of MXNet before 1.0 in ONNX, which 1.9.1 has under other names."""

from __future__ import annotations

import msgspec

from graphshare.ops.box.to_onnx import TRANSLATIONS as BOX
from graphshare.ops.detection.to_onnx import TRANSLATIONS as DETECTION

_PREFIX = "_contrib_"

TRANSLATIONS = tuple(
    msgspec.structs.replace(translator, operator=translator.operator.removeprefix(_PREFIX))
    for translator in (*BOX, *DETECTION)
    if translator.operator.startswith(f"{_PREFIX}MultiBox")
)
