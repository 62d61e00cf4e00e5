"""Cases for control flow whose bodies are subgraphs. Plain data."""

from tests.kernels.rounding import sum_rounding


def graph(nodes, heads):
    found = [
        {
            "op": op,
            "name": name,
            "attrs": attrs,
            "inputs": [list(i) if isinstance(i, tuple) else [i, 0, 0] for i in inputs],
            **more,
        }
        for op, name, attrs, inputs, more in (
            node if len(node) == 5 else (*node, {}) for node in nodes
        )
    ]
    variables = [i for i, node in enumerate(found) if node["op"] == "null"]
    heads = [list(h) if isinstance(h, tuple) else [h, 0, 0] for h in heads]
    return {"nodes": found, "arg_nodes": variables, "node_row_ptr": [], "heads": heads}


def variables(*names):
    return [("null", name, {}, ()) for name in names]


def foreach(body, data, states, rest, inputs, heads, num_out_data=1):
    count = len(data) + len(states) + len(rest)
    attrs = {
        "num_args": str(count + 1),
        "num_outputs": str(heads),
        "num_out_data": str(num_out_data),
        "in_data_locs": str(data),
        "in_state_locs": str(states),
        "remain_locs": str(rest),
    }
    return {"op": "_foreach", "attrs": attrs, "inputs": inputs, "subgraphs": [body]}


# out = x * w + s, s = s + x
STEP = graph(
    [*variables("x", "w", "s"), ("broadcast_mul", "xw", {}, [0, 1]), ("elemwise_add", "out", {}, [3, 2]),
     ("elemwise_add", "next", {}, [2, 0])],
    [4, 5],
)  # fmt: skip
# A state of one shape, weights that only inference sizes: h = tanh(x A + h B)
CELL = graph(
    [*variables("x", "A", "h", "B"), ("FullyConnected", "a", {"num_hidden": "3", "no_bias": "True"}, [0, 1]),
     ("FullyConnected", "b", {"num_hidden": "3", "no_bias": "True"}, [2, 3]), ("elemwise_add", "sum", {}, [4, 5]),
     ("tanh", "next", {}, [6])],
    [7, 7],
)  # fmt: skip
TWO = graph(
    [*variables("x", "y", "s"), ("elemwise_sub", "d", {}, [0, 1]), ("elemwise_mul", "p", {}, [0, 1]),
     ("elemwise_add", "next", {}, [2, 3])],
    [3, 4, 5],
)  # fmt: skip
INNER = foreach(STEP, [0], [2], [1], [], 2)
NESTED = graph(
    [
        *variables("x", "w", "s"),
        ("_foreach", "inner", INNER["attrs"], [0, 2, 1], {"subgraphs": [STEP]}),
    ],
    [(3, 0, 0), (3, 1, 0)],
)


def while_loop(condition, step, cond, func, loop, inputs, heads, limit=5, num_out_data=1):
    attrs = {
        "num_args": str(len(inputs) + 2),
        "num_outputs": str(heads),
        "num_out_data": str(num_out_data),
        "max_iterations": str(limit),
        "cond_input_locs": str(cond),
        "func_input_locs": str(func),
        "func_var_locs": str(loop),
    }
    return {"op": "_while_loop", "attrs": attrs, "inputs": inputs, "subgraphs": [condition, step]}


BELOW = graph([*variables("i", "limit"), ("broadcast_lesser", "less", {}, [0, 1])], [2])
COUNT = graph(
    [*variables("i", "s"), ("_mul_scalar", "ten", {"scalar": "10"}, [0]), ("elemwise_add", "out", {}, [2, 1]),
     ("_plus_scalar", "next", {"scalar": "1"}, [0]), ("elemwise_add", "sum", {}, [1, 0])],
    [3, 4, 5],
)  # fmt: skip


def number(value):
    return {"shape": [1], "value": value}


def cond(condition, then, other, places, inputs, heads):
    attrs = {"num_args": str(len(inputs) + 3), "num_outputs": str(heads)}
    attrs.update(
        cond_input_locs=str(places[0]),
        then_input_locs=str(places[1]),
        else_input_locs=str(places[2]),
    )
    return {"op": "_cond", "attrs": attrs, "inputs": inputs, "subgraphs": [condition, then, other]}


POSITIVE = graph([*variables("c"), ("_greater_scalar", "p", {"scalar": "0"}, [0])], [1])
MINUS = graph(
    [*variables("a", "b"), ("elemwise_sub", "d", {}, [0, 1]), ("elemwise_add", "e", {}, [0, 1])],
    [2, 3],
)
TIMES = graph(
    [*variables("b", "a"), ("elemwise_mul", "d", {}, [0, 1]), ("elemwise_sub", "e", {}, [0, 1])],
    [2, 3],
)
PAIR = [{"shape": [2, 3]}, {"shape": [2, 3]}]

CASES = [
    foreach(STEP, [0], [2], [1], [{"shape": [4, 2]}, {"shape": [2]}, {"shape": [2]}], 2),
    foreach(STEP, [0], [2], [1], [{"shape": [4]}, {"shape": [1]}, {"shape": [1]}], 2),
    foreach(STEP, [0], [2], [1], [{"shape": [4, 2], "dtype": "float64"}] + [{"shape": [2], "dtype": "float64"}] * 2, 2),
    dict(foreach(CELL, [0], [2], [1, 3], [{"shape": s} for s in ([4, 2, 5], [2, 3], [3, 5], [3, 3])], 2), atol=sum_rounding(8)),
    foreach(TWO, [0, 1], [2], [], [{"shape": [4, 2, 3]}, {"shape": [4, 2, 3]}, {"shape": [2, 3]}], 3, 2),
    foreach(NESTED, [0], [2], [1], [{"shape": [3, 4, 2]}, {"shape": [2]}, {"shape": [2]}], 2),
    while_loop(BELOW, COUNT, [0, 1], [0, 2], [0, 1], [number(0), number(9), number(1)], 3),
    cond(POSITIVE, MINUS, TIMES, ([0], [1, 2], [2, 1]), [number(1.0), *PAIR], 2),
    cond(POSITIVE, MINUS, TIMES, ([0], [1, 2], [2, 1]), [number(-1.0), *PAIR], 2),
]  # fmt: skip
