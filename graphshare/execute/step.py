"""One step of a plan, and what the tape records of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from graphshare.ir.graph import Node
from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.kernel import Array, Kernel


class Step(msgspec.Struct, frozen=True, eq=False):
    """One operator. ``inputs`` and ``outputs`` are slots, -1 for an unused output; ``last`` are slots that it uses last.

    ``inner`` are the operators of the node's first subgraph with their attributes. ``direct`` computes the output of the step
    where it is small, from its inputs alone.
    """

    node: Node
    kernel: Kernel
    attrs: Mapping[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    last: frozenset[int]
    inner: Sequence[tuple[str, Mapping[str, Any]]] = ()
    direct: Callable[..., Array] | None = None


class RecordedStep(msgspec.Struct, eq=False):
    """A step of the forward pass that the backward pass goes through.

    ``inputs`` and ``outputs`` are shapes and dtypes; ``updates`` have the old and the new value of inputs that are mutated.
    """

    step: Step
    gradient: Gradient
    entry: TapeEntry
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    outputs: tuple[tuple[tuple[int, ...], Any], ...]
    updates: Mapping[int, tuple[Array, Array]]
