"""An engine computes what it takes of a graph, numpy the rest, and who computes what is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.errors import RefusedError, UsageError
from graphshare.execute.engines import registry
from graphshare.execute.engines.engine import Compiled, GraphPart, NodesRefusedError
from graphshare.execute.interpreter import run_graph
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ops.kernel import Array
from tests.processes import ROOT

LENET = str(ROOT / "fixtures" / "lenet")


class Counting:
    """Computes with numpy, adds one to what it returns, and refuses some operators one at a time."""

    name = "counting"

    def __init__(self, *refused: str) -> None:
        self.refused, self.parts = refused, list[GraphPart]()

    def compile(self, part: GraphPart) -> Compiled:
        for node in part.graph.nodes:
            if node.op in self.refused:
                raise NodesRefusedError({node: "it is not liked"})
        self.parts.append(part)

        def compute(feeds: Mapping[Node, Array]) -> Sequence[Array]:
            return [x + 1 for x in run_graph(part.graph.heads, {**feeds, **part.constants})]

        return compute


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    known: dict[str, Any] = {}
    monkeypatch.setattr(registry, "_registered", known)
    return known


def unary(*operators: str) -> Graph:
    """A chain of operators on ``x``."""
    nodes = [Node("", "x")]
    for op in operators:
        nodes.append(Node(op, f"{op}{len(nodes)}", {}, (Entry(nodes[-1]),)))
    return Graph(tuple(nodes), (Entry(nodes[-1]),))


X = np.array([0.5, 1.0], np.float32)


def test_an_engine_computes_the_graph(engines: dict[str, Any]) -> None:
    engines["counting"] = Counting
    assert np.allclose(
        gs.run(unary("exp"), feeds={"x": X}, engine="counting").outputs["exp1_output"],
        np.exp(X) + 1,
    )


def test_refused_nodes_run_in_numpy_and_are_named(engines: dict[str, Any]) -> None:
    engine = Counting("sqrt")
    engines["counting"] = lambda: engine
    computed = gs.run(unary("exp", "sqrt", "square"), feeds={"x": X}, engine="counting")
    assert np.allclose(computed.outputs["square3_output"], np.sqrt(np.exp(X) + 1) ** 2 + 1)
    assert len(engine.parts) == 2
    (note,) = (note for note in computed.notes if "counting" in note)
    assert note == (
        "numpy computes 1 node that counting cannot compute: sqrt2 (sqrt) (reason for the first: it is not liked); "
        "counting computes the rest in 2 parts"
    )


def test_strict_refuses_all_of_them(engines: dict[str, Any]) -> None:
    engines["counting"] = lambda: Counting("sqrt")
    with pytest.raises(RefusedError) as error:
        gs.run(unary("exp", "sqrt"), feeds={"x": X}, engine="counting", strict_engine=True)
    assert [(fault.node, fault.message) for fault in error.value.faults] == [
        ("sqrt2", "counting cannot compute operator sqrt: it is not liked")
    ]


def test_a_graph_that_is_refused_whole_runs_in_numpy(engines: dict[str, Any]) -> None:
    engines["counting"] = lambda: Counting("exp", "sqrt")
    computed = gs.run(unary("exp", "sqrt"), feeds={"x": X}, engine="counting")
    assert np.array_equal(
        computed.outputs["sqrt2_output"],
        gs.run(unary("exp", "sqrt"), feeds={"x": X}).outputs["sqrt2_output"],
    )


def test_random_numbers_are_those_of_numpy(engines: dict[str, Any]) -> None:
    """Nodes that draw keep their order, also where the first must wait for the engine."""
    engines["counting"] = lambda: Counting()
    x = Node("", "x")
    bounds = tuple(Entry(Node(op, op, {}, (Entry(x),))) for op in ("sin", "exp"))
    late = Node("_sample_uniform", "late", {"shape": "(2,)"}, bounds)
    early = Node("_random_uniform", "early", {"shape": "(3,)"})
    graph = Graph((x, *(entry.node for entry in bounds), late, early), (Entry(late), Entry(early)))
    found = gs.run(graph, feeds={"x": X}, seed=3, engine="counting").outputs
    wanted = gs.run(graph, feeds={"x": X}, seed=3).outputs
    assert np.array_equal(found["early_output"], wanted["early_output"])


def test_a_part_that_stays_as_others_are_divided_again_reads_its_inputs(
    engines: dict[str, Any],
) -> None:
    """The engine takes ``square`` before it refuses ``sqrt``, which comes before the numbers that are drawn."""
    engine = Counting("sqrt")
    engines["counting"] = lambda: engine
    root = unary("exp", "sqrt")
    drawn = Node("_sample_uniform", "drawn", {}, (root.heads[0], root.heads[0]))
    last = Node("square", "last", {}, (Entry(drawn),))
    graph = Graph((*root.nodes, drawn, last), (Entry(last),))
    computed = gs.run(graph, feeds={"x": X}, seed=3, engine="counting")
    assert np.allclose(computed.outputs["last_output"], np.exp(X) + 1 + 1)
    assert len(engine.parts) == 2


def test_a_bound_graph_is_compiled_once_for_each_shape(engines: dict[str, Any]) -> None:
    engine = Counting()
    engines["counting"] = lambda: engine
    net = gs.bind(gs.load(LENET), engine="counting")
    for samples in (1, 2, 1, 2):
        net(data=np.ones((samples, 1, 28, 28), np.float32))
    assert len(engine.parts) == 2
    assert "conv1_weight" in {node.name for node in engine.parts[0].constants}
    assert "data" not in {node.name for node in engine.parts[0].constants}


def test_an_engine_of_another_package_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    point = metadata.EntryPoint("other", f"{__name__}:Counting", "graphshare.engines")
    monkeypatch.setattr(
        metadata, "entry_points", lambda group: [point] if group == "graphshare.engines" else []
    )
    assert np.allclose(
        gs.run(unary("exp"), feeds={"x": X}, engine="other").outputs["exp1_output"], np.exp(X) + 1
    )
    with pytest.raises(UsageError, match="unknown engine 'othr'"):
        gs.run(unary("exp"), feeds={"x": X}, engine="othr")


def test_profile_measures_numpy_alone() -> None:
    with pytest.raises(UsageError, match="`profile` measures numpy's kernels"):
        gs.run(unary("exp"), feeds={"x": X}, engine="onnxruntime", profile=True)
