"""Sessions of onnxruntime, an optional package: the only module that imports it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from graphshare.errors import Fault, InputError, UsageError, install_command
from graphshare.execute.backends.session import DEFAULT_SETTINGS, BackendSession, SessionSettings
from graphshare.formats.params.narrow_dtypes import NARROW, read_raw
from graphshare.ir.onnx import dtype_code
from graphshare.resources import count_threads

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions

    from graphshare.ops.kernel import Array

_QUIET = 4  # onnxruntime prints nothing below this severity level
_WHEELS = "onnxruntime has wheels for CPython 3.10 to 3.14 on Linux (glibc), macOS and Windows"
EXTRA = f"{install_command('onnx')} installs {{}}; {_WHEELS}"


class OnnxSession(BackendSession):
    """A session of onnxruntime; its names of dtypes (``float``) are onnxruntime's."""

    def __init__(
        self,
        model: str | bytes,
        folder: str = "",
        *,
        arrays: Mapping[str, Array] | None = None,
        settings: SessionSettings = DEFAULT_SETTINGS,
    ) -> None:
        """Load a model from a path or bytes; external data is in ``arrays`` or in ``folder``.

        Arrays are not copied and must not change.

        Raises:
            UsageError: onnxruntime is not installed.
            InputError: it refuses the model.
        """
        require_runtime()
        onnxruntime = load_runtime()
        options = _make_options(folder, settings)
        if arrays:
            self._arrays = {
                name: onnxruntime.OrtValue.ortvalue_from_numpy(array)
                for name, array in arrays.items()
            }
            options.add_external_initializers(list(self._arrays), list(self._arrays.values()))
        disabled = [] if settings.merge_equal else ["CommonSubexpressionElimination"]
        self.version: str = onnxruntime.__version__
        try:
            self._session: InferenceSession = onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"], disabled_optimizers=disabled
            )
            self.inputs = {value.name: tuple(value.shape) for value in self._session.get_inputs()}
            self.defaults = {
                value.name: tuple(value.shape)
                for value in self._session.get_overridable_initializers()
            }
            inputs = (*self._session.get_inputs(), *self._session.get_overridable_initializers())
            self.dtypes = {value.name: _read_dtype(value.type) for value in inputs}
            self.outputs = [value.name for value in self._session.get_outputs()]
            self.output_types = [_read_dtype(value.type) for value in self._session.get_outputs()]
        except Exception as error:  # no common class; names not in UTF-8 raise another
            name = model if isinstance(model, str) else ""
            raise InputError(
                Fault(f"onnxruntime {self.version} refuses the model: {error}", where=name)
            ) from error

    def compute(self, feeds: Mapping[str, Any]) -> list[Any]:
        try:
            feeds = {name: self._wrap(value, self.dtypes[name]) for name, value in feeds.items()}
            if NARROW.isdisjoint(self.output_types):
                plain: list[Any] = self._session.run(None, feeds)
                return plain
            return self._compute_narrow(feeds)
        except Exception as error:  # as above
            raise InputError(Fault(f"onnxruntime {self.version} fails: {error}")) from error

    def _wrap(self, value: Any, dtype: str) -> Any:
        """Return a value for onnxruntime: bits with a dtype if numpy lacks it."""
        if dtype not in NARROW or value is None:
            return value
        return load_runtime().OrtValue.ortvalue_from_numpy_with_onnx_type(value, dtype_code(dtype))

    def _compute_narrow(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Return outputs in dtypes that numpy lacks, from onnxruntime's own memory."""
        make = load_runtime().OrtValue.ortvalue_from_numpy
        wrapped = {
            name: make(value) if hasattr(value, "dtype") else value for name, value in feeds.items()
        }
        values = self._session.run_with_ort_values(None, wrapped)
        tensors = [
            _read_tensor(value, dtype)
            for value, dtype in zip(values, self.output_types, strict=True)
        ]
        # Sequences cannot be read from its memory: all but tensors are computed again.
        rest = [
            name for name, value in zip(self.outputs, values, strict=True) if not value.is_tensor()
        ]
        others = iter(self._session.run(rest, feeds) if rest else ())
        return [
            array if value.is_tensor() else next(others)
            for array, value in zip(tensors, values, strict=True)
        ]


def _read_tensor(value: Any, dtype: str) -> Any:
    """Return a tensor, or its bits if numpy lacks the dtype; None for a sequence."""
    if not value.is_tensor():
        return None
    if dtype not in NARROW:
        return value.numpy()
    import numpy as np  # start-up: as in narrow_dtypes

    shape, size = tuple(value.shape()), value.tensor_size_in_bytes()
    if not size:
        return read_raw(b"", dtype, shape)
    # numpy makes an array at the bytes' address, and copies it while they exist.
    memory = {"version": 3, "shape": (size,), "typestr": "|u1", "data": (value.data_ptr(), True)}
    return read_raw(np.asarray(SimpleNamespace(__array_interface__=memory)).data, dtype, shape)


def _read_dtype(text: str) -> str:
    return text.removeprefix("tensor(").removesuffix(")") if text.startswith("tensor(") else text


def _make_options(folder: str, settings: SessionSettings) -> SessionOptions:
    onnxruntime = load_runtime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _QUIET
    # By default onnxruntime takes a thread per physical core and ignores limits on BLAS.
    options.intra_op_num_threads = settings.threads or count_threads()
    if not settings.optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if not settings.awake:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not settings.prepack:
        options.add_session_config_entry("session.disable_prepacking", "1")
    if folder:
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", folder
        )
    return options


def has_runtime() -> bool:
    """Return whether onnxruntime is installed, without importing it."""
    return find_spec("onnxruntime") is not None


def load_runtime() -> ModuleType:
    """Return onnxruntime; an import before there is a model saves time later."""
    # onnxruntime stores telemetry in the user's home; its own switch acts too late.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime  # optional, and slow to import

    return onnxruntime  # type: ignore[no-any-return]


def require_runtime() -> None:
    """Raise UsageError if onnxruntime is not installed."""
    if not has_runtime():
        raise UsageError(Fault("onnxruntime is not installed", hint=EXTRA.format("it")))
