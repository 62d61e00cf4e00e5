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
    types: dict[Place, tuple[str, Dimensions]] = {}
    for place, value in measure_values(model, entries).items():
        if not isinstance(value, np.ndarray):
            continue
        dtype = "string" if value.dtype.kind in "OU" else value.dtype.name
        if dtype in DTYPE_CODES:
            # Sizes may differ for other inputs.
            types[place] = dtype, [None] * value.ndim
    return types


def measure_constants(model: Checkpoint, entries: Sequence[Entry]) -> dict[Node, Tensor]:
    """Return the values of operators that depend on no input, if they are small arrays of numbers."""
    values = measure_values(model, entries)
    arrays = {
        node: np.asarray(value)
        for (node, _), value in values.items()
        if isinstance(value, (np.ndarray, np.generic))
    }
    constants: dict[Node, Tensor] = {}
    for node, array in arrays.items():
        if array.dtype.kind in "biuf" and array.nbytes <= _LARGEST:
            data = array.astype(array.dtype.newbyteorder("<")).tobytes()
            constants[node] = Tensor(array.dtype.name, array.shape, data)
    return constants


def measure_values(model: Checkpoint, entries: Sequence[Entry]) -> dict[Place, Any]:
    """Compute ``entries`` on drawn inputs without optimizations; omit failed ones."""
    try:
        graph = msgspec.structs.replace(model.graph, heads=tuple(entries))
        computation = open_computation(msgspec.structs.replace(model, graph=graph), exact=True)
        outputs = computation.run(computation.draw().values).outputs
    except GraphshareError as error:
        if is_chosen_limit(error):
            raise
        # An operator unknown to onnxruntime must not hide the others.
        measured: dict[Place, Any] = {}
        if len(entries) > 1:
            for entry in entries:
                measured |= measure_values(model, [entry])
        return measured
    return {(entry.node, entry.index): value for entry, value in zip(entries, outputs, strict=True)}
