"""Functions of models that are joined: of two with one name and different bodies the later one gets another name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from graphshare.formats.onnx.decode import name_domain
from graphshare.formats.onnx.messages import keep_field, keep_message, rewrite_message
from graphshare.formats.onnx.protobuf import Message
from graphshare.formats.onnx.statements import FunctionKey, Functions, key_of_call, list_calls, list_functions, name_function
from graphshare.formats.onnx.stored import FUNCTION, Span, find_stored, replace_stored, source_of
from graphshare.formats.onnx.wire import encode_text, scan, text_at
from graphshare.ir.graph import Graph, Node
from graphshare.ir.rebuild import rebuild_graph

_NAME = {"function": 1, "operator": 4}
_PARTS = {
    "function": {7: "operator"},
    "operator": {5: "attribute"},
    "attribute": {6: "graph", 11: "graph"},
    "graph": {1: "operator"},
}
_Names = Mapping[FunctionKey, str]


def separate_functions(graphs: Sequence[Graph]) -> Iterator[tuple[Graph, Mapping[str, str]]]:
    """Yield models whose functions can stand in one file, with the new names of functions; without a clash one keeps its name.

    A function also clashes with an operator of its name of a model that does not define it.
    """
    models: list[Functions] = [list_functions(graph) for graph in graphs]
    calls = [
        {*list_calls(graph.nodes), *(call for function in functions.values() for call in list_calls(function.nodes))}
        for graph, functions in zip(graphs, models, strict=True)
    ]
    used = {key[:2] for keys in (*calls, *models) for key in keys}
    taken = {key: b"" for keys, functions in zip(calls, models, strict=True) for key in keys if key not in functions}
    for graph, functions in zip(graphs, models, strict=True):
        contents = {key: function.span.read() for key, function in functions.items()}
        names: dict[FunctionKey, str] = {}
        pending = [key for key, content in contents.items() if taken.get(key, content) != content]
        while pending:
            for key in pending:
                names[key] = next(free for i in range(2, len(used) + 3) if (key[0], free := f"{key[1]}_{i}") not in used)
                used.add((key[0], names[key]))
            # A function of the same bytes is another one where it calls one of another name.
            pending = [
                key
                for key, function in functions.items()
                if key in taken and key not in names and not names.keys().isdisjoint(list_calls(function.nodes))
            ]
        for key in functions.keys() - names.keys():  # what calls another one is no longer a function of these bytes
            taken[key] = contents[key] if names.keys().isdisjoint(list_calls(functions[key].nodes)) else b""
        renamed = _rename(graph, functions, names) if names else graph
        yield renamed, {name_function(key): name for key, name in names.items()}


def _rename(graph: Graph, functions: Functions, names: _Names) -> Graph:
    """Return a model in which functions are defined and called under their new ``names``."""
    renamed, _ = rebuild_graph(graph, lambda node: _rename_calls(node, names))
    fields: dict[Span, Span] = {}
    for key, function in functions.items():
        if key in names or not names.keys().isdisjoint(list_calls(function.nodes)):
            fields[function.field] = keep_field(FUNCTION, _encode(function.span, "function", names, names.get(key, "")))
    source = source_of(graph)
    source = replace(source, fields=tuple([(number, fields.get(span, span)) for number, span in source.fields]), heads=())
    return replace(renamed, source=source)


def _rename_calls(node: Node, names: _Names) -> Node:
    """Return an operator that calls functions by their new names, in its bodies too."""
    bodies = tuple([_rename_in_body(body, names) for body in node.subgraphs])
    name, stored = names.get(key_of_call(node)), find_stored(node.details)
    if stored.node is None or (name is None and all(map(lambda a, b: a is b, bodies, node.subgraphs))):
        return node
    changed = replace_stored(node, node=keep_message(_encode(stored.node, "operator", names)))
    return replace(changed, op=name or node.op, subgraphs=bodies)


def _rename_in_body(graph: Graph, names: _Names) -> Graph:
    renamed, images = rebuild_graph(graph, lambda node: _rename_calls(node, names))
    return graph if all(node is image for node, image in images.items()) else renamed


def _encode(span: Span, kind: str, names: _Names, own: str = "") -> Message:
    """Return a message, with ``own`` as its name if that is given, in which functions are called by their new names."""
    if kind == "operator":
        texts = {7: "", _NAME[kind]: "", 8: ""}  # domain, operator, overload
        data = span.file.data
        texts.update({field[0]: text_at(data, field) for field in scan(data, span.start, span.end) if field[0] in texts})
        domain, op, overload = texts.values()
        own = names.get((name_domain(domain), op, overload), "")
    changes: dict[int, Callable[[Span], Message | bytes]] = {
        number: partial(_encode, kind=part, names=names) for number, part in _PARTS[kind].items()
    }
    if own:
        changes[_NAME[kind]] = lambda _: encode_text(own)
    return rewrite_message(span, changes)
