"""Run ONNX's checker. onnx is optional: only this module and type inference import it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection
from importlib.util import find_spec

from graphshare.errors import BugError, Fault, RefusedError, UsageError
from graphshare.execute.backends.onnx_session import EXTRA
from graphshare.files.leftovers import remove


def require_onnx() -> None:
    """Raise UsageError unless onnx and onnxruntime are installed: a proof needs both."""
    missing = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        hint = f"{EXTRA.format('both')}; `verify=False` writes a model without them"
        raise UsageError(
            Fault(
                f"{' and '.join(missing)} {are} not installed, so nothing can be proved", hint=hint
            )
        )


_PLACE = re.compile(r"node name: ([^)]*)\)")
_DTYPE = re.compile(
    r"(?:has unsupported type|typestr|inconsistent type|expected to have type)[^\n]*"
)


def check_model(model: bytes, nodes: Collection[str], folder: str = "") -> None:
    """Check a model with ONNX's checker and shape inference; ``nodes`` are the graph's operators.

    ``folder`` has external data, if any: the checker expects the model beside it.

    Raises:
        RefusedError: an ONNX operator does not support a dtype; its node is named.
        BugError: the checker finds another fault.
    """
    try:
        _check(model, folder)
    except Exception as error:  # it raises errors of the checker, of inference and of protobuf
        place, complaint = _PLACE.search(str(error)), _DTYPE.search(str(error))
        node = _find_node(place[1], nodes) if place is not None and complaint is not None else None
        # Other complaints mean a wrong translation.
        if node is None:
            raise BugError(f"ONNX's checker refuses the model: {error}") from error
        hint = "convert the data to another dtype, or export only the operators before it"
        raise RefusedError(
            Fault(f"it cannot be exported with these dtypes: {error}", node=node, hint=hint)
        ) from error


def _check(model: bytes, folder: str) -> None:
    import onnx  # optional, and slow to import

    if not folder:
        onnx.checker.check_model(onnx.load_from_string(model), full_check=True)
        return
    fd, path = tempfile.mkstemp(dir=folder, prefix=".graphshare-", suffix=".onnx")
    try:
        # Windows opens no temporary file twice: close it before the checker reads it.
        with open(fd, "wb") as file:
            file.write(model)
        onnx.checker.check_model(path, full_check=True)
    finally:
        remove(path)


def _find_node(place: str, nodes: Collection[str]) -> str | None:
    """An ONNX node's name begins with the operator's name and a slash."""
    parts = place.split("/")
    names = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((name for name in names if name in nodes), None)
