"""Keys of symbol files that have no meaning to this package are kept, and compared when a file was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import graphshare as gs
from graphshare.errors import Fault, SelfCheckError
from graphshare.formats.model_format import RemovedMessage, find_format
from graphshare.formats.mxnet.layout import reuse_text, write_symbol
from graphshare.formats.mxnet.staging import check_written
from graphshare.ir.graph import EMPTY, Graph, freeze
from graphshare.ir.rebuild import rebuild_graph
from tests.surroundings import ROOT


def write(
    folder: Path, name: str = "m", *, top: str = '"note": [1], ', node: str = '"tag": {"a": 1}, '
) -> Path:
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
def test_a_key_that_is_lost_or_changed_is_a_fault(
    old: bytes, new: bytes, path: str, tmp_path: Path
) -> None:
    graph = gs.rename(write(tmp_path), prefix="p_").graph
    data = encode(graph)
    check_written(data, graph, where="out")
    assert data.count(old) == 1
    with pytest.raises(SelfCheckError) as caught:
        check_written(data.replace(old, new), graph, where="out")
    assert [fault.path for fault in caught.value.faults] == [path]


@pytest.mark.parametrize(
    ("old", "new"), [(b'"heads"', b'"more": 1, "heads"'), (b'"op"', b'"more": 1, "op"')]
)
def test_a_key_that_is_new_is_a_fault_in_a_plain_file(
    old: bytes, new: bytes, tmp_path: Path
) -> None:
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


def test_lost_keys_are_reported_in_the_order_of_the_file(tmp_path: Path) -> None:
    keys = [f"key{letter}" for letter in "hbdagcfe"]
    graph = gs.load(write(tmp_path, top="", node="".join(f'"{key}": 1, ' for key in keys))).graph
    poorer, images = rebuild_graph(graph, lambda node: replace(node, extra=EMPTY))
    faults = find_format(graph).account(poorer, [(graph, images)])
    assert [part.message for part in faults if isinstance(part, Fault)] == [
        f"the key {key!r} is lost" for key in keys
    ]


def test_a_group_has_the_keys_of_all_graphs(tmp_path: Path) -> None:
    first = write(tmp_path, "a", top='"note": [2], ')
    grouped = gs.group([first, write(tmp_path, "b")], prefixes=["a_", "b_"])
    assert grouped.removed == (
        RemovedMessage("key", "note", "an earlier graph has another value", ""),
    )
    grouped = gs.group([write(tmp_path, "a", top=""), write(tmp_path, "b")], prefixes=["a_", "b_"])
    assert grouped.removed == ()
    gs.save(grouped, tmp_path / "out-symbol.json")
    assert gs.load(tmp_path / "out-symbol.json").graph.extra == {"note": [1]}


_LAYER = {"no_bias": "True", "num_hidden": "3"}
_MAPS: list[dict[str, Any]] = [
    {"attr": {}, "attrs": _LAYER},
    {"attrs": {}, "attr": _LAYER},
    {"attr": {"old": "1"}, "attrs": _LAYER},
    {"param": {}, "attrs": _LAYER},
    {"param": _LAYER, "attrs": {}},
    {"param": {"num_hidden": "3", "no_bias": "False"}, "attr": {"no_bias": "True"}},
    {
        "param": {"no_bias": "False", "num_hidden": "3"},
        "attr": {"old": "1"},
        "attrs": {"no_bias": "True"},
    },
]
"""A layer's attributes in two maps or three: the later of ``attr`` and ``attrs`` counts, and
``param`` fills in the rest.
"""


def write_layer(folder: Path, maps: dict[str, Any], norm: dict[str, Any] | None = None) -> Path:
    """Write a layer with these attribute maps, and with ``norm`` a BatchNorm after it with those."""
    names = ["data", "w", "gamma", "beta", "mean", "var"][: 6 if norm else 2]
    nodes = [{"op": "null", "name": name, "inputs": []} for name in names]
    nodes.append({"op": "FullyConnected", "name": "fc", "inputs": [[0, 0, 0], [1, 0, 0]], **maps})
    if norm:
        nodes.append(
            {
                "op": "BatchNorm",
                "name": "bn",
                "inputs": [[i, 0, 0] for i in (6, 2, 3, 4, 5)],
                **norm,
            }
        )
    found = {"nodes": nodes, "arg_nodes": [*range(len(names))], "heads": [[len(nodes) - 1, 0, 0]]}
    path = folder / "layer-symbol.json"
    path.write_text(json.dumps({**found, "attrs": {"mxnet_version": ["int", 10901]}}))
    return path


@pytest.mark.parametrize("maps", _MAPS)
def test_new_nodes_have_one_attribute_map(maps: dict[str, Any], tmp_path: Path) -> None:
    batched = gs.duplicate(write_layer(tmp_path, maps), ["x_"], mode="batch")
    gs.save(batched, tmp_path / "out-symbol.json")
    records = json.loads((tmp_path / "out-symbol.json").read_text())["nodes"]
    counts = {
        record["op"]: sum(key in record for key in ("attr", "attrs", "param")) for record in records
    }
    assert counts == {
        "null": 0,
        "Concat": 1,
        "FullyConnected": len(maps),
        "SliceChannel": 1,
        "_copy": counts["_copy"],
    }
    read, made = (
        {node.name: dict(node.attrs) for node in graph.nodes}
        for graph in (gs.load(tmp_path / "out-symbol.json").graph, batched.graph)
    )
    assert read == made
    assert read["fc_batch"].items() >= _LAYER.items()


@pytest.mark.parametrize("maps", _MAPS)
def test_an_attribute_can_be_changed_in_either_map(maps: dict[str, Any], tmp_path: Path) -> None:
    graph = gs.load(write_layer(tmp_path, maps)).graph
    for key in ("num_hidden", "no_bias", "flatten"):
        changed, _ = rebuild_graph(
            graph,
            lambda node, key=key: (
                replace(node, attrs=freeze({**node.attrs, key: "7"})) if node.op else node
            ),
        )
        check_written(encode(changed), changed, where="out")


@pytest.mark.parametrize("maps", _MAPS)
@pytest.mark.parametrize("norm", [
    {"attrs": {"fix_gamma": "False"}}, {"param": {"fix_gamma": "True"}, "attrs": {"fix_gamma": "False"}},
    {"attrs": {"fix_gamma": "False"}, "note": 1},
])  # fmt: skip
def test_a_folded_layer_keeps_its_own_maps(
    maps: dict[str, Any], norm: dict[str, Any], tmp_path: Path
) -> None:
    path = write_layer(tmp_path, maps, norm)
    sizes = {
        "arg:w": (3, 2),
        "arg:gamma": (3,),
        "arg:beta": (3,),
        "aux:mean": (3,),
        "aux:var": (3,),
    }
    np.savez(
        tmp_path / "p.npz", **{key: np.ones(shape, np.float32) for key, shape in sizes.items()}
    )
    folded = gs.fold(gs.load(path, params=tmp_path / "p.npz"))
    gs.save(folded, tmp_path / "out-symbol.json", params=tmp_path / "out.npz")
    (layer,) = (node for node in gs.load(tmp_path / "out-symbol.json").graph.nodes if node.op)
    assert layer.attrs.items() >= {"no_bias": "False", "num_hidden": "3"}.items()
    lost = {"note", "param"} & norm.keys() - layer.extra.keys()
    assert {part.name for part in folded.removed} == lost
