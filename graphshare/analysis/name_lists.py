"""Names of a graph as in MXNet: arguments, auxiliary states, outputs and internals, and lookup by
name.

All follow MXNet's depth-first order from the heads, never file order. A variable is auxiliary if it
feeds a slot that some operator mutates.

Files before 0.9, or without a version, imply variables: MXNet gives an operator with too few inputs
variables named ``<node>_<input>``. In real files these are BatchNorm's moving statistics. Their
parameter records must follow a rename of the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec

from graphshare.errors import Fault, RefusedError
from graphshare.formats.model_format import find_format
from graphshare.ir.graph import MXNET_DOMAIN, Entry, Graph, Kept, Node
from graphshare.ir.rebuild import rebuild_graph, rename_node
from graphshare.ir.walk import list_value_places
from graphshare.ops.registry import (
    auxiliary_slots,
    find_signature,
    name_inputs,
    total_outputs,
    visible_outputs,
)
from graphshare.ops.registry import output_name as output_name
from graphshare.text.format import format_count, format_names
from graphshare.text.names import did_you_mean, find_numbered, unique_names
from graphshare.text.patterns import compile_pattern, is_literal

_ALL_NAMES = "`model.graph.nodes` lists them all"
_HINTED = 20  # at most so many unknown names are compared with all others: slow in a large graph
IMPLIED_BEFORE = 900  # NNVM (0.9.0) writes auxiliary states as nodes


class Implied(msgspec.Struct, frozen=True, eq=False):
    """A variable without a node: input ``slot`` of ``node``, its ``formal`` name, and its ``name``
    in parameter files.
    """

    node: Node
    slot: int
    formal: str
    name: str
    auxiliary: bool


def implies_variables(graph: Graph) -> bool:
    """Whether MXNet would add missing inputs in this file."""
    return graph.version is None or graph.version < IMPLIED_BEFORE


def list_implied_variables(graph: Graph) -> Iterator[Implied]:
    """Yield implied variables, in file order of their operators."""
    if implies_variables(graph):
        for node in graph.nodes:
            if node.op and node.details.domain == MXNET_DOMAIN:
                yield from list_implied_inputs(node)


def list_implied_inputs(node: Node) -> Iterator[Implied]:
    """Yield the inputs that MXNet would add to an operator of such a file."""
    signature, formals = find_signature(node), name_inputs(node)
    if signature is None or formals is None or len(formals) <= len(node.inputs):
        return
    mutated = signature.auxiliary_slots(node.attrs, len(formals), subgraphs=node.subgraphs)
    for slot in range(len(node.inputs), len(formals)):
        yield Implied(
            node, slot, formals[slot], name_implied(node.name, formals[slot]), slot in mutated
        )


def name_implied(node_name: str, formal: str) -> str:
    """Return MXNet's name for a missing input."""
    return f"{node_name}_{formal}" if node_name else formal


def auxiliary_variables(nodes: Iterable[Node]) -> set[Node]:
    """Return the variables that any of ``nodes`` mutates."""
    auxiliary = set()
    for node in nodes:
        if not node.op:
            continue
        for slot in auxiliary_slots(node):
            variable = node.inputs[slot].node
            if not variable.op:
                auxiliary.add(variable)
    return auxiliary


class Listed(msgspec.Struct, frozen=True, eq=False):
    """A variable in MXNet's order; ``node`` is None if MXNet adds it on load."""

    name: str
    node: Node | None
    auxiliary: bool


class NameLists:
    """MXNet's ``list_arguments``, ``list_auxiliary_states``, ``list_outputs`` and ``list_inputs``
    after loading.

    The graph's format decides which variables are listed, and in which order.
    """

    def __init__(self, graph: Graph) -> None:
        nodes = find_format(graph).list_nodes(graph)
        auxiliary = auxiliary_variables(nodes)
        implies = implies_variables(graph)
        self._heads = graph.heads
        self.variables: list[Listed] = []
        for node in nodes:
            if node.is_variable:
                self.variables.append(Listed(node.name, node, node in auxiliary))
            elif implies:  # they are the operator's last inputs, right before it
                self.variables += [
                    Listed(implied.name, None, implied.auxiliary)
                    for implied in list_implied_inputs(node)
                ]

    @property
    def arguments(self) -> list[str]:
        return [variable.name for variable in self.variables if not variable.auxiliary]

    @property
    def auxiliary_states(self) -> list[str]:
        return [variable.name for variable in self.variables if variable.auxiliary]

    @property
    def outputs(self) -> list[str]:
        return [output_name(entry) for entry in self._heads]


def node_names(node: Node) -> tuple[str, ...]:
    """Return a node's name, and the operator's name if an ONNX file gives it a different one."""
    return tuple(dict.fromkeys(filter(None, (node.name, node.details.label))))


def list_by_name(nodes: Sequence[Node], heads: Iterable[Entry]) -> dict[str, list[Node]]:
    """Return the nodes of each name in the order of ``NAME#1``: nodes of ``heads`` first."""
    named: dict[str, list[Node]] = {}
    for node in dict.fromkeys((*(head.node for head in heads), *nodes)):
        for name in node_names(node):
            named.setdefault(name, []).append(node)
    return named


