"""What a page tells of a node on a click: operator, attributes, shapes, and parameters with their statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from graphshare.drawing.picture import AnnotatedGraph
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Entry, Node
from graphshare.ir.walk import consumers
from graphshare.progress import task
from graphshare.text.format import escape_control, format_bytes, format_dims, format_number, shorten

if TYPE_CHECKING:
    from graphshare.formats.params.statistics import Statistics

MOST_BYTES = 2_000_000_000  # of parameters that are read for statistics
LONGEST_TEXT = 2000  # characters of a name or of an attribute
MOST_USERS = 50

Row = tuple[str, str]
Table = dict[str, object]


class Details(msgspec.Struct, frozen=True):
    """Tables of a page: ``nodes`` of the boxes' nodes, ``parameters`` by name; ``notes`` for the reader."""

    nodes: Mapping[Node, Table]
    parameters: Mapping[str, Table]
    notes: tuple[str, ...] = ()


def describe_boxes(graph: AnnotatedGraph, params: ParameterFile | None) -> Details:
    """Return the details of every node of ``graph``; the arrays of ``params`` are read in pieces for their statistics."""
    users = consumers(graph.graph.nodes)
    measured, notes = _measure(graph, params)
    parameters: dict[str, Table] = {}
    for node in graph.graph.nodes:
        if node in graph.parameters:
            shape = graph.shapes.get((node, 0))
            names = list(dict.fromkeys(user.name for user, _ in users.get(node, ())))
            parameters[_cut(node.name)] = {
                "shape": format_dims(shape, separator="×") if shape is not None else "",
                "users": [_cut(name) for name in names[:MOST_USERS]],
                "count": len(names),
                "rows": measured.get(node, []),
            }
    outputs = _list_outputs(graph)
    return Details({n: _describe_node(n, graph, outputs.get(n, ())) for n in graph.graph.nodes}, parameters, notes)


def _describe_node(node: Node, graph: AnnotatedGraph, outputs: Sequence[str]) -> Table:
    inputs = [entry for entry in node.inputs if entry.node not in graph.parameters]
    table: Table = {
        "name": _cut(node.name),
        "op": node.op or "variable",
        "attrs": [(_cut(key), _cut(value)) for key, value in node.attrs.items()],
        "inputs": [(_cut(entry.node.name), _format_shape(graph, entry)) for entry in inputs],
        "outputs": outputs,
        "parameters": list(dict.fromkeys(_cut(entry.node.name) for entry in node.inputs if entry.node in graph.parameters)),
    }
    if node in graph.former:
        table["former"] = _cut(graph.former[node])
    return table


def _format_shape(graph: AnnotatedGraph, entry: Entry) -> str:
    shape = graph.shapes.get((entry.node, entry.index))
    return format_dims(shape, separator="×") if shape is not None else ""


def _list_outputs(graph: AnnotatedGraph) -> dict[Node, list[str]]:
    """Return the known shapes of each node's outputs, in order."""
    outputs: dict[Node, list[str]] = {}
    for (node, _), shape in sorted(graph.shapes.items(), key=lambda item: item[0][1]):
        outputs.setdefault(node, []).append(format_dims(shape, separator="×"))
    return outputs


def _measure(graph: AnnotatedGraph, params: ParameterFile | None) -> tuple[dict[Node, list[Row]], tuple[str, ...]]:
    """Return rows with the statistics of each parameter that the file holds."""
    if params is None:
        return {}, ()
    from graphshare.formats.params.arrays import ArrayReader  # start-up: graphs alone need no numpy
    from graphshare.formats.params.lookup import RecordsByName
    from graphshare.formats.params.statistics import measure_array

    records = RecordsByName(params)
    by_node = {node: record for node in graph.graph.variables() if (record := records.of(node)) is not None}
    total = sum(record.data_size for record in by_node.values())
    is_small = total <= MOST_BYTES
    rows: dict[Node, list[Row]] = {}
    with ArrayReader(params) as reader, task("measuring", total if is_small else 0, "B") as advance:
        for node, record in by_node.items():
            rows[node] = [("dtype", record.dtype or "?"), ("size", format_bytes(record.data_size))]
            if is_small and record.shape is not None:
                rows[node] += _format_statistics(measure_array(reader, record, advance))
    note = f"statistics are left out: the parameters have {format_bytes(total)}"
    return rows, () if is_small else (note,)


def _format_statistics(statistics: Statistics) -> list[Row]:
    rows = [(name, format_number(getattr(statistics, name))) for name in ("min", "max", "mean", "std", "norm")]
    counts = [(name, getattr(statistics, name)) for name in ("zeros", "nans", "infinities")]
    return rows + [(name, f"{count:,}") for name, count in counts if count]


def _cut(text: str) -> str:
    return shorten(escape_control(text, keep="\n"), LONGEST_TEXT)
