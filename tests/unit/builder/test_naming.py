"""Naming policies: automatic names, names given twice, fresh counters and prefixes."""

from __future__ import annotations

import pytest

from graphshare.builder import (
    AUTO_REUSE,
    BREW,
    CAFFE2,
    MXNET,
    PADDLE,
    PADDLE_NUMBERED,
    PADDLE_PER_KIND,
    TENSORFLOW,
    Naming,
    Session,
    Var,
    name_scope,
    placeholder,
    unique_names,
    variable,
    variable_scope,
)
from graphshare.builder import operators as op
from graphshare.errors import RefusedError

POLICIES = [
    (MXNET, ["fullyconnected0", "relu0", "fullyconnected1"], "fullyconnected1_weight", "var0"),
    (TENSORFLOW, ["fc", "relu", "fc_1"], "fc_1/weights", "var"),
    (PADDLE, ["fc0", "relu1", "fc2"], "fc2.w.0", "var3"),
    (PADDLE_PER_KIND, ["fc_0", "relu_0", "fc_1"], "fc_1.w_0", "var_0"),
    (PADDLE_NUMBERED, ["op-0", "op-1", "op-2"], "op-2/W", "var-0"),
    (CAFFE2, ["fc", "relu", "fc_auto_0"], "fc_auto_0/w", "var"),
    (BREW, ["fc", "relu", "fc_auto_0"], "fc_auto_0_w", "var"),
]


def layer(x: Var, **given: str) -> Var:
    made: Var = op.FullyConnected(x, num_hidden=2, **given)
    return made


@pytest.mark.parametrize(("naming", "expected", "weight", "var"), POLICIES)
def test_every_policy_has_its_automatic_names(
    naming: Naming, expected: list[str], weight: str, var: str
) -> None:
    with Session(naming):
        x = placeholder("data", (3, 2))
        made = [layer(x), op.relu(x), layer(x)]
        assert [y.node.name for y in made] == expected
        assert made[2].node.inputs[1].node.name == weight
        assert variable(shape=(1,)).name == var


@pytest.mark.parametrize(
    ("naming", "again"),
    [
        (TENSORFLOW, "x_1"),
        (PADDLE, "x_1"),
        (PADDLE_PER_KIND, "x_1"),
        (PADDLE_NUMBERED, "x-1"),
        (CAFFE2, "x_auto_0"),
    ],
)
def test_a_repeated_name_is_numbered(naming: Naming, again: str) -> None:
    with Session(naming):
        data = placeholder("data")
        assert [op.relu(data, name="x").node.name, op.relu(data, name="x").node.name] == [
            "x",
            again,
        ]


def test_mxnet_refuses_a_repeated_name_and_skips_a_taken_automatic_one() -> None:
    with Session():
        data = placeholder("data")
        op.relu(data, name="relu0")
        assert op.relu(data).node.name == "relu1"
        with pytest.raises(RefusedError, match="'relu1' already exists, disallowed"):
            op.relu(data, name="relu1")


def test_every_scope_has_its_own_counters_in_tensorflow_and_caffe2() -> None:
    for naming, last in ((TENSORFLOW, "s/relu_1"), (CAFFE2, "s/relu_auto_0")):
        with Session(naming):
            x = placeholder("data")
            names = [op.relu(x).node.name]
            with name_scope("s"):
                names += [op.relu(x).node.name, op.relu(x).node.name]
        assert names == ["relu", "s/relu", last]


def test_unique_names_restarts_the_counters_and_restores_them() -> None:
    with Session(PADDLE_PER_KIND) as session:
        x = placeholder("data", (3, 2))
        layer(x)
        with unique_names():
            again = layer(x)
        after = layer(x)
    assert [p.name for p in session.params] == ["fc_0.w_0", "fc_0.b_0", "fc_1.w_0", "fc_1.b_0"]
    assert (again.node.name, after.node.name) == ("fc_0_1", "fc_1")


def test_unique_names_shares_parameters_if_the_scope_allows_reuse() -> None:
    with Session(TENSORFLOW) as session:
        x = placeholder("data", (3, 2))
        layer(x)
        with unique_names(), pytest.raises(RefusedError, match="fc/weights already exists"):
            layer(x)
        with unique_names(), variable_scope(reuse=AUTO_REUSE):
            layer(x)
    assert len(session.params) == 2


def test_a_prefix_is_prepended_to_automatic_names_and_with_mxnet_to_all() -> None:
    for naming, expected in ((MXNET, ["p_relu0", "p_x"]), (PADDLE_PER_KIND, ["p_relu_0", "x"])):
        with Session(naming), unique_names(prefix="p_"):
            x = placeholder("data")
            assert [op.relu(x).node.name, op.relu(x, name="x").node.name] == expected


def test_unique_names_changes_the_policy_inside_its_block() -> None:
    with Session() as session:
        x = placeholder("data", (3, 2))
        with unique_names(TENSORFLOW):
            layer(x)
        layer(x)
    assert [p.name for p in session.params] == [
        "fc/weights",
        "fc/biases",
        "fullyconnected0_weight",
        "fullyconnected0_bias",
    ]


def test_a_policy_that_gives_two_parameters_one_name_is_refused() -> None:
    careless = Naming(
        first="{kind}", later="{kind}{n}", counted="kind", again=None, parameter="{owner}_p"
    )
    with Session(careless) as session:
        x = placeholder("data", (3, 2))
        with pytest.raises(RefusedError, match="gives the name 'fullyconnected_p' twice"):
            layer(x)
        assert session.params == []
