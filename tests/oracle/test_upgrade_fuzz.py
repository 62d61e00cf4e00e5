"""``upgrade`` against MXNet over changed graphs: the same bytes as ``tojson()`` gives, or a refusal
where MXNet refuses.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphshare.errors import GraphshareError, RefusedError
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ops.registry import canonical, load_registered_signatures, lookup
from graphshare.rewrite.upgrade_graph import upgrade_graph
from tests.oracle.conversation import Oracle
from tests.oracle.mutations import HIDDEN, Json, mutated, mxnet_text
from tests.oracle.test_signatures import FUSED, NEEDS_CODE, ONLY_IN_A_PROCESS, base
from tests.surroundings import corpus_stems

pytestmark = [pytest.mark.oracle, pytest.mark.corpus]

CASES = 160
SOURCES = corpus_stems(lambda meta: meta["loads"] and meta["nodes"] < 150)


def upgraded(text: str) -> str | None:
    """What graphshare writes, or None for a refusal."""
    try:
        return b"".join(write_symbol(upgrade_graph(read_symbol(text.encode())).graph)).decode()
    except GraphshareError:
        return None


def crashes(graph: Json) -> bool:
    """Whether 1.9.1 reads past an operator's inputs, of which it mostly dies.

    That is a hidden key for an input that is missing, or a cast without an input.
    """
    for node in graph["nodes"]:
        signature = lookup(canonical(node["op"])) if node["op"] != "null" else None
        attrs = {
            key: value
            for name in ("param", "attr", "attrs")
            for key, value in node.get(name, {}).items()
        }
        names = signature.input_names(attrs, len(node["inputs"])) if signature else None
        missing = (names or ())[len(node["inputs"]) :]
        if any(
            key.startswith(f"{formal}_") and key.endswith(HIDDEN)
            for key in attrs
            for formal in missing
        ):
            return True
        if node["op"].startswith("amp_") and len(node["inputs"]) < int(attrs.get("num_outputs", 1)):
            return True
    return False


@pytest.mark.parametrize("seed", range(CASES))
def test_a_changed_graph(corpus: Path, oracle: Oracle, seed: int) -> None:
    stem = SOURCES[seed * 7 % len(SOURCES)]
    source = json.loads(
        (corpus / "graphs" / f"{stem}.json").read_text(encoding="utf-8"), strict=False
    )
    graph, done = mutated(source, seed)
    while crashes(graph):
        seed += CASES
        graph, done = mutated(source, seed)
    text = mxnet_text(graph)
    answer = oracle.ask("tojson", text=text, np_shape="is_np_shape" in graph.get("attrs", {}))
    assert upgraded(text) == answer.get("text"), (stem, seed, done, answer.get("error"))


def test_every_operator_of_the_oldest_kind_keeps_a_key_that_is_put_back(oracle: Oracle) -> None:
    """Asked of the whole registry."""
    kept = set()
    for name, signature in load_registered_signatures().items():
        if signature.parameters is None or name in ONLY_IN_A_PROCESS | NEEDS_CODE | FUSED:
            continue
        attrs = {**base(signature), "nobody_lr_mult": "1"} | (
            {"num_args": "2"} if name == "Crop" else {}
        )
        node = {"op": name, "name": "x", "attrs": attrs, "inputs": []}
        graph = {
            "nodes": [node],
            "arg_nodes": [],
            "heads": [[0, 0, 0]],
            "attrs": {"mxnet_version": ["int", 10000]},
        }
        if "error" not in oracle.ask("tojson", text=json.dumps(graph)):
            kept.add(name)
    assert kept == {
        name for name, row in load_registered_signatures().items() if row.is_operator_property
    }


def test_a_cast_without_an_input_is_refused() -> None:
    nodes = [
        {"op": "amp_cast", "name": "c", "attrs": {"dtype": "float16"}, "inputs": []},
        {"op": "relu", "name": "r", "inputs": [[0, 0, 0]]},
    ]
    graph = {
        "nodes": nodes,
        "arg_nodes": [],
        "heads": [[1, 0, 0]],
        "attrs": {"mxnet_version": ["int", 10901]},
    }
    with pytest.raises(RefusedError, match="has no input 0"):
        upgrade_graph(read_symbol(json.dumps(graph).encode()))
