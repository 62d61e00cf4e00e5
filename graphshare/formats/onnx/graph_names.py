"""The names under which the values of an ONNX graph and its bodies are written.

In ONNX an input or initializer of a body may share its name with a value around the body, and an
operator's output with a value defined after the body. Operators such as BeamSearch rely on names in
bodies, so these change only if they clash with a new name around them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from graphshare.formats.onnx.graph_fields import ANNOTATION
from graphshare.formats.onnx.messages import rename_annotation
from graphshare.formats.onnx.protobuf import Message
from graphshare.formats.onnx.stored import (
    FIRST_CONSTANTS,
    NamedMessage,
    OnnxFile,
    find_stored,
    get_source,
    list_read_names,
)
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.walk import Body, count_inputs, list_bodies, list_output_names
from graphshare.text.names import TakenNames


class GraphNames:
    """The names of one graph and of the bodies in it.

    For a body, ``captured`` maps captures to names, ``old`` to their names in the file, and
    ``outside`` describes the enclosing graphs. The main graph holds the weights of bodies; one that
    only its own body uses is written there, at home. ``lifted`` maps captures of such weights, here
    and in inner bodies, to the weights; ``at_home`` has their names. ``nodes`` are written here.
    ``weights`` are at home here, and ``own`` maps captures to them. ``renamed`` maps names that
    clash with the enclosing graph to new ones. A plain graph uses its nodes' names.
    """

    def __init__(
        self,
        graph: Graph,
        captured: Mapping[Node, str] = EMPTY,
        outside: tuple[Around, ...] = (),
        lifted: Mapping[Node, Node] = EMPTY,
        at_home: Mapping[Node, str] = EMPTY,
        old: Mapping[Node, str] = EMPTY,
    ) -> None:
        self.graph, self.captured, self.outside = graph, captured, outside
        self._old = old
        self._at_home, self._lifted = at_home, lifted
        if not outside:
            self._at_home = find_at_home(graph)
            self._lifted = {node: node for node in self._at_home}
        home = get_source(graph).span
        self.own = {
            variable: node
            for variable, node in lifted.items()
            if find_stored(node.details).home is home
        }
        self.weights = set(self.own.values())
        self.nodes = [
            node for node in graph.nodes if node not in captured and node not in self._lifted
        ]
        self.nodes[:0] = self.own.values()
        self._names_of = self._find_names if self.weights else list_output_names
        self.renamed: dict[str, str] = self._rename_clashes() if outside else {}
        self.is_plain = not (captured or self.own or self.renamed or self.weights)

    @property
    def is_body(self) -> bool:
        """Whether this is the graph of an operator."""
        return bool(self.outside)

    def list_outputs(self, node: Node) -> tuple[str, ...]:
        """Return the names of a node's outputs, or of a capture."""
        if node in self.captured:
            return (self.captured[node],)
        names = self._names_of(node)
        if not self.renamed or node in self.weights:
            return names
        return tuple([self.renamed.get(name, name) for name in names])

    def find(self, entry: Entry) -> str:
        node = self.own.get(entry.node, entry.node)
        return self.list_outputs(node)[entry.index]

    def list_bodies(self, node: Node) -> Iterator[GraphNames]:
        """Yield the names of a node's subgraphs; their captures are the node's last inputs."""
        entries = iter(node.inputs[count_inputs(node) :])
        pairs = zip(list_output_names(node), list_read_names(node), strict=False)
        prefix = next(
            (new.removesuffix(old) for new, old in pairs if new and new.endswith(old)), ""
        )
        around = Around(
            self._definitions, self._positions[node], _find_start(node), self._new_names, prefix
        )
        for graph in node.subgraphs:
            captured: dict[Node, str] = {}
            lifted: dict[Node, Node] = {}
            old: dict[Node, str] = {}
            for variable, entry in zip(graph.captures, entries, strict=False):
                if entry.node in self._lifted and entry.node not in self.own:
                    lifted[variable] = self._lifted[entry.node]
                else:
                    captured[variable] = self.find(entry)
                    old[variable] = variable.details.outputs[0] or self._find_old(entry.node)
            yield GraphNames(graph, captured, (*self.outside, around), lifted, self._at_home, old)

    def list_orphans(self) -> Iterator[tuple[int, NamedMessage, str | None]]:
        """Yield messages on values that this graph lacks: list number, message and new name.

        A message on a value around this graph follows it. The name is None if another value has it:
        the message must be dropped.
        """
        orphans = get_source(self.graph).orphans
        if not orphans:
            return
        names = set(chain.from_iterable(map(self.list_outputs, self.nodes))) - {""}
        for number, message in orphans:
            new_name: str | None = self._find_around(message.file, message.name)
            if not new_name:
                is_taken = message.name in names or self._is_defined_around(message.name)
                new_name = None if is_taken else message.name
            yield number, message, new_name

    def list_annotations(self) -> Iterator[NamedMessage]:
        yield from (
            message for number, message in get_source(self.graph).orphans if number == ANNOTATION
        )
        for node in (*self.captured, *self.nodes):
            values = find_stored(node.details).values
            yield from values.annotations.values()
            yield from (message for number, _, message in values.repeated if number == ANNOTATION)

    def find_new_name(self, file: OnnxFile, old: str, prefix: str = "") -> str:
        """Return the new name of a file's value, here or around; ``prefix`` chooses among copies."""
        name = _find_copy(self._new_names, file, old, prefix)
        if name is not None:
            return name
        return self._find_around(file, old) or old

    def encode_annotation(self, message: NamedMessage, name: str) -> Message:
        """Return a TensorAnnotation for the value ``name``, with the new names of its values."""
        prefix = name.removesuffix(message.name) if name.endswith(message.name) else ""
        return rename_annotation(
            message, name, lambda old: self.find_new_name(message.file, old, prefix)
        )

    def _find_around(self, file: OnnxFile, old: str) -> str:
        for level in reversed(self.outside):
            name = _find_copy(level.new_names, file, old, level.prefix)
            if name:
                return name
        return ""

    def _find_old(self, node: Node) -> str:
        return self._old[node] if node in self.captured else list_read_names(node)[0]

    def _find_names(self, node: Node) -> tuple[str, ...]:
        return (self._at_home[node],) if node in self.weights else list_output_names(node)

    @cached_property
    def _definitions(self) -> dict[str, Definition]:
        definitions: dict[str, Definition] = {}
        for node in self.nodes:
            position, start = self._positions.get(node, -1), _find_start(node)
            # It left its body
            has_moved = find_stored(node.details).home is not None and node not in self.weights
            for name, old in zip(self.list_outputs(node), list_read_names(node), strict=False):
                file = _find_file(node) if name == old and not has_moved else None
                definitions[name] = Definition(position, file, start)
        return definitions

    @cached_property
    def _positions(self) -> dict[Node, int]:
        return {
            node: i
            for i, node in enumerate(self.nodes)
            if node.op or find_stored(node.details).node is not None
        }

    @cached_property
    def _new_names(self) -> _NewNames:
        """New names of the files' values; copies have several."""
        new_names: dict[tuple[OnnxFile | None, str], list[str]] = {}
        own = get_source(self.graph).file
        for node in (*self.captured, *self.nodes):
            file, read = _find_file(node), list_read_names(node)
            if node in self.captured:
                file, read = own, (self._find_old(node),)
            for old, new in zip(read, self.list_outputs(node), strict=True):
                if old:
                    new_names.setdefault((file, old), []).append(new)
        return new_names

    def _rename_clashes(self) -> dict[str, str]:
        """Rename values that would newly hide a captured one or be defined twice."""
        clashes = sorted(set(self._find_clashes()))
        renamed: dict[str, str] = {}
        if not clashes:
            return renamed
        taken = TakenNames(chain(self.captured.values(), *map(self._names_of, self.nodes)))
        for name in clashes:
            renamed[name] = taken.take(name)
            while self._is_defined_around(renamed[name]):
                renamed[name] = taken.take(name)
        return renamed

    def _find_clashes(self) -> Iterator[str]:
        is_as_read = {name: name == node.details.outputs[0] for node, name in self.captured.items()}
        file = get_source(self.graph).file
        weights = {self._at_home[node] for node in self.weights}  # these keep their names
        for node in self.nodes:
            for name, old in zip(self._names_of(node), list_read_names(node), strict=False):
                hides_captured = name in is_as_read and not (is_as_read[name] and name == old)
                hides_weight = name in weights and node not in self.weights
                is_repeated = bool(node.op) and any(
                    level.defines(name, file) for level in self.outside
                )
                if name and (hides_captured or hides_weight or is_repeated):
                    yield name

    def _is_defined_around(self, name: str) -> bool:
        return any(name in level.definitions for level in self.outside)


