"""What an everyday run takes of many cases: a part that their names decide, never none; where ``large`` is required, all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.surroundings import MANY, ROOT, find_surplus, is_of_all_tests, mark_everyday, pick_everyday

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


def test_who_asks_for_some_tests_gets_all_of_their_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_whole(*arguments: str, **options: Any) -> bool:
        option = SimpleNamespace(**{"keyword": "", "markexpr": "", **options})
        return is_of_all_tests(SimpleNamespace(option=option, args=list(arguments)))  # type: ignore[arg-type]

    monkeypatch.chdir(ROOT)
    assert is_whole("tests")
    assert is_whole(str(ROOT / "tests"), lf=False)
    assert not is_whole("tests/unit")
    assert not is_whole("tests/unit/test_everyday.py::test_the_others_are_marked")
    assert not is_whole("tests", keyword="lstm")
    assert not is_whole("tests", markexpr="corpus")
    assert not is_whole("tests", lf=True)
