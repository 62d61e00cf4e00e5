"""What ``verify`` is asked: two graphs with their parameters, and how to compare them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph
from graphshare.ops.kernel import Array


class Options(msgspec.Struct, frozen=True):
    """How values are compared: seeded inputs, ``rounds`` times; tolerances as in numpy's isclose.

    ``feeds`` and ``shapes`` are by variable name and hold for the twins of other branches too. ``allow_unsupported`` accepts
    the first two stages alone where an operator has no kernel. ``params_seed`` draws parameters that no file holds, equal ones
    for twins. ``train_step`` asks for the training stage, which fails with ``expect_tied`` where any pair will drift.
    """

    seed: int = 0
    rounds: int = 1
    atol: float = 1e-8
    rtol: float = 1e-5
    feeds: Mapping[str, Array] = {}
    shapes: Mapping[str, tuple[int | None, ...]] = {}
    params_seed: int | None = None
    allow_unsupported: bool = False
    train_step: bool = False
    expect_tied: bool = False


class Side(msgspec.Struct, frozen=True, eq=False):
    """A graph with its parameter file."""

    graph: Graph
    params: ParameterFile | None