class Around(NamedTuple):
    """The values of a graph around a body, and the position of the body's owner there.

    ``start`` is the owner's first byte in its file, ``prefix`` the text put before its name.
    """

    definitions: Mapping[str, Definition]
    owner: int
    start: int
    new_names: _NewNames
    prefix: str

    def defines(self, name: str, file: OnnxFile) -> bool:
        """Whether a value of this name is defined before the body here, but not in ``file``."""
        known = self.definitions.get(name)
        if known is None or known.position >= self.owner:
            return False
        is_from_file = known.file is file and known.start < self.start
        return not is_from_file


class Definition(NamedTuple):
    """A value's operator by position (-1 for a variable) and first byte; its file if the name is unchanged."""

    position: int
    file: OnnxFile | None
    start: int


_NewNames = Mapping[tuple[OnnxFile | None, str], Sequence[str]]


def _find_file(node: Node) -> OnnxFile | None:
    stored = find_stored(node.details)
    span = stored.node or stored.tensor or stored.input
    return None if span is None else span.file


def _find_start(node: Node) -> int:
    """Return an operator's first byte; inputs and initializers come before all."""
    span = find_stored(node.details).node
    return span.start if span is not None else -1


def _find_copy(new_names: _NewNames, file: OnnxFile, old: str, prefix: str) -> str | None:
    """Return the new name of a file's value, None if unknown; ``prefix`` chooses among copies."""
    names = new_names.get((file, old))
    if names is None:
        return None
    if len(names) == 1:
        return names[0]
    return prefix + old if prefix + old in names else old


