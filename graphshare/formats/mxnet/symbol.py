"""Read a symbol file, and replace ids by references.

All generations are read alike: ``attrs``, ``attr`` or ``param``, entries of two or three numbers,
nodes in any order. Nothing is upgraded. Ids out of range and cycles are reported together.

Equal attribute maps become one object, and so do equal operator names: graphs repeat both, and the
writer formats each distinct map once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, repeat
from operator import sub
from typing import Any

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.formats.mxnet import document
from graphshare.formats.mxnet.source import (
    ATTRIBUTE_KEYS,
    FileText,
    JsonStyle,
    MxnetSource,
    NodesText,
    can_copy_text,
    recognize_style,
)
from graphshare.ir.graph import EMPTY, VARIABLE_OP, Entry, FrozenMap, Graph, Node, NodeForm, freeze
from graphshare.ir.walk import format_cycle, order_by_references
from graphshare.progress import task
from graphshare.text.format import format_count

Records = Sequence[dict[str, Any]]


class _Shape:
    __slots__ = ("attr_key", "extra", "form", "only_attrs", "param")

    def __init__(self, keys: tuple[str, ...]) -> None:
        maps = [key for key in keys if key in ("attrs", "attr")]
        # MXNet reads both keys into one map, and the later one wins; ``param`` only fills in absent
        # keys.
        self.attr_key = ""
        if maps:
            self.attr_key = maps[-1]
        elif "param" in keys:
            self.attr_key = "param"
        self.param = "param" in keys and bool(maps)
        inert = {*maps[:-1], "backward_source_id"}
        self.extra = tuple(key for key in keys if key in inert or key not in document.NODE_KEYS)
        self.only_attrs = not (
            self.param or self.extra or "control_deps" in keys or "subgraphs" in keys
        )
        self.form = NodeForm(keys)


class _Shapes(dict[tuple[str, ...], _Shape]):
    def __missing__(self, keys: tuple[str, ...]) -> _Shape:
        shape = self[keys] = _Shape(keys)
        return shape


class _Maps(dict[tuple[tuple[str, Any], ...], Mapping[str, Any]]):
    """The one object for equal mappings, by their items in order."""

    def __missing__(self, items: tuple[tuple[str, Any], ...]) -> Mapping[str, Any]:
        values = self[items] = FrozenMap(items)
        return values


class _NodeReader:
    """Makes nodes of one graph's records. ``read_graph`` links a subgraph in a record.

    ``texts`` and ``maps`` hold the one object for each operator name and attribute map; a variable
    has no operator.
    """

    def __init__(self, read_graph: Callable[[dict[str, Any]], Graph]) -> None:
        self._read_graph = read_graph
        self.shapes = _Shapes()
        self.texts: dict[str, str] = {VARIABLE_OP: ""}
        self.maps = _Maps({(): EMPTY})
        self.maps_by_text = _MapsByText(self)

    def node(
        self,
        record: dict[str, Any],
        inputs: tuple[Entry, ...],
        deps: tuple[Node, ...],
        count: int | None,
    ) -> Node:
        """Return the node of ``record``; ``inputs`` and ``deps`` are linked; ``count`` may be
        unknown.
        """
        shape = self.shapes[tuple(record)]
        _check_kinds(record)
        attrs = self.intern(record[shape.attr_key]) if shape.attr_key else EMPTY
        form, extra = shape.form, self._extra(record, shape)
        if shape.param:
            param = record["param"]
            hidden = {key: value for key, value in param.items() if key in attrs}
            if hidden:
                extra = freeze({**extra, "param": freeze(hidden)})
            form = NodeForm(form.keys, tuple(param))
            merged = dict(attrs)
            for key, value in param.items():
                merged.setdefault(key, value)
            attrs = self.intern(merged)
        subgraphs = tuple(self._read_graph(graph) for graph in record.get("subgraphs", ()))
        op = self.texts.setdefault(record["op"], record["op"])
        return Node(op, record["name"], attrs, inputs, count, deps, subgraphs, extra, form)

    def intern(self, attrs: Mapping[str, str]) -> Mapping[str, str]:
        return self.maps[tuple(attrs.items())]

    def _extra(self, record: dict[str, Any], shape: _Shape) -> Mapping[str, Any]:
        # Every node of a 2015 file has it, nearly always -1
        if shape.extra == ("backward_source_id",):
            return self.maps[(("backward_source_id", record["backward_source_id"]),)]
        document.check_nesting(record[key] for key in shape.extra)
        return freeze({key: record[key] for key in shape.extra})


class _MapsByText(dict[bytes, tuple[Mapping[str, str], NodeForm]]):
    """The map and usual form of a node by the map's text (empty if absent)."""

    def __init__(self, reader: _NodeReader) -> None:
        self._reader = reader

    def __missing__(self, text: bytes) -> tuple[Mapping[str, str], NodeForm]:
        # Maps of equal content may differ in white space, so they are interned too.
        attrs: Mapping[str, str] = EMPTY
        keys: tuple[str, ...] = ("op", "name", "inputs")
        if text:
            attrs = document.decode_map(text)
            keys = ("op", "name", "attrs", "inputs")
        form = self._reader.shapes[keys].form
        pair = self[text] = (self._reader.intern(attrs), form)
        return pair


