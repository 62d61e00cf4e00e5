"""Write a graph that was read from ONNX files as an ONNX model: what a rewrite did not touch is copied byte by byte.

Fields stand in the order of their numbers, as protobuf's own libraries write them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from operator import itemgetter, lt
from typing import NamedTuple, TypeVar

from graphshare.errors import Fault, RefusedError
from graphshare.formats.onnx.attributes import GRAPH, GRAPHS, TENSOR
from graphshare.formats.onnx.body_names import Around, find_free_names, find_prefix, find_span
from graphshare.formats.onnx.graph_fields import ANNOTATION, INITIALIZER, INPUT, NODE, OUTPUT, SPARSE, VALUE_INFO
from graphshare.formats.onnx.homes import find_at_home, is_constant_in_file
from graphshare.formats.onnx.messages import (
    FieldChange,
    choose_new_name,
    describe_value,
    rename_annotation,
    rename_message,
    rename_sparse,
    rewrite_message,
)
from graphshare.formats.onnx.node_fields import encode_names
from graphshare.formats.onnx.protobuf import Blob, Message, encode_text, scan
from graphshare.formats.onnx.stored import (
    NO_MESSAGES,
    NamedMessage,
    NamesSpan,
    OnnxFile,
    OnnxSource,
    Span,
    Stored,
    find_stored,
    get_source,
    list_output_names,
    list_read_names,
)
from graphshare.formats.onnx.tensor_messages import name_tensor
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.walk import own_inputs

TensorEncoder = Callable[[Node, str], Message | None]
"""Returns the TensorProto, under a name, of an initializer with data elsewhere; None where that of its file holds."""


def keep_tensor(node: Node, name: str) -> None:
    """Say that the TensorProto of the file holds."""


def encode_graph_file(graph: Graph, encode_tensor: TensorEncoder = keep_tensor, types: Mapping[str, bytes] = EMPTY) -> Blob:
    """Return the bytes of the model file of ``graph``; of one that is as it was read, those of its file.

    ``types`` are TypeProtos for the outputs, by name, whose types no file states.
    """
    source = graph.source
    if not isinstance(source, OnnxSource):
        raise RefusedError(Fault("the graph was not read from an ONNX file", hint="`graphshare export` writes it as ONNX"))
    # Nodes may be as they were read while their data gets another place, which the writer sees.
    if is_untouched(graph) and _GraphWriter(graph, encode_tensor).is_as_read():
        return source.span
    return _EncodedFile(encode_model(graph, encode_tensor, types))


def is_untouched(graph: Graph) -> bool:
    """Whether a graph has the nodes and heads that were read from its file."""
    source = graph.source
    return (
        isinstance(source, OnnxSource)
        # A body begins with its captures, which its file does not have.
        and graph.nodes[len(graph.captures) :] == source.nodes
        and [(e.node, e.index) for e in graph.heads] == [(e.node, e.index) for e in source.heads]
    )


class _EncodedFile:
    """A message as data: its size, and its bytes in pieces."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self.size = message.size

    def pieces(self) -> Iterator[bytes | memoryview]:
        return self._message.pieces()


def encode_model(graph: Graph, encode_tensor: TensorEncoder = keep_tensor, types: Mapping[str, bytes] = EMPTY) -> Message:
    """Return the ModelProto of ``graph``, each part from its own bytes where these still hold."""
    source = get_source(graph)
    message = Message()
    fields = sorted(source.fields, key=lambda field: field[0])
    for number, span in fields:
        if number < 7:
            message.add_encoded(span)
    message.add_message(7, _GraphWriter(graph, encode_tensor, types=types).encode())
    for number, span in fields:
        if number > 7:
            message.add_encoded(span)
    return message


class Changes(NamedTuple):
    """Changes of names that nobody asked for: those of values in bodies, and the messages that are left out because of one."""

    renamed: list[tuple[str, str]]
    left_out: list[tuple[int, NamedMessage]]


def find_changes(graph: Graph) -> Changes:
    """Return what is written otherwise than it was read because a new name is in its way."""
    changes = Changes([], [])
    needs_look = get_source(graph).orphans or any(node.subgraphs for node in graph.nodes)
    pending = [_GraphWriter(graph, keep_tensor)] if needs_look else []
    for writer in pending:
        changes.renamed.extend(writer.renamed.items())
        changes.left_out.extend((number, message) for number, message, name in writer.list_orphans() if name is None)
        pending += writer.list_bodies()
    return changes


