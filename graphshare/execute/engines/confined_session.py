"""Sessions of onnxruntime on models of others: in a process of their own, which has a limit of memory and ends with this one.

A few bytes of a model can make onnxruntime take any amount of memory, and this process would end with it. The other process
imports the modules that this one imports, none from the current folder. Both sides send messages of msgpack; arrays follow as
they are, and a model is in a file in memory that both have open, where the system has such files.
"""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import IO, TYPE_CHECKING, Any

import msgspec

from graphshare.errors import Fault, GraphshareError, InputError, MemoryLimitError, RefusedError
from graphshare.execute.engines.onnx_session import OnnxSession, has_runtime, load_runtime, require_runtime
from graphshare.resources import MORE_MEMORY, available_memory, can_limit_process, find_memory_limit
from graphshare.text.format import format_bytes

if sys.platform != "win32":
    import resource

if TYPE_CHECKING:
    from graphshare.ops.kernel import Array

# It runs with -I, which ignores the environment and the current folder, and loads this very package.
_START = """
import sys
from importlib import util
init, model, *sys.path[:] = sys.argv[1:]
spec = util.spec_from_file_location("graphshare", init)
sys.modules["graphshare"] = util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["graphshare"])
from graphshare.execute.engines.confined_session import serve
serve(model)
"""
_OPEN_FILE = "/proc/self/fd/{}"
_LENGTH = 8
_BESIDE = 64 << 20  # bytes beside what is computed: the stacks of threads, and what the allocator keeps
_FULL = 75  # the exit code where a message does not fit below the limit
_NO_MEMORY = ("bad_alloc", "bad allocation", "Failed to allocate", "Cannot allocate memory")


class ConfinedSession(OnnxSession):
    """A :class:`OnnxSession` in another process, which all of them share: what they take together counts against a limit."""

    def __init__(
        self,
        model: bytes | Iterable[bytes | memoryview],
        folder: str = "",
        *,
        arrays: Mapping[str, Array] | None = None,
        **options: Any,
    ) -> None:
        """Load a model, its bytes or pieces of them, as :class:`OnnxSession` does, which has the same options.

        Raises:
            UsageError: onnxruntime is not installed.
            InputError: it refuses the model.
            MemoryLimitError: it takes more memory than the limit or, without one, than is available.
        """
        require_runtime()
        self._process = _find_process()
        folder = os.path.abspath(folder) if folder else ""
        beside: list[Any] = []
        packed = {name: _pack(array, beside) for name, array in (arrays or {}).items()}
        pieces = [model] if isinstance(model, bytes) else model
        answer, _ = self._process.ask("open", packed, {"folder": folder, **options}, model=pieces, beside=beside)
        self._number, self.version, *shapes, self.dtypes, self.outputs, self.unreadable = answer
        self.inputs, self.defaults = ({name: tuple(shape) for name, shape in each.items()} for each in shapes)

    @property
    def is_open(self) -> bool:
        """Return whether it is not closed and its process still runs."""
        return hasattr(self, "_number") and self._process.goes_on

    def close(self) -> None:
        """Give its memory back before the next session is opened."""
        if hasattr(self, "_number"):
            self._process.closed.append(self._number)
            del self._number

    def run(self, feeds: Mapping[str, Array]) -> list[Any]:
        """Return the outputs for ``feeds`` by name; those that the model does not take are left out.

        Raises:
            InputError: onnxruntime fails.
            MemoryLimitError: it takes more memory than the limit.
        """
        beside: list[Any] = []
        taken = {name: _pack(array, beside) for name, array in feeds.items() if name in self.dtypes}
        values, data = self._process.ask("run", self._number, taken, beside=beside)
        return [_unpack(value, data) for value in values]

    def __del__(self) -> None:
        self.close()


def open_session(model: bytes, folder: str = "", *, arrays: Mapping[str, Array] | None = None, **options: Any) -> OnnxSession:
    """Return a session on a model that was translated here: in this process, unless the user limits memory."""
    kind = OnnxSession if find_memory_limit() is None else ConfinedSession
    return kind(model, folder, arrays=arrays, **options)


def start_process() -> None:
    """Start the process of sessions if there is none, and onnxruntime is installed; it gets ready while the caller goes on."""
    if has_runtime():
        _find_process()


