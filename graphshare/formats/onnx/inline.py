"""Replace calls of functions by their nodes, to compare a model with one without functions.

A call stays if its function is recursive or damaged, uses operators of other versions than the
model, or would yield too many nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from operator import is_

from msgspec.structs import replace

from graphshare.errors import InputError
from graphshare.formats.facets import Inlined
from graphshare.formats.onnx.compose import import_opsets, make_operator
from graphshare.formats.onnx.decode import Function, read_function
from graphshare.formats.onnx.messages import keep_message, rewrite_message
from graphshare.formats.onnx.protobuf import Message, WireError, encode_text, scan
from graphshare.formats.onnx.statements import (
    FunctionKey,
    Functions,
    StoredFunction,
    key_of_call,
    list_calls,
    list_functions,
    list_uses,
)
from graphshare.formats.onnx.stored import MemoryFile, Span, find_stored, get_source
from graphshare.formats.onnx.value_types import define_operators
from graphshare.formats.onnx.values import StoredValue
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.rebuild import StoredNames, rename_node
from graphshare.ir.terms import Place
from graphshare.ir.walk import (
    count_inputs,
    iter_nodes,
    list_operands,
    list_output_names,
    list_value_places,
    topological,
)
from graphshare.onnx_ops.definitions import STANDARD, DefinitionStep, find_definition
from graphshare.onnx_ops.operators import find_meaning
from graphshare.text.names import TakenNames

# Nodes of a model and its functions: functions that call each other twice double them
_MOST = 1 << 17
_OTHER_FLOATS = (10, 11, 16)  # ONNX's numbers of float16, float64 and bfloat16
# Usual in any definition
_USUAL = ("Cast", "CastLike", "Constant", "Identity")
_DEEPEST = 32  # depth of nested calls
_PARTS = {
    "function": {7: "operator"},
    "operator": {5: "attribute"},
    "attribute": {6: "graph", 11: "graph"},
    "graph": {1: "operator"},
}
# Fields of an AttributeProto: its name, and the function's attribute that it refers to
_NAME, _REFERENCE = 1, 21
_Links = dict[Place, Entry | None]
"""The new values of a graph by old place; None for an input that a call omits."""


class _Opaque(Exception):
    """A call has to stay unchanged."""


def inline_calls(
    graph: Graph, heads: Sequence[Entry], fused: Collection[str] = (), known: Collection[str] = ()
) -> Inlined:
    """Return the graph of ``heads`` with functions instead of calls, definitions instead of
    ``fused`` operators.

    Without replacements it is the same graph. ONNX's own definitions are used only if all their
    operators are ``known``.

    Raises:
        RefusedError: as for :func:`inference.infer_types`.
    """
    functions = list_functions(graph)
    if not fused and (not functions or functions.keys().isdisjoint(list_calls(graph.nodes))):
        return Inlined(graph)
    standard = _read_standard(graph, fused, known) if known else EMPTY
    inliner = _Inliner(graph, functions, fused, standard)
    links: _Links = {}
    nodes = inliner.add(topological(graph), links)
    if not inliner.count:
        return Inlined(graph)
    source = import_opsets(get_source(graph), inliner.opsets)
    heads = tuple([head for head in _follow(heads, links) if head is not None])
    graph = replace(graph, nodes=tuple(nodes), heads=heads, source=source)
    return Inlined(graph, inliner.count, inliner.defined)


def _read_standard(
    graph: Graph, fused: Collection[str], known: Collection[str]
) -> Mapping[str, StoredFunction]:
    """Return ONNX's definitions by the operator's first output."""
    wanted = STANDARD.intersection(fused)
    definitions = define_operators(graph, wanted) if wanted else EMPTY
    spans = {name: Span(MemoryFile(data), 0, len(data)) for name, data in definitions.items()}
    functions = {name: StoredFunction(span, span) for name, span in spans.items()}
    usual = {*known, *_USUAL}
    return {
        name: each
        for name, each in functions.items()
        if {node.op for node in each.nodes if node.op} <= usual
    }


class _Inliner:
    """Rebuilds one model's nodes; ``count`` counts replaced calls, ``defined`` replaced fused operators.

    ``opsets`` are the model's, plus those that only functions need.
    """

    def __init__(
        self,
        graph: Graph,
        functions: Functions,
        fused: Collection[str],
        standard: Mapping[str, StoredFunction],
    ) -> None:
        self.count = 0
        self._fused, self.defined = fused, 0
        self._standard = standard
        # Numbers in a definition are float32, and ONNX's operators do not mix dtypes.
        places = [
            find_stored(node.details).place for node in graph.nodes if node.details.holds_value
        ]
        self._has_numbers = all(
            place is None or place.code not in _OTHER_FLOATS for place in places
        )
        # Recursive calls would be opened without end: a level each time a constant If is folded.
        self._functions = {
            key: each
            for key, each in functions.items()
            if key not in list_uses(each.nodes, functions)[1]
        }
        self.opsets = dict(get_source(graph).opsets)
        self._read: dict[tuple[StoredFunction, frozenset[tuple[str, StoredValue]]], Function] = {}
        # Names in bodies count: a new value must neither hide a captured one nor be hidden.
        names = map(list_output_names, iter_nodes(graph))
        self._taken = TakenNames(chain.from_iterable(names))
        self._left = _MOST - len(graph.nodes)
        self._depth = 0

    def add(
        self,
        nodes: Sequence[Node],
        links: _Links,
        names: Mapping[Place, str] | None = None,
        prefix: str = "",
    ) -> list[Node]:
        """Return the nodes that replace ``nodes``; ``links`` maps their inputs, and gets their values.

        Nodes of a function are renamed: by ``names``, else by ``prefix`` and their own name.
        """
        order: list[Node] = []
        for node in nodes:
            if (node, 0) in links:  # a bound input
                continue
            outputs = list_output_names(node)
            if names is not None:
                self._count_node()
                outputs = tuple(
                    [
                        names.get((node, i)) or (text and self._taken.take(prefix + text))
                        for i, text in enumerate(outputs)
                    ]
                )
            count = self.count
            try:
                replacement = self._replace(node, outputs, links)
            except _Opaque:
                self.count = count
                replacement = None
            if replacement is not None:
                order += replacement
                continue
            image = self._relink(node, links)
            if outputs != list_output_names(node):
                first_name = next(filter(None, outputs), "")
                image = rename_node(image, first_name, StoredNames(outputs, ""))
            order.append(image)
            links.update(
                {(node, index): Entry(image, index) for index in range(max(len(outputs), 1))}
            )
        return order

    def _count_node(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _Opaque

    def _replace(self, node: Node, outputs: Sequence[str], links: _Links) -> list[Node] | None:
        """Return the nodes in place of an operator, and link their values; None if it stays."""
        if node.op in self._fused:
            definition = self._find_definition(node)
            if definition is not None:
                return self._define(node, definition, outputs, links)
        function = self._find_function(node)
        return None if function is None else self._open(node, function, outputs, links)

    def _find_function(self, node: Node) -> StoredFunction | None:
        function = self._functions.get(key_of_call(node))
        if function is not None:
            return function
        # Names in functions may coincide with names in the model around them.
        if self._depth or node.details.domain or node.op not in self._fused:
            return None
        return self._standard.get(list_output_names(node)[0])

    def _open(
        self, node: Node, stored: StoredFunction, outputs: Sequence[str], links: _Links
    ) -> list[Node]:
        """Return the called function's nodes, and link the values that they return."""
        if self._depth >= _DEEPEST or node.subgraphs:
            raise _Opaque
        body = self._read_function(stored, node).graph
        inputs = [each for each in body.variables() if not each.details.holds_value]
        operands = _follow(list_operands(node), links)
        if len(operands) > len(inputs) or len(outputs) > len(body.heads):
            raise _Opaque
        bound: _Links = {(variable, 0): entry for variable, entry in zip_longest(inputs, operands)}
        # A returned value keeps the call's name, so that values of two models stay paired.
        names: dict[Place, str] = {}
        for name, head in zip(outputs, body.heads, strict=False):
            names.setdefault((head.node, head.index), name)
        prefix = f"{next(filter(None, outputs), node.op)}/"
        self._depth += 1
        try:
            order = self.add(body.nodes, bound, names, prefix)
        finally:
            self._depth -= 1
        returned = _follow(body.heads[: len(outputs)], bound)
        if None in returned:  # an omitted input, returned unchanged
            raise _Opaque
        links.update({(node, index): entry for index, entry in enumerate(returned)})
        self.count += 1
        self.defined += stored in self._standard.values()
        return order

    def _find_definition(self, node: Node) -> list[DefinitionStep] | None:
        return find_definition(node, self.opsets.get("", 1), has_numbers=self._has_numbers)

    def _define(
        self,
        node: Node,
        definition: Sequence[DefinitionStep],
        outputs: Sequence[str],
        links: _Links,
    ) -> list[Node]:
        operands = _follow(list_operands(node), links)
        values: dict[str, Entry] = {}
        order: list[Node] = []
        for step in definition:
            place = 0 if step is definition[-1] else step.place or None
            own = "" if place is None or place >= len(outputs) else outputs[place]
            name = own or self._taken.take(f"{outputs[0]}/{step.output}")
            read = [
                values[each] if isinstance(each, str) else dict(enumerate(operands)).get(each)
                for each in step.inputs
            ]
            if None in read:
                raise _Opaque
            self._count_node()
            image = replace(
                make_operator(step.op, [name], step.values),
                inputs=tuple([e for e in read if e is not None]),
            )
            order.append(image)
            values[step.output] = Entry(image)
            if place is not None:
                links[node, place] = Entry(image)
        self.count, self.defined = self.count + 1, self.defined + 1
        return order

    def _read_function(self, stored: StoredFunction, node: Node) -> Function:
        """Return the called function with the call's attributes in place of references."""
        formal = stored.function
        if formal is None:
            raise _Opaque
        bound: dict[str, StoredValue] = {}
        for name, default in formal.attributes.items():
            value = node.details.values.get(name)
            if not isinstance(value, StoredValue):
                value = default
            if isinstance(value, StoredValue):
                bound[name] = value
        known = (stored, frozenset(bound.items()))
        if known in self._read:
            return self._read[known]
        # Nodes drop a reference to an attribute with neither value nor default.
        spans = {name: bound[name].span if name in bound else None for name in formal.attributes}
        try:
            span = keep_message(_bind(stored.span, "function", spans))
            # External data is located relative to the model.
            span.file.folder = stored.span.file.folder
            span.file.path = stored.span.file.path
            span.file.seeks_data = stored.span.file.seeks_data
            function = read_function(span)
        except (InputError, WireError) as error:
            raise _Opaque from error
        for call in list_calls(function.graph.nodes):
            if not self._has_meaning(call, function):
                raise _Opaque
        self._read[known] = function
        return function

    def _has_meaning(self, call: FunctionKey, function: Function) -> bool:
        """Whether a function's operator computes the same under the model's operator sets."""
        domain, op, _ = call
        if call in self._functions:
            return True
        version = function.opsets.get(domain)
        if version is None:
            return False
        own = self.opsets.setdefault(domain, version)
        return version == own or (not domain and find_meaning(op, version) == find_meaning(op, own))

    def _relink(self, node: Node, links: _Links) -> Node:
        """Return a node with its inputs linked and the calls in its bodies opened."""
        operands = _follow(list_operands(node), links)
        captured = _follow(node.inputs[count_inputs(node) :], links)
        if None in captured:  # a body cannot do without it
            raise _Opaque
        inputs = [entry for entry in (*operands, *captured) if entry is not None]
        absent = tuple([place for place, entry in enumerate(operands) if entry is None])
        bodies = tuple([self._open_body(body) for body in node.subgraphs])
        has_old_inputs = list_value_places(inputs) == list_value_places(node.inputs)
        has_old_bodies = all(map(is_, bodies, node.subgraphs))
        if has_old_inputs and absent == node.details.absent and has_old_bodies:
            return node
        details = replace(node.details, absent=absent)
        return replace(node, inputs=tuple(inputs), subgraphs=bodies, details=details)

    def _open_body(self, body: Graph) -> Graph:
        if self._functions.keys().isdisjoint(list_calls(body.nodes)):
            return body
        links: _Links = {(variable, 0): Entry(variable) for variable in body.captures}
        order = self.add(body.nodes, links)
        heads = tuple([head for head in _follow(body.heads, links) if head is not None])
        return replace(body, nodes=(*body.captures, *order), heads=heads)


def _follow(entries: Iterable[Entry | None], links: _Links) -> list[Entry | None]:
    return [None if entry is None else links[entry.node, entry.index] for entry in entries]


def _bind(span: Span, kind: str, values: Mapping[str, Span | None]) -> Message:
    """Return a message with ``values`` for references to attributes; references without one are dropped."""
    message, data = Message(), span.file.data
    for number, _, begin, start, end in scan(data, span.start, span.end):
        inner, part = _PARTS[kind].get(number), Span(span.file, start, end)
        if inner is None:
            message.add_encoded(Span(span.file, begin, end))
            continue
        name = reference = ""
        if inner == "attribute":
            name, reference = part.read_texts(_NAME, _REFERENCE)
        if not reference:
            message.add_message(number, _bind(part, inner, values))
            continue
        if reference not in values:
            raise _Opaque
        value = values[reference]
        if value is not None:
            named = Message()
            named.add_bytes(_NAME, encode_text(name))
            named.add_encoded(rewrite_message(value, {_NAME: None}))
            message.add_message(number, named)
    return message
