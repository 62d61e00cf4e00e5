"""What listeners hear of work, and that nobody hears costs nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from graphshare.progress import item_progress, progress_listener, task, track_batches
from tests.listener import Recorder


def test_each_item_is_a_step_after_it() -> None:
    with progress_listener(recorder := Recorder()):
        items = item_progress("ab", "reading", "files")
        assert (next(items), recorder.calls) == ("a", [("reading", 2, "files")])
        assert (next(items), recorder.calls[1:]) == ("b", [(1,)])
        assert list(items) == []
    assert recorder.calls == [("reading", 2, "files"), (1,), (1,), ("end",)]


def test_without_a_listener_items_come_from_no_generator() -> None:
    items = item_progress([1, 2], "reading", "files")
    assert not hasattr(items, "send")
    assert list(items) == [1, 2]


@pytest.mark.parametrize(
    ("count", "steps"), [(0, []), (16_384, [16_384]), (40_000, [16_384, 16_384, 7_232])]
)
def test_short_work_is_reported_in_batches(count: int, steps: list[int]) -> None:
    with progress_listener(recorder := Recorder()):
        assert list(track_batches(range(count), "walking", "nodes")) == list(range(count))
    assert recorder.calls == [("walking", count, "nodes"), *((step,) for step in steps), ("end",)]


def test_a_task_in_a_task_is_a_part_of_it() -> None:
    def work() -> Iterator[int]:
        with task("inner", 5, "B") as advance:
            advance(5)
            yield from item_progress("ab", "items", "files")

    with progress_listener(recorder := Recorder()):
        with task("outer", 2, "B") as advance:
            assert list(work()) == ["a", "b"]
            advance(2)
        with task("next", 0, "B"):
            pass
    assert recorder.calls == [("outer", 2, "B"), (2,), ("end",), ("next", 0, "B"), ("end",)]
