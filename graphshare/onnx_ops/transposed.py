"""Arrays with the same numbers in another order or form; sharing them changes no bit of a result.

A ``Gather`` of a table's rows becomes a ``Gather`` of its transpose's columns. An array of another
shape becomes a ``Reshape`` of the one that stays.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from graphshare.errors import Fault, RefusedError
from graphshare.formats.facets import TensorType
from graphshare.formats.onnx.compose import make_operator, take_outputs
from graphshare.formats.onnx.stored import find_stored
from graphshare.formats.onnx.types import list_replaceable
from graphshare.formats.onnx.value_types import find_types
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.records import ParameterFile, Record
from graphshare.ir.graph import Branch, Entry, Graph, Node, Rewrite
from graphshare.ir.onnx import Tensor
from graphshare.ir.rebuild import rebuild, relink_all
from graphshare.ir.walk import consumers, list_output_names, topological
from graphshare.text.names import TakenNames

if TYPE_CHECKING:  # numpy takes as long to import as everything else at start-up
    from graphshare.formats.params.comparison import Array

_ROWS = 1024
LEAST = 128
"""The least bytes of an array that becomes a Reshape: operators need shapes and axes as constants."""


def find_tables(graph: Graph, params: ParameterFile) -> Iterator[tuple[Node, Node]]:
    """Yield pairs of a parameter that only Gathers of rows use, and its exact transpose."""
    records = params.by_key()
    inputs = {*list_replaceable(graph)}  # callers may replace these
    stored = {
        node: records[node.name]
        for node in graph.variables()
        if node.name in records and node not in inputs
    }
    tables = _list_tables(graph, stored)
    with ArrayReader(params) as reader:
        for table, record in tables.items():
            for other, twin in stored.items():
                fits = other not in tables and _has_turned_shape(twin, record)
                if fits and _are_transposes(reader.read(record), reader.read(twin)):
                    yield table, other
                    break


def _list_tables(graph: Graph, stored: Mapping[Node, Record]) -> dict[Node, Record]:
    uses, heads = consumers(graph.nodes), {head.node for head in graph.heads}
    tables: dict[Node, Record] = {}
    for node, record in stored.items():
        if node not in uses or node in heads or not _is_matrix(record):
            continue
        if all(_takes_rows(user, slot) for user, slot in uses[node]):
            tables[node] = record
    return tables


def _is_matrix(record: Record) -> bool:
    return record.shape is not None and len(record.shape) == 2 and all(record.shape)


def _has_turned_shape(twin: Record, table: Record) -> bool:
    return twin.dtype == table.dtype and twin.shape is not None and twin.shape[::-1] == table.shape


def _are_transposes(table: Array, twin: Array) -> bool:
    """Return whether two matrices are transposes, bit for bit; compared by blocks of rows."""
    blocks = (slice(start, start + _ROWS) for start in range(0, len(table), _ROWS))
    return all(table[block].tobytes() == twin[:, block].T.tobytes() for block in blocks)


def _takes_rows(node: Node, slot: int) -> bool:
    if node.op != "Gather" or node.details.domain or slot != 0:
        return False
    # A table has two axes, so -2 is the first.
    return node.attrs.get("axis", "0") in ("0", "-2")


def list_gathers(graph: Graph, tables: Collection[Node]) -> list[Node]:
    """Return the Gathers that take rows of ``tables``."""
    gathers = [node for node in graph.nodes if _takes_rows(node, 0)]
    return [node for node in gathers if node.inputs and node.inputs[0].node in tables]


def _find_ranks(graph: Graph, gathers: Sequence[Node]) -> dict[Node, int]:
    """Return the ranks of Gathers' indices. Raises RefusedError that lists unknown ones."""
    types = find_types(graph, [node.inputs[1] for node in gathers])
    ranks: dict[Node, int] = {}
    faults = []
    for node in gathers:
        indices = node.inputs[1]
        known = types.get((indices.node, indices.index))
        if isinstance(known, TensorType) and known.shape is not None:
            ranks[node] = len(known.shape)
            continue
        message = f"the rank of {list_output_names(indices.node)[indices.index]!r} is not known"
        hint = "state it with `types={'ids': 'int64[n,s]'}`"
        faults.append(Fault(message, node=node.name, hint=hint))
    RefusedError.raise_any(faults)
    return ranks


