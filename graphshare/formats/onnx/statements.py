"""Compare operator sets, functions, types and annotations of ONNX models; list functions.

When models are joined, functions of one name and different bodies are renamed, except the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from msgspec.structs import replace

from graphshare.errors import InputError
from graphshare.formats.onnx.compose import set_opsets
from graphshare.formats.onnx.decode import OVERLOAD, Function, read_function
from graphshare.formats.onnx.messages import keep_field, keep_message, rewrite_message
from graphshare.formats.onnx.node_fields import name_domain
from graphshare.formats.onnx.protobuf import Message, WireError, encode_text, scan, text_at
from graphshare.formats.onnx.stored import (
    FUNCTION,
    NamedMessage,
    OnnxSource,
    Span,
    Stored,
    find_stored,
    get_source,
    list_read_names,
    replace_stored,
)
from graphshare.formats.onnx.tensors import is_weight
from graphshare.formats.onnx.types import read_any_type
from graphshare.formats.onnx.values import format_sparse
from graphshare.ir.compare import Change, compare_structure
from graphshare.ir.graph import Graph, Node
from graphshare.ir.onnx import DTYPE_NAMES, dtype_name
from graphshare.ir.rebuild import rebuild_graph
from graphshare.ir.walk import Body, list_operands, list_output_names
from graphshare.text.format import format_count, format_shape
from graphshare.text.names import TakenNames

Pairs = Iterable[tuple[Node, Node]]
_MISSING = object()
FunctionKey = tuple[str, str, str]
"""The domain, the name and the overload of a function."""


def find_changes(
    left: Graph, right: Graph, pairs: Pairs, *, computed: bool = False
) -> Iterator[Change]:
    """Yield the differences between the statements of two models; see :meth:`ModelFormat.find_changes`."""
    source, other = left.source, right.source
    if not isinstance(source, OnnxSource) or not isinstance(other, OnnxSource):
        return
    pairs = list(pairs)
    functions, others = list_functions(left), list_functions(right)
    domains, called = None, None
    if computed:
        domains, called = list_uses([node for pair in pairs for node in pair], functions, others)
    yield from _compare_opsets("operator set", source.opsets, other.opsets, domains)
    for key in {**functions, **others}:
        if called is None or key in called:
            yield from _compare_functions(key, functions.get(key), others.get(key), computed)
    yield from _compare_forms(pairs)
    if not computed:
        yield from _compare_types(left, right, pairs)
        yield from _compare_annotations(pairs)


def _compare_opsets(
    what: str, left: Mapping[str, int], right: Mapping[str, int], domains: set[str] | None
) -> Iterator[Change]:
    for domain in {**left, **right}:
        old, new = left.get(domain), right.get(domain)
        if old != new and (domains is None or domain in domains):
            yield Change(
                what,
                domain or "ai.onnx",
                *(None if version is None else str(version) for version in (old, new)),
            )


class StoredFunction:
    """A FunctionProto, decoded on first use; ``field`` includes its tag, ``fault`` explains a failure."""

    def __init__(self, field: Span, span: Span) -> None:
        self.field, self.span = field, span
        self.fault = ""
        self._function: Function | None = None
        self._is_read = False

    @property
    def function(self) -> Function | None:
        """None if the function is damaged."""
        if not self._is_read:
            self._is_read = True
            try:
                self._function = read_function(self.span)
            except (InputError, WireError) as error:
                self.fault = (
                    error.faults[0].message if isinstance(error, InputError) else str(error)
                )
        return self._function

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The body's nodes; empty if the function is damaged."""
        return () if self.function is None else self.function.graph.nodes

    def describe(self) -> str:
        """Return the number of its nodes in words, or its bytes if it is damaged."""
        return (
            f"{self.span.size:,} bytes"
            if self.function is None
            else format_count(_count_operators(self.function), "node")
        )


Functions = dict[FunctionKey, StoredFunction]


def list_functions(graph: Graph) -> Functions:
    """Return the functions of a model by domain, name and overload."""
    return dict(read_functions(graph))


def read_functions(graph: Graph) -> Iterator[tuple[FunctionKey, StoredFunction]]:
    """Yield the functions of a model with their keys; a damaged model may repeat a key."""
    for number, field in get_source(graph).fields:
        if number == FUNCTION:
            _, span = field.open_field()
            data = span.file.data
            texts = {1: "", 10: "", 13: ""}
            try:
                texts.update(
                    {
                        part[0]: text_at(data, part)
                        for part in scan(data, span.start, span.end)
                        if part[0] in texts
                    }
                )
            except WireError:
                texts[1] = texts[1] or "(damaged)"
            yield (name_domain(texts[10]), texts[1], texts[13]), StoredFunction(field, span)


