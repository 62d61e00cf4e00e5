"""A part of a graph as an ONNX model in memory: what engines that read ONNX compile."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from graphshare.execute.engines.engine import NodesRefusedError, Part
from graphshare.export_onnx.opsets import DEFAULT
from graphshare.export_onnx.translate import UntranslatedError, translate_graph
from graphshare.formats.onnx.messages import encode_tensor
from graphshare.formats.onnx.protobuf import Message
from graphshare.formats.onnx.write import encode_model
from graphshare.ir.graph import Node
from graphshare.ir.onnx import Tensor
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
        content = np.ascontiguousarray(array).tobytes() if array.nbytes < _LEAST else None
        tensors[node] = Tensor(dtype, array.shape, content)
        if content is None:
            arrays[node] = array
    try:
        made = translate_graph(part.graph, part.inference, values, tensors, opset=DEFAULT, name="part")
    except UntranslatedError as error:
        raise NodesRefusedError(error.reasons) from error
    stored = {node.name for node in made.graph.variables()}
    outside = {
        made.variables[node]: np.require(x, requirements=("C", "A"))
        for node, x in arrays.items()
        if made.variables[node] in stored
    }

    def encode(node: Node, name: str) -> Message | None:
        array = outside.get(node.name)
        return None if array is None else encode_tensor(name, str(array.dtype), array.shape, (_NOWHERE, 0, array.nbytes))

    inputs = {
        node: made.variables[node]
        for node in part.graph.variables()
        if node not in tensors and made.variables.get(node) in stored
    }
    return OnnxPart(b"".join(encode_model(made.graph, encode).pieces()), outside, inputs)
