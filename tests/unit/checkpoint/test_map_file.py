"""One reader of map files: by node ids, or a plain object of old names and new ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import graphshare as gs
from graphshare.checkpoint.map_file import (
    MapEntry,
    MapFile,
    NodeFinder,
    Place,
    describe_rewrite,
    map_text,
    names_from_map,
    parse_map,
    read_map,
    read_stored_names,
)
from graphshare.errors import InputError
from graphshare.ir.graph import Entry, Graph, Node
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
    assert {entry["how"] for entry in json.loads((tmp_path / "m").read_text())["entries"]} == {
        "kept"
    }


def test_a_plain_object_is_a_map_by_name() -> None:
    map_file = parse_map(b'{"conv1": "first"}', "m")
    assert map_file.by_name
    graph = gs.load(LENET).graph
    assert [(node.name, new) for node, new in names_from_map(map_file, graph).items()] == [
        ("conv1", "first")
    ]


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
    entry: dict[str, Any] = {
        "branch": "",
        "graph": 0,
        "from": {"id": 0, "name": "data"},
        "to": {"id": 0, "name": "x"},
    }
    text = json.dumps({"version": 1, "entries": [entry], "by_name": True, "where": "elsewhere"})
    map_file = parse_map(text.encode(), "m")
    assert (map_file.by_name, map_file.where) == (False, "m")


def test_a_map_of_another_graph_is_refused(tmp_path: Path) -> None:
    gs.save(gs.duplicate(LENET, "b-", drop_original=True), tmp_path / "two", map=tmp_path / "m")
    with pytest.raises(gs.GraphshareError, match="the graph does not have"):
        gs.rename(gs.extract(LENET, "pool1"), map=tmp_path / "m")


@pytest.mark.parametrize(
    "settings",
    [{}, {"mode": "tie"}, {"drop_original": True}, {"upto": ["fc1"]}, {"prefixes": ['ä"-']}],
)
def test_the_text_of_a_map_is_that_of_its_plain_data(settings: dict[str, Any]) -> None:
    model = gs.duplicate(gs.load(ROOT / "fixtures/lenet"), **{"prefixes": ["b-", "c-"], **settings})
    expected = (
        msgspec.json.format(msgspec.json.encode(describe_rewrite(model)), indent=2).decode() + "\n"
    )
    assert map_text(model) == expected


def test_the_texts_of_a_rename_and_of_an_onnx_model_are_those_of_their_plain_data() -> None:
    for model in (
        gs.rename(gs.load(ROOT / "fixtures/lenet"), prefix="x-"),
        gs.load(ROOT / "fixtures/small.onnx"),
    ):
        assert json.loads(map_text(model)) == describe_rewrite(model)


def test_a_map_of_a_later_version_is_refused_by_its_number() -> None:
    assert parse_map(b'{"version": 1, "sources": [], "entries": []}', "a.json").entries == []
    with pytest.raises(
        InputError, match=r"is a map of version 2, and this graphshare reads version 1"
    ):
        parse_map(b'{"version": 2, "sources": [], "entries": []}', "a.json")


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("2", "version 2,"),
        ("123456789", "version 123456789,"),
        ("12345678901", "version 123456789,"),
        ("1", ""),
        ("-2", ""),
    ],
)
def test_nine_digits_of_a_version_decide(version: str, words: str) -> None:
    text = f'{{"version": {version}, "entries": []}}'.encode()
    if not words:
        assert parse_map(text, "a.json").entries == []
        return
    with pytest.raises(InputError, match=f"is a map of {words}"):
        parse_map(text, "a.json")


def chain(*names: str) -> Graph:
    """A variable, and operators one behind the other."""
    nodes = [Node("", names[0], num_outputs=1)]
    for name in names[1:]:
        nodes.append(Node("relu", name, {}, (Entry(nodes[-1]),), 1))
    return Graph(tuple(nodes), (Entry(nodes[-1]),))


def make_map(*entries: tuple[int | None, str, int | None, str | None, str]) -> MapFile:
    return MapFile(
        [
            MapEntry(Place(id_, old), None if new is None else Place(at, new), branch)
            for id_, old, at, new, branch in entries
        ],
        where="m",
    )


def test_a_map_by_ids_renames_forwards_and_backwards() -> None:
    old, new = chain("x", "a", "a"), chain("x", "b", "c")
    map_file = make_map(
        (0, "x", 0, "x", ""), (1, "a", 1, "b", ""), (2, "a", 2, "c", ""), (None, "w", None, "v", "")
    )
    assert list(names_from_map(map_file, old).values()) == ["x", "b", "c"]
    assert list(names_from_map(map_file, new, inverse=True).values()) == ["x", "a", "a"]


@pytest.mark.parametrize(
    ("entries", "inverse", "faults"),
    [
        ([(0, "x", None, None, ""), (1, "a", 0, "b", "")], False, []),
        ([(0, "x", None, None, ""), (1, "b", 1, "a", "")], True,
         ["$.entries[0]: is a node that was dropped, and a rename cannot bring it back"]),
        ([(7, "z", 0, "b", "")], False, ["$.entries[0].from: names node 7 'z', which the graph does not have"]),
        ([(0, "b", 7, "z", "")], True, ["$.entries[0].to: names node 7 'z', which the graph does not have"]),
        ([(0, "x", 0, "b", ""), (0, "x", 0, "b", "")], False, []),
        ([(0, "x", 0, "b", ""), (0, "x", 0, "c", "")], False, ["$.entries[1].from: gives node 0 two names"]),
        ([(0, "b", 0, "x", ""), (1, "b", 0, "x", "")], True, ["$.entries[1].to: gives node 0 two names"]),
        ([(0, "x", 0, "b", ""), (1, "a", 1, "c", "p")], False, [": is the map of 2 branches ('', 'p')"]),
    ],
)  # fmt: skip
def test_every_entry_that_does_not_fit_is_named(
    entries: list[Any], inverse: bool, faults: list[str]
) -> None:
    graph = chain("x", "a")
    if not faults:
        assert names_from_map(make_map(*entries), graph, inverse=inverse)
        return
    with pytest.raises(InputError) as caught:
        names_from_map(make_map(*entries), graph, inverse=inverse)
    assert [f"{fault.path or ''}: {fault.message}" for fault in caught.value.faults] == faults
    assert {fault.where for fault in caught.value.faults} == {"m"}


def test_a_map_by_names_has_an_inverse_where_new_names_differ() -> None:
    graph = chain("x", "a", "a")
    map_file = parse_map(b'{"a": "b", "x": "y"}', "m")
    assert list(names_from_map(map_file, graph).values()) == ["b", "b", "y"]
    assert [node.name for node in names_from_map(map_file, chain("y", "b"), inverse=True)] == [
        "b",
        "y",
    ]
    with pytest.raises(InputError, match="m: gives the name 'b' more than once"):
        names_from_map(parse_map(b'{"a": "b", "x": "b"}', "m"), graph, inverse=True)
    with pytest.raises(InputError) as caught:
        names_from_map(parse_map(b'{"x": "y", "gone": "b", "aa": "c"}', "m"), graph)
    assert [fault.message for fault in caught.value.faults] == [
        f"the graph has no node named {name!r}" for name in ("gone", "aa")
    ]
    assert "'a'" in caught.value.faults[1].hint
    with pytest.raises(InputError, match="names 'a' more than once"):
        parse_map(b'{"a": "b", "c": "d", "a": "e"}', "m")


@pytest.mark.parametrize("inverse", [False, True])
def test_names_of_outputs_are_those_of_a_node_with_as_many(inverse: bool) -> None:
    graph = chain("x", "a", "b")

    def stored(
        id_: int | None, name: str, outputs: list[str] | None
    ) -> list[tuple[str, tuple[str, ...], str]]:
        own, other = Place(id_, name, [], "m"), Place(1, "new", outputs, "l")
        entry = MapEntry(other, own) if inverse else MapEntry(own, other)
        found = read_stored_names(MapFile([entry, MapEntry(own, None)]), {}, graph, inverse=inverse)
        return [(node.name, names.outputs, names.label) for node, names in found.items()]

    assert stored(1, "a", []) == [("a", (), "l")]
    assert stored(7, "b", []) == [("b", (), "l")]
    assert [
        stored(1, "a", ["y"]),
        stored(1, "gone", []),
        stored(None, "a", []),
        stored(1, "a", None),
    ] == [[]] * 4


def test_only_names_that_need_no_escape_are_written_without_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both ways give one text; only the usual one is fast."""
    model = gs.load(LENET)
    text = map_text(model)
    monkeypatch.setattr(
        "graphshare.checkpoint.map_file.describe_rewrite", lambda model: {"other": 1}
    )
    assert map_text(model) == text
    assert map_text(gs.rename(model, prefix='"')) == '{\n  "other": 1\n}\n'
