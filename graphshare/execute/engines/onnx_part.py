"""A part of a graph as an ONNX model in memory: what engines that read ONNX compile."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from graphshare.execute.engines.engine import NodesRefusedError, Part
from graphshare.export_onnx.opsets import DEFAULT, IR_VERSIONS, list_versions
from graphshare.export_onnx.translate import UntranslatedError, translate_graph
from graphshare.formats.onnx.encode import encode_model
from graphshare.ir.graph import Node
from graphshare.ir.onnx import Bytes, ExternalData, OnnxModel, Tensor
from graphshare.ops.kernel import Array
from graphshare.ops.translation import Value

_LEAST = 1024  # bytes; smaller constants, such as shapes and axes, are in the model, where they are read at its compilation
_NOWHERE = "memory"


class OnnxPart(msgspec.Struct, frozen=True, eq=False):
    """A model of one part. ``arrays`` are the initializers that its ``data`` does not hold, by name.

    ``inputs`` are the model's names of the variables that it reads; its outputs are the heads in order.
    """

    data: bytes
    arrays: Mapping[str, Array]
    inputs: Mapping[Node, str]


def translate_part(part: Part) -> OnnxPart:
    """Translate a part for its shapes. Raises NodesRefusedError for nodes that have no translation."""
    values: dict[Node, Value] = {}
    tensors: dict[Node, Tensor] = {}
    arrays: dict[Node, Array] = {}
    for node, array in part.constants.items():
        if node not in part.inference.shapes:
            continue
        dtype = str(array.dtype)
        values[node] = Value("", array.shape, dtype, lambda array=array: array)  # type: ignore[misc]
        if array.nbytes < _LEAST:
            tensors[node] = Tensor("", dtype, array.shape, Bytes(np.ascontiguousarray(array).tobytes()))
        else:
            arrays[node] = array
            tensors[node] = Tensor("", dtype, array.shape, ExternalData(_NOWHERE, 0, array.nbytes))
    try:
        made = translate_graph(part.graph, part.inference, values, tensors, opset=DEFAULT, name="part")
    except UntranslatedError as error:
        raise NodesRefusedError(error.reasons) from error
    model = OnnxModel(made.graph, list_versions(made.graph, DEFAULT), IR_VERSIONS[DEFAULT])
    stored, read = {tensor.name for tensor in made.graph.initializers}, {value.name for value in made.graph.inputs}
    outside = {
        made.names[node, 0]: np.require(x, requirements=("C", "A"))
        for node, x in arrays.items()
        if made.names[node, 0] in stored
    }
    inputs = {node: made.names[node, 0] for node in part.graph.variables() if made.names.get((node, 0)) in read}
    return OnnxPart(b"".join(encode_model(model).pieces()), outside, inputs)
