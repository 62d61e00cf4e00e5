"""Every assertion of the document on scopes and weight sharing; its ``:0`` is ``_output`` for what operators make."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from examples import tensornets_scopes as example
from graphshare.builder import (
    TENSORFLOW,
    Model,
    Session,
    constant,
    name_scope,
    placeholder,
    variable,
    variable_scope,
)
from graphshare.errors import RefusedError

TRAINED = [
    "conv1/conv/weights",
    "conv1/conv/biases",
    "conv1/bn/gamma",
    "conv1/bn/beta",
    "logits/weights",
    "logits/biases",
]


def tensor(name: str) -> str:
    """TensorFlow's name of an operator's first output, as it is here."""
    assert name.endswith(":0")
    return name.removesuffix(":0") + "_output"


def variable_name(name: str) -> str:
    """TensorFlow's name of a variable, as it is here."""
    assert name.endswith(":0")
    return name.removesuffix(":0")


def test_two_scopes() -> None:
    found = example.two_scopes()
    assert found["w"] == variable_name("goo/w:0")
    assert found["s"] == tensor("foo/goo/hoo/Const:0")
    assert found["y"] == tensor("foo/goo/hoo/mul:0")
    assert found["w again"] == "variable goo/w already exists, disallowed"


def test_a_model_under_both_scopes() -> None:
    model1, refusal = example.model_in_scopes()
    assert model1.get_weights()[-1].name == variable_name("yoo/resnet50/logits/biases:0")
    assert model1.name == tensor("xoo/yoo/zoo/resnet50/probs:0")
    assert model1.get_outputs()[-1].name == tensor("xoo/yoo/zoo/resnet50/probs:0")
    assert model1.get_middles()[-1].name == tensor("xoo/yoo/zoo/resnet50/conv5/block3/out:0")
    assert refusal == "variable yoo/resnet50/conv1/conv/weights already exists, disallowed"


def test_the_model_is_a_resnet50() -> None:
    model1, _ = example.model_in_scopes()
    assert len(model1.get_middles()) == 16
    counted = [
        v
        for v in model1.get_weights()
        if "moving" not in v.name and not v.name.endswith("conv/biases")
    ]
    assert sum(int(np.prod(v.shape)) for v in counted) == 25_557_032
    assert model1.output.shape == (None, 1000)


def test_a_reused_variable() -> None:
    w1, w2, y1, y2 = example.reused_variable()
    assert w1 == w2
    assert w1.name == variable_name("boo/w:0")
    assert y1 != y2
    assert y1.name == tensor("boo/mul:0")
    assert y2.name == tensor("boo/mul_1:0")


def shared(model1: Model, model2: Model) -> None:
    for a, b in zip(model1.get_weights(), model2.get_weights(), strict=True):
        assert a == b
    assert model1 != model2
    assert not set(model1.get_outputs()) & set(model2.get_outputs())


def test_models_in_a_scope() -> None:
    model1, model2 = example.models_in_a_scope()
    shared(model1, model2)
    assert model1.get_weights()[-1].name == variable_name("koo/resnet50/logits/biases:0")
    assert model1.name == tensor("koo/resnet50/probs:0")
    assert model2.name == tensor("koo/resnet50_1/probs:0")


@pytest.mark.parametrize("made", [example.models_with_reuse, example.models_by_partial])
def test_models_without_a_scope(made: Callable[[], tuple[Model, Model]]) -> None:
    model1, model2 = made()
    shared(model1, model2)
    assert model1.name == tensor("resnet50/probs:0")
    assert model2.name == tensor("resnet50_1/probs:0")


def test_clones() -> None:
    model1, model2 = example.clones()
    shared(model1, model2)
    assert model1.name == tensor("clone0/resnet50/probs:0")
    assert model2.name == tensor("clone1/resnet50/probs:0")
    assert model1.get_weights()[-1].name == variable_name("resnet50/logits/biases:0")


def test_clones_compute_the_same_on_one_picture_and_not_on_another() -> None:
    model1, model2 = example.clones(size=32, classes=10)
    session = model1.output.session
    pictures = np.random.default_rng(0).random((3, 2, 3, 32, 32), "float32")
    one, two = session.run([model1.output, model2.output], {"x1": pictures[0], "x2": pictures[0]})
    assert one.tobytes() == two.tobytes()
    again, other = session.run(
        [model1.output, model2.output], {"x1": pictures[0], "x2": pictures[1]}
    )
    assert again.tobytes() == one.tobytes()
    assert other.tobytes() != one.tobytes()


def test_reuse_is_inherited_and_true_demands_existence() -> None:
    with Session(TENSORFLOW):
        with variable_scope("a") as a:
            first = variable("w", (1,))
        missing = pytest.raises(RefusedError, match="a/b/w does not exist")
        with variable_scope("a", reuse=True), variable_scope("b"), missing:
            variable("w", (1,))
        with variable_scope(a, reuse=True):
            assert variable("w", (1,)) is first


def test_scopes_opened_again_are_numbered_for_operators_alone() -> None:
    with Session(TENSORFLOW):
        names = []
        for _ in range(3):
            with variable_scope("a", reuse=example.AUTO_REUSE), name_scope("n"):
                names.append(
                    (
                        variable("w", (1,)).name,
                        (constant(1.0) * 2).name,
                        placeholder("x", (1,)).name,
                    )
                )
    assert names == [
        ("a/w", "a/n/mul_output", "a/n/x"),
        ("a/w", "a_1/n/mul_output", "a_1/n/x"),
        ("a/w", "a_2/n/mul_output", "a_2/n/x"),
    ]


def test_clones_train_their_shared_variables_once() -> None:
    session, costs = example.training_clones()
    rng = np.random.default_rng(0)
    feed = {f"clone{i}/x": rng.random((2, 3, 6, 6), "float32") for i in (0, 1)}
    feed |= {f"clone{i}/label": np.array([i, 2], "float32") for i in (0, 1)}
    alone = [session.gradients(cost, feed) for cost in costs]
    both = session.gradients(costs, feed)
    assert list(both) == session.params == list(alone[0]) == list(alone[1])
    assert [x.name for x in both] == [f"small/{name}" for name in TRAINED]
    before = {parameter: session.value(parameter) for parameter in session.params}
    means = [session.run(f"clone{i}/small/conv1/conv", feed).mean(axis=(0, 2, 3)) for i in (0, 1)]
    session.step(costs, feed)
    for parameter, gradient in both.items():
        np.testing.assert_allclose(
            gradient, alone[0][parameter] + alone[1][parameter], rtol=1e-4, atol=1e-6
        )
        once = before[parameter] - 0.01 / 2 * gradient
        np.testing.assert_allclose(
            session.value(parameter), once, rtol=1e-6, err_msg=parameter.name
        )
    # One after the other; the last use of shared parameters comes first
    moved = 0.9 * (0.1 * means[1]) + 0.1 * means[0]
    np.testing.assert_allclose(
        session.value("small/conv1/bn/moving_mean"), moved, rtol=1e-4, atol=1e-7
    )
