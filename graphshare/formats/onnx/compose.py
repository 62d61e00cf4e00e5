"""Make new nodes of ONNX graphs; apart from messages in memory they look like read nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from graphshare.formats.facets import NestedType, StaticType, TensorType
from graphshare.formats.onnx.attributes import AttributeReader
from graphshare.formats.onnx.attributes import Attributes as ReadAttributes
from graphshare.formats.onnx.graph_fields import TENSOR_NAME
from graphshare.formats.onnx.messages import (
    describe_tensor,
    describe_type,
    describe_value,
    encode_attribute,
    encode_pair,
    keep_field,
    keep_message,
)
from graphshare.formats.onnx.protobuf import Message, scan
from graphshare.formats.onnx.stored import (
    FIRST_CONSTANTS,
    METADATA,
    NO_SOURCE,
    OPSET,
    MemoryFile,
    NamedMessage,
    OnnxSource,
    Span,
    Stored,
    TensorPlace,
    ValueMessages,
    find_stored,
    get_source,
    replace_stored,
)
from graphshare.formats.onnx.tensors import is_weight, locate_tensor
from graphshare.formats.onnx.types import is_complete, read_type
from graphshare.formats.onnx.values import describe_variable
from graphshare.ir.graph import EMPTY, Entry, Graph, Node, NodeDetails, Source
from graphshare.ir.onnx import DTYPE_CODES, Attributes, Dimensions, Tensor
from graphshare.ir.rebuild import rebuild, relink
from graphshare.ir.walk import Body, list_bodies, list_output_names, post_order

_GRAPH_NAME, _ATTRIBUTE = 2, 5
_LAST = 1 << 62  # rank of an initializer after all others
_CACHED = 256  # attributes of at most this many bytes are cached


def make_operator(
    op: str,
    outputs: Sequence[str],
    values: Attributes = EMPTY,
    *,
    label: str = "",
    domain: str = "",
) -> Node:
    """Return an operator without inputs; :meth:`ValueScope.connect` adds them.

    An unused output has an empty name. Graphs in ``values`` become its subgraphs.
    """
    # Field 1 (inputs) is missing: the writer puts names before an operator's other fields.
    message = Message()
    message.add_texts(2, outputs)
    message.add_text(3, label)
    message.add_text(4, op)
    attributes = Message()
    for name, value in values.items():
        attributes.add_message(_ATTRIBUTE, encode_attribute(name, value))
    encoded = keep_message(attributes)
    message.add_encoded(encoded)
    message.add_text(7, domain)
    graphs = [value for value in values.values() if isinstance(value, Graph)]
    # Equal short attributes become one object, as when a file is read.
    known = (
        _read_attributes(encoded, graphs)
        if graphs or encoded.size > _CACHED
        else _read_again(encoded.read())
    )
    stored = Stored(node=keep_message(message), outputs=tuple(outputs), label=label)
    details = NodeDetails(
        domain, tuple(outputs), known.values, (), label, stored=stored, bodies=known.bodies
    )
    name = next(filter(None, outputs), "") or label
    return Node(op, name, known.texts, (), len(outputs), subgraphs=tuple(graphs), details=details)


def _read_attributes(encoded: Span, graphs: Iterable[Graph] = ()) -> ReadAttributes:
    bodies = iter(graphs)
    fields = list(scan(encoded.file.data, encoded.start, encoded.end))
    return AttributeReader(encoded.file).read(fields, lambda start, end: next(bodies))


@lru_cache(maxsize=512)
def _read_again(encoded: bytes) -> ReadAttributes:
    """Return cached attributes: most nodes have the same ones as an earlier node."""
    return _read_attributes(Span(MemoryFile(encoded), 0, len(encoded)))


def make_initializer(name: str, tensor: Tensor, rank: int) -> Node:
    """Return a variable with a value, the initializer number ``rank`` of its graph.

    Without content, its data is the record of this name in the model's parameter file.
    """
    message = describe_tensor(name, tensor.dtype, tensor.shape)
    if tensor.content is not None:
        message.add_bytes(9, tensor.content)
    span = keep_message(message)
    code = DTYPE_CODES[tensor.dtype]
    place = (
        TensorPlace(tensor.shape, code)
        if tensor.content is None
        else locate_tensor(span.file, span.start, span.end)
    )
    named = NamedMessage(
        span.file, span.start, span.end, name, TENSOR_NAME, *_find_field(span, TENSOR_NAME), rank
    )
    stored = Stored(tensor=named, place=place, data_in_record=tensor.content is None)
    return Node(
        "", name, num_outputs=1, details=NodeDetails("", (name,), holds_value=True, stored=stored)
    )


def make_parameter(graph: Graph, name: str, dtype: str, shape: tuple[int, ...]) -> Node:
    """Return a graph's new last initializer, with data in the record of its name.

    Up to IR version 3 an initializer is also an input.
    """
    node = make_initializer(name, Tensor(dtype, shape, None), _LAST)
    if not isinstance(graph.source, OnnxSource) or graph.source.ir_version >= FIRST_CONSTANTS:
        return node
    return replace_stored(node, input=_declare(name, describe_type(dtype, shape)))


def make_constant(graph: Graph, node: Node, value: Tensor) -> Node:
    """Return a Constant with the outputs of ``node``, or an initializer if ``value`` is a weight."""
    if is_weight(value.shape, DTYPE_CODES[value.dtype]):
        return make_parameter(graph, node.details.outputs[0], value.dtype, value.shape)
    return take_outputs(
        make_operator("Constant", node.details.outputs, {"value": value}, label=node.details.label),
        node,
    )


def take_outputs(node: Node, other: Node) -> Node:
    """Return an operator with the outputs of ``other``: their names, types and annotations."""
    node = replace_stored(node, values=find_stored(other.details).values)
    outputs = other.details.outputs[: len(node.details.outputs)]
    return replace(node, name=other.name, details=replace(node.details, outputs=outputs))


def make_input(name: str, dtype: str, shape: Dimensions | None) -> Node:
    """Return a variable whose value the model's caller provides."""
    return make_typed_input(name, describe_type(dtype, shape))


