"""Edits of an ONNX model that have no meaning: texts, labels, orders, and values written in another way."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper

from tests.seam.placed import FLOAT, body_of, declare, place, tensor

Edit = Callable[[ModelProto], object]


def document(model: ModelProto) -> None:
    """Write a text into every doc_string that a model has."""
    pending: list[Any] = [model]
    while pending:
        message = pending.pop()
        for field in message.DESCRIPTOR.fields:
            if field.name == "doc_string":
                message.doc_string = "a remark"
            elif field.type == field.TYPE_MESSAGE:
                value = getattr(message, field.name)
                pending += (
                    list(value)
                    if field.is_repeated
                    else [value]
                    if message.HasField(field.name)
                    else []
                )


def place_rich(where: str) -> ModelProto:
    nodes = [
        helper.make_node("Constant", [], ["fixed"], "constant", value=tensor("inner", 1, 2)),
        helper.make_node("Relu", ["right"], ["positive"], "relu"),
        helper.make_node("Clip", ["positive", "low"], ["cut"], "clip"),
        helper.make_node("Sum", ["left", "fixed", "cut"], ["answer"], "sum"),
    ]
    if where == "function":
        nodes.insert(
            0,
            helper.make_node(
                "Constant", [], ["low"], value=numpy_helper.from_array(np.float32(0), "inner")
            ),
        )
        return place(where, nodes)
    return place(where, nodes, [numpy_helper.from_array(np.float32(0), "low"), tensor("unread", 1)])


def graph_of(model: ModelProto) -> Any:
    """Return the message that has the placed nodes."""
    if model.functions:
        return model.functions[0]
    graph = model.graph
    while graph.node[0].op_type in ("If", "Loop", "Scan"):
        graph = body_of(graph.node[0])
    return graph


def spell_data(model: ModelProto) -> None:
    """Write the numbers of a Constant's tensor one by one instead of as bytes."""
    for node in graph_of(model).node:
        if node.op_type == "Constant":
            value = node.attribute[0].t
            value.CopyFrom(
                helper.make_tensor(
                    value.name, FLOAT, value.dims, numpy_helper.to_array(value).flatten()
                )
            )


def spell_initializers(model: ModelProto) -> None:
    for value in getattr(graph_of(model), "initializer", ()):
        value.CopyFrom(
            helper.make_tensor(
                value.name, FLOAT, value.dims, numpy_helper.to_array(value).flatten()
            )
        )


def relabel(model: ModelProto) -> None:
    for node in (*model.graph.node, *graph_of(model).node):
        node.name = f"label of {node.name}"


def exchange_nodes(model: ModelProto) -> None:
    """Write two nodes that do not read each other in the other order."""
    nodes = graph_of(model).node
    first, second = copy.deepcopy(nodes[0]), copy.deepcopy(nodes[1])
    nodes[0].CopyFrom(second)
    nodes[1].CopyFrom(first)


def end_with_nothing(model: ModelProto) -> None:
    """Write an absent input behind the last one."""
    next(node for node in graph_of(model).node if node.op_type == "Clip").input.append("")


def reorder(messages: Any) -> None:
    kept = [copy.deepcopy(message) for message in messages]
    del messages[:]
    messages.extend(reversed(kept))


def reorder_lists(model: ModelProto) -> None:
    """Write what has no order the other way round: attributes, initializers, operator sets, types of values."""
    reorder(model.opset_import)
    for node in model.graph.node:
        reorder(node.attribute)
    for graph in (model.graph, graph_of(model)):
        if isinstance(graph, onnx.GraphProto):
            reorder(graph.initializer)


def declare_inner(model: ModelProto) -> None:
    """Declare the type of an inner value, as shape inference does."""
    graph_of(model).value_info.append(declare("positive"))


def rename_tensors(model: ModelProto) -> None:
    """Give the tensors in Constants other names, which nothing reads."""
    for node in graph_of(model).node:
        if node.op_type == "Constant":
            node.attribute[0].t.name = "x"


def rename_graphs(model: ModelProto) -> None:
    model.graph.name = "x"
    if not model.functions:
        graph_of(model).name = "y"


def sign(model: ModelProto) -> None:
    """Say who made the model, and when."""
    model.producer_name, model.producer_version, model.model_version = "somebody", "2", 3
    helper.set_model_props(model, {"date": "today"})


MEANINGLESS: dict[str, Edit] = {
    "nothing": lambda model: None,
    "documentation": document,
    "who made it": sign,
    "labels of operators": relabel,
    "names of graphs": rename_graphs,
    "names of tensors in Constants": rename_tensors,
    "order of operators": exchange_nodes,
    "order of lists": reorder_lists,
    "type of an inner value": declare_inner,
    "numbers of a Constant one by one": spell_data,
    "numbers of an initializer one by one": spell_initializers,
    "an absent input at the end": end_with_nothing,
}
