"""Note what a process opens for writing, starts and connects to, in a log: this process, and every
Python that it starts.

The log has a line of JSON for each: what happened, and the path, program or address. Only the
standard library is imported, because each watched process imports this module.
"""

from __future__ import annotations

import _posixsubprocess
import json
import os
import sys
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from graphshare import python_process

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLACES = {"os.mkdir": 0, "os.truncate": 0, "os.rename": 1, "os.link": 1, "os.symlink": 1}
"""Events beside "open" that change a file or folder, and which of their arguments is its path."""
_STARTS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork"}
_CALL = "getattr(import_module(module), function)"
_logs: list[int] = []


@contextmanager
def log_events(path: str) -> Iterator[None]:
    """Append the events inside of the block to a file, those of processes of Python that start there included."""
    _listen()
    assert python_process._START.count(_CALL) == 1
    start = python_process._START.replace(
        _CALL, f"import_module('tests.audit').log_all({path!r})\n{_CALL}"
    )
    _logs.append(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT))
    try:
        with patch.object(python_process, "_START", start):
            yield
    finally:
        os.close(_logs.pop())


def log_all(path: str) -> None:
    """Append the events of this process, and of those that it starts, to a file from now on."""
    _listen()
    _logs.append(os.open(path, os.O_WRONLY | os.O_APPEND))
    # A process that this one starts begins with the same code, so that it comes here too.
    python_process._START = sys.orig_argv[sys.orig_argv.index("-c") + 1]


@cache
def _listen() -> None:
    sys.addaudithook(_note)  # it stays for ever
    fork_exec = _posixsubprocess.fork_exec

    # multiprocessing starts programs without an event.
    def note_start(arguments: list[bytes], *rest: Any) -> int:
        _note("subprocess.Popen", (os.fsdecode(arguments[0]),))
        return fork_exec(arguments, *rest)

    _posixsubprocess.fork_exec = note_start  # type: ignore[assignment]


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if not _logs:
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(path, (str, bytes)) and flags & (os.O_WRONLY | os.O_RDWR):
            _log("writes", os.path.abspath(os.fsdecode(path)))
    elif event in _PLACES:
        _log("writes", os.path.abspath(os.fsdecode(arguments[_PLACES[event]])))
    elif event in _STARTS:
        program = os.fsdecode(arguments[0]) if arguments else sys.executable
        _log("starts", "python" if program == sys.executable else os.path.basename(program))
    elif event == "socket.connect":
        _log("connects", arguments[1])


def _log(what: str, where: Any) -> None:
    os.write(_logs[-1], json.dumps([what, where], default=repr).encode() + b"\n")
