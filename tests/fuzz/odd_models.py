"""ONNX models of a few operators with odd attributes and shapes, and of functions and bodies that call one another."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
from onnx import (
    AttributeProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    defs,
    helper,
    numpy_helper,
)

SCHEMAS = [schema for schema in defs.get_all_schemas_with_history() if not schema.deprecated]
INTS = (0, 1, -1, 2, -3, 7, 64, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63))
FLOATS = (0.0, 1.0, -1.0, 0.5, 1e30, float("nan"), float("inf"), -0.0)
TEXTS = ("", "x", "SAME_UPPER", "linear", "ij->ji", "...", "NHWC", "a" * 300, "(", "é")
CODES = (1, 2, 3, 6, 7, 8, 9, 10, 11, 16, 17, 20, 22, 0, 99)
IMPORTS = 17


def make_odd(chance: random.Random) -> ModelProto:
    """Return a model that a file can have, and hardly any runtime takes."""
    kind = chance.random()
    if kind < 0.15:
        return _make_calls(chance)
    schema = chance.choice(SCHEMAS)
    count = chance.randint(schema.min_input, max(schema.min_input, min(schema.max_input, 6)))
    inputs = [f"x{number}" if chance.random() > 0.1 else "" for number in range(count)]
    outputs = [
        f"y{number}"
        for number in range(
            chance.randint(max(1, schema.min_output), max(1, min(schema.max_output, 4)))
        )
    ]
    node = NodeProto(
        op_type=schema.name, domain=schema.domain, name="odd", input=inputs, output=outputs
    )
    for name, each in schema.attributes.items():
        if each.required or chance.random() < 0.4:
            node.attribute.extend(_draw_attribute(chance, name, each.type))
    nodes = (
        [node]
        if chance.random() < 0.7
        else [helper.make_node("Strange", ["x0"], ["x1"], domain="own"), node]
    )
    made = {name for each in nodes for name in each.output}
    values, tensors = [], []
    for name in sorted({*inputs, "x0"} - {"", *made}):
        if chance.random() < 0.35:
            numbers = np.array(
                chance.choices(INTS[:8], k=chance.randint(0, 5)),
                chance.choice((np.int64, np.int64, np.float32)),
            )
            tensors.append(numpy_helper.from_array(numbers, name))
        else:
            values.append(_draw_value(chance, name))
    ends = [
        _draw_value(chance, name)
        if chance.random() < 0.4
        else helper.make_empty_tensor_value_info(name)
        for name in outputs
    ]
    graph = helper.make_graph(nodes, "odd", values, ends, tensors)
    imports = [
        helper.make_opsetid(schema.domain, schema.since_version),
        helper.make_opsetid("own", 1),
    ]
    if schema.domain:
        imports.append(helper.make_opsetid("", IMPORTS))
    return helper.make_model(graph, opset_imports=imports, ir_version=chance.choice((3, 8, 10)))


def _draw_value(chance: random.Random, name: str) -> object:
    sizes = chance.choices(
        (0, 1, 2, 3, 3, "n", None, 1 << 31, (1 << 62), -1), k=chance.randint(0, 5)
    )
    return helper.make_tensor_value_info(
        name, chance.choice(CODES), None if chance.random() < 0.2 else sizes
    )


def _draw_attribute(
    chance: random.Random, name: str, kind: defs.OpSchema.AttrType
) -> list[AttributeProto]:
    """Return an attribute of a type, or of another one; none for types that are not drawn."""
    numbers, length = (
        np.array(chance.choices(INTS[:8], k=chance.randint(0, 4)), np.int64),
        chance.randint(0, 5),
    )
    body = helper.make_graph(
        [helper.make_node("Neg", ["x0"], ["inner"])], "body", [], [_draw_value(chance, "inner")]
    )
    drawn = {
        "INT": chance.choice(INTS), "FLOAT": chance.choice(FLOATS), "STRING": chance.choice(TEXTS),
        "INTS": chance.choices(INTS, k=length), "FLOATS": chance.choices(FLOATS, k=length),
        "STRINGS": chance.choices(TEXTS, k=length),
        "TENSOR": numpy_helper.from_array(numbers), "GRAPH": body,
    }  # fmt: skip
    key = str(kind).rpartition(".")[2] if chance.random() > 0.05 else chance.choice(list(drawn))
    if key not in drawn:
        return []
    if isinstance(drawn[key], list) and not drawn[key]:
        return [AttributeProto(name=name, type=AttributeProto.AttributeType.Value(key))]
    return [helper.make_attribute(name, drawn[key])]


def _make_calls(chance: random.Random) -> ModelProto:
    """Functions that call others once, twice or in a ring, and bodies inside of bodies."""
    depth, calls = chance.choice((1, 3, 12, 40)), chance.choice((1, 2, 3))
    imports = [helper.make_opsetid("", IMPORTS), helper.make_opsetid("own", 1)]
    functions = []
    for number in range(depth):
        called = (number + depth - 1) % depth if number or chance.random() < 0.1 else None
        names = [f"v{place}" for place in range(calls + 1)]
        inner, domain = ("Neg", "") if called is None else (f"F{called}", "own")
        nodes = [helper.make_node(inner, [a], [b], domain=domain) for a, b in pairwise(names)]
        functions.append(
            helper.make_function("own", f"F{number}", names[:1], names[-1:], nodes, imports)
        )
    node = helper.make_node(f"F{depth - 1}", ["x"], ["y"], "first", domain="own")
    for level in range(chance.choice((0, 0, 2, 10, 60))):
        body = helper.make_graph([node], f"body{level}", [], [ValueInfoProto(name="y")])
        node = helper.make_node(
            "If", ["flag"], ["y"], f"if{level}", then_branch=body, else_branch=body
        )
        # Rewriting takes time in proportion
        if level > 8 and len(node.SerializeToString()) > 1 << 16:
            break
    ends = [
        helper.make_tensor_value_info("x", 1, [2]),
        helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
    ]
    graph = helper.make_graph([node], "calls", ends, [helper.make_tensor_value_info("y", 1, [2])])
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)
