"""Random numbers in ONNX: not MXNet's, but of the same distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from graphshare.errors import RefusedError
from graphshare.ops.kernel import Context
from graphshare.ops.registry import find_kernel, lookup
from tests.export.judge import export_operator, run_onnx

MANY = {"shape": "(2000, 8)"}
LIKE = [np.zeros((2000, 8), np.float32)]
PARAMETERS = [np.array([1.0, 4.0], np.float32), np.array([2.0, 9.0], np.float32)]


def run_both(
    op: str, attrs: Mapping[str, str], inputs: Sequence[Any], count: int = 1
) -> tuple[Any, Any]:
    """Return the outputs of the exported operator and those of the kernel."""
    data = export_operator(op, attrs, inputs, count)
    assert not isinstance(data, RefusedError), data
    outputs, who = run_onnx(data, {f"in{i}": x for i, x in enumerate(inputs)})
    assert who == "onnxruntime"
    signature, kernel = lookup(op), find_kernel(op)
    assert signature is not None
    assert kernel is not None
    typed, _ = signature.parse(attrs)
    expected = kernel.forward(
        Context(rng=np.random.default_rng(1), num_outputs=count), typed, *inputs
    )
    expected = expected if isinstance(expected, tuple) else (expected,)
    for got, want in zip(outputs, expected, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
    return outputs, expected


@pytest.mark.parametrize(
    ("op", "attrs", "inputs"),
    [
        ("_random_uniform", {**MANY, "low": "-1", "high": "3"}, []),
        ("_random_uniform", {**MANY, "dtype": "float16"}, []),
        ("_random_normal", {**MANY, "loc": "2", "scale": "0.5", "dtype": "float64"}, []),
        ("_random_exponential", {**MANY, "lam": "4"}, []),
        ("_random_randint", {**MANY, "low": "-3", "high": "5"}, []),
        ("_random_uniform_like", {"low": "2", "high": "3"}, LIKE),
        ("_random_normal_like", {"loc": "-1"}, LIKE),
        ("_random_exponential_like", {"lam": "0.5"}, LIKE),
        ("_sample_uniform", {"shape": "(8000,)"}, PARAMETERS),
        ("_sample_normal", {"shape": "(80, 100)"}, PARAMETERS),
        ("_sample_exponential", {"shape": "(8000,)"}, PARAMETERS[:1]),
    ],
)
def test_numbers_have_the_distribution_of_the_kernel(
    op: str, attrs: dict[str, str], inputs: list[Any]
) -> None:
    (got,), (want,) = run_both(op, attrs, inputs)
    rows = len(want) if op.startswith("_sample") else 1
    for drawn, example in zip(
        got.reshape(rows, -1).astype(float), want.reshape(rows, -1).astype(float), strict=True
    ):
        spread = example.std()
        assert abs(drawn.mean() - example.mean()) < 0.06 * spread
        assert 0.9 * spread < drawn.std() < 1.1 * spread
        if "normal" not in op and "exponential" not in op:
            assert abs(drawn.min() - example.min()) < 0.01 * spread
            assert abs(drawn.max() - example.max()) < 0.01 * spread


def test_classes_are_drawn_by_their_probabilities() -> None:
    weights = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]], np.float32)
    (drawn, logarithms), _ = run_both(
        "_sample_multinomial", {"shape": "(8000,)", "get_prob": "True"}, [weights], 2
    )
    shares = np.stack([(drawn == k).mean(axis=1) for k in range(3)], axis=1)
    assert np.abs(shares - weights).max() < 0.03
    assert np.allclose(np.exp(logarithms), np.take_along_axis(weights, drawn, axis=1))


def test_rows_are_shuffled() -> None:
    x = np.arange(600, dtype=np.float32).reshape(200, 3)
    (got,), _ = run_both("_shuffle", {}, [x])
    assert not np.array_equal(got, x)
    assert np.array_equal(got[np.argsort(got[:, 0])], x)


@pytest.mark.parametrize("op", ["_random_gamma", "_random_poisson"])
def test_other_distributions_are_refused(op: str) -> None:
    refusal = export_operator(op, MANY, [], 1)
    assert isinstance(refusal, RefusedError)
    assert "ONNX has no random numbers of this distribution" in str(refusal)


@pytest.mark.parametrize("end", ["", "_like"])
@pytest.mark.parametrize(
    ("name", "attrs", "reason"),
    [
        ("normal", {"scale": "0"}, "its scale is 0.0, expected a positive number"),
        ("normal", {"scale": "-1"}, "its scale is -1.0, expected a positive number"),
        ("exponential", {"lam": "0"}, "its lam is 0.0, expected a positive number"),
        ("uniform", {"low": "3", "high": "2"}, "its low is 3.0, above its high, 2.0"),
    ],
)
def test_parameters_that_mxnet_refuses_are_refused(
    name: str, end: str, attrs: dict[str, str], reason: str
) -> None:
    """onnxruntime would end the process."""
    refusal = export_operator(
        f"_random_{name}{end}", attrs if end else {**MANY, **attrs}, LIKE if end else [], 1
    )
    assert isinstance(refusal, RefusedError)
    assert reason in str(refusal)


def test_a_range_of_one_number_is_drawn_from() -> None:
    (got,), _ = run_both("_random_uniform", {**MANY, "low": "2", "high": "2"}, [])
    assert np.array_equal(np.unique(got), [2])


def test_integers_in_the_shape_of_an_array_are_refused() -> None:
    refusal = export_operator("_random_uniform_like", {}, [np.zeros((2, 3), np.int32)], 1)
    assert "its numbers are int32" in str(refusal)
