"""Recurrent layers in ONNX whose parameter vector only a run knows: it is sliced in the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphshare.errors import RefusedError
from graphshare.ir.graph import Entry, Graph, Node
from tests.elementwise import Tolerance, describe_mismatch
from tests.export.judge import export_graph, run_onnx
from tests.export.kernel_judge import compare
from tests.kernels.recordings import cases, recorded, recorded_outputs, tolerance_of


@pytest.mark.parametrize(("family", "number", "case"), cases(("rnn",)))
def test_weights_are_slices_of_an_input(family: str, number: int, case: dict[str, Any]) -> None:
    kept, wanted = recorded(family), recorded_outputs(family, number)
    variables = [Node("", f"in{i}", num_outputs=1) for i in range(len(case["inputs"]))]
    node = Node("RNN", "rnn", case["attrs"], tuple(map(Entry, variables)), num_outputs=len(wanted))
    graph = Graph((*variables, node), tuple(Entry(node, i) for i in range(len(wanted))), {})
    data = export_graph(graph, {v: kept[f"{number}_{v.name}"] for v in variables}, ())
    assert not isinstance(data, RefusedError), str(data)
    outputs, judge = run_onnx(data, {v.name: kept[f"{number}_{v.name}"] for v in variables})
    assert judge == "onnxruntime"
    for got, want in zip(outputs, wanted, strict=True):
        mismatch = describe_mismatch(np.asarray(got), want, tolerance_of(case, want))
        assert mismatch is None, mismatch


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
@pytest.mark.parametrize("hidden", [1, 2])
def test_narrow_layers_of_a_batch(mode: str, hidden: int) -> None:
    """A column of gates is then 16 bytes from the next, on which numpy's negative in place is wrong."""
    stream = np.random.default_rng(0)
    gates = {"lstm": 4, "gru": 3, "rnn_tanh": 1}[mode]
    x, weights = (
        stream.normal(size=(2, 3, 1)),
        stream.normal(size=gates * hidden * (1 + hidden + 2)),
    )
    states = [stream.normal(size=(1, 3, hidden)) for _ in range(2 if mode == "lstm" else 1)]
    arrays = [array.astype(np.float32) for array in (x, weights, *states)]
    compare(
        "RNN",
        {"mode": mode, "state_size": str(hidden), "num_layers": "1"},
        *arrays,
        tolerance=Tolerance(1e-6, 1e-4),
    )
