"""onnxruntime and ONNX's checker, which are optional: the only module that imports them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from graphshare.errors import BugError, Fault, InputError, UsageError
from graphshare.ops.kernel import Array

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_QUIET = 4  # onnxruntime's severity level above which it prints nothing


class Runtime:
    """A session of onnxruntime. ``inputs`` are the shapes of inputs by name (a text for a free size), ``outputs`` names."""

    def __init__(self, model: str | bytes, folder: str = "", *, merge_equal: bool = True) -> None:
        """Load a model: a path, or its bytes, whose external data lies in ``folder``.

        Without ``merge_equal`` nodes that compute the same from the same inputs are all computed.

        Raises:
            UsageError: onnxruntime is not installed.
            InputError: it refuses the model.
        """
        require_runtime()
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = _QUIET
        if folder:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        disabled = [] if merge_equal else ["CommonSubexpressionElimination"]
        self.version: str = onnxruntime.__version__
        try:
            self._session: InferenceSession = onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"], disabled_optimizers=disabled
            )
        except Exception as error:  # its exceptions have no class of their own
            where = model if isinstance(model, str) else ""
            raise InputError(Fault(f"onnxruntime {self.version} refuses the model: {error}", where=where)) from error
        self.inputs = {value.name: tuple(value.shape) for value in self._session.get_inputs()}
        self.outputs = [value.name for value in self._session.get_outputs()]

    def run(self, feeds: Mapping[str, Array]) -> list[Any]:
        """Return the outputs for ``feeds`` by name; those that the model does not take are left out."""
        outputs: list[Any] = self._session.run(None, {name: x for name, x in feeds.items() if name in self.inputs})
        return outputs


def require_runtime() -> None:
    """Raise UsageError where onnx or onnxruntime is not installed."""
    missing = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        hint = "pip install 'graphshare[onnx]' gives both; `export --no-verify` writes a model without them"
        raise UsageError(Fault(f"{' and '.join(missing)} {are} not installed, so nothing can be proved", hint=hint))


def check_model(model: bytes) -> None:
    """Check a model with ONNX's checker, its inference of shapes included. Raises BugError where it finds a fault."""
    import onnx

    try:
        onnx.checker.check_model(onnx.load_from_string(model), full_check=True)
    except Exception as error:  # it raises errors of the checker, of inference and of protobuf
        raise BugError(f"ONNX's checker refuses the model: {error}") from error
