"""``diff`` on every real graph: nothing differs from itself, under other names only names do, and
planted edits are found.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import graphshare
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Graph
from graphshare.verification.branches import upgrade_model
from graphshare.verification.model_comparison import make_judge
from graphshare.verification.pairing import pair_models
from tests.graph_differences import diff_graphs
from tests.surroundings import pick_everyday, size_of_day

pytestmark = pytest.mark.corpus


def graphs(corpus: Path) -> list[Path]:
    return pick_everyday(sorted((corpus / "graphs").glob("*.json")), 5, lambda path: path.name)


def graph_of(document: dict[str, Any]) -> Graph:
    return read_symbol(json.dumps(document).encode(), where="planted")


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes(), strict=False)
    return found


def test_nothing_differs_from_itself(corpus: Path) -> None:
    paths = graphs(corpus)
    assert len(paths) > size_of_day(20, 100)
    for path in paths:
        graph, again = graphshare.load(path).graph, graphshare.load(path).graph
        assert not diff_graphs(graph, again), path.name


def test_under_shuffled_names_only_names_differ(corpus: Path) -> None:
    for path in graphs(corpus):
        document = read(path)
        labels = [f"node {i}" for i in range(len(document["nodes"]))]
        random.Random(path.name).shuffle(labels)
        for node, label in zip(document["nodes"], labels, strict=True):
            node["name"] = label
        found = diff_graphs(graphshare.load(path).graph, graph_of(document))
        assert not found.without_names(), (path.name, found.without_names())
        assert len(found.renamed) == len(document["nodes"])


@pytest.mark.parametrize("renamed", [False, True], ids=["same names", "other names"])
def test_an_operator_replaced_is_found_and_nothing_else(renamed: bool, corpus: Path) -> None:
    """One node gets another operator: with names it is one change, without them at most its
    surroundings are told anew.
    """
    exact = tried = 0
    for path in graphs(corpus):
        document = read(path)
        operators = [i for i, node in enumerate(document["nodes"]) if node["op"] != "null"]
        if not operators:
            continue
        victim = random.Random(path.name).choice(operators)
        if renamed:
            for node in document["nodes"]:
                node["name"] = f"x/{node['name']}"
        document["nodes"][victim]["op"] = "planted"
        found = diff_graphs(graphshare.load(path).graph, graph_of(document)).without_names()
        assert found, path.name
        touched = {node.id for node in (*found.added, *found.removed)} | {
            change.new.id for change in found.changed
        }
        assert victim in touched, path.name
        tried += 1
        users = {
            i for i, node in enumerate(document["nodes"]) for e in node["inputs"] if e[0] == victim
        }
        exact += touched <= {victim, *users}
    assert exact >= (0.98 if renamed else 1.0) * tried, (exact, tried)


def test_a_graph_is_exactly_its_upgrade(corpus: Path) -> None:
    """Where MXNet would load it: every operator, by identities where the file is written otherwise."""
    count = 0
    for path in graphs(corpus):
        model = graphshare.load(path)
        try:
            upgraded = graphshare.upgrade(model)
        except graphshare.RefusedError:
            continue
        sides = [upgrade_model(each, each.graph.heads, {})[0] for each in (model, upgraded)]
        assert make_judge(pair_models(sides[0], sides[1], (), {})).find_exact(), path.name
        count += 1
    assert count > size_of_day(15, 90)
