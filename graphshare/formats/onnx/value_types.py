"""The types of outputs that no file states: ONNX's own inference of shapes finds them, where the package is installed.

ONNX's checker wants the dtype and the shape of each output of a model; for inner values few files state them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from graphshare.formats.onnx.protobuf import Message
from graphshare.formats.onnx.stored import Span, Stored, find_stored, outputs_of
from graphshare.formats.onnx.tensors import DATA_FIELDS
from graphshare.formats.onnx.wire import encode_text, scan
from graphshare.formats.onnx.write import encode_model
from graphshare.ir.graph import EMPTY, Entry, Graph, Node

_LARGEST = 4096  # bytes of an initializer that may matter to shapes


def list_untyped(graph: Graph) -> list[Entry]:
    """Return the heads whose dtype and shape no file states."""
    return [head for head in graph.heads if not _is_typed(find_stored(head.node.details), head.index)]


def infer_types(graph: Graph, heads: Sequence[Entry]) -> Mapping[str, bytes]:
    """Return TypeProtos for the names of ``heads``; those that ONNX infers, and none where it is not installed."""
    if not heads or find_spec("onnx") is None:
        return EMPTY
    from onnx import shape_inference  # optional, and slow to import

    model = b"".join(encode_model(graph, _leave_data_out).pieces())
    try:
        inferred = shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception:  # it raises errors of inference and of protobuf; without it the outputs have no type, as before
        return EMPTY
    types = {info.name: info.type for info in (*inferred.value_info, *inferred.output)}
    names = [outputs_of(head.node)[head.index] for head in heads]
    return {name: types[name].SerializeToString() for name in names if name in types and types[name].ByteSize()}


def _is_typed(stored: Stored, index: int) -> bool:
    values = stored.values
    return index in values.results or index in values.infos or stored.input is not None


def _leave_data_out(node: Node, name: str) -> Message | None:
    """Return a large initializer without its data, and without a place where it would be."""
    stored = find_stored(node.details)
    tensor, place = stored.tensor, stored.place
    if tensor is None or place is None or place.end - place.start <= _LARGEST:
        return None
    message = Message()
    for field in scan(tensor.span.file.data, tensor.span.start, tensor.span.end):
        if field[0] == tensor.number:
            message.add_bytes(tensor.number, encode_text(name))
        elif field[0] not in DATA_FIELDS:
            message.add_encoded(Span(tensor.span.file, field[2], field[4]))
    return message
