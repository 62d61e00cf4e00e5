"""MXNet's int8 sums of products with three instruction sets: exact, or as far from exact as the
instructions explain.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.oracle import int8_sums
from tests.oracle.probed import array_of, asked, forward
from tests.oracle.probing import Probe

pytestmark = [pytest.mark.oracle]

ENDS = [np.full(1, end, np.float32) for end in (-1.0, 2.0, -0.5, 0.4)]
COUNT = 80


def layer(stream: np.random.Generator, number: int, largest: int) -> Probe:
    """Draw a dense layer or a convolution of bytes, with weights and signed data up to ``largest`` in magnitude."""

    def some(low: int, high: int, count: int = 2) -> tuple[int, ...]:
        return tuple(int(x) for x in stream.integers(low, high, count))

    if number % 2:
        op, attrs, shape, filters = (
            int8_sums.OPERATORS[1],
            {"num_hidden": None},
            some(1, 40),
            (int(stream.integers(1, 9)),),
        )
        weight: tuple[int, ...] = (*filters, shape[1])
    else:
        kernel, channels, count = some(1, 4), *(4 * x if number % 4 else x for x in some(1, 6))
        op, shape, weight = (
            int8_sums.OPERATORS[0],
            (*some(1, 3, 1), channels, *some(7, 10)),
            (count, channels, *kernel),
        )
        attrs = {
            "kernel": kernel,
            "stride": some(1, 3),
            "pad": some(0, 2),
            "dilate": some(1, 3),
            "num_filter": None,
        }
    texts = {name: str(value or weight[0]) for name, value in attrs.items()}
    dtype = "int8" if number % 4 == 1 else "uint8"
    case = {
        "op": op,
        "attrs": {**texts, "no_bias": "True"},
        "family": "quantized",
        "np_shape": False,
        "count": 6,
    }
    most = min(largest, 127)
    x = stream.integers(*((-largest, most + 1) if dtype == "int8" else (0, 256)), shape).astype(
        dtype
    )
    return case, [x, stream.integers(-largest, most + 1, weight).astype(np.int8), *ENDS]


def answers(
    oracle_python: str, folder: Path, largest: int
) -> list[tuple[dict[str, Any], list[Any], Any, Any]]:
    """Return layers with their inputs, the exact sums and MXNet's."""
    stream = np.random.default_rng(largest)
    layers = [layer(stream, number, largest) for number in range(COUNT)]
    replies = [reply["forward"][0] for reply in asked(oracle_python, layers, folder)]
    return [
        (case, inputs, forward(case, inputs)[0], array_of(reply))
        for (case, inputs), reply in zip(layers, replies, strict=True)
    ]


@pytest.fixture(params=["AVX2", "AVX512_CORE", "ALL"])
def instructions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The newest instructions that oneDNN may use, of those that the processor has."""
    monkeypatch.setenv("DNNL_MAX_CPU_ISA", request.param)
    return str(request.param)


def test_int8_sums_are_apart_as_far_as_the_instructions_explain(
    oracle_python: str, tmp_path: Path, instructions: str
) -> None:
    found = answers(oracle_python, tmp_path, 128)
    for case, inputs, exact, theirs in found:
        assert int8_sums.difference(case, inputs, exact, theirs) is None, case
        assert (np.abs(int8_sums.cut_off(case, inputs)) <= int8_sums.bound(case, inputs)).all()
    if instructions == "AVX2":
        assert any(not np.array_equal(exact, theirs) for _, _, exact, theirs in found)
        assert any(
            case["op"] == int8_sums.OPERATORS[0] and (exact != theirs).any()
            for case, _, exact, theirs in found
        )


def test_int8_sums_of_small_numbers_are_exact_with_all_instructions(
    oracle_python: str, tmp_path: Path, instructions: str
) -> None:
    for case, inputs, exact, theirs in answers(oracle_python, tmp_path, 64):
        assert not int8_sums.bound(case, inputs).any()
        assert np.array_equal(exact, theirs), case


@pytest.mark.usefixtures("instructions")
def test_a_sum_that_is_wrong_by_one_is_found() -> None:
    stream = np.random.default_rng(0)
    case, inputs = layer(stream, 3, 64)
    exact = forward(case, inputs)[0]
    assert int8_sums.difference(case, inputs, exact, exact) is None
    assert int8_sums.difference(case, inputs, exact, exact + 1) is not None
