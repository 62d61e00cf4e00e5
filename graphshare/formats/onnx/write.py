"""Write a graph from ONNX files as an ONNX model; unchanged parts are copied byte by byte.

Fields are in the order of their numbers, as in protobuf's own libraries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter, lt
from typing import TypeVar

from msgspec.structs import replace

from graphshare.errors import Fault, RefusedError
from graphshare.formats.onnx.attributes import GRAPH, GRAPHS, TENSOR
from graphshare.formats.onnx.graph_fields import (
    ANNOTATION,
    INITIALIZER,
    INPUT,
    NODE,
    SPARSE,
    VALUE_INFO,
    find_tensor_list,
)
from graphshare.formats.onnx.graph_names import GraphNames, find_at_home, is_constant_in_file
from graphshare.formats.onnx.messages import (
    FieldChange,
    describe_value,
    rename_message,
    rename_sparse,
    rewrite_message,
)
from graphshare.formats.onnx.node_fields import encode_names
from graphshare.formats.onnx.protobuf import Blob, Message, encode_text, scan
from graphshare.formats.onnx.stored import (
    NO_MESSAGES,
    OUTPUT,
    NamedMessage,
    NamesSpan,
    OnnxSource,
    Span,
    Stored,
    ValueMessages,
    find_stored,
    get_source,
    list_results,
)
from graphshare.formats.onnx.tensor_messages import name_tensor
from graphshare.ir.graph import EMPTY, Graph, Node
from graphshare.ir.walk import list_value_places, own_inputs

TensorEncoder = Callable[[Node, str], Message | None]
"""Returns the TensorProto, under a name, of an initializer with data elsewhere; None keeps the file's."""


def keep_tensor(node: Node, name: str) -> None:
    """Keep the TensorProto of the file."""


def encode_graph_file(
    graph: Graph, encode_tensor: TensorEncoder = keep_tensor, types: Mapping[str, bytes] = EMPTY
) -> Blob:
    """Return the model file of ``graph``, or the bytes of its own file if it is unchanged.

    ``types`` maps outputs whose types no file states to TypeProtos.
    """
    source = graph.source
    if not isinstance(source, OnnxSource):
        raise RefusedError(
            Fault("the graph was not read from an ONNX file", hint="`gs.export` writes it as ONNX")
        )
    # Nodes may be unchanged while their data moves; only the writer can tell.
    if is_untouched(graph) and _GraphWriter(GraphNames(graph), encode_tensor).is_as_read():
        return source.span
    return _EncodedFile(encode_model(graph, encode_tensor, types))


def is_untouched(graph: Graph) -> bool:
    """Whether a graph has the nodes and heads that were read from its file."""
    source = graph.source
    if not isinstance(source, OnnxSource):
        return False
    # The captures before a body's nodes are not in the file.
    has_old_nodes = graph.nodes[len(graph.captures) :] == source.nodes
    return has_old_nodes and list_value_places(graph.heads) == list_value_places(source.heads)


class _EncodedFile:
    def __init__(self, message: Message) -> None:
        self._message = message
        self.size = message.size

    def pieces(self) -> Iterator[bytes | memoryview]:
        return self._message.pieces()


def encode_model(
    graph: Graph, encode_tensor: TensorEncoder = keep_tensor, types: Mapping[str, bytes] = EMPTY
) -> Message:
    """Return the ModelProto of ``graph``; unchanged parts keep their bytes."""
    source = get_source(graph)
    message = Message()
    fields = sorted(source.fields, key=lambda field: field[0])
    for number, span in fields:
        if number < 7:
            message.add_encoded(span)
    message.add_message(7, _GraphWriter(GraphNames(graph), encode_tensor, types).encode())
    for number, span in fields:
        if number > 7:
            message.add_encoded(span)
    return message