class _Process:
    """The process in which sessions are."""

    def __init__(self) -> None:
        self.closed: deque[int] = deque()  # sent later: garbage is collected at any time, in the middle of a message too
        self.owner = os.getpid()
        self._lock = Lock()
        self._model = _open_memory()
        files = [] if self._model is None else [self._model.fileno()]
        path = "".join(map(_OPEN_FILE.format, files))
        package, *places = _list_module_places()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, package, path, *places],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # onnxruntime and the allocator print messages of their own there.
                stderr=subprocess.DEVNULL,
                # Ctrl-C on the terminal reaches this process alone, which then ends the other one.
                start_new_session=True,
                pass_fds=files,
            )
        except (OSError, TypeError) as error:  # a program with Python inside may not know where Python is
            hint = "set sys.executable to the path of Python"
            raise RefusedError(Fault(f"no process can be started for onnxruntime: {error}", hint=hint)) from error
        self._end = weakref.finalize(self, _end, self._process, self._model, self.owner)

    @property
    def goes_on(self) -> bool:
        """Return whether it takes messages from this process."""
        return self.owner == os.getpid() and self._end.alive and self._process.poll() is None

    def ask(
        self, kind: str, *values: Any, model: Iterable[bytes | memoryview] = (), beside: Sequence[Any] = ()
    ) -> tuple[Any, list[bytes]]:
        """Return the answer to a message, and the data beside it. ``beside`` is the data of the message.

        No more memory is taken for it than the user's limit or than is available.

        Raises:
            InputError: the error that there was.
            MemoryLimitError: the limit was reached, or the process ended without an answer.
            RefusedError: it had ended before.
        """
        limit = find_memory_limit()
        with self._lock:
            if not self.goes_on:
                raise RefusedError(Fault("the process of the model's session has ended", hint="load the model again"))
            # Inside of the lock: all sessions share the one file.
            if kind == "open":
                beside = [*beside, *self._place(model)]
            try:
                while self.closed:
                    self._send(("close", None, self.closed.popleft()))
                self._send((kind, available_memory() if limit is None else limit, *values), beside)
                assert self._process.stdout is not None
                answer: Any = _receive(self._process.stdout)
            except BaseException:  # a limit of time, an interrupt: the answer is not wanted any more
                self._end()
                raise
            if answer is None:  # with its stdout the process has ended
                code = self._process.wait()
                answer = ("memory" if code == _FULL else "end", code), []
            (outcome, value), data = answer
            if outcome in ("memory", "end"):
                self._end()
        if outcome == "end":
            ending = f"signal {-value}" if value < 0 else f"exit code {value}"
            raise MemoryLimitError(Fault(f"onnxruntime ended without an answer ({ending})", hint=MORE_MEMORY))
        if outcome == "memory":
            allowed = "is available" if limit is None else f"the limit of {format_bytes(limit)} allows"
            raise MemoryLimitError(Fault(f"the model takes more memory in onnxruntime than {allowed}", hint=MORE_MEMORY))
        if outcome == "error":
            raise InputError([Fault(text, where=where) for text, where in value])
        return value, data

    def _place(self, model: Iterable[bytes | memoryview]) -> Sequence[bytes]:
        """Write a model into the file in memory; return what goes beside the message: the model where there is no such file."""
        if self._model is None:
            return [b"".join(model)]
        self._model.seek(0)
        self._model.truncate()
        self._model.writelines(model)
        self._model.flush()
        return []

    def _send(self, message: tuple[Any, ...], beside: Sequence[Any] = ()) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the missing answer says that the process has ended
            _send(self._process.stdin, message, beside)


def _open_memory() -> IO[bytes] | None:
    """Return a file in memory, which the other process opens by its path; None where the system has no such file."""
    try:
        file = os.fdopen(os.memfd_create("model"), "wb")
    except (AttributeError, OSError):
        return None
    return file if os.path.exists(_OPEN_FILE.format(file.fileno())) else None


_kept: list[_Process] = []  # one for all sessions, also those of later calls: starting it takes as long as many proofs
_finding = Lock()


def _find_process() -> _Process:
    """Return the process of sessions, a new one where none goes on; a fork of this process has its own."""
    with _finding:
        if not _kept or not _kept[0].goes_on:
            _kept[:] = [_Process()]
        return _kept[0]


def _list_module_places() -> list[str]:
    """Return the file of this package, and where else modules are found; the current folder left out."""
    here = os.path.realpath(os.curdir)
    package = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "__init__.py")
    return [os.path.abspath(package), *(os.path.abspath(e) for e in sys.path if e and os.path.realpath(e) != here)]


def _end(process: subprocess.Popen[bytes], model: IO[bytes] | None, owner: int) -> None:
    if model is not None:
        model.close()
    if os.getpid() == owner:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def serve(model: str) -> None:
    """Open and run sessions as the messages on stdin say, and answer on stdout, until stdin ends.

    ``model`` is the path of the file of the models; where it is empty they stand beside the messages.
    """
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # native code may print anything at any time
    # Read by a thread, so that the end of stdin is seen while a session computes.
    messages: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_listen, args=(messages,), daemon=True).start()
    sessions: dict[int, OnnxSession] = {}
    handlers: dict[str, Callable[..., Any]] = {"open": partial(_open, sessions, model), "run": partial(_run, sessions)}
    # Measured before there is a session: the interpreter and onnxruntime are not the model's memory.
    held = _measure_data()
    while True:
        (kind, limit, *values), data = messages.get()
        if kind == "close":
            # This message has no answer.
            del sessions[values[0]]
            continue
        _limit_memory(held, limit)
        _send(out, *_answer(partial(handlers[kind], data, *values)))


def _listen(messages: SimpleQueue[Any]) -> None:
    """Pass messages on, and end this process with the one that sends them, also in the middle of a computation."""
    try:
        while (message := _receive(sys.stdin.buffer)) is not None:
            messages.put(message)
    except MemoryError:  # a message beyond the limit; its rest stays unread
        os._exit(_FULL)
    os._exit(0)


