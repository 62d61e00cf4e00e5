"""The interface of engines: an engine compiles a part of a graph for fixed shapes, and computes it many times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from graphshare.ir.graph import Graph, Node
from graphshare.ops.inference import Inference
from graphshare.ops.kernel import Array


class GraphPart(msgspec.Struct, frozen=True, eq=False):
    """A part of a graph to compile; ``inference`` has all its shapes and dtypes.

    Variables in ``constants`` keep these values; the others are inputs. ``repeated`` means that
    work at compilation pays; ``alone`` that nothing is computed beside it, so that its threads may
    stay awake.
    """

    graph: Graph
    inference: Inference
    constants: Mapping[Node, Array]
    repeated: bool = False
    alone: bool = True


class Compiled(Protocol):
    """A part ready to compute."""

    def __call__(self, feeds: Mapping[Node, Array]) -> Sequence[Array]:
        """Return the heads in order, for arrays of the inferred shapes and dtypes; these are only read."""
        ...


class Engine(Protocol):
    """A program that computes parts of graphs."""

    @property
    def name(self) -> str:
        """Return the name by which users choose it."""
        ...

    def compile(self, part: GraphPart) -> Compiled:
        """Return ``part`` ready to compute. Raises NodesRefusedError for nodes that it cannot take."""
        ...


@runtime_checkable
class Selective(Protocol):
    """An engine that takes only graphs for which that pays."""

    def takes(self, part: GraphPart, forwards: int) -> bool:
        """Return whether it computes ``part`` ``forwards`` times faster than numpy, its opening included."""
        ...


class NodesRefusedError(Exception):
    """Nodes that an engine cannot take, each with a reason (a clause)."""

    def __init__(self, reasons: Mapping[Node, str]) -> None:
        super().__init__(", ".join(node.name for node in reasons))
        self.reasons = dict(reasons)
