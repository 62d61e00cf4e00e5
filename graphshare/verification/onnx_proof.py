"""The proof of an exported model: onnxruntime against the executor, on equal inputs, and branch against branch."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from graphshare.formats.params.comparison import Comparison, compare_arrays
from graphshare.ops.kernel import Array
from graphshare.text.format import format_count, format_names
from graphshare.text.short_repr import ShortRepr

TOLERANCES = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-9}
"""By how much numbers may differ, relative to the largest in their array; integers may not, but for one step of int8."""
_STEP = ("int8", "uint8")


class OutputProof(msgspec.Struct, frozen=True):
    """How one output of onnxruntime compares with the executor's.

    ``tolerance`` is what would have passed: the largest distance, relative to the largest finite number.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    max_abs: float
    max_rel: float
    tolerance: float
    holds: bool
    reason: str = ""


class BranchProof(msgspec.Struct, frozen=True):
    """Two branches in onnxruntime, on equal inputs: how many pairs of ``outputs`` there are, and which ``differ``."""

    reference: str
    branch: str
    outputs: int
    differ: tuple[str, ...]


class Proof(ShortRepr, msgspec.Struct, frozen=True):
    """What onnxruntime of version ``runtime`` computed beside the executor; true if all holds.

    ``first`` is the first inner value that differs, by MXNet's name, where an output does.
    """

    runtime: str
    outputs: tuple[OutputProof, ...]
    branches: tuple[BranchProof, ...] = ()
    first: str = ""

    def __bool__(self) -> bool:
        return bool(self.outputs) and all(o.holds for o in self.outputs) and not any(b.differ for b in self.branches)

    @property
    def verdict(self) -> str:
        """One line."""
        worst = max((o.tolerance for o in self.outputs), default=0.0)
        if not self:
            wrong = [o.name for o in self.outputs if not o.holds] + [name for b in self.branches for name in b.differ]
            first = f"; the first value that differs is {self.first}" if self.first else ""
            return f"NOT EQUAL in onnxruntime: {format_names(wrong)}{first}"
        largest = max((o.max_abs for o in self.outputs), default=0.0)
        text = (
            f"EQUAL in onnxruntime: {format_count(len(self.outputs), 'output')}, max abs {largest:.3g}, "
            f"{worst:.3g} of the largest value"
        )
        branches = ", ".join(b.branch for b in self.branches)
        return f"{text}; bit for bit in the branches {branches}" if branches else text


def compare_outputs(
    names: Sequence[str], found: Sequence[Array], wanted: Sequence[Array], tolerance: float | None = None
) -> tuple[OutputProof, ...]:
    """Compare what onnxruntime gave with what the executor computed; ``tolerance`` is for floats of every dtype."""
    return tuple(_compare(*of, tolerance) for of in zip(names, found, wanted, strict=True))


def _compare(name: str, found: Array, wanted: Array, tolerance: float | None) -> OutputProof:
    found = np.asarray(found)
    dtype = str(wanted.dtype)
    finite = np.abs(wanted[np.isfinite(wanted)]) if wanted.dtype.kind == "f" else np.abs(wanted.astype(np.float64))
    largest = float(finite.max(initial=0)) or 1.0
    limit = (tolerance if tolerance is not None else TOLERANCES.get(dtype, 0.0)) if wanted.dtype.kind == "f" else 0.0
    atol = 1.0 if dtype in _STEP else limit * largest
    compared: Comparison = compare_arrays(found, wanted, atol=atol, rtol=0.0)
    return OutputProof(
        name,
        tuple(wanted.shape),
        dtype,
        compared.max_abs,
        compared.max_rel,
        compared.max_abs / largest,
        bool(compared),
        compared.reason,
    )
