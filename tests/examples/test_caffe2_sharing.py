"""Caffe2's reference table and the cases of its own tests, authored."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import numpy as np
import pytest

from examples import caffe2_sharing as example
from graphshare.builder import (
    BREW,
    CAFFE2,
    Session,
    Sgd,
    Var,
    current_scope,
    parameter_sharing,
    placeholder,
    variable,
    variable_scope,
)
from graphshare.builder import operators as op
from graphshare.errors import RefusedError
from tests.unit.rewrite.rules.test_scopes import CASES, DOCUMENTED


def test_the_reference_table() -> None:
    assert example.reference_table() == {
        "scope_a": "scope_a/w",
        "scope_b": "scope_a/w",
        "scope_c": "scope_c/w",
        "scope_b/shared_child": "scope_a/w",
        "scope_b/unshared_child": "scope_a/unshared_child/w",
    }


def test_without_sharing() -> None:
    assert example.without_sharing() == ["w", "scope/w", "scope/scope_2/w"]


def test_nested_sharing() -> None:
    assert example.nested_sharing() == {
        "global_scope": "global_scope/w",
        "model_b": "global_scope/model_a/w",
        "model_b/shared_scope": "global_scope/model_a/w",
        "model_c": "global_scope/model_c/w",
        "model_c/shared_scope": "global_scope/model_c/w",
    }


def test_sharing_of_subscopes() -> None:
    assert example.sharing_of_subscopes() == {
        "": "global_scope/w",
        "a": "global_scope/a/w",
        "b": "global_scope/a/w",
        "c": "global_scope/c/w",
    }


def test_a_parameter_at_the_root_and_in_a_scope_are_two() -> None:
    root, inner = example.two_parameters_of_one_name()
    assert root is not inner
    assert (root.name, inner.name) == ("w", "some_global_scope/w")


def test_three_levels() -> None:
    assert example.three_levels() == "b/d/f/w"


def test_brew_with_other_dimensions_is_refused() -> None:
    with Session(BREW) as session:
        data = placeholder("data", (4, 16))
        fc1 = example.brew_fc(data, "fc1")
        assert [x.name for x in session.params] == ["fc1_w", "fc1_b"]
        with pytest.raises(
            RefusedError, match=r"fc1_w is shared with inconsistent shapes: \(16,16\) and \(2,16\)"
        ):
            example.brew_fc(data, "fc1", size=2)
        assert example.brew_fc(fc1, "fc1").node.inputs[1].node is session.params[0].node
        assert len(session.params) == 2


def test_brew_shares_six_parameters_between_four_outputs() -> None:
    parameters, outputs = example.brew_model()
    assert sorted(parameters) == [
        "fc1_b",
        "fc1_w",
        "some_global_scope/model_a/output_b",
        "some_global_scope/model_a/output_w",
        "some_global_scope/model_a/unshared/output_b",
        "some_global_scope/model_a/unshared/output_w",
    ]
    assert len(set(outputs)) == 4


def test_automatic_layer_names() -> None:
    assert example.automatic_layers() == [
        ("global_scope/fc/w", "global_scope/fc_output"),
        ("global_scope/nested_scope/fc/w", "global_scope/nested_scope/fc_output"),
        ("global_scope/nested_scope/fc_auto_0/w", "global_scope/nested_scope/fc_auto_0_output"),
    ]


def test_layers_of_two_scopes_share_parameters_and_no_output() -> None:
    assert example.layers_of_two_scopes() == [
        ("global_scope/scope_0/fc/w", "global_scope/scope_0/fc_output"),
        ("global_scope/scope_0/fc/w", "global_scope/scope_1/fc_output"),
    ]


def test_layers_of_one_scope() -> None:
    shared = ["global_scope/fc/w"] * 2 + ["global_scope/shared_fc/w"] * 2
    assert example.layers_of_one_scope() == shared


def test_layers_of_different_shapes_are_refused() -> None:
    with Session(CAFFE2), variable_scope("global_scope"), parameter_sharing({"fc_auto_0": "fc"}):
        x = placeholder("float_features", (4, 2))
        assert example.layer(x)[0] == "global_scope/fc/w"
        with pytest.raises(RefusedError, match="inconsistent shapes"):
            example.layer(x, size=3)


def test_a_shared_parameter_gets_its_first_value_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphshare.builder import parameter_values

    filled = []
    real = parameter_values.initial_value
    monkeypatch.setattr(
        parameter_values,
        "initial_value",
        lambda node, *a, **k: filled.append(node.name) or real(node, *a, **k),
    )
    with (
        Session(CAFFE2) as session,
        variable_scope("global_scope"),
        parameter_sharing({"new_fc": "shared_fc"}),
    ):
        x = placeholder("float_features", (4, 2))
        outputs = [
            op.FullyConnected(x, num_hidden=2, name=name) for name in ("shared_fc", "new_fc")
        ]
        one, two = session.run(outputs, {x: [[1.0, 2.0]] * 4})
    assert sorted(filled) == ["global_scope/shared_fc/b", "global_scope/shared_fc/w"]
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"trainable": False}),
        ({"trainable": False}, {}),
        ({"regularizer": 0.1}, {"regularizer": 0.2}),
        ({"regularizer": 0.1}, {"trainable": False}),
    ],
    ids=["none and not trained", "not trained and none", "another multiplier", "another kind"],
)
def test_a_conflict_about_training_is_refused(
    first: dict[str, object], second: dict[str, object]
) -> None:
    with (
        Session(CAFFE2),
        variable_scope("global_scope"),
        parameter_sharing({"new_fc": "shared_fc"}),
    ):
        x = placeholder("float_features", (4, 2))
        with variable_scope(**first):  # type: ignore[arg-type]
            example.layer(x, name="shared_fc")
        with (
            variable_scope(**second),
            pytest.raises(RefusedError, match="shared_fc/w is shared with"),
        ):  # type: ignore[arg-type]
            example.layer(x, name="new_fc")
        with variable_scope(**first):  # type: ignore[arg-type]
            assert example.layer(x, name="new_fc")[0] == "global_scope/shared_fc/w"


def authored_name(blocks: tuple[tuple[str, dict[str, str]], ...], path: str) -> str:
    """The name of the parameter ``path`` where every block was opened in the scope it begins at, and left open."""
    scope, _, name = path.rpartition("/")
    with Session(CAFFE2), ExitStack() as stack:
        inside: list[str] = []
        for begin, overrides in blocks:
            wanted = begin.split("/") if begin else []
            if wanted[: len(inside)] != inside or scope.split("/")[: len(wanted)] != wanted:
                continue  # the parameter does not lie in that block
            for part in wanted[len(inside) :]:
                stack.enter_context(variable_scope(part))
            inside = wanted
            stack.enter_context(parameter_sharing(overrides))
        for part in scope.split("/")[len(inside) :] if scope else []:
            stack.enter_context(variable_scope(part))
        return variable(name, (1,)).name


@pytest.mark.parametrize(
    ("blocks", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_every_case_of_the_rules_holds_while_authoring(
    blocks: tuple[tuple[str, dict[str, str]], ...], expected: str
) -> None:
    words = expected.split()
    pairs = [
        (path, name)
        for path, name in zip(words[::2], words[1::2], strict=True)
        if "//" not in f"/{path}"
    ]
    assert pairs
    assert [(path, authored_name(blocks, path)) for path, _ in pairs] == pairs


def test_a_case_that_is_wrong_is_found() -> None:
    assert authored_name(DOCUMENTED, "scope_b/unshared_child/w") != "scope_b/unshared_child/w"


@pytest.mark.parametrize(
    "overrides", [{"a": "b", "b": "a"}, {"a": "b/c", "b": "a"}, {"a": "b", "b": "a/x"}]
)
def test_a_cycle_is_named_and_nothing_is_entered(overrides: dict[str, str]) -> None:
    with Session(CAFFE2):
        before = current_scope()
        with pytest.raises(RefusedError, match="a -> b -> a"), parameter_sharing(overrides):
            pass
        assert current_scope() is before
        outer, inner = [dict([pair]) for pair in overrides.items()]
        with (
            parameter_sharing(outer),
            pytest.raises(RefusedError, match="a -> b -> a"),
            parameter_sharing(inner),
        ):
            pass


@pytest.mark.parametrize(
    "overrides", [{"a": "a/b"}, {"a": "a"}, {"a": "a/"}, {"a/": "a"}, {"": "b"}]
)
def test_a_rule_that_is_none_is_refused(overrides: dict[str, str]) -> None:
    with Session(CAFFE2), pytest.raises(RefusedError), parameter_sharing(overrides):
        pass


def test_whole_components_are_compared() -> None:
    with Session(CAFFE2), parameter_sharing({"fc": "fc_auto_0"}):
        assert [example.parameter_name(scope) for scope in ("fc", "fc_auto_0", "fc2")] == [
            "fc_auto_0/w"
        ] * 2 + ["fc2/w"]


def test_blocks_pop_on_exit_and_on_an_exception() -> None:
    with Session(CAFFE2):
        before = current_scope()
        with parameter_sharing({"a": "b"}), variable_scope("a"):
            with (
                pytest.raises(ZeroDivisionError),
                parameter_sharing({"c": "d"}),
                variable_scope("c"),
            ):
                raise ZeroDivisionError
            assert current_scope().name == "a"
            assert example.parameter_name("c") == "b/c/w"
        assert current_scope() is before
        assert example.parameter_name("a") == "a/w"


def test_the_earlier_rule_is_back_after_a_block() -> None:
    with Session(CAFFE2), parameter_sharing({"a": "b"}):
        with parameter_sharing({"a": "c"}):
            assert example.parameter_name("a") == "c/w"
        assert example.parameter_name("a") == "b/w"


def test_a_name_given_whole_passes_sharing_by() -> None:
    with Session(CAFFE2), parameter_sharing({"a": "b"}), variable_scope("a"):
        assert variable("a/w", (1,), absolute=True).name == "a/w"
        assert variable("w", (1,)).name == "b/w"


def test_threads_do_not_see_each_others_scopes() -> None:
    found = []
    with Session(CAFFE2) as session, variable_scope("a"), parameter_sharing({"x": "y"}):

        def author() -> None:
            with session:
                found.append(example.parameter_name("x"))

        thread = threading.Thread(target=author)
        thread.start()
        thread.join()
        found.append(example.parameter_name("x"))
    assert found == ["x/w", "a/y/w"]


FEATURES = [[0.1, -0.2], [0.3, 0.4], [-0.5, 0.6], [0.7, 0.8]]
START = {"w": [[1.0, 2.0], [3.0, 4.0]], "b": [0.5, -0.5]}


def begun(*, shared: bool) -> tuple[Session, Var]:
    """The net of two uses, all its layers with the same values."""
    session, cost = example.two_uses(shared=shared)
    for param in session.params:
        session.set_value(param, START[param.name.rpartition("/")[2]])
    return session, cost


def test_the_gradient_of_a_shared_parameter_is_the_sum_over_its_uses() -> None:
    session, cost = begun(shared=True)
    session.gradients(cost, {"float_features": FEATURES})
    apart, cost_apart = begun(shared=False)
    apart.gradients(cost_apart, {"float_features": FEATURES})
    assert [param.name for param in session.param_to_grad] == [
        "global_scope/scope_0/fc/w",
        "global_scope/scope_0/fc/b",
    ]
    assert list(session.param_to_grad) == session.params
    assert len(apart.param_to_grad) == 4
    for part in "wb":
        uses = [apart.param_to_grad[apart.var(f"global_scope/scope_{i}/fc/{part}")] for i in (0, 1)]
        assert uses[0].any()
        np.testing.assert_allclose(uses[1], 2 * uses[0], rtol=1e-6)
        shared = session.param_to_grad[session.var(f"global_scope/scope_0/fc/{part}")]
        np.testing.assert_allclose(shared, uses[0] + uses[1], rtol=1e-6)


def test_a_weighted_sum_of_parameter_and_gradient_is_a_step() -> None:
    session, cost = begun(shared=True)
    before = session.run(cost, {"float_features": FEATURES}).item()
    after = example.descend(session, cost, FEATURES, rate=0.001)
    assert after < before
    other, other_cost = begun(shared=True)
    other.step(other_cost, {"float_features": FEATURES}, Sgd(learning_rate=0.001), rescale=1)
    for mine, theirs in zip(session.params, other.params, strict=True):
        np.testing.assert_allclose(session.value(mine), other.value(theirs), rtol=1e-6)
