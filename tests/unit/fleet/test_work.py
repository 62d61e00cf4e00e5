"""One task of a fleet: its limit of memory, the figures of its report and its first errors."""

from __future__ import annotations

import sys

import pytest

from graphshare.fleet.work import _MOST_ERRORS, _MOST_FIGURES, _find_error, _find_figures, _limit_data


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is of Linux")
def test_a_process_may_take_so_many_bytes_more_until_the_task_ends() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    with _limit_data(None):
        assert resource.getrlimit(resource.RLIMIT_DATA) == before
    bounds = []
    for size in (8 << 30, 9 << 30):
        with _limit_data(size):
            bounds.append(resource.getrlimit(resource.RLIMIT_DATA)[0])
        assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert all(size < bound < size + (8 << 30) for size, bound in zip((8 << 30, 9 << 30), bounds, strict=True))


def test_figures_are_the_numbers_at_the_top_and_in_small_objects() -> None:
    report = {
        "version": 1,
        "nodes": 5,
        "share": 0.5,
        "same": True,
        "name": "a",
        "counts": {"Conv": 2, "version": 3, "deep": {"a": 1}},
    }
    many = {str(i): i for i in range(_MOST_FIGURES)}
    assert _find_figures({**report, "all": many, "more": {**many, "one": 1}}) == {
        "nodes": 5, "share": 0.5, "counts.Conv": 2, "counts.version": 3, **{f"all.{i}": i for i in range(_MOST_FIGURES)}
    }  # fmt: skip
    assert _find_figures([1, 2]) == {}


@pytest.mark.parametrize(
    ("stderr", "text"),
    [
        ("error: a.json: is not JSON\n  hint: fetch it\n", "is not JSON"),
        ("note\nerror: one\nerror: two\n", "one; two"),
        ("Killed\n  by signal\n", "Killed by signal"),
        ("error: https://u:p@h/a?key=1 is gone\n", "https://h/a?... is gone"),
    ],
)
def test_the_error_of_a_task_is_the_first_of_those_it_printed(stderr: str, text: str) -> None:
    assert _find_error(stderr, "a.json") == text


@pytest.mark.parametrize(("unlisted", "more"), [(0, ""), (1, "; and 1 more error"), (4, "; and 4 more errors")])
def test_more_errors_are_counted(unlisted: int, more: str) -> None:
    text = _find_error("".join(f"error: e{i}\n" for i in range(_MOST_ERRORS + unlisted)), "a.json")
    listed = "; ".join(f"e{i}" for i in range(_MOST_ERRORS))
    assert text == listed + more
