"""Paddle's sharing by name, its scopes, and its session."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from examples import paddle_session
from examples import paddle_shared_fc as example
from graphshare.builder import (
    PADDLE,
    PADDLE_NUMBERED,
    PADDLE_PER_KIND,
    Naming,
    Session,
    Var,
    default_session,
    fully_connected,
    placeholder,
    reset_default_session,
    variable,
    variable_scope,
)
from graphshare.builder.parameter_values import groups, operators
from graphshare.errors import RefusedError


def names(values: list[Var]) -> list[str]:
    return [value.name for value in values]


def inner(target: Var) -> list[str]:
    return [node.name for node in operators([target])]


@pytest.mark.parametrize(
    ("naming", "parameters", "temporaries"),
    [
        (PADDLE, ["FC.w.0", "FC.bias.0"], ["FC.tmp.0", "FC.tmp.1"]),
        (PADDLE_PER_KIND, ["FC.w_0", "FC.b_0"], ["FC.tmp_0", "FC.tmp_1"]),
    ],
)
def test_a_name_given_twice_shares_weight_and_bias_and_no_output(
    naming: Naming, parameters: list[str], temporaries: list[str]
) -> None:
    session, hidden1, hidden2 = example.share_weight(naming)
    assert names(session.params) == parameters
    assert inner(hidden1) == [*temporaries, "FC"]
    assert hidden1.name == "FC_output"
    assert hidden2.name != hidden1.name
    assert len(set(inner(hidden2))) == 6
    one, two = session.run([hidden1, hidden2], {"data": np.ones((2, 20), "float32")})
    assert one.tobytes() != two.tobytes()
    assert session.run(hidden2, {"data": np.ones((2, 20))}).shape == (2, 20)


def test_without_a_bias_there_is_none() -> None:
    with Session(PADDLE) as session:
        hidden = fully_connected(
            placeholder("data", (1, 20)), 20, name="FC", bias=False, activation="sigmoid"
        )
    assert names(session.params) == ["FC.w.0"]
    assert inner(hidden) == ["FC.tmp.0", "FC"]


@pytest.mark.parametrize(
    ("naming", "parameters", "last"),
    [
        (PADDLE, ["fc0.w.0", "fc0.bias.0", "fc1.w.0", "fc1.bias.0"], "fc1"),
        (PADDLE_PER_KIND, ["fc_0.w_0", "fc_0.b_0", "fc_1.w_0", "fc_1.b_0"], "fc_1"),
    ],
)
def test_without_a_name_nothing_is_shared(naming: Naming, parameters: list[str], last: str) -> None:
    session, hidden1, hidden2 = example.not_share_weight(naming)
    assert names(session.params) == parameters
    assert hidden2.node.name == last
    assert not {e.node for e in hidden1.node.inputs} & {e.node for e in hidden2.node.inputs}


def test_one_counter_or_one_for_each_kind() -> None:
    from graphshare.builder import operators as op

    for naming, expected in (
        (PADDLE, ["fc0", "relu1", "fc2"]),
        (PADDLE_PER_KIND, ["fc_0", "relu_0", "fc_1"]),
    ):
        with Session(naming):
            data = placeholder("data", (2, 20))
            made = [fully_connected(data, 4), op.relu(data), fully_connected(data, 4)]
        assert [x.node.name for x in made] == expected


def test_two_guards_give_equal_names_and_share() -> None:
    session, found = example.share_by_guards()
    assert names(session.params) == ["fc_0.w_0", "fc_0.b_0", "Afc_0.w_0", "Afc_0.b_0"]
    assert len({x.name for x in found}) == 3


def test_of_four_two_level_blocks_three_share() -> None:
    session, blocks = example.two_level_blocks()
    shared = ["fc0-level0/W", "fc0-level0/b", "fc0-level1/W", "fc0-level1/b"]
    assert names(session.params) == [*shared, "var-0", "var-1", "var-2", "var-3"]
    used = [
        [v.name for v in session.graph(block).variables() if not v.name.startswith("a")]
        for block in blocks
    ]
    assert used == [shared, shared, shared, ["var-0", "var-1", "var-2", "var-3"]]
    feed = {f"a{i}": np.ones((1, 20), "float32") for i in range(1, 5)}
    one, two, three, four = (value.tobytes() for value in session.run(blocks, feed))
    assert one == two == three != four


def test_operators_are_grouped_by_their_scope() -> None:
    _, blocks = example.two_level_blocks()
    found = {
        scope: [node.name for node in nodes] for scope, nodes in groups(operators(blocks)).items()
    }
    assert {scope: len(nodes) for scope, nodes in found.items()} == {
        "fc0-level0": 6,
        "fc0-level1": 6,
        "": 4,
    }
    assert found["fc0-level0"][0] == "fc0-level0/op-0"
    assert all(name.startswith(scope) for scope, nodes in found.items() for name in nodes)


def test_reuse_without_a_scope_is_refused() -> None:
    with Session(PADDLE):
        data = placeholder("data", (1, 20))
        with pytest.raises(RefusedError, match="reuse needs the scope"):
            example.fc(data, 20, reuse=True)
        with pytest.raises(RefusedError, match="needs a name to find the parameters by"):
            fully_connected(data, 20, reuse=True)
        with pytest.raises(RefusedError, match="cannot be reused"):
            variable(reuse=True)
        with pytest.raises(RefusedError, match=r"fc9/W does not exist"):
            example.fc(data, 20, "fc9", reuse=True)


def test_scopes_carry_defaults() -> None:
    found: dict[str, Any] = example.scopes_with_defaults()
    assert [found[key].name for key in ("a1", "a2", "a3", "b")] == [
        "var-0",
        "var-1",
        "var-2",
        "var-3",
    ]
    normal = '["normal", {"sigma": 0.02}]'
    assert {found[key].node.attrs["__init__"] for key in ("a1", "a2", "a3", "b")} == {normal}
    assert dict(found["inner"].node.attrs) == {
        "__dtype__": "1",
        "__init__": normal,
        "__lr_mult__": "0.0",
        "__shape__": "(2, 2)",
        "__wd_mult__": "0.5",
    }
    assert json.loads(found["own"].node.attrs["__init__"]) == ["zero", {}]
    assert found["own"].dtype == "float32"
    assert found["inner"].name == "net/frozen/w"
    assert found["absolute"].name == "shared/w"
    assert found["in an absolute scope"].name == "elsewhere/w"


def test_scopes_end_with_their_block() -> None:
    with Session(PADDLE_NUMBERED):
        with pytest.raises(ZeroDivisionError), variable_scope("a", trainable=False):
            raise ZeroDivisionError
        outside = variable("w", (1,))
    assert outside.name == "w"
    assert "__lr_mult__" not in outside.node.attrs


# The session.

PICTURES = np.random.default_rng(1).random((3, 1, 28, 28), "float32")


def test_a_run_takes_what_its_targets_need() -> None:
    with Session(PADDLE_PER_KIND) as session:
        net = paddle_session.digits()
    trunk = ["conv1", "tanh1", "pool1", "hidden", "features"]
    assert inner(net.digit) == [*trunk, "digit_scores", "digit"]
    assert inner(net.even) == [*trunk, "even_scores", "even"]
    assert inner(net.digit_cost) == [*trunk, "digit_scores", "digit_cost"]
    assert session.run(net.digit, {net.image: PICTURES}).shape == (3, 10)
    with pytest.raises(RefusedError, match="input 'label' is not fed"):
        session.run(net.digit_cost, {net.image: PICTURES})
    with pytest.raises(RefusedError) as caught:
        session.run([net.digit_cost, net.even_cost])
    assert [str(fault) for fault in caught.value.faults] == [
        f"input {name!r} is not fed" for name in ("image", "label", "parity")
    ]


def test_only_what_runs_is_given_values(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphshare.builder import parameter_values

    filled = []
    real = parameter_values.initial_value
    monkeypatch.setattr(
        parameter_values,
        "initial_value",
        lambda node, *a, **k: filled.append(node.name) or real(node, *a, **k),
    )
    with Session(PADDLE_PER_KIND) as session:
        net = paddle_session.digits()
    session.run(net.even, {"image": PICTURES})
    assert filled == [
        "conv1.w_0",
        "conv1.b_0",
        "hidden.w_0",
        "hidden.b_0",
        "even_scores.w_0",
        "even_scores.b_0",
    ]
    session.run(net.even, {"image": PICTURES})
    assert len(filled) == 6


def test_sub_models_run_apart_agree_with_one_run_of_both() -> None:
    with Session(PADDLE_PER_KIND) as session:
        net = paddle_session.digits()
    both = session.run([net.digit, net.even], {net.image: PICTURES})
    apart = [session.run(head, {net.image: PICTURES}) for head in (net.digit, net.even)]
    assert [x.tobytes() for x in both] == [x.tobytes() for x in apart]
    features = session.run(net.features, {net.image: PICTURES})
    weight, bias = session.value("digit_scores.w_0"), session.value("digit_scores.b_0")
    scores = session.run("digit_scores", {"image": PICTURES})
    np.testing.assert_allclose(scores, features @ weight.T + bias, rtol=1e-5, atol=1e-7)


def test_params_lists_each_parameter_once() -> None:
    with Session(PADDLE_PER_KIND) as session:
        paddle_session.digits()
    assert names(session.params) == [
        f"{name}.{part}_0"
        for name in ("conv1", "hidden", "digit_scores", "even_scores")
        for part in "wb"
    ]
    assert names(session.inputs) == ["image", "label", "parity"]
    assert session.auxiliary_states == []


def test_every_operator_takes_and_gives_typed_values() -> None:
    with Session(PADDLE_PER_KIND) as session:
        net = paddle_session.digits()
    assert all(isinstance(value, Var) for value in net)
    assert net.digit.shape == (None, 10)
    assert session.var("hidden").shape == (None, 32)
    assert session.var("hidden.w_0").shape == (32, 8 * 12 * 12)
    assert net.digit_cost.shape == (1,)


def test_there_is_a_default_session() -> None:
    session = reset_default_session()
    try:
        x = placeholder("x", (2,))
        y = x * 3 + 1
        assert x.session is session is default_session()
        assert session.run(y, {x: [1.0, 2.0]}).tolist() == [4.0, 7.0]
    finally:
        reset_default_session()
    assert default_session() is not session


TRUNK = ["conv1.w_0", "conv1.b_0", "hidden.w_0", "hidden.b_0"]


@pytest.mark.parametrize(
    ("mine", "other", "labels"), [("digit", "even", "label"), ("even", "digit", "parity")]
)
def test_sub_models_of_one_graph_are_trained_apart(mine: str, other: str, labels: str) -> None:
    with Session(PADDLE_PER_KIND) as session:
        net = paddle_session.digits()
    cost, head = session.var(f"{mine}_cost"), session.var(other)
    feed = {net.image: PICTURES, session.var(labels): [1, 0, 1]}
    features, scores = (session.run(x, feed).tobytes() for x in (net.features, head))
    (first,) = session.run(cost, feed)
    private = [f"{mine}_scores.w_0", f"{mine}_scores.b_0"]
    assert sorted(paddle_session.changed(session, cost, feed, steps=3)) == sorted(
        [*TRUNK, *private]
    )
    assert sorted(names(list(session.param_to_grad))) == sorted([*TRUNK, *private])
    assert session.run(cost, feed)[0] < first
    assert session.run(net.features, feed).tobytes() != features
    assert session.run(head, feed).tobytes() != scores  # by the trunk that both share


def test_training_one_sub_model_asks_for_its_inputs_alone() -> None:
    with Session(PADDLE_PER_KIND) as session:
        net = paddle_session.digits()
    with pytest.raises(RefusedError, match="input 'parity' is not fed"):
        session.step([net.digit_cost, net.even_cost], {net.image: PICTURES, net.label: [3, 1, 4]})
    assert session.param_to_grad == {}
    session.step(net.digit_cost, {net.image: PICTURES, net.label: [3, 1, 4]})
