"""One walk over the whole corpus: graphs read, written back, duplicated, listed and upgraded; parameter files read.

Everyday it is a part of the graphs.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from graphshare.api.duplicate import duplicate
from graphshare.api.inspect import inspect
from graphshare.errors import GraphshareError
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.formats.params.format import read_index
from graphshare.ir.graph import Graph
from graphshare.rewrite.upgrade_graph import upgrade_graph
from tests.surroundings import pick_everyday

pytestmark = pytest.mark.corpus


def written(graph: Graph) -> bytes:
    return b"".join(write_symbol(graph))


def ordered(data: bytes) -> str:
    """The JSON value with its order of keys, and without its layout."""
    return json.dumps(json.loads(data, strict=False))


def is_in_one_of_our_layouts(data: bytes) -> bool:
    """Whether the text is MXNet's present layout or one of json.dumps, by a writer of its own (and
    not the one under test).
    """
    value = json.loads(data, strict=False)
    dumped = {
        json.dumps(value),
        json.dumps(value, separators=(",", ":")),
        *(json.dumps(value, indent=n) for n in range(1, 9)),
    }
    if data.decode().rstrip() in dumped:
        return True
    text = data.decode()
    # MXNet's: a blank behind every comma at a line's end, none at the end of any other line, lists
    # broken from eleven on.
    return text.startswith('{\n  "nodes": [\n    {\n      "op": ') and not re.search(
        r",\n|[^,] \n|\r", text
    )


def branches_equal(rewrite_of: bytes, source: bytes, prefix: str) -> bool:
    """On the level of JSON: the first half is the source, the second the same with prefixed names and shifted ids."""
    both, single = json.loads(rewrite_of, strict=False), json.loads(source, strict=False)
    count = len(single["nodes"])
    if both["nodes"][:count] != single["nodes"] or len(both["nodes"]) != 2 * count:
        return False
    for node, copy in zip(single["nodes"], both["nodes"][count:], strict=True):
        moved = [[entry[0] + count, *entry[1:]] for entry in node["inputs"]]
        wanted = {**node, "name": prefix + node["name"] if node["name"] else "", "inputs": moved}
        if copy != wanted:
            return False
    heads = [[entry[0] + count, *entry[1:]] for entry in single["heads"]]
    return bool(both["heads"] == [*single["heads"], *heads])


def walk_graph(
    path: Path, answers: dict[str, Any], recorded: Path, counts: Counter[str]
) -> list[str]:
    """What of one graph is not as it should be."""
    data, wrong = path.read_bytes(), []
    graph = read_symbol(data, where=path.name)
    again = written(graph)
    if again == data:
        counts["graphs written back to the same bytes"] += 1
    elif not is_in_one_of_our_layouts(data) and ordered(again) == ordered(data):
        counts["graphs written back JSON-equal (laid out by hand)"] += 1
    else:
        wrong.append("is not written back")
    if branches_equal(written(duplicate(graph, ["sha-"]).graph), data, "sha-"):
        counts["graphs duplicated"] += 1
    else:
        wrong.append("is not duplicated")
    if answers["loads"]:
        found = inspect(graph)
        for name in ("arguments", "auxiliary_states", "outputs"):
            if getattr(found, name) != answers[name]:
                wrong.append(f"lists other {name}")
        counts["graphs listed as MXNet lists them"] += not wrong
        if written(upgrade_graph(graph).graph) != recorded.read_bytes():
            wrong.append("is not upgraded to MXNet's bytes")
        counts["graphs upgraded to MXNet's bytes"] += not wrong
    else:
        try:
            upgrade_graph(graph)
            wrong.append("is upgraded although MXNet refuses it")
        except GraphshareError as error:
            counts["graphs refused by upgrade as by MXNet"] += 1
            if not all(fault.node is not None for fault in error.faults):
                wrong.append("is refused without naming the node")
    return [f"{path.name} {what}" for what in wrong]


def walk_params(path: Path, answers: dict[str, Any], counts: Counter[str]) -> list[str]:
    """What of one parameter file's index is not as recorded; its bytes are looked at in ``test_params_corpus.py``."""
    found = read_index(path)
    recorded = answers["arrays"]
    wrong = (
        []
        if len(recorded) == len(found.records)
        else [f"{path.name} holds {len(found.records)} arrays, not {len(recorded)}"]
    )
    for record, wanted in zip(found.records, recorded, strict=False):
        if list(record.shape or ()) != list(wanted["shape"]) or record.dtype != wanted["dtype"]:
            wrong.append(
                f"{path.name}: {record.key} reads as {record.shape} {record.dtype}, not {wanted}"
            )
    counts["parameter files read as MXNet reads them"] += not wrong
    return wrong


def test_whole_corpus(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[str] = Counter()
    wrong = []
    for path in pick_everyday(
        sorted((corpus / "graphs").glob("*.json")), 5, lambda path: path.name
    ):
        counts["graphs"] += 1
        answers = json.loads((corpus / "oracle" / f"{path.stem}.meta.json").read_text())
        wrong += walk_graph(path, answers, corpus / "oracle" / f"{path.stem}.tojson.json", counts)
    for path in sorted((corpus / "params").iterdir()):
        counts["parameter files"] += 1
        wrong += walk_params(
            path, json.loads((corpus / "params_oracle" / f"{path.name}.json").read_text()), counts
        )
    with capsys.disabled():
        print("\n" + "\n".join(f"{count:5} {what}" for what, count in counts.items()))
    assert not wrong, "\n".join(wrong)
    assert counts["graphs"] > 0
    assert counts["parameter files"] > 0
