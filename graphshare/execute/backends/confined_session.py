"""Sessions of onnxruntime on other people's models, in the confined process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from graphshare.confined_process import find_process
from graphshare.errors import InputError
from graphshare.execute.backends.onnx_session import (
    OnnxSession,
    has_runtime,
    load_runtime,
    require_runtime,
)
from graphshare.execute.backends.session import (
    DEFAULT_SETTINGS,
    BackendSession,
    RemoteSession,
    SessionSettings,
    pack,
    serve_sessions,
    unpack,
)
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
        settings: SessionSettings = DEFAULT_SETTINGS,
    ) -> None:
        """Load a model from bytes or pieces, with the arguments and errors of :class:`OnnxSession`.

        Raises:
            MemoryLimitError: it exceeds the memory limit or, without one, the available memory.
        """
        require_runtime()
        folder = os.path.abspath(folder) if folder else ""
        beside: list[Any] = []
        packed = {name: pack(array, beside) for name, array in (arrays or {}).items()}
        pieces = [model] if isinstance(model, bytes) else model
        self._open(folder, packed, settings, model=pieces, beside=beside)


def open_session(
    model: bytes | Iterable[bytes | memoryview],
    folder: str = "",
    *,
    arrays: Mapping[str, Array] | None = None,
    settings: SessionSettings = DEFAULT_SETTINGS,
) -> BackendSession:
    """Return a session on a translated model: in this process, unless memory is limited."""
    if find_memory_limit() is not None:
        return ConfinedSession(model, folder, arrays=arrays, settings=settings)
    return OnnxSession(
        model if isinstance(model, bytes) else b"".join(model),
        folder,
        arrays=arrays,
        settings=settings,
    )


def start_process() -> None:
    """Start the process of sessions if onnxruntime is installed, while the caller goes on."""
    if has_runtime():
        find_process(__name__, ConfinedSession.program)


def serve(model: str) -> None:
    """Answer messages on sessions. ``model`` is the models' path, empty if they come with the messages."""
    serve_sessions(partial(_make, model), load_runtime)


def _make(
    path: str,
    data: list[bytes],
    folder: str,
    arrays: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> OnnxSession:
    model = b"" if path else data.pop()
    load = partial(
        OnnxSession,
        folder=folder,
        arrays={name: unpack(array, data) for name, array in arrays.items()},
        settings=SessionSettings(**settings),
    )
    if not path:
        return load(model)
    if not folder:  # onnxruntime uses it only with bytes
        with suppress(InputError):  # the message would name this file
            return load(path)
    with open(path, "rb") as file:
        return load(file.read())
