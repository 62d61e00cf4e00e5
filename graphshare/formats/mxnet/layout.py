r"""Write a graph as a symbol file in any layout, MXNet's own to the byte.

MXNet's layout (since 1.0, and in 2015): two blanks a level, a blank after every comma, graph and
node objects on lines of their own, attribute maps only from two keys on, lists from eleven elements
on, no final newline, and in strings only the escapes ``\" \\ \n \r \t``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from graphshare.errors import Fault, RefusedError
from graphshare.formats.mxnet.source import (
    ATTRIBUTE_KEYS,
    CHUNK,
    SPECIAL,
    FileText,
    JsonWriter,
    NodesText,
    get_source,
)
from graphshare.ir.graph import EMPTY, Entry, Graph, Node, NodeForm
from graphshare.progress import Advance, noop_progress
from graphshare.text.format import escape_surrogates

_BYTES = 1 << 16  # copied at a time
_SHOWN = 20  # characters on either side of one that cannot be written
_LOOKED_UP = 8  # nodes, before a table of all is made


def write_symbol(graph: Graph, advance: Advance = noop_progress) -> Iterator[bytes]:
    """Yield the bytes of ``graph`` in its own style, in pieces of about 100 KiB; ``advance`` counts
    nodes.

    Raises:
        RefusedError: a text holds a NUL character (MXNet's strings end there), or bytes that are
        not UTF-8.
    """
    try:
        yield from _list_pieces(graph, advance)
    except UnicodeEncodeError as error:
        text = escape_surrogates(error.object[max(error.start - _SHOWN, 0) : error.end + _SHOWN])
        hint = "names on the command line must be UTF-8: give another prefix or name"
        raise RefusedError(
            Fault(f"a symbol file is UTF-8, and this text is not: ...{text}...", hint=hint)
        ) from error


def _list_pieces(graph: Graph, advance: Advance) -> Iterator[bytes]:
    graph = reuse_text(graph)
    source = get_source(graph)
    if source.text is not None and _is_as_read(graph, source.text.graph):
        for i in range(0, len(source.text.data), _BYTES):
            yield source.text.data[i : i + _BYTES]
        advance(len(graph.nodes))
        return
    # No layout reproduces the text that reuse_text has kept.
    if source.text is not None and source.nodes_text is None and _may_keep_text(graph, source.text):
        yield from _write_own_text(graph, source.text, advance)
        return
    texts = JsonWriter(source.style)
    tail = source.style.tail.replace("\r\n", "\n")
    yield from _encode(chain(_graph_pieces(graph, texts, 0, advance), (tail,)), texts)


def _encode(pieces: Iterable[str | bytes], texts: JsonWriter) -> Iterator[bytes]:
    for piece in pieces:
        yield piece if isinstance(piece, bytes) else texts.end_lines(piece).encode()


def _is_as_read(graph: Graph, read: Graph) -> bool:
    source, own = get_source(graph), get_source(read)
    return (
        graph.nodes == read.nodes
        and graph.heads == read.heads
        and graph.attrs is read.attrs
        and graph.extra is read.extra
        and (source.keys, source.irregular) == (own.keys, own.irregular)
    )


def reuse_text(graph: Graph) -> Graph:
    """Return ``graph`` with the text of its unchanged nodes, to be copied.

    A file that no layout reproduces keeps its text.
    """
    source = get_source(graph)
    text = source.text
    if text is None or source.nodes_text is not None:
        return graph
    if not _may_keep_text(graph, text) or _is_as_read(graph, text.graph):
        return graph
    nodes_text = _locate_nodes(text)
    if nodes_text is None:
        return graph
    has_old_style = source.style == get_source(text.graph).style
    if not has_old_style or graph.nodes[: nodes_text.count] != text.graph.nodes:
        nodes_text = None
    return replace(graph, source=replace(source, text=None, nodes_text=nodes_text))


def _may_keep_text(graph: Graph, text: FileText) -> bool:
    """MXNet cannot read a NUL."""
    return bool(graph.nodes and text.graph.nodes) and b"\\u0000" not in text.data


def _locate_nodes(text: FileText) -> NodesText | None:
    """Return where the nodes are in a file, or None if no layout reproduces its text."""
    # The style was guessed from a sample: only writing shows whether it fits.
    data, graph = text.data, text.graph
    style = get_source(graph).style
    texts, ids, end = JsonWriter(style), _Ids(graph), 0
    starts: list[int] = []  # of the pieces of the array: its bracket, nodes, its other bracket

    def node_pieces() -> Iterator[str | bytes]:
        for piece in _node_pieces(graph, texts, ids, 1, noop_progress):
            # The previous piece has been compared: end is where this one begins.
            starts.append(end)
            yield piece

    pieces = _graph_pieces(graph, texts, 0, ids=ids, nodes=node_pieces())
    tail = style.tail.replace("\r\n", "\n")
    for expected in _encode(chain(pieces, (tail,)), texts):
        if data[end : end + len(expected)] != expected:
            return None
        end += len(expected)
    return NodesText(data, starts[1], starts[-1], len(graph.nodes)) if end == len(data) else None


def _write_own_text(graph: Graph, text: FileText, advance: Advance) -> Iterator[bytes]:
    # Start-up: few files are laid out by hand
    from graphshare.formats.mxnet.own_text import OwnText

    own, texts = OwnText(text), JsonWriter(get_source(graph).style)
    ids, old_ids = _Ids(graph), _Ids(text.graph)
    old, new = NodeTexts(text.graph, texts, old_ids, 2), NodeTexts(graph, texts, ids, 2)

    def node_text(node: Node) -> str:
        i = own.source(node)
        if i is not None:
            kept = own.node(i, old.pairs(text.graph.nodes[i]), new.pairs(node), texts)
            if kept is not None:
                return kept
        return texts.end_lines(new.nodes([node])[0])

    start, comma, _ = map(texts.end_lines, _separators(texts, 1))
    sources = [own.source(node) for node in graph.nodes]
    nodes = (
        piece.encode() for piece in own.array(sources, map(node_text, graph.nodes), start, comma)
    )
    old_values = _join_values(text.graph, texts, old_ids)
    values = _join_values(graph, texts, ids)
    if old_values.keys() == values.keys():
        begin, end = own.frame(old_values, values, texts)
        yield from chain((begin.encode(),), nodes, (end.encode(),))
    else:  # the frame has other keys now
        yield from _encode(_graph_pieces(graph, texts, 0, nodes=nodes), texts)
    advance(len(graph.nodes))


def _join_values(graph: Graph, texts: JsonWriter, ids: Mapping[Node, int]) -> dict[str, str]:
    """Return the text of each key of a file's graph object, without the nodes."""
    values = _graph_values(graph, texts, ids, 1)
    return {key: "".join(values[key]) for key in values if key in get_source(graph).keys}


def _graph_pieces(
    graph: Graph,
    texts: JsonWriter,
    level: int,
    advance: Advance = noop_progress,
    *,
    ids: Mapping[Node, int] | None = None,
    nodes: Iterable[str | bytes] | None = None,
) -> Iterator[str | bytes]:
    """Yield the text of a graph object at ``level``, node by node; copied text as bytes.

    ``ids`` and ``nodes`` (pieces of the array) may be known already.
    """
    if ids is None:
        ids = _Ids(graph)
    values = _graph_values(graph, texts, ids, level + 1)
    if nodes is None:
        nodes = _node_pieces(graph, texts, ids, level + 1, advance)
    start, comma, end = _separators(texts, level)
    yield "{"
    for position, key in enumerate([key for key in get_source(graph).keys if key in values]):
        before = comma if position else start
        yield f"{before}{texts.quote(key)}{texts.colon}"
        yield from nodes if key == "nodes" else values[key]
    yield f"{end}}}"


def _graph_values(
    graph: Graph, texts: JsonWriter, ids: Mapping[Node, int], level: int
) -> dict[str, Iterable[str]]:
    """Return the text of every known graph key but ``nodes``, in pieces."""
    irregular = get_source(graph).irregular
    arg_nodes = irregular.get("arg_nodes")
    if arg_nodes is None:
        arg_nodes = [i for i, node in enumerate(graph.nodes) if not node.op]
    heads = [_format_entry(entry, ids, texts, level + 1) for entry in graph.heads]
    attrs = [(key, texts.value(value, level + 1)) for key, value in graph.attrs.items()]
    values: dict[str, Iterable[str]] = {
        "nodes": (),
        "arg_nodes": texts.id_pieces(arg_nodes, len(arg_nodes), level),
        "heads": (texts.array(heads, level, texts.break_list),),
        "attrs": (texts.object(attrs, level, texts.break_map),),
    }
    row_ptr = irregular.get("node_row_ptr")
    if row_ptr is not None:
        values["node_row_ptr"] = texts.id_pieces(row_ptr, len(row_ptr), level)
    elif None not in map(_COUNT, graph.nodes):
        values["node_row_ptr"] = texts.id_pieces(
            accumulate(map(_COUNT, graph.nodes), initial=0), len(graph.nodes) + 1, level
        )
    values.update({key: (texts.value(value, level),) for key, value in graph.extra.items()})
    return values


_COUNT = attrgetter("num_outputs")


class _Ids(dict[Node, int]):
    """Each node's id. Copied nodes are searched one by one at first: few references lead to
    them.
    """

    def __init__(self, graph: Graph) -> None:
        count = _count_copied(graph)
        self._copied = graph.nodes[:count]
        self._looked_up = 0
        super().__init__(zip(graph.nodes[count:], range(count, len(graph.nodes)), strict=True))

    def __missing__(self, node: Node) -> int:
        self._looked_up += 1
        if self._looked_up > _LOOKED_UP:
            self.update(zip(self._copied, range(len(self._copied)), strict=True))
        if node not in self:
            self[node] = self._copied.index(node)
        return self[node]


def _count_copied(graph: Graph) -> int:
    """Return the number of nodes, the first ones, whose text is copied from the file."""
    text = get_source(graph).nodes_text
    return 0 if text is None else text.count


def _node_pieces(
    graph: Graph, texts: JsonWriter, ids: Mapping[Node, int], level: int, advance: Advance
) -> Iterator[str | bytes]:
    """Yield the array of nodes, some hundred at a time; the text of unchanged nodes is copied.

    Nodes that differ only in name and inputs are formatted once: most of the time of writing is
    spent here.
    """
    if not graph.nodes:
        yield "[]"
        return
    start, comma, end = _separators(texts, level)
    text_of = NodeTexts(graph, texts, ids, level + 1)
    yield "[" + start
    copied, text = _count_copied(graph), get_source(graph).nodes_text
    if text is not None:
        for i in range(text.start, text.end, _BYTES):
            yield text.data[i : min(i + _BYTES, text.end)]
        advance(copied)
    for i in range(copied, len(graph.nodes), CHUNK):
        nodes = graph.nodes[i : i + CHUNK]
        yield (comma if i else "") + comma.join(text_of.nodes(nodes))
        advance(len(nodes))
    yield end + "]"


def _separators(texts: JsonWriter, level: int) -> tuple[str, str, str]:
    """Return the texts before the first item of a list at ``level``, between two items, and at the end."""
    if texts.break_record != 1:
        return "", texts.comma, ""
    start = "\n" + texts.indent * (level + 1)
    return start, texts.break_comma.rstrip("\n") + start, "\n" + texts.indent * level


def _subgraph_text(graph: Graph, texts: JsonWriter, level: int) -> str:
    return "".join(piece for piece in _graph_pieces(graph, texts, level) if isinstance(piece, str))


def _format_entry(entry: Entry, ids: Mapping[Node, int], texts: JsonWriter, level: int) -> str:
    numbers = [str(ids[entry.node]), str(entry.index)]
    if entry.version is not None:
        numbers.append(str(entry.version))
    return texts.array(numbers, level, texts.break_entry)


# A node's text in three parts around name and inputs, after its form and unknown keys; empty parts
# if there is no such text.
_Template = tuple[NodeForm | None, Mapping[str, Any], str, str, str]
_NO_TEMPLATE: _Template = (None, EMPTY, "", "", "")
# No text to be written holds a NUL: each style escapes or refuses it.
_NAME, _INPUTS = "\0name\0", "\0inputs\0"


class NodeTexts:
    """The texts of nodes at ``level``, each by the template of its kind."""

    def __init__(
        self,
        graph: Graph,
        texts: JsonWriter,
        ids: Mapping[Node, int],
        level: int,
    ) -> None:
        self._texts, self._ids, self._level = texts, ids, level
        self._default = get_source(graph).form
        # The graph keeps the maps alive, so identities are unique.
        self._templates: dict[
            str, dict[int, _Template]
        ] = {}  # by operator and identity of the attribute map
        # The text around the id in nearly all entries: first output, version 0.
        self._before, self._after = texts.array(
            ["%d", "0", "0"], level + 2, texts.break_entry
        ).split("%d")
        # One search for escapes over all names is cheaper than one per name.
        written = graph.nodes[_count_copied(graph) :]
        self._clean = SPECIAL.search("".join([node.name for node in written])) is None

    def nodes(self, nodes: Sequence[Node]) -> list[str]:
        ids, templates, texts, clean = self._ids, self._templates, self._texts, self._clean
        comma, inline = texts.comma, texts.break_list - 1
        before, after, other = self._before, self._after, self._entry
        results: list[str] = []
        for node in nodes:
            inputs = node.inputs
            if not inputs:
                text = "[]"
            elif len(inputs) <= inline:
                numbers = [
                    f"{before}{ids[e.node]}{after}" if e.version == 0 and not e.index else other(e)
                    for e in inputs
                ]
                text = f"[{comma.join(numbers)}]"
            else:
                text = texts.array([other(e) for e in inputs], self._level + 1, texts.break_list)
            try:
                form, extra, head, middle, tail = templates[node.op][id(node.attrs)]
            except KeyError:
                form, extra, head, middle, tail = self._learn(node)
            if (
                not head
                or form is not node.form
                or extra is not node.extra
                or node.control_deps
                or node.subgraphs
            ):
                results.append(self._general(node, text))
            else:
                name = node.name if clean else texts.quote(node.name)[1:-1]
                results.append(f"{head}{name}{middle}{text}{tail}")
        return results

    def pairs(self, node: Node) -> dict[str, str]:
        """Return each key of a node with the text of its value."""
        inputs = self._texts.array(
            [self._entry(e) for e in node.inputs], self._level + 1, self._texts.break_list
        )
        return dict(self._pairs(node, inputs))

    def _entry(self, entry: Entry) -> str:
        return _format_entry(entry, self._ids, self._texts, self._level + 2)

    def _learn(self, node: Node) -> _Template:
        template = _NO_TEMPLATE if node.control_deps or node.subgraphs else self._template(node)
        self._templates.setdefault(node.op, {})[id(node.attrs)] = template
        return template

    def _general(self, node: Node, inputs: str) -> str:
        return self._texts.object(self._pairs(node, inputs), self._level, self._texts.break_record)

    def _template(self, node: Node) -> _Template:
        """Return the template for nodes like ``node``, unless its inputs come before its name."""
        marks = {"inputs": _INPUTS, "name": f'"{_NAME}"'}
        pairs = [(key, marks.get(key, value)) for key, value in self._pairs(node, "")]
        text = self._texts.object(pairs, self._level, self._texts.break_record)
        head, has_name, rest = text.partition(_NAME)
        middle, has_inputs, tail = rest.partition(_INPUTS)
        if not has_name or not has_inputs:
            return _NO_TEMPLATE
        return node.form, node.extra, head, middle, tail

    def _pairs(self, node: Node, inputs: str) -> list[tuple[str, str]]:
        """Return each key of a node with the text of its value, in the order of its form."""
        texts, level = self._texts, self._level + 1
        pairs: list[tuple[str, str]] = []
        known = {
            "op": texts.quote(node.operator_text),
            "name": texts.quote(node.name),
            "inputs": inputs,
        }
        attrs = node.attrs
        param = node.form.param if node.form is not None else None
        if param is not None:  # attributes stand in two maps
            hidden = node.extra.get("param", EMPTY)
            known["param"] = texts.map(_list_parameters(node, param, hidden), level)
            attrs = {
                key: value for key, value in attrs.items() if key not in param or key in hidden
            }
        for key in _keys(node, self._default):
            if key in known:
                text = known[key]
            elif key in node.extra:
                text = texts.value(node.extra[key], level)
            elif key == "control_deps":
                ids = [self._ids[dep] for dep in node.control_deps]
                text = "".join(texts.id_pieces(ids, len(ids), level))
            elif key == "subgraphs":
                graphs = [_subgraph_text(graph, texts, level + 1) for graph in node.subgraphs]
                text = texts.array(graphs, level, texts.break_record)
            else:
                text = texts.map(attrs, level)
            pairs.append((key, text))
        return pairs


def _list_parameters(
    node: Node, param: Collection[str], hidden: Mapping[str, str]
) -> dict[str, str]:
    """Return a node's attributes under ``param``, with values that other maps hide."""
    names = param if hidden else [key for key in node.attrs if key in param]
    return {key: hidden[key] if key in hidden else node.attrs[key] for key in names}


def _keys(node: Node, default: NodeForm) -> list[str]:
    """Return the keys of a node's own form, then missing ones."""
    if node.form is None:
        # MXNet writes attrs only if there are attributes; param was always there.
        unused = () if node.attrs else ("attrs", "attr")
        keys = [k for k in default.keys if (k in _MEANT or k in node.extra) and k not in unused]
    else:
        keys = list(node.form.keys)
    if node.attrs and set(keys).isdisjoint(ATTRIBUTE_KEYS):
        usual = next((k for k in default.keys if k in ATTRIBUTE_KEYS), "attrs")
        keys.insert(keys.index("name") + 1, usual)
    keys += [k for k in ("control_deps", "subgraphs") if getattr(node, k) and k not in keys]
    return keys


_MEANT = frozenset(("op", "name", *ATTRIBUTE_KEYS, "inputs"))
