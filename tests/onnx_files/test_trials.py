"""Regions on inputs that no model drew: true rewrites pass, in both orders and with names that say nothing, faults do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest

import graphshare as gs
from graphshare.ops.kernel import Array
from graphshare.verification.other_inputs import _list_sizing
from tests.onnx_files.test_weights import Node, build, compare

pytest.importorskip("onnxruntime")


class Rewrite(NamedTuple):
    """A model and a rewrite of it, which reads the same weights and may read more; ``weight`` is one that a fault moves."""

    nodes: Sequence[Node]
    weights: Mapping[str, Array]
    others: Sequence[Node]
    more: Mapping[str, Array]
    shape: Sequence[int | str]
    weight: str

    def build(self, seed: int | None = None, *, is_faulty: bool = False) -> tuple[onnx.ModelProto, onnx.ModelProto]:
        """Return both models; with a ``seed`` the inner names of the rewrite are exchanged."""
        weights = {**self.weights, **self.more}
        if is_faulty:
            weights[self.weight] = weights[self.weight].copy()
            weights[self.weight].flat[0] += 0.5
        others = self.others if seed is None else exchange_names(self.others, seed)
        return build(self.nodes, self.weights, self.shape), build(others, weights, self.shape)


def exchange_names(nodes: Sequence[Node], seed: int) -> list[Node]:
    """Return nodes of which the inner names are exchanged."""
    inner = [output for _, _, output, _ in nodes if output != "y"]
    names = dict(zip(inner, np.random.default_rng(seed).permutation(inner).tolist(), strict=True))
    return [
        (op, " ".join(names.get(n, n) for n in inputs.split()), names.get(out, out), values)
        for op, inputs, out, values in nodes
    ]


def dense(*names: str) -> list[Node]:
    """Return a layer by its input, weight, bias and output."""
    x, w, b, y = names
    return [("MatMul", f"{x} {w}", f"{y}_product", {}), ("Add", f"{y}_product {b}", y, {})]


def draw(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape).astype("f")


def integers(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def tiny() -> Rewrite:
    """Shares near 0, which have as few digits as those near 1."""
    rewrite = steep()
    return rewrite._replace(weights={**rewrite.weights, "c": np.full(512, -16, "f")})


def steep() -> Rewrite:
    """A Sigmoid of large sums: a step of rounding in a sum near 0 is far more than one of the share."""
    weights = {
        "w": draw(64, 64) / 8,
        "b": draw(64),
        "v": draw(64, 512) / 8,
        "c": draw(512),
        "s": draw(512) ** 2 + np.float32(1),
    }
    nodes = [("Mul", "x x", "squares", {}), *dense("squares", "w", "b", "h"), ("Relu", "h", "r", {})]
    nodes += [("MatMul", "r v", "p", {}), ("Mul", "p s", "m", {}), ("Add", "m c", "a", {}), ("Sigmoid", "a", "y", {})]
    others = [
        ("Pow", "x power", "g0", {}),
        ("Gemm", "g0 w b", "g1", {}),
        ("Relu", "g1", "g2", {}),
        ("Gemm", "g2 vs c", "g3", {}),
    ]
    more = {"power": np.float32(2), "vs": weights["v"] * weights["s"]}
    return Rewrite(nodes, weights, [*others, ("Sigmoid", "g3", "y", {})], more, ["n", 64], "vs")


def single() -> Rewrite:
    """A rewrite for one sample of a model that computes no more of them, which its types do not say."""
    weights = {"w": draw(4, 2), "b": draw(2), "one": integers(1), "four": integers(4), "most": integers(9, 99, 9)}
    weights |= {"at": integers(1)}
    head: list[Node] = [("Shape", "x", "sizes", {}), ("Gather", "sizes at", "n", {"axis": 0})]
    head += [("Concat", "one n four", "wanted", {"axis": 0}), ("Min", "wanted most", "limited", {})]
    head += [("Reshape", "x limited", "v", {})]
    others = [*head, ("Reshape", "v flat", "rows", {}), ("Gemm", "rows w b", "g", {}), ("Reshape", "g back", "y", {})]
    more = {"flat": integers(-1, 4), "back": integers(1, -1, 2)}
    return Rewrite([*head, *dense("v", "w", "b", "y")], weights, others, more, ["batch", "seq", 4], "w")


def measured() -> Rewrite:
    """A rewrite that reads of a value nothing but its sizes, and its numbers from before a Reshape."""
    weights = {"w": draw(4, 4), "b": draw(4), "v": draw(4, 2), "c": draw(2)}
    nodes = [("Exp", "x", "e", {}), *dense("e", "w", "b", "h"), *dense("h", "v", "c", "y")]
    others: list[Node] = [("Exp", "x", "e", {}), ("Reshape", "e flat", "rows", {}), ("Gemm", "rows w b", "g", {})]
    others += [("Shape", "e", "sizes", {}), ("Reshape", "g sizes", "h", {}), ("Gemm", "g v c", "last", {})]
    others += [("Shape", "h", "own", {}), ("Slice", "own zero two", "front", {}), ("Concat", "front two", "back", {"axis": 0})]
    others += [("Reshape", "last back", "y", {})]
    more = {"flat": integers(-1, 4), "zero": integers(0), "two": integers(2)}
    return Rewrite(nodes, weights, others, more, ["batch", "seq", 4], "v")


def clipped() -> Rewrite:
    """A Clip that changes nothing of the numbers that are drawn, so that the values before and behind it are equal."""
    weights = {"w": draw(4, 4) / 8, "b": draw(4), "three": np.float32([3]), "low": np.float32(0), "high": np.float32(6)}
    weights |= {"v": draw(4, 4) / 8, "c": draw(4), "six": np.float32([6])}
    nodes: list[Node] = [("Mul", "x x", "squares", {})]
    others: list[Node] = [("Pow", "x power", "squares", {})]
    for x, w, b, y in (("squares", "w", "b", "h"), ("h", "v", "c", "y")):
        nodes += dense(x, w, b, f"{y}_a")
        others += [("Gemm", f"{x} {w} {b}", f"{y}_a", {})]
        hardswish: list[Node] = [("Add", f"{y}_a three", f"{y}_more", {}), ("Clip", f"{y}_more low high", f"{y}_clip", {})]
        hardswish += [("Mul", f"{y}_a {y}_clip", f"{y}_times", {}), ("Div", f"{y}_times six", y, {})]
        nodes += hardswish
        others += hardswish
    return Rewrite(nodes, weights, others, {"power": np.float32(2)}, ["n", 4], "v")


def flat() -> Rewrite:
    """Convolutions of a single row: a fault in a weight that meets nothing but padding shows in no value."""
    weights = {"w": draw(2, 2, 3, 3), "s": draw(2, 1, 1) ** 2 + np.float32(1), "v": draw(2, 2, 3, 3)}
    weights |= {"low": np.float32(0), "high": np.float32(6)}
    padded = {"pads": [1, 1, 1, 1]}
    nodes: list[Node] = [("Mul", "x x", "squares", {}), ("Conv", "squares w", "c", padded), ("Mul", "c s", "m", {})]
    others: list[Node] = [("Pow", "x power", "squares", {}), ("Conv", "squares ws", "m", padded)]
    tail: list[Node] = [("Clip", "m low high", "k", {}), ("Conv", "k v", "y", padded)]
    more = {"power": np.float32(2), "ws": weights["w"] * weights["s"].reshape(2, 1, 1, 1)}
    return Rewrite([*nodes, *tail], weights, [*others, *tail], more, ["n", 2, 1, 5], "ws")


KINDS: Mapping[str, Callable[[], Rewrite]] = {each.__name__: each for each in (steep, tiny, single, measured, clipped, flat)}


@pytest.mark.parametrize("seed", [None, *range(4)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_rewrite_is_equal_in_both_orders(kind: str, seed: int | None, tmp_path: Path) -> None:
    report = compare(tmp_path, *KINDS[kind]().build(seed))
    assert report.outcome == "equal", report.verdict


@pytest.mark.parametrize("seed", [None, *range(4)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_is_not_equal(kind: str, seed: int | None, tmp_path: Path) -> None:
    report = compare(tmp_path, *KINDS[kind]().build(seed, is_faulty=True))
    assert report.outcome in ("not equal", "not proved"), report.verdict


@pytest.mark.parametrize(
    ("op", "inputs", "fixed"),
    [
        ("Resize", "x, , s", {"s"}),
        ("Resize", "x, r, s", {"r", "s"}),
        ("Range", "x, r, s", {"x", "r", "s"}),
        ("Mul", "x, s", set()),
    ],
)
def test_floats_that_decide_sizes_are_not_drawn(op: str, inputs: str, fixed: set[str], tmp_path: Path) -> None:
    """A thousand times the scales of a Resize would fill the memory."""
    signature = "(float[A] x, float[B] r, float[C] s) => (float[D] y)"
    text = f'<ir_version: 8, opset_import: ["" : 17]> g {signature} {{y = {op}({inputs})}}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    graph = gs.load(tmp_path / "model.onnx").graph
    parts: Any = [SimpleNamespace(nodes=graph.nodes)] * 2
    places = [{(node, 0): node.name for node in graph.variables()}] * 2
    assert _list_sizing(parts, places) == fixed
