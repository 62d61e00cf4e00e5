"""Sizes that the caller chooses: their places, their faults, and the sizes at which they are tried."""

from __future__ import annotations

from functools import partial

import pytest

from graphshare.analysis.free_sizes import (
    Symbol,
    choose_symbols,
    join_places,
    list_trials,
    pick_small,
    split_names,
    suggest_steps,
)
from graphshare.errors import Fault, RefusedError, UsageError

INPUTS = {"x": (2, 3), "y": (4, 3)}
BATCH = Symbol("batch", "x", 0)


def test_a_name_is_one_size_at_all_its_places() -> None:
    found = choose_symbols({"x": ("n", "m"), "y": (4, "m")}, False, INPUTS, lambda: BATCH)
    assert found == [Symbol("n", "x", 0), Symbol("m", "x", 1, (("y", 1),))]
    assert found[1].places == (("x", 1), ("y", 1))
    assert join_places("m", [("x", 1), ("y", 1)]) == found[1]
    assert choose_symbols({"x": (2, None)}, False, INPUTS, lambda: BATCH) == []
    assert choose_symbols({}, True, INPUTS, lambda: BATCH) == [BATCH]


def test_every_fault_of_shapes_with_names_is_listed() -> None:
    with pytest.raises(UsageError) as caught:
        choose_symbols({"z": ("n",), "x": ("n",), "y": (4, "m")}, False, INPUTS, lambda: BATCH)
    assert [fault.message for fault in caught.value.faults] == [
        "`shapes` 'z' is not an input of the model",
        "`shapes` lists 1 axis for 'x', which has 2",
    ]
    with pytest.raises(UsageError, match="cannot be combined"):
        choose_symbols({"x": ("n", 3)}, True, INPUTS, lambda: BATCH)


def test_each_size_is_tried_alone_and_then_all_together() -> None:
    symbols = [BATCH, Symbol("m", "x", 1)]
    assert list_trials(symbols, {"batch": 2, "m": 3}) == [
        {"batch": 3, "m": 3},
        {"batch": 2, "m": 37},
        {"batch": 5, "m": 73},
        {"batch": 7, "m": 107},
    ]


@pytest.mark.parametrize("step", [1, 2, 32])
def test_sizes_that_are_tried_are_no_multiples_of_the_own_nor_of_larger_steps(step: int) -> None:
    for steps in range(2, 300):
        symbol, base = Symbol(f"{step}*m" if step > 1 else "m", "x", 1), steps * step
        tried = {sizes[symbol.name] for sizes in list_trials([symbol], {symbol.name: base})}
        assert len(tried) == 3
        assert all(size % step == 0 and size % (2 * step) and size % base for size in tried)


def test_a_small_size_is_a_quarter_and_odd() -> None:
    symbols = [BATCH, Symbol("m", "x", 1), Symbol("32*k", "x", 2)]
    assert pick_small(symbols, {"batch": 2, "m": 224, "32*k": 256}) == {"m": 57, "32*k": 96}
    assert pick_small(symbols[1:2], {"m": 3}) == {"m": 1}


def test_a_size_that_only_has_a_name_gets_a_number() -> None:
    shapes = {"x": ("n", 3, "h", "32*w"), "y": ("n:2", None, "h:9"), "z": (4, 5)}
    fixed, named = split_names(shapes, {"x": (8, 3)})
    assert fixed == {"x": (2, 3, 9, 224), "y": (2, None, 9), "z": (4, 5)}
    assert named.keys() == {"x", "y"}
    assert split_names({"x": ("n", "m")}, {"x": (8, 3)})[0] == {"x": (8, 3)}
    with pytest.raises(UsageError, match=r"names a size of 'x' 'a b'"):
        split_names({"x": ("a b",)}, {})
    (symbol,) = choose_symbols({"x": (None, "32*m:64")}, False, INPUTS, lambda: BATCH)
    assert (symbol.name, symbol.step) == ("32*m", 32)


def test_the_least_multiple_is_found() -> None:
    def compute(step: int, sizes: dict[str, int]) -> None:
        if not step or sizes["m"] % step:
            raise RefusedError(Fault("no"))

    symbol = Symbol("m", "x", 1)
    hint = suggest_steps([symbol], {"m": 64}, partial(compute, 8))
    assert hint == "name it 8*m in `shapes`: only multiples can be computed"
    assert suggest_steps([symbol], {"m": 64}, partial(compute, 0)) == ""
