"""The comparison of two branches after a step of training, and that it finds what is wrong."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.verification.comparison import Tolerance
from graphshare.verification.training import Training, TrainingData, _apart, compare_training
from tests.symbols import document, operator, variable


def compared(
    *, tied: bool = False, frozen: bool = False, second: float | None = None, **attrs: str
) -> Training:
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
    branches, steps = (
        (graph.heads[:1], graph.heads[1:]),
        [TrainingData(each) for each in (values, different)],
    )
    return compare_training(
        branches, pairs, parameters, *steps, rescale=1.0, tolerance=Tolerance(rtol=1e-6)
    )


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
    # The gradients of both branches, on equal inputs
    assert np.isclose(found.outputs[0].after, 2 * (1 - 0.01 * 4))


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


def close(wanted: Any) -> Any:
    return pytest.approx(wanted, rel=1e-5)


def test_outputs_and_their_twins_are_measured_one_by_one() -> None:
    """Two losses of each branch: a product, and its square."""
    nodes = [variable(name) for name in ("p", "q", "w_weight", "q_weight")]
    nodes += [operator("elemwise_mul", "a", [0, 2]), operator("elemwise_mul", "b", [1, 3])]
    nodes += [operator("square", "a2", [4]), operator("square", "b2", [5])]
    nodes += [operator("MakeLoss", f"loss{number}", [number]) for number in range(4, 8)]
    graph = read_symbol(json.dumps(document(nodes, [8, 10, 9, 11])).encode())
    node = {each.name: each for each in graph.nodes}
    numbers = {"p": 2.0, "q": 2.0, "w_weight": 1.0, "q_weight": 3.0}
    values: dict[Any, Any] = {
        node[name]: np.array([number], "float32") for name, number in numbers.items()
    }
    parameters = [(node["w_weight"], node["q_weight"], False)]
    trained = compare_training(
        (graph.heads[:2], graph.heads[2:]),
        [],
        parameters,
        TrainingData(values),
        TrainingData(values),
        rescale=1.0,
        tolerance=Tolerance(rtol=1e-6),
    )
    # A weight moves by 0.01 of its gradient, 2 + 2 * product * 2.
    rows = [
        (each.before, each.after, each.twin_before, each.twin_after) for each in trained.outputs
    ]
    assert rows == [close((2, 1.8, 6, 5.48)), close((4, 1.8**2, 36, 5.48**2))]
    assert [each.comparison.max_abs for each in trained.outputs] == close(
        [5.48 - 1.8, 5.48**2 - 1.8**2]
    )
    (pair,) = trained.pairs
    assert (pair.changed, pair.equal_inputs) == (close(0.1), close(2.74 - 0.9))


_NAN = float("nan")


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [
        ([1.0, _NAN], [1.0, _NAN], 0.0),
        ([1.0, _NAN], [1.5, 2.0], float("inf")),
        ([1.0, 5.0], [1.5, 3.0], 2.0),
        ([7, 2], [4, 2], 3.0),
        ([], [], 0.0),
    ],
)
def test_arrays_are_so_far_apart(a: list[float], b: list[float], distance: float) -> None:
    assert _apart(np.array(a), np.array(b)) == distance


def trained_branches(feeds: dict[str, float], share: tuple[str, ...] = ()) -> Training:
    """Train two branches of a product of data and weight, which is 1, with the square of its distance from a label."""
    nodes = [
        variable("data"),
        variable("w_weight"),
        variable("out_label"),
        operator("elemwise_mul", "a", [0, 1]),
    ]
    graph = read_symbol(
        json.dumps(
            document([*nodes, operator("LinearRegressionOutput", "out", [3, 2])], [4])
        ).encode()
    )
    model = gs.Checkpoint(graph).with_params({"w_weight": np.ones((1, 1), "float32")})
    model = gs.duplicate(model, "sha-", mode="copy", share_inputs=share)
    report = gs.verify(
        model,
        train_step=True,
        feeds={name: np.full((1, 1), x, "float32") for name, x in feeds.items()},
    )
    (branch,) = report.branches
    assert isinstance(branch.training, Training)
    return branch.training


def test_a_branch_is_trained_on_inputs_of_its_own() -> None:
    """The gradient is (product - label) * data: -6 of the reference, and -4 of the branch on its data."""
    (pair,) = trained_branches({"data": 2, "sha-data": 4, "out_label": 5}).pairs
    assert (pair.fate, pair.changed, pair.equal_inputs) == ("drifts", close(0.06), 0.0)
    assert pair.different_inputs == close(0.02)


def test_inputs_of_a_branch_are_drawn_where_both_have_the_same() -> None:
    for feeds in ({"data": 2, "out_label": 5}, {"data": 2, "sha-data": 2, "out_label": 5}):
        (pair,) = trained_branches(dict(feeds)).pairs
        assert (pair.fate, pair.changed, pair.equal_inputs) == ("drifts", close(0.06), 0.0)
        assert pair.different_inputs > 0.001


def test_labels_are_other_classes_where_data_is_shared() -> None:
    """The reference has class 1 and a gradient of 2, the branch class 0 and one of 4; of class 5, all have 1."""
    for label, distance in ((1, 0.02), (5, 0.08)):
        (pair,) = trained_branches({"data": 2, "out_label": label}, ("data",)).pairs
        assert (pair.fate, pair.equal_inputs) == ("drifts", 0.0)
        assert pair.different_inputs == close(distance)
    (pair,) = trained_branches({"data": 2, "out_label": 1, "sha-out_label": 5}, ("data",)).pairs
    assert pair.different_inputs == close(0.08), "what is fed stays"