_KINDS = {
    "op": str,
    "name": str,
    "inputs": list,
    "control_deps": list,
    "subgraphs": list,
    "backward_source_id": int,
    **dict.fromkeys(ATTRIBUTE_KEYS, dict),
}


def _check_kinds(record: Mapping[str, Any]) -> None:
    """Raises TypeError for a value that does not fit its key."""
    for key, value in record.items():
        # type() and not isinstance(), because true is an int in Python.
        kind = type(value)
        if kind is not _KINDS.get(key, kind):
            raise TypeError(key)


_Linker = Callable[[Iterable[Any], Iterable[int | None] | None, _NodeReader], list[Node]]

_MOST_OUTPUTS = 1 << 16  # of a node, as graphshare.ops bounds the counts that attributes say


def read_symbol(data: bytes, *, where: str = "") -> Graph:
    """Return the graph in the bytes of a symbol file. ``where`` names the file in errors.

    Raises:
        InputError: every fault of the file, with its JSON path.
    """
    style = recognize_style(data)
    try:
        span = document.nodes_span(data)
        if span is not None:
            for bare in (True, False):
                # Other keys, or all records together, are needed to find the fault.
                with suppress(*_UNFIT):
                    return _keep_text(_read_large(data, span, style, bare=bare), data)
        try:
            return _keep_text(_link(*document.parse_whole(data), style), data)
        except _UNFIT:
            # Start-up: only this path needs it
            from graphshare.formats.mxnet.tolerant import parse_tolerantly

            graph_object, records = parse_tolerantly(data, where=where)
            return _keep_text(_link(graph_object, records, style, checked=True), data)
    except InputError as error:
        raise error.with_location(where) from None


def _keep_text(graph: Graph, data: bytes) -> Graph:
    formatted = msgspec.structs.replace(graph.source, nodes_text=None)
    text = FileText(data, msgspec.structs.replace(graph, source=formatted))
    source = msgspec.structs.replace(graph.source, text=text)
    return msgspec.structs.replace(graph, source=source)


def _read_large(data: bytes, span: tuple[int, int], style: JsonStyle, *, bare: bool) -> Graph:
    """``bare`` nodes have only usual keys. Raises ``_UNFIT``."""
    graph_object = document.parse_frame(data, span)
    with task("reading", span[1] - span[0], "B") as advance:
        if bare:
            records = document.parse_bare_nodes(data, span, advance)
            graph = _link(graph_object, records, style, link=_link_bare)
        else:
            graph = _link(graph_object, document.parse_nodes(data, span, advance), style)
    if not can_copy_text(data, style):
        return graph
    text = NodesText(data, *span, len(graph.nodes))
    return msgspec.structs.replace(
        graph, source=msgspec.structs.replace(graph.source, nodes_text=text)
    )


# A value does not fit its key, or is not JSON for the fast pass; slower passes find out which.
_UNFIT = (KeyError, TypeError, AttributeError, ValueError, RecursionError)


def _link(
    graph_object: dict[str, Any],
    records: Iterable[Any],
    style: JsonStyle,
    depth: int = 0,
    *,
    checked: bool = False,
    link: _Linker | None = None,
) -> Graph:
    """Return the graph of a parsed object and its node records, or of a subgraph ``depth`` levels
    down.

    With ``checked`` the schema has validated all values; ``link`` makes nodes of other records than
    dicts.
    """
    _check_graph(graph_object, depth, checked)
    reader = _NodeReader(
        lambda inner: _link(inner, inner["nodes"], style, depth + 1, checked=checked)
    )
    steps = _output_counts(graph_object.get("node_row_ptr"))
    try:
        nodes = (link or _link_in_file_order)(records, steps, reader)
        heads = tuple([_entry(e, nodes[e[0]]) for e in graph_object["heads"]])
        fits = steps is None or len(steps) == len(nodes)
    except IndexError:  # an entry refers to a later node, or to none
        fits = False
    if not fits:
        if not isinstance(records, list):
            raise ValueError("the records are needed together")
        check_ids(graph_object, records)
        steps = steps if steps is not None and len(steps) == len(records) else None
        nodes = _link_in_any_order(records, steps, reader)
        heads = tuple([_entry(e, nodes[e[0]]) for e in graph_object["heads"]])
    if "" in reader.texts or (not depth and document.is_tvm_graph(graph_object, reader.texts)):
        raise TypeError("op")  # the schema refuses an empty operator
    irregular = _irregular_lists(graph_object, records, nodes, steps)
    source = MxnetSource(style, tuple(graph_object), _usual_form(nodes), freeze(irregular))
    extra = {key: value for key, value in graph_object.items() if key not in document.GRAPH_KEYS}
    return Graph(
        tuple(nodes), heads, freeze(graph_object.get("attrs", EMPTY)), source, freeze(extra)
    )


