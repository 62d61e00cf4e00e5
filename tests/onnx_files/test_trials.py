"""Regions on inputs that no model drew: true rewrites pass, in both orders and with names that say
nothing, faults do not.
"""

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
    """A model and a rewrite of it, which reads the same weights and may read more; ``weight`` is
    one that a fault moves.
    """

    nodes: Sequence[Node]
    weights: Mapping[str, Array]
    others: Sequence[Node]
    more: Mapping[str, Array]
    shape: Sequence[int | str]
    weight: str

    def build(
        self, seed: int | None = None, *, is_faulty: bool = False
    ) -> tuple[onnx.ModelProto, onnx.ModelProto]:
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
    nodes = [
        ("Mul", "x x", "squares", {}),
        *dense("squares", "w", "b", "h"),
        ("Relu", "h", "r", {}),
    ]
    nodes += [
        ("MatMul", "r v", "p", {}),
        ("Mul", "p s", "m", {}),
        ("Add", "m c", "a", {}),
        ("Sigmoid", "a", "y", {}),
    ]
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
    weights = {
        "w": draw(4, 2),
        "b": draw(2),
        "one": integers(1),
        "four": integers(4),
        "most": integers(9, 99, 9),
    }
    weights |= {"at": integers(1)}
    head: list[Node] = [("Shape", "x", "sizes", {}), ("Gather", "sizes at", "n", {"axis": 0})]
    head += [("Concat", "one n four", "wanted", {"axis": 0}), ("Min", "wanted most", "limited", {})]
    head += [("Reshape", "x limited", "v", {})]
    others = [
        *head,
        ("Reshape", "v flat", "rows", {}),
        ("Gemm", "rows w b", "g", {}),
        ("Reshape", "g back", "y", {}),
    ]
    more = {"flat": integers(-1, 4), "back": integers(1, -1, 2)}
    return Rewrite(
        [*head, *dense("v", "w", "b", "y")], weights, others, more, ["batch", "seq", 4], "w"
    )


def measured() -> Rewrite:
    """A rewrite that reads of a value nothing but its sizes, and its numbers from before a Reshape."""
    weights = {"w": draw(4, 4), "b": draw(4), "v": draw(4, 2), "c": draw(2)}
    nodes = [("Exp", "x", "e", {}), *dense("e", "w", "b", "h"), *dense("h", "v", "c", "y")]
    others: list[Node] = [
        ("Exp", "x", "e", {}),
        ("Reshape", "e flat", "rows", {}),
        ("Gemm", "rows w b", "g", {}),
    ]
    others += [
        ("Shape", "e", "sizes", {}),
        ("Reshape", "g sizes", "h", {}),
        ("Gemm", "g v c", "last", {}),
    ]
    others += [
        ("Shape", "h", "own", {}),
        ("Slice", "own zero two", "front", {}),
        ("Concat", "front two", "back", {"axis": 0}),
    ]
    others += [("Reshape", "last back", "y", {})]
    more = {"flat": integers(-1, 4), "zero": integers(0), "two": integers(2)}
    return Rewrite(nodes, weights, others, more, ["batch", "seq", 4], "v")


def clipped() -> Rewrite:
    """A Clip that changes nothing of the numbers that are drawn, so that the values before and behind it are equal."""
    weights = {
        "w": draw(4, 4) / 8,
        "b": draw(4),
        "three": np.float32([3]),
        "low": np.float32(0),
        "high": np.float32(6),
    }
    weights |= {"v": draw(4, 4) / 8, "c": draw(4), "six": np.float32([6])}
    nodes: list[Node] = [("Mul", "x x", "squares", {})]
    others: list[Node] = [("Pow", "x power", "squares", {})]
    for x, w, b, y in (("squares", "w", "b", "h"), ("h", "v", "c", "y")):
        nodes += dense(x, w, b, f"{y}_a")
        others += [("Gemm", f"{x} {w} {b}", f"{y}_a", {})]
        hardswish: list[Node] = [
            ("Add", f"{y}_a three", f"{y}_more", {}),
            ("Clip", f"{y}_more low high", f"{y}_clip", {}),
        ]
        hardswish += [
            ("Mul", f"{y}_a {y}_clip", f"{y}_times", {}),
            ("Div", f"{y}_times six", y, {}),
        ]
        nodes += hardswish
        others += hardswish
    return Rewrite(nodes, weights, others, {"power": np.float32(2)}, ["n", 4], "v")


