"""Shape inference goes over a graph until nothing changes; it does not ask a rule twice about the same facts."""

from __future__ import annotations

from typing import Any

import pytest

import graphshare as gs
from graphshare.ops import inference
from tests.processes import ROOT


def test_a_rule_is_applied_once_to_the_same_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    plain = inference._Rule.infer_shapes

    def note(self: Any, inputs: Any, outputs: Any) -> Any:
        asked.append((self.node.name, tuple(inputs), tuple(outputs)))
        return plain(self, inputs, outputs)

    monkeypatch.setattr(inference._Rule, "infer_shapes", note)
    graph = gs.load(ROOT / "fixtures" / "lenet").graph
    data = next(node for node in graph.variables() if node.name == "data")
    known = inference.infer(graph, {data: (2, 1, 28, 28)}, {})
    assert known.shapes[graph.heads[0].node] == [(2, 10)]
    assert len(asked) == len(set(asked))
    assert len({name for name, _, _ in asked}) == sum(not node.is_variable for node in graph.nodes)
