"""Compare operator sets, functions, types and annotations of ONNX models; list functions.

When models are joined, functions of one name and different bodies are renamed, except the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from operator import is_

from msgspec.structs import replace

from graphshare.errors import Fault, InputError
from graphshare.files.byte_source import DAMAGED
from graphshare.formats.onnx.compose import set_opsets
from graphshare.formats.onnx.decode import OVERLOAD, Function, read_function
from graphshare.formats.onnx.messages import keep_field, keep_message, rewrite_message
from graphshare.formats.onnx.node_fields import name_domain
from graphshare.formats.onnx.protobuf import Message, WireError, encode_text, scan
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
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.onnx import DTYPE_NAMES, dtype_name
from graphshare.ir.rebuild import rebuild_graph
from graphshare.ir.walk import Body, list_operands, list_output_names, list_value_places
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
            yield Change(what, domain or "ai.onnx", _as_text(old), _as_text(new))


def _as_text(value: object) -> str | None:
    return None if value is None else str(value)


class StoredFunction:
    """A FunctionProto, decoded on first use; ``field`` includes its tag, ``fault`` explains a failure."""

    def __init__(self, field: Span, span: Span) -> None:
        self.field, self.span = field, span
        self.fault = ""

    @cached_property
    def function(self) -> Function | None:
        """None if the function is damaged."""
        try:
            return read_function(self.span)
        except InputError as error:
            self.fault = error.faults[0].message
        except WireError as error:
            self.fault = str(error)
        return None

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The body's nodes; empty if the function is damaged."""
        return () if self.function is None else self.function.graph.nodes

    def describe(self) -> str:
        """Return the number of its nodes in words, or its bytes if it is damaged."""
        if self.function is None:
            return f"{self.span.size:,} bytes"
        return format_count(_count_operators(self.function), "node")


Functions = dict[FunctionKey, StoredFunction]


def list_functions(graph: Graph) -> Functions:
    """Return the functions of a model by domain, name and overload."""
    return dict(read_functions(graph))


def read_functions(graph: Graph) -> Iterator[tuple[FunctionKey, StoredFunction]]:
    """Yield the functions of a model with their keys; a damaged model may repeat a key."""
    for number, field in get_source(graph).fields:
        if number == FUNCTION:
            _, span = field.open_field()
            try:
                domain, name, overload = span.read_texts(10, 1, 13)
            except WireError:
                domain, name, overload = "", "(damaged)", ""
            yield (name_domain(domain), name, overload), StoredFunction(field, span)


def list_function_weights(graph: Graph, nodes: Iterable[Node] | None = None) -> dict[str, Node]:
    """Return weights by function and value name: in all functions, or in those that ``nodes`` call.

    A function sees only its inputs, so its weights stay in it, and all calls share them.
    """
    functions = list_functions(graph)
    if nodes is not None and functions:
        _, called = list_uses(nodes, functions)
        functions = {key: stored for key, stored in functions.items() if key in called}
    weights: dict[str, Node] = {}
    taken = TakenNames()
    for key, stored in functions.items():
        if stored.function is None:
            continue
        bodies = [stored.function.graph]
        for body in bodies:
            for node in body.nodes:
                if _holds_weight(node):
                    name = f"{name_function(key)}/{node.name}"
                    weights[taken.take(name)] = node
                bodies.extend(node.subgraphs)
    return weights


def _holds_weight(node: Node) -> bool:
    if not node.details.holds_value:
        return False
    place = find_stored(node.details).place
    return place is None or is_weight(place.shape, place.code)


def list_uses(nodes: Iterable[Node], *models: Functions) -> tuple[set[str], set[FunctionKey]]:
    """Return the domains of ``nodes`` and their subgraphs, and all functions called, also indirectly."""
    called = set(list_calls(nodes))
    domains = {domain for domain, _, _ in called}
    pending = list(called)
    while pending:
        key = pending.pop()
        for functions in models:
            if key in functions:
                new = set(list_calls(functions[key].nodes)) - called
                called |= new
                pending += new
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
        body = stored.function.graph
        bound: dict[Node, Entry] = {}
        for variable, entry in zip(body.variables(), list_operands(node), strict=False):
            if entry is not None:
                bound[variable] = entry
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
    domains = None
    if computed:
        domains = {called[0] for called in list_calls(chain(x.graph.nodes, y.graph.nodes))}
    yield from _compare_opsets(f"function {name}, operator set", x.opsets, y.opsets, domains)
    for attribute in {**x.attributes, **y.attributes}:
        if x.attributes.get(attribute, _MISSING) != y.attributes.get(attribute, _MISSING):
            old = _describe_default(x.attributes, attribute)
            new = _describe_default(y.attributes, attribute)
            yield Change(f"function {name}, attribute", attribute, old, new)
    what = _find_other_body(x, y, computed)
    if what:
        yield Change("function", name, left.describe(), f"{right.describe()} ({what})")


