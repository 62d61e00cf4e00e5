"""Limits of memory and time in one process; ``cli/test_limits.py`` tests them from outside."""

from __future__ import annotations

import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from graphshare import resources
from graphshare.errors import UsageError
from graphshare.resources import (
    _free_in_address_space,
    _free_in_groups,
    _Watchdog,
    available_memory,
    can_limit_process,
    describe_excess,
    end_time_limit,
    memory_limit,
    time_limit,
)

FREE = 32 << 20  # bytes that are taken without a question


def test_a_limit_of_the_user_holds_for_what_is_held_and_asked_for() -> None:
    with memory_limit(1000):
        assert [describe_excess(*counts) for counts in ((1000,), (0, 1000), (400, 600))] == [
            "",
            "",
            "",
        ]
        expected = "and the limit is 1.0 kB"
        assert [describe_excess(*counts) for counts in ((1001,), (0, 1001), (401, 600))] == [
            expected
        ] * 3


@pytest.mark.parametrize(
    ("count", "available", "expected"),
    [
        (FREE, 0, ""),
        (FREE + 1, 0, "and 0 B are available"),
        (FREE + 1, FREE, "and 33.6 MB are available"),
        (FREE + 1, FREE + 1, ""),
        (FREE + 1, None, ""),
    ],
)
def test_without_a_limit_more_than_32_mib_must_be_available(
    count: int, available: int | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "available_memory", lambda: available)
    assert describe_excess(count) == expected


@pytest.mark.parametrize(
    ("groups", "machine", "space", "expected"),
    [
        (5, 3, 4, 3),
        (2, 3, 4, 2),
        (5, 3, 1, 1),
        (None, 3, None, 3),
        (-2, 3, None, 0),
        (None, None, None, None),
        (None, None, 0, 0),
    ],
)
def test_the_least_of_three_bounds_is_available(
    groups: int | None,
    machine: int | None,
    space: int | None,
    expected: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("groups", groups), ("machine", machine), ("address_space", space)):
        monkeypatch.setattr(resources, f"_free_in_{name}", lambda value=value: value)
    assert available_memory() == expected


@pytest.mark.parametrize(
    ("limit", "free"), [((1 << 60) - 1, (1 << 60) - 401), (1 << 60, None), ((1 << 63) - 4096, None)]
)
def test_a_control_group_of_more_than_an_exbibyte_has_no_limit(
    limit: int, free: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = "/sys/fs/cgroup/memory"
    texts = {
        "/proc/self/cgroup": "5:memory:/",
        f"{root}/memory.limit_in_bytes": str(limit),
        f"{root}/memory.usage_in_bytes": "400",
    }
    monkeypatch.setattr(resources, "_read", lambda path: texts.get(path, ""))
    assert _free_in_groups() == free


@pytest.mark.skipif(sys.platform == "win32", reason="a system without limits of the address space")
@pytest.mark.parametrize(
    ("limit", "pages", "free"),
    [(1 << 40, "3 2 1", (1 << 40) - 3 * 4096), (1 << 40, "", None), (-1, "3 2 1", None)],
)
def test_the_address_space_has_a_limit(
    limit: int, pages: str, free: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    bounds = (resource.RLIM_INFINITY if limit < 0 else limit, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", {resource.RLIMIT_AS: bounds}.__getitem__)
    monkeypatch.setattr(resource, "getpagesize", lambda: 4096)
    monkeypatch.setattr(resources, "_read", {"/proc/self/statm": pages}.__getitem__)
    assert _free_in_address_space() == free


@pytest.mark.parametrize(
    ("platform", "can"), [("linux", True), ("darwin", False), ("win32", False)]
)
def test_a_process_can_be_limited_on_linux(
    platform: str, can: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert can_limit_process() is can


@pytest.mark.skipif(
    not hasattr(signal, "setitimer"),
    reason="a system without interval timers has no limits of time",
)
def test_a_watchdog_is_started_only_for_what_overruns_a_limit() -> None:
    with time_limit(60):
        assert _Watchdog.timer is None
    with time_limit(60, overrun=lambda: None):
        timer = _Watchdog.timer
        assert timer is not None
        assert timer.daemon
        assert timer.interval == 61
    assert _Watchdog.timer is None
    timer.join()


@pytest.mark.skipif(
    not hasattr(signal, "setitimer"),
    reason="a system without interval timers has no limits of time",
)
def test_a_limit_of_time_ends_with_its_block_or_before_files_are_written() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with time_limit(60, overrun=lambda: None):
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60
        end_time_limit()
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
        assert _Watchdog.timer is None
    assert signal.getsignal(signal.SIGALRM) is before
    with time_limit(60):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    signal.setitimer(signal.ITIMER_REAL, 60)  # of somebody else
    end_time_limit()
    assert signal.setitimer(signal.ITIMER_REAL, 0)[0] > 0


def test_a_limit_of_time_needs_the_main_thread() -> None:
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(UsageError, match="a time limit needs the main thread"),
    ):
        pool.submit(run_limited).result()


def run_limited() -> None:
    with time_limit(60):
        pass
