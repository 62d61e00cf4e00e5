"""Worker processes: they answer in order, end with this process, and what ends one is an error here."""

from __future__ import annotations

import os
import signal
import threading
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from graphshare import worker_process
from graphshare.errors import RefusedError, UsageError
from graphshare.worker_process import EndedError, Worker, map_in_workers
from tests.effort import ends


@pytest.fixture(autouse=True)
def _in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes import this module, but nothing from the current folder."""
    monkeypatch.chdir(tmp_path)


def square(number: int) -> int:
    """The work: 3 takes longer, 5 is refused, 7 ends the process, 9 never ends."""
    if number == 3:
        time.sleep(0.2)
    if number == 5:
        raise UsageError("five")
    if number == 7:
        os._exit(0)
    if number == 9:
        time.sleep(1000)
    return number * number


def refuse_to_start() -> None:
    raise SystemExit(4)


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_results_are_in_the_order_of_the_pieces(jobs: int) -> None:
    assert list(map_in_workers(square, [3, 1, 2, 4], jobs)) == [9, 1, 4, 16]
    assert list(map_in_workers(square, [], jobs)) == []


def test_errors_of_the_work_and_the_end_of_a_process_are_raised() -> None:
    with pytest.raises(UsageError, match="five"):
        list(map_in_workers(square, [1, 5], 2))
    results = map_in_workers(square, [1, 7], 1)
    assert next(results) == 1
    with pytest.raises(EndedError):
        next(results)


def test_a_loop_that_is_left_ends_its_workers() -> None:
    results = map_in_workers(square, [1, 9], 2)
    assert next(results) == 1
    with ends(60):
        results.close()


def test_a_process_that_cannot_start_is_one_error() -> None:
    worker = Worker(square, refuse_to_start)
    worker.submit(1)
    with pytest.raises(
        RefusedError, match=r"a worker process ended before it was ready \(exit code 4\)"
    ):
        worker.receive()


class Ended:
    """The pipe and the process of a worker that has ended."""

    def __init__(self, code: int, sent: list[int] | None) -> None:
        self.code, self.stdin, self.sent = code, BytesIO(), sent

    def recv(self) -> None:
        raise EOFError

    def close(self) -> None: ...

    def wait(self) -> int:
        assert not self.stdin.closed  # its end would end the task
        return self.code

    def send_signal(self, number: int) -> None:
        if self.sent is None:
            raise ProcessLookupError
        self.sent.append(number)


def ended_worker(code: int = 0, begun: float | None = None, sent: list[int] | None = None) -> Any:
    worker: Any = Worker(square)
    worker.connection = worker._process = Ended(code, sent)
    worker.begun = begun
    return worker


@pytest.mark.parametrize(("code", "begun"), [(-9, None), (0, None), (1, 2.0), (-9, 2.0)])
def test_a_worker_that_ends_has_been_killed(code: int, begun: float | None) -> None:
    worker = ended_worker(code, begun)
    process = worker._process
    worker.signal(signal.SIGTERM)
    with pytest.raises(EndedError):
        worker.receive()
    assert worker._process is None
    assert process.stdin.closed
    assert worker.close() == 0


def test_a_worker_that_fails_before_it_is_ready_is_one_error() -> None:
    with pytest.raises(
        RefusedError, match=r"a worker process ended before it was ready \(exit code 1\)"
    ):
        ended_worker(1).receive()


def test_signals_are_sent_to_a_process_that_runs() -> None:
    sent: list[int] = []
    worker = ended_worker(sent=sent)
    worker.signal(signal.SIGTERM)
    worker.close()
    worker.signal(signal.SIGTERM)
    assert sent == [signal.SIGTERM]


def test_the_first_message_of_a_process_is_that_it_is_ready() -> None:
    worker = Worker(square)
    worker.submit(2)
    assert worker.begun is None
    assert worker.receive() is None
    assert worker.begun is not None
    assert worker.receive() == 4
    worker.close()


def test_a_worker_ends_with_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    read, write = os.pipe()
    thread = threading.Thread(target=worker_process._end_with_parent, args=(read,))
    thread.start()
    assert codes == []
    os.close(write)
    thread.join()
    assert codes == [1]
    os.close(read)