def _answer(compute: Callable[[], tuple[Any, list[Any]]]) -> tuple[tuple[str, Any], list[Any]]:
    """Return the result of ``compute`` or the error that it raises, and the data beside it."""
    try:
        value, beside = compute()
    except MemoryError:
        return ("memory", None), []
    except GraphshareError as error:
        faults = [(fault.message, fault.where) for fault in error.faults]
        return (("memory", None) if any(text in str(error) for text in _NO_MEMORY) else ("error", faults)), []
    return ("value", value), beside


def _open(
    sessions: dict[int, OnnxSession],
    path: str,
    data: list[bytes],
    arrays: Mapping[str, Any],
    options: dict[str, Any],
) -> tuple[Any, list[Any]]:
    """Open a session; return its number and what is known of its model."""
    model = path or data.pop()
    options["arrays"] = {name: _unpack(array, data) for name, array in arrays.items()}
    number = max(sessions, default=0) + 1
    session = sessions[number] = _load(model, options)
    own = session.inputs, session.defaults, session.dtypes, session.outputs, session.unreadable
    return (number, session.version, *own), []


def _load(model: str | bytes, options: dict[str, Any]) -> OnnxSession:
    """Return a session on a model, from its path or its bytes."""
    if isinstance(model, str):
        if not options["folder"]:  # which onnxruntime heeds for bytes alone
            with suppress(InputError):  # the message would name this file
                return OnnxSession(model, **options)
        with open(model, "rb") as file:
            model = file.read()
    return OnnxSession(model, **options)


def _run(
    sessions: Mapping[int, OnnxSession], data: Sequence[bytes], number: int, feeds: Mapping[str, Any]
) -> tuple[list[Any], list[Any]]:
    """Return the outputs of a session, and the data beside them."""
    beside: list[Any] = []
    outputs = sessions[number].run({name: _unpack(array, data) for name, array in feeds.items()})
    return [_pack(value, beside) for value in outputs], beside


def _measure_data() -> int:
    """Return the bytes that this process takes before there is a model; 0 where the system does not state it."""
    load_runtime()  # what it takes by itself is not part of the limit
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0


def _limit_memory(held: int, size: int | None) -> None:
    """Let this process take ``size`` bytes beside ``held``, where the system has such a limit: Linux has."""
    if held and can_limit_process():
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        bounds = [bound for bound in (hard, -1 if size is None else held + size + _BESIDE) if bound >= 0]  # below 0: none
        resource.setrlimit(resource.RLIMIT_DATA, (min(bounds, default=resource.RLIM_INFINITY), hard))


def _pack(value: Any, beside: list[Any]) -> Any:
    """Return a value of onnxruntime in the form of a message: an array, a list of them (sequences), a map, or nothing.

    The numbers of an array are added to ``beside``.
    """
    import numpy as np  # start-up: the process is started before this one needs numpy

    if isinstance(value, list):
        return "list", [_pack(each, beside) for each in value]
    if not isinstance(value, np.ndarray):
        if not isinstance(value, dict | str | int | float | bool | None):
            raise RefusedError(Fault(f"onnxruntime returns a value of type {type(value).__name__}, which cannot be compared"))
        return "plain", value
    if value.dtype.kind == "O":
        return "texts", value.shape, [str(text) for text in value.ravel()]
    beside.append(np.ascontiguousarray(value).data.cast("B") if value.size else b"")
    return "array", value.shape, value.dtype.str, len(beside) - 1


def _unpack(packed: Any, data: Sequence[bytes]) -> Any:
    """Return the value that :func:`_pack` was given; ``data`` is what stands beside the message."""
    import numpy as np  # start-up: as above

    kind, *rest = packed
    if kind == "list":
        return [_unpack(each, data) for each in rest[0]]
    if kind == "plain":
        return rest[0]
    if kind == "texts":
        return np.array(rest[1], dtype=object).reshape(rest[0])
    shape, dtype, place = rest
    return np.frombuffer(data[place], dtype).reshape(shape)


def _send(stream: IO[bytes], message: Any, beside: Sequence[Any] = ()) -> None:
    """Write a message and the data beside it, after the length of the message in eight bytes."""
    head = msgspec.msgpack.encode((message, [len(data) for data in beside]))
    for data in (len(head).to_bytes(_LENGTH, "big"), head, *beside):
        view = memoryview(data)
        while view:
            # Without a buffer write() may take only a part.
            view = view[stream.write(view) :]
    stream.flush()


def _receive(stream: IO[bytes]) -> tuple[Any, list[bytes]] | None:
    """Return the next message and the data beside it, None where the stream ends."""
    size = int.from_bytes(stream.read(_LENGTH), "big")
    head = stream.read(size)
    if not size or len(head) < size:
        return None
    message, sizes = msgspec.msgpack.decode(head)
    beside = [stream.read(size) for size in sizes]
    return (message, beside) if [len(data) for data in beside] == sizes else None
