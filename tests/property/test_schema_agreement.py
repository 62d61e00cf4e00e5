"""The typed decode and ``schemas/symbol.schema.json`` accept the same documents."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from graphshare.errors import InputError
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.symbol import read_symbol
from tests.property.documents import VALUES, documents
from tests.symbols import Document, siamese

_SCHEMA = json.loads(
    (Path(__file__).parents[2] / "schemas" / "symbol.schema.json").read_text(encoding="utf-8")
)
# For JSON Schema 1.0 is an integer; MXNet and the typed decode refuse it.
_CHECKER = Draft202012Validator.TYPE_CHECKER.redefine(
    "integer", lambda _, value: type(value) is int
)
VALIDATOR = extend(Draft202012Validator, type_checker=_CHECKER)(_SCHEMA)
WRONG = st.one_of(
    VALUES,
    st.sampled_from(
        [
            {},
            [],
            "",
            0,
            -1,
            1.0,
            2**32,
            [[]],
            [{}],
            [[0, 0]],
            [[0, 0, 0, 0]],
            {"a": "b"},
            {"a": 1},
            True,
            None,
        ]
    ),
)


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A document with one value somewhere replaced, taken out or put under a key where it does not belong."""
    found: Any = draw(documents())
    for _ in range(draw(st.integers(1, 2))):
        parent, key = draw(st.sampled_from(_places(found))) if _places(found) else (found, "nodes")
        action = draw(st.sampled_from(["replace", "remove", "add"]))
        if action == "remove":
            del parent[key]
        elif action == "replace" or isinstance(parent, list):
            # The samples are shared, and the next step may change this one
            parent[key] = deepcopy(draw(WRONG))
        else:
            parent[draw(st.sampled_from(_KEYS))] = deepcopy(draw(WRONG))
    return found


_KEYS = ["op", "name", "attrs", "attr", "param", "inputs", "control_deps", "subgraphs", "backward_source_id", "nodes",
         "arg_nodes", "node_row_ptr", "heads"]  # fmt: skip


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every parent and key in a document."""
    places: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        part = pending.pop()
        keys: Any = (
            part.keys()
            if isinstance(part, dict)
            else range(len(part))
            if isinstance(part, list)
            else ()
        )
        for key in list(keys):
            places.append((part, key))
            pending.append(part[key])
    return places


def links(found: Document) -> bool:
    """Whether every id leads somewhere, nothing goes round in circles, and ``arg_nodes`` are variables: by hand."""
    nodes = found["nodes"]
    needs = {
        i: [e[0] for e in node["inputs"]] + node.get("control_deps", [])
        for i, node in enumerate(nodes)
    }
    ids = (
        [i for listed in needs.values() for i in listed]
        + [e[0] for e in found["heads"]]
        + found["arg_nodes"]
    )
    if any(i >= len(nodes) for i in ids) or any(
        nodes[i]["op"] != "null" for i in found["arg_nodes"]
    ):
        return False
    while needs:
        ready = [i for i, listed in needs.items() if not any(j in needs for j in listed)]
        if not ready:
            return False
        for i in ready:
            del needs[i]
    return all(links(graph) for node in nodes for graph in node.get("subgraphs", []))


def deep(value: Any, level: int = 0) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return level > 60 or any(deep(part, level + 1) for part in parts)


@settings(max_examples=settings().max_examples * 4)
@given(found=damaged(), raw=st.booleans())
@example(found={**siamese(), "nodes": {}}, raw=False)
@example(found={"nodes": {}, "arg_nodes": [], "heads": []}, raw=False)
@example(found={**siamese(), "attrs": []}, raw=False)
def test_both_accept_the_same_documents(found: Any, raw: bool) -> None:
    text = json.dumps(found)
    if raw:  # a raw control character, so that the tolerant pass decides
        text = text[:-1] + ', "raw": "\x01"}' if text.startswith("{") and len(text) > 2 else text
        found = json.loads(text, strict=False)
    accepted = VALIDATOR.is_valid(found) and links(found)
    try:
        graph = read_symbol(text.encode())
    except InputError as error:
        assert not accepted, error
        assert error.faults
    else:
        assert accepted
        assert json.loads(b"".join(write_symbol(graph)), strict=False) == found
