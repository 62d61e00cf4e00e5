"""Random operators: shape, type, and mean and variance of what MXNet documents; one generator, one stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphshare.ops.kernel import Context
from graphshare.ops.registry import find_kernel, lookup

MANY = "(100, 1000)"
MOMENTS = [
    ("uniform", {"low": 1, "high": 3}, 2, 1 / 3),
    ("normal", {"loc": 1, "scale": 2}, 1, 4),
    ("exponential", {"lam": 4}, 0.25, 1 / 16),
    ("gamma", {"alpha": 2, "beta": 3}, 6, 18),
    ("poisson", {"lam": 4}, 4, 4),
    ("negative_binomial", {"k": 3, "p": 0.4}, 4.5, 11.25),
    ("generalized_negative_binomial", {"mu": 3, "alpha": 0.4}, 3, 6.6),
]


def draw(
    operator: str, attrs: dict[str, str], *inputs: Any, seed: int = 5, outputs: int = 1
) -> Any:
    signature, kernel = lookup(operator), find_kernel(operator)
    assert signature is not None
    assert kernel is not None
    values, faults = signature.parse(attrs)
    assert not faults
    made: Any = kernel.forward(Context(rng=np.random.default_rng(seed)), values, *inputs)
    first = made[0] if isinstance(made, tuple) else made
    _, shapes = kernel.shapes(values, [x.shape for x in inputs], [None] * outputs)
    _, types = kernel.types(values, [str(x.dtype) for x in inputs], [None] * outputs)
    assert (shapes[0], types[0]) == (first.shape, str(first.dtype))
    return made


@pytest.mark.parametrize(("name", "attrs", "mean", "variance"), MOMENTS)
def test_the_three_forms_have_one_distribution(
    name: str, attrs: dict[str, float], mean: float, variance: float
) -> None:
    texts = {key: str(value) for key, value in attrs.items()}
    parameters = [np.array([value], "float32") for value in attrs.values()]
    for numbers in (
        draw(f"_random_{name}", {**texts, "shape": MANY}),
        draw(f"_random_{name}_like", texts, np.zeros((100, 1000), "float32")),
        draw(f"_sample_{name}", {"shape": MANY}, *parameters),
    ):
        assert numbers.dtype == np.float32
        assert numbers.mean() == pytest.approx(mean, rel=0.03)
        assert numbers.var() == pytest.approx(variance, rel=0.05)


def test_each_parameter_has_numbers_of_its_own() -> None:
    numbers = draw(
        "_sample_normal", {"shape": "(500,)"}, np.array([0, 100], "float32"), np.ones(2, "float32")
    )
    assert numbers.shape == (2, 500)
    assert numbers.mean(axis=1) == pytest.approx([0, 100], abs=0.3)


def test_whole_numbers_classes_and_order() -> None:
    numbers = draw("_random_randint", {"low": "2", "high": "5", "shape": "(1000,)"})
    assert numbers.dtype == np.int32
    assert sorted(set(numbers.tolist())) == [2, 3, 4]
    chances = np.array([[0.2, 0.8], [1, 0]], "float32")
    classes, logs = draw(
        "_sample_multinomial", {"shape": "(1000,)", "get_prob": "True"}, chances, outputs=2
    )
    assert classes.mean(axis=1) == pytest.approx([0.8, 0], abs=0.05)
    assert np.allclose(logs[0], np.log(chances[0])[classes[0]])
    assert draw("_sample_multinomial", {}, chances[0]).shape == (1,)
    shuffled = draw("_shuffle", {}, np.arange(10))
    assert sorted(shuffled.tolist()) == list(range(10))


def test_one_seed_one_stream() -> None:
    attrs = {"shape": "(4,)"}
    assert np.array_equal(draw("_random_normal", attrs), draw("_random_normal", attrs))
    assert not np.array_equal(draw("_random_normal", attrs), draw("_random_normal", attrs, seed=6))
