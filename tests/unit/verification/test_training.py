"""The comparison of two branches after a step of training, and that it finds what is wrong."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.verification.training import Training, compare_training
from tests.symbols import document, operator, variable


def compared(*, tied: bool = False, frozen: bool = False, second: float | None = None, **attrs: str) -> Training:
    """Two products of data and weight; ``second`` is the data of the other branch in the step on different inputs."""
    weights = ["w_weight", "w_weight" if tied else "q_weight"]
    nodes = [
        variable("p"),
        variable("q"),
        variable("w_weight", attrs=attrs if frozen else {}),
        *([] if tied else [variable("q_weight", attrs=attrs)]),
    ]
    last = len(nodes) - 1
    nodes += [operator("elemwise_mul", "a", [0, 2]), operator("elemwise_mul", "b", [1, last])]
    nodes += [operator("MakeLoss", "la", [last + 1]), operator("MakeLoss", "lb", [last + 2])]
    graph = read_symbol(json.dumps(document(nodes, [last + 3, last + 4])).encode())
    node = {found.name: found for found in graph.nodes}
    array: Any = lambda x: np.array([x], "float32")  # noqa: E731
    values = {node["p"]: array(2.0), node["q"]: array(2.0), node["w_weight"]: array(1.0)}
    values[node[weights[1]]] = array(1.0)
    different = {**values, node["q"]: array(2.0 if second is None else second)}
    pairs = [(node["a"], node["b"]), (node["p"], node["q"])]
    parameters = [(node["w_weight"], node[weights[1]], False)]
    left, right = graph.heads[:1], graph.heads[1:]
    return compare_training(left, right, pairs, parameters, values, different, rescale=1.0, atol=0.0, rtol=1e-6)


def test_copied_parameters_drift_on_different_inputs() -> None:
    found = compared(second=5.0)
    assert found
    (pair,) = found.pairs
    assert (pair.fate, pair.equal_inputs) == ("drifts", 0.0)
    assert np.isclose(pair.different_inputs, 0.03)
    assert np.isclose(pair.changed, 0.02)
    assert found.drifting == (pair,)


def test_tied_parameters_do_not() -> None:
    found = compared(tied=True, second=5.0)
    assert found
    assert [pair.fate for pair in found.pairs] == ["tied"]
    assert not found.drifting
    assert np.isclose(found.outputs[0].after, 2 * (1 - 0.01 * 4))  # the gradients of both branches, on equal inputs


def test_copies_that_this_step_leaves_equal_are_told_apart_from_both() -> None:
    found = compared()
    assert [pair.fate for pair in found.pairs] == ["stays"]
    assert not found.is_tied
    assert not found.drifting


def test_frozen_copies_count_as_tied() -> None:
    nodes = {"__lr_mult__": "0"}
    found = compared(second=5.0, frozen=True, **nodes)
    assert [pair.fate for pair in found.pairs] == ["frozen"]
    assert found.is_tied


def test_branches_that_learn_at_different_rates_are_found_on_equal_inputs() -> None:
    found = compared(__lr_mult__="2.0")
    assert not found
    assert np.isclose(found.pairs[0].equal_inputs, 0.02)
    assert "differ" in found.outputs[0].comparison.reason
