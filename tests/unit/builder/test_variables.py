"""Variables: settings, shapes that become known, and sharing that does not go together."""

from __future__ import annotations

import numpy as np
import pytest

from graphshare.builder import (
    AUTO_REUSE,
    PADDLE,
    Session,
    fully_connected,
    initializers,
    placeholder,
    variable,
    variable_scope,
)
from graphshare.builder import operators as op
from graphshare.errors import RefusedError


def test_settings_become_hidden_attributes() -> None:
    with Session(), variable_scope("s", regularizer=0.5, dtype="float16"):
        w = variable("w", (3, None), trainable=False, initializer=initializers.constant(2))
    assert dict(w.node.attrs) == {
        "__dtype__": "2",
        "__init__": '["constant", {"value": 2}]',
        "__lr_mult__": "0.0",
        "__shape__": "(3, 0)",
        "__wd_mult__": "0.5",
    }
    assert list(w.node.attrs) == sorted(w.node.attrs)
    assert (w.shape, w.dtype) == ((3, None), "float16")


def test_settings_of_a_scope_apply_to_the_parameters_of_operators() -> None:
    settings = {
        "initializer": initializers.xavier(),
        "regularizer": 2.0,
        "dtype": "float64",
        "trainable": False,
    }
    with Session(), variable_scope(**settings):  # type: ignore[arg-type]
        x = op.BatchNorm(
            op.FullyConnected(placeholder("x", (2, 3), dtype="float64"), num_hidden=4, name="fc"),
            name="bn",
        )
    attrs = {
        entry.node.name: entry.node.attrs
        for node in (x.node, x.node.inputs[0].node)
        for entry in node.inputs
    }
    for name in ("fc_weight", "fc_bias", "bn_gamma", "bn_beta"):
        assert (
            attrs[name]["__wd_mult__"],
            attrs[name]["__lr_mult__"],
            attrs[name]["__dtype__"],
        ) == ("2.0", "0.0", "1")
    assert attrs["fc_weight"]["__init__"] == initializers.xavier()
    assert "__init__" not in attrs["fc_bias"]  # its name tells; and xavier is nothing for a row
    assert attrs["bn_moving_var"]["__init__"] == '["one", {}]'
    assert "__lr_mult__" not in attrs["bn_moving_var"]


def test_parameters_with_unusual_names_have_an_initializer() -> None:
    with Session(PADDLE) as session:
        x = placeholder("x", (2, 3, 4, 4))
        op.BatchNorm(op.Convolution(x, kernel=(1, 1), num_filter=3, name="c"), name="b")
        fully_connected(x, 2, name="f", bias_initializer=initializers.constant(1.0))
        variable("w"), variable("a_gamma")
    inits = {
        name: v.var.node.attrs.get("__init__") for name, v in session.registry.parameters().items()
    }
    assert inits == {
        "c.w.0": '["uniform", {"scale": 0.01}]',
        "c.bias.0": '["zero", {}]',
        "b.gamma.0": '["one", {}]',
        "b.beta.0": '["zero", {}]',
        "b.moving_mean.0": '["zero", {}]',
        "b.moving_var.0": '["one", {}]',
        "f.w.0": '["uniform", {"scale": 0.01}]',
        "f.bias.0": '["constant", {"value": 1.0}]',
        "w": '["uniform", {"scale": 0.01}]',
        "a_gamma": None,
    }


def test_an_operators_initializer_takes_precedence_over_the_scopes() -> None:
    with Session(), variable_scope(initializer=initializers.normal()):
        x = op.UpSampling(
            placeholder("x", (1, 2, 4, 4)),
            scale=2,
            sample_type="bilinear",
            num_filter=2,
            num_args=1,
        )
        y = op.Convolution(x, kernel=(1, 1), num_filter=2)
    assert x.node.inputs[1].node.attrs["__init__"] == '["bilinear", {}]'
    assert [e.node.attrs.get("__init__") for e in y.node.inputs[1:]] == [
        initializers.normal(),
        None,
    ]


