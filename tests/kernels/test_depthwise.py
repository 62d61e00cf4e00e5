"""Products with banded matrices against the sums of scaled copies that they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from graphshare.ops.convolution.depthwise import correlate_by_tap, depthwise
from graphshare.ops.convolution.grid import Epilogue, Grid, make_grid
from graphshare.ops.kernel import Array
from graphshare.ops.windows import Window

WINDOWS = {
    "plain": Window((1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 1, 1)),
    "stride": Window((1, 3, 3), (1, 2, 2), (1, 1, 1), (0, 1, 1)),
    "no border": Window((1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 0, 0)),
    "wide border": Window((1, 3, 2), (1, 3, 4), (1, 1, 1), (0, 3, 5)),
    "gaps": Window((1, 3, 3), (1, 1, 2), (1, 2, 3), (0, 2, 3)),
    "row": Window((1, 1, 5), (1, 1, 1), (1, 1, 1), (0, 0, 2)),
    "column": Window((1, 5, 1), (1, 1, 1), (1, 1, 1), (0, 2, 0)),
    "solid": Window((3, 3, 3), (2, 1, 1), (1, 1, 1), (1, 1, 1)),
    "far": Window((1, 2, 2), (1, 9, 9), (1, 1, 1), (0, 4, 4)),
}


def both(image: Array, weight: Array, grid: Grid, finish: Epilogue) -> tuple[Array, Array]:
    """Float64 by the reference, and what is tested."""
    found, wanted = (np.full((len(image), *grid.out), np.nan, x) for x in (image.dtype, np.float64))
    with np.errstate(all="ignore"):
        depthwise(image, weight, grid, found, finish, 0, np.empty)
        correlate_by_tap(image.astype(np.float64), weight.astype(np.float64), grid, wanted)
        Epilogue(finish.factor, finish.term, finish.addend, finish.low, finish.high).apply(
            0, wanted
        )
    return found, wanted


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("width", [7, 14, 16, 17, 33, 112])
def test_products_with_bands_are_sums_of_scaled_copies(window: Window, width: int) -> None:
    rng = np.random.default_rng(width)
    size = (5 if window.kernel[0] > 1 else 1, 11, width)
    grid = make_grid(size, window)
    image = rng.standard_normal((300 if width < 20 else 9, *size)).astype(np.float32)
    weight = rng.standard_normal((len(image), int(np.prod(window.kernel)))).astype(np.float32)
    channels = len(image)
    finish = Epilogue(
        None,
        rng.standard_normal(channels),
        rng.standard_normal((1, channels, *grid.out)),
        -1.0,
        2.0,
    )
    for how in (Epilogue(), finish):
        found, wanted = both(image, weight, grid, how)
        assert np.abs(found - wanted).max() <= 1e-5


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_stays_where_it_is_seen(odd: float) -> None:
    grid = make_grid((1, 8, 20), WINDOWS["plain"])
    image = np.ones((4, 1, 8, 20), np.float32)
    image[2, 0, 3, 5] = odd
    weight = np.ones((4, 9), np.float32)
    weight[2, 4] = 0
    found, wanted = both(image, weight, grid, Epilogue())
    assert np.array_equal(found, wanted, equal_nan=True)
    assert np.count_nonzero(~np.isfinite(found)) == 9