class NameChanges(NamedTuple):
    """Side effects of new names: renamed values of bodies, and dropped messages."""

    renamed: list[tuple[str, str]]
    left_out: list[tuple[int, NamedMessage]]


def find_name_changes(graph: Graph) -> NameChanges:
    """Return the values and messages that make room for new names."""
    changes = NameChanges([], [])
    needs_look = get_source(graph).orphans or any(node.subgraphs for node in graph.nodes)
    if not needs_look:
        return changes
    pending = [GraphNames(graph)]
    for names in pending:
        changes.renamed.extend(names.renamed.items())
        for number, message, name in names.list_orphans():
            if name is None:
                changes.left_out.append((number, message))
        for node in names.nodes:
            if node.subgraphs:
                pending.extend(names.list_bodies(node))
    return changes


def find_at_home(graph: Graph) -> dict[Node, str]:
    """Return the weights of bodies that are written where they were read, with their names there.

    Only their body captures these, once; others, such as weights tied across bodies, are
    initializers of the main graph. There a name of several bodies gets a number on reading.
    """
    if not any(node.subgraphs for node in graph.nodes):
        return {}
    lifted = {
        node: node for node in graph.variables() if find_stored(node.details).home is not None
    }
    uses = Counter(head.node for head in graph.heads)
    homes: set[Node] = set()
    for node in graph.nodes:
        uses.update([entry.node for entry in node.inputs])
        if node.subgraphs:
            homes.update(_list_at_home(node, lifted))
    return _name_at_home(graph, {node for node in homes if uses[node] == 1})


def _name_at_home(graph: Graph, at_home: Set[Node]) -> dict[Node, str]:
    taken = TakenNames(
        name for node in graph.nodes if node not in at_home for name in list_output_names(node)
    )
    names: dict[Node, str] = {}
    for node in graph.nodes:
        if node in at_home:
            stored = find_stored(node.details)
            number = ""
            if stored.tensor is not None:
                number = stored.outputs[0].removeprefix(stored.tensor.name)
            name = node.name.removesuffix(number)
            names[node] = name if taken.find_free(name) == node.name else node.name
            taken.add(node.name)
    return names


def _list_at_home(node: Node, lifted: Mapping[Node, Node]) -> Iterator[Node]:
    """Yield the weights that come from the bodies of an operator and are captured there."""
    pending = [(body, _find_captured(body, lifted)) for body in list_bodies(node).values()]
    for body, weights in pending:
        home = get_source(body.graph).span
        for weight in weights.values():
            if find_stored(weight.details).home is home:
                yield weight
        if weights:
            for owner in body.graph.nodes:
                for inner in list_bodies(owner).values():
                    pending.append((inner, _find_captured(inner, weights)))


def _find_captured(body: Body, weights: Mapping[Node, Node]) -> dict[Node, Node]:
    """Map a body's captures to the weights of the main graph; ``weights`` maps nodes around to them."""
    captured: dict[Node, Node] = {}
    for variable, entry in body.captured.items():
        if entry.node in weights:
            captured[variable] = weights[entry.node]
    return captured


def is_constant_in_file(node: Node, graph: Graph) -> bool:
    """Whether a main graph's variable is written as a Constant: its own Constants, and some of bodies.

    ONNX's type inference treats sparse Constants, unlike sparse initializers, as tensors. Up to IR
    version 3 initializers are inputs.
    """
    stored = find_stored(node.details)
    if node.op or stored.node is None:
        return False
    return stored.home is None or stored.is_sparse or get_source(graph).ir_version < FIRST_CONSTANTS
