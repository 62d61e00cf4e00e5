"""Convolutions of integers as products: quantized filters, exact parts, and sums compared with
those of whole numbers.
"""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from graphshare.ops.kernel import KernelError
from graphshare.ops.onednn import products
from graphshare.ops.onednn.products import (
    exact_parts,
    fold_batch_norm,
    per_unit,
    quantize_bias,
    quantize_filters,
    quantize_weight,
    sum_by_channel,
    sum_products,
    weight_units,
)
from graphshare.ops.registry import lookup
from graphshare.ops.windows import Window

F = np.float32
WINDOWS = [
    Window((3, 3), (1, 1), (1, 1), (1, 1)),
    Window((3, 2), (2, 1), (1, 2), (0, 1)),
    Window((1, 1), (1, 1), (1, 1), (0, 0)),
    Window((1, 1), (2, 3), (1, 1), (0, 0)),
    Window((1, 1), (1, 1), (1, 1), (1, 0)),
    Window((7, 5), (2, 2), (1, 1), (3, 2)),
    Window((3, 3), (1, 2), (4, 3), (4, 3)),
    Window((9, 1), (1, 1), (1, 1), (4, 0)),
]


def add_up(x: Any, weights: Any, window: Window) -> Any:
    """Return the convolution of whole numbers (N, C, H, W) with weights (filters, C, kernel), tap by tap."""
    kernel, stride, dilate, pad = window
    x = np.pad(x.astype(np.int64), [(0, 0), (0, 0), *((p, p) for p in pad)])
    counts = [(n - e) // s + 1 for n, e, s in zip(x.shape[2:], window.extent, stride, strict=True)]
    total = np.zeros((len(weights), len(x), *counts), np.int64)
    for tap in product(*map(range, kernel)):
        cells = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilate, counts, stride, strict=True)
        )
        total += np.einsum(
            "nchw,fc->fnhw",
            x[(slice(None), slice(None), *cells)],
            weights[(..., *tap)].astype(np.int64),
        )
    return total


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("block", [1 << 22, 1, 700])
def test_sums_are_those_of_whole_numbers(
    window: Window, dtype: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "_BLOCK", block)
    rng, ends = np.random.default_rng(1), np.iinfo(dtype)
    x = rng.integers(ends.min, ends.max + 1, (3, 5, 8, 9)).astype(dtype)
    weights = rng.integers(-128, 128, (4, 5, *window.kernel))
    rows = np.ascontiguousarray(weights.reshape(4, 5, -1).swapaxes(1, 2), F)
    expected = add_up(x, weights, window)
    columns = rows.shape[1] * 5
    for parts in ([slice(0, columns)], [slice(0, columns // 2), slice(columns // 2, columns)]):
        found = sum_products(x, rows, parts, window, np.empty)
        assert found.dtype == ("float32" if len(parts) == 1 else "float64")
        assert np.array_equal(found, expected)
    alone = rng.integers(-128, 128, (5, 1, *window.kernel))
    by_channel = sum_by_channel(
        x, np.ascontiguousarray(alone.reshape(5, -1).T, F), window, np.empty
    )
    for channel in range(5):
        one = add_up(x[:, channel : channel + 1], alone[channel : channel + 1], window)
        assert np.array_equal(by_channel[channel], one[0])


@pytest.mark.parametrize(
    ("columns", "weight", "dtype", "cuts"),
    [
        # 2**24 / (255 * 127) = 518.05 columns are exact, and a part has whole blocks of 64.
        (518, 127, "uint8", []),
        (519, 127, "uint8", [512]),
        (519, -127, "uint8", [512]),
        (1100, 127, "uint8", [512, 1024]),
        # 2**24 / (128 * 127) = 1032.06
        (1032, 127, "int8", []),
        (1033, 127, "int8", [1024]),
        (1033, -127, "int8", [1024]),
        (64, 127, "uint8", []),
    ],
)
def test_parts_have_exact_sums(columns: int, weight: int, dtype: str, cuts: list[int]) -> None:
    matrix = np.full((2, columns), weight, F)
    matrix[0] = 1
    bounds = [0, *cuts, columns]
    assert exact_parts(matrix, np.dtype(dtype)) == [slice(a, b) for a, b in pairwise(bounds)]


def test_weights_of_both_signs_do_not_add_up() -> None:
    matrix = np.array([[127.0] * 518 + [-127.0] * 518], F)
    assert exact_parts(matrix, np.dtype("uint8")) == [slice(0, 1036)]
    # Signed data add up both: 518 * 127 * (127 + 128) is below 2**24.
    assert exact_parts(matrix, np.dtype("int8")) == [slice(0, 1036)]
    matrix = np.array([[127.0] * 519 + [-127.0] * 519], F)
    assert exact_parts(matrix, np.dtype("int8")) == [slice(0, 1024), slice(1024, 1038)]


def test_units_of_ranges() -> None:
    for dtype, low, high, expected in (
        ("int8", -3, 2, 127.5 / 3),
        ("uint8", 0, 4, 255.5 / 4),
        ("int8", 0, 0, 2147483647),
        ("int8", -1, 5, 127.5 / 5),
    ):
        assert per_unit(dtype, np.array([low], F), np.array([high], F)) == F(expected)
    with pytest.raises(KernelError, match="int32 is not supported, expected int8 or uint8"):
        per_unit("int32", np.array([0], F), np.array([1], F))


def test_weights_and_bias_become_integers() -> None:
    weight = np.array([[[1.0, -0.25]], [[0.5, 2.0]], [[0.0, 0.0]]], F)
    units = weight_units(weight, None, F(10), by_filter=True)
    assert units.tolist() == [127.5, 63.75, F(2147483647)]
    assert weight_units(weight, None, F(10), by_filter=False).tolist() == [63.75]
    # 31.875, and 127.5 is cut off
    assert quantize_weight(weight[:2], units[:2]).tolist() == [[[127.0, -32.0]], [[32.0, 127.0]]]
    assert quantize_weight(-weight[:1], units[:1]).tolist() == [[[-128.0, 32.0]]]
    # A bias has 30 bits: 2**30 / 2**25 / 10 is below 127.5, and no bias of 0 counts.
    bias = np.array([2.0**25, 0.0, -(2.0**20)], F)
    limited = weight_units(weight, bias, F(10), by_filter=True)
    np.testing.assert_allclose(limited, [3.2, 63.75, 102.4], rtol=1e-6)
    assert weight_units(weight, bias, F(10), by_filter=False).tolist() == [63.75]
    assert quantize_bias(np.array([1.0, -0.3], F), np.array([2.0, 5.0], F), F(1.25)).tolist() == [
        2.0,
        -2.0,
    ]


def test_a_batch_norm_is_folded() -> None:
    weight = np.array([[1.0, 2.0], [3.0, 4.0]], F)
    gamma, beta, mean, variance = (np.array(row, F) for row in ([2, 4], [1, -1], [3, 0.5], [3, 8]))
    statistics = [gamma, beta, mean, variance]
    scaled, shift = fold_batch_norm(weight, None, {"fix_gamma": False, "eps": 1.0}, statistics)
    np.testing.assert_allclose(scaled, [[1, 2], [4, 16 / 3]], rtol=1e-6)  # 2 / 2 and 4 / 3
    np.testing.assert_allclose(shift, [1 - 3, -1 - 2 / 3], rtol=1e-6)
    scaled, shift = fold_batch_norm(
        weight, np.array([5, -1], F), {"fix_gamma": True, "eps": 1.0}, statistics
    )
    np.testing.assert_allclose(scaled, [[0.5, 1], [1, 4 / 3]], rtol=1e-6)
    np.testing.assert_allclose(shift, [1 + (5 - 3) / 2, -1 + (-1 - 0.5) / 3], rtol=1e-6)


def parse(**attrs: str) -> dict[str, Any]:
    signature = lookup("Convolution")
    assert signature is not None
    values, faults = signature.parse({"no_bias": "True", **attrs})
    assert not faults
    return values


@pytest.mark.parametrize(
    ("channels", "dtype", "shift"),
    [(518, "int8", None), (519, "int8", 128 * 127), (519, "uint8", None)],
)
def test_signed_data_are_raised_by_128_where_that_is_not_exact(
    channels: int, dtype: str, shift: int | None
) -> None:
    conv = parse(kernel="(1, 1)", num_filter="2")
    weight = np.ones((2, channels, 1, 1), F)
    weight[0] = -1  # -127.5 becomes -128, 127.5 is cut off at 127
    weight[1, 0] = 0
    filters = quantize_filters(
        {"with_bn": False}, [("Convolution", conv)], [weight], F(1), np.dtype(dtype), by_filter=True
    )
    assert filters.weights.shape == (2, 1, channels)
    assert filters.weights[:, 0, 1].tolist() == [-128.0, 127.0]
    # 255 * 128 * 514 is above 2**24 as well.
    expected = None if dtype == "uint8" else [128.0 * -128 * channels, 128.0 * 127 * (channels - 1)]
    assert (None if filters.shift is None else filters.shift.tolist()) == expected
    assert filters.reach == 1
    assert filters.bias is None


def test_only_sums_beyond_what_is_exact_are_shifted() -> None:
    conv = parse(kernel="(1, 1)", num_filter="1")
    for channels, is_shifted in ((518, False), (519, True)):
        weight = np.ones((1, channels, 1, 1), F)
        given = {"with_bn": False}, [("Convolution", conv)], [weight], F(1)
        filters = quantize_filters(*given, np.dtype("int8"), by_filter=True)
        assert (filters.shift is not None) == is_shifted
        if filters.shift is not None:
            assert filters.shift.tolist() == [128.0 * 127 * channels]


def test_filters_of_groups_share_the_units_of_the_first() -> None:
    conv = parse(kernel="(1, 1)", num_filter="4", num_group="2")
    weight = np.array([1.0, 2.0, 4.0, 8.0], F).reshape(4, 1, 1, 1)
    filters = quantize_filters(
        {"with_bn": False},
        [("Convolution", conv)],
        [weight],
        F(1),
        np.dtype("uint8"),
        by_filter=True,
    )
    assert filters.parts == []
    # 1 * 127.5, then 2 * 127.5, 4 and 8 * 63.75
    assert filters.weights.ravel().tolist() == [127.0, 127.0, 127.0, 127.0]
    weight = np.array([8.0, 4.0, 2.0, 1.0], F).reshape(4, 1, 1, 1)
    filters = quantize_filters(
        {"with_bn": False},
        [("Convolution", conv)],
        [weight],
        F(1),
        np.dtype("uint8"),
        by_filter=True,
    )
    # 127.5 and 63.75, 2 and 1 * 31.875
    assert filters.weights.ravel().tolist() == [127.0, 64.0, 64.0, 32.0]


@pytest.mark.parametrize(("channels", "form"), [(63, (63, 1, 1, 1)), (64, (1, 64))])
def test_many_filters_for_each_channel_are_summed_by_channel(
    channels: int, form: tuple[int, ...]
) -> None:
    conv = parse(kernel="(1, 1)", num_filter=str(channels), num_group=str(channels))
    weight = np.ones((channels, 1, 1, 1), F)
    filters = quantize_filters(
        {"with_bn": False},
        [("Convolution", conv)],
        [weight],
        F(1),
        np.dtype("uint8"),
        by_filter=True,
    )
    assert filters.weights.shape == form
    assert filters.parts == []
