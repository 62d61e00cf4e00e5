"""ONNX graphs from operators and names, as tests state them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphshare.formats.onnx.compose import (
    ValueScope,
    declare_outputs,
    make_body_source,
    make_initializer,
    make_input,
    make_operator,
    make_source,
)
from graphshare.ir.graph import EMPTY, Graph, Node
from graphshare.ir.onnx import Attributes, Tensor

Type = tuple[str, Sequence[int | str]]
"""A dtype and a shape."""


class Operator(msgspec.Struct, frozen=True):
    """An operator with the names of its inputs and outputs."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: Attributes = EMPTY
    label: str = ""
    domain: str = ""


def body(
    name: str,
    operators: Sequence[Operator],
    outputs: Mapping[str, Type],
    inputs: Mapping[str, Type] = EMPTY,
) -> Graph:
    """Return the body of a loop or branch, which captures the values that it does not have itself."""
    scope = ValueScope(is_body=True)
    nodes = [scope.define(make_input(key, *kind)) for key, kind in inputs.items()]
    nodes += [_connect(scope, operator) for operator in operators]
    return scope.make_body(
        nodes, [(scope.find(key), *kind) for key, kind in outputs.items()], make_body_source(name)
    )


def model(
    name: str,
    operators: Sequence[Operator],
    inputs: Mapping[str, Type],
    outputs: Mapping[str, Type],
    tensors: Mapping[str, Tensor] = EMPTY,
    *,
    opsets: Mapping[str, int] | None = None,
    ir_version: int = 8,
    producer: str = "graphshare",
    version: str = "",
    metadata: Mapping[str, str] = EMPTY,
) -> Graph:
    """Return the graph of a model."""
    scope = ValueScope()
    nodes = [scope.define(make_input(key, *kind)) for key, kind in inputs.items()]
    nodes += [
        scope.define(make_initializer(key, tensor, i))
        for i, (key, tensor) in enumerate(tensors.items())
    ]
    nodes += [_connect(scope, operator) for operator in operators]
    declared, heads = declare_outputs(
        nodes, [(scope.find(key), *kind) for key, kind in outputs.items()]
    )
    source = make_source(
        name, opsets or {"": 17}, ir_version, producer=producer, version=version, metadata=metadata
    )
    return Graph(declared, heads, source=source)


def _connect(scope: ValueScope, operator: Operator) -> Node:
    node = make_operator(
        operator.op, operator.outputs, operator.values, label=operator.label, domain=operator.domain
    )
    return scope.connect(node, operator.inputs)