def list_as_read(graph: Graph) -> list[Node]:
    """Return the nodes in the order that they have in a graph that is read from the file of this one."""
    at_home = find_at_home(graph)
    steps = {node for node in graph.nodes if node.op or is_constant_in_file(node, graph) or node in at_home}
    variables = [node for node in graph.nodes if node not in steps]
    inputs = [node for node in variables if _is_input(node)]
    tensors: Ranked[Node] = {INITIALIZER: [], SPARSE: []}
    for node in variables:
        stored = find_stored(node.details)
        if stored.tensor is not None and not _is_input(node):
            tensors[SPARSE if stored.is_sparse else INITIALIZER].append((_rank_tensor(stored), node))
    others = [node for nodes in _order(tensors).values() for node in nodes]
    return [*inputs, *others, *(node for node in graph.nodes if node in steps)]


def _rank_tensor(stored: Stored) -> int:
    """Return the rank of an initializer; one that a Constant or a body had comes after those that the main graph had."""
    assert stored.tensor is not None
    return stored.tensor.rank if stored.home is None else _LAST


Item = TypeVar("Item")
Ranked = dict[int, list[tuple[int, Item]]]
"""Lists of a GraphProto by number; each item has its rank, which is its place in the list of its file."""


def _order(lists: Ranked[Item]) -> dict[int, list[Item]]:
    """Return each list by rank as in its file; items of copies come after those of the originals."""
    ordered: dict[int, list[Item]] = {}
    for number, ranked in lists.items():
        ranks = [rank for rank, _ in ranked]
        if not all(map(lt, ranks, ranks[1:])):  # a rank that comes again is that of a copy
            copies: dict[int, list[tuple[int, Item]]] = {}
            counts: Counter[int] = Counter()
            for pair in ranked:
                copies.setdefault(counts[pair[0]], []).append(pair)
                counts[pair[0]] += 1
            ranked = [pair for copy in copies.values() for pair in sorted(copy, key=itemgetter(0))]
        ordered[number] = [item for _, item in ranked]
    return ordered


