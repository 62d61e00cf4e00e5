"""The tables against what MXNet 1.9.1 wrote after loading the real graphs of the corpus."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from graphshare.ops.registry import lookup
from graphshare.ops.signature import Signature

CORPUS = Path(
    os.environ.get("GRAPHSHARE_CORPUS") or Path(__file__).resolve().parents[4] / "shared" / "corpus"
)
pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(
        not (CORPUS / "oracle").is_dir(),
        reason="no corpus: GRAPHSHARE_CORPUS does not name its directory",
    ),
]
CONTROL_FLOW = {"_foreach": 1, "_while_loop": 2, "_cond": 3}


def written_graphs() -> Iterator[tuple[str, dict[str, Any]]]:
    """File name and graph of everything that MXNet loaded and wrote back."""
    for path in sorted((CORPUS / "oracle").glob("*.tojson.json")):
        yield (
            path.name,
            json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"), strict=False),
        )


def objects(graph: dict[str, Any]) -> Any:
    """Nodes and entries as objects, subgraphs included."""
    nodes = [
        SimpleNamespace(
            op=raw["op"],
            is_variable=raw["op"] == "null",
            name=raw["name"],
            attrs=raw.get("attrs", {}),
            inputs=(),
            subgraphs=tuple(objects(inner) for inner in raw.get("subgraphs", ())),
        )
        for raw in graph["nodes"]
    ]
    for node, raw in zip(nodes, graph["nodes"], strict=True):
        node.inputs = tuple(
            SimpleNamespace(node=nodes[entry[0]], index=entry[1]) for entry in raw["inputs"]
        )
    return SimpleNamespace(
        nodes=tuple(nodes),
        heads=tuple(SimpleNamespace(node=nodes[head[0]]) for head in graph["heads"]),
    )


def signature(node: Any) -> Signature:
    found = lookup(node.op)
    assert found is not None, node.op
    return found


def test_totals_inputs_and_attributes() -> None:
    """Totals are the increments of ``node_row_ptr``, inputs as many as the attributes say; nothing is objected to."""
    wrong = []
    for name, raw in written_graphs():
        totals = raw["node_row_ptr"]
        for i, node in enumerate(objects(raw).nodes):
            if node.is_variable or node.op == "Custom":
                continue
            row = signature(node)
            outputs = row.outputs(node.attrs)
            bodies = CONTROL_FLOW.get(node.op, 0)
            count = len(row.formal_inputs(node.attrs, subgraphs=node.subgraphs)) - bodies
            if outputs is None or outputs.total != totals[i + 1] - totals[i]:
                wrong.append((name, node.name, "outputs", outputs))
            if count != len(node.inputs):
                wrong.append((name, node.name, "inputs", count))
            if faults := row.parse(node.attrs)[1]:
                wrong.append((name, node.name, "attributes", faults))
    assert not wrong


def test_auxiliary_states() -> None:
    """The variables that feed mutable slots are those that MXNet lists as auxiliary states."""
    wrong = []
    for name, raw in written_graphs():
        nodes = objects(raw).nodes
        if any(node.op == "Custom" for node in nodes):
            continue
        written = {
            id(node.inputs[slot].node)
            for node in nodes
            if not node.is_variable
            for slot in signature(node).auxiliary_slots(
                node.attrs, len(node.inputs), subgraphs=node.subgraphs
            )
        }
        meta = json.loads(
            (CORPUS / "oracle" / name.replace(".tojson.json", ".meta.json")).read_text(
                encoding="utf-8"
            )
        )
        ours = [node.name for node in nodes if id(node) in written]
        if ours != meta["auxiliary_states"]:
            wrong.append((name, ours[:5], meta["auxiliary_states"][:5]))
    assert not wrong