def _describe_default(attributes: Mapping[str, object], name: str) -> str | None:
    return str(attributes[name] or "no default") if name in attributes else None


def _find_other_body(x: Function, y: Function, computed: bool) -> str:
    old_inputs, new_inputs = _count_inputs(x), _count_inputs(y)
    if old_inputs != new_inputs:
        return f"{old_inputs} and {format_count(new_inputs, 'input')}"
    old_heads, new_heads = x.graph.heads, y.graph.heads
    if len(old_heads) != len(new_heads):
        return f"{len(old_heads)} and {format_count(len(new_heads), 'output')}"
    pairing = compare_structure(old_heads, new_heads)
    if not pairing:
        return pairing.differences[0].describe()
    if not computed and _count_operators(x) != _count_operators(y):
        return "a different number of unused nodes"
    return ""


def _count_inputs(function: Function) -> int:
    return sum(node.details.holds_value is False for node in function.graph.nodes)


def _count_operators(function: Function) -> int:
    return len(function.graph.nodes) - _count_inputs(function)


def _compare_forms(pairs: list[tuple[Node, Node]]) -> Iterator[Change]:
    """Compare dtypes and shapes of parameters with bytes as records: texts, sparse ones, rare dtypes."""
    for a, b in pairs:
        old, new = _describe_form(find_stored(a.details)), _describe_form(find_stored(b.details))
        if old and new and old != new:
            yield Change("form of parameter", a.name, old, new)


def _describe_form(stored: Stored) -> str:
    if stored.tensor is None:
        return ""
    place = stored.place
    if place is None:
        return format_sparse(stored.tensor)
    if place.code in DTYPE_NAMES:
        return ""
    return f"{dtype_name(place.code)} {format_shape(place.shape)}"


def _compare_types(left: Graph, right: Graph, pairs: list[tuple[Node, Node]]) -> Iterator[Change]:
    """Compare types of inputs and outputs, paired like their nodes."""
    captures = {*left.captures, *right.captures}
    for a, b in pairs:
        if not (a.op or b.op) and captures.isdisjoint((a, b)):
            old, new = find_stored(a.details).input, find_stored(b.details).input
            yield from _compare_type("input", a.name, old, new)
    outputs: dict[Node, dict[int, None]] = {}
    for head in left.heads:
        outputs.setdefault(head.node, {})[head.index] = None
    others = set(list_value_places(right.heads))
    for a, b in pairs:
        for index in outputs.get(a, ()):
            if (b, index) in others:
                name = list_output_names(a)[index]
                old, new = _find_result(a, index), _find_result(b, index)
                yield from _compare_type("output", name, old, new)


def _compare_type(
    what: str, name: str, left: NamedMessage | None, right: NamedMessage | None
) -> Iterator[Change]:
    old = None if left is None else read_any_type(left)
    new = None if right is None else read_any_type(right)
    if old != new:
        yield Change(f"type of {what}", name, _as_text(old), _as_text(new))


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
    if message is None:
        return names
    for field in scan(message.file.data, message.start, message.end):
        if field[0] == 2:
            key, name = Span(message.file, field[3], field[4]).read_texts(1, 2)
            names[key] = name
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
            for key in functions
            if key in taken and key not in names and _calls_any(functions[key], names)
        ]
    return names


def _calls_any(function: StoredFunction, names: _Names) -> bool:
    return not names.keys().isdisjoint(list_calls(function.nodes))


