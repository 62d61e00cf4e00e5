"""Changes of a graph's JSON: what a file could say, whether or not anyone would write it."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from graphshare.ops.registry import load_registered_signatures, lookup
from tests.oracle.mutations import MUTATIONS, attribute_key, operators

Json = dict[str, Any]
Mutation = Callable[[Json, random.Random], None]

TEXTS = ("", "0", "-1", "-4", "1", "2", "3", "64", "True", "False", "None", "(2, 2)", "(0, 0)", "(-1,)", "(-1, -1)", "()",
         "[1]", "(0,)", "(1, 2, 3, 4, 5)", "(3, 2, 1, 0)", "2147483647", "-2147483648", "4294967296", "99999999999999999999",
         "1e9", "nan", "inf", "x", "max", "lstm", "NHWC", "float16", "int8", "csr", "\u0661", "(40000, 40000)",
         "(" + "1, " * 65 + ")")  # fmt: skip
KEYS = ("__shape__", "__dtype__", "__init__", "__storage_type__", "__lr_mult__", "__branches__", "axis",
        "__graphshare_ignore__", "num_args", "num_outputs", "shape", "lr_mult", "weight_lr_mult", "ctx_group",
        "dtype")  # fmt: skip
NAMES = ("", " ", "x", "data", "n0", "_", "a/b", "/", "a" * 300, "x\n::error file=a.c,line=1::y",
         "\u202e", "\x1b[31m", "\x9b",
         "\u00e9", "\ufdd0", "=x", "*", "re:(", "arg:x", "x:0", "--in-place", "weight", "x_output",
         "x_moving_mean")  # fmt: skip
NUMBERS = (0, 0, 1, 1, 2, 5, 64, 2**31 - 1, 2**32 - 1, 2**32, 2**63, -1)
DIMS = (0, 0, 1, 1, 2, 3, 7, -1, 40000, 2**31, 2**63)


def set_attribute(graph: Json, chance: random.Random) -> None:
    """Give some nodes an attribute of their operator with another text."""
    for node in _some(graph["nodes"], chance):
        signature = lookup(node["op"]) if isinstance(node["op"], str) else None
        keys = [p.name for p in signature.parameters or ()] if signature is not None else []
        key = chance.choice(keys) if keys and chance.random() < 0.8 else chance.choice(KEYS)
        _attributes(node)[key] = chance.choice(TEXTS)


def drop_attribute(graph: Json, chance: random.Random) -> None:
    for node in _some(graph["nodes"], chance):
        attributes = _attributes(node)
        if attributes:
            del attributes[chance.choice(sorted(attributes))]


def declare_shape(graph: Json, chance: random.Random) -> None:
    """Give some variables a shape, small, unknown, negative, huge, or of too many axes."""
    for node in _some(_variables(graph), chance):
        rank = chance.choice((0, 1, 2, 3, 4, 4, 5, 33, 65))
        shape = [
            chance.choice(DIMS) if chance.random() < 0.4 else chance.randint(1, 4)
            for _ in range(rank)
        ]
        _attributes(node)["__shape__"] = chance.choice(
            (str(tuple(shape)), str(shape), f"({shape[0] if shape else ''}")
        )


def rename_nodes(graph: Json, chance: random.Random) -> None:
    for node in _some(graph["nodes"], chance):
        node["name"] = chance.choice((*NAMES, chance.choice(graph["nodes"])["name"]))


def change_operator(graph: Json, chance: random.Random) -> None:
    """Make another operator of some, with the same inputs and attributes."""
    for node in _some(operators(graph), chance):
        node["op"] = chance.choice((*OPERATORS, "Custom", "nonesuch", "", "NULL"))


def change_entries(graph: Json, chance: random.Random) -> None:
    """Let some inputs refer to other nodes, to outputs that are hidden or not there, or to other versions."""
    for node in _some(graph["nodes"], chance):
        for entry in node["inputs"]:
            place = chance.randrange(len(entry))
            if chance.random() < 0.5:
                entry[place] = (
                    chance.choice(NUMBERS) if place else chance.randrange(len(graph["nodes"]))
                )


def change_inputs(graph: Json, chance: random.Random) -> None:
    """Add inputs to some nodes (variables too), repeat, exchange or remove them."""
    for node in _some(graph["nodes"], chance):
        inputs = node["inputs"]
        way = chance.randrange(4)
        if way == 0 or not inputs:
            inputs.insert(chance.randint(0, len(inputs)), _entry(graph, chance))
        elif way == 1:
            inputs.append(list(chance.choice(inputs)))
        elif way == 2:
            chance.shuffle(inputs)
        else:
            inputs.pop(chance.randrange(len(inputs)))


def change_heads(graph: Json, chance: random.Random) -> None:
    heads = graph["heads"]
    way = chance.randrange(4)
    if way == 0 and heads:
        chance.choice(heads)[1] = chance.choice(NUMBERS)
    elif way == 1 and heads:
        heads.append(list(chance.choice(heads)))
    elif way == 2:
        heads.clear()
    else:
        heads.append(_entry(graph, chance))


def add_dependencies(graph: Json, chance: random.Random) -> None:
    """Control dependencies between any nodes."""
    for node in _some(graph["nodes"], chance):
        node.setdefault("control_deps", []).append(chance.randrange(len(graph["nodes"])))


def change_counts(graph: Json, chance: random.Random) -> None:
    """Another ``node_row_ptr``, or another ``arg_nodes``."""
    key = chance.choice(("node_row_ptr", "node_row_ptr", "arg_nodes"))
    row = graph.setdefault(key, list(range(len(graph["nodes"]) + 1)))
    way = chance.randrange(4)
    if way == 0 and row:
        start, step = chance.randrange(len(row)), chance.choice((1, 5, 2**31, 2**32, 2**40))
        row[start:] = [number + step for number in row[start:]]
    elif way == 1 and row:
        row[chance.randrange(len(row))] = chance.choice(NUMBERS)
    elif way == 2:
        row.append(chance.choice(NUMBERS))
    else:
        del graph[key]


def change_semantics(graph: Json, chance: random.Random) -> None:
    graph.setdefault("attrs", {"mxnet_version": ["int", 10901]})["is_np_shape"] = [
        "int",
        chance.choice((0, 1, 1, 1, 2, -1)),
    ]


def nest(graph: Json, chance: random.Random) -> None:
    """Put a copy of the graph into a node of it."""
    if len(graph["nodes"]) < 40:
        node = chance.choice(graph["nodes"])
        node["subgraphs"] = [copy.deepcopy(graph) for _ in range(chance.randint(1, 3))]
        if chance.random() < 0.7:
            node["op"] = chance.choice(("_foreach", "_while_loop", "_cond", "_CachedOp"))


def grow(graph: Json, chance: random.Random) -> None:
    """Add operators on what is there; the last is a head."""
    for _ in range(chance.randint(1, 4)):
        op = chance.choice(OPERATORS)
        node = {"op": op, "name": f"{op}{len(graph['nodes'])}", "attrs": {}, "inputs": []}
        node["inputs"] = [
            [chance.randrange(len(graph["nodes"])), 0, 0]
            for _ in range(chance.choice((0, 1, 1, 2, 2, 3)))
        ]
        signature = lookup(op)
        for parameter in (signature.parameters or ()) if signature is not None else ():
            if parameter.required or chance.random() < 0.2:
                node["attrs"][parameter.name] = chance.choice((*parameter.choices, *TEXTS[:20]))
        graph["nodes"].append(node)
    graph["heads"].append([len(graph["nodes"]) - 1, 0, 0])


def replace_value(graph: Json, chance: random.Random) -> None:
    """Put a value of any type at any place."""
    place: Any = graph
    while True:
        keys: Sequence[Any] = sorted(place) if isinstance(place, dict) else range(len(place))
        if not keys:
            return
        key = chance.choice(keys)
        if not isinstance(place[key], (dict, list)) or chance.random() < 0.2:
            place[key] = chance.choice(
                (None, True, -1, 2**64, 1.5, "", "x", [], {}, [[]], {"a": "b"})
            )
            return
        place = place[key]


OPERATORS = sorted(load_registered_signatures())
HOSTILE: tuple[Mutation, ...] = (
    set_attribute, set_attribute, set_attribute, drop_attribute, declare_shape, declare_shape, rename_nodes, change_operator,
    change_entries, change_inputs, change_inputs, change_heads, add_dependencies, change_counts, change_semantics, nest, grow,
    grow,
)  # fmt: skip


def mutate(source: Json, chance: random.Random) -> tuple[bytes, list[str]]:
    """Return a changed copy of a graph as a file, and the names of what was done to it."""
    graph = copy.deepcopy(source)
    chosen = [
        chance.choice(HOSTILE if chance.random() < 0.7 else MUTATIONS)
        for _ in range(chance.randint(1, 5))
    ]
    if chance.random() < 0.05:
        chosen.append(replace_value)
    names = []
    for mutation in chosen:
        try:
            mutation(graph, chance)
        except (
            KeyError,
            IndexError,
            TypeError,
            ValueError,
            AttributeError,
        ):  # one before took away what it needs
            continue
        names.append(mutation.__name__)
    return json.dumps(graph, ensure_ascii=chance.random() < 0.5).encode(
        "utf-8", "surrogatepass"
    ), names


def _some(nodes: list[Json], chance: random.Random) -> list[Json]:
    return chance.sample(nodes, k=min(len(nodes), chance.choice((1, 1, 2, 3))))


def _variables(graph: Json) -> list[Json]:
    return [node for node in graph["nodes"] if node["op"] == "null"]


def _attributes(node: Json) -> dict[str, str]:
    found: dict[str, str] = node.setdefault(attribute_key(node), {})
    return found


def _entry(graph: Json, chance: random.Random) -> list[int]:
    index = chance.choice((0, 0, 0, 1, 3, 2**32 - 1))
    return [chance.randrange(len(graph["nodes"])), index, 0]
