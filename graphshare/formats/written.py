"""Differences between a graph and the bytes of a file that should hold it, found on the decoded records.

Faster than reading a second graph, and independent of the writer: it goes through JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from graphshare.errors import Fault
from graphshare.formats import document
from graphshare.formats.symbol import read_symbol
from graphshare.ir.graph import EMPTY, VARIABLE, Entry, Graph, Node, NodeForm
from graphshare.ir.walk import node_ids

_COMPARED = 1 << 16  # bytes at a time


def differences(data: document.Buffer, graph: Graph, ids: Mapping[Node, int] | None = None) -> Iterator[Fault]:
    """What of ``graph`` the file's bytes do not say. ``ids`` are the graph's own, where the caller has them already.

    Raises:
        InputError: the bytes are no symbol file at all.
    """
    if not _usual(graph):
        yield from _graph_differences(read_symbol(bytes(data)), graph)
        return
    ids = node_ids(graph) if ids is None else ids
    try:
        span = document.nodes_span(data)
        if span is None:
            found, records = document.parse_whole(data)
            yield from _record_differences(records, graph, ids, 0)
            yield from _end_differences(found["arg_nodes"], found["heads"], graph, ids)
            return
        copied = _copied_nodes(data, graph)
        after = graph.verbatim.end if copied and graph.verbatim else 0
        yield from _record_differences(document.parse_nodes(data, span, after=after), graph, ids, copied)
        ends = document.parse_ends(data, span)
        yield from _end_differences(ends.arg_nodes, ends.heads, graph, ids)
    except (ValueError, TypeError, KeyError, AttributeError):  # not what the fast pass reads, raw control characters for one
        yield from _graph_differences(read_symbol(bytes(data)), graph)


def _copied_nodes(data: document.Buffer, graph: Graph) -> int:
    """How many of the first nodes stand there in the very bytes that the graph was read from, and so read the same again."""
    source = graph.verbatim
    if source is None:
        return 0
    for i in range(source.start, source.end, _COMPARED):
        if data[i : min(i + _COMPARED, source.end)] != source.data[i : min(i + _COMPARED, source.end)]:
            return 0
    return source.count


def _record_differences(records: document.Records, graph: Graph, ids: Mapping[Node, int], copied: int) -> Iterator[Fault]:
    """Faults of the nodes behind the first ``copied``."""
    attr_keys = _AttrKeys()
    nodes = graph.nodes[copied:] if copied else graph.nodes
    for position, (record, node) in enumerate(zip_longest(records, nodes), start=copied):
        if record is None or node is None:
            yield Fault(f"holds another number of nodes than {len(graph.nodes)}")
            break
        if (
            record["op"] != node.op
            or record["name"] != node.name
            or record["inputs"]
            != [(ids[e.node], 0, 0) if e.version == 0 and not e.index else _numbers(e, ids) for e in node.inputs]
            or record.get(attr_keys[node.form], EMPTY) != node.attrs
        ):
            yield Fault("does not read back as it was", path=f"$.nodes[{position}]", node=node.name)


def _end_differences(
    arg_nodes: Sequence[int], heads: Sequence[tuple[int, ...]], graph: Graph, ids: Mapping[Node, int]
) -> Iterator[Fault]:
    variables = graph.dialect.irregular.get("arg_nodes")
    if variables is None:
        variables = [i for i, node in enumerate(graph.nodes) if node.op == VARIABLE]
    if arg_nodes != variables:
        yield Fault("do not read back as they were", path="$.arg_nodes")
    if heads != [_numbers(entry, ids) for entry in graph.heads]:
        yield Fault("do not read back as they were", path="$.heads")


class _AttrKeys(dict[NodeForm | None, str]):
    """Form to the key of its attribute map."""

    def __missing__(self, form: NodeForm | None) -> str:
        keys = form.keys if form is not None else ()
        key = self[form] = next((k for k in reversed(keys) if k in ("attrs", "attr", "param")), "attrs")
        return key


def _numbers(entry: Entry, ids: Mapping[Node, int]) -> tuple[int, ...]:
    i = ids[entry.node]
    return (i, entry.index) if entry.version is None else (i, entry.index, entry.version)


def _usual(graph: Graph) -> bool:
    """Whether no node has what a plain look at its record misses: attributes in two maps, sub-graphs, control dependencies."""
    forms = {node.form for node in graph.nodes}
    if any(form is not None and form.param is not None for form in forms):
        return False
    return not any(node.subgraphs or node.control_deps for node in graph.nodes)


def _graph_differences(found: Graph, graph: Graph, path: str = "$") -> Iterator[Fault]:
    if len(found.nodes) != len(graph.nodes):
        yield Fault(f"holds {len(found.nodes)} nodes instead of {len(graph.nodes)}", path=path)
        return
    ids, found_ids = node_ids(graph), node_ids(found)
    for i, (a, b) in enumerate(zip(found.nodes, graph.nodes, strict=True)):
        if _content(a, found_ids) != _content(b, ids) or len(a.subgraphs) != len(b.subgraphs):
            yield Fault("does not read back as it was", path=f"{path}.nodes[{i}]", node=b.name)
            continue
        for k, (inner, wanted) in enumerate(zip(a.subgraphs, b.subgraphs, strict=True)):
            yield from _graph_differences(inner, wanted, f"{path}.nodes[{i}].subgraphs[{k}]")
    if [_triple(e, found_ids) for e in found.heads] != [_triple(e, ids) for e in graph.heads]:
        yield Fault("do not read back as they were", path=f"{path}.heads")


def _content(node: Node, ids: dict[Node, int]) -> tuple[Any, ...]:
    inputs = [_triple(entry, ids) for entry in node.inputs]
    return node.op, node.name, dict(node.attrs), inputs, [ids[dep] for dep in node.control_deps]


def _triple(entry: Entry, ids: dict[Node, int]) -> tuple[int, int, int | None]:
    return ids[entry.node], entry.index, entry.version
