"""Sessions of onnxruntime on models of others, in the confined process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from graphshare.confined_process import ask_process, find_process
from graphshare.confined_process import serve as answer_messages
from graphshare.errors import Fault, InputError, RefusedError
from graphshare.execute.backends.onnx_session import OnnxSession, has_runtime, load_runtime, require_runtime
from graphshare.resources import find_memory_limit

if TYPE_CHECKING:
    from graphshare.ops.kernel import Array

_NAME = "onnxruntime"


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
        folder = os.path.abspath(folder) if folder else ""
        beside: list[Any] = []
        packed = {name: _pack(array, beside) for name, array in (arrays or {}).items()}
        pieces = [model] if isinstance(model, bytes) else model
        options = {"folder": folder, **options}
        self._process, answer, _ = ask_process(__name__, _NAME, "open", packed, options, model=pieces, beside=beside)
        self._number, self.version, *shapes, self.dtypes, self.outputs, self.output_types = answer
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

    def compute(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Return the outputs for ``feeds`` as the session in the other process does."""
        beside: list[Any] = []
        taken = {name: _pack(value, beside) for name, value in feeds.items()}
        values, data = self._process.ask("run", self._number, taken, beside=beside)
        return [_unpack(value, data) for value in values]

    def __del__(self) -> None:
        self.close()


def open_session(
    model: bytes | Iterable[bytes | memoryview], folder: str = "", *, arrays: Mapping[str, Array] | None = None, **options: Any
) -> OnnxSession:
    """Return a session on a model that was translated here: in this process, unless the user limits memory."""
    if find_memory_limit() is not None:
        return ConfinedSession(model, folder, arrays=arrays, **options)
    return OnnxSession(model if isinstance(model, bytes) else b"".join(model), folder, arrays=arrays, **options)


def start_process() -> None:
    """Start the process of sessions if there is none, and onnxruntime is installed; it gets ready while the caller goes on."""
    if has_runtime():
        find_process(__name__, _NAME)


def serve(model: str) -> None:
    """Open, run and close sessions as the messages say.

    ``model`` is the path of the file of the models; where it is empty they stand beside the messages.
    """
    sessions: dict[int, OnnxSession] = {}
    answer_messages(
        {"open": partial(_open, sessions, model), "run": partial(_run, sessions), "close": partial(_close, sessions)},
        load_runtime,
    )


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
    own = session.inputs, session.defaults, session.dtypes, session.outputs, session.output_types
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


def _close(sessions: dict[int, OnnxSession], data: Sequence[bytes], number: int) -> tuple[None, list[Any]]:
    """Close a session."""
    del sessions[number]
    return None, []


def _run(
    sessions: Mapping[int, OnnxSession], data: Sequence[bytes], number: int, feeds: Mapping[str, Any]
) -> tuple[list[Any], list[Any]]:
    """Return the outputs of a session, and the data beside them."""
    beside: list[Any] = []
    outputs = sessions[number].compute({name: _unpack(array, data) for name, array in feeds.items()})
    return [_pack(value, beside) for value in outputs], beside


def _pack(value: Any, beside: list[Any]) -> Any:
    """Return a value of onnxruntime in the form of a message: an array, a list of them (sequences), a map, or nothing.

    The numbers of an array are added to ``beside``.
    """
    import numpy as np  # start-up: the process is started before this one needs numpy

    if isinstance(value, list):
        return "list", [_pack(each, beside) for each in value]
    if isinstance(value, np.generic):  # a scalar in a sequence
        value = np.asarray(value)
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