def list_as_read(graph: Graph) -> list[Node]:
    """Return the nodes in the order in which the written file is read."""
    at_home = find_at_home(graph)
    inputs: list[Node] = []
    steps: list[Node] = []
    tensors: Ranked[Node] = {INITIALIZER: [], SPARSE: []}
    for node in graph.nodes:
        if node.op or node in at_home or is_constant_in_file(node, graph):
            steps.append(node)
        elif _is_input(node):
            inputs.append(node)
        else:
            stored = find_stored(node.details)
            tensors[find_tensor_list(stored)].append((_rank_tensor(stored), node))
    return [*inputs, *chain.from_iterable(_order(tensors).values()), *steps]


def _rank_tensor(stored: Stored) -> int:
    """Return an initializer's rank; those from Constants or bodies follow the main graph's own."""
    assert stored.tensor is not None
    return stored.tensor.rank if stored.home is None else _LAST


Item = TypeVar("Item")
Ranked = dict[int, list[tuple[int, Item]]]
"""Lists of a GraphProto by number; the rank of an item is its position in its file's list."""


def _order(lists: Ranked[Item]) -> dict[int, list[Item]]:
    """Sort each list by rank; items of copies follow the originals."""
    ordered: dict[int, list[Item]] = {}
    for number, ranked in lists.items():
        ranks = [rank for rank, _ in ranked]
        if not all(map(lt, ranks, ranks[1:])):  # a repeated rank belongs to a copy
            copies: dict[int, list[tuple[int, Item]]] = {}
            counts: Counter[int] = Counter()
            for pair in ranked:
                copies.setdefault(counts[pair[0]], []).append(pair)
                counts[pair[0]] += 1
            ranked = [pair for copy in copies.values() for pair in sorted(copy, key=itemgetter(0))]
        ordered[number] = [item for _, item in ranked]
    return ordered


