"""Digests of a model's structure and weights. Equal models have equal digests, however written.

docs/formats.md lists the properties that version 1 hashes. That list never changes; a new list gets
a new version.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from graphshare.analysis.name_lists import list_implied_variables
from graphshare.errors import Fault, InputError
from graphshare.formats.model_format import find_format
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.records import ParameterFile, Record
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.onnx import dtype_code
from graphshare.ir.terms import NormalForm, shorten
from graphshare.ir.walk import Body, format_cycle, list_bodies, list_operands, order_by_references

VERSION = 1


class Fingerprint(msgspec.Struct, frozen=True):
    """A model's digests, in hexadecimal digits. ``weights`` is None if the values of weights are
    not available.
    """

    version: int
    structure: str
    weights: str | None


class _Part(msgspec.Struct, frozen=True, eq=False):
    """The digest of a graph or body, its weights, and the variables for outer values, as visited."""

    digest: bytes
    weights: tuple[Node, ...]
    captures: tuple[Node, ...]


def hash_model(graph: Graph, parameters: ParameterFile | None, form: NormalForm) -> Fingerprint:
    """Return digests of a graph in its normal form and of its weights.

    Raises:
        InputError: functions call each other in a circle; a file of weights cannot be read.
    """
    implied: dict[Node, list[Node]] = {}
    for variable in list_implied_variables(graph):
        implied.setdefault(variable.node, []).append(
            replace(variable.node, op="", name=variable.name, inputs=())
        )
    walk = _Walk(form, find_format(graph).bodies.find_calls(graph), implied)
    walk.add_functions(graph)
    types = find_format(graph).types.list_types(graph)
    inputs = [node for node in graph.variables() if node.details.holds_value is False]
    stated = tuple(_describe_type(types.get(node.name)) for node in inputs)
    part = walk.describe(graph, inputs, stated)
    structure = sha256(b"graphshare fingerprint 1" + part.digest).hexdigest()
    return Fingerprint(VERSION, structure, _hash_weights(form, part.weights, parameters))


class _Walk:
    """Describes graphs, and each function once. ``implied`` are variables without nodes, by user."""

    def __init__(
        self,
        form: NormalForm,
        find_call: Callable[[Node], Body | None],
        implied: Mapping[Node, Sequence[Node]],
    ) -> None:
        self._form, self._find_call, self._implied = form, find_call, implied
        self._functions: dict[Graph, _Part] = {}
        self._met: set[Graph] = set()

    def add_functions(self, graph: Graph) -> None:
        """Describe called functions, callees first. Raises InputError for functions that call
        themselves.
        """

        def list_callees(each: Graph) -> Iterator[Graph]:
            nodes = list(each.nodes)
            while nodes:
                node = nodes.pop()
                nodes += [inner for body in node.subgraphs for inner in body.nodes]
                call = self._find_call(node) if node.op else None
                if call is not None:
                    yield call.graph

        def refuse(cycle: list[Graph]) -> InputError:
            return InputError(
                Fault(
                    f"functions call each other in a circle: {format_cycle(['a function'] * len(cycle))}"
                )
            )

        for function in order_by_references([graph], list_callees, refuse):
            if function is graph:
                continue
            variables = function.variables()
            arguments = [each for each in variables if self._form.find_outline(each) is None]
            self._functions[function] = self.describe(function, arguments)

    def describe(self, graph: Graph, inputs: Sequence[Node], stated: Hashable = ()) -> _Part:
        digest, weights, captures = sha256(), list[Node](), list[Node]()
        captured, places = set(graph.captures), {node: place for place, node in enumerate(inputs)}
        numbers: dict[Node, int] = {}
        parts: dict[Node, list[tuple[str, _Part, Body]]] = {}
        _add(digest, (stated, len(inputs)))
        stack = [(entry.node, False) for entry in reversed(graph.heads)]
        while stack:
            node, is_ready = stack.pop()
            if node in numbers:
                continue
            if not is_ready:
                parts[node] = self._describe_bodies(node)
                entries = _list_entries(node, parts[node])
                following = [entry.node for entry in entries if entry is not None]
                following += node.control_deps
                stack.append((node, True))
                stack += [(each, False) for each in reversed(following) if each not in numbers]
                continue
            numbers[node] = len(numbers)
            if node in captured:
                captures.append(node)
                _add(digest, ("capture",))
            elif node in places:
                _add(digest, ("input", places[node]))
            else:
                self._add_node(digest, node, parts[node], numbers, weights)
        _add(digest, tuple((numbers[entry.node], entry.index) for entry in graph.heads))
        return _Part(digest.digest(), tuple(weights), tuple(captures))

    def _add_node(
        self,
        digest: Any,
        node: Node,
        parts: list[tuple[str, _Part, Body]],
        numbers: dict[Node, int],
        weights: list[Node],
    ) -> None:
        outline = self._form.find_outline(node)
        if outline is not None or not node.op:
            weights.append(node)
            _add(digest, ("weight", outline))
            return
        entries = [
            None if e is None else (numbers[e.node], e.index) for e in _list_entries(node, parts)
        ]
        bodies = tuple((name, part.digest) for name, part, _ in parts)
        controls = tuple(numbers[each] for each in node.control_deps)
        _add(
            digest, ("operator", self._form.read_statement(node), tuple(entries), bodies, controls)
        )
        weights += self._implied.get(node, ())
        for _, part, body in parts:
            if body.graph not in self._met:
                weights += part.weights
            if body.graph in self._functions:  # its weights are there once
                self._met.add(body.graph)

    def _describe_bodies(self, node: Node) -> list[tuple[str, _Part, Body]]:
        if not node.op:
            return []
        bodies = []
        for name, body in sorted(list_bodies(node).items()):
            arguments = [
                each for each in body.graph.variables() if "position" in each.details.values
            ]
            arguments.sort(key=lambda each: each.details.values["position"])
            # The file's nesting bounds this recursion
            bodies.append((name, self.describe(body.graph, arguments), body))
        call = self._find_call(node)
        return bodies if call is None else [*bodies, ("", self._functions[call.graph], call)]


def _list_entries(node: Node, parts: list[tuple[str, _Part, Body]]) -> list[Entry | None]:
    """Return the inputs by position, then values that bodies capture, as visited."""
    operands = list_operands(node)
    while operands and operands[-1] is None:  # an absent input at the end is the same as none
        operands.pop()
    return [*operands, *(body.captured[each] for _, part, body in parts for each in part.captures)]


def _hash_weights(
    form: NormalForm, weights: Sequence[Node], parameters: ParameterFile | None
) -> str | None:
    if parameters is None or any(map(parameters.lacks, parameters.records)):
        return None
    records = parameters.by_key()
    digest = sha256(b"graphshare fingerprint 1")
    with ArrayReader(parameters) as reader:
        for node in weights:
            content = form.find_constant(node)
            is_unread = isinstance(content, tuple) and content[0] == "unread"
            _add(digest, _read_array(reader, records[node.name]) if is_unread else content)
    return digest.hexdigest()


def _read_array(reader: ArrayReader, record: Record) -> Hashable:
    shape, dtype = record.shape_and_dtype()
    return dtype_code(dtype), shape, shorten(map(bytes, reader.chunks(record)))


def _describe_type(kind: Any) -> Hashable:
    """Names of sizes do not count."""
    if kind is None:
        return None
    dtype, sizes = kind.parts
    if not isinstance(sizes, tuple | list):
        return dtype, None
    return dtype, tuple(size if isinstance(size, int) else None for size in sizes)


def _add(digest: Any, value: object) -> None:
    """Feed a value with its kind and length: no two values are the same bytes."""
    if isinstance(value, tuple | list):
        digest.update(b"(%d:" % len(value))
        for each in value:
            _add(digest, each)
    elif isinstance(value, bytes):
        digest.update(b"b%d:" % len(value) + value)
    elif isinstance(value, int):
        digest.update(b"i%d;" % value)
    elif value is None:
        digest.update(b"n")
    elif hasattr(value, "content"):
        _add(digest, value.content)
    else:
        text = str(value).encode("utf-8", "surrogateescape")
        digest.update(b"s%d:" % len(text) + text)
