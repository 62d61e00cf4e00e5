"""Keys of symbol files that have no meaning to this package are kept, and compared when a file was written."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

import graphshare as gs
from graphshare.errors import Fault, SelfCheckError
from graphshare.formats.model_format import RemovedMessage, find_format
from graphshare.formats.mxnet.layout import reuse_text, write_symbol
from graphshare.formats.mxnet.staging import check_written
from graphshare.ir.graph import EMPTY, Graph
from graphshare.ir.rebuild import rebuild_graph
from tests.surroundings import ROOT


def write(folder: Path, name: str = "m", *, top: str = '"note": [1], ', node: str = '"tag": {"a": 1}, ') -> Path:
    """Write a symbol file with a key of its own and one in its first node."""
    text = (ROOT / "fixtures" / "lenet-symbol.json").read_text()
    path = folder / f"{name}-symbol.json"
    path.write_text(text.replace('"op"', f'{node}"op"', 1).replace('"heads"', f'{top}"heads"', 1))
    return path


def encode(graph: Graph) -> bytes:
    return b"".join(write_symbol(reuse_text(graph)))


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        (b'"tag": {"a": 1}, ', b"", "$.nodes[0]"), (b'"tag": {"a": 1}', b'"tag": {"a": 2}', "$.nodes[0]"),
        (b'"note": [1], ', b"", "$.note"), (b'"note": [1]', b'"note": [2]', "$.note"),
        (b'"heads"', b'"more": 1, "heads"', "$.more"), (b"10901", b"10900", "$.attrs.mxnet_version"),
    ],
)  # fmt: skip
def test_a_key_that_is_lost_or_changed_is_a_fault(old: bytes, new: bytes, path: str, tmp_path: Path) -> None:
    graph = gs.rename(write(tmp_path), prefix="p_").graph
    data = encode(graph)
    check_written(data, graph, where="out")
    assert data.count(old) == 1
    with pytest.raises(SelfCheckError) as caught:
        check_written(data.replace(old, new), graph, where="out")
    assert [fault.path for fault in caught.value.faults] == [path]


@pytest.mark.parametrize(("old", "new"), [(b'"heads"', b'"more": 1, "heads"'), (b'"op"', b'"more": 1, "op"')])
def test_a_key_that_is_new_is_a_fault_in_a_plain_file(old: bytes, new: bytes, tmp_path: Path) -> None:
    graph = gs.rename(write(tmp_path, top="", node=""), prefix="p_").graph
    data = encode(graph)
    check_written(data, graph, where="out")
    with pytest.raises(SelfCheckError):
        check_written(data.replace(old, new, 1), graph, where="out")


def test_a_rewrite_that_loses_a_key_is_found(tmp_path: Path) -> None:
    graph = gs.load(write(tmp_path)).graph
    poorer, images = rebuild_graph(graph, lambda node: replace(node, extra=EMPTY))
    faults = find_format(graph).account(replace(poorer, extra=EMPTY), [(graph, images)])
    assert [part.message for part in faults if isinstance(part, Fault)] == [
        "the key 'note' of the graph is lost", "the key 'tag' is lost",
    ]  # fmt: skip


def test_a_group_has_the_keys_of_all_graphs(tmp_path: Path) -> None:
    first = write(tmp_path, "a", top='"note": [2], ')
    grouped = gs.group([first, write(tmp_path, "b")], prefixes=["a_", "b_"])
    assert grouped.removed == (RemovedMessage("key", "note", "an earlier graph has another value", ""),)
    grouped = gs.group([write(tmp_path, "a", top=""), write(tmp_path, "b")], prefixes=["a_", "b_"])
    assert grouped.removed == ()
    gs.save(grouped, tmp_path / "out-symbol.json")
    assert gs.load(tmp_path / "out-symbol.json").graph.extra == {"note": [1]}
