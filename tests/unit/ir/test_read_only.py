"""Mappings of graphs refuse changes and say how to edit, whatever made the graph; the way that they name works."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

import graphshare as gs
from graphshare.builder import Session, placeholder
from graphshare.builder import operators as op
from graphshare.checkpoint.model import Checkpoint
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import EMPTY, FrozenMap, Graph, freeze
from graphshare.ir.rebuild import rebuild_graph
from graphshare.ir.walk import iter_graphs
from tests.processes import ROOT
from tests.symbols import document, operator, two_layers, variable

LENET = ROOT / "fixtures" / "lenet"


def list_mappings(graph: Graph) -> Iterator[Any]:
    for part in iter_graphs(graph):
        yield from (part.attrs, part.extra, getattr(part.source, "irregular", EMPTY))
        for node in part.nodes:
            yield from (node.attrs, node.extra, node.details.values)


def read(source: dict[str, Any]) -> Graph:
    return read_symbol(json.dumps(source).encode())


def author() -> Graph:
    with Session() as session:
        return session.graph(op.BatchNorm(placeholder("x", (None, 3)), name="bn"))


def odd() -> Graph:
    """A file with keys that have no meaning here, of the oldest generation, with a subgraph."""
    source = two_layers()
    source["nodes"][3] |= {
        "param": {"num_hidden": "3", "a": "b"},
        "backward_source_id": -1,
        "comment": "x",
    }
    inner = document([variable("x", attrs={"a": "b"}), operator("relu", "r", [0])], [1])
    source["nodes"].append(
        operator("_foreach", "each", [0], attrs={"num_args": "2"}, subgraphs=[inner])
    )
    return read({**source, "arg_nodes": [0], "note": "y"})


def convert(**options: Any) -> Graph:
    return gs.export(LENET, shapes={"data": (1, 1, 28, 28)}, verify=False, **options).graph


def upgrade() -> Graph:
    source = document(two_layers()["nodes"], [12], version=None)
    return gs.upgrade(Checkpoint(read(source))).graph


def fold() -> Graph:
    attrs = {"num_hidden": "3", "no_bias": "True"}
    nodes = [variable("x"), variable("w"), operator("FullyConnected", "fc", [0, 1], attrs=attrs)]
    nodes += [*map(variable, ("g", "b", "m", "v")), operator("BatchNorm", "bn", range(2, 7))]
    arrays = {f"arg:{name}": np.ones(3, "float32") for name in "gb"} | {
        f"aux:{name}": np.ones(3, "float32") for name in "mv"
    }
    model = Checkpoint(read(document(nodes, [7]))).with_params(
        {"arg:w": np.ones((3, 2), "float32"), **arrays}
    )
    return gs.fold(model).graph


GRAPHS: dict[str, Callable[[], Graph]] = {
    "read": lambda: gs.load(LENET).graph,
    "odd": odd,
    "large": lambda: read_symbol(
        json.dumps(document([variable(f"v{i}") for i in range(20000)], [0]), indent=2).encode()
    ),
    "authored": author,
    "upgraded": upgrade,
    "folded": fold,
    "copied": lambda: gs.duplicate(LENET, "a-").graph,
    "batched": lambda: gs.duplicate(LENET, "a-", mode="batch", force=True).graph,
    "grouped": lambda: gs.group([LENET, LENET], prefixes=["a-", "b-"]).graph,
    "extracted": lambda: gs.extract(LENET, targets=["tanh1"]).graph,
    "exported": convert,
    "exported with open sizes": lambda: convert(dynamic_batch=True),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_every_mapping_is_read_only(name: str) -> None:
    mappings = list(list_mappings(GRAPHS[name]()))
    assert any(mappings)
    assert {type(mapping) for mapping in mappings} == {FrozenMap}


CHANGES: dict[str, Callable[[Any], object]] = {
    "set": lambda m: m.__setitem__("shape", "(1, 2)"),
    "delete": lambda m: m.__delitem__("kernel"),
    "update": lambda m: m.update(a="b"),
    "merge": lambda m: m.__ior__({"a": "b"}),
    "default": lambda m: m.setdefault("a", "b"),
    "pop": lambda m: m.pop("kernel"),
    "pop an item": lambda m: m.popitem(),
    "clear": lambda m: m.clear(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_refused_with_the_way_to_edit(change: str) -> None:
    node = next(node for node in gs.load(LENET).graph.nodes if node.op)
    before = dict(node.attrs)
    for mapping in (node.attrs, EMPTY):
        with pytest.raises(
            TypeError,
            match=r"are read-only; give .*rebuild_graph a new node, msgspec\.structs\.replace",
        ):
            CHANGES[change](mapping)
    assert dict(node.attrs) == before
    assert not EMPTY


def test_the_way_to_edit_works(tmp_path: Path) -> None:
    model = gs.load(LENET)
    conv = next(node for node in model.graph.nodes if node.op)
    graph, _ = rebuild_graph(
        model.graph,
        lambda node: (
            replace(node, attrs={**node.attrs, "dilate": "(1, 1)"}) if node is conv else node
        ),
    )
    gs.save(replace(model, graph=graph), tmp_path / "new")
    read_again = next(node for node in gs.load(tmp_path / "new").graph.nodes if node.op)
    assert read_again.attrs == {**conv.attrs, "dilate": "(1, 1)"}


def test_a_frozen_mapping_is_otherwise_a_mapping() -> None:
    frozen: Mapping[str, str] = freeze({"b": "1", "a": "2"})
    assert frozen == {"b": "1", "a": "2"}
    assert list(frozen) == ["b", "a"]
    assert {**frozen, "c": "3"} == {"b": "1", "a": "2", "c": "3"}
    assert msgspec.json.encode(frozen) == b'{"b":"1","a":"2"}'
    for again in (copy.copy(frozen), copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen))):
        assert (type(again), again) == (FrozenMap, frozen)
    assert freeze({}) is EMPTY
    assert pickle.loads(pickle.dumps(EMPTY)) is EMPTY


def test_equal_attributes_of_a_file_are_one_object() -> None:
    nodes = [
        variable("a", attrs={"x": "1"}),
        variable("b", attrs={"x": "1"}),
        variable("c", attrs={"x": "2"}),
    ]
    first, second, third = (node.attrs for node in read(document(nodes, [0, 1, 2])).nodes)
    assert first is second
    assert first is not third
