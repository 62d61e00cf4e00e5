"""Check that no message of source files is lost, unless it was replaced or its owner removed.

This module counts messages and finds them in the graph; :mod:`graphshare.formats.onnx.read_back`
compares their contents with the written file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec.structs import replace

from graphshare.errors import BUG, Fault, SelfCheckError
from graphshare.formats.model_format import Origins, RemovedMessage
from graphshare.formats.onnx.graph_fields import (
    ANNOTATION,
    INPUT,
    LIST_NAMES,
    NODE,
    VALUE_INFO,
    find_tensor_list,
)
from graphshare.formats.onnx.graph_names import find_name_changes
from graphshare.formats.onnx.stored import (
    GRAPH_METADATA,
    METADATA,
    NO_MESSAGES,
    OUTPUT,
    OWN_KEYS,
    MemoryFile,
    NamedMessage,
    OnnxSource,
    Span,
    Stored,
    ValueMessages,
    find_stored,
    get_source,
    list_results,
    read_metadata,
)
from graphshare.formats.onnx.write import is_untouched
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import iter_graphs, iter_nodes, list_output_names, list_value_places

_MODEL_FIELDS = {
    1: "ir_version",
    2: "producer_name",
    3: "producer_version",
    4: "domain",
    5: "model_version",
    6: "doc_string",
    8: "opset_import",
    METADATA: "metadata_props",
    20: "training_info",
    25: "functions",
    26: "configuration",
}
_GRAPH_FIELDS = {2: "name", 10: "doc_string", 16: "metadata_props"}
_LISTED = (VALUE_INFO, OUTPUT, ANNOTATION)
"""The lists whose messages a map of nodes does not show."""
_TAKEN = "the file has no such value, and another one has the name now"
_ONE_MODEL = "the first model has one of its own"
Slot = tuple[int, int, int]
"""The number of a list, the index of an output, and the message's position in the list for it."""
Images = Mapping[Node, Sequence[Node]]


def list_slots(stored: Stored) -> Iterator[tuple[Slot, Span]]:
    """Yield the messages of a node with their slots; a Constant is its NodeProto."""
    if stored.node is not None:
        yield (NODE, 0, 0), stored.node
    elif stored.tensor is not None:
        yield (find_tensor_list(stored), 0, 0), stored.tensor
    if stored.input is not None:
        yield (INPUT, 0, 0), stored.input
    yield from list_value_slots(stored.values)


def list_value_slots(values: ValueMessages) -> Iterator[tuple[Slot, NamedMessage]]:
    """Yield the messages on a node's outputs with their slots."""
    for number, messages in (
        (VALUE_INFO, values.infos),
        (OUTPUT, values.results),
        (ANNOTATION, values.annotations),
    ):
        for index, message in messages.items():
            yield (number, index, 0), message
    for position, (number, index, message) in enumerate(values.repeated, 1):
        yield (number, index, position), message


def account(graph: Graph, origins: Origins) -> Iterator[RemovedMessage | Fault | str]:
    """Yield messages of ``origins`` missing in ``graph``, and notes; see :meth:`ModelFormat.account`.

    Replaced messages, such as a type with new sizes, are not missing.
    """
    keeper = _Keeper(graph, origins)
    for position, source in enumerate(dict.fromkeys(source for source, _ in origins)):
        yield from _find_unread(source)
        if lacking := keeper.list_lacking(source):
            yield from keeper.find_lost(lacking, keeper.images[source])
        yield from _find_lost_fields(get_source(source), graph, is_joined=position > 0)
    yield from _find_unwritten(graph, origins)
    changes = find_name_changes(graph)
    for name, free in changes.renamed:
        yield f"value {name!r} of a body is called {free!r} now, because a value around it has its name"
    for number, message in changes.left_out:
        yield RemovedMessage(LIST_NAMES[number], message.name, _TAKEN, message.file.path)
        yield f"{message.file.path}: {LIST_NAMES[number]} of {message.name!r} is left out: {_TAKEN}"


def check_kept(graph: Graph, source: Graph) -> None:
    """Check that a graph of the same nodes has all messages of the file of ``source``.

    Raises:
        SelfCheckError: a message is lost.
    """
    images = dict(zip(source.nodes, graph.nodes, strict=True))
    faults = [part for part in account(graph, [(source, images)]) if isinstance(part, Fault)]
    if faults:
        raise SelfCheckError([replace(fault, hint=BUG) for fault in faults])