def _check_graph(graph_object: dict[str, Any], depth: int, checked: bool) -> None:
    """Raises InputError for deep nesting, or ``_UNFIT`` for a wrong type."""
    if depth > document.MAX_NESTING:
        raise InputError(
            Fault(f"subgraphs are nested deeper than {format_count(document.MAX_NESTING, 'level')}")
        )
    if depth and not checked:
        # The typed decode accepts any values in subgraphs.
        msgspec.convert(graph_object, document.GraphRecord)
    document.check_kinds(graph_object)


def _irregular_lists(
    graph_object: dict[str, Any],
    records: Iterable[Any],
    nodes: Sequence[Node],
    steps: list[int] | None,
) -> dict[str, Any]:
    """Return ``arg_nodes`` and ``node_row_ptr`` if they do not follow from the nodes."""
    irregular: dict[str, Any] = {}
    if "node_row_ptr" in graph_object and steps is None:
        irregular["node_row_ptr"] = graph_object["node_row_ptr"]
    if graph_object["arg_nodes"] != [i for i, node in enumerate(nodes) if not node.op]:
        if not isinstance(records, list):
            raise ValueError("the records are needed together")
        check_ids(graph_object, records)
        irregular["arg_nodes"] = graph_object["arg_nodes"]
    return irregular


def _link_in_file_order(
    records: document.Records, counts: Iterable[int | None] | None, reader: _NodeReader
) -> list[Node]:
    """Return the nodes of records that refer to earlier ones only. Raises IndexError if one does
    not.

    Most of the time of reading is spent here, so the loop handles the usual record itself, and
    consumers of a node's first output share one entry.
    """
    nodes: list[Node] = []
    first: list[Entry] = []
    shapes, texts, maps = reader.shapes, reader.texts, reader.maps
    for record, count in zip(records, chain(counts or (), repeat(None)), strict=False):
        shape = shapes[tuple(record)]
        op, name = record["op"], record["name"]
        if type(name) is not str or type(op) is not str:
            raise TypeError
        inputs = tuple(
            [
                first[e[0]] if len(e) == 3 and not e[1] and not e[2] else _entry(e, nodes[e[0]])
                for e in record["inputs"]
            ]
        )
        if not inputs and type(record["inputs"]) is not list:
            raise TypeError
        if shape.only_attrs:
            attrs = EMPTY
            if shape.attr_key:
                attrs = record[shape.attr_key]
                attrs = maps[tuple(attrs.items())]
            node = Node(
                texts.setdefault(op, op), name, attrs, inputs, count, (), (), EMPTY, shape.form
            )
        else:
            deps = tuple([nodes[i] for i in record.get("control_deps", ())])
            node = reader.node(record, inputs, deps, count)
        nodes.append(node)
        first.append(Entry(node))
    return nodes


def _link_bare(
    records: Iterable[document.PlainRecord],
    counts: Iterable[int | None] | None,
    reader: _NodeReader,
) -> list[Node]:
    """The same for records with only the usual keys."""
    nodes: list[Node] = []
    first: list[Entry] = []
    texts, maps = reader.texts, reader.maps_by_text
    for record, count in zip(records, chain(counts or (), repeat(None)), strict=False):
        inputs: tuple[Entry, ...] = ()
        if record.inputs:
            inputs = tuple(
                [
                    first[e[0]] if len(e) == 3 and not e[1] and not e[2] else _entry(e, nodes[e[0]])
                    for e in record.inputs
                ]
            )
        attrs, form = maps[bytes(record.attrs)]
        op = record.op
        node = Node(
            texts.setdefault(op, op), record.name, attrs, inputs, count, (), (), EMPTY, form
        )
        nodes.append(node)
        first.append(Entry(node))
    return nodes


