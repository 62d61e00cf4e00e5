"""Short notation for the examples of rules: symbol files with one node per line, ONNX models field by field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from graphshare.checks.rule import ExampleRecord
from graphshare.ir.graph import VARIABLE_OP

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


def field(number: int, content: int | str | bytes) -> bytes:
    """Return a field; an integer, or a content of at most 16,383 bytes."""
    if isinstance(content, int):
        return _number(number << 3) + _number(content)
    data = content.encode() if isinstance(content, str) else content
    return _number(number << 3 | 2) + _number(len(data)) + data


def _number(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128, value >> 7])


def apply(op: str, inputs: str, outputs: str, *attributes: bytes, name: str = "", domain: str = "") -> bytes:
    """Return a node of a graph; its values are separated by blanks."""
    values = [field(number, text) for number, texts in ((1, inputs), (2, outputs)) for text in texts.split()]
    more = [field(number, text) for number, text in ((3, name), (4, op), (7, domain)) if text]
    return field(1, b"".join([*values, *more, *attributes]))


def branch(name: str, *parts: bytes) -> bytes:
    """Return an attribute that is a body, of one value ``name`` that the body gives."""
    return field(5, field(1, name) + field(6, b"".join([*parts, field(2, name), field(12, field(1, name))])) + field(20, 5))


def function(name: str) -> bytes:
    """Return a function in the domain ``own``, which gives its input ``a``."""
    return field(25, field(1, name) + field(4, "a") + field(5, "a") + field(10, "own"))


def value(number: int, name: str, *shape: int, dtype: int = 1) -> bytes:
    """Return a graph input (11), a graph output (12) or a value_info (13)."""
    sizes = b"".join(field(1, field(1, size)) for size in shape)
    return field(number, field(1, name) + field(2, field(1, field(1, dtype) + field(2, sizes))))


def initializer(name: str, *, location: str = "", size: int = 2) -> bytes:
    """Return an initializer of ``size`` float32 numbers, in the file ``location`` if one is given."""
    data = field(13, field(1, "location") + field(2, location)) + field(14, 1) if location else b""
    return field(5, field(1, size) + field(2, 1) + field(8, name) + (data or field(9, bytes(4 * size - 1) + b"?")))


def model(*parts: bytes, opset: int = 17, more: bytes = b"") -> bytes:
    """Return a model of IR version 8 from the fields of its graph, and ``more`` of its own; without an operator set if 0."""
    graph = field(7, b"".join([*parts, field(2, "graph")]))
    return field(1, 8) + graph + (field(8, field(2, opset)) if opset else b"") + more


def relu(*parts: bytes, opset: int = 17, more: bytes = b"") -> bytes:
    """Return a model of one Relu from ``x`` to ``y``, with more fields of its graph, and ``more`` of the model."""
    return model(apply("Relu", "x", "y"), *parts, value(11, "x", 2), value(12, "y", 2), opset=opset, more=more)
