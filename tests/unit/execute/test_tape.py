"""Reverse accumulation: sums over uses, what is freed, what is refused, and states that operators share."""

from __future__ import annotations

import json
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from graphshare.errors import RefusedError
from graphshare.execute.plan import make_plan
from graphshare.execute.train.tape import Tape, needs_head_gradient
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Graph
from graphshare.ops import registry
from graphshare.ops.gradient import Gradient, NoGradient
from tests.gradients.checker import check
from tests.symbols import document, operator, variable


def graph_of(nodes: list[dict[str, Any]], heads: Sequence[Any]) -> Graph:
    return read_symbol(json.dumps(document(nodes, heads)).encode())


def gone_back(
    graph: Graph, arrays: dict[str, Any], wanted: Sequence[str], heads: Sequence[Any] | None = None
) -> dict[str, Any]:
    """Gradients and new states by name."""
    variables = {node.name: node for node in graph.variables()}
    values = {variables[name]: np.asarray(array, "float64") for name, array in arrays.items()}
    tape = Tape(make_plan(graph.heads), values, [variables[name] for name in wanted])
    found = tape.backward([None] * len(graph.heads) if heads is None else heads)
    return {
        node.name: array
        for node, array in {**tape.overwritten, **found.gradients, **found.updates}.items()
    }


def test_gradients_are_summed_over_all_uses() -> None:
    nodes = [variable("w"), *(operator("square", f"s{i}", [0]) for i in range(12))]
    nodes += [
        operator("add_n", "sum", range(1, 13), attrs={"num_args": "12"}),
        operator("MakeLoss", "loss", [13]),
    ]
    found = gone_back(graph_of(nodes, [14]), {"w": [3.0, -1.0]}, ["w"])
    assert found["w"].tolist() == [72.0, -24.0]


def test_one_node_twice_in_one_operator() -> None:
    nodes = [
        variable("w"),
        operator("elemwise_mul", "m", [0, 0]),
        operator("MakeLoss", "loss", [1]),
    ]
    assert gone_back(graph_of(nodes, [2]), {"w": [3.0]}, ["w"])["w"].tolist() == [6.0]


def test_a_tape_adds_up_the_gradients_of_a_repeated_head() -> None:
    """So does MXNet in the body of a loop, whose state is often an output too."""
    graph = graph_of([variable("w"), operator("square", "s", [0])], [1, 1])
    heads = [np.array([1.0]), np.array([10.0])]
    assert gone_back(graph, {"w": [3.0]}, ["w"], heads)["w"].tolist() == [66.0]


def test_a_head_that_is_a_variable_passes_its_gradient_on() -> None:
    assert gone_back(graph_of([variable("w")], [0]), {"w": [3.0]}, ["w"], [np.array([5.0])])[
        "w"
    ].tolist() == [5.0]


def test_what_nobody_asks_for_has_no_gradient() -> None:
    nodes = [
        variable("x"),
        variable("w"),
        operator("elemwise_mul", "m", [0, 1]),
        operator("MakeLoss", "loss", [2]),
    ]
    assert list(gone_back(graph_of(nodes, [3]), {"x": [2.0], "w": [3.0]}, ["w"])) == ["w"]


