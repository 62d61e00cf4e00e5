"""Faults that a Relu, Clip, Where or MaxPool hides on the inputs that are drawn: none of them is EQUAL."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest

import graphshare as gs
from benchmarks.rewrite_side import exchange
from tests.onnx_files.running import Session
from tests.onnx_files.verdict_models import MASKS, hide

pytest.importorskip("onnxruntime")

_EVERYDAY, _MANY = 24, 200
_RARE = 0.05  # of the samples of one size


class Hidden(NamedTuple):
    """A model, a rewrite of it, and the rewrite with a weight moved that no output of a usual size depends on."""

    model: onnx.ModelProto
    rewrite: onnx.ModelProto
    faulty: onnx.ModelProto


def make_hidden(seed: int) -> Hidden:
    """Make a linear layer with a mask, of which one column is far beyond what the mask lets through."""
    rng = Random(seed)
    mask = sorted(MASKS)[seed % len(MASKS)]
    rows, columns = rng.randint(1, 4), rng.randint(2, 6)
    weight = np.array(
        [[rng.uniform(-2, 2) for _ in range(columns)] for _ in range(rows)], np.float32
    )
    bias = np.array([rng.uniform(-1, 1) for _ in range(columns)], np.float32)
    row, column = rng.randrange(rows), rng.randrange(columns)
    bias[column] = np.copysign(rng.uniform(300, 2000), MASKS[mask][0])
    # A change that is more than the noise of the bias
    weight[row, column] += np.copysign(1, weight[row, column])
    moved = weight.copy()
    moved[row, column] *= rng.choice((0.5, 0.9, 1.1, 2.0, -1.0, 0.0))
    fused = rng.choice(("", "h", "other"))
    return Hidden(
        hide(mask, weight, bias), hide(mask, weight, bias, fused), hide(mask, moved, bias, fused)
    )


def check(seed: int, folder: Path) -> None:
    hidden = make_hidden(seed)
    paths = {name: folder / f"{name}.onnx" for name in hidden._fields}
    for name, path in paths.items():
        onnx.save(getattr(hidden, name), path)
    feeds = {
        "x": np.random.default_rng(seed).standard_normal(
            (8, hidden.model.graph.input[0].type.tensor_type.shape.dim[1].dim_value)
        )
    }
    outputs = [
        Session(model.SerializeToString()).run({"x": feeds["x"].astype("f")})["y"]
        for model in hidden
    ]
    assert np.allclose(outputs[0], outputs[2]), "the mask hides nothing"
    right = gs.compare(paths["model"], paths["rewrite"])
    assert right, right.verdict
    for pair in (("model", "faulty"), ("faulty", "model")):
        report = gs.compare(*(paths[name] for name in pair))
        assert report.outcome in ("not equal", "not proved"), f"{pair}: {report.verdict}"


@pytest.mark.parametrize("seed", range(_EVERYDAY))
def test_a_hidden_fault_is_not_equal(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path)


@pytest.mark.large
def test_many_hidden_faults_are_not_equal(tmp_path: Path) -> None:
    for seed in range(1_000_000, 1_000_000 + _MANY):
        check(seed, tmp_path)


_SPELLED, _PASSING = (
    ("Tanh", "Sigmoid", "Cos", "Abs", "Sin", "Relu", "Softsign", "Neg"),
    ("Abs", "Neg", "LeakyRelu"),
)


class Layer(NamedTuple):
    """A linear layer with the operator behind it; ``moved`` is its weight with a fault, and
    ``mask`` what hides that.
    """

    weight: np.ndarray[Any, Any]
    bias: np.ndarray[Any, Any]
    op: str
    fuses: bool
    moved: np.ndarray[Any, Any] | None = None
    mask: str = ""


def make_chain(seed: int) -> Hidden:
    """Make a chain of linear layers, of which one has a column that a mask hides from all inputs of a usual size."""
    rng, values = Random(seed), np.random.default_rng(seed)
    size = rng.randint(3, 6)
    before, after = rng.randint(1, 4), rng.randint(1, 4)
    layers = []
    for number in range(before + 1 + after):
        weight = (values.standard_normal((size, size)) / np.sqrt(size)).astype("f")
        bias = values.standard_normal(size).astype("f") * np.float32(0.3)
        op = rng.choice(_SPELLED if number >= before else _PASSING)
        layers.append(Layer(weight, bias, op, rng.random() < 0.6))
    mask, row, column = (
        rng.choice(["Relu", "Clip", "Where"]),
        rng.randrange(size),
        rng.randrange(size),
    )
    weight, bias = layers[before][:2]
    bias[column] = np.float32(rng.uniform(300, 2000) * (-1 if mask == "Relu" else 1))
    weight[row, column] += np.copysign(np.float32(1), weight[row, column])
    moved = weight.copy()
    moved[row, column] *= np.float32(rng.choice((0.5, 0.9, 1.1, 2.0, -1.0, 0.0)))
    layers[before] = layers[before]._replace(moved=moved, mask=mask)
    return Hidden(
        *(
            build_chain(layers, fused, faulty)
            for fused, faulty in ((False, False), (True, False), (True, True))
        )
    )


def build_chain(layers: list[Layer], fused: bool, faulty: bool) -> onnx.ModelProto:
    """Build a chain in operators or, where its layers fuse, with Gemm in the place of MatMul and Add."""
    weights: dict[str, Any] = {
        "low": np.float32(-50),
        "high": np.float32(50),
        "zero": np.float32(0),
    }
    nodes, value = [], "x"
    for number, layer in enumerate(layers):
        weights |= {
            f"w{number}": layer.moved if faulty and layer.mask else layer.weight,
            f"b{number}": layer.bias,
        }
        if fused and layer.fuses:
            nodes.append(
                onnx.helper.make_node("Gemm", [value, f"w{number}", f"b{number}"], [f"a{number}"])
            )
        else:
            nodes.append(onnx.helper.make_node("MatMul", [value, f"w{number}"], [f"p{number}"]))
            nodes.append(onnx.helper.make_node("Add", [f"p{number}", f"b{number}"], [f"a{number}"]))
        value = f"a{number}"
        if layer.mask == "Where":
            nodes.append(onnx.helper.make_node("Less", [value, "high"], ["small"]))
        inputs = {
            "Relu": [value],
            "Clip": [value, "low", "high"],
            "Where": ["small", value, "zero"],
        }
        if layer.mask:
            nodes.append(
                onnx.helper.make_node(layer.mask, inputs[layer.mask], [value := f"m{number}"])
            )
        nodes.append(onnx.helper.make_node(layer.op, [value], [value := f"h{number}"]))
    nodes.append(onnx.helper.make_node("Identity", [value], ["y"]))
    for number, node in enumerate(nodes):
        node.name = f"n{number}"
    size = len(layers[0].bias)
    ends = [
        onnx.helper.make_tensor_value_info(name, 1, shape)
        for name, shape in (("x", ["N", size]), ("y", None))
    ]
    arrays = [
        onnx.numpy_helper.from_array(np.asarray(array, "f"), name)
        for name, array in weights.items()
    ]
    graph = onnx.helper.make_graph(nodes, "chain", ends[:1], ends[1:], arrays)
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )


def check_chain(seed: int, folder: Path) -> bool:
    """Compare a chain with both rewrites, whose inner names are exchanged; return whether large inputs show the fault.

    One that fewer than a twentieth of them show is found by chance: EQUAL says on how many inputs.
    """
    chain = make_chain(seed)
    paths = {name: folder / f"{name}.onnx" for name in chain._fields}
    for name, path in paths.items():
        onnx.save(getattr(chain, name), path)
    for name in ("rewrite", "faulty"):
        exchange(str(paths[name]), str(paths[name]))
    for pair in (("model", "rewrite"), ("rewrite", "model")):
        report = gs.compare(*(paths[name] for name in pair))
        assert report, f"{pair}: {report.verdict}"
    width = chain.model.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    draws = [
        np.random.default_rng(seed).standard_normal((64, width)).astype("f") * np.float32(10.0**k)
        for k in range(6)
    ]
    sides = [Session(model.SerializeToString()) for model in (chain.model, chain.faulty)]
    apart = [
        ~np.isclose(*(side.run({"x": x})["y"] for side in sides), rtol=1e-3, atol=1e-3)
        for x in draws
    ]
    shows = max(np.mean(each.any(axis=1)) for each in apart) > _RARE
    for pair in (("model", "faulty"), ("faulty", "model")) if shows else ():
        report = gs.compare(*(paths[name] for name in pair))
        assert report.outcome in ("not equal", "not proved"), f"{pair}: {report.verdict}"
    return shows


@pytest.mark.parametrize("seed", [303, 400, 401])
def test_a_hidden_fault_in_a_chain_of_exchanged_names_is_not_equal(
    seed: int, tmp_path: Path
) -> None:
    assert check_chain(seed, tmp_path)


@pytest.mark.large
def test_hidden_faults_in_many_chains_are_not_equal(tmp_path: Path) -> None:
    assert sum(check_chain(seed, tmp_path) for seed in range(2_000, 2_060)) > 20
