"""Regions that weights decide: folds are equal for every input, and a weight that moved is named,
however small its part is.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import graphshare as gs
from graphshare.errors import BugError, GraphshareError, UsageError
from graphshare.onnx_ops import definitions
from graphshare.ops.kernel import Array
from graphshare.verification import affine_values
from graphshare.verification.affine_values import LIMIT
from graphshare.verification.region_plan import Cone
from graphshare.verification.report import Report
from graphshare.verification.weights import Weigher, Weighing

pytest.importorskip("onnxruntime")

_EVERYDAY, _MANY = 12, 150
Node = tuple[str, str, str, Mapping[str, Any]]
"""An operator, the names of its inputs and of its output, and its attributes."""


def build(
    nodes: Sequence[Node],
    weights: Mapping[str, Array],
    shape: Sequence[int | str],
    *,
    domain: str = "",
    opset: int = 17,
) -> onnx.ModelProto:
    """Return a model from ``x`` to ``y``; operators of the other domain are fused ones."""
    made = [
        helper.make_node(
            op,
            inputs.split(),
            [output],
            name=output,
            domain=domain if op.startswith(("Fused", "Skip", "Quick", "Bias")) else "",
            **values,
        )
        for op, inputs, output, values in nodes
    ]
    ends = (
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info("y", 1, None)],
    )
    graph = helper.make_graph(
        made, "g", *ends, [numpy_helper.from_array(array, name) for name, array in weights.items()]
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def compare(folder: Path, *models: onnx.ModelProto, **options: Any) -> Report:
    """Compare two models in both orders, which give one verdict."""
    paths = [folder / f"{name}.onnx" for name in ("original", "rewrite")]
    for path, model in zip(paths, models, strict=True):
        onnx.save(model, path)
    report, back = gs.compare(*paths, **options), gs.compare(*reversed(paths), **options)
    assert (report.outcome, report.rung) == (back.outcome, back.rung), (
        report.verdict,
        back.verdict,
    )
    return report


class Fold(NamedTuple):
    """A linear operator with a normalization or a scale behind it, and the one operator that a fold makes of both."""

    nodes: Sequence[Node]
    weights: Mapping[str, Array]
    folded: Sequence[Node]
    joined: Mapping[str, Array]
    shape: Sequence[int | str]

    def build(
        self, joined: Mapping[str, Array] | None = None
    ) -> tuple[onnx.ModelProto, onnx.ModelProto]:
        """Return both models, the second one with other weights where they are given."""
        return build(self.nodes, self.weights, self.shape), build(
            self.folded, joined or self.joined, self.shape
        )


def make_fold(seed: int) -> Fold:
    """Make a fold in float32, as optimizers compute it."""
    rng = np.random.default_rng(seed)
    rows, columns = (int(n) for n in rng.integers(2, 7, 2))
    scale, shift, mean = (rng.uniform(-2, 2, columns).astype("f") for _ in range(3))
    variance = rng.uniform(0.01, 4, columns).astype("f")
    bias = rng.standard_normal(columns).astype("f")
    factor = scale / np.sqrt(variance + np.float32(1e-3))
    norm = ("BatchNormalization", "c s b m v", "n", {"epsilon": 1e-3})
    statistics = {"s": scale, "b": shift, "m": mean, "v": variance}
    joined_bias = (bias - mean) * factor + shift
    last = ("Relu", "n", "y", {})
    if seed % 3 == 0:  # a fold to Gemm
        kernel = rng.standard_normal((rows, columns)).astype("f")
        nodes = [("MatMul", "x w", "h", {}), ("Add", "h f", "a", {}), ("Mul", "a s", "n", {}), last]
        joined = {"w": np.ascontiguousarray((kernel * scale).T), "f": bias * scale}
        folded = [("Gemm", "x w f", "n", {"transB": 1}), last]
        return Fold(nodes, {"w": kernel, "f": bias, "s": scale}, folded, joined, ["N", rows])
    group = 2 if seed % 3 == 1 and columns % 2 == 0 else 1
    kernel = rng.standard_normal((columns, rows, 3, 3)).astype("f")
    window = {"pads": [1, 1, 1, 1], "strides": [int(rng.integers(1, 3))] * 2, "group": group}
    nodes = [("Conv", "x w f", "c", window), norm, last]
    joined = {"w": kernel * factor.reshape(-1, 1, 1, 1), "f": joined_bias}
    return Fold(
        nodes,
        {"w": kernel, "f": bias, **statistics},
        [("Conv", "x w f", "n", window), last],
        joined,
        ["N", rows * group, 8, 8],
    )


def check_fold(seed: int, folder: Path) -> None:
    fold = make_fold(seed)
    report = compare(folder, *fold.build(), by_weights=True)
    assert report.rung == "by weights", report.verdict
    assert "by weights for every input" in report.verdict
    (branch,) = report.branches
    assert all(
        0 <= region.steps <= LIMIT
        for each in branch.regions
        for region in each.regions
        if region.steps is not None
    )
    rng = Random(seed)
    for share in (1e-5, 1e-3):
        kernel = fold.joined["w"].copy()
        order = np.argsort(np.abs(kernel), axis=None)
        place = np.unravel_index(order[rng.choice((-1, len(order) // 2))], kernel.shape)
        kernel[place] *= np.float32(1 + share)
        moved = compare(folder, *fold.build({**fold.joined, "w": kernel}))
        assert moved.outcome == "not equal", (seed, share, moved.verdict)
        text = "\n".join(
            detail for _, stage in moved.list_stages("fails") for detail in stage.details
        )
        assert "n: weight 'w' is" in text
    bias = fold.joined["f"].copy()
    bias[rng.randrange(len(bias))] += np.float32(1e-5) * np.abs(bias).max() * rng.choice((2, -2))
    moved = compare(folder, *fold.build({**fold.joined, "f": bias}))
    assert moved.outcome == "not equal", (seed, moved.verdict)


@pytest.mark.parametrize("seed", range(_EVERYDAY))
def test_folds_are_equal_for_every_input(seed: int, tmp_path: Path) -> None:
    check_fold(seed, tmp_path)


@pytest.mark.large
def test_many_folds_are_equal_for_every_input(tmp_path: Path) -> None:
    for seed in range(_EVERYDAY, _EVERYDAY + _MANY):
        check_fold(seed, tmp_path)


def test_a_weight_beside_a_large_bias_is_seen(tmp_path: Path) -> None:
    """In samples the bias hides it: the numbers of the output are 1e-8 of themselves apart."""
    kernel, bias = np.full((2, 2, 1, 1), 0.5, "f"), np.full(2, 1e4, "f")
    norm = {
        "s": np.ones(2, "f"),
        "b": np.zeros(2, "f"),
        "m": np.zeros(2, "f"),
        "v": np.full(2, 0.25, "f"),
    }
    nodes = [("Conv", "x w f", "c", {}), ("BatchNormalization", "c s b m v", "y", {"epsilon": 0.0})]
    moved = kernel * 2
    moved[1, 0] *= np.float32(1.001)
    weights = {"w": kernel, "f": bias, **norm}
    original = build(nodes, weights, [1, 2, 4, 4])
    rewrite = build([("Conv", "x w f", "y", {})], {"w": moved, "f": bias * 2}, [1, 2, 4, 4])
    report = compare(tmp_path, original, rewrite)
    assert report.outcome == "not equal"
    details = [
        detail
        for _, stage in report.list_stages("fails")
        if stage.name == "weights"
        for detail in stage.details
    ]
    assert details[0].startswith("y: weight 'w' is ")
    assert details[0].endswith("steps of float32 from that of the original at [1, 0, 0, 0]")


def fold_product(
    rows: int, columns: int, layout: str
) -> tuple[onnx.ModelProto, onnx.ModelProto, Array]:
    """Return a Gemm with a norm behind it, a product that does both as one side stores it, and the
    matrix of that one.
    """
    random = np.random.default_rng(rows)
    kernel = random.standard_normal((rows, columns), np.float32)
    norm = {name: random.uniform(0.5, 1.5, rows).astype("f") for name in "sbmv"}
    scale = norm["s"] / np.sqrt(norm["v"] + 1e-5)
    nodes = [("Gemm", "x w f", "c", {"transB": 1}), ("BatchNormalization", "c s b m v", "y", {})]
    original = build(nodes, {"w": kernel, "f": np.zeros(rows, "f"), **norm}, [1, columns])
    joined, bias = kernel * scale[:, None], norm["b"] - norm["m"] * scale
    matrix = joined if layout == "rows" else np.ascontiguousarray(joined.T)
    folded: list[Node] = [("Gemm", "x w f", "y", {"transB": 1})]
    if layout == "columns":
        folded = [("MatMul", "x w", "c", {}), ("Add", "c f", "y", {})]
    return original, build(folded, {"w": matrix, "f": bias}, [1, columns]), matrix


@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("tile", [1 << 17, 1 << 24])
def test_a_weight_is_named_by_its_place_in_the_file(
    layout: str, tile: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Matrices are compared in blocks, of rows alone or, where one side stores the other order, of rows and columns."""
    monkeypatch.setattr(affine_values, "_TILE", tile)
    original, rewrite, matrix = fold_product(600, 700, layout)
    assert compare(tmp_path, original, rewrite).rung == "by weights"
    moved = matrix.copy()
    moved[533, 571] *= np.float32(1.001)
    next(each for each in rewrite.graph.initializer if each.name == "w").CopyFrom(
        numpy_helper.from_array(moved, "w")
    )
    report = compare(tmp_path, original, rewrite)
    assert report.outcome == "not equal"
    details = [
        detail
        for _, stage in report.list_stages("fails")
        if stage.name == "weights"
        for detail in stage.details
    ]
    assert details[0].endswith("steps of float32 from that of the original at [533, 571]")


