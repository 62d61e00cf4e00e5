"""Measure inner values in onnxruntime: constants, and types neither stated nor inferred by ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import GraphshareError
from graphshare.execute.backends.backend import open_computation
from graphshare.ir.graph import Entry, Node
from graphshare.ir.onnx import DTYPE_CODES, Dimensions, Tensor
from graphshare.ir.terms import Place
from graphshare.resources import is_chosen_limit

_LARGEST = 1 << 16  # bytes of a value that becomes a constant


def measure_types(
    model: Checkpoint, entries: Sequence[Entry]
) -> dict[Place, tuple[str, Dimensions]]:
    """Return tensors' dtypes and open shapes on drawn inputs; none if the model cannot be computed."""
    tensors = (
        (place, value)
        for place, value in measure_values(model, entries).items()
        if isinstance(value, np.ndarray)
    )
    named = (
        (place, "string" if value.dtype.kind in "OU" else value.dtype.name, value.ndim)
        for place, value in tensors
    )
    # Sizes may differ for other inputs.
    return {place: (dtype, [None] * rank) for place, dtype, rank in named if dtype in DTYPE_CODES}


def measure_constants(model: Checkpoint, entries: Sequence[Entry]) -> dict[Node, Tensor]:
    """Return the values of operators that depend on no input, if they are small arrays of numbers."""
    values = measure_values(model, entries)
    arrays = {
        node: np.asarray(value)
        for (node, _), value in values.items()
        if isinstance(value, (np.ndarray, np.generic))
    }
    return {
        node: Tensor(
            array.dtype.name, array.shape, array.astype(array.dtype.newbyteorder("<")).tobytes()
        )
        for node, array in arrays.items()
        if array.dtype.kind in "biuf" and array.nbytes <= _LARGEST
    }


def measure_values(model: Checkpoint, entries: Sequence[Entry]) -> dict[Place, Any]:
    """Compute ``entries`` on drawn inputs without optimizations; failed ones are left out."""
    try:
        graph = msgspec.structs.replace(model.graph, heads=tuple(entries))
        computation = open_computation(msgspec.structs.replace(model, graph=graph), exact=True)
        outputs = computation.run(computation.draw().values).outputs
    except GraphshareError as error:
        if is_chosen_limit(error):
            raise
        # One operator unknown to onnxruntime must not hide the others.
        parts = [measure_values(model, [entry]) for entry in entries] if len(entries) > 1 else []
        return {place: value for part in parts for place, value in part.items()}
    return {(entry.node, entry.index): value for entry, value in zip(entries, outputs, strict=True)}
