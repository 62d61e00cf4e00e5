"""A graph to the text of a symbol file, in any of the layouts, MXNet's own to the byte.

MXNet's layout (formats it writes since 1.0, and in 2015): two blanks a level, a blank behind every comma, graph and node
objects on lines of their own, attribute maps only from two keys on, lists from eleven elements on, no final newline, and in
strings only the escapes ``\\" \\\\ \\n \\r \\t``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice
from operator import attrgetter
from typing import Any

from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import EMPTY, VARIABLE, Dialect, Entry, Graph, Node, NodeForm
from graphshare.ir.walk import node_ids

_CHUNK = 512  # nodes joined at a time, about 100 KiB of text: larger pieces are given back to the system and asked for anew
_BYTES = 1 << 16  # copied at a time
_SPECIAL = re.compile(r"[^ !#-\[\]-~]")  # all but printable ASCII without quote and backslash
_MXNET_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def write_symbol(graph: Graph, ids: Mapping[Node, int] | None = None) -> Iterator[bytes]:
    """The bytes of ``graph`` in its dialect, in pieces of about 100 KiB. ``ids`` are its own, where the caller has them.

    Raises:
        RefusedError: a text holds a NUL character, which ends a string for MXNet.
    """
    texts = _Texts(graph.dialect)
    newline = graph.dialect.newline
    for piece in chain(_graph_pieces(graph, texts, 0, ids), (graph.dialect.tail.replace("\r\n", "\n"),)):
        if isinstance(piece, bytes):
            yield piece
        else:
            yield (piece if newline == "\n" else piece.replace("\n", newline)).encode()


class _Texts:
    """Arrays, objects and strings as a dialect spells them."""

    def __init__(self, dialect: Dialect) -> None:
        layout = dialect.layout
        self.comma = "," if layout == "compact" else ", "
        self.colon = ":" if layout == "compact" else ": "
        self.indent = " " * (dialect.indent if layout == "indent" else 2)
        self.break_comma = ", \n" if layout == "mxnet" else ",\n"
        self.quote: Callable[[str], str] = _QUOTES[dialect.escapes]
        # From how many elements on an array or map stands on lines of its own.
        least = {"mxnet": (2, 11, 1), "trimmed": (2, 11, 1), "indent": (1, 1, 1)}.get(layout)
        self.break_map, self.break_list, self.break_record = least or (1 << 62,) * 3
        self.break_entry = 1 if layout == "indent" else 1 << 62

    def array(self, items: Sequence[str], level: int, least: int) -> str:
        """``items`` in brackets at ``level``, broken into lines from ``least`` items on."""
        if len(items) < least:
            return f"[{self.comma.join(items)}]"
        start, end = self._breaks(level)
        return f"[{start}{(self.break_comma + start[1:]).join(items)}{end}]"

    def object(self, pairs: Sequence[tuple[str, str]], level: int, least: int) -> str:
        """``pairs`` of a key and the text of its value, in braces."""
        items = [f"{self.quote(key)}{self.colon}{value}" for key, value in pairs]
        if len(items) < least:
            return f"{{{self.comma.join(items)}}}"
        start, end = self._breaks(level)
        return f"{{{start}{(self.break_comma + start[1:]).join(items)}{end}}}"

    def _breaks(self, level: int) -> tuple[str, str]:
        return "\n" + self.indent * (level + 1), "\n" + self.indent * level

    def map(self, values: Mapping[str, str], level: int) -> str:
        """A map of strings."""
        return self.object([(key, self.quote(value)) for key, value in values.items()], level, self.break_map)

    def id_pieces(self, values: Iterable[int], count: int, level: int) -> Iterator[str]:
        """The array of ``count`` numbers in pieces: a large graph has millions of them."""
        start, end = self._breaks(level) if count >= self.break_list else ("", "")
        comma = self.break_comma + start[1:] if start else self.comma
        numbers = map(str, values)
        yield "[" + start
        for i in range(0, count, _CHUNK):
            yield (comma if i else "") + comma.join(islice(numbers, _CHUNK))
        yield end + "]"

    def value(self, value: Any, level: int) -> str:
        """Any JSON value, for keys without a meaning here."""
        if isinstance(value, str):
            return self.quote(value)
        if isinstance(value, Mapping):
            return self.object([(k, self.value(v, level + 1)) for k, v in value.items()], level, self.break_map)
        if isinstance(value, (list, tuple)):
            return self.array([self.value(item, level + 1) for item in value], level, self.break_list)
        return json.dumps(value)


def _quote_for_mxnet(text: str) -> str:
    if _SPECIAL.search(text) is None:
        return f'"{text}"'
    if "\0" in text:
        hint = "MXNet ends a string at NUL; rename it first, or write another layout with its escapes kept"
        raise RefusedError(Fault(f"{text!r} holds a NUL character, which MXNet cannot read", hint=hint))
    return f'"{text.translate(_MXNET_ESCAPES)}"'


def _quote_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_QUOTES: dict[str, Callable[[str], str]] = {"mxnet": _quote_for_mxnet, "json": _quote_json, "ascii": json.dumps}


def _graph_pieces(graph: Graph, texts: _Texts, level: int, ids: Mapping[Node, int] | None = None) -> Iterator[str | bytes]:
    """The text of a graph object at ``level``, node by node; as bytes where it is copied from the file that was read."""
    ids = node_ids(graph) if ids is None else ids
    values = _graph_values(graph, texts, ids, level + 1)
    least = texts.break_record
    start, end = ("\n" + texts.indent * (level + 1), "\n" + texts.indent * level) if least == 1 else ("", "")
    comma = texts.break_comma.rstrip("\n") if least == 1 else texts.comma
    yield "{"
    for position, key in enumerate([key for key in graph.dialect.keys if key in values]):
        yield f"{comma if position else ''}{start}{texts.quote(key)}{texts.colon}"
        if key == "nodes":
            yield from _node_pieces(graph, texts, ids, level + 1)
        else:
            yield from values[key]
    yield f"{end}}}"


def _graph_values(graph: Graph, texts: _Texts, ids: Mapping[Node, int], level: int) -> dict[str, Iterable[str]]:
    """The text of every key of the graph object but ``nodes``, in pieces; keys that cannot be known are absent."""
    irregular = graph.dialect.irregular
    arg_nodes = irregular.get("arg_nodes")
    if arg_nodes is None:
        arg_nodes = [i for i, node in enumerate(graph.nodes) if node.op == VARIABLE]
    heads = [_entry_text(entry, ids, texts, level + 1) for entry in graph.heads]
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
        values["node_row_ptr"] = texts.id_pieces(accumulate(map(_COUNT, graph.nodes), initial=0), len(graph.nodes) + 1, level)
    values.update({key: (texts.value(value, level),) for key, value in graph.extra.items()})
    return values


_COUNT = attrgetter("num_outputs")


def _entry_text(entry: Entry, ids: Mapping[Node, int], texts: _Texts, level: int) -> str:
    numbers = [str(ids[entry.node]), str(entry.index)]
    if entry.version is not None:
        numbers.append(str(entry.version))
    return texts.array(numbers, level, texts.break_entry)


# The text of all nodes that differ in name and inputs only, in three parts around those two, behind the form and the unknown
# keys of the node it was made of. None where no such text can be.
_Template = tuple[NodeForm | None, Mapping[str, Any], str, str, str] | None
_NO_TEMPLATE = (None, EMPTY, "", "", "")


def _node_pieces(graph: Graph, texts: _Texts, ids: Mapping[Node, int], level: int) -> Iterator[str | bytes]:
    """The array of nodes, some hundred at a time; nodes that stand where they stood when read are copied as they are.

    Nodes alike but for name and inputs are formatted once; this loop is most of what writing costs.
    """
    if not graph.nodes:
        yield "[]"
        return
    broken = texts.break_record == 1
    start = "\n" + texts.indent * (level + 1) if broken else ""
    comma = (texts.break_comma.rstrip("\n") if broken else texts.comma) + start
    text_of = _NodeTexts(graph, texts, ids, level + 1)
    yield "[" + start
    copied = 0
    if graph.verbatim is not None:
        copied = graph.verbatim.count
        for i in range(graph.verbatim.start, graph.verbatim.end, _BYTES):
            yield graph.verbatim.data[i : min(i + _BYTES, graph.verbatim.end)]
    for i in range(copied, len(graph.nodes), _CHUNK):
        yield (comma if i else "") + comma.join(text_of.nodes(graph.nodes[i : i + _CHUNK]))
    yield ("\n" + texts.indent * level if broken else "") + "]"


class _NodeTexts:
    """The texts of nodes, each by the template of its kind."""

    def __init__(self, graph: Graph, texts: _Texts, ids: Mapping[Node, int], level: int) -> None:
        self._texts, self._ids, self._level = texts, ids, level
        self._default = graph.dialect.form
        self._templates: dict[str, dict[int, _Template]] = {}  # by operator and identity of the attribute map
        # What surrounds the id of an entry for a node's first output at version 0, which nearly all entries are.
        self._before, self._after = texts.array(["%d", "0", "0"], level + 2, texts.break_entry).split("%d")
        # Most names need no escape; one search over all of them is cheaper than one a name.
        written = graph.nodes[graph.verbatim.count :] if graph.verbatim is not None else graph.nodes
        self._clean = _SPECIAL.search("".join([node.name for node in written])) is None

    def nodes(self, nodes: Sequence[Node]) -> list[str]:
        """The text of each node."""
        ids, templates, texts, clean = self._ids, self._templates, self._texts, self._clean
        comma, inline, before, after, entry_text = texts.comma, texts.break_list - 1, self._before, self._after, self._entry
        found: list[str] = []
        for node in nodes:
            inputs = node.inputs
            if not inputs:
                text = "[]"
            elif len(inputs) <= inline:
                numbers = [f"{before}{ids[e.node]}{after}" if e.version == 0 and not e.index else entry_text(e) for e in inputs]
                text = f"[{comma.join(numbers)}]"
            else:
                text = texts.array([entry_text(e) for e in inputs], self._level + 1, texts.break_list)
            try:
                form, extra, head, middle, tail = templates[node.op][id(node.attrs)] or _NO_TEMPLATE
            except KeyError:
                form, extra, head, middle, tail = self._learn(node) or _NO_TEMPLATE
            if not head or form is not node.form or extra is not node.extra or node.control_deps or node.subgraphs:
                found.append(self._general(node, text))
            else:
                name = node.name if clean else texts.quote(node.name)[1:-1]
                found.append(f"{head}{name}{middle}{text}{tail}")
        return found

    def _entry(self, entry: Entry) -> str:
        return _entry_text(entry, self._ids, self._texts, self._level + 2)

    def _learn(self, node: Node) -> _Template:
        template = None
        if not node.control_deps and not node.subgraphs:
            template = _template(node, self._default, self._texts, self._level)
        self._templates.setdefault(node.op, {})[id(node.attrs)] = template
        return template

    def _general(self, node: Node, inputs: str) -> str:
        pairs = _pairs(node, inputs, self._ids, self._default, self._texts, self._level + 1)
        return self._texts.object(pairs, self._level, self._texts.break_record)


_NAME, _INPUTS = "\0name\0", "\0inputs\0"


def _template(node: Node, default: NodeForm, texts: _Texts, level: int) -> _Template:
    """The template for nodes like ``node``; None when its inputs come before its name."""
    pairs = [(key, _INPUTS if key == "inputs" else value) for key, value in _pairs(node, "", {}, default, texts, level + 1)]
    pairs = [(key, f'"{_NAME}"' if key == "name" else value) for key, value in pairs]
    head, found, rest = texts.object(pairs, level, texts.break_record).partition(_NAME)
    middle, also_found, tail = rest.partition(_INPUTS)
    return (node.form, node.extra, head, middle, tail) if found and also_found else None


def _pairs(
    node: Node, inputs: str, ids: Mapping[Node, int], default: NodeForm, texts: _Texts, level: int
) -> list[tuple[str, str]]:
    """Each key of a node with the text of its value, in the order of its form."""
    pairs: list[tuple[str, str]] = []
    param = node.form.param if node.form is not None else None
    for key in _keys(node, default):
        if key == "op":
            text = texts.quote(node.op)
        elif key == "name":
            text = texts.quote(node.name)
        elif key == "inputs":
            text = inputs
        elif key in node.extra:
            text = texts.value(node.extra[key], level)
        elif key == "control_deps":
            text = "".join(texts.id_pieces([ids[dep] for dep in node.control_deps], len(node.control_deps), level))
        elif key == "subgraphs":
            graphs = [_subgraph_text(graph, texts, level + 1) for graph in node.subgraphs]
            text = texts.array(graphs, level, texts.break_record)
        elif param is not None:  # attributes stand in two maps
            in_param = key == "param"
            text = texts.map({k: v for k, v in node.attrs.items() if (k in param) == in_param}, level)
        else:
            text = texts.map(node.attrs, level)
        pairs.append((key, text))
    return pairs


def _subgraph_text(graph: Graph, texts: _Texts, level: int) -> str:
    return "".join(piece for piece in _graph_pieces(graph, texts, level) if isinstance(piece, str))


def _keys(node: Node, default: NodeForm) -> list[str]:
    """The keys to write for ``node``: those of its own form, and what it has that the form has not."""
    if node.form is None:
        keys = [
            k for k in default.keys if k not in ("control_deps", "subgraphs") and (k not in ("attrs", "attr") or node.attrs)
        ]
        keys = [k for k in keys if k in _MEANT or k in node.extra]
    else:
        keys = list(node.form.keys)
    if node.attrs and not {"attrs", "attr", "param"} & set(keys):
        usual = [k for k in default.keys if k in ("attrs", "attr", "param")]
        keys.insert(keys.index("name") + 1, usual[0] if usual else "attrs")
    keys += [k for k in ("control_deps", "subgraphs") if getattr(node, k) and k not in keys]
    return keys


_MEANT = frozenset(("op", "name", "attrs", "attr", "param", "inputs"))