def flat() -> Rewrite:
    """Convolutions of a single row: a fault in a weight that meets nothing but padding shows in no value."""
    weights = {
        "w": draw(2, 2, 3, 3),
        "s": draw(2, 1, 1) ** 2 + np.float32(1),
        "v": draw(2, 2, 3, 3),
    }
    weights |= {"low": np.float32(0), "high": np.float32(6)}
    padded = {"pads": [1, 1, 1, 1]}
    nodes: list[Node] = [
        ("Mul", "x x", "squares", {}),
        ("Conv", "squares w", "c", padded),
        ("Mul", "c s", "m", {}),
    ]
    others: list[Node] = [("Pow", "x power", "squares", {}), ("Conv", "squares ws", "m", padded)]
    tail: list[Node] = [("Clip", "m low high", "k", {}), ("Conv", "k v", "y", padded)]
    more = {"power": np.float32(2), "ws": weights["w"] * weights["s"].reshape(2, 1, 1, 1)}
    return Rewrite([*nodes, *tail], weights, [*others, *tail], more, ["n", 2, 1, 5], "ws")


def ranked() -> Rewrite:
    """Numbers in arrays of one element or of none, behind a value whose rank no type says, but the run."""
    weights = {
        "w": draw(4, 4),
        "b": draw(4),
        "zero": integers(0),
        "minus": integers(-1, 4),
        "one": np.float32([1]),
    }
    head: list[Node] = [
        ("Shape", "x", "sizes", {}),
        ("ReduceMin", "sizes", "fewest", {}),
        ("Min", "fewest zero", "none", {}),
    ]
    head += [
        ("Slice", "sizes none fewest", "front", {}),
        ("Concat", "front minus", "wanted", {"axis": 0}),
    ]
    head += [("Reshape", "x wanted", "v", {}), *dense("v", "w", "b", "h")]
    models = (
        [
            *head,
            ("Mul", f"h {one}", "same", {}),
            ("Sigmoid", "same", "share", {}),
            ("Mul", "h share", "y", {}),
        ]
        for one in ("one", "number")
    )
    return Rewrite(
        next(models), weights, next(models), {"number": np.full((), 1, "f")}, [1, 3, 4], "number"
    )


def negative() -> Rewrite:
    """A Softplus of numbers that are negative where they are drawn, so that its stable form has
    equal values without need.
    """
    weights = {"c": np.float32([3]), "one": np.float32([1])}
    nodes: list[Node] = [
        ("Sub", "x c", "d", {}),
        ("Exp", "d", "e", {}),
        ("Add", "e one", "f", {}),
        ("Log", "f", "y", {}),
    ]
    others: list[Node] = [
        ("Add", "x minus", "z", {}),
        ("Abs", "z", "a", {}),
        ("Neg", "a", "n", {}),
        ("Exp", "n", "p", {}),
    ]
    others += [
        ("Add", "p one", "q", {}),
        ("Log", "q", "l", {}),
        ("Relu", "z", "r", {}),
        ("Add", "l r", "y", {}),
    ]
    return Rewrite(nodes, weights, others, {"minus": np.float32([-3])}, ["n", 40], "minus")


def leaky() -> Rewrite:
    """A value that both sides have, and that a region computes once more from what it starts from."""
    weights = {"one": np.float32([1])}
    nodes: list[Node] = [
        ("Abs", "x", "a", {}),
        ("Floor", "a", "f", {}),
        ("Neg", "f", "n", {}),
        ("Exp", "n", "e", {}),
    ]
    nodes += [("Add", "e one", "d", {}), ("Div", "f d", "y", {})]
    others: list[Node] = [
        ("Neg", "x", "m", {}),
        ("Max", "x m", "a", {}),
        ("Neg", "a", "g", {}),
        ("Ceil", "g", "c", {}),
    ]
    others += [
        ("Neg", "c", "h", {}),
        ("Mul", "h number", "s", {}),
        ("Sigmoid", "s", "p", {}),
        ("Mul", "h p", "y", {}),
    ]
    return Rewrite(nodes, weights, others, {"number": np.float32([1])}, ["n", 40], "number")


KINDS: Mapping[str, Callable[[], Rewrite]] = {
    each.__name__: each
    for each in (steep, tiny, single, measured, clipped, flat, ranked, negative, leaky)
}


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
def test_floats_that_decide_sizes_are_not_drawn(
    op: str, inputs: str, fixed: set[str], tmp_path: Path
) -> None:
    """A thousand times the scales of a Resize would fill the memory."""
    signature = "(float[A] x, float[B] r, float[C] s) => (float[D] y)"
    text = f'<ir_version: 8, opset_import: ["" : 17]> g {signature} {{y = {op}({inputs})}}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    graph = gs.load(tmp_path / "model.onnx").graph
    parts: Any = [SimpleNamespace(nodes=graph.nodes)] * 2
    places = [{(node, 0): node.name for node in graph.variables()}] * 2
    assert _list_sizing(parts, places) == fixed


