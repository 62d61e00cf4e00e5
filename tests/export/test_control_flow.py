"""Nodes with subgraphs in ONNX: control flow, and layers that oneDNN joins, against what MXNet 1.9.1 computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphshare.errors import RefusedError
from tests.elementwise import describe_mismatch
from tests.export.judge import export_graph, run_onnx
from tests.kernels.test_bodies import graph_of
from tests.kernels.test_recorded import cases, recorded, tolerance_of


@pytest.mark.parametrize(("family", "number", "case"), cases(("flow",)))
def test_onnx_computes_what_mxnet_computed(family: str, number: int, case: dict[str, Any]) -> None:
    kept = recorded(family)
    wanted = [kept[f"{number}_out{i}"] for i in range(sum(key.startswith(f"{number}_out") for key in kept))]
    graph = graph_of(case, len(wanted))
    arrays = {node: kept[f"{number}_{node.name}"] for node in graph.variables()}
    data = export_graph(graph, arrays, ())
    assert not isinstance(data, RefusedError), str(data)
    outputs, judge = run_onnx(data, {node.name: x for node, x in arrays.items()})
    assert judge == "onnxruntime"
    for got, want in zip(outputs, wanted, strict=True):
        mismatch = describe_mismatch(np.asarray(got), want, tolerance_of(case, want))
        assert mismatch is None, mismatch
