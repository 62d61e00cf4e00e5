"""``auto`` opens onnxruntime where that pays, and only if it is installed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import graphshare as gs
from graphshare.execute.engines import onnx_session, registry
from graphshare.execute.engines.engine import Part
from graphshare.execute.engines.registry import Auto
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ops.inference import infer
from tests.processes import ROOT

LENET = str(ROOT / "fixtures" / "lenet")


def dense(units: int, dtype: str = "float32") -> Part:
    """One matrix product of 1000 rows with ``units`` squared weights."""
    x, weight = Node("", "x"), Node("", "w")
    product = Node("FullyConnected", "fc", {"num_hidden": str(units), "no_bias": "True"}, (Entry(x), Entry(weight)))
    graph = Graph((x, weight, product), (Entry(product),))
    array = np.zeros((units, units), dtype)
    return Part(graph, infer(graph, {x: (1000, units), weight: array.shape}, {weight: dtype}), {weight: array}, repeated=True)


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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
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
