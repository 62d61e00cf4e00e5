"""First values of parameters: by initializer, by ending, and what cannot be filled."""

from __future__ import annotations

import numpy as np
import pytest

from graphshare.builder import initializers
from graphshare.errors import RefusedError
from graphshare.execute.prepare.variable_values import initial_value
from graphshare.ir.graph import Node

SHAPE = (64, 32, 3, 3)


def value(
    init: str | None, name: str = "w", shape: tuple[int, ...] = SHAPE, seed: int = 0
) -> np.ndarray:
    return initial_value(
        Node("", name, {} if init is None else {"__init__": init}), shape, "float32", seed=seed
    )


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        (initializers.zeros(), 0),
        (initializers.ones(), 1),
        (initializers.constant(2.5), 2.5),
        ('["Constant", {"value": 4}]', 4),
    ],
)
def test_constants(init: str, expected: float) -> None:
    found = value(init)
    assert found.dtype == np.float32
    assert (found == expected).all()


@pytest.mark.parametrize(
    ("init", "std"),
    [
        (initializers.normal(0.5), 0.5),
        (initializers.uniform(0.3), 0.3 / 3**0.5),
        (initializers.xavier(), (3 / (9 * 48)) ** 0.5 / 3**0.5),
        (initializers.xavier("gaussian", "in", 2), (2 / (9 * 32)) ** 0.5),
        (initializers.xavier("gaussian", "out", 2), (2 / (9 * 64)) ** 0.5),
        ('["msraprelu", {"factor_type": "avg", "slope": 0}]', (2 / (9 * 48)) ** 0.5),
        (None, 0.01 / 3**0.5),
    ],
)
def test_random_ones(init: str | None, std: float) -> None:
    found = value(init)
    assert found.std() == pytest.approx(std, rel=0.03)
    assert abs(found.mean()) < std / 20
    assert value(init).tobytes() == found.tobytes()
    assert value(init, seed=1).tobytes() != found.tobytes()
    assert value(init, name="v").tobytes() != found.tobytes()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a_bias", 0), ("a_gamma", 1), ("a_moving_var", 1), ("a_running_mean", 0)],
)
def test_endings(name: str, expected: int) -> None:
    assert (value(None, name) == expected).all()


@pytest.mark.parametrize(
    "init",
    [
        '["mystery", {}]',
        "zero",
        "[1, 2]",
        '["zero"]',
        '["xavier", {"factor_type": "up"}]',
        '["normal", {"sigma": -1}]',
        "[]",
        "3",
    ],
)
def test_what_is_no_initializer(init: str) -> None:
    with pytest.raises(RefusedError, match="cannot fill"):
        value(init)


def test_shapes_that_do_not_go_with_it() -> None:
    for init in (initializers.xavier(), '["bilinear", {}]'):
        with pytest.raises(RefusedError, match="cannot fill"):
            value(init, shape=(3,))


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (3, 3), (2, 4), (5, 4)])
def test_bilinear_weights_stretch_an_image(rows: int, columns: int) -> None:
    found = value('["bilinear", {}]', shape=(2, 1, rows, columns))
    # Of a stretch to twice the size
    weights = np.array([0.25, 0.75, 0.75, 0.25, -0.25], np.float32)
    assert np.array_equal(
        found, np.broadcast_to(np.outer(weights[:rows], weights[:columns]), found.shape)
    )
