"""Large files in MXNet's layout: decoded piece by piece, and the text of nodes that stay is copied."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks import sources
from graphshare.api.duplicate import duplicate
from graphshare.errors import InputError
from graphshare.formats.mxnet import document, staging
from graphshare.formats.mxnet.format import MxnetLayout
from graphshare.formats.mxnet.layout import NodeTexts, reuse_text, write_symbol
from graphshare.formats.mxnet.source import get_source, restyle
from graphshare.formats.mxnet.staging import find_differences
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Graph, Node
from graphshare.progress import progress_listener
from graphshare.rewrite.rename_nodes import plan_rename
from tests import symbols
from tests.listener import Recorder


def written(graph: Graph) -> bytes:
    return b"".join(write_symbol(graph))


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A file that counts as large here, of some 60 pieces."""
    monkeypatch.setattr(document, "_CHUNK", 1000)
    return sources.chain(301, tmp_path / "chain.json").read_bytes()


def test_a_large_file_is_read_as_a_small_one(large: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = read_symbol(large)
    assert get_source(graph).nodes_text is not None
    assert get_source(graph).nodes_text.count == len(graph.nodes) == 301
    monkeypatch.setattr(document, "_CHUNK", 1 << 30)
    small = read_symbol(large)
    assert get_source(small).nodes_text is None
    assert [(n.op, n.name, n.attrs, len(n.inputs), n.num_outputs) for n in graph.nodes] == [
        (n.op, n.name, n.attrs, len(n.inputs), n.num_outputs) for n in small.nodes
    ]
    assert written(graph) == written(small) == large


@pytest.mark.parametrize("key", ["backward_source_id", "unknown"])
def test_a_large_file_with_other_keys_is_read_piece_by_piece_too(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "_CHUNK", 1000)
    nodes = [symbols.variable("x"), *(symbols.operator("relu", f"r{i}", [i]) for i in range(60))]
    nodes[40][key] = -1
    text = symbols.mxnet_text(symbols.document(nodes, [60])).encode()
    graph = read_symbol(text)
    copied = get_source(graph).nodes_text
    assert copied is not None
    assert copied.count == len(graph.nodes) == 61
    assert written(graph) == text


def test_a_copy_beside_it_is_written_as_if_everything_were_formatted(large: bytes) -> None:
    both = duplicate(read_symbol(large), ["sha-"]).graph
    assert get_source(both).nodes_text is not None
    formatted = written(restyle(both))
    assert written(both) == formatted
    assert json.loads(formatted)["nodes"][301]["name"] == "sha-data"
    assert not list(find_differences(formatted, both))


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"fc7"', b'"fc8"'), (b'"sha-fc7"', b'"sha-fc8"'), (b"[[9, 0, 0]", b"[[8, 0, 0]")],
)
def test_a_changed_byte_is_found_in_the_copied_text_and_behind_it(
    large: bytes, old: bytes, new: bytes
) -> None:
    both = duplicate(read_symbol(large), ["sha-"]).graph
    text = written(both)
    assert old in text
    assert list(find_differences(text.replace(old, new, 1), both))


def test_missing_and_surplus_nodes_are_found(large: bytes) -> None:
    both = duplicate(read_symbol(large), ["sha-"]).graph
    source = read_symbol(large)
    assert list(find_differences(written(source), both))
    assert list(find_differences(written(both), source))


