"""One task of a fleet: its limit of memory, the figures of its report and its first errors."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from graphshare.errors import Fault
from graphshare.files.byte_source import ListedFile
from graphshare.fleet import work as work_module
from graphshare.fleet.records import Captured, FileState, FleetModel, Result, Task
from graphshare.fleet.work import (
    _MOST_ERRORS,
    _MOST_FIGURES,
    _describe_faults,
    _describe_state,
    _find_figures,
    _limit_data,
    any_time_limit,
    work,
)


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
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    held = pages * resource.getpagesize()  # now, and about as much before
    assert all(
        held / 2 < bound - size < 2 * held
        for size, bound in zip((8 << 30, 9 << 30), bounds, strict=True)
    )


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
    ("captured", "text"),
    [
        (
            Captured(2, b"", "", [Fault("is not JSON", where="a.json", hint="fetch it")]),
            "is not JSON",
        ),
        (
            Captured(2, b"", "", [Fault("is cut off", where="a.json", path="byte 7")]),
            "byte 7: is cut off",
        ),
        (Captured(2, b"", "", [Fault("is not JSON", where="b.json")]), "b.json: is not JSON"),
        (Captured(2, b"", "note\n", [Fault("one"), Fault("two\nlines")]), "one; two\\nlines"),
        (Captured(2, b"", "Killed\n  by signal\n"), "Killed by signal"),
        (Captured(2, b"", "", [Fault("https://u:p@h/a?key=1 is gone")]), "https://h/a?... is gone"),
    ],
)
def test_the_error_of_a_task_is_the_first_of_its_faults(captured: Captured, text: str) -> None:
    assert _describe_faults(captured, "a.json") == text


@pytest.mark.parametrize(
    ("unlisted", "more"), [(0, ""), (1, "; and 1 more error"), (4, "; and 4 more errors")]
)
def test_more_errors_are_counted(unlisted: int, more: str) -> None:
    faults = [Fault(f"e{i}") for i in range(_MOST_ERRORS + unlisted)]
    listed = "; ".join(f"e{i}" for i in range(_MOST_ERRORS))
    assert _describe_faults(Captured(2, b"", "", faults), "a.json") == listed + more


def run_report(words: Sequence[str]) -> Captured:
    return Captured(1, b'{"nodes": 3}', "", [Fault("a")])


def test_the_result_of_a_task_has_the_file_the_times_and_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"abc")
    os.utime(path, ns=(7, 7))
    task = Task(FleetModel(str(path), "", 0), ("x",), (), ("x", "{}"), has_report=True)
    # Seconds, rounded to microseconds
    walls, cpus = (iter([10.0, 11.5000004]), iter([5.0, 5.2500004]))
    monkeypatch.setattr(
        work_module,
        "time",
        SimpleNamespace(perf_counter=lambda: next(walls), process_time=lambda: next(cpus)),
    )
    result = work(run_report, task)
    assert result == Result(
        source=str(path), size=3, sha256="ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", modified=7,
        command=("x", "{}"), result="no", code=1, seconds=1.5, figures={"cpu_seconds": 0.25, "nodes": 3}, error="a",
        report=result.report,
    )  # fmt: skip
    assert bytes(result.report) == b'{"nodes":3}'
    monkeypatch.undo()
    result = work(run_report, msgspec.structs.replace(task, has_report=False))
    assert (bytes(result.report), list(result.figures)) == (b"null", ["cpu_seconds"])


def test_the_result_of_a_task_without_its_file(tmp_path: Path) -> None:
    result = work(
        run_report,
        Task(FleetModel(str(tmp_path / "gone"), "", 0), ("x",), (), ("x",), has_report=True),
    )
    assert (result.size, result.sha256, result.etag, result.modified, result.params) == (
        -1,
        "",
        "",
        0,
        None,
    )
    assert (result.result, result.code, bytes(result.report)) == ("failed", 2, b"null")


def test_the_state_of_a_url_is_that_of_a_listing_that_is_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = "s3://bucket/a"
    asked = ListedFile(url, 9, "asked")
    monkeypatch.setattr(work_module, "describe_file", lambda path: asked)
    for size in (0, 5):
        assert _describe_state(url, ListedFile(url, size, "tag")) == FileState(
            url, size, etag="tag"
        )
    for listed in (None, ListedFile(url, -1, "tag"), ListedFile(url, 5, "")):
        assert _describe_state(url, listed) == FileState(url, 9, etag="asked")


def test_a_call_of_native_code_in_a_thread_ends_the_process_five_seconds_after_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timers: list[tuple[float, Callable[[], None]]] = []
    codes: list[int] = []
    profiles: list[bool] = []

    def make_timer(seconds: float, end: Callable[[], None]) -> SimpleNamespace:
        timers.append((seconds, end))
        return SimpleNamespace(start=lambda: None, cancel=lambda: None)

    def watch(seconds: float | None) -> None:
        with any_time_limit(seconds):
            profiles.append(sys.getprofile() is not None)

    before = sys.getprofile()
    monkeypatch.setattr(threading, "Timer", make_timer)
    monkeypatch.setattr(os, "_exit", codes.append)
    watch(60)
    assert profiles == [before is not None]  # the main thread has signals
    for seconds in (60, None):
        thread = threading.Thread(target=watch, args=(seconds,))
        thread.start()
        thread.join()
    assert profiles[1:] == [True, False]
    ((delay, end),) = timers
    end()
    assert (delay, codes) == (65, [1])
