"""Chains of elementwise functions in two spellings: true rewrites are EQUAL, and one with a moved constant is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from graphshare.ops.kernel import Array
from tests.onnx_files.test_weights import Node, build, compare

Spelling = Callable[[str, str], list[Node]]
"""Returns the nodes of a function by the names of its argument and its result."""

CONSTANTS: Mapping[str, float] = {
    "zero": 0,
    "half": 0.5,
    "one": 1,
    "two": 2,
    "three": 3,
    "six": 6,
    "third": 1 / 3,
    "c": 1.3,
    "minus_c": -1.3,
    "fifth": 0.2,
    "slope": 0.1,
}


def spell(*steps: str, **attributes: float) -> Spelling:
    """Return a spelling: steps such as ``"m = Mul v two"``, where ``v`` is the argument and ``o`` the result."""

    def make(argument: str, result: str) -> list[Node]:
        nodes: list[Node] = []
        for step in steps:
            out, _, rest = step.partition(" = ")
            op, *inputs = rest.split()
            names = {"v": argument, "o": result}
            known = [
                names.get(each) or (each if each in CONSTANTS else f"{result}_{each}")
                for each in inputs
            ]
            last = attributes if len(steps) == 1 else {}
            nodes.append((op, " ".join(known), names.get(out) or f"{result}_{out}", last))
        return nodes

    return make


FUNCTIONS: Mapping[str, Sequence[Spelling]] = {
    "relu": [
        spell("o = Relu v"),
        spell("o = Max v zero"),
        spell("g = Greater v zero", "o = Where g v zero"),
    ],
    "hard sigmoid": [
        spell("o = HardSigmoid v", alpha=0.2, beta=0.5),
        spell("m = Mul v fifth", "d = Add m half", "o = Clip d zero one"),
        spell("m = Mul fifth v", "d = Add half m", "i = Min d one", "o = Max i zero"),
    ],
    "hard swish": [
        spell("o = HardSwish v"),
        spell("m = Add v three", "d = Clip m zero six", "e = Mul d v", "o = Div e six"),
    ],
    "shift": [spell("o = Sub v c"), spell("o = Add v minus_c")],
    "square": [spell("o = Mul v v"), spell("o = Pow v two")],
    "magnitude": [spell("o = Abs v"), spell("n = Neg v", "o = Max v n")],
    "sigmoid": [
        spell("o = Sigmoid v"),
        spell("m = Mul v half", "t = Tanh m", "s = Mul t half", "o = Add s half"),
        spell("m = Neg v", "t = Exp m", "s = Add t one", "o = Reciprocal s"),
    ],
    "leaky relu": [
        spell("o = LeakyRelu v", alpha=0.1),
        spell("m = Mul v slope", "o = Max v m"),
        spell("o = PRelu v slope"),
    ],
    "third": [spell("o = Div v three"), spell("o = Mul v third")],
    "floor": [spell("o = Floor v"), spell("n = Neg v", "k = Ceil n", "o = Neg k")],
    "tanh": [
        spell("o = Tanh v"),
        spell("m = Mul v two", "s = Sigmoid m", "t = Mul s two", "o = Sub t one"),
    ],
    "softplus": [
        spell("o = Softplus v"),
        spell(
            "a = Abs v",
            "n = Neg a",
            "e = Exp n",
            "d = Add e one",
            "l = Log d",
            "r = Relu v",
            "o = Add l r",
        ),
    ],
    "silu": [
        spell("s = Sigmoid v", "o = Mul v s"),
        spell("n = Neg v", "e = Exp n", "d = Add e one", "o = Div v d"),
    ],
}


def draw_nodes(seed: int) -> list[list[Node]]:
    """Return the nodes of two models of one chain of functions."""
    numbers = np.random.default_rng(seed)
    names = numbers.choice(list(FUNCTIONS), numbers.integers(1, 4))
    models = []
    for side in "pq":
        values = ["x", *(f"{side}{place}" for place in range(len(names) - 1)), "y"]
        own = [FUNCTIONS[name] for name in names]
        chosen = [spellings[numbers.integers(len(spellings))] for spellings in own]
        models.append(
            [
                node
                for place, make in enumerate(chosen)
                for node in make(values[place], values[place + 1])
            ]
        )
    return models


def list_weights(nodes: Sequence[Node], moved: str = "") -> dict[str, Array]:
    """Return the constants that nodes read, of which one may be moved."""
    read = {name for _, inputs, *_ in nodes for name in inputs.split()}
    return {
        name: np.float32([value * 1.05 + 0.01 if name == moved else value])
        for name, value in CONSTANTS.items()
        if name in read
    }


@pytest.mark.parametrize("seed", range(48))
def test_spellings_of_one_chain_are_equal(seed: int, tmp_path: Path) -> None:
    models = [build(nodes, list_weights(nodes), ["n", 40]) for nodes in draw_nodes(seed)]
    report = compare(tmp_path, *models)
    assert report.outcome == "equal", report.verdict


@pytest.mark.parametrize("seed", range(48))
def test_a_constant_that_moved_is_not_equal(seed: int, tmp_path: Path) -> None:
    left, right = draw_nodes(seed)
    names = [*list_weights(right)]
    if not names:
        pytest.skip("no constants")
    moved = names[seed % len(names)]
    models = [
        build(left, list_weights(left), ["n", 40]),
        build(right, list_weights(right, moved), ["n", 40]),
    ]
    x = np.linspace(-8, 8, 4000, dtype="f").reshape(-1, 40)
    values = [
        onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
        for model in models
    ]
    # A Relu may hide it wherever it is
    if np.abs(values[0] - values[1]).max() > 1e-4 * np.abs(values[0]).max():
        assert compare(tmp_path, *models).outcome in ("not equal", "not proved")
