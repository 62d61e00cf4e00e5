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
"""Finds in a type the dtypes that numpy has no arrays of: ml_dtypes has, but programs return them only as tensors."""


class SessionSettings(msgspec.Struct, frozen=True):
    """How a program computes a model.

    Without ``optimize`` nodes are computed as written: in onnxruntime opening takes a third of the
    time, and a network of convolutions takes half as much longer to compute. ``threads`` defaults
    to the number of threads of numpy's BLAS.

    The others are onnxruntime's. Without ``merge_equal`` nodes that compute the same from the same
    inputs are all computed. ``awake`` threads wait for work without sleeping: faster, unless other
    processes compute meanwhile. Without ``prepack`` weights keep their layout in the file; this
    changes the order of sums.
    """

    optimize: bool = True
    threads: int = 0
    merge_equal: bool = True
    awake: bool = True
    prepack: bool = True


DEFAULT_SETTINGS = SessionSettings()


class Session(ABC):
    """A model that is open. ``inputs`` are the shapes of inputs by name (a text or None for a free
    size), ``outputs`` names.

    An output that the model lists twice is there twice. ``output_types`` are the types of outputs
    in the words of ``dtypes``.

    ``defaults`` are the shapes of inputs that need no feed: the model has a value for each.
    ``dtypes`` are the dtypes of all inputs in the program's words; the whole type if the input is
    not a tensor. ``version`` is the program's version.
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
        """Return by name the types of outputs for which there are no arrays; runs must leave these outputs out."""
        known = NARROW if is_installed() else frozenset[str]()
        types = zip(self.outputs, self.output_types, strict=True)
        return {
            name: dtype for name, dtype in types if NO_ARRAY.search(dtype) and dtype not in known
        }

    def close(self) -> None:  # noqa: B027  (one of this process has nothing to release)
        """Keep the session: its memory belongs to this process. A confined session gives its memory back."""

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Return the outputs for ``feeds`` by name; those that the model does not take are left out.

        Values are arrays, lists of them (sequences), or None (an optional value that is not there).

        Raises:
            InputError: onnxruntime fails, or there are no arrays for an output.
            MemoryLimitError: it takes more memory than the limit of its process.
        """
        if self.unreadable:
            hint = "choose other values with `targets`"
            texts = [
                f"output {name!r} is a {dtype}, which numpy has no arrays of"
                for name, dtype in self.unreadable.items()
            ]
            own = hint if is_installed() else f"{INSTALL}, or {hint}"
            raise InputError([Fault(text, hint=own) for text in texts])
        taken = {
            name: to_raw(x) if hasattr(x, "dtype") else x
            for name, x in feeds.items()
            if name in self.dtypes
        }
        outputs = zip(self.compute(taken), self.output_types, strict=True)
        return [from_raw(value, dtype) if dtype in NARROW else value for value, dtype in outputs]

    @abstractmethod
    def compute(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Return the outputs for ``feeds`` as :meth:`run`, but as bits where numpy lacks the dtype (``to_raw``)."""


Make = Callable[..., Session]
"""Opens a session from the content of a message: the data beside it, and its values."""


class RemoteSession(Session):
    """A session in another process. All sessions of one module share it: their memory together counts against a limit.

    The process runs ``serve`` of ``module``; ``program`` is the name of its program in messages.
    """

    module: ClassVar[str]
    program: ClassVar[str]

    def _open(
        self,
        *values: Any,
        model: Iterable[bytes | memoryview] | None = None,
        beside: Sequence[Any] = (),
    ) -> None:
        """Open the session there. Raises InputError where the program refuses the model, MemoryLimitError."""
        self._process, answer, _ = ask_process(
            self.module, self.program, "open", *values, model=model, beside=beside
        )
        self._number, self.version, *shapes, self.dtypes, self.outputs, self.output_types = answer
        self.inputs, self.defaults = (
            {name: tuple(shape) for name, shape in each.items()} for each in shapes
        )

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
        taken = {name: pack(value, beside) for name, value in feeds.items()}
        values, data = self._process.ask("run", self._number, taken, beside=beside)
        return [unpack(value, data) for value in values]

    def __del__(self) -> None:
        self.close()


class _Server:
    """Opens, runs and closes sessions as messages say. An answer is a value and the data beside it."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._sessions: dict[int, Session] = {}

    def open(self, data: list[bytes], *values: Any) -> tuple[Any, list[Any]]:
        """Open a session; return its number and the facts about its model."""
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
        """Return the outputs of a session."""
        beside: list[Any] = []
        outputs = self._sessions[number].compute(
            {name: unpack(array, data) for name, array in feeds.items()}
        )
        return [pack(value, beside) for value in outputs], beside

    def close(self, data: Sequence[bytes], number: int) -> tuple[None, list[Any]]:
        """Close a session."""
        del self._sessions[number]
        return None, []


def serve_sessions(make: Make, load: Callable[[], object]) -> None:
    """Open, run and close sessions as the messages say; the memory of ``load`` does not count against limits."""
    server = _Server(make)
    answer_messages({"open": server.open, "run": server.run, "close": server.close}, load)


def pack(value: Any, beside: list[Any]) -> Any:
    """Return a value in the form of a message: an array, a list of them (sequences), a map, or nothing.

    The numbers of an array are added to ``beside``.
    """
    import numpy as np  # start-up: the process is started before this one needs numpy

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
    """Return the value that :func:`pack` was given; ``data`` is the data that came beside the message."""
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
