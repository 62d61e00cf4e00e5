"""Write a graph as Paddle's JSON: known parts keep their text and numbers, new parts get free
numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count, pairwise

import msgspec

from graphshare.errors import Fault, RefusedError
from graphshare.formats.paddle.records import (
    ARGUMENTS,
    BodyRecord,
    StoredObject,
    find_column,
    find_stored,
    get_source,
)
from graphshare.formats.paddle.text import (
    Fields,
    read_list,
    set_attribute,
    write_list,
    write_object,
    write_text,
)
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import own_inputs


def encode_program(graph: Graph) -> bytes:
    """Return the file of a graph with settled outputs. Raises RefusedError for a node without a
    Paddle file.
    """
    return _Writer(graph).write()


class _Numbers(msgspec.Struct):
    """The numbers of a block's values: of its nodes, and of its bodies, by their node."""

    own: dict[Node, list[int]]
    bodies: dict[Node, list[_Numbers]]


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._taken = {0}
        self._open: list[tuple[list[int], int, bool]] = []  # values whose numbers others have
        columns = [find_column(head.node) for head in graph.heads]
        if any(left >= right for left, right in pairwise(columns)):
            columns = list(range(len(columns)))
        self._columns = {
            head.node: column for head, column in zip(graph.heads, columns, strict=True)
        }

    def write(self) -> bytes:
        graph, source = self._graph, get_source(self._graph)
        numbers = self._claim(graph.nodes)
        above, below = count(max(self._taken) + 1), count(min(self._taken) - 1, -1)
        for row, place, is_argument in self._open:
            row[place] = next(below if is_argument else above)
        operators = [self._write_node(node, numbers) for node in graph.nodes]
        block = _set(source.block, ops=write_list(operators))
        region = _set(source.region, blocks=write_list([block]))
        return _set(source.document, program=_set(source.program, regions=write_list([region])))

    def _claim(self, nodes: Iterable[Node]) -> _Numbers:
        """Values keep their numbers unless an earlier value has them."""
        numbers = _Numbers({}, {})
        for node in nodes:
            stored = find_stored(node)
            if stored is None:  # a capture, or what another rewrite made
                continue
            row = numbers.own[node] = [result.number for result in stored.results]
            for place, number in enumerate(row):
                if number in self._taken:
                    self._open.append((row, place, number < 0))
                self._taken.add(number)
            numbers.bodies[node] = [self._claim(body.nodes) for body in node.subgraphs]
        return numbers

    def _write_node(self, node: Node, numbers: _Numbers) -> bytes:
        stored = find_stored(node)
        if stored is None:
            what = f"operator {node.op}" if node.op else "variable"
            raise RefusedError(Fault(f"{what} has no form in a Paddle file", node=node.name))
        results = write_list(
            _set(result.fields, **{"%": b"%d" % number})
            for result, number in zip(stored.results, numbers.own[node], strict=True)
        )
        is_parameter = dict(stored.fields)["#"] == b'"p"'
        changes = {"O": results[1:-1] if is_parameter else results}
        attributes = self._write_attributes(node, stored, is_parameter)
        if attributes is not None:
            changes["A"] = attributes  # without a list of attributes there is no name to change
        if not is_parameter:
            places = [numbers.own[entry.node][entry.index] for entry in own_inputs(node)]
            for place in node.details.absent:
                places.insert(place, 0)
            changes["I"] = _write_inputs(places)
        if node.subgraphs:
            changes["regions"] = write_list(self._write_bodies(node, numbers))
        return _set(stored.fields, **changes)

    def _write_attributes(
        self, node: Node, stored: StoredObject, is_parameter: bool
    ) -> bytes | None:
        """Return a node's attributes if its name or column differs from its text."""
        text = dict(stored.fields).get("A", b"[]")
        if is_parameter:
            if node.name == stored.name:
                return None
            items = read_list(text)
            return write_list([*items[:3], write_text(node.name), *items[4:]])
        if stored.name and node.name != stored.name:
            text = set_attribute(text, "name", write_text(node.name))
        if node in self._columns and self._columns[node] != find_column(node):
            text = set_attribute(text, "col", b"%d" % self._columns[node])
        return text

    def _write_bodies(self, node: Node, numbers: _Numbers) -> Iterable[bytes]:
        captured = [
            numbers.own[entry.node][entry.index] for entry in node.inputs[len(own_inputs(node)) :]
        ]
        for body, own in zip(node.subgraphs, numbers.bodies[node], strict=True):
            record: BodyRecord = body.extra["body"]
            own.own.update({capture: [captured.pop(0)] for capture in body.captures})
            arguments = [
                each
                for each in body.nodes
                if find_stored(each) is not None and each.details.domain in ARGUMENTS
            ]
            operators = [self._write_node(each, own) for each in body.nodes if each.op]
            places = [own.own[head.node][head.index] for head in body.heads]
            operators.append(_set(record.end, I=_write_inputs(places)))
            block = _set(
                record.block, ops=write_list(operators), **self._write_arguments(arguments, own)
            )
            yield _set(record.region, blocks=write_list([block]))

    def _write_arguments(self, arguments: Sequence[Node], numbers: _Numbers) -> dict[str, bytes]:
        lists: dict[str, list[bytes]] = {}
        for node in arguments:
            for result, number in zip(node.details.stored.results, numbers.own[node], strict=True):
                lists.setdefault(node.details.domain, []).append(
                    _set(result.fields, **{"#": b"%d" % number})
                )
        return {key: write_list(texts) for key, texts in lists.items()}


def _write_inputs(numbers: Iterable[int]) -> bytes:
    return write_list([b'{"%%":%d}' % number for number in numbers])


def _set(fields: Fields, **changes: bytes) -> bytes:
    return write_object([(key, changes.get(key, value)) for key, value in fields])
