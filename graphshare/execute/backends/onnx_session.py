"""onnxruntime, which is optional: the only module that imports it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from graphshare.errors import Fault, InputError, UsageError, install_command

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions

    from graphshare.ops.kernel import Array

_QUIET = 4  # onnxruntime's severity level above which it prints nothing
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
_WHEELS = "onnxruntime has wheels for CPython 3.10 to 3.14 on Linux (glibc), macOS and Windows"
NO_ARRAY = re.compile(r"\b(bfloat16|float[48]\w+|u?int[24])\b")
"""Finds in a type the dtypes that numpy has no arrays of. onnxruntime returns the bytes of some as integers."""
EXTRA = f"{install_command('onnx')} installs {{}}; {_WHEELS}"


class OnnxSession:
    """A session of onnxruntime. ``inputs`` are the shapes of inputs by name (a text for a free size), ``outputs`` names.

    ``defaults`` are the shapes of inputs that need no feed: the model has a value for each. ``dtypes`` are those of all of them
    in onnxruntime's words (``float``); of what is not a tensor the whole type. ``unreadable`` are the types of outputs that
    numpy has no arrays for, by name: it can run without them alone.
    """

    def __init__(
        self,
        model: str | bytes,
        folder: str = "",
        *,
        arrays: Mapping[str, Array] | None = None,
        merge_equal: bool = True,
        optimize: bool = True,
        awake: bool = True,
        threads: int = 0,
        prepack: bool = True,
        where: str = "",
    ) -> None:
        """Load a model: a path, or its bytes, whose external data is ``arrays`` by name or lies in ``folder``.

        Arrays are not copied and must not change. Without ``merge_equal`` nodes that compute the same from the same inputs are
        all computed. Without ``optimize`` nodes are computed as they are: opening takes a third of the time, and a network of
        convolutions half as much longer to compute. ``awake`` threads wait for work without sleeping, which is faster unless
        others compute meanwhile. ``threads`` are as many as numpy's BLAS has unless they are given. Without ``prepack`` weights
        stay as they lie in the file, which changes the order of sums. ``where`` is the name of a copied model in messages.

        Raises:
            UsageError: onnxruntime is not installed.
            InputError: it refuses the model.
        """
        require_runtime()
        onnxruntime = load_runtime()
        options = _make_options(folder, optimize=optimize, awake=awake, threads=threads, prepack=prepack)
        if arrays:
            self._arrays = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()}
            options.add_external_initializers(list(self._arrays), list(self._arrays.values()))
        disabled = [] if merge_equal else ["CommonSubexpressionElimination"]
        self.version: str = onnxruntime.__version__
        try:
            self._session: InferenceSession = onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"], disabled_optimizers=disabled
            )
            self.inputs = {value.name: tuple(value.shape) for value in self._session.get_inputs()}
            self.defaults = {value.name: tuple(value.shape) for value in self._session.get_overridable_initializers()}
            inputs = (*self._session.get_inputs(), *self._session.get_overridable_initializers())
            self.dtypes = {value.name: _read_dtype(value.type) for value in inputs}
            outputs = {value.name: value.type for value in self._session.get_outputs()}
            self.outputs = list(outputs)
            self.unreadable = {name: _read_dtype(text) for name, text in outputs.items() if NO_ARRAY.search(text)}
        except Exception as error:  # its exceptions have no class of their own; names that are not UTF-8 raise another
            name = where or (model if isinstance(model, str) else "")
            raise InputError(Fault(f"onnxruntime {self.version} refuses the model: {error}", where=name)) from error

    @property
    def is_open(self) -> bool:
        """Return whether it can run."""
        return True

    def close(self) -> None:
        """Keep the session, whose memory is that of this process; a confined one gives its memory back."""

    def run(self, feeds: Mapping[str, Array]) -> list[Any]:
        """Return the outputs for ``feeds`` by name; those that the model does not take are left out.

        Raises:
            InputError: onnxruntime fails, or numpy has no arrays for an output.
        """
        if self.unreadable:
            hint = "choose other values with `targets`"
            texts = [f"output {name!r} is a {dtype}, which numpy has no arrays of" for name, dtype in self.unreadable.items()]
            raise InputError([Fault(text, hint=hint) for text in texts])
        try:
            outputs: list[Any] = self._session.run(None, {name: x for name, x in feeds.items() if name in self.dtypes})
        except Exception as error:  # as above
            raise InputError(Fault(f"onnxruntime {self.version} fails: {error}")) from error
        return outputs


def _read_dtype(text: str) -> str:
    return text.removeprefix("tensor(").removesuffix(")") if text.startswith("tensor(") else text


def _make_options(folder: str, *, optimize: bool, awake: bool, threads: int, prepack: bool) -> SessionOptions:
    """Return the options of a session; the arguments are those of :class:`OnnxSession`."""
    onnxruntime = load_runtime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _QUIET
    # By itself onnxruntime takes one thread per physical core, whatever the user has limited BLAS to.
    options.intra_op_num_threads = threads or count_threads()
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if not awake:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not prepack:
        options.add_session_config_entry("session.disable_prepacking", "1")
    if folder:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    return options


def count_threads() -> int:
    """Return the number of threads of a session: as many as numpy's BLAS has."""
    for variable in _THREADS:
        number = os.environ.get(variable, "")
        if number.isdecimal() and int(number) > 0:
            return int(number)
    # A container or taskset may give this process fewer cores than the machine has.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def has_runtime() -> bool:
    """Return whether onnxruntime is installed, without importing it."""
    return find_spec("onnxruntime") is not None


def load_runtime() -> ModuleType:
    """Return onnxruntime, imported before there is a model where that is worth its time and memory."""
    # It keeps telemetry in the home of the user, to be sent; its own function to switch that off comes too late.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime  # optional, and slow to import

    return onnxruntime  # type: ignore[no-any-return]


def require_runtime() -> None:
    """Raise UsageError where onnxruntime is not installed."""
    if not has_runtime():
        raise UsageError(Fault("onnxruntime is not installed", hint=EXTRA.format("it")))
