"""Quantized numbers: a few that are rounded to the other side are one step apart, and a weight that moved is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from graphshare.ops.kernel import Array
from tests.onnx_files.test_weights import Node, build, compare
from tests.processes import graphshare

pytest.importorskip("onnxruntime")

_COUNT = 4096
_STEP, _SMALL, _LARGE = np.float32(0.5), np.float32(0.1), np.float32(0.7)
_NUMBERS = {
    "small": _SMALL,
    "large": _LARGE,
    "total": _SMALL + _LARGE,
    "s": _STEP,
    "z": np.uint8(7),
}


def draw(share: float) -> Array:
    """Return numbers of which this share rounds to either side, as the order of the terms is."""
    middles = ((np.arange(100) + 0.5) * float(_STEP) - 0.8).astype("f")
    # The floats around the middles of two steps
    near = middles.view(np.int32)[:, None] + np.arange(-20, 21)
    candidates = near.astype(np.int32).view("f").reshape(-1)
    sums = (candidates + _SMALL) + _LARGE, candidates + (_SMALL + _LARGE)
    ties = candidates[np.rint(sums[0] / _STEP) != np.rint(sums[1] / _STEP)]
    numbers = np.linspace(0.1, 40, _COUNT, dtype="f")
    count = round(share * _COUNT)
    numbers[:count] = np.resize(ties, count)
    return numbers.reshape(2, -1)


def make_pair(quantized: str) -> list[onnx.ModelProto]:
    """Return models that quantize a sum of three terms or of two; the output is quantized, or becomes a float again."""
    models = []
    for op, terms, name in (("Sum", "x small large", "p"), ("Add", "x total", "r")):
        nodes: list[Node] = [
            (op, terms, name, {}),
            ("QuantizeLinear", f"{name} s z", quantized, {}),
        ]
        nodes += [] if quantized == "y" else [("DequantizeLinear", f"{quantized} s z", "y", {})]
        models.append(build(nodes, _NUMBERS, [2, _COUNT // 2]))
        if quantized == "y":
            models[-1].graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    return models


@pytest.mark.parametrize("quantized", ["y", "q"])
def test_a_few_numbers_may_be_a_step_apart(quantized: str, tmp_path: Path) -> None:
    pair, feeds = make_pair(quantized), {"x": draw(0.002)}
    report = compare(tmp_path, *pair, feeds=feeds)
    assert report.rung == "on 1 input", report.verdict
    assert "1 region at most one step apart" in report.verdict
    assert any("at most one step of" in note for note in report.notes)
    assert compare(tmp_path, *pair, feeds=feeds, by_weights=True).outcome == "not proved"
    np.save(tmp_path / "x.npy", feeds["x"])
    paths = [str(tmp_path / f"{name}.onnx") for name in ("original", "rewrite")]
    answer = json.loads(
        graphshare(
            "compare", *paths, "--feed", f"x={tmp_path / 'x.npy'}", "--format", "json"
        ).stdout
    )
    (region,) = answer["branches"][0]["regions"][0]["regions"]
    assert region["one_step"]


def test_many_numbers_a_step_apart_are_a_difference(tmp_path: Path) -> None:
    assert compare(tmp_path, *make_pair("q"), feeds={"x": draw(0.02)}).outcome == "not equal"


def make_layer(weight: Array, scale: float, *, fused: bool) -> onnx.ModelProto:
    """Return a quantized convolution with a bias of one value for all scales, by operators on
    floats or as one on integers.
    """
    bias = (
        (np.random.default_rng(0).integers(-900, 900, 4) * 0.004 / scale).round().astype(np.int32)
    )
    numbers: dict[str, Any] = {
        "w": weight, "ws": np.float32(scale), "wz": np.int8(0), "xs": np.float32(0.02), "z": np.uint8(128),
        "ys": np.float32(0.25), "b": bias, "bs": np.float32(scale) * np.float32(0.02),
        "bz": np.int32(0),
    }  # fmt: skip
    plain = [
        ("DequantizeLinear", "q xs z", "d"), ("DequantizeLinear", "w ws wz", "wd"), ("DequantizeLinear", "b bs bz", "bd"),
        ("Conv", "d wd bd", "c"), ("QuantizeLinear", "c ys z", "o"),
    ]  # fmt: skip
    middle = [("QLinearConv", "q xs z w ws wz ys z b", "o")] if fused else plain
    nodes = [
        helper.make_node(op, inputs.split(), [output])
        for op, inputs, output in [
            ("QuantizeLinear", "x xs z", "q"),
            *middle,
            ("DequantizeLinear", "o ys z", "y"),
        ]
    ]
    read = {name for node in nodes for name in node.input}
    ends = [
        [helper.make_tensor_value_info(name, 1, shape)]
        for name, shape in (("x", [2, 3, 8, 8]), ("y", None))
    ]
    weights = [
        numpy_helper.from_array(np.asarray(array), name)
        for name, array in numbers.items()
        if name in read
    ]
    return helper.make_model(
        helper.make_graph(nodes, "g", *ends, weights),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )


# Seven bits: where a processor has no dot products of bytes, onnxruntime's sums of two products saturate beyond them.
_WEIGHT = np.random.default_rng(1).integers(-63, 63, (4, 3, 3, 3)).astype(np.int8)


def test_a_quantized_layer_is_compared_on_inputs(tmp_path: Path) -> None:
    report = compare(
        tmp_path, make_layer(_WEIGHT, 0.004, fused=False), make_layer(_WEIGHT, 0.004, fused=True)
    )
    assert report.rung == "on 1 input", report.verdict


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("is_hidden", [True, False])
def test_a_weight_that_moved_is_compared_in_steps_of_its_scale(
    fused: bool, is_hidden: bool, tmp_path: Path
) -> None:
    """Also where no output that was drawn shows it: the input is zero there."""
    moved = _WEIGHT.copy()
    moved[1, 2, 0, 1] += 2 if moved[1, 2, 0, 1] < 100 else -2
    models = make_layer(_WEIGHT, 0.004, fused=fused), make_layer(moved, 0.004, fused=True)
    feeds = {"x": np.zeros((2, 3, 8, 8), "f")} if is_hidden else None
    report = compare(tmp_path, *models, feeds=feeds)
    assert report.outcome == "not equal", report.verdict
    details = [
        text
        for _, stage in report.list_stages("fails")
        if stage.name == "weights"
        for text in stage.details
    ]
    assert details == [
        "o: weight 'w' is 2 steps of its scale from that of the original at [1, 2, 0, 1]"
    ]


def test_other_scales_make_other_integers(tmp_path: Path) -> None:
    """Half of the scale and twice the integers are the same weights: no weight is blamed."""
    even = (_WEIGHT // 4 * 2).astype(np.int8)
    models = (
        make_layer(even, 0.004, fused=False),
        make_layer((even * 2).astype(np.int8), 0.002, fused=False),
    )
    report = compare(tmp_path, *models)
    assert report, report.verdict


def test_a_weight_in_another_order_is_not_another_one(tmp_path: Path) -> None:
    """A Transpose makes one weight of unlike integers of one shape."""
    weight = np.random.default_rng(2).integers(-127, 127, (6, 6)).astype(np.int8)
    numbers: dict[str, Any] = {
        "ws": np.float32(0.01),
        "wz": np.int8(0),
        "s": _STEP,
        "z": np.uint8(7),
    }
    tail: list[Node] = [
        ("QuantizeLinear", "m s z", "q", {}),
        ("DequantizeLinear", "q s z", "y", {}),
    ]
    turned: list[Node] = [
        ("DequantizeLinear", "w ws wz", "d", {}),
        ("Transpose", "d", "t", {}),
        ("MatMul", "x t", "m", {}),
    ]
    plain: list[Node] = [("DequantizeLinear", "w ws wz", "d", {}), ("MatMul", "x d", "m", {})]
    models = (
        build([*nodes, *tail], {**numbers, "w": own}, [4, 6])
        for nodes, own in ((turned, weight), (plain, np.ascontiguousarray(weight.T)))
    )
    report = compare(tmp_path, *models)
    assert report, report.verdict


def test_a_weight_of_a_product_of_integers_is_named(tmp_path: Path) -> None:
    """The inputs are zeros, which no weight changes."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,3] x) => (float[2,2] y) <int8[3,2] w = {W}> {
        q, s, z = DynamicQuantizeLinear(x)
        i = MatMulInteger(q, w, z)
        f = Cast <to = 1> (i)
        y = Mul(f, s)
    }"""
    models = [
        onnx.parser.parse_model(text.replace("W", numbers))
        for numbers in ("1, 2, 3, 4, 5, 6", "1, 2, 3, 4, 9, 6")
    ]
    report = compare(tmp_path, *models, feeds={"x": np.zeros((2, 3), "f")})
    assert report.outcome == "not equal", report.verdict
    details = [
        text
        for _, stage in report.list_stages("fails")
        if stage.name == "weights"
        for text in stage.details
    ]
    assert [detail.partition(": ")[2] for detail in details] == [
        "weight 'w' is 4 steps of its scale from that of the original at [2, 0]"
    ]
