"""ONNX's checker, which is optional: only this module and ``formats.onnx.value_types`` import onnx."""

from __future__ import annotations

from importlib.util import find_spec

from graphshare.errors import BugError, Fault, UsageError
from graphshare.execute.engines.onnx_session import EXTRA


def require_judges() -> None:
    """Raise UsageError where onnx or onnxruntime, which a proof needs, is not installed."""
    missing = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        hint = f"{EXTRA.format('both')}; `export --no-verify` writes a model without them"
        raise UsageError(Fault(f"{' and '.join(missing)} {are} not installed, so nothing can be proved", hint=hint))


def check_model(model: bytes) -> None:
    """Check a model with ONNX's checker, its inference of shapes included. Raises BugError where it finds a fault."""
    import onnx  # optional, and slow to import

    try:
        onnx.checker.check_model(onnx.load_from_string(model), full_check=True)
    except Exception as error:  # it raises errors of the checker, of inference and of protobuf
        raise BugError(f"ONNX's checker refuses the model: {error}") from error