class _GraphWriter:
    """Encodes one graph. ``captured`` gives the names of what it captures, ``around`` the names of the graphs around it.

    ``lifted`` are captures that stand for weights of the main graph whose home is this body or one in it, ``at_home`` the
    names of all such weights there.
    """

    def __init__(
        self,
        graph: Graph,
        encode_tensor: TensorEncoder,
        captured: Mapping[Node, str] = EMPTY,
        around: tuple[Around, ...] = (),
        types: Mapping[str, bytes] = EMPTY,
        lifted: Mapping[Node, Node] = EMPTY,
        at_home: Mapping[Node, str] = EMPTY,
    ) -> None:
        self._graph = graph
        self._encode_tensor = encode_tensor
        self._captured = captured
        self._types = types
        self._at_home = at_home if around else find_at_home(graph)
        self._lifted: Mapping[Node, Node] = lifted if around else {node: node for node in self._at_home}
        home = get_source(graph).span
        self._own = {variable: node for variable, node in lifted.items() if find_stored(node.details).home is home}
        self._weights = set(self._own.values())
        self._nodes = [node for node in graph.nodes if node not in captured and node not in self._lifted]
        self._nodes[:0] = self._own.values()
        self._names_of = self._find_names if self._weights else list_output_names
        self._outside = around
        self.renamed: dict[str, str] = {}
        if around:
            self.renamed = find_free_names(self._find_clashes(), {*self._list_names(), *captured.values()}, around)
        self._is_plain = not (captured or self._own or self.renamed or self._weights)  # names are those that nodes have
        self._as_read = set() if around else set(get_source(graph).nodes)
        self._heads = {(head.node, head.index) for head in graph.heads}

    @cached_property
    def _definitions(self) -> dict[str, tuple[int, OnnxFile | None]]:
        """The position of the operator that defines a name, -1 for variables, and the file in which the value has it too."""
        definitions: dict[str, tuple[int, OnnxFile | None]] = {}
        for node in self._nodes:
            position, span = self._positions.get(node, -1), find_span(node)
            for name, old in zip(self._own_names(node), list_read_names(node), strict=False):
                definitions[name] = position, span.file if span is not None and name == old else None
        return definitions

    @cached_property
    def _positions(self) -> dict[Node, int]:
        """The positions of the operators."""
        return {node: position for position, node in enumerate(self._nodes) if node.op}

    def _list_names(self) -> set[str]:
        return {name for node in self._nodes for name in self._names_of(node) if name}

    def _find_clashes(self) -> Iterator[str]:
        """Yield the names of values that would hide a captured value, or be defined twice, and that are not so in the file."""
        captured = {name: name == node.details.outputs[0] for node, name in self._captured.items()}
        file = get_source(self._graph).file
        for node in self._nodes:
            for name, old in zip(self._names_of(node), list_read_names(node), strict=False):
                hides = name in captured and not (captured[name] and name == old)
                if name and (hides or (node.op and any(level.defines(name, file) for level in self._outside))):
                    yield name

    def is_as_read(self) -> bool:
        """Whether the bytes of a subgraph still hold: neither its own names nor those that it captures have changed."""
        return (
            is_untouched(self._graph)
            and not self.renamed
            and all(self._encode_tensor(node, node.name) is None for node in self._nodes if not node.op)
            and all(self._is_kept(node) for node in self._weights)
            and all(node.details.outputs == (name,) for node, name in self._captured.items())
            and all(name == message.name for _, message, name in self.list_orphans())
            and all(b"".join(self._encode_annotation(each, each.name).pieces()) == each.read() for each in self._annotations())
            and all(body.is_as_read() for body in self.list_bodies())
        )

    def encode(self) -> Message:
        """Return the GraphProto."""
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

    def _name(self, entry: Entry) -> str:
        captured = self._captured.get(entry.node)
        if captured is not None:
            return captured
        name = self._names_of(self._own.get(entry.node, entry.node) if self._own else entry.node)[entry.index]
        return self.renamed.get(name, name) if self.renamed else name

    def _find_names(self, node: Node) -> tuple[str, ...]:
        """Return the names of a node's outputs; of a weight at home the one that it has there."""
        return (self._at_home[node],) if node in self._weights else list_output_names(node)

    def _is_kept(self, node: Node) -> bool:
        """Return whether a weight of this body has the names that it was read with."""
        stored = find_stored(node.details)
        return (
            stored.tensor is not None and self._own_names(node) == (stored.tensor.name,) and node.details.label == stored.label
        )

    def _list_steps(self) -> list[Node]:
        """Return the operators, and the weights that are written as Constants, in the order of their file."""
        steps = [
            node for node in self._nodes if node.op or (is_constant_in_file(node, self._graph) and node not in self._weights)
        ]
        constants = [
            (stored.tensor.rank, node)
            for node in self._own.values()
            if (stored := find_stored(node.details)).node is not None and stored.tensor is not None
        ]
        for rank, node in sorted(constants, key=lambda pair: pair[0]):
            # In rising order of their ranks, so that each insertion is at its final place.
            steps.insert(rank, node)
        return steps

    def _own_names(self, node: Node) -> tuple[str, ...]:
        if node in self._captured:
            return (self._captured[node],)
        names = self._names_of(node)
        return tuple([self.renamed.get(name, name) for name in names]) if self.renamed else names

    def _bodies(self, node: Node) -> Iterator[_GraphWriter]:
        """Yield the writers of a node's subgraphs; what these capture are the node's last inputs."""
        entries = iter(node.inputs[len(node.inputs) - sum(len(graph.captures) for graph in node.subgraphs) :])
        for graph in node.subgraphs:
            captured: dict[Node, str] = {}
            lifted: dict[Node, Node] = {}
            for variable, entry in zip(graph.captures, entries, strict=False):
                if entry.node in self._lifted and entry.node not in self._own:
                    lifted[variable] = self._lifted[entry.node]
                else:
                    captured[variable] = self._name(entry)
            around = (*self._outside, Around(self._definitions, self._positions[node], self._new_names, find_prefix(node)))
            yield _GraphWriter(graph, self._encode_tensor, captured, around, EMPTY, lifted, self._at_home)

    def list_bodies(self) -> list[_GraphWriter]:
        """Return the writers of the subgraphs in this graph."""
        return [body for node in self._nodes if node.subgraphs for body in self._bodies(node)]

    def _list_inputs(self, node: Node) -> list[str]:
        """Return the names of a node's own inputs, those that are absent included."""
        if self._is_plain:
            names = [e.node.details.outputs[e.index] if e.node.op else e.node.name for e in own_inputs(node)]
        else:
            names = [self._name(entry) for entry in own_inputs(node)]
        for position in node.details.absent:
            names.insert(position, "")
        return names

    def _encode_steps(self) -> list[bytes | Blob | Message]:
        """Return the NodeProtos of operators and Constants.

        Of an operator whose names come first in its NodeProto all else is copied as it was read.
        """
        encoded: list[bytes | Blob | Message] = []
        as_read, is_plain = self._as_read, self._is_plain
        for node in self._list_steps():
            details = node.details
            span = find_stored(details).node
            if not isinstance(span, NamesSpan) or node.subgraphs or not node.op:
                encoded.append(self._encode_node(node))
                continue
            data = span.file.data
            if node in as_read:  # and so are the nodes of its inputs
                encoded.append(data[span.start : span.end])
                continue
            outputs = details.outputs if is_plain else self._own_names(node)
            names = encode_names(self._list_inputs(node), outputs, details.label)
            encoded.append(names + data[span.names_end : span.end])
        return encoded

    def _encode_node(self, node: Node) -> bytes | Blob | Message:
        stored, details = find_stored(node.details), node.details
        if stored.node is None:
            raise RefusedError(Fault(f"operator {node.op} comes from no ONNX file", node=node.name))
        bodies = list(self._bodies(node)) if node.subgraphs else []
        inputs = self._list_inputs(node)
        outputs = self._own_names(node)
        if not node.op:
            return self._encode_constant(stored.node, stored, outputs[0], node)
        changed = not all(body.is_as_read() for body in bodies)
        if not changed and tuple(inputs) == stored.inputs and outputs == stored.outputs and details.label == stored.label:
            return stored.node
        encoded = map(_GraphWriter.encode, bodies)
        # Bodies are taken in the order in which the attributes have them.
        graphs = dict.fromkeys((GRAPH, GRAPHS), lambda _: next(encoded))
        changes: dict[int, FieldChange] = {}
        if changed:
            changes[5] = lambda attribute: rewrite_message(attribute, graphs)
        return _encode_named(stored.node, {1: inputs, 2: outputs, 3: [details.label] if details.label else []}, changes)

    def _encode_constant(self, span: Span, stored: Stored, name: str, node: Node) -> Blob | Message:
        tensor, label = self._encode_tensor(node, name), node.details.label
        if tensor is None and stored.tensor is not None and name == stored.tensor.name and label == stored.label:
            return span
        changes: dict[int, FieldChange] = {}
        if tensor is not None:
            changes[5] = lambda attribute: rewrite_message(attribute, {TENSOR: lambda _: tensor})
        return _encode_named(span, {2: [name], 3: [label] if label else []}, changes)

    def _list_tensors(self, variables: Iterable[Node]) -> Ranked[bytes | Blob | Message]:
        tensors: Ranked[bytes | Blob | Message] = {INITIALIZER: [], SPARSE: []}
        for node in variables:
            stored = find_stored(node.details)
            if stored.tensor is None:
                continue
            if stored.node is not None and (node in self._weights or is_constant_in_file(node, self._graph)):
                continue
            (name,) = self._own_names(node)
            rank = stored.tensor.rank if node in self._weights else _rank_tensor(stored)
            tensor: bytes | Blob | Message
            if stored.node is not None:  # a Constant of a body, which the main graph has for several bodies
                tensor = self._encode_tensor(node, name) or name_tensor(stored.tensor, name)
            elif stored.is_sparse:
                tensor = rename_sparse(stored.tensor, name)
            else:
                tensor = self._encode_tensor(node, name) or rename_message(stored.tensor, name)
            tensors[SPARSE if stored.is_sparse else INITIALIZER].append((rank, tensor))
        return tensors

    def _encode_input(self, node: Node) -> bytes | Blob | Message:
        (name,), declared = self._own_names(node), find_stored(node.details).input
        return describe_value(name) if declared is None else rename_message(declared, name)

    def _encode_outputs(self) -> list[bytes | Blob | Message]:
        """Return the ValueInfoProtos of the outputs."""
        encoded: list[bytes | Blob | Message] = []
        counts: Counter[tuple[Node, int]] = Counter()
        for head in self._graph.heads:
            name, stored, place = self._name(head), find_stored(head.node.details), (head.node, head.index)
            values = stored.values
            stated = [message for number, index, message in values.repeated if (number, index) == (OUTPUT, head.index)]
            stated += [values.results[head.index]] if head.index in values.results else []
            # A value that is an output several times has a message for each.
            known = stated[min(counts[place], len(stated) - 1)] if stated else values.infos.get(head.index) or stored.input
            counts[place] += 1
            inferred = self._types.get(name)
            if known is None or inferred is not None:
                encoded.append(describe_value(name, inferred))
            else:
                encoded.append(rename_message(known, name))
        return encoded

    def _list_infos(self) -> Ranked[bytes | Blob | Message]:
        infos: list[tuple[int, bytes | Blob | Message]] = []
        annotations: list[tuple[int, bytes | Blob | Message]] = []
        heads, ends = self._heads, {node for node, _ in self._heads}
        for node in (*self._captured, *self._nodes):
            values = find_stored(node.details).values
            if values is NO_MESSAGES:
                continue
            names, results = node.details.outputs if node.op and self._is_plain else self._own_names(node), values.results
            for index, message in values.infos.items():
                if index in results or node not in ends or (node, index) not in heads:
                    infos.append((message.rank, rename_message(message, names[index])))
            if results is EMPTY and values.annotations is EMPTY and not values.repeated:  # as nearly always
                continue
            for index, message in results.items():  # an output no more: its type is known anyway
                if (node, index) not in heads and index not in values.infos and node.op:
                    infos.append((_LAST, rename_message(message, names[index])))
            for index, message in values.annotations.items():
                annotations.append((message.rank, self._encode_annotation(message, names[index])))
            for number, index, message in values.repeated:
                if number == VALUE_INFO:
                    infos.append((message.rank, rename_message(message, names[index])))
                elif number == ANNOTATION:
                    annotations.append((message.rank, self._encode_annotation(message, names[index])))
        for number, message, name in self.list_orphans():
            if name is None:
                continue
            if number == VALUE_INFO:
                infos.append((message.rank, rename_message(message, name)))
            else:
                annotations.append((message.rank, self._encode_annotation(message, name)))
        return {VALUE_INFO: infos, ANNOTATION: annotations}

    @property
    def _orphans(self) -> Sequence[tuple[int, NamedMessage]]:
        return get_source(self._graph).orphans

    def _annotations(self) -> Iterator[NamedMessage]:
        """Yield the annotations of a file on values of this graph."""
        for node in (*self._captured, *self._nodes):
            values = find_stored(node.details).values
            yield from values.annotations.values()
            yield from (message for number, _, message in values.repeated if number == ANNOTATION)

    def list_orphans(self) -> Iterator[tuple[int, NamedMessage, str | None]]:
        """Yield the messages on values that this graph does not have: the number of the list, the message and its name now.

        Those on values around it follow these. One has None where a value has got its name: it must not become a message on
        that.
        """
        names = {name for node in self._nodes for name in self._own_names(node) if name} if self._orphans else set()
        for number, message in self._orphans:
            around = self._find_name_around(message.name)
            is_taken = message.name in names or any(message.name in level.definitions for level in self._outside)
            yield number, message, around or (None if is_taken else message.name)

    def _encode_annotation(self, message: NamedMessage, name: str) -> Blob | Message:
        prefix = name.removesuffix(message.name) if name.endswith(message.name) else ""
        return rename_annotation(message, name, lambda old: self._find_new_name(old, prefix))

    def _find_new_name(self, old: str, prefix: str = "") -> str:
        """Return what a value of the file is called now, here or around; of several copies the one with ``prefix``."""
        if old in self._new_names:
            return choose_new_name(self._new_names[old], old, prefix)
        return self._find_name_around(old) or old

    def _find_name_around(self, old: str) -> str:
        return next((name for level in reversed(self._outside) if (name := level.find_new_name(old))), "")

    @cached_property
    def _new_names(self) -> dict[str, list[str]]:
        """The names that values of the file have now, several where it has copies."""
        new_names: dict[str, list[str]] = {}
        for node in (*self._captured, *self._nodes):
            read = node.details.outputs if node in self._captured else list_read_names(node)
            for old, new in zip(read, self._own_names(node), strict=True):
                new_names.setdefault(old, []).append(new)
        return new_names


_LAST = 1 << 62


def _is_input(node: Node) -> bool:
    stored = find_stored(node.details)
    return stored.input is not None or stored.tensor is None


def _encode_named(span: Span, names: Mapping[int, Sequence[str]], changes: Mapping[int, FieldChange]) -> Message:
    """Return a NodeProto with other ``names`` by field number, and ``changes`` of other fields as in :func:`rewrite_message`.

    Where the file has as many names of each kind, every field stays at its place, a label that is empty too.
    """
    fields = Counter(field[0] for field in scan(span.file.data, span.start, span.end))
    if fields[3] and not names[3]:
        names = {**names, 3: [""]}
    if all(len(texts) == fields[number] for number, texts in names.items()):
        encoded = {number: map(encode_text, texts) for number, texts in names.items()}
        return rewrite_message(span, {**changes, **{number: partial(_take, texts) for number, texts in encoded.items()}})
    message = Message()
    for number, texts in names.items():
        for text in texts:
            message.add_bytes(number, encode_text(text))
    message.add_encoded(rewrite_message(span, {**changes, **dict.fromkeys(names)}))
    return message


def _take(texts: Iterator[bytes], _: Span) -> bytes:
    return next(texts)