def test_an_operator_determines_the_shapes_of_its_parameters() -> None:
    with Session():
        w = variable("w")
        assert w.shape is None
        x = placeholder("x", (None, 5))
        y = op.FullyConnected(x, weight=w, num_hidden=4, no_bias=True)
        assert (w.shape, y.shape) == ((4, 5), (None, 4))
        u = placeholder("u")
        op.FullyConnected(u, weight=w, num_hidden=4, no_bias=True, flatten=False)
        assert y.dtype is None
    assert repr(y) == "<Var fullyconnected0_output (?,4) ?>"


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"shape": (2, 3)}, {"shape": (2, 4)}, r"inconsistent shapes: \(2,3\) and \(2,4\)"),
        ({"dtype": "float32"}, {"dtype": "float16"}, "with dtype float32 and float16"),
        ({"trainable": False}, {"trainable": True}, "with trainable False and True"),
        ({"regularizer": 1.0}, {}, "with regularizer 1.0 and None"),
        (
            {"initializer": initializers.zeros()},
            {"initializer": initializers.ones()},
            "with the initializers",
        ),
        ({}, {"initializer": initializers.ones()}, "with the initializers None"),
    ],
)
def test_sharing_with_contradicting_shapes_or_settings_is_refused(
    first: dict[str, object], second: dict[str, object], message: str
) -> None:
    with Session(), variable_scope(reuse=AUTO_REUSE):
        w = variable("w", **first)  # type: ignore[arg-type]
        with pytest.raises(RefusedError, match=message):
            variable("w", **second)  # type: ignore[arg-type]
        assert variable("w", **{**first, "initializer": None}) is w  # type: ignore[arg-type]


def test_sharing_refines_a_partial_shape() -> None:
    with Session(), variable_scope(reuse=AUTO_REUSE):
        w = variable("w", (None, 3))
        assert variable("w", (2, None)) is w
        assert w.shape == (2, 3)


def test_all_contradictions_of_a_shared_parameter_are_listed() -> None:
    with Session(), variable_scope(reuse=AUTO_REUSE):
        variable("w", (1,), dtype="float32")
        with pytest.raises(RefusedError) as caught:
            variable("w", (2,), dtype="float64", trainable=False)
    assert len(caught.value.faults) == 3


def test_a_variable_cannot_have_the_name_of_an_operator_or_input() -> None:
    with Session():
        x = placeholder("x", (2, 2))
        op.relu(x, name="y")
        with pytest.raises(RefusedError, match="already exists, disallowed"):
            variable("x")
        with pytest.raises(RefusedError, match="x is an input and cannot be shared"):
            variable("x", reuse=AUTO_REUSE)
        with pytest.raises(RefusedError, match="y would have the name of an operator"):
            variable("y")
        with pytest.raises(RefusedError, match="'y' already exists"):
            placeholder("y")
        for name in ("", "a/", "a\0"):
            with pytest.raises(RefusedError, match="not a valid name for a variable"):
                variable(name)
            with pytest.raises(RefusedError, match="not a valid name for a variable"):
                placeholder(name)


@pytest.mark.parametrize("shape", [(), 3, "23", (-1, 2), (1.0,), (True, 2), ((2,), 3), (1 << 63,)])
def test_invalid_shapes_are_refused(shape: object) -> None:
    with Session() as session:
        for made in (variable, placeholder):
            with pytest.raises(RefusedError, match="is not a shape for a variable"):
                made("w", shape)  # type: ignore[arg-type]
        assert session.registry.names == {}


def test_sizes_may_be_numpy_integers() -> None:
    with Session():
        assert variable("w", (np.int64(2), None)).node.attrs["__shape__"] == "(2, 0)"


def test_a_size_of_0_is_unknown() -> None:
    with Session():
        assert variable("w", [0, 3]).shape == (None, 3)


def test_dtypes_without_a_number_in_mxnet_are_refused() -> None:
    with Session() as session:
        with pytest.raises(RefusedError, match="'complex64'"):
            variable("w", dtype="complex64")
        with pytest.raises(RefusedError, match="'text'"):
            placeholder("x", dtype="text")
        assert session.registry.variables == {}


def test_a_variable_that_an_operator_writes_into_is_an_auxiliary_state() -> None:
    with Session() as session:
        mean = variable("mean", initializer=initializers.zeros())
        x = op.BatchNorm(placeholder("x", (2, 3)), moving_mean=mean, name="bn")
        assert session.auxiliary_states[0] is mean
        assert [p.name for p in session.params] == ["bn_gamma", "bn_beta"]
        assert [entry.version for entry in x.node.inputs] == [0, 0, 0, 1, 1]
        assert [entry.version for entry in op.BatchNorm(x, moving_mean=mean).node.inputs] == [
            0,
            0,
            0,
            2,
            1,
        ]
        assert [entry.version for entry in op.broadcast_add(x, mean).node.inputs] == [0, 2]
