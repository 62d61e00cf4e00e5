"""Summaries of a run: of outputs, and of time and memory by node and by operator."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from graphshare.execute.interpreter import Timing
from graphshare.ops.kernel import Array


class OutputSummary(msgspec.Struct, frozen=True):
    """One output. ``min``, ``max`` and ``mean`` are over its finite values, None where it has none."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    min: float | None
    max: float | None
    mean: float | None
    nonfinite: int


class NodeCost(msgspec.Struct, frozen=True):
    """The cost of one node; ``bytes`` are those of its outputs."""

    name: str
    op: str
    seconds: float
    bytes: int


class OperatorCost(msgspec.Struct, frozen=True):
    """The cost of all nodes of one operator together."""

    op: str
    nodes: int
    seconds: float
    bytes: int


class Profile(msgspec.Struct, frozen=True):
    """``nodes`` in the order of the run, ``operators`` by time, the slowest first."""

    nodes: list[NodeCost]
    operators: list[OperatorCost]


def summarize(name: str, array: Array) -> OutputSummary:
    """Summarize an output."""
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    nonfinite = array.size - finite.size
    if not finite.size:
        return OutputSummary(name, array.shape, str(array.dtype), None, None, None, nonfinite)
    low, high, mean = float(finite.min()), float(finite.max()), float(finite.mean(dtype="float64"))
    return OutputSummary(name, array.shape, str(array.dtype), low, high, mean, nonfinite)


def profile_of(timings: Iterable[Timing]) -> Profile:
    """Return the timings by node and by operator."""
    nodes = [NodeCost(timing.node.name, timing.node.op, timing.seconds, timing.bytes) for timing in timings]
    groups: dict[str, list[NodeCost]] = {}
    for node in nodes:
        groups.setdefault(node.op, []).append(node)
    operators = [OperatorCost(op, len(of), sum(n.seconds for n in of), sum(n.bytes for n in of)) for op, of in groups.items()]
    return Profile(nodes, sorted(operators, key=lambda cost: -cost.seconds))