def _find_unread(graph: Graph) -> Iterator[Fault]:
    """Yield a fault for each list whose length in the file differs from the number of messages read."""
    if not is_untouched(graph):
        return
    stated, read = Counter[int](), Counter[int]()
    for each in iter_graphs(graph):
        source = get_source(each)
        stated.update(source.counts)
        read.update([number for number, _ in source.orphans])
        infos = 0
        for node in each.nodes:
            stored = node.details.stored
            if stored is None:
                continue
            values = stored.values
            infos += len(values.infos)
            if values.has_others:
                read.update({OUTPUT: len(values.results), ANNOTATION: len(values.annotations)})
                read.update([number for number, _, _ in values.repeated])
        read[VALUE_INFO] += infos
    for number in _LISTED:  # other lists refuse a repeated name
        if stated[number] != read[number]:
            message = f"has {stated[number]:,} messages in {LIST_NAMES[number]}, but {read[number]:,} were read"
            yield Fault(message, where=get_source(graph).file.path)


class _Keeper:
    """The messages of a graph; ``images`` maps each origin's nodes to the graph's."""

    def __init__(self, graph: Graph, origins: Origins) -> None:
        self._graph, self._branches = graph, origins

    def list_lacking(self, source: Graph) -> list[Node]:
        """Return an origin's nodes that may have lost messages, also in their bodies."""
        nodes = list(source.nodes)
        for origin, branch in self._branches:
            if origin is source:
                find = branch.get
                # An image usually shares the object that holds all messages of its node.
                nodes = [
                    n
                    for n in nodes
                    if n.subgraphs
                    or (image := find(n)) is None
                    or image.details.stored is not n.details.stored
                ]
        return nodes

    @cached_property
    def _stored(self) -> set[int]:
        return {id(node.details.stored) for node in iter_nodes(self._graph)}

    @cached_property
    def images(self) -> dict[Graph, dict[Node, list[Node]]]:
        images: dict[Graph, dict[Node, list[Node]]] = {}
        for source, branch in self._branches:
            known = images.setdefault(source, {})
            for node, image in branch.items():
                known.setdefault(node, []).append(image)
        return images

    @cached_property
    def _origins(self) -> Counter[Node]:
        counts: Counter[Node] = Counter()
        for own in self.images.values():
            for known in own.values():
                counts.update(set(known))
        return counts

    @cached_property
    def _messages(self) -> set[int]:
        messages: set[int] = set()
        for node in iter_nodes(self._graph):
            messages.update([id(message) for _, message in list_slots(find_stored(node.details))])
        return messages

    def find_lost(self, nodes: Iterable[Node], images: Images) -> Iterator[RemovedMessage | Fault]:
        for node in nodes:
            stored = node.details.stored
            if isinstance(stored, Stored) and id(stored) not in self._stored:
                yield from self._find_lost_messages(node, stored, images.get(node, ()))
            for position, body in enumerate(node.subgraphs):
                twins = [
                    image.subgraphs[position]
                    for image in images.get(node, ())
                    if position < len(image.subgraphs)
                ]
                if any(twin is body for twin in twins):
                    continue
                own_source = get_source(body)
                if twins:
                    yield from _find_lost_in_body(own_source, [*map(get_source, twins)])
                else:
                    for number, message in own_source.orphans:
                        yield RemovedMessage(
                            LIST_NAMES[number], message.name, "the body is gone", message.file.path
                        )
                inner: dict[Node, list[Node]] = {}
                for twin in twins:
                    for own, image in zip(body.nodes, twin.nodes, strict=False):
                        inner.setdefault(own, []).append(image)
                yield from self.find_lost(body.nodes, inner)

    @cached_property
    def _values(self) -> set[int]:
        return {id(find_stored(node.details).values) for node in iter_nodes(self._graph)}

    def _find_lost_values(self, node: Node, stored: Stored) -> Iterator[RemovedMessage]:
        """Yield the messages of a node without images, unless another node has its outputs."""
        if stored.values is not NO_MESSAGES and id(stored.values) not in self._values:
            for (number, index, _), message in list_value_slots(stored.values):
                yield RemovedMessage(
                    LIST_NAMES[number],
                    list_output_names(node)[index],
                    "the value is gone",
                    message.file.path,
                )

    def _find_lost_messages(
        self, node: Node, stored: Stored, images: Sequence[Node]
    ) -> Iterator[RemovedMessage | Fault]:
        if not images:
            yield from self._find_lost_values(node, stored)
            return
        others = [dict(list_slots(find_stored(image.details))) for image in images]
        names = list_output_names(node)
        for slot, message in list_slots(stored):
            if id(message) in self._messages:
                continue
            instead = [slots[slot] for slots in others if slot in slots]
            is_replaced = any(isinstance(other.file, MemoryFile) for other in instead)
            if is_replaced:
                continue
            number, index, _ = slot
            name = names[index] if names else ""
            # An image of several nodes has the messages of one of them.
            if not instead and not any(self._origins[image] > 1 for image in images):
                yield Fault(
                    f"the message of {name!r} in {LIST_NAMES[number]} is lost",
                    where=message.file.path,
                    node=node.name,
                )
            elif number in _LISTED:
                yield RemovedMessage(
                    LIST_NAMES[number], name, "the value is another one now", message.file.path
                )


