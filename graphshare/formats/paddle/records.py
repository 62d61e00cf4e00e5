"""The data that a graph keeps from its Paddle file: JSON objects of operators and bodies, and
around them.

An operator is ``{"#": "1.conv2d", "A": [ATTRIBUTE], "I": [{"%": 11}], "O": [{"%": 12, "TT": TYPE}],
"OA": [ATTRIBUTE]}``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from graphshare.formats.paddle.text import Fields, list_attributes
from graphshare.ir.graph import Entry, FrozenMap, Graph, Node, Source
from graphshare.text.format import format_count, join_words

PARAMETER = "parameter"
"""The operator's name of a parameter that is not in the parameter file."""
FETCH = "fetch"
INPUTS = ("data", "feed")
ARGUMENTS = ("args", "kwargs")
"""The lists of arguments of a block, the domains of their nodes."""
_STATISTICS = (1, 2)  # the mean and the variance of a batch_norm_


class OperatorResult(msgspec.Struct, frozen=True):
    """A result of an operator: its number in the file, and its object's keys."""

    number: int
    fields: Fields

    @property
    def type_text(self) -> bytes:
        return dict(self.fields).get("TT", b"")


class StoredObject(msgspec.Struct, frozen=True, eq=False):
    """The JSON of an operator, parameter, input or body argument: ``fields`` as read, and its
    ``results``.

    ``name`` is the name in the text, for a rename to change; empty if none.
    """

    fields: Fields
    results: tuple[OperatorResult, ...]
    name: str = ""


class BodyRecord(msgspec.Struct, frozen=True, eq=False):
    """The objects around a body's operators: region, block, and the operator that gives its
    values.
    """

    region: Fields
    block: Fields
    end: Fields


class PaddleSource(Source, frozen=True, eq=False):
    """The source of a program: its version, and the objects of document, program, region and block.

    With ``is_compact`` the file has no whitespace, as Paddle writes it.
    """

    format: ClassVar[str] = "paddle"

    base_version: int
    document: Fields
    program: Fields
    region: Fields
    block: Fields
    is_compact: bool = True

    def mismatches(self, other: Source) -> Iterator[tuple[str, str]]:
        """Paddle converts a file as a whole, so operators have one version."""
        if isinstance(other, PaddleSource) and other.base_version != self.base_version:
            versions = f"base_code version is {self.base_version} in one and {other.base_version} in the other"
            yield versions, "load both in one Paddle, and save them again with paddle.jit.save"

    def name_faults(self, graph: Graph) -> Iterator[tuple[str, str, Node]]:
        """Yield repeated names of parameters, inputs and outputs, and names that are not UTF-8.

        All are in one scope: of two with one name Paddle refuses the program, or one takes the
        value of the other.
        """
        owners: dict[str, list[Node]] = {}
        for node in graph.nodes:
            if not node.op or node.op in (FETCH, PARAMETER):
                owners.setdefault(node.name, []).append(node)
        for name, nodes in owners.items():
            if len(nodes) > 1:
                kinds = Counter(map(_name_kind, nodes)).items()
                what = join_words([format_count(count, kind) for kind, count in kinds])
                yield f"{what} are called {name!r}", "give each another name", nodes[-1]
        for node in graph.nodes:
            if not node.name.isascii() and not _is_utf8(node.name):
                yield f"the name {node.name!r} is not UTF-8", "give it another name", node

    def list_notes(self) -> Iterator[str]:
        if not self.is_compact:
            yield "the graph is written on one line, as Paddle writes it"


def read_values(fields: Fields, *, is_named: bool) -> tuple[str, FrozenMap]:
    """Return an operator's name and its attributes, without name and place among the outputs."""
    texts = dict(fields)
    values: dict[str, Any] = {
        **list_attributes(texts.get("OA", b"[]")),
        **list_attributes(texts.get("A", b"[]")),
    }
    name = values.pop("name").text if is_named else ""
    if is_named:
        values.pop("col", None)
    return name, FrozenMap(values)


def find_stored(node: Node) -> StoredObject | None:
    """Return the data that a node keeps from its file; None without a Paddle file."""
    stored = node.details.stored
    return stored if isinstance(stored, StoredObject) else None


def find_column(node: Node) -> int:
    """Return the place of an output among its program's outputs; 0 if none."""
    stored = find_stored(node)
    column = list_attributes(dict(stored.fields)["A"]).get("col") if stored is not None else None
    return int(column.text) if column is not None else 0


def name_value(entry: Entry) -> str:
    """Return the name of a value."""
    return entry.node.details.outputs[entry.index] if entry.node.op else entry.node.name


def is_written(node: Node, place: int) -> bool:
    """Whether an operator writes into an input: its name ends in ``_``, and most write the first.

    ``batch_norm_`` updates its statistics, unless it only tests.
    """
    if node.op == "batch_norm_":
        is_test = node.details.values.get("is_test")
        return place in _STATISTICS and str(is_test) != "true"
    return node.op.endswith("_") and place == 0


def get_source(graph: Graph) -> PaddleSource:
    """Return the source of a program's graph."""
    assert isinstance(graph.source, PaddleSource)
    return graph.source


def _name_kind(node: Node) -> str:
    if node.op == FETCH:
        return "output"
    return "parameter" if node.op or node.details.holds_value else "input"


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
