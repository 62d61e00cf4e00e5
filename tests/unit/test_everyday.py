"""What an everyday run takes of many cases: a part that their names decide, never none; where
``large`` is required, all.

Of these tests ``GRAPHSHARE_TENTH`` takes a tenth.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_collection_modifyitems
from tests.slow import find_slow, read_slow
from tests.surroundings import (
    MANY,
    ROOT,
    TENTHS,
    find_surplus,
    is_of_all_tests,
    mark_everyday,
    pick_everyday,
)

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


def test_of_many_cases_of_a_function_a_tenth_is_run_and_of_few_all() -> None:
    many, few = (
        [f"test_it.py::{name}[{i}]" for i in range(count)]
        for name, count in (("many", 200), ("few", MANY))
    )
    surplus = find_surplus([*many, *few, "test_it.py::test_alone"])
    assert surplus < set(many)
    assert len(surplus) == 180


def test_slow_functions_are_left_out_and_exist() -> None:
    slow = sorted(read_slow())
    assert find_surplus([f"{slow[0]}[a]", f"{slow[0]}[b]", "test_it.py::test_alone"]) == {
        f"{slow[0]}[a]",
        f"{slow[0]}[b]",
    }
    for function in slow:
        path, _, name = function.partition("::")
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.M), (
            f"{function} is gone: record slow tests again"
        )


def test_functions_whose_cases_take_long_together_are_slow() -> None:
    log = [
        "12.30s call     tests/a/test_a.py::test_long[1, [2]]",
        "0.40s call     tests/a/test_a.py::test_long[3]",
        "1.20s setup    tests/a/test_b.py::test_of_cases[a]",
        "0.80s call     tests/a/test_b.py::test_of_cases[b]",
        "1.99s call     tests/a/test_b.py::test_short",
        "9.00s call     tests/meta/test_language.py::test_no_banned_phrase",
        "== 3 passed in 12.30s ==",
    ]
    assert find_slow(log, 2) == [
        "tests/a/test_a.py::test_long",
        "tests/a/test_b.py::test_of_cases",
    ]


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


def take(tenth: int | str, names: list[str], long: str = "no test") -> list[str]:
    """Return the tests that a run with ``GRAPHSHARE_TENTH`` takes; those whose names begin with
    ``long`` are marked so.
    """
    items = [
        SimpleNamespace(
            nodeid=name, get_closest_marker=lambda mark, name=name: name.startswith(long) or None
        )
        for name in names
    ]
    config = SimpleNamespace(
        option=SimpleNamespace(keyword="", markexpr=""), args=["tests/kernels"]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHSHARE_TENTH", str(tenth))
        pytest_collection_modifyitems(config, items)  # type: ignore[arg-type]
    return [item.nodeid for item in items]


TESTS = [
    f"tests/kernels/test_{file}.py::test_{name}[{number}]"
    for file in "abc"
    for name in "xy"
    for number in range(100)
]


def test_ten_tenths_take_each_test_once_in_order() -> None:
    tenths = [take(number, TESTS) for number in range(TENTHS)]
    assert Counter(chain(*tenths)) == Counter(TESTS)
    assert all(0.05 < len(tenth) / len(TESTS) < 0.15 for tenth in tenths)
    assert all(sorted(tenth, key=TESTS.index) == tenth for tenth in tenths)
    assert take("", TESTS) == TESTS


def test_the_tenth_of_a_test_depends_on_its_name_alone() -> None:
    assert set(take(3, TESTS[::2])) == set(take(3, TESTS)) & set(TESTS[::2])


def test_a_tenth_is_one_of_the_tests_of_everyday() -> None:
    taken = list(
        chain(*(take(number, TESTS, "tests/kernels/test_a.py::test_x") for number in range(TENTHS)))
    )
    assert sorted(taken) == sorted([TESTS[0], *TESTS[100:]])


def test_each_tenth_takes_the_tests_of_last_bits() -> None:
    exact = [
        "corpus/test_forward.py",
        "gradients/test_operators.py",
        "training/test_losses.py",
        "unit/execute/test_fusion.py",
    ]
    other = [
        "corpus/test_fold.py",
        "unit/execute/engines/test_confined_session.py",
        "unit/ops/test_translations.py",
    ]
    assert all((ROOT / "tests" / path).exists() for path in (*exact, *other))
    exact, other = (
        [f"tests/{path}::test_{number}" for path in paths for number in range(20)]
        for paths in (exact, other)
    )
    for number in range(TENTHS):
        taken = take(number, exact + other)
        assert taken[: len(exact)] == exact
        assert len(taken) - len(exact) < len(other) // 4


@pytest.mark.parametrize("tenth", ["10", "-1", "1.0", "third"])
def test_a_wrong_tenth_is_refused(tenth: str) -> None:
    with pytest.raises(
        pytest.UsageError, match=f"GRAPHSHARE_TENTH is '{tenth}': expected a number from 0 to 9"
    ):
        take(tenth, TESTS)