def separate_functions(graphs: Sequence[Graph]) -> Iterator[tuple[Graph, Mapping[str, str]]]:
    """Yield models whose functions can be in one file, with the new names of clashing functions.

    A function also clashes with an operator of its name in a model that does not define it. An
    operator set imported but not used gets the version of a model that uses it.
    """
    models: list[Functions] = [list_functions(graph) for graph in graphs]
    graphs = align_unused_opsets(graphs, models)
    calls = [_list_all_calls(*pair) for pair in zip(graphs, models, strict=True)]
    used = {key[:2] for key in chain(*calls, *models)}
    taken: dict[FunctionKey, bytes] = {}
    for called, functions in zip(calls, models, strict=True):
        taken.update(dict.fromkeys(called - functions.keys(), b""))
    for graph, functions in zip(graphs, models, strict=True):
        contents = {key: function.span.read() for key, function in functions.items()}
        names = _choose_names(functions, contents, taken, used)
        # A function that calls a renamed one has different bytes
        for key in functions.keys() - names.keys():
            taken[key] = b"" if _calls_any(functions[key], names) else contents[key]
        renamed = _rename(graph, functions, names) if names else graph
        yield renamed, {name_function(key): name for key, name in names.items()}


def _list_all_calls(graph: Graph, functions: Functions) -> set[FunctionKey]:
    return set(list_calls(chain(graph.nodes, *(function.nodes for function in functions.values()))))


def list_used_domains(graph: Graph, functions: Functions) -> set[str]:
    """Return the domains of a model's operators and those that its functions import."""
    domains, _ = list_uses(graph.nodes, functions)
    for stored in functions.values():
        if stored.function is not None:
            domains.update(stored.function.opsets)
    return domains


def align_unused_opsets(graphs: Sequence[Graph], models: Sequence[Functions]) -> list[Graph]:
    """Give imported but unused operator sets the version of a model that uses them."""
    used = [list_used_domains(*pair) for pair in zip(graphs, models, strict=True)]
    wanted: dict[str, int] = {}
    for graph, domains in zip(graphs, used, strict=True):
        for domain, version in get_source(graph).opsets.items():
            if domain in domains:
                wanted.setdefault(domain, version)
    aligned = []
    for graph, domains in zip(graphs, used, strict=True):
        source = get_source(graph)
        changes: dict[str, int] = {}
        for domain, version in source.opsets.items():
            if domain not in domains and wanted.get(domain, version) != version:
                changes[domain] = wanted[domain]
        if changes:
            graph = replace(graph, source=set_opsets(source, changes))
        aligned.append(graph)
    return aligned


def _rename(graph: Graph, functions: Functions, names: _Names) -> Graph:
    renamed, _ = rebuild_graph(graph, lambda node: _rename_calls(node, names))
    fields: dict[Span, Span] = {}
    for key, function in functions.items():
        if key in names or _calls_any(function, names):
            try:
                encoded = _encode(function.span, "function", names, names.get(key, ""))
                fields[function.field] = keep_field(FUNCTION, encoded)
            except WireError as error:
                message = f"function {name_function(key)} cannot be renamed: {error}"
                where, at = function.span.file.path, f"byte {error.position}"
                raise InputError(Fault(message, where=where, path=at, hint=DAMAGED)) from None
    source = get_source(graph)
    changed = tuple([(number, fields.get(span, span)) for number, span in source.fields])
    return replace(renamed, source=replace(source, fields=changed, heads=()))


def _rename_calls(node: Node, names: _Names) -> Node:
    bodies = tuple([_rename_in_body(body, names) for body in node.subgraphs])
    name, stored = names.get(key_of_call(node)), find_stored(node.details)
    has_old_bodies = all(map(is_, bodies, node.subgraphs))
    if stored.node is None or (name is None and has_old_bodies):
        return node
    changed = replace_stored(node, node=keep_message(_encode(stored.node, "operator", names)))
    return replace(changed, op=name or node.op, subgraphs=bodies)


def _rename_in_body(graph: Graph, names: _Names) -> Graph:
    renamed, images = rebuild_graph(graph, lambda node: _rename_calls(node, names))
    return graph if all(node is image for node, image in images.items()) else renamed


def _encode(span: Span, kind: str, names: _Names, own: str = "") -> Message:
    if kind == "operator":
        domain, op, overload = span.read_texts(7, _NAME[kind], 8)
        own = names.get((name_domain(domain), op, overload), "")
    changes: dict[int, Callable[[Span], Message | bytes]] = {
        number: partial(_encode, kind=part, names=names) for number, part in _PARTS[kind].items()
    }
    if own:
        changes[_NAME[kind]] = lambda _: encode_text(own)
    return rewrite_message(span, changes)
