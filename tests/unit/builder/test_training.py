"""Training in a session: gradients, updates, steps, and what each of them leaves alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphshare
from graphshare.builder import (
    Session,
    Sgd,
    Var,
    initializers,
    placeholder,
    save,
    variable,
    variable_scope,
)
from graphshare.builder import operators as op
from graphshare.errors import RefusedError
from graphshare.execute.train import tape
from graphshare.ops.gradient import NoGradient

X = np.array([[1.0, 2.0], [3.0, -4.0]], "float32")


def product() -> tuple[Session, Var, Var, Var]:
    """``x * w``, with ``w`` 5 and 6."""
    with Session() as session:
        x, w = placeholder("x", (None, 2)), variable("w", (1, 2))
        y = op.broadcast_mul(x, w, name="y")
    session.set_value(w, [[5.0, 6.0]])
    return session, x, w, y


def normalised() -> tuple[Session, Var]:
    with Session() as session:
        h = op.BatchNorm(
            op.FullyConnected(placeholder("x", (None, 3)), num_hidden=4, name="fc"), name="bn"
        )
        h = op.Dropout(h, p=0.5, name="drop")
        return session, op.SoftmaxOutput(
            op.FullyConnected(h, num_hidden=3, name="out"), name="softmax"
        )


FEED = {
    "x": np.random.default_rng(1).random((6, 3), "float32"),
    "softmax_label": [0, 1, 2, 0, 1, 2],
}


def held(session: Session) -> dict[str, bytes]:
    return {
        x.name: session.value(x).tobytes() for x in [*session.params, *session.auxiliary_states]
    }


def test_gradients_of_parameters_and_inputs_are_returned() -> None:
    session, x, w, y = product()
    found = session.gradients(y, {x: X})
    assert list(found) == [w]
    assert found[w].tolist() == [[4.0, -2.0]]
    both = session.gradients("y", {"x": X}, wrt=["x", w])
    assert both[x].tolist() == [[5.0, 6.0]] * 2
    assert both[w].tolist() == [[4.0, -2.0]]
    with pytest.raises(ValueError, match="read-only"):
        both[x][:] = 0


def test_gradients_of_several_targets_are_added_up() -> None:
    session, x, w, y = product()
    assert session.gradients([y, w], {x: X})[w].tolist() == [[5.0, -1.0]]


def test_a_gradient_agrees_with_a_central_difference() -> None:
    with Session() as session:
        x, w = placeholder("x", (None, 2), dtype="float64"), variable("w", (3, 2), dtype="float64")
        cost = op.sum(
            op.square(op.FullyConnected(op.tanh(x), weight=w, num_hidden=3, no_bias=True))
        )
    rng = np.random.default_rng(0)
    start, way = rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    session.set_value(w, start)
    slope = float((session.gradients(cost, {x: X})[w] * way).sum())
    costs = [session.run(cost, {x: X, w: start + step * way}).item() for step in (1e-5, -1e-5)]
    assert slope == pytest.approx((costs[0] - costs[1]) / 2e-5, rel=1e-6)
    assert slope * 1.0005 != pytest.approx((costs[0] - costs[1]) / 2e-5, rel=1e-6)


def test_head_gradients_scale_the_gradients_and_must_belong_to_targets() -> None:
    session, x, w, y = product()
    head = np.array([[1.0, 0.0], [2.0, 0.5]])
    found = session.gradients(y, {x: X}, [x, w], head_gradients={y: head})
    assert found[w].tolist() == [[7.0, -2.0]]
    head[:] = 100
    assert found[x].tolist() == [[5.0, 0.0], [10.0, 3.0]]
    with pytest.raises(
        RefusedError,
        match=r"the head gradient of 'y_output' has the shape \(2,\), but the output has \(2, 2\)",
    ):
        session.gradients(y, {x: X}, head_gradients={"y": [1.0, 2.0]})
    with pytest.raises(RefusedError, match="'w' has a head gradient, but is not a target"):
        session.gradients(y, {x: X}, head_gradients={w: [[1.0, 2.0]]})


def test_a_loss_ignores_head_gradients() -> None:
    session, x, w, y = product()
    with session:
        loss = op.MakeLoss(y, grad_scale=3.0)
    assert session.gradients(loss, {x: X}, head_gradients={loss: 7 * X})[w].tolist() == [
        [12.0, -6.0]
    ]


def test_all_invalid_wrt_variables_are_refused_at_once() -> None:
    session, loss = normalised()
    with session:
        variable("other", (1,))
    with pytest.raises(RefusedError) as caught:
        session.gradients(loss, FEED, ["fc", "bn_moving_mean", "other", "fc_weight"])
    assert [str(fault) for fault in caught.value.faults] == [
        "'fc_output' is neither a parameter nor an input, so no gradient is kept for it",
        "'bn_moving_mean' is neither a parameter nor an input, so no gradient is kept for it",
        "the targets do not need 'other'",
    ]
    with pytest.raises(RefusedError, match="need no parameter"):
        session.step("x", FEED)


def test_an_unreached_parameter_gets_zeros_and_still_decays() -> None:
    with Session() as session:
        w = variable("a_weight", (2,))
        loss = op.MakeLoss(op.BlockGrad(w) * 3)
    session.set_value(w, [1.0, 2.0])
    assert session.gradients(loss)[w].tolist() == [0.0, 0.0]
    session.step(loss, {}, Sgd(learning_rate=0.5, wd=0.5))
    assert session.value(w).tolist() == [0.75, 1.5]


def test_an_operator_without_a_gradient_is_named_and_nothing_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = tape.find_gradient
    unwritten = {"arctan": NoGradient("arctan", "it is not written yet", is_zero=False)}
    monkeypatch.setattr(tape, "find_gradient", lambda name: unwritten.get(name) or real(name))
    session, x, _, y = product()
    with session:
        target = op.arctan(y)
    before = held(session)
    with pytest.raises(RefusedError, match="arctan has no gradient: it is not written yet"):
        session.step([y, target], {x: X})
    assert held(session) == before
    assert session.param_to_grad == {}
    with pytest.raises(RefusedError, match="no gradients to apply"):
        session.update()


def test_gradients_change_no_value_before_an_update() -> None:
    session, loss = normalised()
    session.run(loss, FEED)
    before = held(session)
    session.gradients(loss, FEED)
    assert held(session) == before
    session.gradients(loss, FEED, "x")  # a look at an input's gradients in between
    session.update()
    after = held(session)
    assert {name for name in before if after[name] != before[name]} == set(before) - {"bn_gamma"}
    assert session.value("bn_gamma").tolist() == [1.0] * 4  # fixed
    session.update()
    assert {name for name in after if held(session)[name] == after[name]} >= {
        "bn_moving_mean",
        "bn_moving_var",
    }
    other, same = normalised()
    other.step(same, FEED)
    assert held(other) == after


def test_an_update_with_own_gradients_changes_only_their_parameters() -> None:
    session, loss = normalised()
    session.run(loss, FEED)
    before = held(session)
    bias = session.value("out_bias")
    session.update({"out_bias": [1, 2, 3]}, Sgd(learning_rate=0.5))
    assert [name for name, value in held(session).items() if value != before[name]] == ["out_bias"]
    assert (bias - session.value("out_bias")).tolist() == [0.5, 1.0, 1.5]
    session.update({"out_bias": [1, 2, 3]}, Sgd(learning_rate=0.5), rescale=0.5)
    assert (bias - session.value("out_bias")).tolist() == [0.75, 1.5, 2.25]


def test_invalid_updates_are_refused_and_change_nothing() -> None:
    session, x, w, y = product()
    with pytest.raises(RefusedError, match="no gradients to apply"):
        session.update()
    with pytest.raises(RefusedError, match="'x' is not a parameter, so it is not trained"):
        session.update({x: X, w: [[0.0, 1.0]]})
    with pytest.raises(RefusedError, match="has the shape"):
        session.update({w: X})
    assert session.value(w).tolist() == [[5.0, 6.0]]
    assert y.session is session


def test_a_fed_parameter_is_not_trained() -> None:
    session, loss = normalised()
    session.run(loss, FEED)
    before = held(session)
    zeros = {"fc_bias": np.zeros(4), "bn_moving_mean": np.zeros(4)}
    session.step(loss, {**FEED, **zeros})
    unchanged = {name for name, value in held(session).items() if value == before[name]}
    assert unchanged == {"fc_bias", "bn_moving_mean", "bn_gamma"}
    assert "fc_bias" not in {parameter.name for parameter in session.param_to_grad}


def test_frozen_parameters_stay_and_regularized_ones_decay() -> None:
    with Session() as session:
        x = placeholder("x", (None, 2))
        with variable_scope("frozen", trainable=False):
            h = op.FullyConnected(x, num_hidden=2, name="fc")
        with variable_scope("decays", initializer=initializers.ones(), regularizer=2.0):
            cost = op.FullyConnected(op.BlockGrad(h), num_hidden=2, name="fc")
    session.run(cost, {x: X})
    before = held(session)
    session.step(cost, {x: 0 * X}, Sgd(learning_rate=0.25, wd=0.5))
    assert [name for name, value in held(session).items() if value == before[name]] == [
        "frozen/fc_weight",
        "frozen/fc_bias",
    ]
    assert session.value("decays/fc_weight").tolist() == [[0.75, 0.75]] * 2


def test_momentum_belongs_to_the_parameter() -> None:
    session, x, w, y = product()
    with session:
        other = op.broadcast_mul(x, w, name="other")
    settings = Sgd(learning_rate=1.0, momentum=0.5)
    session.step(y, {x: X}, settings, rescale=1)
    assert session.value(w).tolist() == [[1.0, 8.0]]
    session.step(other, {x: 0 * X}, settings, rescale=1)
    assert session.value(w).tolist() == [[-1.0, 9.0]]


def test_steps_are_those_of_the_training_workflow(tmp_path: Path) -> None:
    session, loss = normalised()
    session.run(loss, FEED)
    stem = save(session, loss, str(tmp_path / "net"))[0].removesuffix("-symbol.json")
    settings = Sgd(learning_rate=0.1, momentum=0.9, wd=0.01, clip=0.05)
    for _ in range(3):
        session.step(loss, FEED, settings)
    source = graphshare.load(stem)
    feeds = {name: np.array(value, "float32") for name, value in FEED.items()}
    trained = graphshare.train(source, steps=3, settings=settings, feeds=feeds)
    assert {
        key.partition(":")[2]: value.tobytes() for key, value in trained.updated.items()
    } == held(session)
    again = graphshare.train(source, steps=2, settings=settings, feeds=feeds)
    assert {key.partition(":")[2]: value.tobytes() for key, value in again.updated.items()} != held(
        session
    )


def test_the_batch_is_that_of_data_and_not_of_labels() -> None:
    with Session() as session:
        label, x = placeholder("label", (None,)), placeholder("x", (None, 2))
        scores = op.FullyConnected(x, num_hidden=2, name="fc")
        cost = op.softmax_cross_entropy(scores, label)
        both = op.sum(label) + cost
    session.run(scores, {x: X})
    bias = session.value("fc_bias")
    session.step(both, {x: X, label: [0, 1]}, Sgd(learning_rate=1.0))
    np.testing.assert_allclose(
        bias - session.value("fc_bias"),
        session.param_to_grad[session.var("fc_bias")] / 2,
        rtol=1e-6,
    )


@pytest.mark.parametrize("shared", [True, False])
def test_of_two_branches_the_later_is_updated_first_where_parameters_are_shared(
    shared: bool,
) -> None:
    with Session() as session:
        state = {"moving_mean": variable("moving_mean"), "moving_var": variable("moving_var")}
        common = {"gamma": variable("gamma"), "beta": variable("beta")} if shared else {}
        losses = [
            op.MakeLoss(op.BatchNorm(placeholder(n, (2, 1)), **state, **common, momentum=0.5))
            for n in "pq"
        ]
    session.step(losses, {"p": [[1.0], [1.0]], "q": [[3.0], [3.0]]})
    assert session.value("moving_mean").tolist() == [1.25 if shared else 1.75]