def list_function_weights(graph: Graph, nodes: Iterable[Node] | None = None) -> dict[str, Node]:
    """Return weights by function and value name: in all functions, or in those that ``nodes`` call.

    A function sees only its inputs, so its weights stay in it, and all calls share them.
    """
    functions = list_functions(graph)
    called = functions.keys() if nodes is None or not functions else list_uses(nodes, functions)[1]
    weights: dict[str, Node] = {}
    taken = TakenNames()
    for key, stored in functions.items():
        pending = [stored.function.graph] if key in called and stored.function is not None else []
        for body in pending:
            for node in body.nodes:
                place = find_stored(node.details).place
                if node.details.holds_value and (
                    place is None or is_weight(place.shape, place.code)
                ):
                    name = f"{name_function(key)}/{node.name}"
                    weights[taken.take(name)] = node
                pending.extend(node.subgraphs)
    return weights


def list_uses(nodes: Iterable[Node], *models: Functions) -> tuple[set[str], set[FunctionKey]]:
    """Return the domains of ``nodes`` and their subgraphs, and all functions called, also indirectly."""
    domains: set[str] = set()
    called: set[FunctionKey] = set()
    for key in list_calls(nodes):
        domains.add(key[0])
        called.add(key)
    pending = list(called)
    while pending:
        key = pending.pop()
        for functions in models:
            inner = set(list_calls(functions[key].nodes)) - called if key in functions else set()
            called |= inner
            pending += inner
    return domains, called


def key_of_call(node: Node) -> FunctionKey:
    """Return the key of the function that an operator may call."""
    return node.details.domain, node.op, node.details.values.get(OVERLOAD, "")


def find_calls(graph: Graph) -> Callable[[Node], Body | None]:
    """Return a function that finds the body of a call; see
    :meth:`graphshare.formats.facets.Bodies.find_calls`.
    """
    functions = list_functions(graph)

    def find(node: Node) -> Body | None:
        stored = functions.get(key_of_call(node)) if functions else None
        if stored is None or stored.function is None:
            return None
        body, operands = stored.function.graph, list_operands(node)
        bound = {
            each: entry
            for each, entry in zip(body.variables(), operands, strict=False)
            if entry is not None
        }
        return Body(body, bound)

    return find


