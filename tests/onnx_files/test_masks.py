"""Faults that a Relu, Clip, Where or MaxPool hides on the inputs that are drawn: none of them is EQUAL."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import onnx
import pytest

import graphshare as gs
from tests.onnx_files.running import Session
from tests.onnx_files.verdict_models import MASKS, hide

pytest.importorskip("onnxruntime")

_EVERYDAY, _MANY = 24, 200


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
    weight = np.array([[rng.uniform(-2, 2) for _ in range(columns)] for _ in range(rows)], np.float32)
    bias = np.array([rng.uniform(-1, 1) for _ in range(columns)], np.float32)
    row, column = rng.randrange(rows), rng.randrange(columns)
    bias[column] = np.copysign(rng.uniform(300, 2000), MASKS[mask][0])
    weight[row, column] += np.copysign(1, weight[row, column])  # a change that is more than the noise of the bias
    moved = weight.copy()
    moved[row, column] *= rng.choice((0.5, 0.9, 1.1, 2.0, -1.0, 0.0))
    fused = rng.choice(("", "h", "other"))
    return Hidden(hide(mask, weight, bias), hide(mask, weight, bias, fused), hide(mask, moved, bias, fused))


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
    outputs = [Session(model.SerializeToString()).run({"x": feeds["x"].astype("f")})["y"] for model in hidden]
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
