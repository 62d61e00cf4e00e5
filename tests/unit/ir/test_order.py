"""The order of things that refer to each other: kept where it holds, without recursion, and without a cycle."""

from __future__ import annotations

import pytest

from graphshare.errors import Fault, InputError
from graphshare.ir.walk import format_cycle, order_by_references


def refuse(cycle: list[str]) -> InputError:
    return InputError(Fault(format_cycle(cycle)))


@pytest.mark.parametrize(
    ("needs", "order"),
    [
        ({"a": "", "b": "a", "c": ""}, "abc"),
        ({"a": "c", "b": "", "c": ""}, "cab"),  # c alone moves
        ({"a": "cb", "b": "", "c": "b"}, "bca"),
        ({"a": "bb", "b": ""}, "ba"),
    ],
)
def test_what_is_in_its_place_stays_there(needs: dict[str, str], order: str) -> None:
    assert "".join(order_by_references(needs, needs.__getitem__, refuse)) == order


@pytest.mark.parametrize(
    ("needs", "cycle"),
    [({"a": "a"}, "a <- a"), ({"a": "", "b": "ac", "c": "d", "d": "c"}, "c <- d <- c")],
)
def test_a_cycle_is_shown_without_the_way_to_it(needs: dict[str, str], cycle: str) -> None:
    with pytest.raises(InputError, match=cycle):
        list(order_by_references(needs, needs.__getitem__, refuse))


def test_a_long_chain_needs_no_recursion() -> None:
    last = 200_000
    order = list(
        order_by_references(range(last + 1), lambda i: [i + 1] if i < last else [], refuse)
    )  # type: ignore[arg-type]
    assert order == list(range(last, -1, -1))


def test_of_a_long_cycle_the_ends_are_shown() -> None:
    assert format_cycle(list("abcdefgh")) == "a <- b <- c <- d <- e <- f <- g <- h <- a"
    assert (
        format_cycle(list("abcdefghi")) == "a <- b <- c <- d <- ... 2 more ... <- g <- h <- i <- a"
    )
