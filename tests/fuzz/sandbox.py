"""Cases in forked processes with bounds of time and memory, so that a crash or a hang is a failure like another."""

from __future__ import annotations

import faulthandler
import os
import pickle
import resource
import select
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

SECONDS = 10.0
BYTES = 1 << 30
"""What a case may take beyond what the process has before it."""
HANG = "no answer"
REFUSED = 2
"""The exit code of a command that ends its process where native code goes on after its time limit."""
_BATCH = 400
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class Outcome:
    """How a case ended: ``done``, ``refused`` or ``failed``; ``what`` says more, ``sort`` is equal for equal causes."""

    number: int
    status: str
    what: str = ""
    sort: str = ""


Case = Callable[[int], "tuple[str, str]"]
"""Runs one case and returns its status and a text; an exception is a failure."""


def run_cases(
    case: Case, minutes: float, *, seconds: float = SECONDS, memory: int = BYTES
) -> Iterator[Outcome]:
    """Run ``case`` on 0, 1, 2... until the time is up."""
    end = time.monotonic() + 60 * minutes
    number = 0
    while time.monotonic() < end:
        for outcome in _run_batch(case, number, end, seconds, memory):
            number = outcome.number + 1
            yield outcome


def run_numbers(
    case: Case, numbers: range, *, seconds: float = SECONDS, memory: int = BYTES
) -> Iterator[Outcome]:
    """Run ``case`` on these numbers, in a new child after one that ended early."""
    while numbers:
        for outcome in _run_batch(
            case, numbers[0], float("inf"), seconds, memory, last=numbers[-1]
        ):
            numbers = range(outcome.number + 1, numbers.stop)
            yield outcome


def run_one(case: Case, number: int, *, seconds: float = SECONDS, memory: int = BYTES) -> Outcome:
    """Run one case."""
    return next(_run_batch(case, number, float("inf"), seconds, memory))


def _run_batch(
    case: Case, first: int, end: float, seconds: float, memory: int, *, last: int | None = None
) -> Iterator[Outcome]:
    """Run cases from ``first`` on, up to ``last``, in one child; it ends early where a case kills it."""
    sys.stdout.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _work(
            case,
            range(first, first + _BATCH if last is None else min(first + _BATCH, last + 1)),
            end,
            memory,
            writing,
        )
    os.close(writing)
    number = first
    try:
        while True:
            message = _receive(reading, seconds)
            if message is None:
                yield Outcome(number, "failed", f"no answer within {seconds:.0f} s", HANG)
                return
            if not message:
                break
            outcome: Outcome = pickle.loads(message)
            yield outcome
            number = outcome.number + 1
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        yield Outcome(
            number,
            "failed",
            f"ended by signal {os.WTERMSIG(status)}",
            f"signal {os.WTERMSIG(status)}",
        )
    elif os.WIFEXITED(status) and os.WEXITSTATUS(status) == REFUSED:
        yield Outcome(number, "refused")
    elif os.WIFEXITED(status) and os.WEXITSTATUS(status):
        yield Outcome(number, "failed", f"ended with exit code {os.WEXITSTATUS(status)}", "exit")


def _receive(descriptor: int, seconds: float) -> bytes | None:
    """Return the next message, an empty one at the end; None where none comes in time."""
    header = _read(descriptor, _LENGTH.size, time.monotonic() + seconds)
    return (
        _read(descriptor, _LENGTH.unpack(header)[0], time.monotonic() + seconds)
        if header
        else header
    )


def _read(descriptor: int, size: int, end: float) -> bytes | None:
    data = b""
    while len(data) < size:
        if not select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
            return None
        part = os.read(descriptor, size - len(data))
        if not part:
            return b""
        data += part
    return data


def _work(case: Case, numbers: range, end: float, memory: int, writing: int) -> None:
    """Run cases in this child and send their outcomes; never returns."""
    limit_memory(memory)
    for number in numbers:
        if time.monotonic() > end:
            break
        message = pickle.dumps(_judge(case, number))
        os.write(writing, _LENGTH.pack(len(message)) + message)
    os._exit(0)


def abort() -> NoReturn:
    """End this child as a library does that aborts, without pytest's report of a crash."""
    faulthandler.disable()
    os.abort()


def _judge(case: Case, number: int) -> Outcome:
    try:
        status, what = case(number)
    except BaseException as error:
        return Outcome(
            number, "failed", f"{describe(error)}\n{traceback.format_exc()}", sort_of(error)
        )
    return Outcome(
        number,
        status,
        what,
        (what.partition(" ")[0] or what.partition("\n")[0]) if status == "failed" else "",
    )


def limit_memory(more: int) -> None:
    """Bound the address space of this process to ``more`` bytes beyond what it has now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def describe(error: BaseException) -> str:
    """Return type and message of an error on one line."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:2000]


def sort_of(error: BaseException) -> str:
    """Return a text that is equal for errors that arise at one place of the package."""
    root: Any = error
    while root.__cause__ is not None:
        root = root.__cause__
    frames = [
        frame
        for frame in traceback.extract_tb(root.__traceback__)
        if "/graphshare/" in frame.filename
    ]
    place = (
        f"{frames[-1].filename.rpartition('/graphshare/')[2]}:{frames[-1].lineno}" if frames else ""
    )
    return f"{type(root).__name__} {place}"
