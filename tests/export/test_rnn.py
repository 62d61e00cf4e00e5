"""Recurrent layers in ONNX whose parameter vector only a run knows: it is sliced in the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphshare.errors import RefusedError
from graphshare.ir.graph import Entry, Graph, Node
from tests.elementwise import describe_mismatch
from tests.export.judge import export_graph, run_onnx
from tests.kernels.test_recorded import cases, recorded, tolerance_of


@pytest.mark.parametrize(("family", "number", "case"), cases(("rnn",)))
def test_weights_are_slices_of_an_input(family: str, number: int, case: dict[str, Any]) -> None:
    kept = recorded(family)
    count = sum(key.startswith(f"{number}_out") for key in kept)
    variables = [Node("", f"in{i}", num_outputs=1) for i in range(len(case["inputs"]))]
    node = Node("RNN", "rnn", case["attrs"], tuple(map(Entry, variables)), num_outputs=count)
    graph = Graph((*variables, node), tuple(Entry(node, i) for i in range(count)), {})
    data = export_graph(graph, {v: kept[f"{number}_{v.name}"] for v in variables}, ())
    assert not isinstance(data, RefusedError), str(data)
    outputs, judge = run_onnx(data, {v.name: kept[f"{number}_{v.name}"] for v in variables})
    assert judge == "onnxruntime"
    for i, got in enumerate(outputs):
        want = kept[f"{number}_out{i}"]
        mismatch = describe_mismatch(np.asarray(got), want, tolerance_of(case, want))
        assert mismatch is None, mismatch
