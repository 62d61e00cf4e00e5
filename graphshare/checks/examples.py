"""Short notation for the examples of rules: symbol files with a node to a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]


def variable(name: str, **attrs: str) -> Record:
    """A variable node."""
    return {"op": "null", "name": name, **({"attrs": attrs} if attrs else {}), "inputs": []}


def operator(op: str, name: str, *inputs: int | tuple[int, int], **attrs: str) -> Record:
    """An operator; an input is a node id, or a node id and an output index."""
    entries = [[i, 0, 0] if isinstance(i, int) else [*i, 0] for i in inputs]
    return {"op": op, "name": name, **({"attrs": attrs} if attrs else {}), "inputs": entries}


def symbol(
    *nodes: Record,
    heads: Sequence[int | tuple[int, int]] | None = None,
    arg_nodes: Iterable[int] | None = None,
    version: int | None = 10901,
    **more: Any,
) -> str:
    """The text of a symbol file; the last node is its output unless ``heads`` says otherwise."""
    outputs = [[i, 0, 0] if isinstance(i, int) else [*i, 0] for i in ((len(nodes) - 1,) if heads is None else heads)]
    variables = [i for i, node in enumerate(nodes) if node["op"] == "null"] if arg_nodes is None else list(arg_nodes)
    found = {"arg_nodes": variables, "heads": outputs, **more}
    if version is not None:
        found.setdefault("attrs", {"mxnet_version": ["int", version]})
    lines = ",\n  ".join(json.dumps(node, ensure_ascii=False) for node in nodes)
    rest = "".join(f",\n {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in found.items())
    return f'{{"nodes": [\n  {lines}]{rest}}}\n'


def dense(*, bias: bool = True, **changes: str) -> str:
    """``data`` into a FullyConnected ``fc`` of two; ``changes`` replace texts of the file."""
    names = ["fc_weight", "fc_bias"] if bias else ["fc_weight"]
    attrs = {"num_hidden": "2"} if bias else {"no_bias": "True", "num_hidden": "2"}
    nodes = [variable("data"), *map(variable, names), operator("FullyConnected", "fc", *range(len(names) + 1), **attrs)]
    text = symbol(*nodes)
    for old, new in changes.items():
        text = text.replace(old, new)
    return text


def normalized(*, mean: str = "bn_moving_mean", var: str = "bn_moving_var") -> str:
    """``data`` into a BatchNorm ``bn``."""
    names = ("data", "bn_gamma", "bn_beta", mean, var)
    return symbol(*map(variable, names), operator("BatchNorm", "bn", 0, 1, 2, 3, 4, eps="0.001"))
