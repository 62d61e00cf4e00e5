"""Results and reports compare by value, arrays included, and a pickled one is equal to the original."""

from __future__ import annotations

import pickle
from typing import Any

import msgspec
import numpy as np
import pytest

import graphshare as gs
from tests.surroundings import ROOT

LENET = ROOT / "fixtures" / "lenet"
X = np.linspace(-1, 1, 2 * 28 * 28, dtype=np.float32).reshape(2, 1, 28, 28)
SHAPES = {"data": (2, 1, 28, 28)}
OTHER_SHAPES = {"data": (3, 1, 28, 28)}


def verify_changed(amount: float) -> Any:
    model = gs.load(LENET)
    changed = model.with_params({"fc2_bias": model.params["fc2_bias"] + np.float32(amount)})
    return gs.compare(changed, model, layers=True)


def diff_changed(amount: float) -> Any:
    model = gs.load(LENET)
    return gs.diff(
        model,
        gs.rename(model.with_params({"fc2_bias": model.params["fc2_bias"] + amount}), prefix="x"),
    )


RESULTS = {
    "run": (
        lambda: gs.run(LENET, feeds={"data": X}, profile=True),
        lambda: gs.run(LENET, feeds={"data": X + 1}),
    ),
    "run's outputs": (
        lambda: gs.run(LENET, feeds={"data": X}),
        lambda: gs.run(LENET, feeds={"data": X}, targets="fc1"),
    ),
    "train": (
        lambda: gs.train(LENET, steps=1, feeds={"data": X}),
        lambda: gs.train(LENET, steps=2, feeds={"data": X}),
    ),
    "shapes": (
        lambda: gs.infer_shapes(LENET, SHAPES),
        lambda: gs.infer_shapes(LENET, OTHER_SHAPES),
    ),
    "params": (
        lambda: gs.load(LENET).params,
        lambda: gs.load(LENET).with_params({"fc2_bias": np.zeros(10, "float32")}).params,
    ),
    "verify": (lambda: verify_changed(1), lambda: verify_changed(2)),
    "diff": (lambda: diff_changed(1), lambda: diff_changed(2)),
    "check": (lambda: gs.check(LENET), lambda: gs.check(ROOT / "fixtures" / "blog")),
    "export": (
        lambda: gs.export(LENET, shapes=SHAPES).report,
        lambda: gs.export(LENET, shapes=OTHER_SHAPES).report,
    ),
    "inspect": (
        lambda: gs.inspect(LENET, shapes=SHAPES),
        lambda: gs.inspect(LENET, shapes=OTHER_SHAPES),
    ),
    "measure": (
        lambda: gs.measure_params(LENET),
        lambda: gs.measure_params(LENET, select=["*bias"]),
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_equal_by_value(name: str) -> None:
    make, make_other = RESULTS[name]
    first, again, other = make(), make(), make_other()
    assert first == again
    assert pickle.loads(pickle.dumps(first)) == first
    assert first != other
    assert first != 1
    assert len(repr(first).splitlines()) == 1


def test_arrays_are_equal_with_nan_and_of_one_dtype_only() -> None:
    result = gs.run(LENET, feeds={"data": X * np.nan})
    assert result == pickle.loads(pickle.dumps(result))
    wider = {name: array.astype("float64") for name, array in result.outputs.items()}
    assert result != msgspec.structs.replace(result, outputs=wider)
    assert result != msgspec.structs.replace(result, notes=[])
    assert result == msgspec.structs.replace(result, seconds=1.0, timings=[])
    assert gs.load(LENET).params == dict(gs.load(LENET).params)