def make_typed_input(name: str, type_bytes: bytes) -> Node:
    """Like :func:`make_input`, with the type in a TypeProto."""
    stored = Stored(input=_declare(name, type_bytes))
    return Node(
        "", name, num_outputs=1, details=NodeDetails("", (name,), holds_value=False, stored=stored)
    )


def declare_outputs(
    nodes: Sequence[Node],
    outputs: Sequence[tuple[Entry, str, Dimensions]],
    *,
    facts: Mapping[Node, Mapping[str, object]] = EMPTY,
) -> tuple[tuple[Node, ...], tuple[Entry, ...]]:
    """Return ``nodes`` and the heads of their graph: ``outputs``, each with its dtype and shape.

    ``facts`` describe the variables of a subgraph (:func:`describe_variable`).
    """
    declared: dict[Node, dict[int, NamedMessage]] = {}
    for entry, dtype, shape in outputs:
        details = entry.node.details
        assert details is not None
        declared.setdefault(entry.node, {})[entry.index] = _declare(
            details.outputs[entry.index], describe_type(dtype, shape)
        )

    def change(node: Node) -> Node:
        details = node.details
        if node in facts:
            details = replace(details, values=facts[node])
        if node in declared:
            details = replace(
                details,
                stored=replace(find_stored(details), values=ValueMessages(results=declared[node])),
            )
        return node if details is node.details else replace(node, details=details)

    images = rebuild(nodes, change)
    return tuple(images.values()), tuple(relink(entry, images) for entry, _, _ in outputs)


