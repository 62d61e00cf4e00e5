"""The fields of a NodeProto: its names, and the others. Many nodes share the latter.

Nodes are sorted here by the names that they define and read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from graphshare.errors import Fault, InputError
from graphshare.formats.onnx.attributes import (
    GRAPH,
    GRAPHS,
    NO_ATTRIBUTES,
    AttributeReader,
    Attributes,
    ReadGraph,
    Weight,
)
from graphshare.formats.onnx.graph_fields import INITIALIZER, INPUT, SPARSE, scan_graph
from graphshare.formats.onnx.protobuf import (
    LENGTHS,
    Field,
    WireError,
    encode_field,
    encode_text,
    once,
    scan,
    text_at,
)
from graphshare.formats.onnx.stated_once import refuse_repeats
from graphshare.formats.onnx.stored import OUTPUT, OnnxFile
from graphshare.ir.walk import format_cycle, order_by_references

MAX_NESTING = 64
"""Levels of subgraphs; deeper ones are refused."""
_SINGLE = once(3, 4, 6, 7, 8)
_SHORT = 512  # bytes up to which the fields of a NodeProto after its names are shared
_CHUNK = 512  # nodes that are read at a time
_NAME = r"(.)([ !#-~]*)"  # a byte that is the length of a name if that many others follow
_LABEL = r"(.)([ !#-~]+)"  # a stated empty label is read by scan, and written again
_NAMES = re.compile(
    # inputs, output, label, all else
    rf"(?:\x0a{_NAME})?(?:\x0a{_NAME})?(?:\x0a{_NAME})?\x12{_NAME}(?:\x1a{_LABEL})?(\".*)",
    re.DOTALL,
).fullmatch
_NO_NAMES = ("",) * 11
_LENGTHS = {"": 0} | {text: length for length, text in enumerate(LENGTHS)}
NodeFields = tuple[tuple[str, ...], tuple[str, ...], str, "NodeKind"]
"""Inputs, outputs and label of a NodeProto, and its other fields."""


class NodeKind(NamedTuple):
    """The fields of a NodeProto other than its names.

    ``fields`` are unread attributes, ``known`` the read ones. ``key`` has the bytes of all these
    fields as characters, if they are few and follow the names.
    """

    op: str
    domain: str
    overload: str
    fields: Sequence[Field]
    key: str
    known: Attributes = NO_ATTRIBUTES


def find_only_weight(
    inputs: Sequence[str], outputs: Sequence[str], kind: NodeKind, known: Attributes
) -> Weight | None:
    """Return the weight of a Constant that has one output and states nothing else."""
    if kind.op != "Constant" or kind.domain or inputs or len(outputs) != 1:
        return None
    return known.weight if [*known.texts] in (["value"], ["sparse_value"]) else None


class NodeReader:
    """Reads the nodes of one file; parts that nodes share are read once."""

    def __init__(self, file: OnnxFile) -> None:
        self._file = file
        self._attributes = AttributeReader(file)
        self._kinds: dict[str, NodeKind] = {}

    def read(self, fields: Sequence[Field]) -> Iterator[NodeFields]:
        """Yield the fields of each NodeProto. Raises WireError."""
        chunks = [fields[place : place + _CHUNK] for place in range(0, len(fields), _CHUNK)]
        return chain.from_iterable(map(self._read_chunk, chunks))

    def _read_chunk(self, fields: Sequence[Field]) -> Iterator[NodeFields]:
        data, kinds = self._file.data, self._kinds
        texts = [
            data[field[3] : field[4]].decode("latin-1") if field[4] - field[3] <= _SHORT else ""
            for field in fields
        ]
        rows = [_NO_NAMES if match is None else match.groups("") for match in map(_NAMES, texts)]
        columns = list(zip(*rows, strict=True))
        if not all(
            [*map(_LENGTHS.get, columns[i])] == [*map(len, columns[i + 1])] for i in range(0, 10, 2)
        ):
            rows = [row if _has_lengths(row) else _NO_NAMES for row in rows]
        for field, (one, input1, two, input2, three, input3, _, output, _, label, rest) in zip(
            fields, rows, strict=True
        ):
            kind = kinds.get(rest) or self._read_kind(field, rest)
            if kind is None:
                yield self._read_any(field[3], field[4])
                continue
            inputs = (
                (input1, input2, input3)
                if three
                else (input1, input2)
                if two
                else (input1,)
                if one
                else ()
            )
            yield inputs, (output,), label, kind

    def _read_kind(self, field: Field, rest: str) -> NodeKind | None:
        """Return a NodeProto's fields after its names; None if names were not found or follow."""
        others, results, name, kind = self._read_any(field[4] - len(rest), field[4])
        # A name among the rest: the fields are not in protobuf's order.
        if others or results or name or not kind.op:
            return None
        kind = kind._replace(key=rest)
        if not kind.fields:
            self._kinds[rest] = kind
        return kind

    def read_attributes(self, kind: NodeKind, read_graph: ReadGraph) -> Attributes:
        """Return the attributes of a node, cached unless they refer to other parts of the file.

        Raises WireError.
        """
        if not kind.fields:
            return kind.known
        known = self._attributes.read(kind.fields, read_graph)
        if kind.key and not known.graphs and known.weight is None:
            self._kinds[kind.key] = kind._replace(known=known, fields=())
        return known

    def _read_any(self, start: int, end: int) -> NodeFields:
        data, label, op, domain, overload = self._file.data, "", "", "", ""
        inputs: list[str] = []
        outputs: list[str] = []
        attributes: list[Field] = []
        for field in scan(data, start, end, _SINGLE):
            number = field[0]
            if number == 1:
                inputs.append(text_at(data, field))
            elif number == 2:
                outputs.append(text_at(data, field))
            elif number == 3:
                label = text_at(data, field)
            elif number == 4:
                op = text_at(data, field)
            elif number == 5:
                attributes.append(field)
            elif number == 7:
                domain = text_at(data, field)
            elif number == 8:
                overload = text_at(data, field)
            elif number == 9:
                refuse_repeats(data, field, "pair")
        return (
            tuple(inputs),
            tuple(outputs),
            label,
            NodeKind(op, name_domain(domain), overload, attributes, ""),
        )