@pytest.mark.parametrize("chunk", [1, 7, 512])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            '"op": "FullyConnected", \n      "name": "sha-fc40"',
            '"op": "Convolution", \n      "name": "sha-fc40"',
        ),
        ('"name": "sha-fc40"', '"name": "sha-fc41"'),
        ('"act_type": "relu"', '"act_type": "tanh"'),
        ("[[421, 0, 0], [422, 0, 0]]", "[[422, 0, 0], [421, 0, 0]]"),
        ("[[421, 0, 0], [422, 0, 0]]", "[[421, 0, 0]]"),
        ("[[421, 0, 0], [422, 0, 0]]", "[[421, 0, 0], [422, 0, 0], [421, 0, 0]]"),
        ("[[421, 0, 0], [422, 0, 0]]", "[[421, 1, 0], [422, 0, 0]]"),
        ("[[421, 0, 0], [422, 0, 0]]", "[[421, 0, 1], [422, 0, 0]]"),
        ("[[421, 0, 0], [422, 0, 0]]", "[[421, 0], [422, 0, 0]]"),
        ("[[421, 0, 0], [422, 0, 0]]", "[[421, 0, 0], [999, 0, 0]]"),
        ('"heads": [[300, 0, 0]', '"heads": [[301, 0, 0]'),
    ],
)
def test_each_field_of_a_written_node_counts(
    large: bytes, old: str, new: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "CHUNK", chunk)  # inputs that are compared at a time
    both = duplicate(read_symbol(large), ["sha-"]).graph
    text = written(both)
    assert staging._are_plain_records_equal(text, both)
    at = text.rindex(old.encode())
    changed = text[:at] + new.encode() + text[at + len(old) :]
    assert not staging._are_plain_records_equal(changed, both)


@pytest.mark.parametrize(
    "part", [{"subgraphs": (Graph((), ()),)}, {"control_deps": (Node("", "x"),)}]
)
def test_subgraphs_and_control_dependencies_need_more_than_plain_records(
    large: bytes, part: dict[str, Any]
) -> None:
    graph = restyle(read_symbol(large))
    other = msgspec.structs.replace(graph.nodes[-1], **part)
    assert not staging._are_plain_records_equal(
        large, msgspec.structs.replace(graph, nodes=(*graph.nodes[:-1], other))
    )


def test_text_is_not_copied_where_the_layout_or_a_name_changes(large: bytes) -> None:
    graph = read_symbol(large)
    assert get_source(MxnetLayout().relayout(graph, None)).nodes_text is None
    assert get_source(MxnetLayout().relayout(graph, "compact")).nodes_text is None
    assert get_source(duplicate(graph, ["a-", "b-"], drop_original=True).graph).nodes_text is None


def test_escapes_that_mxnet_cannot_read_stay_until_the_file_is_formatted(large: bytes) -> None:
    escaped = large.replace(b'"name": "fc7"', b'"name": "f\\u00637"', 1)
    graph = read_symbol(escaped)
    assert get_source(graph).nodes_text is None
    assert written(graph) == escaped
    assert written(MxnetLayout().relayout(graph, None)) == large
    there = read_symbol(written(plan_rename(graph, prefix="sha-").graph))
    assert (
        there.nodes[escaped[: escaped.index(b"f\\u00637")].count(b'"name"') - 1].name == "sha-fc7"
    )
    assert written(plan_rename(there, strip_prefix="sha-").graph) == escaped


def test_a_line_laid_out_by_hand_survives_a_duplicate(large: bytes) -> None:
    odd = large.replace(
        b'"op": "Activation", \n      "name": "act7"',
        b'"op":  "Activation",\n      "name": "act7"',
        1,
    )
    assert odd != large
    both = duplicate(read_symbol(odd), ["sha-"]).graph
    text = written(both)
    assert text.startswith(odd[: odd.index(b'  "arg_nodes"') - 8])
    assert not list(find_differences(text, both))
    there = read_symbol(written(plan_rename(read_symbol(odd), prefix="sha-").graph))
    assert written(plan_rename(there, strip_prefix="sha-").graph) == odd


@pytest.mark.parametrize("layout", symbols.LAYOUTS)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_nodes_that_stay_are_formatted_once_in_every_layout(
    layout: str, newline: str, large: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "_CHUNK", 1 << 30)
    data = symbols.LAYOUTS[layout](json.loads(large)).replace("\n", newline).encode()
    both = duplicate(read_symbol(data), ["sha-"]).graph
    formatted, format_nodes = list[int](), NodeTexts.nodes

    def count(self: NodeTexts, nodes: Sequence[Node]) -> list[str]:
        formatted.append(len(nodes))
        return format_nodes(self, nodes)

    monkeypatch.setattr(NodeTexts, "nodes", count)
    text = written(both)
    assert sum(formatted) == 2 * 301
    assert text == written(restyle(both))


