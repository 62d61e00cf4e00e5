"""Symbol JSON to a graph: ids become references.

Files of every generation are read alike: ``attrs`` or ``attr`` or ``param``, entries of two or three numbers, any order of
nodes. Nothing is upgraded in passing. Ids out of range and cycles are faults of the file and all found before a graph exists.
"""

from __future__ import annotations

from operator import sub
from typing import Any

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.formats import document
from graphshare.formats.dialects import dialect_of
from graphshare.formats.links import building_order, check_arg_nodes, check_references
from graphshare.formats.node_records import NodeReader
from graphshare.ir.graph import EMPTY, VARIABLE, Dialect, Entry, Graph, Node


def read_symbol(data: bytes, *, where: str = "") -> Graph:
    """The graph that the bytes of a symbol file hold. ``where`` names the file in errors.

    Raises:
        InputError: every fault of the file, with its JSON path.
    """
    try:
        found = document.parse_fast(data)
        if found is not None:
            try:
                return _link(found, dialect_of(data))
            except (KeyError, TypeError, AttributeError, ValueError):
                pass  # a value does not fit its key: the schema tells which
        return _link(document.parse_tolerantly(data), dialect_of(data))
    except InputError as error:
        raise error.located(where) from None


def _link(found: dict[str, Any], dialect: Dialect, depth: int = 0) -> Graph:
    """The graph of a parsed object, or of a sub-graph ``depth`` levels down."""
    if depth > document.MAX_NESTING:
        raise InputError(Fault(f"sub-graphs are nested deeper than {document.MAX_NESTING} levels"))
    records = found["nodes"]
    reader = NodeReader(lambda inner: _link(inner, dialect, depth + 1))
    counts, row_ptr = _output_counts(found.get("node_row_ptr"), len(records))
    nodes = _link_in_file_order(records, counts, reader)
    if nodes is None:
        nodes = _link_in_any_order(records, counts, reader)
    irregular: dict[str, Any] = {} if row_ptr is None else {"node_row_ptr": row_ptr}
    if found["arg_nodes"] != [i for i, node in enumerate(nodes) if node.op == VARIABLE]:
        check_arg_nodes(found["arg_nodes"], records)
        irregular["arg_nodes"] = found["arg_nodes"]
    dialect = msgspec.structs.replace(dialect, keys=tuple(found), form=_usual_form(nodes, dialect), irregular=irregular or EMPTY)
    extra = {key: value for key, value in found.items() if key not in document.GRAPH_KEYS}
    return Graph(tuple(nodes), _heads(found["heads"], nodes), found.get("attrs", EMPTY), dialect, extra or EMPTY)


def _link_in_file_order(records: list[dict[str, Any]], counts: list[int | None], reader: NodeReader) -> list[Node] | None:
    """The nodes of records that refer to earlier ones only; None when one does not.

    Most of what reading costs is this loop: the usual record is taken apart here, and consumers of a node's first output share
    one entry.
    """
    nodes: list[Node] = []
    first: list[Entry] = []
    shapes, texts, maps = reader.shapes, reader.texts, reader.maps
    for record, count in zip(records, counts, strict=True):
        shape = shapes[tuple(record)]
        op, name = record["op"], record["name"]
        if type(name) is not str or type(op) is not str:
            raise TypeError
        try:
            inputs = tuple(
                [first[e[0]] if len(e) == 3 and not e[1] and not e[2] else _entry(e, nodes[e[0]]) for e in record["inputs"]]
            )
            if shape.only_attrs:
                attrs = EMPTY
                if shape.attr_key:
                    attrs = record[shape.attr_key]
                    attrs = maps.setdefault(tuple(attrs.items()), attrs)
                node = Node(texts.setdefault(op, op), name, attrs, inputs, count, (), (), EMPTY, shape.form)
            else:
                deps = tuple([nodes[i] for i in record.get("control_deps", ())])
                node = reader.node(record, inputs, deps, count)
        except IndexError:
            return None
        nodes.append(node)
        first.append(Entry(node))
    return nodes


def _link_in_any_order(records: list[dict[str, Any]], counts: list[int | None], reader: NodeReader) -> list[Node]:
    nodes: dict[int, Node] = {}
    for i in building_order(records):
        record = records[i]
        inputs = tuple(_entry(entry, nodes[entry[0]]) for entry in record["inputs"])
        deps = tuple(nodes[dep] for dep in record.get("control_deps", ()))
        nodes[i] = reader.node(record, inputs, deps, counts[i])
    return [nodes[i] for i in range(len(records))]


def _entry(numbers: tuple[int, ...], node: Node) -> Entry:
    """An entry as the file has it: two numbers (2015) have no version."""
    if type(numbers) is not tuple and type(numbers) is not list:
        raise TypeError
    return Entry(node, numbers[1], numbers[2] if len(numbers) == 3 else None)


def _heads(entries: list[tuple[int, ...]], nodes: list[Node]) -> tuple[Entry, ...]:
    faults: list[Fault] = []
    check_references(faults, entries, len(nodes), "$.heads")
    if faults:
        raise InputError(faults)
    return tuple(_entry(entry, nodes[entry[0]]) for entry in entries)


def _output_counts(row_ptr: list[int] | None, count: int) -> tuple[list[int | None], list[int] | None]:
    """Each node's number of outputs, and ``node_row_ptr`` itself where it is no running sum over the nodes."""
    unknown: list[int | None] = [None] * count
    if row_ptr is None:
        return unknown, None
    if len(row_ptr) != count + 1 or row_ptr[0] != 0:
        return unknown, row_ptr
    steps: list[int | None] = list(map(sub, row_ptr[1:], row_ptr))
    return (steps, None) if not count or min(steps) >= 0 else (unknown, row_ptr)  # type: ignore[type-var]


def _usual_form(nodes: list[Node], dialect: Dialect) -> Any:
    """The form for nodes that a transform adds: that of the first operator with attributes, else of the first node."""
    for node in nodes:
        if node.op != VARIABLE and node.attrs and node.form is not None:
            return node.form
    return nodes[0].form if nodes and nodes[0].form is not None else dialect.form

