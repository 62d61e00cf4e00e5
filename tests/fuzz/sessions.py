"""Sessions and inference in the threads of one process and in forks of these, beside models that
end the shared process.

A model that is right has its answer or, where another one has ended the process that has its
session, a refusal that says so. ``python -m tests.fuzz.sessions SEED SECONDS`` prints what else
there is.
"""

from __future__ import annotations

import atexit
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
from onnx import helper

from graphshare.confined_process import GoneError
from graphshare.errors import InputError, MemoryLimitError, RefusedError
from graphshare.execute.backends.confined_session import ConfinedSession
from graphshare.execute.backends.session import SessionSettings
from graphshare.formats.onnx import inference
from graphshare.resources import memory_limit, time_limit
from tests.fuzz.heavy_models import make_heavy
from tests.onnx_files.ending_models import crashing, doubling, encode, swelling

RIGHT = encode(
    [helper.make_node("Transpose", ["x"], ["y"])], [helper.make_tensor_value_info("y", 1, [3, 2])]
)
_THREADS = 4
_PATIENCE = 40.0
"""Seconds for what takes a few at most."""


def infer(chance: random.Random) -> None:
    """Infer the types of a model that is right."""
    # Not the one that is remembered
    assert inference.infer_types(RIGHT + b"\x08\x08" * chance.randint(0, 9))["y"]


def open_and_run(chance: random.Random) -> None:
    """Compute a model that is right; the process may end between the two."""
    session = ConfinedSession(RIGHT)
    try:
        _run(session)
    except GoneError:
        return


def _run(session: ConfinedSession) -> None:
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    (made,) = session.run({"x": given})
    assert np.array_equal(made, given.T)


def crash(chance: random.Random) -> None:
    """Let inference end its process."""
    _refuse(
        lambda: inference.infer_types(crashing() + b"\x08\x08" * chance.randint(0, 9)),
        MemoryLimitError,
    )


def swell(chance: random.Random) -> None:
    """Let inference, or a session, take more memory than it may."""
    with memory_limit(200_000_000):
        _refuse(
            lambda: inference.infer_types(swelling() + b"\x08\x08" * chance.randint(0, 9)),
            MemoryLimitError,
        )
    with memory_limit(50_000_000):
        try:
            ConfinedSession(
                make_heavy(chance).SerializeToString(), settings=SessionSettings(merge_equal=False)
            ).run({"data": np.ones((2, 2), np.float32)})
        except (MemoryLimitError, InputError, GoneError):
            return


def refuse(chance: random.Random) -> None:
    """Infer what is no model."""
    _refuse(lambda: inference.infer_types(b"junk" + chance.randbytes(2)), InputError)


def _refuse(ask: Callable[[], object], kind: type[Exception]) -> None:
    try:
        ask()
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


def fork(chance: random.Random) -> None:
    """Do the same in a fork, with a session of before too, which it has not."""
    session = ConfinedSession(RIGHT)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _refuse(lambda: _run(session), GoneError)
            chance.choice((infer, open_and_run))(chance)
            if chance.random() < 0.5:
                atexit._run_exitfuncs()
            code = 0
        except BaseException as error:
            print(f"in a fork: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    late = time.monotonic() + _PATIENCE
    while not os.waitpid(pid, os.WNOHANG)[0]:
        if time.monotonic() > late:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise AssertionError("a fork hangs")
        time.sleep(0.01)


def work(seed: float, seconds: float) -> None:
    """Do all of it for some seconds, and print on stderr what is wrong."""
    end = time.monotonic() + seconds

    def turn(number: int) -> None:
        chance = random.Random(f"{seed} {number}")
        while time.monotonic() < end:
            act = chance.choice(
                (infer, infer, open_and_run, open_and_run, crash, swell, refuse, fork, fork)
            )
            try:
                act(chance)
            except BaseException as error:
                print(f"{act.__name__}: {error!r}", file=sys.stderr, flush=True)

    threads = [
        threading.Thread(target=turn, args=(number,), daemon=True) for number in range(_THREADS)
    ]
    for thread in threads:
        thread.start()
    number = 0
    while time.monotonic() < end:  # only this thread can have a limit of time
        number += 1
        try:
            with time_limit(0.5):
                inference.infer_types(doubling() + b"\x08\x08" * (number % 9))
            print("an endless model has types", file=sys.stderr)
        except RefusedError:
            continue
    for thread in threads:
        thread.join(3 * _PATIENCE)
        if thread.is_alive():
            print("a thread hangs", file=sys.stderr)


if __name__ == "__main__":
    work(float(sys.argv[1]), float(sys.argv[2]))
