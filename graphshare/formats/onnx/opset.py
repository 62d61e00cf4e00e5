"""Raise an ONNX graph to a later version of ONNX's own operators, with ONNX's converter.

The converter sees no large weights, bodies or functions. Parts that it does not change stay as
read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from graphshare.errors import Fault, InputError, RefusedError, install_command
from graphshare.formats.facets import OperatorSets
from graphshare.formats.onnx.compose import describe_opset, import_opsets, make_operator, set_opsets
from graphshare.formats.onnx.decode import decode_model, read_opset
from graphshare.formats.onnx.inference import convert_version, is_installed
from graphshare.formats.onnx.messages import keep_field, keep_message, rewrite_message
from graphshare.formats.onnx.protobuf import Message
from graphshare.formats.onnx.statements import list_functions, list_used_domains, name_function
from graphshare.formats.onnx.stored import (
    FIRST_CONSTANTS,
    FUNCTION,
    NO_MESSAGES,
    MemoryFile,
    Span,
    find_stored,
    get_source,
    replace_stored,
)
from graphshare.formats.onnx.value_types import declare_weights, encode_without_data, find_refusal
from graphshare.ir.graph import Branch, Graph, Node, Rewrite
from graphshare.ir.rebuild import rebuild, rebuild_graph, relink_all, rename_node
from graphshare.ir.walk import iter_graphs, iter_nodes, list_output_names
from graphshare.onnx_ops.operators import DEPRECATED, MOVED, find_meaning
from graphshare.text.names import TakenNames

_EXPORT = "export the model at operator set {}"
_FUNCTION_OPSET = 9  # field of a FunctionProto
_BODIES = "graphshare.bodies"
"""The domain of stand-ins for operators with bodies during conversion."""


def find_used_version(graph: Graph) -> int | None:
    """Return the version of ONNX's own operators in a graph, or None if it uses none."""
    if "" not in list_used_domains(graph, list_functions(graph)):
        return None
    return get_source(graph).opsets.get("")


def raise_version(graph: Graph, version: int) -> Rewrite:
    """Return a graph for a later version of ONNX's own operators.

    Raises:
        RefusedError: the converter is not installed, refuses the model or makes an invalid one; or
            unconverted operators in bodies or functions change meaning (all are listed).
    """
    if not is_installed():
        raise RefusedError(
            Fault("ONNX's converter is needed to align operator sets", hint=install_command("onnx"))
        )
    faults = list(_find_unconverted(graph, version))
    if faults:
        raise RefusedError(faults)
    source = get_source(graph)
    fields = tuple([field for field in source.fields if field[0] != FUNCTION])
    plain = import_opsets(replace(source, fields=fields), {_BODIES: 1})
    plain_graph, _ = rebuild_graph(replace(graph, source=plain), _hide_bodies)
    try:
        data = encode_without_data(declare_weights(plain_graph))
        converted = decode_model(MemoryFile(convert_version(data, version)))
    except InputError as error:
        message = f"ONNX's converter to version {version}: {error.faults[0].message}"
        raise RefusedError(Fault(message, hint=_EXPORT.format(version))) from None
    rewrite = _restore(graph, converted, version)
    refusal = find_refusal(rewrite.graph)
    if refusal and not find_refusal(graph):
        message = f"after its conversion ONNX's checker refuses it: {refusal}"
        raise RefusedError(Fault(message, hint=_EXPORT.format(version)))
    return rewrite


class OnnxOperatorSets(OperatorSets):
    """Versions of ONNX's own operators."""

    find_used_version = staticmethod(find_used_version)
    raise_version = staticmethod(raise_version)


def _find_unconverted(graph: Graph, version: int) -> Iterator[Fault]:
    """Yield operators in bodies and functions whose meaning or inputs change up to a version."""
    old = get_source(graph).opsets.get("", version)
    owners = [node for node in graph.nodes if node.subgraphs]
    _, *bodies = iter_graphs(graph)
    in_bodies = [node for body in bodies for node in body.nodes]
    inner = [("operators with bodies", old, owners), ("a body", old, in_bodies)]
    for key, stored in list_functions(graph).items():
        if stored.function is not None:
            own = stored.function.opsets.get("", old)
            nodes = [*iter_nodes(stored.function.graph)]
            inner.append((f"function {name_function(key)}", own, nodes))
    for where, own, nodes in inner:
        for node in nodes:
            if _changes(node, own, version):
                change = f"changed after operator set {own}"
                message = f"{node.op} in {where} {change}, and ONNX's converter does not go there"
                yield Fault(message, node=node.name, hint=_EXPORT.format(version))


