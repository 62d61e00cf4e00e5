"""Gradients through subgraphs, against central differences and against MXNet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.execute.plan import make_plan
from graphshare.execute.train.tape import Tape
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Graph, Node
from tests.gradients.checker import check
from tests.gradients.control_graphs import GRAPHS, foreach
from tests.surroundings import run_oracle

PROCESS = Path(__file__).parents[1] / "oracle" / "control_process.py"


def filled(name: str) -> tuple[Graph, dict[Node, Any], list[Node]]:
    """A graph, the values of its variables, and those that are trained."""
    document, fixed, shapes = GRAPHS[name]
    graph = read_symbol(json.dumps(document).encode())
    stream = np.random.RandomState(3)
    drawn = {key: stream.standard_normal(shape).astype("float32") for key, shape in shapes.items()}
    values = {
        n: drawn[n.name] if n.name in drawn else np.array(fixed[n.name], "float32")
        for n in graph.variables()
    }
    return graph, values, [node for node in values if node.name in drawn]


@pytest.mark.parametrize("name", GRAPHS)
def test_gradients_pass_sub_graphs(name: str) -> None:
    graph, values, trained = filled(name)
    found = check(graph.heads, values, trained)
    assert found is not None
    assert found.apart < 1e-7, f"{found.gradient} where {found.difference} is right"


def test_a_loop_over_nothing_passes_on_the_gradient_of_its_state() -> None:
    graph = read_symbol(json.dumps(foreach()).encode())
    values = {
        n: np.ones((0, 3) if n.name == "data" else (3,), "float32") for n in graph.variables()
    }
    tape = Tape(make_plan(graph.heads), values, list(values))
    gradients = tape.backward([np.ones_like(x) for x in tape.outputs]).gradients
    assert {n.name: gradients[n].tolist() for n in values if n in gradients} == {
        "data": [],
        "state": [1, 1, 1],
    }


@pytest.mark.oracle
def test_gradients_are_those_of_mxnet(oracle_python: str, tmp_path: Path) -> None:
    out = tmp_path / "answers.npz"
    run_oracle(oracle_python, PROCESS, out)
    answers = dict(np.load(out))
    names = list(dict.fromkeys(key.split("/")[0] for key in answers))
    assert names == ["foreach", "cond, then", "cond, else"]
    for name in names:
        graph, values, trained = filled(name)
        tape = Tape(make_plan(graph.heads), values, trained)
        gradients = tape.backward([np.ones_like(x) for x in tape.outputs]).gradients
        for node in trained:
            wanted = answers[f"{name}/{node.name}"]
            got = gradients.get(node, np.zeros_like(wanted))
            assert np.allclose(got, wanted, rtol=1e-5, atol=1e-6), f"{name}, {node.name}"
