"""Control flow over bodies written in numpy: which array feeds which variable, and when a loop ends."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.ops.kernel import Context, KernelError, KernelResult
from graphshare.ops.registry import find_kernel, lookup
from tests.kernels.control_attrs import FOREACH, WHILE

Body = Callable[..., list[Any]]


def run(operator: str, attrs: dict[str, str], bodies: Sequence[Body], *inputs: Any) -> Any:
    signature, kernel = lookup(operator), find_kernel(operator)
    assert signature is not None
    assert kernel is not None
    values, faults = signature.parse(attrs)
    assert not faults
    context = Context(run_subgraph=lambda number, arrays: bodies[number](*arrays))
    result = kernel.forward(context, values, *inputs)
    return result.outputs if isinstance(result, KernelResult) else result


COND = {
    "num_args": "6",
    "num_outputs": "1",
    "cond_input_locs": "[0]",
    "then_input_locs": "[1, 2]",
    "else_input_locs": "[2, 1]",
}


def one(value: float) -> Any:
    return np.array([value], "float32")


def test_foreach_hands_states_on_and_stacks_what_the_steps_give() -> None:
    data, state, rest = (
        np.arange(6, dtype="float32").reshape(3, 2),
        np.ones(2, "float32"),
        np.full(2, 10, "float32"),
    )
    stacked, last = run("_foreach", FOREACH, [lambda s, r, d: [d * r, s + d]], data, state, rest)
    assert np.array_equal(stacked, data * 10)
    assert np.array_equal(last, 1 + data.sum(axis=0))


def test_foreach_keeps_one_axis_of_data_with_a_single_axis() -> None:
    data = np.arange(3, dtype="float32")
    stacked, last = run("_foreach", FOREACH, [lambda s, r, d: [d * r, s + d]], data, one(0), one(2))
    assert stacked.tolist() == [[0], [2], [4]]
    assert last.tolist() == [3]


def test_foreach_over_nothing_returns_its_states() -> None:
    data, state, rest = (
        np.zeros((0, 2), "float32"),
        np.ones(2, "float32"),
        np.full(2, 10, "float32"),
    )
    stacked, last = run("_foreach", FOREACH, [lambda s, r, d: [d * r, s + d]], data, state, rest)
    assert stacked.shape == (0, 2)
    assert np.array_equal(last, state)


def test_while_loop_as_mxnet_ran_it() -> None:
    bodies: list[Body] = [
        lambda i, lim: [(i < lim).astype("float32")],
        lambda i, s: [i * 10 + s, i + 1, s + i],
    ]
    stacked, i, s = run("_while_loop", WHILE, bodies, one(0), one(3), one(1))
    assert stacked[:3].tolist() == [[1], [11], [22]]
    assert stacked.shape == (5, 1)
    assert (i.tolist(), s.tolist()) == ([3], [4])


def test_while_loop_stops_at_max_iterations_and_may_take_no_step() -> None:
    bodies: list[Body] = [
        lambda i, lim: [(i < lim).astype("float32")],
        lambda i, s: [i * 10 + s, i + 1, s + i],
    ]
    stacked, i, _ = run("_while_loop", WHILE, bodies, one(0), one(99), one(1))
    assert stacked.tolist() == [[1], [11], [22], [34], [47]]
    assert i.tolist() == [5]
    stacked, i, s = run("_while_loop", WHILE, bodies, one(4), one(3), one(1))
    assert stacked.tolist() == [[0]] * 5
    assert (i.tolist(), s.tolist()) == ([4], [1])


def test_cond_takes_one_branch() -> None:
    bodies: list[Body] = [lambda c: [c > 0], lambda a, b: [a - b], lambda b, a: [b * a]]
    assert run("_cond", COND, bodies, one(1), one(5), one(2))[0].tolist() == [3]
    assert run("_cond", COND, bodies, one(-1), one(5), one(2))[0].tolist() == [10]


def test_faults_in_words() -> None:
    with pytest.raises(KernelError, match="one number"):
        run("_cond", COND, [lambda c: [np.ones(2)]] * 3, one(1), one(5), one(2))
    with pytest.raises(KernelError, match="map 3 inputs, but there are 2"):
        run("_foreach", FOREACH, [lambda *a: []], one(1), one(2))
    bodies: list[Body] = [lambda i, lim: [i < lim], lambda i, s: [i, i, np.ones((2, 2))]]
    with pytest.raises(KernelError, match="shape of a loop variable changed"):
        run("_while_loop", WHILE, bodies, one(0), one(3), one(1))


@pytest.mark.parametrize(("count", "length"), [("0", 3), ("2", 3), ("0", 0)])
def test_heads_that_are_neither_stacked_nor_states(count: str, length: int) -> None:
    data = np.ones((length, 2), "float32")
    expected = f"the body has 2 heads, expected {int(count) + 1}: num_out_data is {count}, and 1 state follow"
    with pytest.raises(KernelError, match=expected):
        run(
            "_foreach",
            {**FOREACH, "num_out_data": count},
            [lambda s, r, d: [d, s]],
            data,
            one(1),
            one(2),
        )
    bodies: list[Body] = [lambda i, lim: [i < lim], lambda i, s: [i + 1, s]]
    with (
        pytest.raises(KernelError, match=f"the body has 2 heads, expected {int(count) + 2}")
        if int(count)
        else nullcontext()
    ):
        run("_while_loop", {**WHILE, "num_out_data": count}, bodies, one(0), one(3), one(1))


def test_variables_that_start_from_one_input_part_in_the_first_step() -> None:
    attrs = {**WHILE, "cond_input_locs": "[1, 2]", "func_input_locs": "[1, 1]"}
    bodies: list[Body] = [lambda s, lim: [s < lim], lambda i, s: [i * 10 + s, i + 1, s + i]]
    stacked, i, s = run("_while_loop", attrs, bodies, one(0), one(9), one(11))
    # Recorded with MXNet 1.9.1: the condition reads the last variable of an input.
    assert (stacked[:1].tolist(), i.tolist(), s.tolist()) == ([[99]], [10], [18])
    stacked, i, s = run(
        "_while_loop", {**attrs, "cond_input_locs": "[0, 2]"}, bodies, one(0), one(9), one(11)
    )
    assert (stacked[:, 0].tolist(), i.tolist(), s.tolist()) == (
        [99, 118, 138, 159, 181],
        [14],
        [64],
    )


@pytest.mark.corpus
def test_foreach_over_an_lstm_cell_gives_what_mxnet_gave(corpus: Path) -> None:
    graph = json.loads((corpus / "graphs" / "cf_foreach.json").read_text())
    node = next(node for node in graph["nodes"] if node["op"] == "_foreach")
    spec = importlib.util.spec_from_file_location("seeded_params", corpus / "seeded_params.py")
    assert spec is not None
    assert spec.loader is not None
    seeded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(seeded)
    shapes = {"i2h_weight": (20, 4), "i2h_bias": (20,), "h2h_weight": (20, 5), "h2h_bias": (20,)}
    weights = [seeded.value(f"cell_{name}", shape) for name, shape in shapes.items()]
    with np.load(corpus / "oracle" / "cf_foreach.io.npz") as io:
        inputs = [io["in__data"], io["in__h0"], io["in__c0"]]
        wanted = [io[f"out__{i}"] for i in range(3)]

    def cell(x: Any, wi: Any, bi: Any, h: Any, wh: Any, bh: Any, c: Any) -> list[Any]:
        i, f, new, o = np.split(x @ wi.T + bi + h @ wh.T + bh, 4, axis=1)
        c = c / (1 + np.exp(-f)) + np.tanh(new) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        return [h, h, c]

    for got, want in zip(
        run("_foreach", node["attrs"], [cell], *inputs, *weights), wanted, strict=True
    ):
        assert np.abs(got - want).max() <= 1e-5
