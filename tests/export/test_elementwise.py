"""Elementwise operators in ONNX where the recorded cases do not reach, with our own kernels as the judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from graphshare.errors import RefusedError
from graphshare.ops.index import FAMILY_OF
from graphshare.ops.registry import find_kernel, find_translation, known_kernels, lookup
from tests.elementwise import Tolerance, describe_mismatch
from tests.export.judge import export_operator, run_onnx
from tests.export.kernel_judge import compute
from tests.surroundings import mark_everyday

NAN, INF = float("nan"), float("inf")
FLOATS = [
    NAN,
    INF,
    -INF,
    0.0,
    -0.0,
    1,
    -1,
    2.5,
    -2.5,
    0.5,
    -0.5,
    3e-3,
    -3e-3,
    30.0,
    -30.0,
    -3,
    171.5,
    1e-30,
]
INTEGERS = [0, 1, -1, 2, -2, 3, 7, -7, 8, 9, 27, 64, 100, 125, -128, 127]
LARGE = [0, 1, -1, 1000, 10**9, 2**31 - 1, -(2**31), 1024, 59049]
DTYPES = ("float16", "float32", "float64", "int8", "uint8", "int32", "int64")
FAMILIES = ("activation", "unary", "binary", "numpy_elementwise")
NAMES = [
    name
    for name in known_kernels()
    if FAMILY_OF[name] in FAMILIES
    and name != "_npi_where"
    and find_translation(name) is not None  # of MXNet 1.9.1 none lacks it
]
EVERYDAY = 10
"""One in so many operators is tried in an everyday run."""
ATTRIBUTES: dict[str, list[dict[str, str]]] = {
    "Activation": [
        {"act_type": kind} for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign")
    ],
    "LeakyReLU": [
        {"act_type": kind, "slope": "0.3"} for kind in ("elu", "gelu", "leaky", "rrelu", "selu")
    ],
    "clip": [
        {"a_min": low, "a_max": high}
        for low, high in (("-2.5", "300"), ("2", "-1"), ("-inf", "0.5"), ("-1e10", "1e10"))
    ],
    "hard_sigmoid": [{"alpha": "0.3"}],
    "_contrib_quadratic": [{"a": "2", "b": "-3.5", "c": "0.5"}],
    "smooth_l1": [{"scalar": "2.5"}],
    "add_n": [{"num_args": "2"}],
    "_npi_around": [{"decimals": "0"}, {"decimals": "2"}, {"decimals": "-1"}],
    "_npi_nan_to_num": [{}, {"nan": "2", "posinf": "7", "neginf": "-8"}],
    "_npi_where_scalar2": [{"x": "2.5", "y": "-1"}],
}


def kernel_outputs(op: str, attrs: Mapping[str, str], inputs: Sequence[Any]) -> list[Any] | None:
    """Return what the kernel computes, None where it refuses the attributes or dtypes."""
    signature, kernel = lookup(op), find_kernel(op)
    assert signature is not None
    assert kernel is not None
    typed, faults = signature.parse(attrs)
    if faults or len(signature.formal_inputs(attrs)) != len(inputs):
        return None
    if kernel.limits is not None and kernel.limits.violation(
        typed, [x.shape for x in inputs], [str(x.dtype) for x in inputs]
    ):
        return None
    try:
        with np.errstate(all="ignore"):
            kernel.types(typed, [str(x.dtype) for x in inputs], [None])
            return compute(op, attrs, tuple(inputs), 1)
    except Exception:
        return None


def compare(
    op: str, attrs: Mapping[str, str], inputs: Sequence[Any], opset: int = 17
) -> str | None:
    """Return how onnxruntime's first output differs from the kernel's, None where the kernel
    refuses; empty if equal.
    """
    expected = kernel_outputs(op, attrs, inputs)
    if expected is None:
        return None
    data = export_operator(op, attrs, inputs, 1, opset=opset)
    if isinstance(data, RefusedError):
        return f"{op} {attrs}: {data}"
    (got,), who = run_onnx(data, {f"in{i}": x for i, x in enumerate(inputs)})
    loose = {
        "float16": Tolerance(1e-3, 4e-3),
        "float32": Tolerance(1e-7, 1e-5),
        "float64": Tolerance(1e-12, 1e-9),
    }
    mismatch = describe_mismatch(got, expected[0], loose.get(str(expected[0].dtype)))
    return f"{op} {attrs} {[str(x.dtype) for x in inputs]} by {who}: {mismatch}" if mismatch else ""


def every_value(dtype: str) -> Any:
    """Return special values of a dtype."""
    if dtype.startswith("float"):
        with np.errstate(over="ignore"):
            return np.array(FLOATS).astype(dtype)
    wide = [*INTEGERS, *(LARGE if dtype in ("int32", "int64") else [])]
    return np.array(wide, np.int64).astype(dtype)


def operators(*, numbers: bool) -> list[Any]:
    """Return the operators, those with an attribute ``scalar`` or all others."""
    chosen = [name for name in NAMES if name.endswith("_scalar") == numbers]
    return mark_everyday(chosen, EVERYDAY)


@pytest.mark.parametrize("op", operators(numbers=False))
def test_special_values(op: str) -> None:
    mismatches = []
    attributes = ATTRIBUTES.get(op, [{}])
    for dtype in DTYPES:
        x = every_value(dtype)
        for attrs in attributes:
            mismatches += [
                compare(op, attrs, [x]),
                compare(op, attrs, [np.repeat(x, len(x)), np.tile(x, len(x))]),
            ]
    assert any(mismatch is not None for mismatch in mismatches), "the kernel refuses all"
    found = [mismatch for mismatch in mismatches if mismatch]
    assert not found, found


@pytest.mark.parametrize("op", operators(numbers=True))
def test_special_values_and_a_number(op: str) -> None:
    attributes = [
        {"scalar": n, "is_int": i}
        for n in ("0", "-1", "3", "2.5", "-0.5", "0.5", "inf")
        for i in ("0", "1")
    ]
    arrays = [*(every_value(dtype) for dtype in DTYPES), np.array([True, False])]
    mismatches = [compare(op, attrs, [x]) for attrs in attributes for x in arrays]
    assert any(mismatch is not None for mismatch in mismatches), "the kernel refuses all"
    found = [mismatch for mismatch in mismatches if mismatch]
    assert not found, found


@pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
def test_where(dtype: str) -> None:
    x = np.array([True, False]) if dtype == "bool" else every_value(dtype)
    for condition in (every_value("float32")[:, None], every_value("int32")[:, None]):
        assert compare("_npi_where", {}, [condition, x, x[::-1].copy()]) in (
            "",
            None if dtype == "bool" else "",
        )


@pytest.mark.parametrize("op", ["_npi_bitwise_and", "_npi_bitwise_or", "_npi_bitwise_xor"])
@pytest.mark.parametrize("opset", [17, 18])
def test_bits_are_those_of_a_loop_or_of_operators_for_bits(op: str, opset: int) -> None:
    for dtype in ("int8", "uint8", "int32", "int64"):
        x = every_value(dtype)
        assert compare(op, {}, [x[:, None], x[None]], opset) == ""


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_narrow_integers_wrap_below_opset_14(dtype: str) -> None:
    x = every_value(dtype)
    for op in ("broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div"):
        assert compare(op, {}, [x[:, None], x[None]], 13) == ""


@pytest.mark.parametrize("opset", [13, 17, 18, 21])
def test_activations_of_large_numbers_stay_finite_in_float16(opset: int) -> None:
    x = np.array([-300, -20, -0.1, 0.1, 20, 300], np.float16)
    for attrs in ATTRIBUTES["Activation"]:
        assert compare("Activation", attrs, [x], opset) == ""
    for attrs in ATTRIBUTES["LeakyReLU"]:
        assert compare("LeakyReLU", attrs, [x], opset) == ""


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("op", ["cbrt", "rcbrt"])
def test_roots_of_zero_keep_its_sign(op: str, dtype: str) -> None:
    x = np.array([-0.0, 0.0, -INF, INF, -8, 8, NAN], dtype)
    data = export_operator(op, {}, [x], 1)
    assert not isinstance(data, RefusedError)
    (got,), _judge = run_onnx(data, {"in0": x})
    expected = (
        [-0.0, 0.0, -INF, INF, -2, 2, NAN]
        if op == "cbrt"
        else [-INF, INF, -0.0, 0.0, -0.5, 0.5, NAN]
    )
    np.testing.assert_allclose(got, np.array(expected, dtype), rtol=1e-3)
    assert np.signbit(got)[:-1].tolist() == np.signbit(expected)[:-1].tolist()


@pytest.mark.parametrize("op", ["tanh", "sigmoid"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integers_reach_one_where_mxnet_has_it(op: str, dtype: str) -> None:
    x = np.array([0, 1, 18, 19, 20, 36, 37, 100], dtype)
    first = {"tanh": 20, "sigmoid": 37}[op]
    assert kernel_outputs(op, {}, [x])[0].tolist() == (x >= first).tolist()
    assert compare(op, {}, [x]) == ""
    if dtype != "uint8":
        assert (
            kernel_outputs(op, {}, [-x])[0].tolist()
            == (-(x >= 20).astype(int) if op == "tanh" else 0 * x).tolist()
        )
        assert compare(op, {}, [-x]) == ""
