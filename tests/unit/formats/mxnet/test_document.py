"""Bytes of symbol files before they are linked: how JSON begins, how deep it is, and what readers refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphshare.errors import InputError
from graphshare.formats.mxnet.document import (
    MAX_NESTING,
    begins_like_json,
    check_kinds,
    check_nesting,
    cut_nodes,
    is_tvm_graph,
)
from graphshare.formats.mxnet.symbol import building_order, read_symbol
from graphshare.formats.mxnet.tolerant import parse_tolerantly
from tests.symbols import operator, siamese, variable


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (b"", True),
        (b"\xef\xbb\xbf", True),
        (b"\xef\xbb\xbf {", True),
        (b" \n[", True),
        (b"{abc\0", True),
        (b"{ab\0", False),
        (b"\0{", False),
        (b" true ", True),
        (b"trueish", False),
        (b'"a"', True),
        (b'"a', False),
        (b"-1.5e+3", True),
        (b"12 34", False),
        (b"abc", False),
    ],
)
def test_json_is_known_by_its_start(start: bytes, expected: bool) -> None:
    assert begins_like_json(start) is expected


@pytest.mark.parametrize(
    "wrap", [lambda inner: [inner], lambda inner: {"a": inner}, lambda inner: (1, inner)]
)
def test_values_are_nested_so_deep_and_no_deeper(wrap: Any) -> None:
    value: Any = 1
    for _ in range(MAX_NESTING):
        value = wrap(value)
    check_nesting([1, "a", value])
    with pytest.raises(InputError, match="nested deeper than 64 levels"):
        check_nesting([1, wrap(value)])


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({}, ""),
        ({"nodes": {}}, "nodes"),
        ({"arg_nodes": [[0]]}, "arg_nodes"),
        ({"arg_nodes": {}}, "arg_nodes"),
        ({"node_row_ptr": [True]}, "node_row_ptr"),
        ({"node_row_ptr": []}, ""),
        ({"heads": 5}, "heads"),
        ({"attrs": []}, "attrs"),
        ({"unknown": [{}]}, ""),
    ],
)
def test_a_key_of_the_graph_has_a_value_of_its_kind(changes: dict[str, Any], key: str) -> None:
    graph_object = {**siamese(), **changes}
    if not key:
        check_kinds(graph_object)
        return
    with pytest.raises(TypeError, match=key):
        check_kinds(graph_object)


def test_only_attributes_and_unknown_keys_may_be_too_deep() -> None:
    deep: Any = 1
    for _ in range(MAX_NESTING + 1):
        deep = [deep]
    check_kinds({"nodes": [deep], "heads": [deep]})  # the typed decode has refused these
    for key in ("attrs", "unknown"):
        with pytest.raises(InputError, match="nested deeper"):
            check_kinds({key: {"a": deep}})


@pytest.mark.parametrize(
    ("text", "start", "end", "rest"),
    [
        ("[{a},{b}]", 1, 4, "[{b}]"),
        ("[{a} ,\n {b}]", 1, 4, "[{b}]"),
        ("[{a}]", 1, 4, "[]"),
        ("[{a} ]", 1, 4, "[]"),
        ("[{a},]", 1, 4, None),
        ("[{a}{b}]", 1, 4, None),
        ("[{a},5]", 1, 4, None),
    ],
)
def test_nodes_are_cut_out_with_the_comma_behind_them(
    text: str, start: int, end: int, rest: str | None
) -> None:
    if rest is not None:
        assert cut_nodes(text.encode(), start, end) == rest.encode()
        return
    with pytest.raises(ValueError, match="no node ends there"):
        cut_nodes(text.encode(), start, end)


@pytest.mark.parametrize(
    ("graph_object", "ops", "expected"),
    [
        ({"attrs": {"dltype": []}}, [], True),
        ({"attrs": {"storage_id": []}}, ["relu"], True),
        ({"attrs": {"mxnet_version": []}}, ["relu"], False),
        ({"attrs": ["dltype"]}, [], False),
        ({}, ["relu", "tvm_op"], True),
        ({}, [], False),
    ],
)
def test_a_graph_of_tvm_is_known_by_its_attributes_or_operators(
    graph_object: dict[str, Any], ops: list[str], expected: bool
) -> None:
    assert is_tvm_graph(graph_object, ops) is expected


TEXT = json.dumps(siamese())


@pytest.mark.parametrize(
    ("data", "message", "place", "hint"),
    [
        (b"\xef\xbb\xbf{}", "starts with a byte order mark; MXNet refuses it too", "byte 0", "without BOM"),
        (b" \n", "is empty", "", "a symbol file is a JSON object"),
        (TEXT.encode().replace(b"data", b"d\xffta"), "is not UTF-8: invalid start byte", "byte ", "UTF-8"),
        (TEXT.encode() + b" x", "has trailing bytes after the graph", f"line 1 column {len(TEXT) + 2}", "remove what follows"),
        (TEXT[:-1].encode() + b" ", "ends inside the graph: the file is truncated", "line 1 column ", "fetch or save"),
        (TEXT[:30].encode(), "ends inside the graph: the file is truncated", "line 1 column ", "fetch or save"),
        (b'{"nodes": \'x\'}', "is not JSON: Expecting value", "line 1 column 11", "strings of JSON have double quotes"),
        (b"{'nodes': 1}", "is not JSON: Expecting property name enclosed in double quotes", "line 1 column 2", "double quotes"),
        (b'{"nodes": ]}', "is not JSON: Expecting value", "line 1 column 11", ""),
        (b'{"nodes": NaN}', "is not JSON: NaN is not a JSON value", "", ""),
        (b'{"nodes": [1e999]}', "is not JSON: the number 1e999 is out of range", "", ""),
        (b'{"nodes": [-1e999]}', "is not JSON: the number -1e999 is out of range", "", ""),
        (b'{"error": "x"}', "is an error message from a server (JSON), not a symbol file", "", "the download"),
        (b'{"nodes": ' + b"[" * 100_000, "is nested far deeper than any symbol file", "", ""),
    ],
)  # fmt: skip
def test_a_text_that_is_no_graph_is_explained(
    data: bytes, message: str, place: str, hint: str
) -> None:
    with pytest.raises(InputError) as caught:
        parse_tolerantly(data)
    (fault,) = caught.value.faults
    assert fault.message == message
    assert (fault.path or "").startswith(place)
    assert hint in fault.hint
    assert bool(fault.hint) is bool(hint)


def test_half_a_character_is_named_with_its_place() -> None:
    found = siamese()
    found["nodes"][0]["name"] = "a\ud800"
    found["attrs"]["\udfff"] = ["x", {"y": "\udc00"}]
    with pytest.raises(InputError) as caught:
        read_symbol(json.dumps(found).encode())
    assert {fault.path for fault in caught.value.faults} == {
        "$.nodes[0].name",
        "$.attrs.\udfff",
        "$.attrs.\udfff[1].y",
    }
    names = [fault.message for fault in caught.value.faults if fault.path == "$.nodes[0].name"]
    assert names == ["'a\\ud800' holds half a character (\\uD800 to \\uDFFF)"]
    found = siamese()
    found["nodes"][0]["name"] = "a\U0001f600\ue000\ud7ff"
    assert read_symbol(json.dumps(found).encode()).nodes[0].name == "a\U0001f600\ue000\ud7ff"


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (1, [0]),
        (8, [0, 7, 6, 5, 4, 3, 2, 1]),
        (9, [0, 8, 7, 6, None, 3, 2, 1]),
        (12, [0, 11, 10, 9, None, 3, 2, 1]),
    ],
)
def test_a_cycle_is_shown_as_a_path(count: int, shown: list[int | None]) -> None:
    records = [operator("relu", f"r{i}" if i else "", [(i - 1) % count]) for i in range(count)]
    with pytest.raises(InputError) as caught:
        building_order(records)
    (fault,) = caught.value.faults
    names = [
        f"... {count - 7} more ..." if i is None else f"{f'r{i}' if i else 'relu'} (node {i})"
        for i in [*shown, 0]
    ]
    assert fault.message == f"needs its own output: {' <- '.join(names)}"
    assert (fault.path, fault.node) == ("$.nodes[0].inputs", "")


def test_every_id_that_is_out_of_range_is_named() -> None:
    nodes = [
        variable("x"),
        operator("relu", "r", [0, 2], control_deps=[3]),
        operator("relu", "s", [1]),
    ]
    found = {"nodes": nodes, "arg_nodes": [0, 1, 9], "heads": [[3, 0, 0], [2, 0, 0]]}
    with pytest.raises(InputError) as caught:
        read_symbol(json.dumps(found).encode())
    assert [(fault.path, fault.node, fault.message) for fault in caught.value.faults] == [
        ("$.nodes[1].control_deps[0]", "r", "refers to node 3, but the graph has 3 nodes"),
        ("$.arg_nodes[2]", None, "refers to node 9, but the graph has 3 nodes"),
        ("$.arg_nodes[1]", "r", "refers to node 1, which is an operator (relu)"),
        ("$.heads[0]", None, "refers to node 3, but the graph has 3 nodes"),
    ]
