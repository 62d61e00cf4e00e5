"""Sessions: models that a program computes as a whole, in this process or in a confined one."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from graphshare.confined_process import ask_process
from graphshare.confined_process import serve as answer_messages
from graphshare.errors import Fault, InputError, RefusedError
from graphshare.formats.params.narrow_dtypes import INSTALL, NARROW, from_raw, is_installed, to_raw

NO_ARRAY = re.compile(r"\b(bfloat16|float[48]\w+|u?int[24])\b")
"""Finds dtypes that numpy lacks in a type: ml_dtypes has them, but programs return them only as tensors."""


class SessionSettings(msgspec.Struct, frozen=True):
    """How a program computes a model.

    Without ``optimize`` nodes are computed as written: onnxruntime opens in a third of the time,
    but computing a convolutional network takes 1.5 times as long. ``threads`` defaults to the
    number of numpy's BLAS threads.

    The others are onnxruntime's. Without ``merge_equal`` equal nodes with the same inputs are all
    computed. ``awake`` threads never sleep: faster, unless other processes compute. Without
    ``prepack`` weights keep their layout, so the order of sums changes.
    """

    optimize: bool = True
    threads: int = 0
    merge_equal: bool = True
    awake: bool = True
    prepack: bool = True


DEFAULT_SETTINGS = SessionSettings()


class BackendSession(ABC):
    """An open model. ``inputs`` maps names to shapes (a text or None for a free size).

    ``outputs`` are names, some perhaps twice. ``dtypes`` of all inputs and ``output_types`` are in
    the program's words, whole types if not tensors. ``defaults`` are the shapes of inputs with a
    value in the model. ``version`` is the program's.
    """

    version: str
    inputs: Mapping[str, Sequence[Any]]
    defaults: Mapping[str, Sequence[Any]]
    dtypes: Mapping[str, str]
    outputs: Sequence[str]
    output_types: Sequence[str]

    @property
    def is_open(self) -> bool:
        """Return whether it can run."""
        return True

    @property
    def unreadable(self) -> dict[str, str]:
        """Map outputs without numpy arrays to their types; runs must omit them."""
        known = NARROW if is_installed() else frozenset[str]()
        types = zip(self.outputs, self.output_types, strict=True)
        return {
            name: dtype for name, dtype in types if NO_ARRAY.search(dtype) and dtype not in known
        }

    def close(self) -> None:  # noqa: B027  (one of this process has nothing to release)
        """Do nothing here: the process owns the memory. A confined session releases its memory."""

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Return the outputs for ``feeds`` by name; unknown names are ignored.

        Values are arrays, lists of them (sequences), or None (absent optional values).

        Raises:
            InputError: the program fails, or there are no arrays for an output.
            MemoryLimitError: the memory limit of its process is exceeded.
        """
        if self.unreadable:
            hint = "choose other values with `targets`"
            texts = [
                f"output {name!r} is a {dtype}, which numpy has no arrays of"
                for name, dtype in self.unreadable.items()
            ]
            own = hint if is_installed() else f"{INSTALL}, or {hint}"
            raise InputError([Fault(text, hint=own) for text in texts])
        taken: dict[str, Any] = {}
        for name, value in feeds.items():
            if name in self.dtypes:
                taken[name] = to_raw(value) if hasattr(value, "dtype") else value
        outputs = zip(self.compute(taken), self.output_types, strict=True)
        return [from_raw(value, dtype) if dtype in NARROW else value for value, dtype in outputs]

    @abstractmethod
    def compute(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Return the outputs like :meth:`run`, but as bits if numpy lacks a dtype (``to_raw``)."""


Make = Callable[..., BackendSession]
"""Opens a session from a message: the data beside it, and its values."""


class RemoteSession(BackendSession):
    """A session in another process. All sessions of one ``module`` share it, and its memory limit.

    The process runs ``serve`` of ``module``; ``program`` names its program in messages.
    """

    module: ClassVar[str]
    program: ClassVar[str]

    def _open(
        self,
        *values: Any,
        model: Iterable[bytes | memoryview] | None = None,
        beside: Sequence[Any] = (),
    ) -> None:
        """Open the session there. Raises InputError or MemoryLimitError."""
        self._process, answer, _ = ask_process(
            self.module, self.program, "open", *values, model=model, beside=beside
        )
        self._number, self.version, *shapes, self.dtypes, self.outputs, self.output_types = answer
        self.inputs, self.defaults = (
            {name: tuple(shape) for name, shape in each.items()} for each in shapes
        )

    @property
    def is_open(self) -> bool:
        return hasattr(self, "_number") and self._process.goes_on

    def close(self) -> None:
        if hasattr(self, "_number"):
            self._process.closed.append(self._number)
            del self._number

    def compute(self, feeds: Mapping[str, Any]) -> list[Any]:
        beside: list[Any] = []
        taken = {name: pack(value, beside) for name, value in feeds.items()}
        values, data = self._process.ask("run", self._number, taken, beside=beside)
        return [unpack(value, data) for value in values]

    def __del__(self) -> None:
        self.close()


class _Server:
    """Opens, runs and closes sessions; an answer is a value and the data beside it."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._sessions: dict[int, BackendSession] = {}

    def open(self, data: list[bytes], *values: Any) -> tuple[Any, list[Any]]:
        number = max(self._sessions, default=0) + 1
        session = self._sessions[number] = self._make(data, *values)
        own = (
            session.inputs,
            session.defaults,
            session.dtypes,
            session.outputs,
            session.output_types,
        )
        return (number, session.version, *own), []

    def run(
        self, data: Sequence[bytes], number: int, feeds: Mapping[str, Any]
    ) -> tuple[list[Any], list[Any]]:
        beside: list[Any] = []
        outputs = self._sessions[number].compute(
            {name: unpack(array, data) for name, array in feeds.items()}
        )
        return [pack(value, beside) for value in outputs], beside

    def close(self, data: Sequence[bytes], number: int) -> tuple[None, list[Any]]:
        del self._sessions[number]
        return None, []


def serve_sessions(make: Make, load: Callable[[], object]) -> None:
    """Serve sessions by messages; limits exclude the memory of ``load``."""
    server = _Server(make)
    answer_messages({"open": server.open, "run": server.run, "close": server.close}, load)


def pack(value: Any, beside: list[Any]) -> Any:
    """Return an array, a list (sequences), a map, or nothing as a message; numbers go to ``beside``."""
    import numpy as np  # start-up: the other process starts before this one needs numpy

    if isinstance(value, list):
        return "list", [pack(each, beside) for each in value]
    if isinstance(value, np.generic):  # a scalar in a sequence
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        if not isinstance(value, dict | str | int | float | bool | None):
            raise RefusedError(Fault(f"a value of type {type(value).__name__} cannot be compared"))
        return "plain", value
    if value.dtype.kind == "O":
        return "texts", value.shape, [str(text) for text in value.ravel()]
    beside.append(np.ascontiguousarray(value).data.cast("B") if value.size else b"")
    return "array", value.shape, value.dtype.str, len(beside) - 1


def unpack(packed: Any, data: Sequence[bytes]) -> Any:
    """Return the value before :func:`pack`; ``data`` came beside the message."""
    import numpy as np  # start-up: as above

    kind, *rest = packed
    if kind == "list":
        return [unpack(each, data) for each in rest[0]]
    if kind == "plain":
        return rest[0]
    if kind == "texts":
        return np.array(rest[1], dtype=object).reshape(rest[0])
    shape, dtype, place = rest
    return np.frombuffer(data[place], dtype).reshape(shape)