class ValueScope:
    """The values of a graph by name.

    In a body any other name is a value of the enclosing graph, and becomes a capture.
    """

    def __init__(self, *, is_body: bool = False) -> None:
        self.values: dict[str, Entry] = {}
        self._captures: dict[str, Entry] = {}
        self._is_body = is_body

    def find(self, name: str) -> Entry:
        entry = self.values.get(name) or self._captures.get(name)
        if entry is None and self._is_body:
            details = NodeDetails("", (name,), holds_value=False)
            entry = self._captures[name] = Entry(
                Node("", f"capture {len(self._captures)}", num_outputs=1, details=details)
            )
        return self.values[name] if entry is None else entry

    def define(self, node: Node) -> Node:
        """Add the outputs of a node, and return it."""
        for index, name in enumerate(list_output_names(node)):
            if name:
                self.values[name] = Entry(node, index)
        return node

    def connect(self, node: Node, inputs: Sequence[str], names: Mapping[str, str] = EMPTY) -> Node:
        """Return an operator with its inputs and captures, and define its outputs.

        Empty inputs are skipped. ``names`` maps old names of values to new ones.
        """
        captured = [
            _name_outside(variable) for body in node.subgraphs for variable in body.captures
        ]
        entries = [self.find(names.get(name, name)) for name in (*inputs, *captured) if name]
        absent = tuple([position for position, name in enumerate(inputs) if not name])
        details = replace(node.details, absent=absent)
        return self.define(replace(node, inputs=tuple(entries), details=details))

    def make_body(
        self,
        nodes: Sequence[Node],
        outputs: Sequence[tuple[Entry, str, Dimensions]],
        source: Source,
    ) -> Graph:
        """Return the subgraph of these inputs and the operators that ``outputs`` need.

        Each output has a dtype and a shape.
        """
        needed = set(post_order(entry.node for entry, _, _ in outputs))
        kept = [node for node in nodes if not node.op or node in needed]
        variables = {entry.node for entry in self._captures.values()}
        captures = tuple(
            dict.fromkeys(e.node for node in kept for e in node.inputs if e.node in variables)
        )
        own = [node for node in kept if not node.op]
        facts = {
            node: describe_variable(find_stored(node.details), position)
            for position, node in enumerate(own)
        }
        declared, heads = declare_outputs((*captures, *kept), outputs, facts=facts)
        return Graph(declared, heads, source=source, captures=captures)


def _name_outside(capture: Node) -> str:
    assert capture.details is not None
    return capture.details.outputs[0]


def make_source(
    name: str,
    opsets: Mapping[str, int],
    ir_version: int,
    *,
    producer: str = "graphshare",
    version: str = "",
    metadata: Mapping[str, str] = EMPTY,
) -> OnnxSource:
    """Return the source of a whole model.

    ``opsets`` are versions by domain, ``version`` is the producer's version, ``name`` the graph's
    name.
    """
    fields: list[tuple[int, Span]] = []

    def add(number: int, value: int | str) -> None:
        message = Message()
        if isinstance(value, int):
            message.add_integer(number, value)
        else:
            message.add_text(number, value)
        if message.size:
            fields.append((number, keep_message(message)))

    add(1, ir_version)
    add(2, producer)
    add(3, version)
    source = replace(make_body_source(name), fields=tuple(fields), ir_version=ir_version)
    return add_metadata(import_opsets(source, opsets), metadata)


def import_opsets(source: OnnxSource, opsets: Mapping[str, int]) -> OnnxSource:
    """Return a source that also imports these operator sets, versions by domain."""
    fields = [
        _make_opset(domain, number)
        for domain, number in opsets.items()
        if domain not in source.opsets
    ]
    return replace(source, fields=(*source.fields, *fields), opsets={**opsets, **source.opsets})


