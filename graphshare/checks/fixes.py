"""What ``--fix`` does: rewrites that leave the graph what MXNet makes of it anyway.

Outputs, their order and everything they need stay as they are; that is proved on the bytes before anybody writes them.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from graphshare.analysis.name_lists import total_outputs
from graphshare.checks.document import BOM
from graphshare.checks.rules.gs404_wrong_side import misfiled
from graphshare.checks.subject import Subject
from graphshare.errors import Fault, RefusedError, SelfCheckError
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.formats.params.records import Record
from graphshare.ir.compare import compare_structure
from graphshare.ir.graph import EMPTY, Dialect, Graph
from graphshare.ir.rebuild import rebuild, relink_all
from graphshare.ir.walk import reachable, topological

#: Fixed by writing the file anew: the writer spells strings as MXNet reads them, each key once.
_BY_WRITING = frozenset(("GS004", "GS005", "GS009", "GS107"))
GRAPH_FIXES = _BY_WRITING | {"GS003", "GS103", "GS104", "GS108", "GS109"}


def fixed_graph(subject: Subject, codes: Collection[str]) -> bytes | None:
    """The graph file with the findings of ``codes`` mended; None where nothing can be.

    Raises:
        SelfCheckError: what was made is not the graph that was read.
    """
    wanted = GRAPH_FIXES.intersection(codes)
    if not wanted or not subject.sound:
        return None
    if wanted == {"GS003"}:
        return subject.data.removeprefix(BOM)
    graph = subject.graph
    dialect = msgspec.structs.replace(graph.dialect, escapes="mxnet")
    nodes = topological(graph) if "GS103" in wanted else graph.nodes
    if "GS104" in wanted:
        needed = set(subject.reachable)
        nodes = tuple(node for node in nodes if node in needed)
    if nodes != graph.nodes or wanted & {"GS107", "GS108"}:
        dialect = _regular(dialect, "arg_nodes")
    fixed = msgspec.structs.replace(graph, nodes=nodes, dialect=dialect, verbatim=None)
    if nodes != graph.nodes or "GS109" in wanted:
        fixed = _counted(fixed)
    try:
        data = b"".join(write_symbol(fixed))
    except RefusedError:
        return None  # a NUL, which no file for MXNet can hold
    if subject.data.startswith(BOM) and "GS003" not in wanted:
        data = BOM + data
    _prove(subject, data)
    return data


def fixed_records(subject: Subject, codes: Collection[str]) -> list[tuple[Record, str | None]] | None:
    """The records of the parameter file with the keys they should have; None where nothing is to be changed."""
    if "GS404" not in codes or subject.params is None:
        return None
    keys = {held.number: key for held, key in misfiled(subject)}
    taken = {record.key for record in subject.params.records}
    if not keys or taken.intersection(keys.values()):
        return None
    return [(record, keys.get(i, record.key)) for i, record in enumerate(subject.params.records)]


def _regular(dialect: Dialect, key: str) -> Dialect:
    """The dialect with the list ``key`` following from the nodes."""
    rest = {name: value for name, value in dialect.irregular.items() if name != key}
    return msgspec.structs.replace(dialect, irregular=rest or EMPTY)


def _counted(graph: Graph) -> Graph:
    """The graph with outputs counted anew, or without ``node_row_ptr`` where an operator's count is not known."""
    dialect = _regular(graph.dialect, "node_row_ptr")
    counts = [total_outputs(node) for node in graph.nodes]
    if None in counts:
        keys = tuple(key for key in dialect.keys if key != "node_row_ptr")
        return msgspec.structs.replace(graph, dialect=msgspec.structs.replace(dialect, keys=keys))
    numbers = dict(zip(graph.nodes, counts, strict=True))
    images = rebuild(graph.nodes, lambda node: msgspec.structs.replace(node, num_outputs=numbers[node]))
    nodes = tuple([images[node] for node in graph.nodes])
    return msgspec.structs.replace(graph, nodes=nodes, heads=relink_all(graph.heads, images), dialect=dialect)


def _prove(subject: Subject, data: bytes) -> None:
    """Reads the bytes back and holds them against the graph, names included."""
    again = read_symbol(data.removeprefix(BOM), where=subject.where)
    pairing = compare_structure(subject.graph.heads, again.heads) if len(again.heads) == len(subject.graph.heads) else None
    named = pairing is not None and all(a.name == b.name and a.attrs == b.attrs for a, b in pairing.pairs)
    if not pairing or not named or len(pairing.pairs) != len(reachable(subject.graph)):
        hint = "this is a bug of graphshare; nothing was written, please report it"
        raise SelfCheckError(Fault("would not be the same graph after --fix", where=subject.where, hint=hint))