def match_nodes(pattern: str, nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes whose name ``pattern`` matches; ``NAME#1`` is the second node of this name.

    Raises:
        UsageError: the pattern is empty, or is not a regular expression.
    """
    nodes = list(nodes)
    matches = compile_pattern(pattern)
    if "#" in pattern:
        one = find_numbered(pattern.removeprefix("="), list_by_name(nodes, ()))
        if one is not None:
            return [one]
    return [node for node in nodes if matches(node.name)]


def number_variables(graph: Graph, names: Iterable[str]) -> tuple[Graph, Mapping[Node, Node]]:
    """Rename variables that ``names`` mean by number (``NAME#1``); return the graph and nodes' images."""
    numbered = [name for name in names if "#" in name]
    if not numbered:
        return graph, Kept(graph)
    named = list_by_name(list(graph.variables()), ())
    new = {}
    for name in numbered:
        variable = find_numbered(name, named)
        if variable is not None:
            new[variable] = name
    if not new:
        return graph, Kept(graph)
    return rebuild_graph(graph, lambda node: rename_node(node, new[node]) if node in new else node)


def internals(nodes: Sequence[Node]) -> Iterator[tuple[str, Entry]]:
    """Yield visible outputs with their names, as MXNet's ``get_internals()``."""
    for node in nodes:
        for entry in visible_outputs(node):
            yield output_name(entry), entry


def find_missing_outputs(nodes: Iterable[Node], heads: Iterable[Entry]) -> list[Fault]:
    """Return a fault for each used output that its node lacks."""
    entries = chain((entry for node in nodes for entry in node.inputs), heads)
    faults = []
    for node, index in dict.fromkeys((entry.node, entry.index) for entry in entries if entry.index):
        count = total_outputs(node)
        if count is not None and index >= max(count, 1):
            owner = "a variable" if node.is_variable else node.op
            message = (
                f"{owner} has {format_count(max(count, 1), 'output')}, and output {index} is used"
            )
            faults.append(Fault(message, node=node.name, hint="outputs count from 0"))
    return faults


def find_odd_variables(nodes: Iterable[Node]) -> list[Fault]:
    """Return a fault for each variable with inputs or control dependencies."""
    message = "is a variable with inputs or control dependencies"
    hint = "a variable takes its value from outside; should it be an operator? `gs.check` lists such nodes"
    faults = []
    for node in nodes:
        if node.is_variable and (node.inputs or node.control_deps):
            faults.append(Fault(message, node=node.name, hint=hint))
    return faults


def list_numbered(nodes: Sequence[Node], heads: Iterable[Entry]) -> Iterator[tuple[str, Entry]]:
    """Yield each output with its name in the order of ``NAME#1``: ``heads`` first, as a run numbers them."""
    listed = {(head.node, head.index): head for head in heads}
    for head in listed.values():
        yield output_name(head), head
    for name, entry in internals(nodes):
        if (entry.node, entry.index) not in listed:
            yield name, entry


def name_outputs(graph: Graph, entries: Sequence[Entry]) -> list[str]:
    """Return outputs' names. Repeated ones are numbered ``NAME#1``, as :func:`resolve_targets` takes them."""
    plain = list(map(output_name, entries))
    if list(entries) == list(graph.heads):
        return unique_names(plain)
    wanted = set(plain)
    names: list[str] = []
    places: list[tuple[Node, int]] = []
    for name, entry in list_numbered(graph.nodes, graph.heads):
        if name in wanted:
            names.append(name)
            places.append((entry.node, entry.index))
    numbered = dict(zip(places, unique_names(names), strict=True))
    return unique_names(
        [
            numbered.get((entry.node, entry.index), name)
            for name, entry in zip(plain, entries, strict=True)
        ]
    )


def resolve_targets(
    names: Sequence[str], nodes: Sequence[Node], *, option: str, heads: Sequence[Entry] = ()
) -> list[Entry]:
    """Return the outputs that ``names`` mean, in order.

    A name is an output's (``conv1_output``) or a node's (``conv1``, all its visible outputs).
    Outputs prevail, as in MXNet: with operators ``fc1`` and ``fc1_output``, ``fc1_output`` is the
    output of the first. A node of an ONNX model is also known by the name of its first value. A
    pattern (see :func:`graphshare.text.patterns.compile_pattern`) that is not itself a name means
    the visible outputs of all operators whose name or output it matches, in file order and each
    once. Of several outputs or nodes with one name, ``NAME#0`` is the first and ``NAME#1`` the
    second: ``heads`` in order, then the others in file order.

    Raises:
        RefusedError: names that no node or several nodes have, and patterns that match nothing.
        UsageError: a pattern is malformed.
    """
    return list(chain.from_iterable(resolve_each(names, nodes, option=option, heads=heads)))


def resolve_each(
    names: Sequence[str], nodes: Sequence[Node], *, option: str, heads: Sequence[Entry] = ()
) -> list[list[Entry]]:
    """Return the outputs of each name, with the rules and errors of :func:`resolve_targets`."""
    known = _Outputs(nodes, heads)
    targets: list[list[Entry]] = []
    faults: list[Fault] = []

    def suggest_names(hint: Callable[[str], str], name: str) -> str:
        return (hint(name) if len(faults) < _HINTED else "") or _ALL_NAMES

    for name in names:
        entries = known.find(name)
        owners = list(dict.fromkeys(entry.node for entry in entries))
        if len(owners) > 1:
            ops = ", ".join(node.operator_text for node in owners)
            order = {node: place for place, node in enumerate(nodes)}
            hint = _tell_apart(name, sorted(entries, key=lambda entry: order[entry.node]))
            faults.append(
                Fault(
                    f"{option} {name!r} means {format_count(len(owners), 'node')} ({ops})",
                    hint=hint,
                )
            )
        elif owners:
            targets.append(entries)
        elif name and not is_literal(name):
            matched = known.match(name)
            if not matched:
                hint = suggest_names(known.hint_on_pattern, name)
                faults.append(
                    Fault(f"{option} {name!r} matches no output and no operator", hint=hint)
                )
            earlier = chain.from_iterable(targets)
            chosen = set(list_value_places(earlier))
            targets.append([entry for entry in matched if (entry.node, entry.index) not in chosen])
        else:
            hint = suggest_names(known.hint, name)
            faults.append(Fault(f"{option} {name!r} names no output and no node", hint=hint))
    RefusedError.raise_any(faults)
    return targets


def find_outputs(
    names: Iterable[str], nodes: Sequence[Node], heads: Sequence[Entry]
) -> list[Entry]:
    """Like :func:`resolve_targets`, but leave out unknown and ambiguous names."""
    known = _Outputs(nodes, heads)
    outputs = []
    for name in names:
        entries = known.find(name)
        owners = {entry.node for entry in entries}
        if len(owners) == 1:
            outputs += entries
    return outputs


class _Outputs:
    def __init__(self, nodes: Sequence[Node], heads: Sequence[Entry]) -> None:
        self._nodes = list(nodes)
        self._by_output: dict[str, list[Entry]] = {}
        for name, entry in list_numbered(self._nodes, heads):
            self._by_output.setdefault(name, []).append(entry)
        self._heads: dict[str, list[Entry]] = {}  # a head listed twice has two numbers
        for head in heads:
            self._heads.setdefault(output_name(head), []).append(head)
        self._by_node = list_by_name(self._nodes, heads)

    def find(self, name: str) -> list[Entry]:
        """Return the outputs of this name, else of the nodes of this name."""
        # A leading `=` marks a literal name, unless a name itself begins with it.
        if not self._has(name):
            name = name.removeprefix("=")
        if name in self._by_output:
            return self._by_output[name]
        if name in self._by_node:
            return list(chain.from_iterable(map(visible_outputs, self._by_node[name])))
        entry = find_numbered(name, self._heads) or find_numbered(name, self._by_output)
        if entry is not None:
            return [entry]
        node = find_numbered(name, self._by_node)
        if node is not None:
            return list(visible_outputs(node))
        return []

    def _has(self, name: str) -> bool:
        return name in self._by_output or name in self._by_node

    def match(self, pattern: str) -> list[Entry]:
        matches = compile_pattern(pattern)
        matched: list[Entry] = []
        for node in self._nodes:
            if not node.op:
                continue
            is_match = any(map(matches, node_names(node)))
            for entry in visible_outputs(node):
                if is_match or matches(output_name(entry)):
                    matched.append(entry)
        return matched

    def hint(self, name: str) -> str:
        """Suggest operators or outputs that resemble ``name``, else variables."""
        known = {text: nodes[0] for text, nodes in self._by_node.items()}
        known |= {text: entries[0].node for text, entries in self._by_output.items()}
        operators = {text: node for text, node in known.items() if not node.is_variable}
        suggestion = did_you_mean(name, operators, key=known.__getitem__)
        return suggestion or did_you_mean(name, known, key=known.__getitem__)

    def hint_on_pattern(self, pattern: str) -> str:
        """Suggest a pattern for whole names, else :meth:`hint`."""
        if pattern.startswith("re:"):
            body = pattern.removeprefix("re:").removeprefix("^").removesuffix("$")
            wide = f"re:.*({body}).*"
            if self.match(wide):
                return f"an expression must match the whole name: {wide} matches wherever it occurs"
        return self.hint(pattern)


def _tell_apart(name: str, entries: Sequence[Entry]) -> str:
    """In an ONNX model a value has a unique name."""
    values = list(dict.fromkeys(map(output_name, entries)))
    have_labels = all(entry.node.details.label for entry in entries)
    if have_labels and len(values) == len(entries):
        return f"name a value instead: {format_names(values)}"
    name = name.removeprefix("=")
    return f"names repeat in this graph: {name}#0 is the first of them, {name}#1 the second"
