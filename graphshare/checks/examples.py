"""Short notation for the examples of rules: symbol files with one node per line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from graphshare.checks.rule import ExampleRecord
from graphshare.formats.mxnet.document import VARIABLE_OP

NodeObject = dict[str, Any]


def variable(name: str, **attrs: str) -> NodeObject:
    """Return a variable node."""
    return {"op": VARIABLE_OP, "name": name, **({"attrs": attrs} if attrs else {}), "inputs": []}


def operator(op: str, name: str, *inputs: int | tuple[int, int], **attrs: str) -> NodeObject:
    """Return an operator node; an input is a node id, or a node id and an output index."""
    entries = [[i, 0, 0] if isinstance(i, int) else [*i, 0] for i in inputs]
    return {"op": op, "name": name, **({"attrs": attrs} if attrs else {}), "inputs": entries}


def symbol(
    *nodes: NodeObject,
    heads: Sequence[int | tuple[int, int]] | None = None,
    arg_nodes: Iterable[int] | None = None,
    version: int | None = 10901,
    **more: object,
) -> str:
    """Return the text of a symbol file; the last node is its output unless ``heads`` is given."""
    outputs = [[i, 0, 0] if isinstance(i, int) else [*i, 0] for i in ((len(nodes) - 1,) if heads is None else heads)]
    variables = [i for i, node in enumerate(nodes) if node["op"] == VARIABLE_OP] if arg_nodes is None else list(arg_nodes)
    keys = {"arg_nodes": variables, "heads": outputs, **more}
    if version is not None:
        keys.setdefault("attrs", {"mxnet_version": ["int", version]})
    lines = ",\n  ".join(json.dumps(node, ensure_ascii=False) for node in nodes)
    rest = "".join(f",\n {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items())
    return f'{{"nodes": [\n  {lines}]{rest}}}\n'


#: The parameters of :func:`dense`.
DENSE_RECORDS = (ExampleRecord("arg:fc_weight", (2, 3)), ExampleRecord("arg:fc_bias", (2,)))


def dense() -> str:
    """Return ``data`` into a FullyConnected ``fc`` with two units."""
    names = ("data", "fc_weight", "fc_bias")
    return symbol(*map(variable, names), operator("FullyConnected", "fc", 0, 1, 2, num_hidden="2"))


def batch_norm(*, mean: str = "bn_moving_mean", var: str = "bn_moving_var") -> str:
    """Return ``data`` into a BatchNorm ``bn``."""
    names = ("data", "bn_gamma", "bn_beta", mean, var)
    return symbol(*map(variable, names), operator("BatchNorm", "bn", 0, 1, 2, 3, 4, eps="0.001"))
