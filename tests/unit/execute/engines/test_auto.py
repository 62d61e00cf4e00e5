"""``auto`` opens onnxruntime where that pays, and only if it is installed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from msgspec.structs import replace

import graphshare as gs
from graphshare.execute.backends import onnx_session
from graphshare.execute.engines import registry
from graphshare.execute.engines.engine import GraphPart
from graphshare.execute.engines.registry import Auto
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ops.inference import infer
from tests.processes import ROOT

LENET = str(ROOT / "fixtures" / "lenet")


def dense(units: int, dtype: str = "float32") -> GraphPart:
    """One matrix product of 1000 rows with ``units`` squared weights."""
    x, weight = Node("", "x"), Node("", "w")
    product = Node(
        "FullyConnected",
        "fc",
        {"num_hidden": str(units), "no_bias": "True"},
        (Entry(x), Entry(weight)),
    )
    graph = Graph((x, weight, product), (Entry(product),))
    array = np.zeros((units, units), dtype)
    return GraphPart(
        graph,
        infer(graph, {x: (1000, units), weight: array.shape}, {weight: dtype}),
        {weight: array},
        repeated=True,
    )


def test_it_takes_what_is_worth_its_opening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "has_runtime", lambda: True)
    monkeypatch.setattr(registry, "count_threads", lambda: 2)
    assert not Auto().takes(dense(100), 1)
    assert not Auto().takes(dense(1000), 1)
    assert Auto().takes(dense(1000), 100)
    assert not Auto().takes(dense(1000, "float64"), 100)
    monkeypatch.setattr(registry, "has_runtime", lambda: False)
    assert not Auto().takes(dense(1000), 100)


def test_a_small_graph_imports_nothing_for_it() -> None:
    code = (
        "import sys, numpy as np, graphshare as gs;"
        f"done = gs.run(gs.load({LENET!r}), feeds={{'data': np.zeros((1, 1, 28, 28), 'f')}}, engine='auto');"
        "print([m for m in sys.modules if m.startswith('onnxruntime') or m.endswith('to_onnx')], *done.notes[-1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.startswith("[] auto: numpy computes")


def test_a_bound_graph_may_be_computed_by_either(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    data = np.ones((2, 1, 28, 28), np.float32)
    wanted = gs.bind(gs.load(LENET))(data=data)["softmax_output"]
    for saved, engine in ((0.0, "numpy"), (1.0, "onnxruntime")):
        monkeypatch.setattr(registry, "_SAVED_OPTIMIZED", saved)
        net = gs.bind(gs.load(LENET), engine="auto")
        assert np.allclose(net(data=data)["softmax_output"], wanted, rtol=1e-4)
        assert net.notes[0].startswith(f"auto: {engine} computes")


def test_without_the_runtime_it_is_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_session, "find_spec", lambda name: None)
    monkeypatch.setattr(registry, "_SAVED_OPTIMIZED", 1.0)
    net = gs.bind(gs.load(LENET), engine="auto")
    assert net(data=np.ones((1, 1, 28, 28), np.float32))["softmax_output"].shape == (1, 10)


def test_an_opening_is_paid_by_what_every_forward_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "has_runtime", lambda: True)
    monkeypatch.setattr(registry, "count_threads", lambda: 2)
    # 1 to open, 0.5 for the operator and 4 for 400 bytes, with a margin of 2; a forward of 100,000
    # multiply-adds saves 1.
    costs = {
        "_START": 1.0,
        "_BY_NODE": 0.5,
        "_BY_BYTE": 0.01,
        "_MARGIN": 2.0,
        "_SAVED_OPTIMIZED": 2e-5,
        "_SAVED": 1e-5,
    }
    for name, value in costs.items():
        monkeypatch.setattr(registry, name, value)
    part = dense(10)
    assert next(forwards for forwards in range(30) if Auto().takes(part, forwards)) == 11
    assert (
        next(
            forwards
            for forwards in range(30)
            if Auto().takes(replace(part, repeated=False), forwards)
        )
        == 22
    )


@pytest.mark.parametrize(
    ("engine", "hint"),
    [("nunpy", "did you mean 'numpy'?"), ("quux", "the engines are numpy, onnxruntime, auto")],
)
def test_an_unknown_engine_is_refused_with_those_that_there_are(engine: str, hint: str) -> None:
    with pytest.raises(gs.GraphshareError, match="unknown engine") as caught:
        registry.create_engine(engine)
    assert caught.value.faults[0].hint.startswith(hint)
