"""One step of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from graphshare.ir.graph import Node
from graphshare.ops.kernel import Kernel


class Step(msgspec.Struct, frozen=True, eq=False):
    """One operator. ``inputs`` and ``outputs`` are slots; ``last`` are the slots nobody reads after this step."""

    node: Node
    kernel: Kernel
    attrs: Mapping[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    last: frozenset[int]