def tie_transposed(graph: Graph, pairs: Mapping[Node, Node]) -> Rewrite:
    """Return the graph whose Gathers take columns of the second tables, not rows of the first.

    A Transpose with the Gather's outputs follows each.

    Raises:
        RefusedError: the rank of the indices is not known; all are listed.
    """
    ranks = _find_ranks(graph, list_gathers(graph, pairs))
    taken = TakenNames(name for node in graph.nodes for name in list_output_names(node))
    images: dict[Node, Node] = {twin: twin for twin in pairs.values()}
    ends: dict[Node, Node] = {}

    def change(node: Node) -> Node:
        if node not in ranks:
            return node
        name = taken.take(f"{node.name}_columns")
        return replace(
            make_operator("Gather", (name,), {"axis": 1}, label=node.details.label),
            inputs=node.inputs,
        )

    def end(node: Node) -> Node:
        if node not in ends:
            perm = (*range(1, ranks[node] + 1), 0)
            last = make_operator("Transpose", node.details.outputs, {"perm": perm})
            ends[node] = replace(take_outputs(last, node), inputs=(Entry(images[node]),))
        return ends[node]

    def redirect(entry: Entry, user: Node) -> Entry | None:
        if entry.node in pairs:
            return Entry(pairs[entry.node])
        return Entry(end(entry.node)) if entry.node in ranks else None

    rebuild(
        [node for node in topological(graph) if node not in pairs],
        change,
        redirect=redirect,
        images=images,
    )
    nodes: dict[Node, None] = {}
    for node in graph.nodes:  # a late Constant is needed where its twin was
        nodes[pairs.get(node) or images[node]] = None
        if node in ranks:
            nodes[end(node)] = None
    kept = {node: ends.get(node, images[node]) for node in graph.nodes if node not in pairs}
    source = graph.source.after_rewrite(kept)
    result = replace(graph, nodes=tuple(nodes), heads=relink_all(graph.heads, kept), source=source)
    return Rewrite(result, (Branch("", graph, kept),))


def tie_reshaped(graph: Graph, pairs: Mapping[Node, Node]) -> Rewrite:
    """Return the graph with the first of each pair as a Reshape of the second, under its own name."""
    taken = TakenNames(name for node in graph.nodes for name in list_output_names(node))
    added: dict[Node, tuple[Node, Node]] = {}
    for node, kept in pairs.items():
        place, name = find_stored(node.details).place, taken.take(f"{node.name}_shape")
        assert place is not None
        content = struct.pack(f"<{len(place.shape)}q", *place.shape)
        sizes = make_operator(
            "Constant", (name,), {"value": Tensor("int64", (len(place.shape),), content)}
        )
        reshape = take_outputs(make_operator("Reshape", node.details.outputs), node)
        added[node] = sizes, replace(reshape, inputs=(Entry(kept), Entry(sizes)))
    ends = {node: reshape for node, (_, reshape) in added.items()}

    def redirect(entry: Entry, user: Node) -> Entry | None:
        return Entry(ends[entry.node]) if entry.node in ends else None

    images: dict[Node, Node] = {}
    rebuild(
        [node for node in topological(graph) if node not in pairs], redirect=redirect, images=images
    )
    nodes: dict[Node, None] = {}
    for node in graph.nodes:  # a late Constant is needed where the other was
        if node in pairs:
            nodes |= dict.fromkeys((pairs[node], *added[node]))
        else:
            nodes[images[node]] = None
    images |= ends
    source = graph.source.after_rewrite(images)
    result = replace(
        graph, nodes=tuple(nodes), heads=relink_all(graph.heads, images), source=source
    )
    return Rewrite(result, (Branch("", graph, {**images, **pairs}),))
