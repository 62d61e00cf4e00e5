"""Read Paddle's graph JSON: parameters, inputs and body arguments become variables, all else
operators.

Only parameters, inputs and outputs have names. Value 12 is called ``%12``, as when Paddle prints a
program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.formats.paddle.records import (
    ARGUMENTS,
    FETCH,
    INPUTS,
    PARAMETER,
    BodyRecord,
    OperatorResult,
    PaddleSource,
    StoredObject,
    find_column,
    find_stored,
    name_value,
    read_values,
)
from graphshare.formats.paddle.text import Attribute, Fields, read_list, read_object, split_operator
from graphshare.ir.graph import Entry, FrozenMap, Graph, Node, NodeDetails

_START = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:base_code|program)"\s*:\s*\{\s*"(?:magic|trainable|version|regions)"'
)
_BOM = b"\xef\xbb\xbf"
_PERSISTABLE = 0  # the place in a parameter's OA
_NAME = 3  # the place in a parameter's A
_DEEPEST = 50
_BODIES = {"if": ("true", "false"), "while": ("body",)}
_BUILTIN = "builtin"


def begins_like_program(start: bytes) -> bool:
    """Whether a file that begins with ``start`` is a program of Paddle."""
    return _START.match(start) is not None


def read_program(data: bytes, where: str = "") -> Graph:
    """Return the graph of a program. Raises InputError, with the place, for a broken file."""
    reader = _Reader(where)
    try:
        return reader.read(data)
    except InputError:
        raise
    except (
        msgspec.MsgspecError,
        UnicodeDecodeError,
        KeyError,
        TypeError,
        ValueError,
        IndexError,
    ) as error:
        what = f"no key {error}" if isinstance(error, KeyError) else str(error)
        reader.fail(f"is not a program of Paddle: {what}")
    except RecursionError:
        reader.fail("is nested too deeply")


class _Scope:
    """The values that a block can use, by number: its own, and the enclosing block's, as
    captures.
    """

    def __init__(self, outer: _Scope | None) -> None:
        self._outer = outer
        self.known: dict[int, Entry] = {}
        self.captures: dict[int, Node] = {}

    def find(self, number: int) -> Entry | None:
        if number not in self.known:
            around = self._outer.find(number) if self._outer is not None else None
            if around is None:
                return None
            self.captures[number] = Node(
                "",
                name_value(around),
                num_outputs=1,
                details=NodeDetails(_BUILTIN, holds_value=False),
            )
            self.known[number] = Entry(self.captures[number])
        return self.known[number]


class _Reader:
    """The reader of one program. ``path`` is the current place in the document."""

    def __init__(self, where: str) -> None:
        self.where, self.path = where, "$"
        self._defined: set[int] = set()
        self._taken: set[str] = set()
        self._source: PaddleSource

    def fail(self, message: str) -> NoReturn:
        raise InputError(Fault(message, where=self.where, path=self.path)) from None

    def read(self, data: bytes) -> Graph:
        """Errors other than InputError mean a document of another form."""
        text = msgspec.json.format(data.removeprefix(_BOM), indent=-1)  # whitespace has no meaning
        document = read_object(text)
        self.path = "$.base_code"
        version: int = msgspec.json.decode(read_object(document["base_code"])["version"], type=int)
        if version == 0:
            self.fail("has version 0, that of a development build, which no released Paddle loads")
        self.path = "$.program"
        program = read_object(document["program"])
        regions = read_list(program["regions"])
        if len(regions) != 1:
            self.fail(f"has {len(regions)} regions, and a program has one")
        path = "$.program.regions[0]"
        region, block = self._open_region(regions[0], path)
        fields = tuple(document.items()), tuple(program.items()), region, tuple(block.items())
        self._source = PaddleSource(version, *fields, is_compact=text == data)
        if len(read_list(block.get("args", b"[]"))):
            self.fail("has arguments, which only bodies have")
        operators = read_list(block["ops"])
        self._taken = set(self._list_names(operators, f"{path}.blocks[0]"))
        nodes = self._read_operators(operators, _Scope(None), f"{path}.blocks[0]", 0)
        fetches = sorted((node for node in nodes if node.op == FETCH), key=find_column)
        return Graph(tuple(nodes), tuple(map(Entry, fetches)), source=self._source)

    def _open_region(self, text: bytes, path: str) -> tuple[Fields, dict[str, bytes]]:
        self.path = path
        region = read_object(text)
        blocks = read_list(region["blocks"])
        if len(blocks) != 1:
            self.fail(f"has {len(blocks)} blocks, and a region has one")
        return tuple(region.items()), read_object(blocks[0])

    def _read_operators(
        self, texts: list[bytes], scope: _Scope, path: str, depth: int
    ) -> list[Node]:
        nodes = list[Node]()
        for place, text in enumerate(texts):
            self.path = f"{path}.ops[{place}]"
            fields = read_object(text)
            tag = msgspec.json.decode(fields["#"], type=str)
            node = (
                self._read_parameter(fields, depth)
                if tag == "p"
                else self._read_operator(tag, fields, scope, depth)
            )
            self._define(node, scope)
            nodes.append(node)
        return nodes

    def _list_names(self, operators: Sequence[bytes], path: str) -> Iterator[str]:
        for place, text in enumerate(operators):
            self.path = f"{path}.ops[{place}]"
            fields = read_object(text)
            if split_operator(msgspec.json.decode(fields["#"], type=str))[1] in (*INPUTS, FETCH):
                yield read_values(tuple(fields.items()), is_named=True)[0]

    def _define(self, node: Node, scope: _Scope) -> None:
        stored = find_stored(node)
        for index, result in enumerate(stored.results if stored is not None else ()):
            if result.number in self._defined:
                self.fail(f"defines value {result.number}, which is defined before")
            self._defined.add(result.number)
            scope.known[result.number] = Entry(node, index)

    def _read_operator(self, tag: str, fields: dict[str, bytes], scope: _Scope, depth: int) -> Node:
        domain, op = split_operator(tag)
        if not op:
            self.fail("has no operator")
        results = tuple(self._read_result(text, "%") for text in read_list(fields["O"]))
        is_input = op in INPUTS and not depth
        is_named = is_input or op == FETCH
        name, values = read_values(tuple(fields.items()), is_named=is_named)
        stored = StoredObject(tuple(fields.items()), results, name)
        if is_named:
            self._check_named(op, fields, results)
        if is_input:
            return Node(
                "",
                name,
                num_outputs=1,
                details=NodeDetails(domain, (), values, holds_value=False, stored=stored),
            )
        path = self.path
        inputs, absent = self._read_inputs(fields, scope)
        if op == FETCH and absent:
            self.fail("gives a value that is absent")
        bodies = list[Graph]()
        for number, text in enumerate(read_list(fields.get("regions", b"[]"))):
            body, captured = self._read_body(text, scope, f"{path}.regions[{number}]", depth + 1)
            bodies.append(body)
            inputs += [self._find(scope, each) for each in captured]
        details = NodeDetails(
            domain,
            (name,) if is_named else tuple([self._name(result) for result in results]),
            values,
            absent,
            stored=stored,
            bodies=(*_BODIES.get(op, ()), *(f"region {number}" for number in range(len(bodies))))[
                : len(bodies)
            ],
        )
        return Node(
            op,
            name,
            inputs=tuple(inputs),
            num_outputs=len(results),
            subgraphs=tuple(bodies),
            details=details,
        )

    def _check_named(
        self, op: str, fields: Mapping[str, bytes], results: Sequence[OperatorResult]
    ) -> None:
        """Refuse an input or output whose operator has an unusual form."""
        inputs = "one input" if op == FETCH else "no input"
        if (len(read_list(fields["I"])), len(results), "regions" in fields) != (
            op == FETCH,
            1,
            False,
        ):
            self.fail(f"is a {op} with other than {inputs}, one result and no body")

    def _read_parameter(self, fields: dict[str, bytes], depth: int) -> Node:
        """Return the variable of a parameter, or an operator for memory outside of the parameter
        file.
        """
        if depth:
            self.fail("is a parameter in a body; those of Paddle are in the program itself")
        flags, owned = read_list(fields["A"]), read_list(fields["OA"])
        name = msgspec.json.decode(flags[_NAME], type=str)
        values = FrozenMap(
            A=Attribute("", b",".join(flags[:_NAME]).decode()),
            OA=Attribute("", b",".join(owned).decode()),
        )
        stored = StoredObject(tuple(fields.items()), (self._read_result(fields["O"], "%"),), name)
        if owned[_PERSISTABLE] == b"1":
            return Node(
                "",
                name,
                num_outputs=1,
                details=NodeDetails(_BUILTIN, (), values, holds_value=True, stored=stored),
            )
        return Node(
            PARAMETER,
            name,
            num_outputs=1,
            details=NodeDetails(_BUILTIN, (name,), values, stored=stored),
        )

    def _read_result(self, text: bytes, key: str) -> OperatorResult:
        fields = read_object(text)
        number = msgspec.json.decode(fields[key], type=int)
        if (number <= 0) is (key == "%"):
            self.fail(
                f"gives a value the number {number}; those of operators count from 1, those of arguments from -1"
            )
        return OperatorResult(number, tuple(fields.items()))

    def _name(self, result: OperatorResult) -> str:
        """A rewritten program's input or output may have the usual name."""
        name = f"%{result.number}"
        return f"{name}.value" if name in self._taken else name

    def _read_inputs(
        self, fields: Mapping[str, bytes], scope: _Scope
    ) -> tuple[list[Entry], tuple[int, ...]]:
        """Return the present inputs, and the places of absent ones."""
        numbers = list[int]()
        for text in read_list(fields["I"]):
            record = read_object(text)
            if record.keys() != {"%"}:
                self.fail(f"has an input with the keys {', '.join(record)}; it has only %")
            numbers.append(msgspec.json.decode(record["%"], type=int))
        absent = tuple(place for place, number in enumerate(numbers) if number == 0)
        return [self._find(scope, number) for number in numbers if number], absent

    def _find(self, scope: _Scope, number: int) -> Entry:
        entry = scope.find(number)
        if entry is None:
            self.fail(f"uses value {number}, which nothing before it defines")
        return entry

    def _read_body(
        self, text: bytes, outer: _Scope, path: str, depth: int
    ) -> tuple[Graph, list[int]]:
        """Return a body, and the numbers of captured outer values, in order."""
        if depth > _DEEPEST:
            self.fail(f"is a body in {_DEEPEST} others; fewer are read")
        region, block = self._open_region(text, path)
        scope, arguments = _Scope(outer), list[Node]()
        for key in ARGUMENTS:
            for record in read_list(block.get(key, b"[]")):
                stored = StoredObject((), (self._read_result(record, "#"),))
                values = FrozenMap(position=len(arguments))
                details = NodeDetails(key, (), values, holds_value=False, stored=stored)
                arguments.append(
                    Node("", f"%{stored.results[0].number}", num_outputs=1, details=details)
                )
                self._define(arguments[-1], scope)
        operators = read_list(block["ops"])
        nodes = self._read_operators(operators[:-1], scope, f"{path}.blocks[0]", depth)
        self.path = f"{path}.blocks[0].ops[{len(nodes)}]"
        end = read_object(operators[-1])
        if end["#"] != b'"2.yield"':
            self.fail("is the last operator of a body, which is 2.yield")
        heads, absent = self._read_inputs(end, scope)
        if absent:
            self.fail("gives a value that is absent")
        record_ = BodyRecord(region, tuple(block.items()), tuple(end.items()))
        captures = tuple(scope.captures.values())
        nodes = [*captures, *arguments, *nodes]
        body = Graph(
            tuple(nodes),
            tuple(heads),
            source=self._source,
            extra=FrozenMap(body=record_),
            captures=captures,
        )
        return body, list(scope.captures)
