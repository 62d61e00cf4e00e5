"""One reader of map files: by node ids, or a plain object of old names and new ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import graphshare as gs
from graphshare.checkpoint.map_file import NodeFinder, Place, describe_rewrite, map_text, names_from_map, parse_map, read_map
from graphshare.errors import InputError
from graphshare.ir.graph import Graph, Node
from tests.surroundings import ROOT

LENET = ROOT / "fixtures" / "lenet"


@pytest.mark.parametrize(
    ("id_", "name", "position"),
    [(0, "a", 0), (1, "a", 1), (2, "b", 2), (None, "b", 2), (None, "a", None), (0, "b", 2), (2, "a", None), (3, "b", 2),
     (-1, "b", 2), (-1, "a", None), (None, "c", None)],
)  # fmt: skip
def test_a_place_is_found_by_its_id_where_the_name_is_there_and_else_by_a_unique_name(
    id_: int | None, name: str, position: int | None
) -> None:
    nodes = (Node("", "a"), Node("", "a"), Node("", "b"))
    found = NodeFinder(Graph(nodes, ())).find(Place(id_, name))
    assert found is (None if position is None else nodes[position])


def test_the_map_of_a_duplicate_is_read_back(tmp_path: Path) -> None:
    gs.save(gs.duplicate(LENET, "b-"), tmp_path / "two", map=tmp_path / "m")
    map_file = read_map(tmp_path / "m")
    assert not map_file.by_name
    assert [entry.branch for entry in map_file.entries] == [""] * 31 + ["b-"] * 31
    assert {entry.graph for entry in map_file.entries} == {0}
    assert repr(map_file).endswith(", 62 nodes>")


def test_a_model_that_was_not_rewritten_has_the_map_of_itself(tmp_path: Path) -> None:
    gs.save(gs.load(LENET), tmp_path / "one", map=tmp_path / "m")
    assert {entry["how"] for entry in json.loads((tmp_path / "m").read_text())["entries"]} == {"kept"}


def test_a_plain_object_is_a_map_by_name() -> None:
    map_file = parse_map(b'{"conv1": "first"}', "m")
    assert map_file.by_name
    graph = gs.load(LENET).graph
    assert [(node.name, new) for node, new in names_from_map(map_file, graph).items()] == [("conv1", "first")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a map"),
        ("[]", "is not a map"),
        ('{"a": 1}', "is not a map"),
        ('{"version": 1, "entries": 3}', "is not a map"),
        ('{"a": ' + "[" * 100_000, "is not a map"),
        ('{"a": "b", "a": "c"}', "more than once"),
    ],
)
def test_what_is_not_a_map_is_refused(text: str, message: str) -> None:
    with pytest.raises(gs.GraphshareError, match=message) as caught:
        parse_map(text.encode(), "m.json")
    assert caught.value.faults[0].where == "m.json"


def test_keys_of_a_map_cannot_change_how_it_is_read() -> None:
    entry: dict[str, Any] = {"branch": "", "graph": 0, "from": {"id": 0, "name": "data"}, "to": {"id": 0, "name": "x"}}
    text = json.dumps({"version": 1, "entries": [entry], "by_name": True, "where": "elsewhere"})
    map_file = parse_map(text.encode(), "m")
    assert (map_file.by_name, map_file.where) == (False, "m")


def test_a_map_of_another_graph_is_refused(tmp_path: Path) -> None:
    gs.save(gs.duplicate(LENET, "b-", drop_original=True), tmp_path / "two", map=tmp_path / "m")
    with pytest.raises(gs.GraphshareError, match="the graph does not have"):
        gs.rename(gs.extract(LENET, "pool1"), map=tmp_path / "m")


@pytest.mark.parametrize("settings", [{}, {"mode": "tie"}, {"drop_original": True}, {"upto": ["fc1"]}, {"prefixes": ['ä"-']}])
def test_the_text_of_a_map_is_that_of_its_plain_data(settings: dict[str, Any]) -> None:
    model = gs.duplicate(gs.load(ROOT / "fixtures/lenet"), **{"prefixes": ["b-", "c-"], **settings})
    expected = msgspec.json.format(msgspec.json.encode(describe_rewrite(model)), indent=2).decode() + "\n"
    assert map_text(model) == expected


def test_the_texts_of_a_rename_and_of_an_onnx_model_are_those_of_their_plain_data() -> None:
    for model in (gs.rename(gs.load(ROOT / "fixtures/lenet"), prefix="x-"), gs.load(ROOT / "fixtures/small.onnx")):
        assert json.loads(map_text(model)) == describe_rewrite(model)


def test_a_map_of_a_later_version_is_refused_by_its_number() -> None:
    assert parse_map(b'{"version": 1, "sources": [], "entries": []}', "a.json").entries == []
    with pytest.raises(InputError, match=r"is a map of version 2, and this graphshare reads version 1"):
        parse_map(b'{"version": 2, "sources": [], "entries": []}', "a.json")