def _has_lengths(row: Sequence[str]) -> bool:
    return all(_LENGTHS.get(row[i]) == len(row[i + 1]) for i in range(0, 10, 2))


class NodeSorter:
    """Sorts nodes in ``content``, a copy of a file, so that values are defined before they are read.

    Nodes change places, and every message keeps its length. Raises InputError for a cycle.
    """

    def __init__(self, file: OnnxFile) -> None:
        self._file = file
        self._nodes = NodeReader(file)
        self.content = bytearray(file.data[0 : file.size])

    def sort_graph(self, start: int, end: int, depth: int = 0) -> set[str]:
        """Sort the nodes of a GraphProto and its bodies; return the outer values that it reads."""
        if depth > MAX_NESTING:
            raise WireError(f"subgraphs are nested deeper than {MAX_NESTING} levels", start)
        lists = scan_graph(self._file, start, end)
        own = {
            message.name
            for number in (INITIALIZER, SPARSE, INPUT)
            for message in lists.named[number]
        }
        heads = [message.name for message in lists.named[OUTPUT]]
        return self.sort_nodes(lists.nodes, heads, depth) - own

    def sort_nodes(
        self, fields: Sequence[Field], heads: Sequence[str] = (), depth: int = 0
    ) -> set[str]:
        """Sort NodeProtos; return names that they or ``heads`` read but do not define."""
        data = self.content
        places: dict[str, int] = {}
        names: list[list[str]] = []
        labels: list[str] = []
        for place, (inputs, outputs, label, kind) in enumerate(self._nodes.read(fields)):
            names.append([name for name in (*inputs, *self._list_captured(kind, depth)) if name])
            labels.append(next(filter(None, outputs), label))
            for name in outputs:
                places.setdefault(name, place)

        def refuse(cycle: list[int]) -> InputError:
            text = f"needs its own output: {format_cycle([labels[place] for place in cycle])}"
            at = f"byte {fields[cycle[0]][2]}"
            return InputError(
                Fault(text, node=labels[cycle[0]], path=at, hint="a graph must be acyclic")
            )

        needs = [sorted({places[name] for name in places.keys() & read}) for read in names]
        pieces: list[bytearray] = []
        last = 0
        order = order_by_references(range(len(fields)), needs.__getitem__, refuse)
        for field, place in zip(fields, order, strict=True):
            # Other fields stay between the nodes.
            pieces += [data[last or field[2] : field[2]], data[fields[place][2] : fields[place][4]]]
            last = field[4]
        if fields:
            data[fields[0][2] : last] = b"".join(pieces)
        return {name for read in (*names, heads) for name in read if name not in places}

    def _list_captured(self, kind: NodeKind, depth: int) -> Iterator[str]:
        """Sort the nodes of a node's bodies, and yield the outer values that they read."""
        for field in kind.fields:
            for part in scan(self._file.data, field[3], field[4]):
                if part[0] in (GRAPH, GRAPHS):
                    yield from self.sort_graph(part[3], part[4], depth + 1)


def encode_names(inputs: Iterable[str], outputs: Iterable[str], label: str) -> bytes:
    """Return the fields of a NodeProto for its names."""
    names = ""
    try:
        for name in inputs:
            names += f"\x0a{LENGTHS[len(name)]}{name}"
        for name in outputs:
            names += f"\x12{LENGTHS[len(name)]}{name}"
        if label:
            names += f"\x1a{LENGTHS[len(label)]}{label}"
        if names.isascii():  # the usual case: each length counts bytes
            return names.encode()
    except IndexError:
        pass  # a name of 128 characters or more
    fields = [
        *[(1, name) for name in inputs],
        *[(2, name) for name in outputs],
        *([(3, label)] if label else ()),
    ]
    return b"".join([encode_field(number, encode_text(name)) for number, name in fields])


def name_domain(domain: str) -> str:
    """Return a domain; the empty name stands for both names of ONNX's own."""
    return "" if domain == "ai.onnx" else domain