class _GraphWriter:
    def __init__(
        self, names: GraphNames, encode_tensor: TensorEncoder, types: Mapping[str, bytes] = EMPTY
    ) -> None:
        self._names, self._graph, self._nodes = names, names.graph, names.nodes
        self._encode_tensor = encode_tensor
        self._types = types
        self._as_read = set() if names.is_body else set(get_source(names.graph).nodes)
        self._heads = set(list_value_places(names.graph.heads))

    def is_as_read(self) -> bool:
        """Whether a subgraph's bytes are still right: no own or captured name has changed."""
        return (
            is_untouched(self._graph)
            and self._has_old_names()
            and all(
                self._encode_tensor(node, node.name) is None for node in self._nodes if not node.op
            )
            and all(
                body.is_as_read()
                for node in self._nodes
                if node.subgraphs
                for body in self._bodies(node)
            )
        )

    def _has_old_names(self) -> bool:
        names = self._names
        return (
            not names.renamed
            and all(self._is_kept(node) for node in names.weights)
            and all(node.details.outputs == (name,) for node, name in names.captured.items())
            and all(name == message.name for _, message, name in names.list_orphans())
            and all(
                b"".join(names.encode_annotation(each, each.name).pieces()) == each.read()
                for each in names.list_annotations()
            )
        )

    def encode(self) -> Message:
        variables = [node for node in self._nodes if not node.op]
        lists: dict[int, list[bytes | Blob | Message]] = {
            NODE: self._encode_steps(),
            INPUT: [self._encode_input(node) for node in variables if _is_input(node)],
            OUTPUT: self._encode_outputs(),
            **_order(self._list_tensors(variables)),
            **_order(self._list_infos()),
        }
        rest = get_source(self._graph).rest  # fields of other numbers, with their tags
        message = Message()
        for number in sorted({*lists, *(number for number, _ in rest)}):
            message.add_list(number, lists.get(number, ()))
            for other, span in rest:
                if other == number:
                    message.add_encoded(span)
        return message

    def _is_kept(self, node: Node) -> bool:
        stored = find_stored(node.details)
        return (
            stored.tensor is not None
            and self._names.list_outputs(node) == (stored.tensor.name,)
            and node.details.label == stored.label
        )

    def _list_steps(self) -> list[Node]:
        """Return operators and weights written as Constants, in the file's order."""
        weights = self._names.weights
        steps: list[Node] = []
        for node in self._nodes:
            if node.op or (node not in weights and is_constant_in_file(node, self._graph)):
                steps.append(node)
        constants: list[tuple[int, Node]] = []
        for node in self._names.own.values():
            stored = find_stored(node.details)
            if stored.node is not None and stored.tensor is not None:
                constants.append((stored.tensor.rank, node))
        for rank, node in sorted(constants, key=itemgetter(0)):
            # In rising order, so that each insertion is at its final place.
            steps.insert(rank, node)
        return steps

    def _bodies(self, node: Node) -> list[_GraphWriter]:
        return [_GraphWriter(names, self._encode_tensor) for names in self._names.list_bodies(node)]

    def _list_inputs(self, node: Node) -> list[str]:
        if self._names.is_plain:
            names = [
                e.node.details.outputs[e.index] if e.node.op else e.node.name
                for e in own_inputs(node)
            ]
        else:
            names = [self._names.find(entry) for entry in own_inputs(node)]
        for position in node.details.absent:
            names.insert(position, "")
        return names

    def _encode_steps(self) -> list[bytes | Blob | Message]:
        """Return NodeProtos; where names come first in one, all other bytes are copied."""
        encoded: list[bytes | Blob | Message] = []
        as_read, is_plain = self._as_read, self._names.is_plain
        for node in self._list_steps():
            details = node.details
            span = find_stored(details).node
            if not isinstance(span, NamesSpan) or node.subgraphs or not node.op:
                encoded.append(self._encode_node(node))
                continue
            data = span.file.data
            if node in as_read:  # its inputs' nodes are unchanged too
                encoded.append(data[span.start : span.end])
                continue
            outputs = details.outputs if is_plain else self._names.list_outputs(node)
            names = encode_names(self._list_inputs(node), outputs, details.label)
            encoded.append(names + data[span.names_end : span.end])
        return encoded

    def _encode_node(self, node: Node) -> bytes | Blob | Message:
        stored, details = find_stored(node.details), node.details
        if stored.node is None:
            raise RefusedError(Fault(f"operator {node.op} comes from no ONNX file", node=node.name))
        bodies = self._bodies(node) if node.subgraphs else []
        inputs = self._list_inputs(node)
        outputs = self._names.list_outputs(node)
        if not node.op:
            return self._encode_constant(stored.node, outputs[0], node)
        changed = not all(body.is_as_read() for body in bodies)
        names = (tuple(inputs), outputs, details.label)
        if not changed and names == (stored.inputs, stored.outputs, stored.label):
            return stored.node
        encoded = map(_GraphWriter.encode, bodies)
        # Bodies are in the order of the attributes.
        graphs = dict.fromkeys((GRAPH, GRAPHS), lambda _: next(encoded))
        changes: dict[int, FieldChange] = {}
        if changed:
            changes[5] = lambda attribute: rewrite_message(attribute, graphs)
        return _encode_named(stored.node, {1: inputs, 2: outputs}, details.label, changes)

    def _encode_constant(self, span: Span, name: str, node: Node) -> Blob | Message:
        tensor = self._encode_tensor(node, name)
        if tensor is None and self._is_kept(node):
            return span
        changes: dict[int, FieldChange] = {}
        if tensor is not None:
            changes[5] = lambda attribute: rewrite_message(attribute, {TENSOR: lambda _: tensor})
        return _encode_named(span, {2: [name]}, node.details.label, changes)

    def _list_tensors(self, variables: Iterable[Node]) -> Ranked[bytes | Blob | Message]:
        tensors: Ranked[bytes | Blob | Message] = {INITIALIZER: [], SPARSE: []}
        for node in variables:
            stored = find_stored(node.details)
            if stored.tensor is None:
                continue
            is_at_home = node in self._names.weights
            if stored.node is not None and (is_at_home or is_constant_in_file(node, self._graph)):
                continue
            (name,) = self._names.list_outputs(node)
            rank = stored.tensor.rank if is_at_home else _rank_tensor(stored)
            tensor: bytes | Blob | Message
            # A Constant of a body; the main graph shares it between several bodies
            if stored.node is not None:
                tensor = self._encode_tensor(node, name) or name_tensor(stored.tensor, name)
            elif stored.is_sparse:
                tensor = rename_sparse(stored.tensor, name)
            else:
                tensor = self._encode_tensor(node, name) or rename_message(stored.tensor, name)
            tensors[find_tensor_list(stored)].append((rank, tensor))
        return tensors

    def _encode_input(self, node: Node) -> bytes | Blob | Message:
        (name,) = self._names.list_outputs(node)
        declared = find_stored(node.details).input
        return describe_value(name) if declared is None else rename_message(declared, name)

    def _encode_outputs(self) -> list[bytes | Blob | Message]:
        encoded: list[bytes | Blob | Message] = []
        places = list_value_places(self._graph.heads)
        listed, counts = Counter(places), Counter[tuple[Node, int]]()
        for head, place in zip(self._graph.heads, places, strict=True):
            stored = find_stored(head.node.details)
            known = stored.values.infos.get(head.index) or stored.input
            # A value that is an output several times has a message for each.
            stated = list_results(stored.values, head.index, listed[place])
            if stated:
                known = stated[min(counts[place], len(stated) - 1)]
            counts[place] += 1
            name = self._names.find(head)
            inferred = self._types.get(name)
            if known is None or inferred is not None:
                encoded.append(describe_value(name, inferred))
            else:
                encoded.append(rename_message(known, name))
        return encoded

    def _list_infos(self) -> Ranked[bytes | Blob | Message]:
        infos: list[tuple[int, bytes | Blob | Message]] = []
        annotations: list[tuple[int, bytes | Blob | Message]] = []

        def add(number: int, message: NamedMessage, name: str) -> None:
            if number == VALUE_INFO:
                infos.append((message.rank, rename_message(message, name)))
            elif number == ANNOTATION:
                annotations.append((message.rank, self._names.encode_annotation(message, name)))

        heads = self._heads
        for node in (*self._names.captured, *self._nodes):
            values = find_stored(node.details).values
            if values is NO_MESSAGES:
                continue
            names = (
                node.details.outputs
                if node.op and self._names.is_plain
                else self._names.list_outputs(node)
            )
            for index, message in values.infos.items():
                if index in values.results or (node, index) not in heads:
                    add(VALUE_INFO, message, names[index])
            if values.has_others:
                for number, index, message in self._list_others(node, values):
                    add(number, message, names[index])
        for number, message, name in self._names.list_orphans():
            if name is not None:
                add(number, message, name)
        return {VALUE_INFO: infos, ANNOTATION: annotations}

    def _list_others(
        self, node: Node, values: ValueMessages
    ) -> Iterator[tuple[int, int, NamedMessage]]:
        """Yield a node's messages beside value_info, each with its target list and output index."""
        for index, message in values.results.items():
            # A former output keeps its type in value_info.
            if node.op and (node, index) not in self._heads and index not in values.infos:
                yield VALUE_INFO, index, replace(message, rank=_LAST)
        for index, message in values.annotations.items():
            yield ANNOTATION, index, message
        yield from values.repeated


_LAST = 1 << 62


def _is_input(node: Node) -> bool:
    stored = find_stored(node.details)
    return stored.input is not None or stored.tensor is None


def _encode_named(
    span: Span, values: Mapping[int, Sequence[str]], label: str, changes: Mapping[int, FieldChange]
) -> Message:
    """Return a NodeProto with a new ``label``, and new names of ``values`` by field number.

    ``changes`` are those of :func:`rewrite_message`. If each kind keeps its number of names, all
    fields keep their places, even an empty label.
    """
    fields = Counter(field[0] for field in scan(span.file.data, span.start, span.end))
    has_label = label or fields[3]
    names = {**values, 3: [label] if has_label else []}
    if all(len(texts) == fields[number] for number, texts in names.items()):
        takers = {
            number: partial(_take, map(encode_text, texts)) for number, texts in names.items()
        }
        return rewrite_message(span, {**changes, **takers})
    message = Message()
    for number, texts in names.items():
        for text in texts:
            message.add_bytes(number, encode_text(text))
    message.add_encoded(rewrite_message(span, {**changes, **dict.fromkeys(names)}))
    return message


def _take(texts: Iterator[bytes], _: Span) -> bytes:
    return next(texts)
