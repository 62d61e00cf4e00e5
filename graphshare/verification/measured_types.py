"""The types of values that neither the file states nor ONNX infers, as onnxruntime computes them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import GraphshareError
from graphshare.execute.backends.backend import open_computation
from graphshare.formats.onnx.messages import Dimensions
from graphshare.ir.graph import Entry, Node
from graphshare.ir.onnx import DTYPE_CODES
from graphshare.resources import is_chosen_limit


def measure_types(model: Checkpoint, entries: Sequence[Entry]) -> dict[tuple[Node, int], tuple[str, Dimensions]]:
    """Return the dtypes and open shapes that tensors have for drawn inputs; none where the model is not computed."""
    try:
        computation = open_computation(
            msgspec.structs.replace(model.graph, heads=tuple(entries)), model.parameter_file, model.where
        )
        outputs = computation.run(computation.draw().values).outputs
    except GraphshareError as error:
        if is_chosen_limit(error):
            raise
        return {}
    tensors = ((entry, value) for entry, value in zip(entries, outputs, strict=True) if isinstance(value, np.ndarray))
    named = ((entry, "string" if value.dtype.kind in "OU" else value.dtype.name, value.ndim) for entry, value in tensors)
    # Sizes may be others for other inputs.
    return {(entry.node, entry.index): (dtype, [None] * rank) for entry, dtype, rank in named if dtype in DTYPE_CODES}
