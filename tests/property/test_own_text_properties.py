"""Files that were edited by hand: a rewrite that is undone gives the same bytes, and unchanged nodes keep theirs."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphshare.checkpoint.map_file import map_text, names_from_map, parse_map
from graphshare.checkpoint.model import Checkpoint
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.staging import find_differences
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Graph, Kept
from graphshare.rewrite.add_branches import add_branches
from graphshare.rewrite.extract_graph import extract_entries
from graphshare.rewrite.rename_nodes import plan_rename, rename_by_names
from graphshare.rewrite.tie import tie, untie
from tests.property.documents import documents
from tests.symbols import LAYOUTS, Document, document, mxnet_text, operator, two_layers, variable

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[][{},:]|[^][{},:"\s]+|\s+', re.DOTALL)
BLANKS = ["", " ", "\n", "\t", "\r\n", "  ", " \n      "]


def touched(text: str, seed: int, share: float) -> str:
    """JSON text with some of its white space and some characters of its strings written in another way."""
    stream = random.Random(seed)
    return "".join(
        _touch(match[0], stream) if stream.random() < share else match[0]
        for match in TOKEN.finditer(text)
    )


def _touch(token: str, stream: random.Random) -> str:
    if token.isspace():
        return stream.choice(BLANKS)
    if token[0] == '"' and len(token) > 2 and "\\" not in token and token.isascii():
        at = stream.randrange(1, len(token) - 1)
        escape = (
            "\\/"
            if token[at] == "/"
            else f"\\u{ord(token[at]):04x}"
            if stream.random() < 0.5
            else f"\\u{ord(token[at]):04X}"
        )
        return token[:at] + escape + token[at + 1 :]
    return (
        stream.choice(BLANKS) + token
        if token in "]}:,"
        else token + stream.choice(BLANKS)
        if token in "[{"
        else token
    )


def written(graph: Graph) -> bytes:
    data = b"".join(write_symbol(graph))
    assert not list(find_differences(data, graph))
    return data


def node_texts(data: bytes) -> list[str]:
    """The text of each node of a file."""
    text = data.decode()
    decoder = json.JSONDecoder(strict=False)
    at = re.search(
        r'"(?:n|\\u006[eE])(?:o|\\u006[fF])(?:d|\\u0064)(?:e|\\u0065)(?:s|\\u0073)"\s*:\s*\[\s*',
        text,
    )
    assert at is not None
    found, start = [], at.end()
    while text[start] != "]":
        end = decoder.raw_decode(text, start)[1]
        found.append(text[start:end])
        start = re.compile(r"[\s,]*").match(text, end).end()  # type: ignore[union-attr]
    return found


@given(found=documents(plain=True), layout=st.sampled_from(sorted(LAYOUTS)), seed=st.integers(0, 1 << 30),
       share=st.sampled_from([0.02, 0.3, 1.0]))  # fmt: skip
def test_a_prefix_that_comes_and_goes_leaves_every_byte(
    found: Document, layout: str, seed: int, share: float
) -> None:
    data = touched(LAYOUTS[layout](found), seed, share).encode()
    graph = read_symbol(data)
    assert written(graph) == data
    if not any(node.name for node in graph.nodes):
        return
    there = read_symbol(written(plan_rename(graph, prefix="x~~").graph))
    assert [n.name for n in there.nodes] == [n.name and "x~~" + n.name for n in graph.nodes]
    # What a program has written with its own escapes is given those that MXNet reads
    if layout.startswith("mxnet"):
        assert written(plan_rename(there, strip_prefix="x~~").graph) == data
    rewrite = plan_rename(graph, prefix="x~~")
    model = Checkpoint(
        rewrite.graph, data=data, rewrite=rewrite, sources=(Checkpoint(graph, data=data),)
    )
    names = names_from_map(parse_map(map_text(model).encode(), where="map"), there, inverse=True)
    back = rename_by_names(there, names, repeats=True).graph
    if layout.startswith("mxnet"):
        assert written(back) == data


@given(
    found=documents(plain=True),
    seed=st.integers(0, 1 << 30),
    share=st.sampled_from([0.02, 0.3, 1.0]),
)
def test_unchanged_nodes_keep_their_text(found: Document, seed: int, share: float) -> None:
    data = touched(mxnet_text(found), seed, share).encode()
    graph = read_symbol(data)
    if not graph.nodes or not graph.heads:
        return
    assert written(tie(graph, {}, {}).graph) == data
    assert written(untie(graph, ()).graph) == data
    own = node_texts(data)
    both = add_branches(graph, ["~~"], other_names=()).graph
    text = written(both)
    assert node_texts(text)[: len(own)] == own
    whole = extract_entries(graph, graph.heads)
    if isinstance(whole.branches[0].images, Kept) or whole.graph.nodes == graph.nodes:
        assert node_texts(written(whole.graph)) == own
    again = read_symbol(text)
    heads = again.heads[: len(graph.heads)]
    alone, direct = extract_entries(again, heads).graph, whole.graph
    assert node_texts(written(alone)) == node_texts(written(direct))


def mixed() -> str:
    """A graph with a head of three numbers among heads of two, as some converters write it."""
    nodes = [variable("data"), *(operator("relu", f"r{i}", [i]) for i in range(12))]
    return mxnet_text(document(nodes, [(i, 0) if i != 5 else (i, 0, 0) for i in range(1, 13)]))


PLAIN = mxnet_text(two_layers())
BY_HAND: dict[str, Callable[[], str]] = {
    "a head of three numbers": lambda: mixed().replace("[5, 0, 0]", "[5,0,0]"),
    "two lines without a blank": lambda: PLAIN.replace('"op": "null", \n', '"op": "null",\n', 2),
    "tabs": lambda: PLAIN.replace('      "name": "fc1"', '\t"name":\t"fc1"'),
    "escaped slash": lambda: PLAIN.replace('"fc1', '"scope\\/fc1'),
    "escaped letter": lambda: PLAIN.replace('"fc1_weight"', '"fc\\u0031_weight"').replace(
        "0.001", "0\\u002e001"
    ),
    "CRLF": lambda: PLAIN.replace("\n", "\r\n"),
    "CRLF in places": lambda: PLAIN.replace("\n", "\r\n", 7),
    "an entry on two lines": lambda: PLAIN.replace(
        "[[8, 0, 0], [9, 0, 0]]", "[[8,0,0] ,\n  [9, 0, 0]]"
    ),
    "a blank at the end": lambda: PLAIN + " \n",
    "a blank at the start": lambda: "\n " + PLAIN,
    "keys twice": lambda: PLAIN.replace('"name": "fc2"', '"name": "fc3", "name": "fc2"'),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_what_a_hand_has_touched_comes_back(case: str) -> None:
    data = BY_HAND[case]().encode()
    graph = read_symbol(data)
    there = read_symbol(written(plan_rename(graph, prefix="sha-").graph))
    assert written(graph) == data
    assert all(node.name.startswith("sha-") for node in there.nodes)
    assert written(plan_rename(there, strip_prefix="sha-").graph) == data
    assert written(extract_entries(graph, graph.heads).graph) == data


def test_names_that_change_wholly_and_ids_that_move_leave_the_rest() -> None:
    text = PLAIN.replace(
        '"op": "FullyConnected", \n      "name": "fc2"',
        '"op" : "FullyConnected",\n      "name": "fc2"',
    )
    text = text.replace("[[8, 0, 0], [9, 0, 0]]", "[[8,0,0], [9 ,0,0]]").replace(
        '"fc1"', '"f\\u00631"'
    )
    graph = read_symbol(text.encode())
    named = {node.name: node for node in graph.nodes}
    wholly = written(
        rename_by_names(graph, {named["fc2"]: "dense", named["fc1"]: "fc10"}).graph
    ).decode()
    assert wholly == text.replace('"name": "fc2"', '"name": "dense"').replace(
        '"f\\u00631"', '"f\\u006310"'
    )
    label = named["softmax_label"]
    cut = extract_entries(
        graph, [next(e for e in named["softmax"].inputs if e.node is not label)]
    ).graph
    assert '"op" : "FullyConnected",\n      "name": "fc2"' in written(cut).decode()
    moved = written(untie(graph, ()).graph)
    assert moved == text.encode()
    both = written(add_branches(graph, ["a-"]).graph).decode()
    assert "[[8,0,0], [9 ,0,0]]" in both
    assert "[[21, 0, 0], [22, 0, 0]]" in both