def test_values_are_freed_on_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a chain that reads outputs alone, one value and one gradient more than are kept live at a time."""
    alive: list[int] = []
    made: list[weakref.ref[Any]] = []
    right = registry.GRADIENTS.all()["tanh"]
    assert isinstance(right, Gradient)

    def counted(record: Any, dy: Any) -> Any:
        found = right.vjp(record, dy)
        made.append(weakref.ref(found))
        alive.append(sum(ref() is not None for ref in made))
        return found

    monkeypatch.setitem(
        registry.GRADIENTS.registered, "tanh", Gradient("tanh", counted, reads_inputs=False)
    )
    nodes = [variable("w"), *(operator("tanh", f"t{i}", [i]) for i in range(20))]
    gone_back(graph_of(nodes, [20]), {"w": np.ones(5)}, ["w"], [np.ones(5)])
    assert len(made) == 20
    assert max(alive) <= 2


def test_operators_without_a_gradient_are_all_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        registry.GRADIENTS.registered, "sin", NoGradient("sin", "planted", is_zero=False)
    )
    nodes = [
        variable("w"),
        variable("x"),
        operator("sin", "a", [0]),
        operator("sin", "b", [2]),
        operator("sin", "c", [1]),
    ]
    nodes.append(operator("elemwise_add", "d", [3, 4]))
    with pytest.raises(RefusedError) as refusal:
        gone_back(graph_of(nodes, [5]), {"w": [1.0], "x": [1.0]}, ["w"])
    # Nothing follows b, and c is on no way
    assert [fault.node for fault in refusal.value.faults] == ["a"]
    assert "planted" in str(refusal.value)


def test_gradients_end_where_they_are_zero() -> None:
    nodes = [
        variable("w"),
        operator("floor", "f", [0]),
        operator("elemwise_mul", "m", [0, 1]),
        operator("MakeLoss", "l", [2]),
    ]
    assert gone_back(graph_of(nodes, [3]), {"w": [2.5]}, ["w"])["w"].tolist() == [2.0]


def test_a_loss_acts_behind_what_stops_gradients() -> None:
    """MXNet 1.9.1 gives 3 for each of these graphs."""
    for stop in ("BlockGrad", "floor"):
        nodes = [
            variable("x"),
            operator("_mul_scalar", "m", [0], attrs={"scalar": "3"}),
            operator("MakeLoss", "l", [1]),
        ]
        nodes += [operator(stop, "s", [2]), operator("MakeLoss", "last", [3])]
        assert gone_back(graph_of(nodes, [4]), {"x": [1.0, 2.0]}, ["x"])["x"].tolist() == [3.0, 3.0]


def test_which_heads_need_a_gradient() -> None:
    nodes = [
        variable("x"),
        operator("MakeLoss", "l", [0]),
        operator("BlockGrad", "b", [0]),
        operator("relu", "r", [0]),
    ]
    heads = [entry.node for entry in graph_of(nodes, [0, 1, 2, 3]).heads]
    assert [needs_head_gradient(node) for node in heads] == [True, False, False, True]


def batch_norm(name: str, data: int, momentum: str = "0.5") -> dict[str, Any]:
    inputs = [data, 1, 2, 3, 4]  # gamma, beta and both statistics
    return operator("BatchNorm", name, inputs, attrs={"momentum": momentum, "fix_gamma": "False"})


SHARED = [variable(name) for name in ("gamma", "beta", "mean", "var")]
STATES = {"gamma": [1.0], "beta": [0.0], "mean": [0.0], "var": [0.0]}


@pytest.mark.parametrize(("heads", "mean"), [((9, 10), 1.75), ((10, 9), 1.25)])
@pytest.mark.parametrize("of_inputs", [True, False])
def test_shared_statistics_are_updated_in_the_order_of_the_heads(
    heads: tuple[int, int], mean: float, of_inputs: bool
) -> None:
    """That is, where something that one branch has for itself gets a gradient; else the other way
    round, as in Module.
    """
    nodes = [
        variable("p"),
        *SHARED,
        variable("q"),
        operator("Flatten", "f", [0]),
        batch_norm("bp", 6),
        batch_norm("bq", 5),
    ]
    nodes += [operator("MakeLoss", "lp", [7]), operator("MakeLoss", "lq", [8])]
    wanted = ["p", "q"] * of_inputs + ["gamma", "beta"]
    found = gone_back(
        graph_of(nodes, heads), {"p": [[0.0], [2.0]], "q": [[2.0], [4.0]], **STATES}, wanted
    )
    assert found["mean"].tolist() == [mean if of_inputs else 3 - mean]
    # A quarter of the first mean is left after two updates.
    arrays = {"p": [[0.0], [2.0]], "q": [[2.0], [4.0]], **STATES, "mean": [4.0]}
    assert gone_back(graph_of(nodes, heads), arrays, wanted)["mean"].tolist() == [
        found["mean"].item() + 1
    ]


def test_of_statistics_shared_along_one_way_the_last_come_first() -> None:
    """MXNet 1.9.1: the gradient of the second is formed first, and its statistics go with it."""
    nodes = [
        variable("x"),
        *SHARED,
        batch_norm("one", 0),
        operator("_plus_scalar", "more", [5], attrs={"scalar": "5"}),
    ]
    nodes += [batch_norm("two", 6), operator("MakeLoss", "loss", [7])]
    found = gone_back(graph_of(nodes, [8]), {"x": [[2.0], [4.0]], **STATES}, ["gamma", "beta"])
    assert found["mean"].tolist() == pytest.approx([5 * 0.25 + 3 * 0.5])


def test_a_fixed_gamma_becomes_one_and_has_no_gradient() -> None:
    nodes = [
        variable("x"),
        *SHARED,
        operator("BatchNorm", "bn", [0, 1, 2, 3, 4]),
        operator("MakeLoss", "loss", [5]),
    ]
    found = gone_back(
        graph_of(nodes, [6]), {"x": [[2.0], [4.0]], **STATES, "gamma": [7.0]}, ["beta"]
    )
    assert found["gamma"].tolist() == [1.0]
    found = gone_back(
        graph_of(nodes, [6]), {"x": [[2.0], [4.0]], **STATES, "gamma": [7.0]}, ["gamma"]
    )
    assert found["gamma"].tolist() == [0.0]


def test_statistics_that_are_gathered_stay() -> None:
    attrs = {"use_global_stats": "True", "fix_gamma": "False"}
    nodes = [
        variable("x"),
        *SHARED,
        operator("BatchNorm", "bn", [0, 1, 2, 3, 4], attrs=attrs),
        operator("MakeLoss", "l", [5]),
    ]
    assert list(gone_back(graph_of(nodes, [6]), {"x": [[2.0], [4.0]], **STATES}, ["gamma"])) == [
        "gamma"
    ]


def test_a_mask_is_the_same_for_nodes_of_one_name() -> None:
    nodes = [
        variable("x"),
        operator("Dropout", "d", [0], attrs={"p": "0.5"}),
        operator("MakeLoss", "loss", [1]),
    ]
    graph = graph_of(nodes, [2])
    (x,) = graph.variables()

    def masked(seed: int) -> tuple[Any, Any]:
        streams = lambda node: np.random.default_rng([seed, len(node.name)])  # noqa: E731
        tape = Tape(make_plan(graph.heads), {x: np.ones(64)}, [x], streams=streams)
        return tape.outputs[0], tape.backward([None]).gradients[x]

    first, gradient = masked(1)
    assert np.array_equal(first, gradient)  # of ones the output is the mask, and so is the gradient
    assert set(first.tolist()) == {0.0, 2.0}
    assert np.array_equal(masked(1)[0], first)
    assert not np.array_equal(masked(2)[0], first)


def test_dropout_between_recurrent_layers_is_gone_back_with_the_masks_of_the_forward_pass() -> None:
    attrs = {"mode": "lstm", "state_size": "3", "num_layers": "2", "p": "0.5"}
    nodes = [
        variable("x"),
        variable("w"),
        variable("h"),
        variable("c"),
        operator("RNN", "rnn", [0, 1, 2, 3], attrs=attrs),
    ]
    graph = graph_of(nodes, [4])
    stream = np.random.default_rng(0)
    shapes = {
        "x": (4, 2, 5),
        "w": (4 * 3 * (5 + 3 + 2) + 4 * 3 * (3 + 3 + 2),),
        "h": (2, 2, 3),
        "c": (2, 2, 3),
    }
    values = {node: stream.standard_normal(shapes[node.name]) for node in graph.variables()}
    found = check(graph.heads, values, list(values))
    assert found is not None
    assert found.apart < 1e-6
