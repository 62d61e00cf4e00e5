"""Symbol files built and written without the package: what the code under test is held against."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

Document = dict[str, Any]
Record = dict[str, Any]


def variable(name: str, **more: Any) -> Record:
    return {"op": "null", "name": name, **more, "inputs": []}


def operator(op: str, name: str, inputs: Iterable[Any], **more: Any) -> Record:
    """An operator; an input is a node id, or an entry as the file has it."""
    return {
        "op": op,
        "name": name,
        **more,
        "inputs": [[i, 0, 0] if isinstance(i, int) else list(i) for i in inputs],
    }


def document(
    nodes: list[Record], heads: Iterable[Any], *, version: int | None = 10901, row_ptr: bool = True
) -> Document:
    """A graph object in the order of keys that MXNet writes. Every node counts one output."""
    found: Document = {
        "nodes": nodes,
        "arg_nodes": [i for i, node in enumerate(nodes) if node["op"] == "null"],
    }
    if row_ptr:
        found["node_row_ptr"] = list(range(len(nodes) + 1))
    found["heads"] = [[i, 0, 0] if isinstance(i, int) else list(i) for i in heads]
    if version is not None:
        found["attrs"] = {"mxnet_version": ["int", version]}
    return found


def siamese() -> Document:
    """Data, one convolution of one filter, a loss: the graph that every example of the documentation duplicates."""
    attrs = {"kernel": "(3, 3)", "no_bias": "True", "num_filter": "1"}
    nodes = [
        variable("data"),
        variable("conv_weight"),
        operator("Convolution", "conv", [0, 1], attrs=attrs),
        operator("MakeLoss", "loss", [2]),
    ]
    return document(nodes, [3])


def two_layers() -> Document:
    """Two fully connected layers with a batch normalisation between them and a softmax with its label."""
    nodes = [
        variable("data"),
        variable("fc1_weight"),
        variable("fc1_bias"),
        operator("FullyConnected", "fc1", [0, 1, 2], attrs={"num_hidden": "4"}),
        variable("bn_gamma"),
        variable("bn_beta"),
        variable("bn_moving_mean"),
        variable("bn_moving_var"),
        operator(
            "BatchNorm",
            "bn",
            [3, 4, 5, (6, 0, 1), (7, 0, 1)],
            attrs={"eps": "0.001", "fix_gamma": "False"},
        ),
        variable("fc2_weight"),
        operator("FullyConnected", "fc2", [8, 9], attrs={"no_bias": "True", "num_hidden": "2"}),
        variable("softmax_label"),
        operator("SoftmaxOutput", "softmax", [10, 11]),
    ]
    found = document(nodes, [12])
    counts = [3 if node["op"] == "BatchNorm" else 1 for node in nodes]
    found["node_row_ptr"] = [sum(counts[:i]) for i in range(len(nodes) + 1)]
    return found


def old_batch_norm() -> Document:
    """As MXNet of 2015 wrote it: ``param``, entries of two numbers, no version, the moving
    statistics not there at all.
    """

    def old(record: Record, param: dict[str, str]) -> Record:
        inputs = [entry[:2] for entry in record["inputs"]]
        return {
            "op": record["op"],
            "param": param,
            "name": record["name"],
            "inputs": inputs,
            "backward_source_id": -1,
        }

    nodes = [
        old(variable("data"), {}),
        old(variable("bn_gamma"), {}),
        old(variable("bn_beta"), {}),
        old(operator("BatchNorm", "bn", [0, 1, 2]), {"eps": "0.001", "fix_gamma": "True"}),
        old(variable("fc_weight"), {}),
        old(variable("fc_bias"), {}),
        old(operator("FullyConnected", "fc", [3, 4, 5]), {"no_bias": "False", "num_hidden": "3"}),
    ]
    return {"nodes": nodes, "arg_nodes": [0, 1, 2, 4, 5], "heads": [[6, 0]]}


def mxnet_text(found: Document) -> str:
    """MXNet's own layout, straight from its rules; ``"\\n"`` inside a text is the only thing that needs care."""
    return _graph(found, 0)


def _graph(found: Document, level: int) -> str:
    values: dict[str, Callable[[Any], str]] = {
        "nodes": lambda v: _list([_node(node, level + 2) for node in v], level + 1, 1),
        "arg_nodes": lambda v: _list([str(i) for i in v], level + 1, 11),
        "node_row_ptr": lambda v: _list([str(i) for i in v], level + 1, 11),
        "heads": lambda v: _list([_entry(entry) for entry in v], level + 1, 11),
    }
    pairs = [
        (key, values.get(key, lambda v: _any(v, level + 1))(value)) for key, value in found.items()
    ]
    return _object(pairs, level, 1)


def _node(record: Record, level: int) -> str:
    values: dict[str, Callable[[Any], str]] = {
        "inputs": lambda v: _list([_entry(entry) for entry in v], level + 1, 11),
        "control_deps": lambda v: _list([str(i) for i in v], level + 1, 11),
        "subgraphs": lambda v: _list([_graph(graph, level + 2) for graph in v], level + 1, 1),
    }
    pairs = [
        (key, values.get(key, lambda v: _any(v, level + 1))(value)) for key, value in record.items()
    ]
    return _object(pairs, level, 1)


def _any(value: Any, level: int) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, dict):
        return _object([(key, _any(part, level + 1)) for key, part in value.items()], level, 2)
    if isinstance(value, list):
        return _list([_any(part, level + 1) for part in value], level, 11)
    return json.dumps(value)


def _entry(entry: list[int]) -> str:
    return "[" + ", ".join(str(number) for number in entry) + "]"


def _string(text: str) -> str:
    for plain, escaped in (
        ("\\", "\\\\"),
        ('"', '\\"'),
        ("\n", "\\n"),
        ("\r", "\\r"),
        ("\t", "\\t"),
    ):
        text = text.replace(plain, escaped)
    return f'"{text}"'


def _object(pairs: list[tuple[str, str]], level: int, least: int) -> str:
    items = [f"{_string(key)}: {value}" for key, value in pairs]
    return "{" + _inside(items, level, least) + "}"


def _list(items: list[str], level: int, least: int) -> str:
    return "[" + _inside(items, level, least) + "]"


def _inside(items: list[str], level: int, least: int) -> str:
    if len(items) < least:
        return ", ".join(items)
    start = "\n" + "  " * (level + 1)
    return start + (", " + start).join(items) + "\n" + "  " * level


LAYOUTS: dict[str, Callable[[Document], str]] = {
    "mxnet": mxnet_text,
    "compact": lambda found: json.dumps(found, separators=(",", ":")),
    "spaced": json.dumps,
    "spaced raw": lambda found: json.dumps(found, ensure_ascii=False),
    "indent:0": lambda found: json.dumps(found, indent=0),
    "indent:2": lambda found: json.dumps(found, indent=2) + "\n",
    "indent:4 raw": lambda found: json.dumps(found, indent=4, ensure_ascii=False),
}
