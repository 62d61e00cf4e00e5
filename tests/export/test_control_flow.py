"""Nodes with subgraphs in ONNX: control flow, and layers that oneDNN joins, against what MXNet 1.9.1 computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphshare.errors import RefusedError
from tests.elementwise import describe_mismatch
from tests.export.judge import export_graph, run_onnx
from tests.export.test_recorded import EVERYDAY
from tests.kernels.test_bodies import graph_of
from tests.kernels.test_recorded import WITH_BODIES, cases, recorded, tolerance_of


def everyday_cases() -> list[Any]:
    """Return the recorded cases, of which those of the joined layers are tried in an everyday run one in so many."""
    return [
        pytest.param(*case.values, id=case.id, marks=pytest.mark.large if case.values[0] == "joined" and i % EVERYDAY else ())
        for i, case in enumerate(cases(WITH_BODIES))
    ]


@pytest.mark.parametrize(("family", "number", "case"), everyday_cases())
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