def list_calls(nodes: Iterable[Node]) -> Iterator[FunctionKey]:
    """Yield domain, operator and overload of nodes and of the nodes in their subgraphs."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node.op:
            yield key_of_call(node)
        pending += [inner for graph in node.subgraphs for inner in graph.nodes]


def name_function(key: FunctionKey) -> str:
    """Return the name of a function in messages."""
    return ".".join(filter(None, key))


def _compare_functions(
    key: FunctionKey, left: StoredFunction | None, right: StoredFunction | None, computed: bool
) -> Iterator[Change]:
    name = name_function(key)
    if left is None or right is None:
        texts = [None if function is None else function.describe() for function in (left, right)]
        yield Change("function", name, *texts)
        return
    x, y = left.function, right.function
    if x is None or y is None:
        # A function that cannot be decoded is compared by its bytes.
        if left.span.read() != right.span.read():
            yield Change("function", name, left.describe(), f"{right.describe()} (different ones)")
        return
    domains = (
        {key[0] for function in (x, y) for key in list_calls(function.graph.nodes)}
        if computed
        else None
    )
    yield from _compare_opsets(f"function {name}, operator set", x.opsets, y.opsets, domains)
    for attribute in {**x.attributes, **y.attributes}:
        if x.attributes.get(attribute, _MISSING) != y.attributes.get(attribute, _MISSING):
            texts = [_describe_default(each.attributes, attribute) for each in (x, y)]
            yield Change(f"function {name}, attribute", attribute, *texts)
    what = _find_other_body(x, y, computed)
    if what:
        yield Change("function", name, left.describe(), f"{right.describe()} ({what})")


def _describe_default(attributes: Mapping[str, object], name: str) -> str | None:
    return str(attributes[name] or "no default") if name in attributes else None


def _find_other_body(x: Function, y: Function, computed: bool) -> str:
    counts = [
        sum(node.details.holds_value is False for node in function.graph.nodes)
        for function in (x, y)
    ]
    if counts[0] != counts[1]:
        return f"{counts[0]} and {format_count(counts[1], 'input')}"
    if len(x.graph.heads) != len(y.graph.heads):
        return f"{len(x.graph.heads)} and {format_count(len(y.graph.heads), 'output')}"
    pairing = compare_structure(x.graph.heads, y.graph.heads)
    if not pairing:
        return pairing.differences[0].describe()
    return (
        ""
        if computed or _count_operators(x) == _count_operators(y)
        else "a different number of unused nodes"
    )


def _count_operators(function: Function) -> int:
    return sum(node.details.holds_value is not False for node in function.graph.nodes)


def _compare_forms(pairs: list[tuple[Node, Node]]) -> Iterator[Change]:
    """Compare dtypes and shapes of parameters with bytes as records: texts, sparse ones, rare dtypes."""
    for a, b in pairs:
        old, new = (_describe_form(find_stored(node.details)) for node in (a, b))
        if old and new and old != new:
            yield Change("form of parameter", a.name, old, new)


def _describe_form(stored: Stored) -> str:
    if stored.tensor is None or stored.place is None:
        return "" if stored.tensor is None else format_sparse(stored.tensor)
    place = stored.place
    return (
        "" if place.code in DTYPE_NAMES else f"{dtype_name(place.code)} {format_shape(place.shape)}"
    )


def _compare_types(left: Graph, right: Graph, pairs: list[tuple[Node, Node]]) -> Iterator[Change]:
    """Compare types of inputs and outputs, paired like their nodes."""
    captures = {*left.captures, *right.captures}
    outputs, results = (
        {(head.node, head.index): None for head in graph.heads} for graph in (left, right)
    )
    for a, b in pairs:
        if not a.op and not b.op and a not in captures and b not in captures:
            yield from _compare_type(
                "input", a.name, find_stored(a.details).input, find_stored(b.details).input
            )
    by_node: dict[Node, list[int]] = {}
    for node, index in outputs:
        by_node.setdefault(node, []).append(index)
    for a, b in pairs:
        for index in by_node.get(a, ()):
            if (b, index) in results:
                yield from _compare_type(
                    "output",
                    list_output_names(a)[index],
                    _find_result(a, index),
                    _find_result(b, index),
                )


def _compare_type(
    what: str, name: str, left: NamedMessage | None, right: NamedMessage | None
) -> Iterator[Change]:
    old, new = (None if message is None else read_any_type(message) for message in (left, right))
    if old != new:
        yield Change(
            f"type of {what}",
            name,
            *(None if stated is None else str(stated) for stated in (old, new)),
        )


def _find_result(node: Node, index: int) -> NamedMessage | None:
    stored = find_stored(node.details)
    return stored.values.results.get(index) or stored.values.infos.get(index) or stored.input


def _compare_annotations(pairs: list[tuple[Node, Node]]) -> Iterator[Change]:
    """Compare quantization annotations; values in them are paired like their nodes."""
    stored = [
        (find_stored(a.details).values.annotations, find_stored(b.details).values.annotations)
        for a, b in pairs
    ]
    if not any(left or right for left, right in stored):
        return
    partners: dict[str, set[str]] = {}
    for a, b in pairs:
        for name, twin in zip(list_read_names(a), list_read_names(b), strict=False):
            partners.setdefault(name, set()).add(twin)
    for (a, _), (left, right) in zip(pairs, stored, strict=True):
        for index in sorted({*left, *right}):
            olds, news = _read_annotation(left.get(index)), _read_annotation(right.get(index))
            for key in {**olds, **news}:
                old, new = olds.get(key), news.get(key)
                if old is None or new is None or new not in partners.get(old, {old}):
                    yield Change(f"annotation {key} of", list_output_names(a)[index], old, new)


def _read_annotation(message: NamedMessage | None) -> dict[str, str]:
    names: dict[str, str] = {}
    if message is not None:
        data = message.file.data
        for field in scan(data, message.start, message.end):
            if field[0] == 2:
                parts = {part[0]: text_at(data, part) for part in scan(data, field[3], field[4])}
                names[parts.get(1, "")] = parts.get(2, "")
    return names


_NAME = {"function": 1, "operator": 4}
_PARTS = {
    "function": {7: "operator"},
    "operator": {5: "attribute"},
    "attribute": {6: "graph", 11: "graph"},
    "graph": {1: "operator"},
}
_Names = Mapping[FunctionKey, str]


def _choose_names(
    functions: Functions,
    contents: Mapping[FunctionKey, bytes],
    taken: Mapping[FunctionKey, bytes],
    used: set[tuple[str, str]],
) -> dict[FunctionKey, str]:
    """Return new names for functions that clash with ``taken`` ones, and add them to ``used``."""
    names: dict[FunctionKey, str] = {}
    pending = [key for key, content in contents.items() if taken.get(key, content) != content]
    while pending:
        for key in pending:
            # There are more candidates than names in use, so one is free.
            names[key] = next(
                free
                for i in range(2, len(used) + 3)
                if (key[0], free := f"{key[1]}_{i}") not in used
            )
            used.add((key[0], names[key]))
        # A function with equal bytes still differs if it calls a renamed one.
        pending = [
            key
            for key, function in functions.items()
            if key in taken
            and key not in names
            and not names.keys().isdisjoint(list_calls(function.nodes))
        ]
    return names


def separate_functions(graphs: Sequence[Graph]) -> Iterator[tuple[Graph, Mapping[str, str]]]:
    """Yield models whose functions can be in one file, with the new names of clashing functions.

    A function also clashes with an operator of its name in a model that does not define it. An
    operator set imported but not used gets the version of a model that uses it.
    """
    models: list[Functions] = [list_functions(graph) for graph in graphs]
    graphs = align_unused_opsets(graphs, models)
    calls = [
        _list_all_calls(graph, functions) for graph, functions in zip(graphs, models, strict=True)
    ]
    used = {key[:2] for keys in (*calls, *models) for key in keys}
    taken = {
        key: b""
        for keys, functions in zip(calls, models, strict=True)
        for key in keys
        if key not in functions
    }
    for graph, functions in zip(graphs, models, strict=True):
        contents = {key: function.span.read() for key, function in functions.items()}
        names = _choose_names(functions, contents, taken, used)
        # A function that calls a renamed one has different bytes
        for key in functions.keys() - names.keys():
            taken[key] = (
                contents[key] if names.keys().isdisjoint(list_calls(functions[key].nodes)) else b""
            )
        renamed = _rename(graph, functions, names) if names else graph
        yield renamed, {name_function(key): name for key, name in names.items()}


def _list_all_calls(graph: Graph, functions: Functions) -> set[FunctionKey]:
    return set(list_calls(chain(graph.nodes, *(function.nodes for function in functions.values()))))


def list_used_domains(graph: Graph, functions: Functions) -> set[str]:
    """Return the domains of a model's operators and those that its functions import."""
    imported = {
        domain
        for stored in functions.values()
        if stored.function is not None
        for domain in stored.function.opsets
    }
    return list_uses(graph.nodes, functions)[0] | imported


