"""Sessions of onnxruntime on models of others, in the confined process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from graphshare.confined_process import find_process
from graphshare.errors import InputError
from graphshare.execute.backends.onnx_session import OnnxSession, has_runtime, load_runtime, require_runtime
from graphshare.execute.backends.session import RemoteSession, Session, pack, serve_sessions, unpack
from graphshare.resources import find_memory_limit

if TYPE_CHECKING:
    from graphshare.ops.kernel import Array


class ConfinedSession(RemoteSession):
    """A session of onnxruntime in another process."""

    module = __name__
    program = "onnxruntime"

    def __init__(
        self,
        model: bytes | Iterable[bytes | memoryview],
        folder: str = "",
        *,
        arrays: Mapping[str, Array] | None = None,
        **options: Any,
    ) -> None:
        """Load a model, its bytes or pieces of them. Options are the same as in :class:`OnnxSession`.

        Raises:
            UsageError: onnxruntime is not installed.
            InputError: it refuses the model.
            MemoryLimitError: it takes more memory than the limit or, without one, than is available.
        """
        require_runtime()
        folder = os.path.abspath(folder) if folder else ""
        beside: list[Any] = []
        packed = {name: pack(array, beside) for name, array in (arrays or {}).items()}
        pieces = [model] if isinstance(model, bytes) else model
        options = {"folder": folder, **options}
        self._open(packed, options, model=pieces, beside=beside)


def open_session(
    model: bytes | Iterable[bytes | memoryview], folder: str = "", *, arrays: Mapping[str, Array] | None = None, **options: Any
) -> Session:
    """Return a session on a model that was translated here: in this process, unless the user limits memory."""
    if find_memory_limit() is not None:
        return ConfinedSession(model, folder, arrays=arrays, **options)
    return OnnxSession(model if isinstance(model, bytes) else b"".join(model), folder, arrays=arrays, **options)


def start_process() -> None:
    """Start the process of sessions if there is none, and onnxruntime is installed; it gets ready while the caller goes on."""
    if has_runtime():
        find_process(__name__, ConfinedSession.program)


def serve(model: str) -> None:
    """Answer messages on sessions.

    ``model`` is the path of the file of the models; where it is empty they stand beside the messages.
    """
    serve_sessions(partial(_make, model), load_runtime)


def _make(path: str, data: list[bytes], arrays: Mapping[str, Any], options: dict[str, Any]) -> OnnxSession:
    """Return a session on the model of a message."""
    model = path or data.pop()
    return _load(model, {**options, "arrays": {name: unpack(array, data) for name, array in arrays.items()}})


def _load(model: str | bytes, options: dict[str, Any]) -> OnnxSession:
    """Return a session on a model, from its path or its bytes."""
    if isinstance(model, str):
        if not options["folder"]:  # which onnxruntime heeds only for bytes
            with suppress(InputError):  # the message would name this file
                return OnnxSession(model, **options)
        with open(model, "rb") as file:
            model = file.read()
    return OnnxSession(model, **options)