@pytest.mark.large
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_a_region_takes_little_memory_beside_its_weights(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two matrices of 24 MiB are compared in blocks, so that the size of a matrix does not count."""
    monkeypatch.setattr(affine_values, "_TILE", 1 << 19)
    paths = [tmp_path / "original.onnx", tmp_path / "rewrite.onnx"]
    for path, model in zip(paths, fold_product(512, 12544, layout)[:2], strict=True):
        onnx.save(model, path)
    weigh, peaks = Weigher.weigh, list[int]()

    def weigh_traced(weigher: Weigher, cone: Cone) -> Weighing | None:
        tracemalloc.start()
        try:
            return weigh(weigher, cone)
        finally:
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()

    monkeypatch.setattr(Weigher, "weigh", weigh_traced)
    assert gs.compare(*paths).rung == "by weights"
    assert 1 << 20 < max(peaks) < 16 << 20


@pytest.mark.parametrize(
    ("attributes", "is_equal"),
    [
        ({"pads": [1, 1, 1, 1]}, True),
        ({"pads": [0, 0, 2, 2]}, False),
        ({"pads": [1, 1, 1, 1], "dilations": [1, 1]}, True),
    ],
)
def test_a_window_is_part_of_the_operator(
    attributes: Mapping[str, Any], is_equal: bool, tmp_path: Path
) -> None:
    fold = make_fold(2)
    (op, inputs, output, window), last = fold.folded
    other = build([(op, inputs, output, {**window, **attributes}), last], fold.joined, fold.shape)
    report = compare(tmp_path, fold.build()[0], other)
    assert (report.rung == "by weights") is is_equal
    assert bool(report) is is_equal


def test_channels_that_are_exchanged_are_named(tmp_path: Path) -> None:
    fold = make_fold(2)
    kernel = fold.joined["w"][[1, 0, *range(2, len(fold.joined["w"]))]]
    assert compare(tmp_path, *fold.build({**fold.joined, "w": kernel})).outcome == "not equal"


FUSED: Mapping[str, tuple[Sequence[Node], Sequence[Node]]] = {
    "FusedConv": (
        [("Conv", "x k f", "c", {}), ("Relu", "c", "y", {})],
        [("FusedConv", "x k f", "y", {"activation": "Relu"})],
    ),
    "FusedConv with parameters": (
        [("Conv", "x k", "c", {}), ("LeakyRelu", "c", "y", {"alpha": 0.25})],
        [("FusedConv", "x k", "y", {"activation": "LeakyRelu", "activation_params": [0.25]})],
    ),
    "QuickGelu": (
        [("Mul", "x t", "a", {}), ("Sigmoid", "a", "b", {}), ("Mul", "x b", "y", {})],
        [("QuickGelu", "x", "y", {"alpha": 1.5})],
    ),
    "FusedMatMul": (
        [("MatMul", "x x", "a", {}), ("Mul", "a t", "y", {})],
        [("FusedMatMul", "x x", "y", {"alpha": 1.5})],
    ),
}


@pytest.mark.parametrize("name", FUSED)
def test_fused_operators_are_compared_by_their_definitions(name: str, tmp_path: Path) -> None:
    """They are never exact: a fused operator rounds in another way."""
    rng = np.random.default_rng(0)
    weights = {
        "k": rng.standard_normal((3, 2, 2, 2)).astype("f"),
        "f": np.ones(3, "f"),
        "t": np.array(1.5, "f"),
    }
    models = [build(nodes, weights, [1, 2, 4, 4], domain="com.microsoft") for nodes in FUSED[name]]
    report = compare(tmp_path, *models)
    assert report.rung == "by weights", report.verdict
    assert "1 fused operator by definition" in report.verdict
    op, inputs, output, values = FUSED[name][1][0]
    wrong = {
        key: "Sigmoid"
        if value == "Relu"
        else [0.5]
        if value == [0.25]
        else 1.25
        if value == 1.5
        else value
        for key, value in values.items()
    }
    other = build([(op, inputs, output, wrong)], weights, [1, 2, 4, 4], domain="com.microsoft")
    assert compare(tmp_path, models[0], other).outcome == "not equal"


STANDARD: Mapping[str, tuple[int, Node, Sequence[Node]]] = {
    "Mish": (
        18,
        ("Mish", "x", "y", {}),
        [("Softplus", "x", "a", {}), ("Tanh", "a", "b", {}), ("Mul", "x b", "y", {})],
    ),
    "Softsign": (
        18,
        ("Softsign", "x", "y", {}),
        [("Abs", "x", "a", {}), ("Add", "one a", "b", {}), ("Div", "x b", "y", {})],
    ),
    "Celu": (
        18,
        ("Celu", "x", "y", {"alpha": 0.5}),
        [("Div", "x half", "a", {}), ("Elu", "a", "b", {"alpha": 1.0}), ("Mul", "half b", "y", {})],
    ),
    "Swish": (
        24,
        ("Swish", "x", "y", {}),
        [("Mul", "one x", "a", {}), ("Sigmoid", "a", "b", {}), ("Mul", "x b", "y", {})],
    ),
    "ReduceL2": (
        18,
        ("ReduceL2", "x last", "y", {"keepdims": 0}),
        [
            ("Mul", "x x", "a", {}),
            ("ReduceSum", "a last", "b", {"keepdims": 0}),
            ("Sqrt", "b", "y", {}),
        ],
    ),
}
"""Operators by the definitions of ONNX's standard: the operator set, the operator and what it stands for."""


@pytest.mark.parametrize("name", STANDARD)
def test_operators_of_the_standard_are_compared_by_its_definitions(
    name: str, tmp_path: Path
) -> None:
    opset, node, nodes = STANDARD[name]
    if opset > onnx.defs.onnx_opset_version():
        assert name == "Swish"  # of a later operator set than this version of ONNX has
        return
    constants = {
        "one": np.array(1, "f"),
        "half": np.array(0.5, "f"),
        "last": np.array([-1], np.int64),
    }
    ours, theirs = (build(each, constants, [2, 3, 4], opset=opset) for each in ([node], nodes))
    report = compare(tmp_path, ours, theirs)
    assert report.rung == "by weights", report.verdict
    assert "1 fused operator by definition" in report.verdict
    assert compare(tmp_path, ours, theirs, exact=True).outcome == "not proved"
    others = {
        "one": np.array(1.25, "f"),
        "half": np.array(0.75, "f"),
        "last": np.array([1], np.int64),
    }
    wrong = build(nodes, others, [2, 3, 4], opset=opset)
    assert name == "Mish" or compare(tmp_path, ours, wrong).outcome == "not equal"


def test_an_operator_that_is_not_what_the_standard_makes_of_it_stays(tmp_path: Path) -> None:
    """The other model has none of the operators of the definition, so that it would only be harder to read."""
    ours = build([("Softsign", "x", "y", {})], {}, [2, 3])
    theirs = build([("Relu", "x", "y", {})], {}, [2, 3])
    report = compare(tmp_path, ours, theirs)
    assert report.outcome == "not equal"
    assert [str(node) for node in report.branches[0].regions[0].regions[0].nodes] == [
        "Softsign 'y'"
    ]


def moving(size: int) -> Sequence[Node]:
    return [
        ("Reshape", "x r", "a", {}),
        ("Transpose", "a", "b", {"perm": [0, 2, 1]}),
        ("Reshape", "b q", "y", {}),
    ]


@pytest.mark.parametrize("dtype", ["FLOAT", "DOUBLE", "FLOAT16", "BOOL"])
@pytest.mark.parametrize("size", [6, 4098])
def test_movement_is_decided_by_labels(size: int, dtype: str, tmp_path: Path) -> None:
    """Types with few numbers take several runs: of booleans each run has one binary digit of the labels."""
    columns = size // 2
    index = np.arange(size).reshape(2, columns).T.reshape(-1)
    shapes = {"r": np.array([1, 2, columns]), "q": np.array([1, size]), "i": index}

    def build_typed(nodes: Sequence[Node], constants: Mapping[str, Array]) -> onnx.ModelProto:
        model = build(nodes, constants, [1, size])
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.elem_type = getattr(onnx.TensorProto, dtype)
        return model

    original, gathered = (
        build_typed(moving(size), shapes),
        build_typed([("Gather", "x i", "y", {"axis": 1})], shapes),
    )
    report = compare(tmp_path, original, gathered)
    assert report.rung == "by weights", report.verdict
    for place in (1, size // 2, size - 3):
        swapped = index.copy()
        swapped[[place, place + 1]] = swapped[[place + 1, place]]
        other = build_typed([("Gather", "x i", "y", {"axis": 1})], {**shapes, "i": swapped})
        report = compare(tmp_path, original, other)
        assert report.rung != "by weights"
        assert report.outcome == "not equal", report.verdict


@pytest.mark.parametrize("stride", [4, 8, 16, 32])
def test_an_exchange_of_axes_behind_a_stride_is_found(stride: int, tmp_path: Path) -> None:
    """Of a small size a stride leaves 1, and an axis of 1 may stand anywhere."""
    pool = ("MaxPool", "x", "p", {"kernel_shape": [stride], "strides": [stride]})
    flat = {"q": np.array([0, -1], np.int64)}
    exchanged = build(
        [pool, ("Transpose", "p", "t", {"perm": [0, 2, 1]}), ("Reshape", "t q", "y", {})],
        flat,
        ["N", 3, "W"],
    )
    kept = build([pool, ("Reshape", "p q", "y", {})], flat, ["N", 3, "W"])
    assert compare(tmp_path, exchanged, kept).outcome == "not equal"


def test_samples_alone_are_not_enough_for_by_weights(tmp_path: Path) -> None:
    """x * x and |x|^2 are one function that no rule knows."""
    square = build([("Mul", "x x", "y", {})], {}, [1, 4])
    power = build(
        [("Abs", "x", "a", {}), ("Pow", "a two", "y", {})], {"two": np.array(2, "f")}, [1, 4]
    )
    assert compare(tmp_path, square, power).rung == "on 1 input"
    report = compare(tmp_path, square, power, by_weights=True)
    assert report.verdict == "NOT PROVED: the values are equal, but not by weights for every input"
    with pytest.raises(UsageError, match="`exact` accepts less than `by_weights`"):
        gs.compare(
            tmp_path / "original.onnx", tmp_path / "rewrite.onnx", exact=True, by_weights=True
        )


def test_the_command_says_what_decides(tmp_path: Path) -> None:
    for path, model in zip(("a.onnx", "b.onnx"), make_fold(2).build(), strict=True):
        onnx.save(model, tmp_path / path)
    words = [
        sys.executable,
        "-m",
        "graphshare",
        "compare",
        "a.onnx",
        "b.onnx",
        "--by-weights",
        "--format",
        "json",
    ]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    assert (done.returncode, report["rung"]) == (0, "by weights")
    (region,) = report["branches"][0]["regions"][0]["regions"]
    assert 0 <= region["steps"] <= LIMIT
    assert region["unlike"] == ""


def test_precisions_are_compared_in_steps_of_the_coarser_one(tmp_path: Path) -> None:
    fold = make_fold(2)
    original, _ = fold.build()
    onnx.save(original, tmp_path / "wide.onnx")
    weights = {name: array.astype(np.float16) for name, array in fold.joined.items()}
    narrow = build(fold.folded, weights, fold.shape)
    for value in (*narrow.graph.input, *narrow.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    report = compare(tmp_path, original, narrow)
    assert report, report.verdict
    assert report.rung == "by weights"


def make_chain(seed: int) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Make layers of MatMul, Add and Relu, and a rewrite by Gemm whose inner names are exchanged."""
    rng = np.random.default_rng(seed)
    count, width = 6, 4
    weights = {f"w{i}": rng.standard_normal((width, width)).astype("f") for i in range(count)}
    weights |= {f"b{i}": rng.standard_normal(width).astype("f") for i in range(count)}
    before: list[Node] = []
    after: list[Node] = []
    value = "x"
    for i in range(count):
        before += [
            ("MatMul", f"{value} w{i}", f"m{i}", {}),
            ("Add", f"m{i} b{i}", f"a{i}", {}),
            ("Relu", f"a{i}", f"r{i}", {}),
        ]
        after += [("Gemm", f"{value} w{i} b{i}", f"a{i}", {}), ("Relu", f"a{i}", f"r{i}", {})]
        value = f"r{i}"
    last = ("Exp", value, "y", {})
    inner = [output for _, _, output, _ in after]
    names = dict(zip(inner, rng.permutation(inner), strict=True))
    renamed = [
        (
            op,
            " ".join(str(names.get(name, name)) for name in inputs.split()),
            str(names.get(output, output)),
            values,
        )
        for op, inputs, output, values in (*after, last)
    ]
    return build([*before, last], weights, [1, width]), build(renamed, weights, [1, width])


@pytest.mark.parametrize("seed", range(12))
def test_names_that_are_exchanged_make_no_difference(seed: int, tmp_path: Path) -> None:
    """A name that was found to stand for another value is not taken again for the one that a run has refuted."""
    original, rewrite = make_chain(seed)
    for pair in ((original, rewrite), (rewrite, original)):
        report = compare(tmp_path, *pair)
        assert report.outcome == "equal", report.verdict
        assert not any(
            region.reason for each in report.branches[0].regions for region in each.regions
        )


def make_tiny(seed: int) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Make models whose channels are tiny or not, with factors behind them that differ or not."""
    rng, step = np.random.default_rng(seed), np.finfo("f").smallest_subnormal
    sides = []
    weight, factor = rng.uniform(1, 2, (4, 3)), np.full(3, 1e10)
    is_tiny = rng.random(3) < 0.5
    for _ in range(2):
        own = np.where(is_tiny, step * rng.integers(0, 4), weight)
        changed = np.where(is_tiny & (rng.random(3) < 0.5), 1.1, 1.0)
        weights = {"w": own.astype("f"), "s": (factor * changed).astype("f")}
        sides.append(build([("MatMul", "x w", "h", {}), ("Mul", "h s", "y", {})], weights, (2, 4)))
    return sides[0], sides[1]


@pytest.mark.parametrize("seed", range(12))
def test_what_follows_tiny_weights_is_judged_alike_in_both_orders(
    seed: int, tmp_path: Path
) -> None:
    report = compare(tmp_path, *make_tiny(seed))  # which compares both orders
    assert report.outcome in ("equal", "not equal")


def test_tiny_weights_are_judged_from_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Weigher, "weigh", lambda self, cone: self._compare(cone, 0))
    unlike = []
    for seed in range(12):
        try:
            compare(tmp_path, *make_tiny(seed))
        except AssertionError:
            unlike.append(seed)
    assert unlike


def test_shapes_that_do_not_broadcast_or_are_too_large_have_no_scale() -> None:
    """A body that no run reaches may have any."""
    assert affine_values.fits((4,), (1, 1), (4,))
    assert not affine_values.fits((4,), (5,))
    assert not affine_values.fits((1 << 20, 1), (1, 1 << 20))


def test_one_number_is_not_a_list_of_it(tmp_path: Path) -> None:
    """Of an array of one element a list makes an array of more."""
    one = build(
        [("Mul", "x two", "m", {}), ("ReduceMax", "m", "y", {})], {"two": np.array(2, "f")}, [1, 1]
    )
    more = build(
        [("Mul", "x two", "m", {}), ("ReduceMax", "m", "y", {})],
        {"two": np.full(3, 2, "f")},
        [1, 1],
    )
    assert compare(tmp_path, one, more).rung != "by weights"


def equalized(scale: float, back: float) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Two convolutions around a Relu, and the same with a channel of the first scaled and that of
    the second divided.
    """
    rng = np.random.default_rng(3)
    first, second = (
        rng.standard_normal((3, 2, 1, 1)).astype("f"),
        rng.standard_normal((2, 3, 1, 1)).astype("f"),
    )
    nodes = [("Conv", "x k", "c", {}), ("Relu", "c", "r", {}), ("Conv", "r l", "y", {})]
    scaled, divided = first.copy(), second.copy()
    scaled[1] *= np.float32(scale)
    divided[:, 1] *= np.float32(back)
    pairs = ({"k": first, "l": second}, {"k": scaled, "l": divided})
    return build(nodes, pairs[0], [1, 2, 3, 3]), build(nodes, pairs[1], [1, 2, 3, 3])


@pytest.mark.parametrize("scale", [1.0001, 1.5, 2.0, 8.0])
def test_two_differences_that_make_up_for_each_other_are_no_fault(
    scale: float, tmp_path: Path
) -> None:
    """Equalization before quantization scales weights in front of a Relu and divides those behind it."""
    assert compare(tmp_path, *equalized(scale, 1 / scale)).outcome != "not equal"
    assert compare(tmp_path, *equalized(scale, 1.0)).outcome == "not equal"


@pytest.mark.parametrize("share", [1e-6, 1e-4, 1e-3])
@pytest.mark.parametrize("seed", range(3))
def test_a_fault_is_not_explained_by_a_reader_that_shrinks_it(
    share: float, seed: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    kernel, scale, shift = (
        rng.standard_normal(shape).astype("f") for shape in ((4, 3, 3, 3), 4, 4)
    )
    scale[1], shift[1] = 1e-3, -1.5  # there a HardSwish hides each difference
    swish = [("HardSigmoid", "n", "s", {"alpha": 1 / 6}), ("Mul", "n s", "y", {})]
    other = [("HardSigmoid", "n", "t", {"alpha": 0.16666668}), ("Mul", "n t", "y", {})]
    statistics = {"a": scale, "b": shift, "m": np.zeros(4, "f"), "v": np.ones(4, "f")}
    plain = build(
        [("Conv", "x w", "c", {}), ("BatchNormalization", "c a b m v", "n", {}), *swish],
        {"w": kernel, **statistics},
        [1, 3, 8, 8],
    )
    moved = shift.copy()
    moved[1] += share * 4
    factor = scale / np.sqrt(np.float32(1 + 1e-5))
    folded = {"w": kernel * factor.reshape(-1, 1, 1, 1), "f": moved}
    report = compare(
        tmp_path, plain, build([("Conv", "x w f", "n", {}), *other], folded, [1, 3, 8, 8])
    )
    assert report.outcome == "not equal", report.verdict
    assert "bias 'f' is" in "\n".join(
        detail for _, stage in report.list_stages("fails") for detail in stage.details
    )


@pytest.mark.parametrize("is_folded_by_rows", [True, False])
def test_a_norm_of_rows_is_not_folded_into_columns(is_folded_by_rows: bool, tmp_path: Path) -> None:
    """A product of three axes has its channels along the last one, and BatchNormalization works on the second one."""
    rng = np.random.default_rng(0)
    kernel, scale, shift = (rng.standard_normal(shape).astype("f") for shape in ((5, 4), 4, 4))
    statistics = {"a": scale, "b": shift, "m": np.zeros(4, "f"), "v": np.ones(4, "f")}
    nodes = [("MatMul", "x w", "h", {}), ("BatchNormalization", "h a b m v", "y", {"epsilon": 0.0})]
    plain = build(nodes, {"w": kernel, **statistics}, [2, 4, 5])
    columns = {"w": kernel * scale, "c": shift}
    rows = {"w": kernel, "s": scale.reshape(4, 1), "c": shift.reshape(4, 1)}
    after = [("MatMul", "x w", "h", {}), ("Mul", "h s", "g", {}), ("Add", "g c", "y", {})]
    if is_folded_by_rows:
        assert compare(tmp_path, plain, build(after, rows, [2, 4, 5])).rung == "by weights"
        return
    folded = build([("MatMul", "x w", "h", {}), ("Add", "h c", "y", {})], columns, [2, 4, 5])
    assert compare(tmp_path, plain, folded).outcome == "not equal"


def reshaped(back: Sequence[int], *, rows: int = -1) -> tuple[Sequence[Node], Mapping[str, Array]]:
    """Return a product of rows by Gemm, between two Reshapes."""
    nodes = [
        ("Reshape", "x p", "r", {}),
        ("Gemm", "r w c", "g", {"transB": 1}),
        ("Reshape", "g q", "y", {}),
    ]
    return nodes, {"p": np.array([rows, 5], np.int64), "q": np.array(back, np.int64)}


@pytest.mark.parametrize("shape", [[2, 3, 5], ["N", 3, 5], ["N", 5], [2, 1, 3, 5]])
def test_a_product_is_one_in_every_shape_of_its_rows(
    shape: Sequence[int | str], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    kernel, bias = rng.standard_normal((5, 4)).astype("f"), rng.standard_normal(4).astype("f")
    plain = build(
        [("MatMul", "x w", "h", {}), ("Add", "h c", "y", {})], {"w": kernel, "c": bias}, shape
    )
    back = [-1 if isinstance(size, str) else size for size in shape[:-1]]
    nodes, sizes = reshaped([*back, 4])

    def compare_with(kernel: Array, bias: Array, sizes: Mapping[str, Array] = sizes) -> Report:
        transposed = np.ascontiguousarray(kernel.T)
        return compare(tmp_path, plain, build(nodes, {"w": transposed, "c": bias, **sizes}, shape))

    report = compare_with(kernel, bias)
    assert report.rung == "by weights", report.verdict
    for index in ((0, 0), (4, 3)):
        moved = kernel.copy()
        moved[index] *= np.float32(1 + 1e-5)
        assert compare_with(moved, bias).rung != "by weights"
    assert compare_with(kernel, bias * np.float32(1 + 1e-5)).rung != "by weights"
    assert compare_with(kernel[:, [1, 0, 2, 3]], bias).outcome == "not equal"
    if len(shape) > 2:  # the same numbers in another shape
        assert compare_with(kernel, bias, reshaped([-1, 2, 2])[1]).outcome == "not equal"


def test_a_norm_of_other_rows_is_not_taken_for_one_of_columns(tmp_path: Path) -> None:
    """BatchNormalization works on the second axis, which a Reshape has made another one."""
    rng = np.random.default_rng(0)
    kernel = rng.standard_normal((5, 4)).astype("f")
    statistics = {
        "a": np.arange(1, 5, dtype="f"),
        "b": np.arange(4, dtype="f"),
        "m": np.zeros(4, "f"),
        "v": np.ones(4, "f"),
    }
    norm = {"epsilon": 0.0}
    plain = build(
        [("MatMul", "x w", "h", {}), ("BatchNormalization", "h a b m v", "y", norm)],
        {"w": kernel, **statistics},
        [8, 5],
    )
    nodes = [
        ("MatMul", "x w", "h", {}),
        ("Reshape", "h p", "r", {}),
        ("BatchNormalization", "r a b m v", "n", norm),
        ("Reshape", "n q", "y", {}),
    ]
    sizes = {"p": np.array([2, 4, 4], np.int64), "q": np.array([8, 4], np.int64)}
    report = compare(tmp_path, plain, build(nodes, {"w": kernel, **statistics, **sizes}, [8, 5]))
    assert "regions of the other model" in report.verdict


@pytest.mark.parametrize("op", ["Softmax", "MatMul", "Relu"])
def test_what_reads_another_shape_is_another_value(op: str, tmp_path: Path) -> None:
    """Rows of another length have other sums; a Relu looks at each number alone."""
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((5, 4)).astype("f"),
        "u": np.eye(4, dtype="f")[::-1].copy(),
    }
    sizes = {
        "p": np.array([4, 8], np.int64),
        "q": np.array([8, 4], np.int64),
        "u": np.eye(8, dtype="f")[::-1].copy(),
    }
    inputs = "{} u" if op == "MatMul" else "{}"
    plain = build(
        [("MatMul", "x w", "h", {}), (op, inputs.format("h"), "y", {})], constants, [8, 5]
    )
    nodes = [
        ("MatMul", "x w", "k", {}),
        ("Reshape", "k p", "r", {}),
        (op, inputs.format("r"), "s", {}),
        ("Reshape", "s q", "y", {}),
    ]
    report = compare(tmp_path, plain, build(nodes, {**constants, **sizes}, [8, 5]))
    assert (report.outcome == "equal") == (op == "Relu")
    assert op == "Relu" or "regions of the other model" in report.verdict


def test_transposed_convolutions_are_compared_by_output_channels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for group in (1, 2, 4):
        kernel, scale = (
            rng.standard_normal((8, 3, 3, 3)).astype("f"),
            rng.standard_normal(3 * group).astype("f"),
        )
        nodes = [("ConvTranspose", "x w", "h", {"group": group}), ("Mul", "h s", "y", {})]
        plain = build(nodes, {"w": kernel, "s": scale.reshape(-1, 1, 1)}, [1, 8, 5, 5])
        factors = np.repeat(scale.reshape(group, 1, 3, 1, 1), 8 // group, axis=1).reshape(
            8, 3, 1, 1
        )
        for share, outcome in ((0.0, "equal"), (1e-5, "not equal")):
            moved = kernel * factors
            moved[7, 2] *= np.float32(1 + share)
            folded = build(
                [("ConvTranspose", "x w", "y", {"group": group})], {"w": moved}, [1, 8, 5, 5]
            )
            report = compare(tmp_path, plain, folded)
            assert report.outcome == outcome, (group, report.verdict)
            assert share or report.rung == "by weights"


@pytest.mark.parametrize("exact", [False, True])
def test_arrays_in_the_place_of_those_of_the_file_are_compared(exact: bool, tmp_path: Path) -> None:
    """A Relu hides the difference on drawn inputs, and the file has the old array."""
    onnx.save(
        build(
            [("Sub", "x c", "s", {}), ("Relu", "s", "y", {})], {"c": np.array([1, 70], "f")}, [1, 2]
        ),
        tmp_path / "m.onnx",
    )
    model = gs.load(tmp_path / "m.onnx")
    other = model.with_params({"c": np.array([1, 60], "f")})
    for pair in ((model, other), (other, model)):
        report = gs.compare(*pair, exact=exact)
        assert report.outcome != "equal", report.verdict
    assert (
        gs.compare(other, model.with_params({"c": np.array([1, 60], "f")}), exact=exact).rung
        == "exact"
    )


@pytest.mark.parametrize("order", [(2, 4), (4, 2)])
def test_branches_of_unlike_widths_are_told_apart(order: Sequence[int], tmp_path: Path) -> None:
    """Products of one value differ in the number of their columns, and so do their biases."""
    rng = np.random.default_rng(0)
    kernels = {f"w{width}": rng.standard_normal((3, width)).astype("f") for width in order}
    biases = {f"b{width}": rng.standard_normal(width).astype("f") for width in order}
    plain = [
        step
        for n in order
        for step in (("MatMul", f"x w{n}", f"m{n}", {}), ("Add", f"m{n} b{n}", f"a{n}", {}))
    ]
    fused = [("Gemm", f"x w{n} b{n}", f"a{n}", {}) for n in reversed(order)]
    last = ("Concat", " ".join(f"a{n}" for n in order), "y", {"axis": 1})
    models = [build([*nodes, last], {**kernels, **biases}, [2, 3]) for nodes in (plain, fused)]
    assert compare(tmp_path, *models).rung == "by weights"


def test_branches_with_nearly_equal_weights_are_told_apart(tmp_path: Path) -> None:
    kernel = np.random.default_rng(5).standard_normal((3, 2, 1, 1)).astype("f")
    near = np.nextafter(kernel, np.float32(9))
    weights = {
        "k": kernel,
        "l": near,
        "s": np.full((3, 1, 1), 2, "f"),
        "m": kernel * 2,
        "n": near * 2,
    }
    pair = [
        ("Conv", "x k", "c", {}),
        ("Mul", "c s", "p", {}),
        ("Conv", "x l", "d", {}),
        ("Mul", "d s", "q", {}),
    ]
    last = ("Div", "p q", "y", {})
    folded = [("Conv", "x m", "p", {}), ("Conv", "x n", "q", {}), last]
    report = compare(
        tmp_path, build([*pair, last], weights, [1, 2, 3, 3]), build(folded, weights, [1, 2, 3, 3])
    )
    assert report.rung == "by weights", report.verdict


def test_labels_do_not_pass_a_cast(tmp_path: Path) -> None:
    """All labels are true as booleans, wherever they go."""
    shapes = {"r": np.array([2, 2])}
    turned = [
        ("Reshape", "x r", "a", {}),
        ("Cast", "a", "b", {"to": 9}),
        ("Transpose", "b", "t", {}),
        ("Cast", "t", "y", {"to": 1}),
    ]
    plain = [
        ("Reshape", "x r", "a", {}),
        ("Cast", "a", "t", {"to": 9}),
        ("Cast", "t", "y", {"to": 1}),
    ]
    report = compare(tmp_path, build(turned, shapes, [1, 4]), build(plain, shapes, [1, 4]))
    assert report.rung != "by weights", report.verdict


@pytest.mark.parametrize("stated", [{}, {"epsilon": 0.5}])
def test_the_definition_of_a_skip_has_the_default_of_its_operator(
    stated: Mapping[str, float], tmp_path: Path
) -> None:
    """An epsilon of 1e-5 would show on numbers as small as these."""
    weights = {"g": np.ones(4, "f"), "b": np.zeros(4, "f"), "small": np.array(1e-4, "f")}
    fused = [("Mul", "x small", "m", {}), ("SkipLayerNormalization", "m m g b", "y", dict(stated))]
    epsilon = stated.get("epsilon", 1e-12)
    plain = [
        ("Mul", "x small", "m", {}),
        ("Add", "m m", "s", {}),
        ("LayerNormalization", "s g b", "y", {"axis": -1, "epsilon": epsilon}),
    ]
    models = [build(nodes, weights, [1, 2, 4], domain="com.microsoft") for nodes in (plain, fused)]
    report = compare(tmp_path, *models)
    assert report.rung == "by weights", report.verdict


_ODD_VALUES = (0, -1, 1 << 40, 0.0, float("nan"), b"\xff\xfe", "Relu", [1], [1.5], [1 << 62] * 3)
_NAMES = (
    "activation",
    "activation_params",
    "pads",
    "alpha",
    "epsilon",
    "axis",
    "transB",
    "stash_type",
)


_DEFINED = (
    "Attention",
    "CenterCropPad",
    "Gelu",
    "GroupNormalization",
    "LogSoftmax",
    "ReduceL2",
    "Shrink",
)


@pytest.mark.parametrize(
    "op",
    ["Conv", "Gemm", "BatchNormalization", *(op for _, op in definitions._DEFINITIONS), *_DEFINED],
)
def test_odd_operands_and_attributes_end_nothing(op: str, tmp_path: Path) -> None:
    """Before a model is opened its fused operators have given way: whatever they state is refused or judged."""
    rng = Random(op)
    tensors = {"w": np.ones((), "f"), "v": np.ones((2, 2), "f"), "u": np.ones((3, 1, 1), "f")}
    outcomes = set()
    for _ in range(25):
        operands = " ".join(
            ["x", *rng.choices(("w", "v", "u", "x"), k=rng.randrange(5))][: rng.randrange(1, 6)]
        )
        values = {name: rng.choice(_ODD_VALUES) for name in rng.sample(_NAMES, rng.randrange(3))}
        domain = "com.microsoft" if (definitions.FUSED, op) in definitions._DEFINITIONS else ""
        odd = helper.make_node(op, operands.split(), ["y"], domain=domain, **values)
        for name, node in (("a", odd), ("b", helper.make_node("Neg", ["x"], ["y"]))):
            ends = (
                [helper.make_tensor_value_info("x", 1, [2, 2])],
                [helper.make_tensor_value_info("y", 1, None)],
            )
            graph = helper.make_graph(
                [node], "g", *ends, [numpy_helper.from_array(a, n) for n, a in tensors.items()]
            )
            opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
            onnx.save(
                helper.make_model(graph, opset_imports=opsets, ir_version=8),
                tmp_path / f"{name}.onnx",
            )
        try:
            outcomes.add(gs.compare(tmp_path / "a.onnx", tmp_path / "b.onnx").outcome)
        except BugError:
            raise
        except GraphshareError:
            outcomes.add("refused")
    assert outcomes <= {"refused", "not equal", "not proved", "not judged"}


@pytest.mark.parametrize("share", [1.0, 1.01])
def test_one_channel_that_is_made_several_is_compared(share: float, tmp_path: Path) -> None:
    """A convolution to one channel times five numbers has five channels, which its weights have not."""
    kernel, scale = np.full((1, 2, 1, 1), 0.75, "f"), np.arange(1, 6, dtype="f").reshape(5, 1, 1)
    one, other = (
        build(
            [("Conv", "x w", name, {}), ("Mul", f"{name} s", "y", {})],
            {"w": kernel * factor, "s": numbers},
            [1, 2, 3, 3],
        )
        for name, factor, numbers in (("h", 1, scale), ("k", 3, scale / 3 * np.float32(share)))
    )
    assert compare(tmp_path, one, other).outcome == ("equal" if share == 1 else "not equal")


def test_an_axis_more_is_another_rank(tmp_path: Path) -> None:
    """A vector times a matrix is a vector, and a matrix of one row that is added makes one of it."""
    constants = {
        "w": np.eye(3, dtype="f") * 2,
        "c": np.arange(3, dtype="f"),
        "d": np.arange(3, dtype="f").reshape(1, 3),
    }
    vector, matrix = (
        build([("MatMul", "x w", "h", {}), ("Add", f"h {name}", "y", {})], constants, [3])
        for name in ("c", "d")
    )
    report = compare(tmp_path, vector, matrix)
    assert report.outcome == "not equal"
    assert not any(region.steps for each in report.branches[0].regions for region in each.regions)


@pytest.mark.parametrize("shape", [(), (1,), (1, 4), (4,)])
def test_zeros_that_are_added_are_no_step(shape: Sequence[int], tmp_path: Path) -> None:
    """The verdict was another one when the model with the zeros came first."""
    rng = np.random.default_rng(0)
    kernel, scale = rng.standard_normal((3, 4)).astype("f"), np.full(4, 4, "f")
    plain = build(
        [("MatMul", "x w", "h", {}), ("Div", "h s", "y", {})], {"w": kernel, "s": scale}, [2, 3]
    )
    nodes = [("MatMul", "x w", "h", {}), ("Mul", "h s", "m", {}), ("Add", "m z", "y", {})]
    added = build(nodes, {"w": kernel, "s": 1 / scale, "z": np.zeros(shape, "f")}, [2, 3])
    assert compare(tmp_path, plain, added).rung == "by weights"


@pytest.mark.parametrize("shape", [(4,), (1, 4), (1, 1, 4), (1, 1, 1, 4)])
@pytest.mark.parametrize("is_moved", [False, True])
def test_channels_of_the_last_axis_are_those_of_any_rank(
    shape: Sequence[int], is_moved: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    kernel, scale, shift = (rng.standard_normal(sizes).astype("f") for sizes in ((3, 4), 4, 4))
    nodes = [("MatMul", "x w", "h", {}), ("Mul", "h s", "m", {}), ("Add", "m c", "y", {})]
    plain = build(
        nodes, {"w": kernel, "s": scale.reshape(shape), "c": shift.reshape(shape)}, ["N", 2, 5, 3]
    )
    joined = {"w": kernel * scale, "c": shift * np.float32(1 + 1e-5) if is_moved else shift}
    folded = build([("MatMul", "x w", "k", {}), ("Add", "k c", "y", {})], joined, ["N", 2, 5, 3])
    report = compare(tmp_path, plain, folded)
    assert (report.outcome == "not equal") if is_moved else (report.rung == "by weights"), (
        report.verdict
    )


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1), (1, 1, 1, 1)])
@pytest.mark.parametrize("share", [1, 1 + 1e-5])
def test_a_factor_before_a_convolution_is_one_of_its_weights(
    shape: Sequence[int], share: float, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    kernel, bias, factor = (
        rng.standard_normal((3, 2, 3, 3)).astype("f"),
        rng.standard_normal(3).astype("f"),
        np.float32(0.37),
    )
    nodes = [
        ("Mul", "x h", "m", {}),
        ("Conv", "m w", "c", {}),
        ("Add", "c b", "a", {}),
        ("Relu", "a", "y", {}),
    ]
    constants = {"h": np.full(shape, factor), "w": kernel, "b": bias.reshape(3, 1, 1)}
    original = build(nodes, constants, ["N", 2, 8, 8])
    joined = {"w": kernel * factor * np.float32(share), "b": bias}
    folded = build([("Conv", "x w b", "a", {}), ("Relu", "a", "y", {})], joined, ["N", 2, 8, 8])
    report = compare(tmp_path, original, folded)
    assert (report.rung == "by weights") if share == 1 else (report.outcome == "not equal"), (
        report.verdict
    )


def test_a_factor_of_more_axes_is_another_rank(tmp_path: Path) -> None:
    """Of a product with a matrix the rank is not known: a factor of three axes gives the rows one more."""
    weight = np.random.default_rng(0).standard_normal((4, 3)).astype("f")
    nodes = [("Mul", "x h", "m", {}), ("MatMul", "m w", "y", {})]
    factored = build(nodes, {"h": np.full((1, 1, 1), 2, "f"), "w": weight}, [2, 4])
    assert (
        compare(
            tmp_path, factored, build([("MatMul", "x w", "y", {})], {"w": weight * 2}, [2, 4])
        ).outcome
        == "not equal"
    )


@pytest.mark.parametrize(
    ("values", "rung"),
    [
        ({}, "by weights"),
        ({"count_include_pad": 1}, "by weights"),
        ({"ceil_mode": 1}, "on 2 inputs"),
    ],
)
def test_means_of_two_operator_sets_are_one_but_for_their_sums(
    values: Mapping[str, int], rung: str, tmp_path: Path
) -> None:
    """Version 19 sums in another order, and counts padding in another way where a window reaches beyond it."""
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], **values}
    old, new = (
        build([("AveragePool", "x", "y", window)], {}, ["N", 2, 9, 9], opset=opset)
        for opset in (11, 21)
    )
    report = compare(tmp_path, old, new)
    assert report.rung == rung, report.verdict
    other = build(
        [
            (
                "AveragePool",
                "x",
                "y",
                {**window, "count_include_pad": 1 - values.get("count_include_pad", 0)},
            )
        ],
        {},
        ["N", 2, 9, 9],
    )
    assert compare(tmp_path, other, new).outcome == "not equal"


@pytest.mark.parametrize(("axis", "rung"), [(-1, "exact"), (1, "differs")])
def test_an_identity_alone_does_not_hide_what_ranks_decide(
    axis: int, rung: str, tmp_path: Path
) -> None:
    """How many axes a Squeeze leaves is known from a run alone, and so is which one the last is."""
    start = ("Squeeze", "x", "h", {})
    ours = build(
        [start, ("Softmax", "h", "n", {"axis": 2}), ("Identity", "n", "y", {})],
        {},
        [2, "C", 5],
        opset=11,
    )
    theirs = build([start, ("Softmax", "h", "y", {"axis": axis})], {}, [2, "C", 5], opset=11)
    assert compare(tmp_path, ours, theirs).rung == rung