INNER = ("taken_h", "taken_c", "left_h", "left_c")
"""Constants of the bodies of an If."""


def make_branching(seed: int | None = None, *, moved: str = "") -> onnx.ModelProto:
    """Return a model whose If has two outputs; with a ``seed`` a rewrite of it whose inner names are exchanged.

    ``moved`` is a constant of a body that is another number in it.
    """
    squares = "Pow(x, power)" if seed is None else "Mul(x, x)"
    numbers = {name: 1.5 if name == moved else 0.5 for name in INNER}
    bodies = [
        f"{key} = {key} () => (float[N, 4] h_{key}, float[N, 4] c_{key}) "
        f"<float {one} = {{{numbers[one]}}}, float {two} = {{{numbers[two]}}}> "
        f"{{h_{key} = Mul(q, {one}) c_{key} = Add(q, {two})}}"
        for key, one, two in (("then_branch", *INNER[:2]), ("else_branch", *INNER[2:]))
    ]
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] y)
    <float power = {{2}}, int64 one = {{1}}, int64 four = {{4}}> {{
        q = {squares}
        s = Shape(x)
        n = Gather<axis = 0>(s, one)
        e = Equal(n, four)
        h, c = If<{", ".join(bodies)}>(e)
        a = Sqrt(h)
        b = Sin(c)
        y = Add(a, b)
    }}"""
    model = onnx.parser.parse_model(text)
    if seed is not None:
        inner = list("qhcab")
        names = dict(
            zip(inner, np.random.default_rng(seed).permutation(inner).tolist(), strict=True)
        )
        inside = [
            node for each in model.graph.node for part in each.attribute for node in part.g.node
        ]
        for node in (*model.graph.node, *inside):
            node.input[:] = [names.get(name, name) for name in node.input]
            node.output[:] = [names.get(name, name) for name in node.output]
    return model


@pytest.mark.parametrize("seed", range(6, 12))
def test_each_output_of_an_if_is_paired(seed: int, tmp_path: Path) -> None:
    report = compare(tmp_path, make_branching(), make_branching(seed))
    assert report.outcome == "equal", report.verdict


@pytest.mark.parametrize("moved", INNER)
@pytest.mark.parametrize("seed", range(8, 12))
def test_a_fault_in_a_body_is_not_equal(seed: int, moved: str, tmp_path: Path) -> None:
    paths = [tmp_path / "original.onnx", tmp_path / "rewrite.onnx"]
    for path, model in zip(
        paths, (make_branching(), make_branching(seed, moved=moved)), strict=True
    ):
        onnx.save(model, path)
    reports = gs.compare(*paths), gs.compare(*reversed(paths))
    assert reports[0].outcome == reports[1].outcome
    assert reports[0].outcome in ("not equal", "not proved"), [report.verdict for report in reports]


def make_group_norm(opset: int, moved: int | None = None) -> onnx.ModelProto:
    """Return a GroupNormalization, which scales groups before version 21, and channels from then
    on; one number may move.
    """
    numbers = np.float32([[1.5, 2.5], [0.5, 0.25]])  # scales and shifts of two groups
    numbers = numbers if opset < 21 else numbers.repeat(2, axis=1)
    if moved is not None:
        numbers.flat[moved] += np.float32(1e-2)
    nodes = [("GroupNormalization", "x s b", "y", {"num_groups": 2})]
    return build(nodes, dict(zip("sb", numbers, strict=True)), ["n", 4, "h", 3], opset=opset)


@pytest.mark.parametrize("moved", [None, *range(8)])
def test_operators_of_versions_with_another_meaning_are_compared(
    moved: int | None, tmp_path: Path
) -> None:
    report = compare(tmp_path, make_group_norm(18), make_group_norm(21, moved))
    assert report.outcome == ("equal" if moved is None else "not equal"), report.verdict


def test_versions_that_agree_at_a_rank_are_exact_once_a_run_shows_it(tmp_path: Path) -> None:
    rewrite = ranked()
    nodes = [*rewrite.nodes[:-3], ("Softmax", "h", "y", {"axis": -1})]
    report = compare(
        tmp_path, *(build(nodes, rewrite.weights, rewrite.shape, opset=opset) for opset in (12, 13))
    )
    assert report.rung == "exact", report.verdict
