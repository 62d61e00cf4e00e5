"""Symbol files of any kind come back as they were: to the byte where the layout is a known one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.staging import find_differences
from graphshare.formats.mxnet.symbol import read_symbol
from tests.property.documents import documents
from tests.symbols import LAYOUTS, Document
from tests.validate import validate


def rewritten(data: bytes) -> bytes:
    return b"".join(write_symbol(read_symbol(data)))


def ordered(text: str | bytes) -> Any:
    """JSON with the order of keys: two texts are equal when they say the same in the same order."""
    return json.loads(text, object_pairs_hook=list, strict=False)


@pytest.mark.parametrize("layout", LAYOUTS)
@given(found=documents(), crlf=st.booleans())
def test_every_known_layout_comes_back_to_the_byte(
    layout: str, found: Document, crlf: bool
) -> None:
    text = LAYOUTS[layout](found)
    if crlf and layout.startswith("indent"):
        text = text.replace("\n", "\r\n")
    assert rewritten(text.encode()) == text.encode()


@given(found=documents(), indent=st.sampled_from([None, 0, 3, "\t"]), colon=st.sampled_from([":", " : ", ":\t"]),
       comma=st.sampled_from([",", " ,", ",  "]), before=st.sampled_from(["", " \n"]), ascii_only=st.booleans())  # fmt: skip
def test_any_other_layout_says_the_same_in_the_same_order(
    found: Document, indent: Any, colon: str, comma: str, before: str, ascii_only: bool
) -> None:
    text = before + json.dumps(
        found, indent=indent, separators=(comma, colon), ensure_ascii=ascii_only
    )
    assert ordered(rewritten(text.encode())) == ordered(text)


@given(found=documents())
def test_what_was_written_reads_back_as_the_graph(found: Document) -> None:
    data = LAYOUTS["mxnet"](found).encode()
    graph = read_symbol(data)
    assert not list(find_differences(data, graph))
    assert not [
        fault
        for fault in validate(graph)
        if "not in the graph" in fault.message or "same node" in fault.message
    ]


@given(found=documents(), duplicate=st.sampled_from(["heads", "nodes", "arg_nodes"]))
def test_of_keys_given_twice_the_last_counts(found: Document, duplicate: str) -> None:
    once = json.dumps(found)
    twice = f"{{{json.dumps(duplicate)}: [], {once[1:]}"
    assert json.loads(rewritten(twice.encode())) == found
