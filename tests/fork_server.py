"""Runs of the command that need not wait for the interpreter: one process has imported it, and forks for every run.

What a run sees is what it would see: its own arguments, directory, environment and pipes, and
``main`` until the process ends. Only importing is not done anew, nor finding installed packages and
reading tables; what imports when is tested in processes of their own. Everyday the confined
processes of a run are forked from it too, without the imports of numpy and onnx; where large sizes
are required they are started as users start them.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pkgutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.surroundings import is_required

_WORD = struct.Struct("<q")
ROOT = Path(__file__).parents[1]


class ForkServer:
    """A process that forks a run of ``graphshare`` when asked, for one asker at a time."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self._lock = threading.Lock()
        self._socket, other = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fork_server", str(other.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[other.fileno()],
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
        other.close()

    def run(
        self,
        arguments: list[str],
        *,
        data: bytes | Path,
        cwd: str,
        environment: dict[str, str],
        timeout: float,
    ) -> subprocess.CompletedProcess[bytes]:
        """One run to its end. Raises TimeoutExpired, and ends the run, when it takes longer.

        Standard input is a pipe with ``data``, or the file of that path.
        """
        out, said = os.pipe(), os.pipe()
        given, feed = (os.open(data, os.O_RDONLY), None) if isinstance(data, Path) else os.pipe()
        with self.start(
            arguments, ends=(given, out[1], said[1]), cwd=cwd, environment=environment
        ) as pid:
            read = [_Reader(out[0]), _Reader(said[0])]
            writer = threading.Thread(target=write_pipe, args=(feed, data))
            writer.start()
            late = threading.Timer(timeout, os.kill, (pid, signal.SIGKILL))
            late.start()
            status = self.wait()
            on_time = late.is_alive()
            late.cancel()
            writer.join()
            texts = [reader.text() for reader in read]
        if not on_time and os.WIFSIGNALED(status):
            raise subprocess.TimeoutExpired(arguments, timeout, *texts)
        return subprocess.CompletedProcess(arguments, os.waitstatus_to_exitcode(status), *texts)

    @contextlib.contextmanager
    def start(
        self,
        arguments: list[str],
        *,
        ends: tuple[int, int, int],
        cwd: str,
        environment: dict[str, str],
    ) -> Iterator[int]:
        """Yield the process id of a run that has ``ends`` as its streams; the caller waits for it inside of the block.

        The ends are closed here: the run alone has them.
        """
        with self._lock, tempfile.TemporaryFile() as request:
            request.write(json.dumps([arguments, cwd, environment]).encode())
            request.flush()
            socket.send_fds(self._socket, [b"r"], [*ends, request.fileno()])
            for end in ends:
                os.close(end)
            yield self._word()

    def wait(self) -> int:
        """Return the status of the run that was started, when it has ended."""
        return self._word()

    def _word(self) -> int:
        found = self._socket.recv(_WORD.size, socket.MSG_WAITALL)
        if len(found) < _WORD.size:
            raise RuntimeError("the server of the tests has ended")
        return int(_WORD.unpack(found)[0])


class _Reader(threading.Thread):
    """Reads a pipe to its end."""

    def __init__(self, end: int) -> None:
        super().__init__()
        self._end, self._text = end, b""
        self.start()

    def run(self) -> None:
        with open(self._end, "rb") as stream:
            self._text = stream.read()

    def text(self) -> bytes:
        self.join()
        return self._text


def write_pipe(end: int | None, data: bytes | Path) -> None:
    """Write ``data`` into a pipe and close it; nothing where standard input is a file."""
    if end is None or isinstance(data, Path):
        return
    with contextlib.suppress(BrokenPipeError), open(end, "wb") as stream:
        stream.write(data)


class _ForkedPython(subprocess.Popen[bytes]):
    """A process that calls a function of a module with texts, as ``start_python`` starts one, but
    forked from this one.
    """

    def _execute_child(self, args: list[str], *options: Any) -> None:
        # As subprocess passes them: both ends of stdin, stdout and stderr
        pass_fds, ends = (options[3], options[9:15])
        self.pid = os.fork()
        if not self.pid:
            try:
                _call(args, {*pass_fds}, (ends[0], ends[3], ends[5]))
            finally:
                os._exit(1)
        self._child_created = True
        self._close_pipe_fds(*ends)  # type: ignore[attr-defined]


def _call(args: list[str], inherited: set[int], streams: tuple[int, int, int]) -> None:
    """Call the function of a module that ``args`` name, with ``inherited`` descriptors and ``streams`` alone."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    for number, end in enumerate(streams):
        os.dup2(end, number)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in inherited:
            with contextlib.suppress(OSError):  # that of the list itself
                os.close(int(name))
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  (what the run has in its place reads another file)
    module, function, *rest = args
    getattr(import_module(module), function)(*rest)


def _fork_python(
    *args: str, inherited: tuple[int, ...] = (), **options: Any
) -> subprocess.Popen[bytes]:
    return _ForkedPython(list(args), pass_fds=inherited, **options)


def _prepare(command: Any) -> None:
    """Find what is the same in every run: installed packages, tables and, everyday, what confined processes import."""
    from graphshare import confined_process
    from graphshare.ops.registry import GRADIENTS, KERNELS, TRANSLATIONS

    for contributions in (KERNELS, GRADIENTS, TRANSLATIONS):
        contributions.load_installed()
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        command.run(["check", str(ROOT / "fixtures" / "lenet")])
    if not is_required("large"):
        # onnxruntime opens files of its own
        for name in (
            "numpy",
            "onnx",
            "onnx.checker",
            "onnx.shape_inference",
        ):
            with contextlib.suppress(ImportError):
                import_module(name)
        confined_process.start_python = _fork_python


def _serve(asked: socket.socket) -> None:
    import graphshare
    from graphshare.cli import main as command

    for module in pkgutil.walk_packages(graphshare.__path__, "graphshare."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    _prepare(command)
    gc.collect()
    gc.freeze()  # what is there stays: no run walks it
    while True:
        found, ends, _, _ = socket.recv_fds(asked, 1, 4)
        if not found:
            return
        pid = os.fork()
        if not pid:
            asked.close()
            _become(command, ends)
        for end in ends:
            os.close(end)
        asked.sendall(_WORD.pack(pid))
        asked.sendall(_WORD.pack(os.waitpid(pid, 0)[1]))


def _become(command: Any, ends: list[int]) -> None:
    """Turns this process into a run of the command."""
    with open(ends[3], "rb") as stream:
        stream.seek(0)
        arguments, cwd, environment = json.load(stream)
    for number, end in enumerate(ends[:3]):
        os.dup2(end, number)
        os.close(end)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  (what the server has in its place knows that it cannot seek)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = cwd
    sys.argv = ["graphshare", *arguments]
    command.main()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
