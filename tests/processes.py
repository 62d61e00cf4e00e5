"""The command as a user runs it: in a process of its own, through pipes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests import params_bytes
from tests.fork_server import ForkServer, write_pipe
from tests.hints import find_faults, list_hints
from tests.symbols import Document

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, str(ROOT / "tests" / "command.py")]


SYSTEM: dict[str, str] = {}
"""Variables that put the commands under the rules of another system (tests/systems); empty for those of this one."""

_UNWANTED = (
    "GITHUB_ACTIONS",
    "NO_COLOR",
    "FORCE_COLOR",
    "COLUMNS",
    "TERM",
    "PYTHONUNBUFFERED",
    "PYTHONIOENCODING",
)


def environment(**more: str) -> dict[str, str]:
    """The environment of the tests, without what colours output or changes its form."""
    kept = {key: value for key, value in os.environ.items() if key not in _UNWANTED}
    return {**kept, "TERM": "xterm", **SYSTEM, **more}


def module_path() -> str:
    """Where the package, its tests and their needs are, also where they lie in a folder of the environment."""
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


def graphshare(
    *arguments: str | os.PathLike[str],
    data: bytes | Path = b"",
    cwd: Path | None = None,
    **more: str,
) -> subprocess.CompletedProcess[bytes]:
    """One run to its end; a run that hangs fails the test. With variables of its own it gets an interpreter of its own.

    It reads ``data`` from a pipe, or has the file of that path as standard input.
    """
    words = [os.fspath(argument) for argument in arguments]
    if sys.platform == "linux" and not more and not any("\0" in word for word in words):
        where = os.fspath(cwd or Path.cwd())
        run = _server(tuple(SYSTEM.items())).run(
            words, data=data, cwd=where, environment=environment(), timeout=120
        )
        return _read_as_there(run) if SYSTEM else run
    with contextlib.ExitStack() as stack:
        source: dict[str, Any] = {"input": data}
        if isinstance(data, Path):
            source = {"stdin": stack.enter_context(data.open("rb"))}
        return subprocess.run(
            [*COMMAND, *arguments],
            **source,
            capture_output=True,
            timeout=120,
            cwd=cwd,
            env=environment(**more),
            check=False,
        )


def is_running(pid: int) -> bool:
    """Whether a process of Linux goes on; one that has ended and is not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _read_as_there(run: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[bytes]:
    """Return a run whose messages have the slashes and line ends of this system; data keep their bytes."""
    run.stderr = run.stderr.replace(b"\r\n", b"\n")
    if "windows" in SYSTEM.values():
        run.stderr = re.sub(rb"(?<=[\w.])\\(?=[\w.])(?!x[0-9a-f]{2})", b"/", run.stderr)
    if run.stdout.count(b"\n") == run.stdout.count(b"\r\n"):
        run.stdout = run.stdout.replace(b"\r\n", b"\n")
    return run


def in_process(
    *arguments: str | os.PathLike[str], data: bytes | Path = b"", cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """One run in this process, ten times as fast as in its own: for many short ones, of commands
    that start no process.
    """
    from graphshare.cli.main import run  # what imports this needs the command alone

    if SYSTEM:  # the rules of another system would hold for the tests as well
        return graphshare(*arguments, data=data, cwd=cwd)
    words = [os.fspath(argument) for argument in arguments]
    out, messages = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, environment(), clear=True))
        stack.callback(os.chdir, Path.cwd())
        os.chdir(cwd or Path.cwd())
        stack.enter_context(_standard_input(data))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(messages))
        code = run(words)
    return subprocess.CompletedProcess(
        words, code, *(stream.buffer.getvalue() for stream in (out, messages))
    )


@contextlib.contextmanager
def _standard_input(data: bytes | Path) -> Iterator[None]:
    """Put a pipe with ``data``, or the file of that path, in the place of this process's standard input."""
    kept, before = os.dup(0), sys.stdin
    given, feed = (os.open(data, os.O_RDONLY), None) if isinstance(data, Path) else os.pipe()
    writer = threading.Thread(target=write_pipe, args=(feed, data))
    writer.start()
    os.dup2(given, 0)
    os.close(given)
    try:
        with open(0, closefd=False) as sys.stdin:
            yield
    finally:
        sys.stdin = before
        os.dup2(kept, 0)  # the pipe's end is closed: a writer that nobody reads from ends too
        os.close(kept)
        writer.join()


def on_terminal(*arguments: str, cwd: Path, **more: str) -> tuple[int, str, str]:
    """A run whose standard output and error are terminals: exit code and what each showed.

    With variables of its own it gets an interpreter of its own.
    """
    (out, slave_of_out), (said, slave_of_said) = pty.openpty(), pty.openpty()
    ends = (os.open(os.devnull, os.O_RDONLY), slave_of_out, slave_of_said)
    if not more:
        with _server(tuple(SYSTEM.items())).start(
            list(arguments), ends=ends, cwd=os.fspath(cwd), environment=environment()
        ):
            shown = [_read_terminal(master) for master in (out, said)]
            status = os.waitstatus_to_exitcode(_server(tuple(SYSTEM.items())).wait())
        return status, shown[0], shown[1]
    run = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=ends[0],
        stdout=ends[1],
        stderr=ends[2],
        cwd=cwd,
        env=environment(**more),
    )
    for end in ends:
        os.close(end)
    shown = [_read_terminal(master) for master in (out, said)]
    return run.wait(60), shown[0], shown[1]


def _read_terminal(master: int) -> str:
    """Return what a terminal shows, to its end."""
    data = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while piece := os.read(master, 65536):
            data += piece
    os.close(master)
    return data.decode()


@cache
def _server(system: tuple[tuple[str, str], ...]) -> ForkServer:
    return ForkServer({**os.environ, **dict(system)})


def refused(done: subprocess.CompletedProcess[bytes], *words: str) -> str:
    """What a refusal said: exit code 2, nothing on standard output, no traceback, and ``words`` in the message."""
    said = done.stderr.decode("utf-8", "replace")
    assert done.returncode == 2, said
    assert done.stdout == b""
    assert "Traceback" not in said
    assert "bug in graphshare" not in said
    assert said.startswith(("error: ", "warning: ")), said
    for word in words:
        assert word in said
    if isinstance(done.args, list):
        line = [str(word) for word in done.args]
        line = line[len(COMMAND) :] if line[: len(COMMAND)] == COMMAND else line
        faults = [fault for hint in list_hints(said) for fault in find_faults(line, hint)]
        assert not faults, faults
    return said


def done(run: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[bytes]:
    """The same run, which must have ended well."""
    assert run.returncode == 0, run.stderr.decode("utf-8", "replace")
    return run


def write_json(path: Path, found: Document) -> Path:
    path.write_text(json.dumps(found), encoding="utf-8")
    return path


def write_params(path: Path, keys: Sequence[str], shape: tuple[int, ...] = (2,)) -> Path:
    """A parameter file; each record's data differ."""
    size = params_bytes.count_bytes(shape, "float32")
    records = [
        params_bytes.dense(shape, "float32", params_bytes.pattern(size, i))
        for i, _ in enumerate(keys)
    ]
    path.write_bytes(params_bytes.container(records, keys))
    return path


def keys_of(path: Path) -> list[str]:
    listing: dict[str, Any] = json.loads(
        done(graphshare("params", "list", str(path), "--format", "json")).stdout
    )
    return [array["key"] for array in listing["arrays"]]


def files_in(folder: Path) -> list[str]:
    """Every file below a folder, hidden ones too: nothing half-written may stay behind."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())