def _link_in_any_order(
    records: list[dict[str, Any]], counts: list[int] | None, reader: _NodeReader
) -> list[Node]:
    """Records may refer to later ones; dangling ids and cycles are faults."""
    nodes: dict[int, Node] = {}
    for i in building_order(records):
        record = records[i]
        inputs = tuple(_entry(entry, nodes[entry[0]]) for entry in record["inputs"])
        deps = tuple(nodes[dep] for dep in record.get("control_deps", ()))
        nodes[i] = reader.node(record, inputs, deps, counts[i] if counts else None)
    return [nodes[i] for i in range(len(records))]


def _entry(numbers: Sequence[int], node: Node) -> Entry:
    """Entries of two numbers (2015) have no version."""
    if not isinstance(numbers, (tuple, list)):
        raise TypeError
    return Entry(node, numbers[1], numbers[2] if len(numbers) == 3 else None)


def _output_counts(row_ptr: list[int] | None) -> list[int] | None:
    """Return each node's number of outputs, if ``node_row_ptr`` is a running sum from 0."""
    if not row_ptr or row_ptr[0] != 0:
        return None
    steps = list(map(sub, row_ptr[1:], row_ptr))
    if min(steps, default=0) < 0 or max(steps, default=0) > _MOST_OUTPUTS:
        return None
    return steps


def _usual_form(nodes: list[Node]) -> NodeForm:
    """Return the form for new nodes: of the first operator with attributes, else of node 0.

    Of several attribute maps only the one in use stays.
    """
    operators = (node for node in nodes if node.op and node.attrs)
    forms = (node.form for node in chain(operators, nodes[:1]))
    form = next((form for form in forms if form is not None), MxnetSource().form)
    maps = [key for key in form.keys if key in ATTRIBUTE_KEYS]
    if len(maps) < 2:
        return form
    used = _Shape(form.keys).attr_key
    return NodeForm(tuple([key for key in form.keys if key == used or key not in maps]))


def check_ids(graph: Mapping[str, Any], records: Records) -> None:
    """Check every id of a graph object: inputs, control dependencies, heads, ``arg_nodes``.

    Raises:
        InputError: ids that are out of range, or in ``arg_nodes`` name an operator (MXNet refuses
        that); all are listed.
    """
    count = len(records)
    faults: list[Fault] = []
    for i, record in enumerate(records):
        _check_entries(faults, record["inputs"], count, f"$.nodes[{i}].inputs", record["name"])
        deps = [(dep,) for dep in record.get("control_deps", ())]
        _check_entries(faults, deps, count, f"$.nodes[{i}].control_deps", record["name"])
    _check_entries(faults, [(i,) for i in graph["arg_nodes"]], count, "$.arg_nodes")
    for position, i in enumerate(graph["arg_nodes"]):
        if i < count and records[i]["op"] != VARIABLE_OP:
            hint = "arg_nodes lists the ids of the variables (op null) and nothing else"
            message = f"refers to node {i}, which is an operator ({records[i]['op']})"
            faults.append(
                Fault(message, path=f"$.arg_nodes[{position}]", node=records[i]["name"], hint=hint)
            )
    _check_entries(faults, graph["heads"], count, "$.heads")
    if faults:
        raise InputError(faults)


def building_order(records: Records) -> list[int]:
    """Order ids of ``records`` after the ids they refer to, otherwise as early as in MXNet's walk.

    Raises:
        InputError: nodes form a cycle; the message shows it as a path.
    """
    ids = range(len(records))
    return list(
        order_by_references(
            ids, lambda i: _references(records[i]), lambda cycle: _refuse_cycle(cycle, records)
        )
    )


def _references(record: dict[str, Any]) -> list[int]:
    return [entry[0] for entry in record["inputs"]] + list(record.get("control_deps", ()))


def _check_entries(
    faults: list[Fault],
    entries: Sequence[Sequence[int]],
    count: int,
    path: str,
    node: str | None = None,
) -> None:
    hint = "ids count from 0 in the order of $.nodes; the file was cut or edited by hand"
    for position, entry in enumerate(entries):
        if entry[0] >= count:
            message = f"refers to node {entry[0]}, but the graph has {format_count(count, 'node')}"
            faults.append(Fault(message, path=f"{path}[{position}]", node=node, hint=hint))


def _refuse_cycle(ids: list[int], records: Records) -> InputError:
    path = format_cycle([f"{records[i]['name'] or records[i]['op']} (node {i})" for i in ids])
    hint = "a graph must be acyclic; MXNet loads such a file without an error and computes nonsense"
    place = f"$.nodes[{ids[0]}].inputs"
    return InputError(
        Fault(f"needs its own output: {path}", path=place, node=records[ids[0]]["name"], hint=hint)
    )
