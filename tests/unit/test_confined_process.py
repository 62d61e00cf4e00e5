"""The process of native code: its limits of time and memory, its end, and what follows for who asks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from graphshare import confined_process
from graphshare.confined_process import ConfinedProcess, GoneError, ask_process, find_process
from graphshare.confined_process import serve as answer_messages
from graphshare.errors import Fault, InputError, MemoryLimitError, RefusedError
from graphshare.resources import memory_limit, time_limit
from tests.processes import environment, is_running, module_path

NAME = "the package"
needs_rlimit = pytest.mark.skipif(
    sys.platform != "linux", reason="RLIMIT_DATA is kept on Linux alone"
)


def serve(model: str) -> None:
    """Answer as the tests want."""
    handlers: dict[str, Callable[..., Any]] = {
        "echo": _echo,
        "refuse": _refuse,
        "end": _end,
        "spin": _spin,
        "take": _take,
    }
    answer_messages(handlers, object)


def _echo(data: list[bytes], value: object) -> tuple[object, list[bytes]]:
    return value, data


def _refuse(data: list[bytes]) -> tuple[object, list[bytes]]:
    raise InputError(Fault("it is refused", where="there"))


def _end(data: list[bytes], number: int) -> tuple[object, list[bytes]]:
    os.kill(os.getpid(), number)
    return None, []


def _spin(data: list[bytes]) -> tuple[object, list[bytes]]:
    """Compute for ever and hold Python's lock, as native code does."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return 7 ** (1 << 28), []


def _take(data: list[bytes], size: int) -> tuple[object, list[bytes]]:
    return len(bytearray(size)), []


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConfinedProcess]:
    monkeypatch.chdir(tmp_path)  # it imports this module, but nothing from the current folder
    made = ConfinedProcess(__name__, NAME, seconds=30)
    yield made
    made._end()


def test_values_and_data_go_there_and_back(process: ConfinedProcess) -> None:
    assert process.ask("echo", [1, "ü", None], beside=[b"abc", b""]) == (
        [1, "ü", None],
        [b"abc", b""],
    )
    with pytest.raises(InputError) as caught:
        process.ask("refuse")
    assert caught.value.faults == (Fault("it is refused", where="there"),)
    assert process.ask("echo", 1) == (1, [])  # and the process goes on


@pytest.mark.parametrize(
    ("number", "has_hint"),
    [(signal.SIGSEGV, False), (signal.SIGKILL, True), (signal.SIGABRT, True)],
)
def test_a_crash_is_an_error_and_more_memory_a_hint_where_it_may_help(
    number: int, has_hint: bool, process: ConfinedProcess
) -> None:
    with pytest.raises(
        MemoryLimitError, match=rf"the package ended without an answer \(signal {int(number)}\)"
    ) as caught:
        process.ask("end", int(number))
    assert bool(caught.value.faults[0].hint) == has_hint
    assert not process.goes_on
    with pytest.raises(GoneError):
        process.ask("echo", 1)


def test_native_code_that_does_not_return_is_ended(process: ConfinedProcess) -> None:
    process._seconds = 0.5
    begun = time.monotonic()
    with pytest.raises(
        RefusedError, match=r"the package took more than 0\.5 s and was ended"
    ) as caught:
        process.ask("spin")
    assert time.monotonic() - begun < 20
    assert caught.value.faults[0].hint == "`time_limit=S` allows more"
    assert not process.goes_on


def test_the_limit_of_the_user_comes_first(process: ConfinedProcess) -> None:
    process._seconds = 0.01
    with time_limit(30):  # allows more
        assert process.ask("echo", 1) == (1, [])
    with pytest.raises(RefusedError, match=r"the time limit of 0\.3 s has passed"), time_limit(0.3):
        process.ask("spin")
    assert not process.goes_on


@needs_rlimit
def test_memory_beyond_the_limit_is_refused(process: ConfinedProcess) -> None:
    assert process.ask("take", 300_000_000)[0] == 300_000_000
    with (
        memory_limit(50_000_000),
        pytest.raises(
            MemoryLimitError, match=r"more memory in the package than the limit of 50\.0 MB"
        ),
    ):
        process.ask("take", 300_000_000)


def test_an_idle_process_ends(process: ConfinedProcess) -> None:
    process._idle = 0.3
    for _ in range(3):
        assert process.ask("echo", 1) == (1, [])
        assert process.goes_on
    deadline = time.monotonic() + 30
    while process.goes_on and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not process.goes_on


def test_one_process_of_a_module_is_kept_and_replaced_when_it_is_gone(
    process: ConfinedProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confined_process, "_kept", {})
    first = find_process(__name__, NAME)
    assert find_process(__name__, NAME) is first
    with pytest.raises(MemoryLimitError):
        first.ask("end", int(signal.SIGKILL))
    second = find_process(__name__, NAME)
    assert second is not first
    assert second.ask("echo", 1) == (1, [])
    second._end()


def test_a_process_that_ends_before_it_is_asked_is_replaced(
    process: ConfinedProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model of another thread may end it at any time."""
    monkeypatch.setattr(confined_process, "_kept", {__name__: process})
    ask = ConfinedProcess.ask

    def end_and_ask(asked: ConfinedProcess, *values: Any, **more: Any) -> Any:
        if asked is process:
            asked._end()
        return ask(asked, *values, **more)

    monkeypatch.setattr(ConfinedProcess, "ask", end_and_ask)
    other, value, _ = ask_process(__name__, NAME, "echo", 1)
    assert (other is process, value) == (False, 1)
    other._end()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
def test_a_fork_does_not_wait_for_a_thread_that_it_has_not() -> None:
    with confined_process._finding:
        pid = os.fork()
        if not pid:
            os._exit(int(confined_process._finding.locked()))
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
def test_a_fork_neither_waits_for_an_answer_of_its_parent_nor_writes_into_its_model(
    process: ConfinedProcess,
) -> None:
    """A thread of the parent is in the middle of a message."""
    process.ask("echo", 1)
    with process._lock:
        if process._model is not None:
            process._model.write(b"part of a model")
        pid = os.fork()
        if not pid:
            signal.alarm(20)
            try:
                process.ask("echo", 1)
            except GoneError:
                process._end()
                os._exit(0)
            os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        assert process._model is None or os.fstat(process._model.fileno()).st_size == 0


SPINNING = """
import os, threading
from graphshare.confined_process import ConfinedProcess
process = ConfinedProcess("tests.unit.test_confined_process", "it", seconds=1)
process.ask("echo", 1)
threading.Timer(0.3, lambda: os.kill(os.getpid(), 9)).start()
print(process._process.pid, flush=True)
process.ask("spin")
"""


@pytest.mark.large
@pytest.mark.skipif(sys.platform == "win32", reason="processors are limited elsewhere alone")
def test_native_code_that_sees_no_end_of_stdin_is_ended_by_its_time(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", SPINNING],
        cwd=tmp_path,
        env=environment(PYTHONPATH=module_path()),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == -signal.SIGKILL, run.stderr
    deadline = time.monotonic() + 30
    while is_running(int(run.stdout)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_running(int(run.stdout))


_PRINTS = """
import os
from graphshare import confined_process
confined_process.serve({}, lambda: os.write(1, b"native words"))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="it prints on a file descriptor")
def test_what_native_code_prints_goes_to_stderr() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PRINTS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stderr is not None
        assert process.stdin is not None
        assert process.stderr.read(12) == b"native words"
        process.stdin.close()
        assert process.stdout is not None
        assert process.stdout.read() == b""
