"""Two graphs as the branches of one If: the operator, its boolean input, and the types of both branches in one."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from graphshare.formats.model_format import StaticType
from graphshare.formats.onnx.compose import make_input, make_operator, make_typed_input
from graphshare.formats.onnx.messages import describe_type
from graphshare.formats.onnx.stored import OnnxSource, ValueMessages, find_stored, replace_stored, source_of
from graphshare.formats.onnx.types import TensorType, is_complete
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import Body, list_bodies

THEN, ELSE = "then_branch", "else_branch"


def make_switch(
    name: str, bodies: tuple[Graph, Graph], outputs: Sequence[tuple[str, Sequence[StaticType | None]]]
) -> tuple[Node, Node]:
    """Return the boolean input ``name`` of one element, and an If without inputs; see :class:`ModelFormat`."""
    graphs = {key: replace(body, source=_enclose(body)) for key, body in zip((THEN, ELSE), bodies, strict=True)}
    operator = make_operator("If", [output for output, _ in outputs], graphs, label=name)
    results = {}
    for index, (output, types) in enumerate(outputs):
        data = _encode_common_type(types)
        declared = find_stored(make_typed_input(output, data).details).input if data else None
        if declared is not None:
            results[index] = declared
    return make_input(name, "bool", (1,)), replace_stored(operator, values=ValueMessages(results=results))


def open_input(node: Node, types: Sequence[StaticType | None]) -> Node:
    """Return an input whose sizes are those that all types have; the same node where that is all of them."""
    if all(other == types[0] for other in types):
        return node
    data = _encode_common_type(types)
    return replace_stored(node, input=find_stored(make_typed_input(node.name, data).details).input) if data else node


def find_switch(node: Node) -> tuple[Entry, tuple[Body, Body]] | None:
    """Return what an If switches on, and its bodies; None for other operators."""
    bodies = list_bodies(node)
    if node.op != "If" or node.details.domain or bodies.keys() != {THEN, ELSE}:
        return None
    return node.inputs[0], (bodies[THEN], bodies[ELSE])


def _enclose(body: Graph) -> OnnxSource:
    """Return the source of the main graph of a model as that of a body: without fields of the model, and not as it was read."""
    return replace(source_of(body), fields=(), nodes=(), heads=())


def _encode_common_type(types: Sequence[StaticType | None]) -> bytes:
    """Return the TypeProto of the dtype and rank that all types have, with the sizes that all have; empty where one is open."""
    tensors = [kind for kind in types if isinstance(kind, TensorType) and is_complete(kind)]
    if len(tensors) < len(types):
        return b""
    shapes = [kind.shape or () for kind in tensors]
    sizes = [own[0] if all(size == own[0] for size in own) else None for own in zip(*shapes, strict=True)]
    return describe_type(tensors[0].dtype, sizes)