def _changes(node: Node, old: int, new: int) -> bool:
    if not node.op or node.details.domain:
        return False
    if find_meaning(node.op, old)[0] != find_meaning(node.op, new)[0]:
        return True
    changes = (MOVED.get(node.op, (0,))[0], DEPRECATED.get(node.op, 0))
    return any(old < first <= new for first in changes)


def _hide_bodies(node: Node) -> Node:
    """Replace an operator with bodies by one unknown to the converter, with the captures as inputs."""
    if not node.subgraphs:
        return node
    return replace(
        make_operator(node.op, node.details.outputs, label=node.details.label, domain=_BODIES),
        inputs=node.inputs,
    )


def _restore(graph: Graph, converted: Graph, version: int) -> Rewrite:
    """Return the converted graph with the original's unchanged nodes and all its other messages."""
    originals = {node.name: node for node in graph.nodes}
    names = _name_new(converted, originals)
    twins: dict[Node, Node] = {}

    def change(node: Node) -> Node:
        twin = originals.get(node.name)
        if twin is None:
            # The converter states wrong ranks
            return replace_stored(rename_node(node, names[node]), values=NO_MESSAGES)
        twins[twin] = node
        if _is_same(node, twin):
            return replace(twin, inputs=node.inputs)
        label = node.details.label or twin.details.label
        node = replace(node, details=replace(node.details, label=label))
        return replace_stored(node, values=find_stored(twin.details).values)

    images = rebuild(converted.nodes, change)
    kept = {twin: images[node] for twin, node in twins.items()}
    # Inputs and weights that nothing reads
    left = [node for node in graph.nodes if not node.op and node not in kept]
    kept |= {node: node for node in left}
    source = set_opsets(get_source(graph), {"": version})
    fields = [
        (number, _raise_function(span, version) if number == FUNCTION else span)
        for number, span in source.fields
    ]
    # Before, initializers that the converter adds would have to be inputs
    if source.ir_version < FIRST_CONSTANTS:
        ir_version = Message()
        ir_version.add_integer(1, FIRST_CONSTANTS)
        fields = [(1, keep_message(ir_version)), *(field for field in fields if field[0] != 1)]
        source = replace(source, ir_version=FIRST_CONSTANTS)
    source = replace(source, fields=tuple(fields), nodes=(), heads=())
    nodes = (*left, *images.values())
    result = replace(graph, nodes=nodes, heads=relink_all(converted.heads, images), source=source)
    return Rewrite(result, (Branch("", graph, kept),))


def _raise_function(field: Span, version: int) -> Span:
    """Import the new version, as ONNX demands, in a function whose operators mean the same in it."""

    def change(span: Span) -> Message | bytes:
        domain, _ = read_opset(span.file, span.start, span.end)
        return span.read() if domain else describe_opset("", version)

    return keep_field(FUNCTION, rewrite_message(field.open_field()[1], {_FUNCTION_OPSET: change}))


def _is_same(node: Node, twin: Node) -> bool:
    """Whether an operator is unchanged; the converter skips other domains, bodies and constants."""
    if not twin.op or twin.subgraphs or twin.details.domain or twin.op == node.op == "Constant":
        return True
    a, b = node.details, twin.details
    is_alike = node.op == twin.op and (a.domain, a.absent) == (b.domain, b.absent)
    return is_alike and len(node.inputs) == len(twin.inputs) and a.values == b.values


def _name_new(converted: Graph, originals: Mapping[str, Node]) -> dict[Node, str]:
    """Name the converter's new nodes by the value that they serve and their operator."""
    taken = TakenNames(name for node in converted.nodes for name in list_output_names(node))
    readers: dict[Node, Node] = {}
    for node in converted.nodes:
        for entry in node.inputs:
            readers.setdefault(entry.node, node)
    names: dict[Node, str] = {}
    for node in reversed(converted.nodes):
        if node.name not in originals:
            reader = readers.get(node)
            base = names.get(reader, reader.name) if reader is not None else node.name
            names[node] = taken.take(f"{base}_{node.op.lower() or 'constant'}")
    return names
