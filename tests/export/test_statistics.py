"""Reductions and statistics in ONNX where the recorded cases do not reach, with our own kernels as the judge."""

from __future__ import annotations

import numpy as np
import pytest

from tests.export import kernel_judge
from tests.export.test_elementwise import DTYPES, compare

REDUCTIONS = "sum mean max min prod nansum nanprod norm".split()


def numbers(dtype: str, shape: tuple[int, ...] = (3, 4, 5)) -> np.ndarray:
    """Return numbers near 0, of integers also those whose sums leave the range."""
    drawn = np.random.default_rng(1).normal(size=shape) * (1 if dtype.startswith("float") else 60)
    return np.abs(drawn).astype(dtype) if dtype == "uint8" else drawn.astype(dtype)


@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions_of_every_dtype(op: str) -> None:
    attributes = [
        {},
        {"axis": "(1,)"},
        {"axis": "(-1, 0)", "keepdims": "1"},
        {"axis": "(1,)", "exclude": "1"},
    ]
    if op == "norm":
        attributes = [{**attrs, "ord": order} for attrs in attributes[:3] for order in ("1", "2")]
    arrays = [numbers(dtype) for dtype in DTYPES]
    if "prod" in op:  # ONNX leaves open what becomes of products that leave an integer's range
        arrays = [np.clip(x, 0 if x.dtype == np.uint8 else -1, 1) for x in arrays]
    found = [compare(op, attrs, [x]) for attrs in attributes for x in arrays]
    assert set(found) == {""}, set(found)
    assert compare(op, {}, [numbers("float32", (6,))]) == ""


@pytest.mark.parametrize("op", ["_np_sum", "_np_prod", "_npi_mean"])
def test_reductions_of_the_numpy_interface(op: str) -> None:
    attributes = [
        {},
        {"axis": "()"},
        {"axis": "(-1,)", "dtype": "float64"},
        {"keepdims": "1", "dtype": "int64"},
    ]
    found = [
        compare(op, attrs, [numbers(dtype)])
        for attrs in attributes
        for dtype in ("float32", "int32", "int8")
    ]
    assert set(found) == {""}, set(found)
    assert compare(op, {"axis": "(0,)"}, [np.zeros((0, 3), np.float32)]) in ("", None)


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_percentiles(method: str) -> None:
    x = numbers("float32")
    x[1, 2, 3] = np.nan
    places = np.array([0, 12.5, 50, 100], np.float32)
    for array in (x, numbers("int32"), numbers("float64")):
        for attrs in ({}, {"axis": "(2, 0)"}, {"axis": "(1,)", "keepdims": "1"}):
            common = {**attrs, "interpolation": method}
            assert compare("_npi_percentile", {**common, "q_scalar": "37.5"}, [array]) == ""
            assert compare("_npi_percentile", common, [array, places]) == ""


def test_norms() -> None:
    x = numbers("float32")
    x[:, 1] = 0
    for order in ("1", "2", "-1", "3", "0", "inf", "-inf"):
        assert compare("_npi_norm", {"axis": "(1,)", "ord": order, "flag": "0"}, [x]) == ""
    for order in ("1", "-1", "inf", "-inf"):
        assert (
            compare(
                "_npi_norm", {"axis": "(2, 0)", "ord": order, "flag": "0", "keepdims": "1"}, [x]
            )
            == ""
        )
    refusal = compare("_npi_norm", {"axis": "(1, 2)", "ord": "2", "flag": "0"}, [x])
    assert refusal is not None
    assert "singular values" in refusal


def test_counts_between_edges() -> None:
    x = np.array([-1, 0, 0.5, 1, 1.5, 2, 2.5, np.inf], np.float32)
    assert compare("_histogram", {}, [x, np.array([0, 1, 2], np.float32)]) == ""
    assert compare("_histogram", {"bin_cnt": "4", "range": "(0, 2)"}, [x.astype(np.float64)]) == ""


def test_closeness() -> None:
    a = np.array([1, np.nan, np.inf], np.float32)
    for b in ([1.000001, np.nan, np.inf], [1, np.nan, -np.inf], [1, np.nan, 3], [1, 2, np.inf]):
        for equal_nan in ("0", "1"):
            assert (
                compare("_contrib_allclose", {"equal_nan": equal_nan}, [a, np.array(b, np.float32)])
                == ""
            )


def test_differences() -> None:
    for n in ("0", "1", "3", "9"):
        assert compare("_npi_diff", {"n": n, "axis": "1"}, [numbers("int8")]) in ("", None)
    ends = {"to_begin_arr_given": "1", "to_end_scalar": "7"}
    assert compare("_npi_ediff1d", ends, [numbers("float32"), np.array([5, 6], np.float32)]) == ""


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_mean_of_nothing_is_nan(dtype: str) -> None:
    x = np.zeros((2, 0, 3), dtype)
    means = {
        "mean": {"axis": "1"},
        "moments": {"axes": "(1,)"},
        "_npi_average": {"axis": "(1,)", "weighted": "0"},
    }
    for op, attrs in means.items():
        kernel_judge.compare(op, attrs, x)
    assert np.isnan(kernel_judge.compute("mean", {"axis": "1"}, (x,), 1)[0]).all()


def test_arrays_without_elements_are_close() -> None:
    x = np.zeros((2, 0, 4), np.float32)
    kernel_judge.compare("_contrib_allclose", {"equal_nan": "True"}, x, x)


def test_batch_norm_with_a_negative_eps() -> None:
    x = numbers("float32", (2, 3, 4))
    vectors = [np.full(3, value, np.float32) for value in (1.5, 0.5, 0.25, 2)]
    for eps in ("-0.5", "-3"):  # sqrt of a negative number is NaN
        assert compare("BatchNorm", {"eps": eps, "fix_gamma": "0"}, [x, *vectors]) == ""


def test_a_deconvolution_of_nothing() -> None:
    x, weight = np.zeros((0, 2, 2, 2), np.float32), np.zeros((2, 3, 1, 1), np.float32)
    kernel_judge.compare(
        "Deconvolution", {"kernel": "(1, 1)", "num_filter": "3", "no_bias": "1"}, x, weight
    )
