"""Layers that users write: parameters, temporaries and outputs of one name."""

from __future__ import annotations

from typing import Any

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
    Layer,
    Naming,
    Session,
    Var,
    fully_connected,
    placeholder,
    variable_scope,
)
from graphshare.builder import operators as op


def twice(x: Var, name: str | None = None) -> Var:
    """A layer with two weights, one after the other."""
    layer = Layer("twice", name)
    inner = op.dot(x, layer.parameter("weight", (2, 2)), name=layer.temporary())
    made: Var = op.dot(inner, layer.parameter("weight", (2, 2)), name=layer.name)
    return made


@pytest.mark.parametrize(
    ("naming", "parameters", "operators"),
    [
        (
            PADDLE,
            ["twice0.w.0", "twice0.w.1", "t.w.0", "t.w.1"],
            ["twice0.tmp.0", "twice0", "t.tmp.0", "t", "t.tmp.0_1", "t_1"],
        ),
        (
            PADDLE_PER_KIND,
            ["twice_0.w_0", "twice_0.w_1", "t.w_0", "t.w_1"],
            ["twice_0.tmp_0", "twice_0", "t.tmp_0", "t", "t.tmp_0_1", "t_1"],
        ),
    ],
)
def test_parameters_of_a_layer_are_numbered_by_formal(
    naming: Naming, parameters: list[str], operators: list[str]
) -> None:
    with Session(naming) as session:
        x = placeholder("x", (1, 2))
        made = [twice(x), twice(x, "t"), twice(x, "t")]
        assert [p.name for p in session.params] == parameters
    assert [node.name for node in session.graph(made).nodes if not node.is_variable] == operators


@pytest.mark.parametrize(
    ("naming", "first"),
    [
        (MXNET, "twice0_weight"),
        (TENSORFLOW, "twice/weights"),
        (CAFFE2, "twice/w"),
        (BREW, "twice_w"),
        (PADDLE_NUMBERED, "op-0/W"),
    ],
)
def test_every_policy_names_the_parameters_of_a_layer(naming: Naming, first: str) -> None:
    with Session(naming), variable_scope("s"):
        assert Layer("twice").parameter("weight", (2, 2)).name == f"s/{first}"


def test_layers_in_one_scope_differ_and_layers_of_one_name_share_parameters() -> None:
    with Session(TENSORFLOW), variable_scope("s", reuse=AUTO_REUSE):
        made = [Layer("fc", name).parameter("weight", (2, 2)) for name in (None, None, "a", "a")]
    assert [weight.name for weight in made] == [
        "s/fc/weights",
        "s/fc_1/weights",
        "s/a/weights",
        "s/a/weights",
    ]
    assert made[2] is made[3]


@pytest.mark.parametrize(
    ("options", "operators"),
    [
        ({"bias": False}, ["t"]),
        ({"bias": True}, ["t.tmp_0", "t"]),
        ({"bias": True, "activation": "relu"}, ["t.tmp_0", "t.tmp_1", "t"]),
    ],
)
def test_the_last_operator_of_a_layer_has_its_name(
    options: dict[str, Any], operators: list[str]
) -> None:
    with Session(naming=PADDLE_PER_KIND) as session:
        made = fully_connected(placeholder("x", (2, 3)), 4, name="t", **options)
        assert made.node.name == "t"
        assert [
            node.name for node in session.root.registry.outputs if not node.is_variable
        ] == operators


def test_a_fully_connected_layer_flattens_its_input() -> None:
    with Session(naming=PADDLE_PER_KIND) as session:
        made = fully_connected(placeholder("x", (2, 3, 5)), 4, name="t")
        assert made.shape == (2, 4)
        assert [(p.name, p.shape) for p in session.params] == [
            ("t.w_0", (4, 15)),
            ("t.b_0", (1, 4)),
        ]
