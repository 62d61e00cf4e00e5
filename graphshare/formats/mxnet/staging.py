"""Write the file of a graph beside its target, and compare the file with the graph.

Comparing decoded records is faster than reading a second graph, and independent of the writer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from mmap import ACCESS_READ, mmap
from operator import attrgetter

from graphshare.errors import Fault
from graphshare.files.atomic import OutputTransaction
from graphshare.files.paths import STDOUT
from graphshare.formats.mxnet import document
from graphshare.formats.mxnet.document import Buffer
from graphshare.formats.mxnet.layout import reuse_text, write_symbol
from graphshare.formats.mxnet.source import ATTRIBUTE_KEYS, CHUNK, NodesText, get_source
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.formats.read_back import list_changed_keys, list_differences, refuse_differences
from graphshare.ir.graph import EMPTY, VARIABLE_OP, Entry, Graph, Node
from graphshare.ir.walk import iter_graphs
from graphshare.progress import task

_COMPARED = 1 << 16  # bytes at a time


def stage_graph(graph: Graph, target: str, stage: OutputTransaction) -> list[bytes]:
    """Write the graph beside its target and check it; bytes for stdout are returned instead.

    Raises:
        SelfCheckError: it does not read back as that graph.
    """
    graph = reuse_text(graph)
    if target == "-":
        with task("writing", len(graph.nodes), "nodes") as advance:
            pieces = list(write_symbol(graph, advance))
        check_written(b"".join(pieces), graph, where=STDOUT)
        return pieces
    out = stage.open(target, last=True)
    with task("writing", len(graph.nodes), "nodes") as advance:
        for piece in write_symbol(graph, advance):
            out.write(piece)
    out.flush()
    if out.direct:  # a pipe or a device: it cannot be read back, so the text itself is
        check_written(b"".join(write_symbol(graph)), graph, where=target)
        return []
    # Mapped, unlike inputs: nothing else can truncate the temporary file.
    with open(out.name, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        check_written(data, graph, where=target)
    return []


def check_written(data: Buffer, graph: Graph, *, where: str) -> None:
    """Compare the bytes of a written file with their graph.

    Raises:
        SelfCheckError: they do not read back as that graph.
    """
    refuse_differences(lambda: find_differences(data, graph), where=where)


def find_differences(data: document.Buffer, graph: Graph) -> Iterator[Fault]:
    """Yield the differences between ``graph`` and the graph in a file's bytes.

    Raises:
        InputError: the bytes are not a symbol file at all.
    """
    try:
        if _are_plain_records_equal(data, graph):
            return
    except ValueError:
        pass  # the fast pass cannot read it: raw control characters, for example
    actual = read_symbol(bytes(data))
    yield from list_differences(actual, graph, inner_names=True)
    for own, expected in zip(iter_graphs(actual), iter_graphs(graph), strict=False):
        keys = {"arg_nodes": _arg_nodes(own), **own.extra}
        wanted = {"arg_nodes": _arg_nodes(expected), **expected.extra}
        yield from list_changed_keys(keys, wanted, "$")


def _are_plain_records_equal(data: document.Buffer, graph: Graph) -> bool:
    """Whether the decoded records alone show that the file holds ``graph``.

    Raises:
        ValueError: the bytes are not a symbol file, or break strict JSON.
    """
    nodes, after = graph.nodes, 0
    span = document.nodes_span(data)
    text = get_source(graph).nodes_text
    if text is not None and _is_text_unchanged(data, text):
        nodes, after = nodes[text.count :], text.end
        if span is None:
            data = document.cut_nodes(data, text.start, text.end)
    attr_key = _find_attr_key(nodes)
    if attr_key is None:
        return False
    size = 0
    if span is not None:
        start, end = span
        size = end - (after or start)
    with task("reading back", size, "B") as advance:
        records = document.parse_plain_nodes(data, span, attr_key, after=after, advance=advance)
        if not _are_records_equal(records, nodes, graph):
            return False
    return _are_ends_equal(document.parse_plain_ends(data, span), graph)


def _is_text_unchanged(data: document.Buffer, source: NodesText) -> bool:
    for i in range(source.start, source.end, _COMPARED):
        end = min(i + _COMPARED, source.end)
        if data[i:end] != source.data[i:end]:
            return False
    return True


def _are_records_equal(
    records: Iterable[document.PlainRecord], nodes: Sequence[Node], graph: Graph
) -> bool:
    """Whether ``records`` are ``nodes``, the last of ``graph``; inputs are compared in batches."""
    maps = _MapsByText()
    numbers: list[Sequence[int]] = []
    entries: list[Entry] = []
    for record, node in zip_longest(records, nodes):
        if record is None or node is None:
            return False
        if record.op != (node.op or VARIABLE_OP) or record.name != node.name:
            return False
        if node.subgraphs or node.control_deps or node.extra:  # which a plain record has not
            return False
        text, attrs = bytes(record.attrs), node.attrs
        if maps[text] is not attrs:
            if maps[text] != attrs:
                return False
            # Later occurrences are compared by identity: equal maps of a graph are one object.
            maps[text] = attrs
        if len(record.inputs) != len(node.inputs):
            return False
        numbers += record.inputs
        entries += node.inputs
        if len(entries) >= CHUNK:
            if not _are_entries_equal(numbers, entries, graph.nodes):
                return False
            numbers, entries = [], []
    return _are_entries_equal(numbers, entries, graph.nodes)


class _MapsByText(dict[bytes, Mapping[str, str]]):
    def __missing__(self, text: bytes) -> Mapping[str, str]:
        attrs = self[text] = document.decode_map(text) if text else EMPTY
        return attrs


def _are_entries_equal(
    numbers: Sequence[Sequence[int]], entries: Sequence[Entry], nodes: Sequence[Node]
) -> bool:
    if len(numbers) != len(entries):
        return False
    count = len(nodes)
    for triple, entry in zip(numbers, entries, strict=True):
        i, index = triple[0], triple[1]
        version = triple[2] if len(triple) == 3 else None
        if i >= count or nodes[i] is not entry.node:
            return False
        if index != entry.index or version != entry.version:
            return False
    return True


def _are_ends_equal(ends: document.PlainEnds, graph: Graph) -> bool:
    if graph.extra or ends.attrs != graph.attrs or ends.arg_nodes != _arg_nodes(graph):
        return False
    return _are_entries_equal(ends.heads, graph.heads, graph.nodes)


def _arg_nodes(graph: Graph) -> list[int]:
    irregular: list[int] | None = get_source(graph).irregular.get("arg_nodes")
    if irregular is not None:
        return irregular
    return [i for i, node in enumerate(graph.nodes) if not node.op]


def _find_attr_key(nodes: Sequence[Node]) -> str | None:
    """Return the key of all attributes; None if there are several, or a node has two maps."""
    keys: set[str] = set()
    for form in {id(form): form for form in map(_FORM, nodes)}.values():
        if form is None:
            keys.add("attrs")
            continue
        if form.param is not None:
            return None
        maps = [key for key in form.keys if key in ATTRIBUTE_KEYS]
        # Of attrs and attr the later one counts, as in symbol.py.
        keys.update(maps[-1:])
    if len(keys) > 1:
        return None
    return keys.pop() if keys else "attrs"


_FORM = attrgetter("form")
