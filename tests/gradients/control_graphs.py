"""Graphs with control flow: their symbols, and shapes of their variables. Plain Python, so that MXNet reads it too."""

from __future__ import annotations

from typing import Any


def _var(name: str) -> dict[str, Any]:
    return {"op": "null", "name": name, "inputs": []}


def _op(op: str, name: str, inputs: list[int], **attrs: str) -> dict[str, Any]:
    return {"op": op, "name": name, "attrs": attrs, "inputs": [[i, 0, 0] for i in inputs]}


def _body(nodes: list[dict[str, Any]], heads: list[int]) -> dict[str, Any]:
    return {
        "nodes": nodes,
        "arg_nodes": [i for i, node in enumerate(nodes) if node["op"] == "null"],
        "node_row_ptr": list(range(len(nodes) + 1)),
        "heads": [[i, 0, 0] for i in heads],
    }


def _whole(
    names: list[str], node: dict[str, Any], outputs: int, bodies: list[dict[str, Any]]
) -> dict[str, Any]:
    nodes = [*map(_var, names), {**node, "subgraphs": bodies}]
    return {
        "nodes": nodes,
        "arg_nodes": list(range(len(names))),
        "heads": [[len(names), i, 0] for i in range(outputs)],
        "attrs": {"mxnet_version": ["int", 10901]},
    }


def foreach() -> dict[str, Any]:
    """state = tanh(state * w + d) for each step, output state * d."""
    body = _body(
        [
            _var("s"),
            _var("w"),
            _op("elemwise_mul", "sw", [0, 1]),
            _var("d"),
            _op("elemwise_add", "a", [2, 3]),
            _op("tanh", "t", [4]),
            _op("elemwise_mul", "o", [5, 3]),
        ],
        [6, 5],
    )
    attrs = {"num_args": "4", "num_outputs": "2", "num_out_data": "1"}
    places = {"in_data_locs": "(2,)", "in_state_locs": "(0,)", "remain_locs": "(1,)"}
    return _whole(
        ["data", "state", "weight"],
        _op("_foreach", "each", [0, 1, 2], **attrs, **places),
        2,
        [body],
    )


def while_loop() -> dict[str, Any]:
    """While i < limit: output s * i, then i = i + 1 and s = sin(s * w)."""
    condition = _body([_var("i"), _var("limit"), _op("broadcast_lesser", "less", [0, 1])], [2])
    step = _body(
        [
            _var("s"),
            _var("i"),
            _op("broadcast_mul", "o", [0, 1]),
            _op("_plus_scalar", "next", [1], scalar="1"),
            _var("w"),
            _op("elemwise_mul", "sw", [0, 4]),
            _op("sin", "sin", [5]),
        ],
        [2, 3, 6],
    )
    attrs = {"num_args": "6", "num_outputs": "3", "num_out_data": "1", "max_iterations": "5"}
    places = {
        "cond_input_locs": "(0, 1)",
        "func_input_locs": "(2, 0, 3)",
        "func_var_locs": "(1, 0)",
    }
    names = ["i", "limit", "s", "weight"]
    return _whole(
        names, _op("_while_loop", "loop", [0, 1, 2, 3], **attrs, **places), 3, [condition, step]
    )


def variables_of_one_input() -> dict[str, Any]:
    """Three steps of a, b = a * b, b + w, which begin as the same array; output a."""
    condition = _body(
        [_var("i"), _op("norm", "size", [0]), _op("_greater_scalar", "more", [1], scalar="0")], [2]
    )
    step = _body(
        [
            _var("a"),
            _var("b"),
            _var("w"),
            _op("elemwise_mul", "ab", [0, 1]),
            _op("elemwise_add", "bw", [1, 2]),
        ],
        [0, 3, 4],
    )
    attrs = {"num_args": "4", "num_outputs": "3", "num_out_data": "1", "max_iterations": "3"}
    places = {"cond_input_locs": "(1,)", "func_input_locs": "(0, 0, 1)", "func_var_locs": "(0, 1)"}
    return _whole(
        ["x", "weight"], _op("_while_loop", "loop", [0, 1], **attrs, **places), 3, [condition, step]
    )


def single_step() -> dict[str, Any]:
    """One step: output s * w, and s passed on as it is."""
    condition = _body(
        [_var("s"), _op("norm", "size", [0]), _op("_greater_scalar", "more", [1], scalar="0")], [2]
    )
    step = _body([_var("s"), _var("w"), _op("elemwise_mul", "o", [0, 1])], [2, 0])
    attrs = {"num_args": "4", "num_outputs": "2", "num_out_data": "1", "max_iterations": "1"}
    places = {"cond_input_locs": "(0,)", "func_input_locs": "(0, 1)", "func_var_locs": "(0,)"}
    return _whole(
        ["s", "weight"], _op("_while_loop", "loop", [0, 1], **attrs, **places), 2, [condition, step]
    )


def cond() -> dict[str, Any]:
    """x * y if p > 0, else x - y."""
    condition = _body([_var("p"), _op("_greater_scalar", "more", [0], scalar="0")], [1])
    then = _body([_var("x"), _var("y"), _op("elemwise_mul", "xy", [0, 1])], [2])
    other = _body([_var("x"), _var("y"), _op("elemwise_sub", "less", [0, 1])], [2])
    attrs = {"num_args": "6", "num_outputs": "1"}
    places = {"cond_input_locs": "(0,)", "then_input_locs": "(1, 2)", "else_input_locs": "(1, 2)"}
    return _whole(
        ["p", "x", "y"],
        _op("_cond", "either", [0, 1, 2], **attrs, **places),
        1,
        [condition, then, other],
    )


# name: graph, values of what is not drawn, shapes of what is
GRAPHS: dict[str, tuple[dict[str, Any], dict[str, list[float]], dict[str, tuple[int, ...]]]] = {
    "foreach": (foreach(), {}, {"data": (4, 3), "state": (3,), "weight": (3,)}),
    "while_loop": (while_loop(), {"i": [0.0], "limit": [3.0]}, {"s": (3,), "weight": (3,)}),
    "while_loop to its end": (
        while_loop(),
        {"i": [0.0], "limit": [9.0]},
        {"s": (3,), "weight": (3,)},
    ),
    "while_loop that never ran": (
        while_loop(),
        {"i": [4.0], "limit": [3.0]},
        {"s": (3,), "weight": (3,)},
    ),
    "while_loop of one step": (single_step(), {}, {"s": (3,), "weight": (3,)}),
    "while_loop, variables of one input": (
        variables_of_one_input(),
        {},
        {"x": (3,), "weight": (3,)},
    ),
    "cond, then": (cond(), {"p": [1.0]}, {"x": (3,), "y": (3,)}),
    "cond, else": (cond(), {"p": [-1.0]}, {"x": (3,), "y": (3,)}),
}
