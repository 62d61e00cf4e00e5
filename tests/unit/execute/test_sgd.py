"""SGD as MXNet's Module does it; the numbers were verified there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphshare.analysis.roles import Kind, Role
from graphshare.errors import RefusedError
from graphshare.execute.train.sgd import Momentum, Sgd, multipliers
from graphshare.execute.train.trainer import batch_rescale, first_data
from graphshare.ir.graph import Node


def stepped(node: Node, settings: Sgd, gradients: list[float], start: float = 1.0) -> list[float]:
    """The values after each step."""
    momentum, value, found = Momentum(settings, [node]), np.array([start], "float32"), []
    for gradient in gradients:
        value = momentum.update({node: value}, {node: np.array([gradient], "float32")})[node]
        found.append(float(value[0]))
    return found


def variable(name: str, **attrs: str) -> Node:
    return Node("", name, attrs=attrs)


def test_momentum() -> None:
    assert stepped(variable("w"), Sgd(0.1, momentum=0.9), [3.0, 3.0]) == pytest.approx([0.7, 0.13])


@pytest.mark.parametrize(
    ("dtype", "kept"), [("float16", "float32"), ("float32", "float32"), ("float64", "float64")]
)
def test_half_precision_is_updated_in_single_and_other_dtypes_in_their_own(
    dtype: str, kept: str
) -> None:
    node, memory = variable("w"), {}
    momentum = Momentum(Sgd(0.1, momentum=0.9, rescale=1 / 3), [node], memory)
    value = np.ones(1, dtype)
    for _ in range(2):
        value = momentum.update({node: value}, {node: np.ones(1, dtype)})[node]
    wide = np.dtype(kept).type
    first = -wide(0.1) * (wide(1) * wide(1 / 3))
    second = first * wide(0.9) + first
    assert (value.dtype, memory[node].dtype, memory[node][0]) == (dtype, kept, second)
    assert value[0] == np.dtype(dtype).type(wide(np.dtype(dtype).type(1 + first)) + second)


def test_the_defaults_are_those_of_module() -> None:
    assert stepped(variable("fc_weight"), Sgd(), [3.0]) == pytest.approx([0.97])


@pytest.mark.parametrize(
    ("name", "decays"),
    [
        ("a_weight", True),
        ("a_gamma", True),
        ("a_bias", False),
        ("a_beta", False),
        ("weight", False),
    ],
)
def test_decay_goes_by_the_ending_of_the_name(name: str, decays: bool) -> None:
    assert stepped(variable(name), Sgd(0.1, wd=0.5), [0.0]) == pytest.approx(
        [0.95 if decays else 1.0]
    )


def test_multipliers_of_a_variable_prevail() -> None:
    node = variable("foo_x", __lr_mult__="2", __wd_mult__="3")
    assert stepped(node, Sgd(0.1, wd=0.5), [3.0]) == pytest.approx([1 - 0.2 * (3 + 1.5)])
    assert stepped(variable("a_weight", __lr_mult__="0.0"), Sgd(0.1, wd=0.5), [3.0]) == [1.0]
    assert stepped(variable("a_weight", __wd_mult__="0"), Sgd(0.1, wd=0.5), [0.0]) == [1.0]


def test_a_gradient_is_rescaled_and_then_clipped() -> None:
    assert stepped(variable("w"), Sgd(1.0, rescale=0.5, clip=1.0), [3.0]) == pytest.approx([0.0])
    assert stepped(variable("w"), Sgd(1.0, rescale=0.1, clip=1.0), [-3.0]) == pytest.approx([1.3])
    # No bound, as in Module
    assert stepped(variable("w"), Sgd(1.0, rescale=0.5, clip=0.0), [3.0]) == pytest.approx([-0.5])


def test_what_has_no_gradient_may_decay() -> None:
    node = variable("a_weight")
    value: Any = np.ones(2, "float32")
    assert Momentum(Sgd(0.1, wd=0.5), [node]).update({node: value}, {})[
        node
    ].tolist() == pytest.approx([0.95, 0.95])
    assert value.tolist() == [1.0, 1.0]


def test_multipliers_that_are_no_numbers_are_all_listed() -> None:
    with pytest.raises(RefusedError) as refusal:
        multipliers([variable("a", __lr_mult__="fast"), variable("b", __wd_mult__="")])
    assert [fault.node for fault in refusal.value.faults] == ["a", "b"]


def test_gradients_are_divided_by_the_batch_of_the_first_data() -> None:
    roles = {
        Node("", name): Role(Kind.INPUT, "", **{f"is_{name}": True}) for name in ("label", "state")
    }
    number, data, other = (Node("", name) for name in ("number", "data", "other"))
    roles |= {node: Role(Kind.INPUT, "") for node in (number, data, other)}
    values = {node: np.ones((7, 2)) for node in roles} | {
        number: np.ones(()),
        data: np.ones((4, 2)),
    }
    assert first_data(roles, values, roles) is data
    assert first_data([number], values, roles) is None
    assert batch_rescale(data, values) == 0.25
    assert [batch_rescale(data, {data: np.ones((n, 2))}) for n in (0, 1, 2)] == [1, 1, 0.5]
    assert batch_rescale(None, {}) == 1