def set_opsets(source: OnnxSource, opsets: Mapping[str, int]) -> OnnxSource:
    """Return a source that imports its operator sets in these versions."""
    versions = {**source.opsets, **opsets}
    fields = [field for field in source.fields if field[0] != OPSET]
    return replace(
        source,
        fields=(*fields, *map(_make_opset, *zip(*versions.items(), strict=True))),
        opsets=versions,
    )


def _make_opset(domain: str, number: int) -> tuple[int, Span]:
    return OPSET, keep_field(OPSET, describe_opset(domain, number))


def describe_opset(domain: str, number: int) -> Message:
    """Return an OperatorSetIdProto."""
    opset = Message()
    opset.add_text(1, domain)
    opset.add_integer(2, number)
    return opset


def make_body_source(name: str) -> OnnxSource:
    """Return the source of a subgraph called ``name``."""
    message = Message()
    message.add_text(_GRAPH_NAME, name)
    return replace(NO_SOURCE, rest=((_GRAPH_NAME, keep_message(message)),) if name else ())


def add_metadata(source: OnnxSource, metadata: Mapping[str, str]) -> OnnxSource:
    """Return the source of a model with more metadata."""
    fields = [
        (METADATA, keep_field(METADATA, encode_pair(key, value))) for key, value in metadata.items()
    ]
    return replace(source, fields=(*source.fields, *fields))


def _declare(name: str, type_bytes: bytes) -> NamedMessage:
    span = keep_message(describe_value(name, type_bytes))
    return NamedMessage(span.file, span.start, span.end, name, 1, *_find_field(span, 1), 0)


def _find_field(span: Span, number: int) -> tuple[int, int]:
    places = (
        (field[2], field[4])
        for field in scan(span.file.data, span.start, span.end)
        if field[0] == number
    )
    return next(places, (span.end, span.end))


THEN, ELSE = "then_branch", "else_branch"


# fmt: off
_FIRST_DTYPES = {
    "bfloat16": 16, "float8e4m3fn": 19, "float8e4m3fnuz": 19, "float8e5m2": 19, "float8e5m2fnuz": 19,
    "uint4": 21, "int4": 21, "float4e2m1": 23, "float8e8m0": 24, "uint2": 25, "int2": 25,
}
# fmt: on
_FIRST_KINDS = {(): 1, ("sequence",): 13, ("optional",): 16, ("optional", "sequence"): 16}


def find_switch_version(kind: StaticType) -> int | None:
    """Return the first version of ONNX's operator set whose If returns this type, or None."""
    kinds: list[str] = []
    while isinstance(kind, NestedType):
        kinds.append(kind.kind)
        kind = kind.inner
    dtype, first = _FIRST_DTYPES.get(kind.parts[0] or "", 1), _FIRST_KINDS.get(tuple(kinds))
    # No If returns optional sequences of later dtypes.
    return None if first is None or (len(kinds) == 2 and dtype > first) else max(dtype, first)


def make_switch(
    name: str,
    bodies: tuple[Graph, Graph],
    outputs: Sequence[tuple[str, Sequence[StaticType | None]]],
) -> tuple[Node, Node]:
    """Return the boolean input ``name`` of one element, and an If without inputs; see :class:`ModelFormat`."""
    graphs = {
        key: replace(body, source=_enclose(body))
        for key, body in zip((THEN, ELSE), bodies, strict=True)
    }
    operator = make_operator("If", [output for output, _ in outputs], graphs, label=name)
    results = {}
    for index, (output, types) in enumerate(outputs):
        data = _encode_common_type(types)
        declared = find_stored(make_typed_input(output, data).details).input if data else None
        if declared is not None:
            results[index] = declared
    return make_input(name, "bool", (1,)), replace_stored(
        operator, values=ValueMessages(results=results)
    )


def open_input(node: Node, types: Sequence[StaticType | None]) -> Node:
    """Return an input with only the sizes that all types share, or the same node if types are equal."""
    if all(other == types[0] for other in types):
        return node
    data = _encode_common_type(types)
    return (
        replace_stored(node, input=find_stored(make_typed_input(node.name, data).details).input)
        if data
        else node
    )