def _find_lost_fields(
    own: OnnxSource, graph: Graph, *, is_joined: bool
) -> Iterator[RemovedMessage | Fault | str]:
    """Yield the fields of a model and its main graph, and the orphans, that ``graph`` lacks."""
    source, path = get_source(graph), own.file.path
    for names, fields, kept in (
        (_MODEL_FIELDS, own.fields, source.fields),
        (_GRAPH_FIELDS, own.rest, source.rest),
    ):
        # A renamed function, or one with moved tensors, is a new field.
        new = [(number, span) for number, span in kept if isinstance(span.file, MemoryFile)]
        replaced = Counter([number for number, span in new if not _is_own(number, span)])
        for number, span in _list_missing(fields, kept):
            name = names.get(number, f"field {number}")
            if is_joined or number == 1:
                key = ""
                if number in (METADATA, GRAPH_METADATA):
                    key, _ = read_metadata(span)
                yield RemovedMessage(name, key, _ONE_MODEL, path)
                if key:
                    yield f"{path}: its metadata {key!r}, of which the first model has another value, is left out"
            elif replaced[number]:
                replaced[number] -= 1
            else:
                yield Fault(f"the field {name} is lost", where=path)
    yield from _find_lost_orphans(own, [source])


def _list_missing(
    fields: Sequence[tuple[int, Span]], kept: Sequence[tuple[int, Span]]
) -> list[tuple[int, Span]]:
    """Return fields not kept by place or content, except digests of files beside a model."""
    spans = {span for _, span in kept}
    moved = [
        (number, span) for number, span in fields if span not in spans and not _is_own(number, span)
    ]
    if not moved:
        return []
    contents = {(number, span.read()) for number, span in kept}
    return [(number, span) for number, span in moved if (number, span.read()) not in contents]


def _find_lost_orphans(own: OnnxSource, sources: Iterable[OnnxSource]) -> Iterator[Fault]:
    kept = {message for source in sources for _, message in source.orphans}
    for number, message in own.orphans:
        if message not in kept:
            yield Fault(
                f"the message of {message.name!r} in {LIST_NAMES[number]} is lost",
                where=own.file.path,
            )


def _find_lost_in_body(own: OnnxSource, sources: Sequence[OnnxSource]) -> Iterator[Fault]:
    kept = {span for source in sources for _, span in source.rest}
    for number, span in own.rest:
        if span not in kept:
            yield Fault(
                f"the field {_GRAPH_FIELDS.get(number, number)} of a body is lost",
                where=own.file.path,
            )
    yield from _find_lost_orphans(own, sources)


def _is_own(number: int, span: Span) -> bool:
    return number == METADATA and read_metadata(span)[0].startswith(OWN_KEYS)


def _find_unwritten(graph: Graph, origins: Origins) -> Iterator[RemovedMessage]:
    """Yield the types of former outputs that no other list can state."""
    heads = Counter(list_value_places(graph.heads))
    ends = dict.fromkeys(
        images.get(head.node) for source, images in origins for head in source.heads
    )
    for node in ends:
        if node is None:
            continue
        values = find_stored(node.details).values
        for (number, index, position), message in list_value_slots(values):
            if number != OUTPUT or message in list_results(values, index, heads[node, index]):
                continue
            if position or index in values.infos or not node.op:
                name = list_output_names(node)[index]
                yield RemovedMessage(
                    LIST_NAMES[OUTPUT], name, "the value is not an output now", message.file.path
                )