def align_unused_opsets(graphs: Sequence[Graph], models: Sequence[Functions]) -> list[Graph]:
    """Give imported but unused operator sets the version of a model that uses them."""
    used = [
        list_used_domains(graph, functions) for graph, functions in zip(graphs, models, strict=True)
    ]
    wanted: dict[str, int] = {}
    for graph, domains in zip(graphs, used, strict=True):
        wanted.update(
            (domain, n)
            for domain, n in get_source(graph).opsets.items()
            if domain in domains and domain not in wanted
        )
    aligned = []
    for graph, domains in zip(graphs, used, strict=True):
        source = get_source(graph)
        changes = {
            d: wanted[d]
            for d, n in source.opsets.items()
            if d not in domains and wanted.get(d, n) != n
        }
        aligned.append(replace(graph, source=set_opsets(source, changes)) if changes else graph)
    return aligned


def _rename(graph: Graph, functions: Functions, names: _Names) -> Graph:
    renamed, _ = rebuild_graph(graph, lambda node: _rename_calls(node, names))
    fields: dict[Span, Span] = {}
    for key, function in functions.items():
        if key in names or not names.keys().isdisjoint(list_calls(function.nodes)):
            fields[function.field] = keep_field(
                FUNCTION, _encode(function.span, "function", names, names.get(key, ""))
            )
    source = get_source(graph)
    source = replace(
        source,
        fields=tuple([(number, fields.get(span, span)) for number, span in source.fields]),
        heads=(),
    )
    return replace(renamed, source=source)


def _rename_calls(node: Node, names: _Names) -> Node:
    bodies = tuple([_rename_in_body(body, names) for body in node.subgraphs])
    name, stored = names.get(key_of_call(node)), find_stored(node.details)
    if stored.node is None or (
        name is None and all(map(lambda a, b: a is b, bodies, node.subgraphs))
    ):
        return node
    changed = replace_stored(node, node=keep_message(_encode(stored.node, "operator", names)))
    return replace(changed, op=name or node.op, subgraphs=bodies)


def _rename_in_body(graph: Graph, names: _Names) -> Graph:
    renamed, images = rebuild_graph(graph, lambda node: _rename_calls(node, names))
    return graph if all(node is image for node, image in images.items()) else renamed


def _encode(span: Span, kind: str, names: _Names, own: str = "") -> Message:
    if kind == "operator":
        texts = {7: "", _NAME[kind]: "", 8: ""}  # domain, operator, overload
        data = span.file.data
        texts.update(
            {
                field[0]: text_at(data, field)
                for field in scan(data, span.start, span.end)
                if field[0] in texts
            }
        )
        domain, op, overload = texts.values()
        own = names.get((name_domain(domain), op, overload), "")
    changes: dict[int, Callable[[Span], Message | bytes]] = {
        number: partial(_encode, kind=part, names=names) for number, part in _PARTS[kind].items()
    }
    if own:
        changes[_NAME[kind]] = lambda _: encode_text(own)
    return rewrite_message(span, changes)
