"""The forms of a convolution against a plain sum over taps in float64, whole and in tiles."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from graphshare.ops.convolution import correlation
from graphshare.ops.convolution.grid import Epilogue
from graphshare.ops.kernel import Array
from graphshare.ops.onednn import products
from graphshare.ops.windows import Window

WINDOWS = {
    "plain": Window((3, 3), (1, 1), (1, 1), (1, 1)),
    "stride": Window((3, 3), (2, 2), (1, 1), (1, 1)),
    "gaps": Window((3, 2), (1, 2), (2, 3), (2, 3)),
    "as wide as the image": Window((3, 9), (1, 1), (1, 1), (1, 0)),
    "wider than half": Window((3, 7), (2, 1), (1, 1), (0, 2)),
    "row": Window((7,), (2,), (1,), (3,)),
    "solid": Window((3, 3, 3), (1, 2, 1), (1, 1, 1), (1, 1, 1)),
}
CHANNELS = {"many": (4, 6, 1), "few": (10, 3, 1), "groups": (4, 6, 2), "alone": (5, 5, 5)}


def summed(x: Array, weight: Array, window: Window, groups: int) -> Array:
    """What the convolution is."""
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *((p, p) for p in window.pad)])
    out = [
        (n - e) // s + 1
        for n, e, s in zip(padded.shape[2:], window.extent, window.stride, strict=True)
    ]
    share = weight.shape[1]
    result = np.zeros((len(x), len(weight), *out))
    for tap in product(*map(range, window.kernel)):
        steps = zip(tap, window.dilate, window.stride, out, strict=True)
        cells = padded[(..., *(slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in steps))]
        for group in range(groups):
            filters = slice(group * len(weight) // groups, (group + 1) * len(weight) // groups)
            seen = cells[:, group * share : (group + 1) * share]
            result[:, filters] += np.einsum(
                "fc,nc...->nf...", weight[(filters, slice(None), *tap)], seen
            )
    return result


@pytest.mark.parametrize(
    ("block", "small"),
    [
        (correlation._BLOCK, correlation._SMALL),
        (200, correlation._SMALL),
        (correlation._BLOCK, 0),
        (12_000, correlation._SMALL),
        (4_000, 0),
    ],
    ids=["whole", "tiles", "one by one", "planes", "rows"],
)
@pytest.mark.parametrize("channels", CHANNELS.values(), ids=CHANNELS)
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_every_form_is_the_sum_over_taps(
    window: Window,
    channels: tuple[int, int, int],
    block: int,
    small: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(correlation, "_BLOCK", block)
    monkeypatch.setattr(correlation, "_SMALL", small)
    given, filters, groups = channels
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, given, *(11, 9, 8)[: len(window.kernel)])).astype(np.float32)
    weight = rng.standard_normal((filters, given // groups, *window.kernel)).astype(np.float32)
    wanted = summed(x, weight, window, groups)
    term = rng.standard_normal(filters).astype(np.float32)
    addend = rng.standard_normal(wanted.shape).astype(np.float32)
    found = correlation.correlate(
        x, weight, Epilogue(None, term, addend, -1.0, None), window, groups
    )
    tail = (-1, *(1,) * len(window.kernel))
    assert np.abs(found - np.maximum(wanted + term.reshape(tail) + addend, -1)).max() <= 2e-5


INTEGER_WINDOWS = {
    **WINDOWS,
    "one cell": Window((1, 1), (1, 1), (1, 1), (0, 0)),
    "one cell of each four": Window((1, 1), (2, 2), (1, 1), (0, 0)),
    "one cell, padded": Window((1, 1), (1, 1), (1, 1), (1, 2)),
    "mostly padding": Window((3, 5), (8, 2), (12, 2), (12, 8)),
    "only padding": Window((2, 1), (30, 1), (21, 1), (20, 0)),
}


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("exact", [products.EXACT, 1 << 15], ids=["in float32", "in parts"])
@pytest.mark.parametrize("block", [products._BLOCK, 200], ids=["whole", "tiles"])
@pytest.mark.parametrize("window", INTEGER_WINDOWS.values(), ids=INTEGER_WINDOWS)
def test_sums_of_integers_are_exact(
    window: Window, block: int, exact: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "_BLOCK", block)
    monkeypatch.setattr(products, "EXACT", exact)
    monkeypatch.setattr(products, "_COLUMNS", 2)
    rng = np.random.default_rng(4)
    ends = np.iinfo(dtype)
    x = rng.integers(ends.min, ends.max + 1, (3, 7, *(11, 9, 8)[: len(window.kernel)]), dtype)
    weight = rng.integers(-128, 128, (4, 7, *window.kernel)).astype(np.float32)
    matrix = np.ascontiguousarray(weight.reshape(4, 7, -1).swapaxes(1, 2))
    parts = products.exact_parts(matrix.reshape(4, -1), x.dtype)
    assert (len(parts) > 1) == (exact == 1 << 15)
    found = products.sum_products(x, matrix, parts, window, np.empty)
    assert (found.swapaxes(0, 1) == summed(x, weight, window, 1)).all()
    filters = rng.integers(-128, 128, (7, 1, *window.kernel)).astype(np.float32)
    found = products.sum_by_channel(
        x, np.ascontiguousarray(filters.reshape(7, -1).T), window, np.empty
    )
    assert (found.swapaxes(0, 1) == summed(x, filters, window, 7)).all()


@pytest.mark.parametrize(
    ("positive", "negative", "dtype", "count"),
    [
        (518, 518, "uint8", 1),
        (519, 518, "uint8", 2),
        (518, 519, "uint8", 2),
        (1032, 0, "int8", 1),
        (1033, 0, "int8", 2),
        (518, 518, "int8", 1),
        (519, 518, "int8", 2),
    ],
)
def test_sums_are_in_one_part_where_the_largest_is_exact(
    positive: int, negative: int, dtype: str, count: int
) -> None:
    weights = np.repeat(np.float32([127, -127]), (positive, negative))[None]
    ends = np.iinfo(dtype)
    sums = [
        np.where(weights > 0, *data) @ weights.astype(int).T
        for data in ((ends.max, ends.min), (ends.min, ends.max))
    ]
    assert (np.abs(sums).max() <= products.EXACT) == (count == 1)
    assert (
        len(
            products.exact_parts(
                np.random.default_rng(3).permuted(weights, axis=1), np.dtype(dtype)
            )
        )
        == count
    )


def test_taps_beside_a_small_image_are_not_multiplied() -> None:
    layout = products._plan_layout((1, 1), WINDOWS["plain"])
    assert (layout.kernel, layout.taps) == ((1, 1), slice(4, 5))
