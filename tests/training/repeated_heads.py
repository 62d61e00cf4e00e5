"""Graphs that list a head several times, the gradient of each listing, and the gradients that MXNet 1.9.1 gives."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.symbols import document, operator, variable

VALUES = {"data": [[1.0, 2.0, 3.0]], "w": [[1.0, 1.0, 1.0]], "label": [[0.0, 0.0, 0.0]]}
NODES = [
    variable("data"),
    variable("w"),
    operator("broadcast_mul", "y", [0, 1]),
    operator("broadcast_add", "z", [0, 1]),
    operator("square", "q", [2]),
    operator("MakeLoss", "m", [2], attrs={"grad_scale": "3"}),
    variable("label"),
    operator("SoftmaxOutput", "s", [2, 6]),
    operator("SliceChannel", "c", [2], attrs={"num_outputs": "3"}),
    operator("BlockGrad", "b", [2]),
]
DATA, W, Y, Z, Q, M, S, C, B = 0, 1, 2, 3, 4, 5, 7, 8, 9


class Case(NamedTuple):
    """The gradient of listing ``i`` is 10 to the power ``i`` everywhere; ``data`` and ``w`` are the
    gradients of these.
    """

    heads: list[Any]
    data: list[float]
    w: list[float]


CASES = {
    "twice": Case([Y, Y], [10, 10, 10], [10, 20, 30]),
    "three times": Case([Y, Y, Y], [100, 100, 100], [100, 200, 300]),
    "another head between": Case([Y, Z, Y], [110, 110, 110], [110, 210, 310]),
    "two heads in turn": Case([Z, Y, Z, Y], [1100, 1100, 1100], [1100, 2100, 3100]),
    "a head that feeds another": Case([Y, Q], [21, 41, 61], [21, 82, 183]),
    "a head twice that feeds another": Case([Y, Q, Y], [120, 140, 160], [120, 280, 480]),
    "twice before what it feeds": Case([Y, Y, Q], [210, 410, 610], [210, 820, 1830]),
    "a variable": Case([DATA, W, W], [1, 1, 1], [100, 100, 100]),
    "a variable around what it feeds": Case([W, Y, W], [10, 10, 10], [110, 120, 130]),
    "a loss": Case([M, M, M], [3, 3, 3], [3, 6, 9]),
    "a loss around another head": Case([M, Y, M], [13, 13, 13], [13, 26, 39]),
    "a softmax": Case(
        [S, S], [0.09003057, 0.24472848, 0.66524094], [0.09003057, 0.48945695, 1.99572277]
    ),
    "one of several outputs": Case([(C, 0, 0), (C, 1, 0), (C, 0, 0)], [100, 10, 0], [100, 20, 0]),
    "all outputs": Case(
        [(C, i % 3, 0) for i in range(6)], [1000, 10000, 100000], [1000, 20000, 300000]
    ),
    "no gradient": Case([B, Y, B], [10, 10, 10], [10, 20, 30]),
}


def graph_of(case: Case) -> dict[str, Any]:
    return document(NODES, case.heads, row_ptr=False)
