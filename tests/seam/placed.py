"""Operators placed in a graph, in bodies of If, Loop and Scan, in a body within a body, or in a
function of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
PLACES = ("graph", "If", "Loop", "Scan", "If in Loop", "function")
BODIES = PLACES[1:5]
DOMAIN, OTHER = "test.operators", "test.others"


def declare(
    name: str, shape: Sequence[int | str] | None = (2,), dtype: int = FLOAT
) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def tensor(name: str, *values: float, dtype: str = "float32") -> TensorProto:
    return numpy_helper.from_array(np.array(values, dtype), name)


def knobs(
    *attributes: AttributeProto, inputs: Sequence[str] = ("left", "right"), domain: str = DOMAIN
) -> list[NodeProto]:
    """Return an operator that nobody knows, with ``attributes``."""
    node = helper.make_node("Knobs", inputs, ["answer"], "knobs", domain=domain)
    node.attribute.extend(attributes)
    return [node]


def apply_add() -> list[NodeProto]:
    """Return an operator that reads the initializer ``weight``."""
    return [helper.make_node("Add", ["left", "weight"], ["answer"])]


def make_model(
    graph: GraphProto,
    functions: Sequence[onnx.FunctionProto] = (),
    *,
    version: int = 18,
    imports: Sequence[str] = (DOMAIN, OTHER, "own"),
) -> ModelProto:
    opsets = [
        helper.make_opsetid("", version),
        *(helper.make_opsetid(domain, 1) for domain in imports),
    ]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=functions)


def place(
    where: str, nodes: Sequence[NodeProto], tensors: Iterable[TensorProto] = ()
) -> ModelProto:
    """Return a model that has ``nodes``, which make ``answer`` of ``left`` and ``right``, and
    ``tensors`` in one of PLACES.
    """
    inputs = [declare("left"), declare("right")]
    answer = [declare("answer")]
    if where == "graph":
        return make_model(helper.make_graph(nodes, "main", inputs, answer, list(tensors)))
    if where == "function":
        imports = [
            helper.make_opsetid("", 18),
            helper.make_opsetid(DOMAIN, 1),
            helper.make_opsetid(OTHER, 1),
        ]
        function = helper.make_function(
            "own", "Composed", ["left", "right"], ["answer"], nodes, imports
        )
        call = helper.make_node("Composed", ["left", "right"], ["result"], "outer", domain="own")
        return make_model(
            helper.make_graph([call], "main", inputs, [declare("result")]), [function]
        )
    if where in ("If", "If in Loop"):
        first = helper.make_graph(nodes, "first", [], answer, list(tensors))
        second = helper.make_graph(
            [helper.make_node("Identity", ["left"], ["other"])], "second", [], [declare("other")]
        )
        choice = helper.make_node(
            "If", ["flag"], ["result"], "outer", then_branch=first, else_branch=second
        )
        inputs.append(declare("flag", (), BOOL))
        if where == "If":
            return make_model(helper.make_graph([choice], "main", inputs, [declare("result")]))
        choice.output[0], nodes, answer, tensors = "chosen", [choice], [declare("chosen")], ()
    if where == "Scan":
        body = helper.make_graph(nodes, "body", [declare("row", ())], answer, list(tensors))
        outer = helper.make_node(
            "Scan", ["left"], ["result"], "outer", body=body, num_scan_inputs=1
        )
        return make_model(helper.make_graph([outer], "main", inputs, [declare("result", (2, 2))]))
    going = helper.make_node("Identity", ["going"], ["on"])
    state = [declare("step", (), INT64), declare("going", (), BOOL), declare("state")]
    body = helper.make_graph(
        [*nodes, going], "body", state, [declare("on", (), BOOL), *answer], list(tensors)
    )
    outer = helper.make_node("Loop", ["count", "", "left"], ["result"], "outer", body=body)
    inputs.append(declare("count", (), INT64))
    return make_model(helper.make_graph([outer], "main", inputs, [declare("result")]))


def fix_input(model: ModelProto, name: str, value: object) -> None:
    """Put an initializer in the place of an input, so that no seed decides what is reached."""
    model.graph.input.remove(
        next(declared for declared in model.graph.input if declared.name == name)
    )
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))


def body_of(node: NodeProto) -> GraphProto:
    """Return the body of a Loop or Scan, the first of an If."""
    return next(
        attribute.g for attribute in node.attribute if attribute.name in ("body", "then_branch")
    )


def write(path: Path, model: ModelProto) -> Path:
    """Write a model that onnx's own checker takes."""
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString(deterministic=True))
    return path
