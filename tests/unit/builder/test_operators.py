"""Operators: what is refused and why, that nothing is made then, and what the results are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from graphshare.builder import (
    TENSORFLOW,
    Session,
    Var,
    constant,
    fully_connected,
    placeholder,
    variable,
)
from graphshare.builder import operators as op
from graphshare.errors import RefusedError

X = (2, 3, 8, 8)

REFUSED: list[tuple[Callable[[Var], object], str]] = [
    (lambda x: op.apply("Convolutoin", x), "'Convolutoin' is not an operator of MXNet"),
    (lambda x: op.apply("_foreach", x), "'_foreach' contains subgraphs"),
    (lambda x: op.apply("_sg_mkldnn_conv", x), "not an operator of MXNet|contains subgraphs"),
    (lambda x: op.Convolution(x, num_filter=3), "missing attribute 'kernel'"),
    (
        lambda x: op.Convolution(x, kernel=(3, 3), num_filter=3, colour="red"),
        "unknown attribute 'colour'",
    ),
    (lambda x: op.Convolution(x, kernel="three", num_filter=3), "attribute 'kernel' is 'three'"),
    (lambda x: op.Convolution(kernel=(3, 3), num_filter=3), "input 'data' is missing"),
    (lambda x: op.relu(x, x), r"got 2 inputs, expected at most 1 \(data\)"),
    (lambda x: op.FullyConnected(x, data=x, num_hidden=2), "input 'data' is given twice"),
    (
        lambda x: op.FullyConnected(x, gamma=x, num_hidden=2),
        "has no input 'gamma'\n.*its inputs are data, weight, bias",
    ),
    (lambda x: op.apply("_zeros", x=x, shape=(2,)), "has no input 'x'\n.*its inputs are none"),
    (
        lambda x: op.FullyConnected(x, x, x, no_bias=True, num_hidden=2),
        "got 3 inputs, expected at most 2",
    ),
    (lambda x: op.relu(np.ones(3)), "input 0 is a ndarray, not a Var"),
    (lambda x: op.relu((x, x)), "input 0 is a tuple, not a Var"),
    (
        lambda x: op.elemwise_add(x, placeholder("other", (2, 4))),
        r"elemwise_add cannot take x \(2,3,8,8\), other \(2,4\)",
    ),
    (
        lambda x: op.BatchNorm(x, moving_mean=op.relu(x)),
        "writes into 'relu0_output', which is not a variable",
    ),
    (lambda x: op.FullyConnected(x, num_hidden=2, reuse=True), "reuse=True needs a name"),
    (lambda x: x + np.ones(3), "attribute 'scalar'"),
    (lambda x: fully_connected(placeholder("unknown"), 3), "size of <Var unknown"),
]


@pytest.mark.parametrize(("authored", "message"), REFUSED)
def test_invalid_applications_are_refused_and_create_nothing(
    authored: Callable[[Var], object], message: str
) -> None:
    with Session() as session:
        x = placeholder("x", X)
        with pytest.raises(RefusedError, match=message):
            authored(x)
        assert session.params == []
        assert session.auxiliary_states == []


def test_all_invalid_attributes_are_listed() -> None:
    with Session(), pytest.raises(RefusedError) as caught:
        op.Convolution(placeholder("x"), kernel="three", colour="red")
    assert len(caught.value.faults) == 3


def test_inputs_of_another_session_are_refused() -> None:
    with Session():
        x = placeholder("x")
    with Session(), pytest.raises(RefusedError, match="'x' belongs to another session"):
        op.relu(x)


def test_nothing_is_created_when_a_parameter_is_refused() -> None:
    with Session() as session:
        x = placeholder("x", (2, 3))
        variable("fc_bias", (5,))
        with pytest.raises(RefusedError, match="fc_bias already exists"):
            op.FullyConnected(x, num_hidden=4, name="fc")
        assert [p.name for p in session.params] == ["fc_bias"]
        assert list(session.registry.names) == ["x", "fc_bias"]


def test_a_label_with_a_taken_name_is_refused() -> None:
    with Session() as session:
        x, label = placeholder("x", (2, 3)), placeholder("softmax_label", (2,))
        with pytest.raises(RefusedError, match="'softmax_label' already exists"):
            op.SoftmaxOutput(op.FullyConnected(x, num_hidden=4), name="softmax")
        made = op.SoftmaxOutput(x, label, name="softmax")  # the name is still free
        assert made.node.name == "softmax"
        assert [v.name for v in session.inputs] == ["x", "softmax_label"]


def test_numbers_of_repeated_names_have_no_gaps() -> None:
    with Session(TENSORFLOW):
        x = placeholder("x", (2, 3))
        op.relu(x, name="a_2")
        with pytest.raises(RefusedError):
            op.elemwise_add(x, placeholder("y", (3, 3)), name="a")
        assert [op.relu(x, name="a").node.name for _ in range(4)] == ["a", "a_1", "a_3", "a_4"]


def test_an_unknown_operator_is_an_attribute_error_with_a_suggestion() -> None:
    with pytest.raises(AttributeError, match=r"no operator 'Convolutoin'. did you mean"):
        _ = op.Convolutoin
    assert op.FullyConnected.__name__ == "FullyConnected"


def test_attributes_have_the_text_that_mxnet_writes() -> None:
    with Session():
        node = op.Convolution(
            placeholder("x"),
            kernel=(np.int64(3), 3),
            num_filter=np.int64(4),
            no_bias=True,
            pad=[1, 1],
        ).node
        assert dict(node.attrs) == {
            "kernel": "(3, 3)",
            "no_bias": "True",
            "num_filter": "4",
            "pad": "[1, 1]",
        }
        assert (
            op.Convolution(placeholder("z"), kernel=(3,), num_filter=1).node.attrs["kernel"]
            == "(3,)"
        )
        assert op.cast(placeholder("y"), dtype=np.float16).node.attrs["dtype"] == "float16"


def test_an_alias_becomes_canonical_and_keeps_its_automatic_name() -> None:
    with Session():
        made = op.concat(placeholder("x"), placeholder("y"))
        assert (made.op, made.node.name, made.node.attrs["num_args"]) == ("Concat", "concat0", "2")


def test_an_operator_with_several_outputs_returns_all_of_them() -> None:
    with Session() as session:
        parts = op.SliceChannel(placeholder("x", (2, 6)), num_outputs=3, name="parts")
        assert [(part.name, part.shape) for part in parts] == [
            (f"parts_output{i}", (2, 2)) for i in range(3)
        ]
        assert session.var("parts_output1") is parts[1]
        assert session.var("parts") is parts[0]
        assert session.run(parts[2] - parts[0], {"x": np.arange(12.0).reshape(2, 6)}).tolist() == [
            [4, 4],
            [4, 4],
        ]
        norm = op.BatchNorm(placeholder("y", X))
        assert isinstance(norm, Var)
        assert norm.node.num_outputs == 3


def test_arithmetic_applies_mxnets_operators() -> None:
    with Session() as session:
        x, y, row = placeholder("x", (2, 2)), placeholder("y", (2, 2)), placeholder("row", (1, 2))
        made = [
            x + y,
            x - 1,
            1 - x,
            np.float32(2) * x,
            x / y,
            1 / x,
            -x,
            x * row,
            constant(3.0, (2, 2)) + x,
        ]
        assert [v.op for v in made] == [
            "elemwise_add", "_minus_scalar", "_rminus_scalar", "_mul_scalar", "elemwise_div", "_rdiv_scalar", "_mul_scalar",
            "broadcast_mul", "elemwise_add",
        ]  # fmt: skip
        a, b, r = np.array([[1.0, 2], [3, 4]]), np.array([[2.0, 2], [4, 8]]), np.array([[1.0, 10]])
        found = session.run(made, {x: a, y: b, row: r})
        expected = [a + b, a - 1, 1 - a, 2 * a, a / b, 1 / a, -a, a * r, a + 3]
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_an_input_may_be_used_twice() -> None:
    with Session() as session:
        x = placeholder("x", (2, 2))
        assert session.run(op.dot(x, x), {"x": [[1, 2], [3, 4]]}).tolist() == [[7, 10], [15, 22]]
        y = placeholder("y", (None, 3))
        assert op.FullyConnected(y, weight=y, num_hidden=2, no_bias=True).shape == (2, 2)
        assert y.shape == (2, 3)


def test_operators_without_a_kernel_can_be_authored() -> None:
    with Session() as session:
        y = op.Custom(placeholder("x", (2,)), op_type="mine", name="c")
        assert y.shape is None
        assert session.graph(y).heads[0].node.op == "Custom"
        with pytest.raises(RefusedError, match="operator Custom cannot be run"):
            session.run(y, {"x": [1, 2]})
