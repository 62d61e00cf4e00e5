"""Sizes that the caller chooses: their places, their faults, and the sizes at which they are tried."""

from __future__ import annotations

import pytest

from graphshare.analysis.free_sizes import Symbol, choose_symbols, join_places, list_trials
from graphshare.errors import UsageError

INPUTS = {"x": (2, 3), "y": (4, 3)}
BATCH = Symbol("batch", "x", 0)


def test_a_name_is_one_size_at_all_its_places() -> None:
    found = choose_symbols({"x": ("n", "m"), "y": (4, "m")}, False, INPUTS, lambda: BATCH)
    assert found == [Symbol("n", "x", 0), Symbol("m", "x", 1, (("y", 1),))]
    assert found[1].places == (("x", 1), ("y", 1))
    assert join_places("m", {"x": 1, "y": 1}) == found[1]
    assert choose_symbols({"x": (2, None)}, False, INPUTS, lambda: BATCH) == []
    assert choose_symbols({}, True, INPUTS, lambda: BATCH) == [BATCH]


def test_every_fault_of_a_dynamic_shape_is_listed() -> None:
    with pytest.raises(UsageError) as caught:
        choose_symbols({"z": ("n",), "x": ("n",), "y": (4, 5)}, False, INPUTS, lambda: BATCH)
    assert [fault.message for fault in caught.value.faults] == [
        "`dynamic` 'z' is not an input of the model",
        "`dynamic` lists 1 axis for 'x', which has 2",
        "`dynamic` sets axis 1 of 'y' to 5, but its size is 3",
    ]
    with pytest.raises(UsageError, match="cannot be combined"):
        choose_symbols({"x": ("n", 3)}, True, INPUTS, lambda: BATCH)


def test_each_size_is_tried_alone_and_then_all_together() -> None:
    symbols = [BATCH, Symbol("m", "x", 1)]
    assert list_trials(symbols, {"batch": 2, "m": 3}) == [
        {"batch": 3, "m": 3},
        {"batch": 2, "m": 67},
        {"batch": 5, "m": 195},
        {"batch": 7, "m": 36},
    ]
