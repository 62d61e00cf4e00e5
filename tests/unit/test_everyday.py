"""What an everyday run takes of many cases: a part that their names decide, never none; where ``large`` is required, all."""

from __future__ import annotations

import pytest

from tests.surroundings import MANY, find_surplus, mark_everyday, pick_everyday

NAMES = [f"case {number}" for number in range(200)]


@pytest.fixture(autouse=True)
def everyday(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSHARE_REQUIRE", "corpus")


def test_a_part_is_picked_by_names_in_the_order_of_the_cases() -> None:
    picked = pick_everyday(NAMES, 8)
    assert len(picked) == 25
    assert picked == [name for name in NAMES if name in picked]
    assert set(pick_everyday(reversed(NAMES), 8)) == set(picked)
    assert len(set(pick_everyday([*NAMES, "another"], 8)) - set(picked)) <= 1
    assert len(pick_everyday(NAMES[:3], 8)) == 1


def test_all_are_picked_where_large_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSHARE_REQUIRE", "corpus, large")
    assert pick_everyday(NAMES, 8) == NAMES
    assert not any(case.marks for case in mark_everyday(NAMES, 8))


def test_the_others_are_marked() -> None:
    marked = mark_everyday(NAMES, 8)
    assert [case.values for case in marked] == [(name,) for name in NAMES]
    assert [case.values[0] for case in marked if not case.marks] == pick_everyday(NAMES, 8)
    assert {mark.name for case in marked for mark in case.marks} == {"large"}


def test_of_many_cases_of_a_function_a_quarter_is_run_and_of_few_all() -> None:
    many, few = ([f"test_it.py::{name}[{i}]" for i in range(count)] for name, count in (("many", 200), ("few", MANY)))
    surplus = find_surplus([*many, *few, "test_it.py::test_alone"])
    assert surplus < set(many)
    assert len(surplus) == 150