def restate_shapes(node: Node, shapes: Mapping[int, Dimensions]) -> Node:
    """Replace the stated shapes of outputs by index; a named size stays if the new one is unknown."""
    stored = find_stored(node.details)

    def restate(message: NamedMessage, index: int) -> NamedMessage:
        stated = read_type(message)
        if stated is None or stated.shape is None:
            return message
        pairs = zip(stated.shape, shapes[index], strict=False)
        kept = [old if new is None and isinstance(old, str) else new for old, new in pairs]
        sizes = kept if len(stated.shape) == len(shapes[index]) else shapes[index]
        return _declare(message.name, describe_type(stated.dtype, sizes))

    def restate_all(messages: Mapping[int, NamedMessage]) -> Mapping[int, NamedMessage]:
        return {
            index: restate(message, index) if index in shapes else message
            for index, message in messages.items()
        }

    own = None if stored.input is None or 0 not in shapes else restate(stored.input, 0)
    values = replace(
        stored.values,
        infos=restate_all(stored.values.infos),
        results=restate_all(stored.values.results),
    )
    return replace_stored(node, values=values, input=own or stored.input)


def state_type(node: Node, index: int, dtype: str, shape: Dimensions) -> Node:
    """Return a node that states the type of an output."""
    values = find_stored(node.details).values
    message = {index: _declare(node.details.outputs[index], describe_type(dtype, shape))}
    if index in values.results:
        return replace_stored(node, values=replace(values, results={**values.results, **message}))
    return replace_stored(node, values=replace(values, infos={**values.infos, **message}))


def find_switch(node: Node) -> tuple[Entry, tuple[Body, Body]] | None:
    """Return the condition of an If and its bodies; None for other operators."""
    bodies = list_bodies(node)
    if node.op != "If" or node.details.domain or bodies.keys() != {THEN, ELSE}:
        return None
    return node.inputs[0], (bodies[THEN], bodies[ELSE])


def start_body(node: Node, operands: Sequence[Any], counters: Sequence[Any]) -> list[Any] | None:
    """Return the arguments of a body's first pass; see :meth:`graphshare.formats.facets.Bodies.start_body`."""
    if node.op == "If":
        return []
    if node.op == "Loop":
        # Loop's first operands are the maximum trip count and the first condition.
        return [*counters, *operands[2:]]
    if node.op != "Scan" or node.details.absent:
        return None
    count = int(node.attrs.get("num_scan_inputs", "0"))
    axes, directions = (
        _read_list(node.attrs.get(f"scan_input_{name}", ""), count)
        for name in ("axes", "directions")
    )
    states, scanned = operands[: len(operands) - count], operands[len(operands) - count :]
    parts = zip(scanned, axes, directions, strict=True)
    return [
        *states,
        *(array.take(-1 if is_reversed else 0, axis) for array, axis, is_reversed in parts),
    ]


def _read_list(text: str, count: int) -> list[int]:
    return [int(number) for number in text.strip("[]").split(",")] if text else [0] * count


def _enclose(body: Graph) -> OnnxSource:
    """Return a main graph's source for use as a body: without fields of the model, and counted as changed."""
    return replace(get_source(body), fields=(), nodes=(), heads=())


def _encode_common_type(types: Sequence[StaticType | None]) -> bytes:
    """Return the TypeProto of common dtype, rank and sizes; empty unless all are complete tensor types."""
    tensors = [kind for kind in types if isinstance(kind, TensorType) and is_complete(kind)]
    if len(tensors) < len(types):
        return b""
    shapes = [kind.shape or () for kind in tensors]
    sizes = [
        own[0] if all(size == own[0] for size in own) else None for own in zip(*shapes, strict=True)
    ]
    return describe_type(tensors[0].dtype, sizes)
