"""Equations, determinants and factors in ONNX, where an elimination must exchange rows, and where a
matrix is singular.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphshare.errors import RefusedError
from tests.elementwise import Tolerance, describe_mismatch
from tests.export.judge import export_operator, run_onnx

RNG = np.random.default_rng(7)
WIDE = RNG.normal(size=(3, 9, 9)).astype("float32")
ZEROS_FIRST = (WIDE * (1 - np.eye(9))).astype("float32")  # no pivot is on the diagonal at first


def computed(op: str, attrs: dict[str, str], *inputs: Any, outputs: int = 1) -> list[Any]:
    data = export_operator(op, attrs, inputs, outputs)
    assert not isinstance(data, RefusedError), str(data)
    return run_onnx(data, {f"in{i}": x for i, x in enumerate(inputs)})[0]


@pytest.mark.parametrize("a", [WIDE, ZEROS_FIRST, WIDE[0], WIDE.astype("float64")])
def test_equations_and_determinants(a: Any) -> None:
    exact, tolerance = a.astype("float64"), Tolerance(1e-6, 1e-5)
    sign, logarithm = np.linalg.slogdet(exact)
    shape = a.shape[:-2] or (1,)
    wanted = {
        "_linalg_inverse": [np.linalg.inv(exact)],
        "_linalg_det": [np.linalg.det(exact).reshape(shape)],
        "_linalg_slogdet": [np.reshape(sign, shape), np.reshape(logarithm, shape)],
    }
    for op, results in wanted.items():
        for got, want in zip(computed(op, {}, a, outputs=len(results)), results, strict=True):
            mismatch = describe_mismatch(got, want.astype(a.dtype), tolerance)
            assert mismatch is None, (op, mismatch)
    b = RNG.normal(size=(*a.shape[:-1], 4)).astype(a.dtype)
    (got,) = computed("_npi_solve", {}, a, b)
    assert (
        describe_mismatch(
            got, np.linalg.solve(exact, b.astype("float64")).astype(a.dtype), tolerance
        )
        is None
    )


def test_singular_matrices_have_the_determinant_0() -> None:
    a = np.array(
        [[[1, 2, 3], [2, 4, 6], [0, 1, 5]], [[0, 0, 0], [1, 2, 3], [3, 2, 1]], np.eye(3)], "float32"
    )
    assert computed("_linalg_det", {}, a)[0].tolist() == [0, 0, 1]
    sign, logarithm = computed("_linalg_slogdet", {}, a, outputs=2)
    assert (sign.tolist(), logarithm.tolist()) == ([0, 0, 1], [-np.inf, -np.inf, 0])


@pytest.mark.parametrize("lower", ["True", "False"])
def test_factors_of_larger_matrices(lower: str) -> None:
    a = (WIDE @ WIDE.swapaxes(-1, -2) + 0.1 * np.eye(9)).astype("float32")
    factor = np.linalg.cholesky(a.astype("float64"))
    want = factor if lower == "True" else factor.swapaxes(-1, -2)
    for op in ("_linalg_potrf", "_npi_cholesky"):
        mismatch = describe_mismatch(
            computed(op, {"lower": lower}, a)[0], want.astype("float32"), Tolerance(1e-5, 1e-5)
        )
        assert mismatch is None, mismatch


@pytest.mark.parametrize("op", ["_linalg_det", "_linalg_sumlogdiag", "_linalg_potrf"])
def test_integers_are_refused(op: str) -> None:
    refusal = export_operator(op, {}, [np.ones((2, 2), "uint8")], 1)
    assert isinstance(refusal, RefusedError)
    assert "its data is uint8, and MXNet computes it only in float32 and float64" in str(refusal)


@pytest.mark.parametrize(("op", "count"), [("_linalg_det", 2), ("_linalg_slogdet", 3)])
def test_factors_that_are_read_are_refused(op: str, count: int) -> None:
    refusal = export_operator(op, {}, [WIDE], count)
    assert isinstance(refusal, RefusedError)
    assert "its shapes do not follow" in str(refusal)