def test_names_are_escaped_anew_beside_a_copy_whose_file_escapes_them_otherwise() -> None:
    nodes = [symbols.variable("d\u00e9"), symbols.operator("relu", "r", [0])]
    data = symbols.LAYOUTS["compact"](symbols.document(nodes, [1])).encode()
    assert b"d\\u00e9" in data
    both = duplicate(read_symbol(data), ["sha-"]).graph
    assert b"\\u" not in written(both)
    assert not list(find_differences(written(both), both))


@pytest.mark.parametrize("layout", symbols.LAYOUTS)
def test_what_is_copied_from_a_small_file_is_compared_as_bytes(
    layout: str, large: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "_CHUNK", 1 << 30)
    data = symbols.LAYOUTS[layout](json.loads(large)).encode()
    both = reuse_text(duplicate(read_symbol(data), ["sha-"]).graph)
    text = written(both)
    decoded = list[int]()
    parse = document.parse_plain_nodes

    def count(*args: Any, **options: Any) -> Iterable[document.PlainRecord]:
        records = list(parse(*args, **options))
        decoded.append(len(records))
        return records

    monkeypatch.setattr(document, "parse_plain_nodes", count)
    assert not list(find_differences(text, both))
    assert decoded == [301]
    for old, new in ((b'"fc7"', b'"fc8"'), (b'"sha-fc7"', b'"sha-fc8"')):
        assert list(find_differences(text.replace(old, new, 1), both))
    copied = get_source(both).nodes_text
    assert copied is not None
    end = copied.end
    assert text[end:].lstrip().startswith(b",")
    for rest in (text[end:].replace(b",", b" ", 1), text[end:].replace(b",", b",,", 1)):
        with pytest.raises(InputError):
            list(find_differences(text[:end] + rest, both))


def test_text_that_has_moved_is_read_back_node_by_node(
    large: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "_CHUNK", 1 << 30)
    data = json.dumps(json.loads(large), sort_keys=True).encode()
    both = reuse_text(duplicate(read_symbol(data), ["sha-"]).graph)
    text = written(both)
    assert list(json.loads(text)) == sorted(json.loads(text))
    assert not list(find_differences(text, both))
    assert list(find_differences(text.replace(b'"fc7"', b'"fc8"', 1), both))


def test_the_progress_of_reading_back_is_that_of_the_nodes_that_are_decoded(large: bytes) -> None:
    def listen(data: bytes, graph: Graph) -> tuple[tuple[object, ...], int]:
        recorder = Recorder()
        with progress_listener(recorder):
            assert not list(find_differences(data, graph))
        first, *others = recorder.calls
        return first, sum(count for (count,) in others if isinstance(count, int))

    span = document.nodes_span(large)
    assert span is not None
    graph = read_symbol(large)
    first, read = listen(written(restyle(graph)), restyle(graph))
    assert first == ("reading back", span[1] - span[0], "B")
    # But for what stands between two pieces
    assert 0.9 * (span[1] - span[0]) < read <= span[1] - span[0]
    both = duplicate(graph, ["sha-"]).graph
    data, copied = written(both), get_source(both).nodes_text
    whole = document.nodes_span(data)
    assert copied is not None
    assert whole is not None
    first, read = listen(data, both)
    assert first == ("reading back", whole[1] - copied.end, "B")
    assert 0.9 * (whole[1] - copied.end) < read <= whole[1] - copied.end
    small = symbols.mxnet_text(symbols.siamese()).encode()
    assert listen(small, read_symbol(small)) == (("reading back", 0, "B"), 0)
