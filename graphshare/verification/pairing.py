"""Which values belong together: heads and variables of branches or of two graphs, and names of inputs and outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

import msgspec

from graphshare.analysis.branches import HeadPairs, find_prefixes, pair_by_prefix
from graphshare.analysis.name_lists import internals, list_implied_variables, output_name
from graphshare.analysis.roles import Kind, Role, assign_roles
from graphshare.checkpoint.map_file import NodeFinder, read_map
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameters import list_parameter_names
from graphshare.errors import Fault, InputError, RefusedError, locate_refusals
from graphshare.execute.prepare.prepare import describe_upgrade, unique_names, upgrade_part
from graphshare.formats.model_format import Capability, find_format, find_statement_changes
from graphshare.formats.params.lookup import RecordsByName, compare_parameters
from graphshare.ir.compare import Pairing, compare_structure
from graphshare.ir.graph import EMPTY, Entry, Graph, Node, Rewrite
from graphshare.ir.walk import post_order
from graphshare.ops.normalization.signature import BARRIER_KEYS
from graphshare.rewrite.upgrade import upgrade
from graphshare.text.format import format_count, format_names

_NAMED = 6
_TITLES = ("the original", "the other model")


def pair_branches(graph: Graph, prefixes: Sequence[str], map_file: str | None) -> list[HeadPairs]:
    """Return the branches of a grouped graph: by ``map_file``, by ``prefixes``, or by the names of the outputs.

    Raises:
        InputError: the map cannot be read or is of another graph.
        RefusedError: heads have no counterpart, or the branches cannot be told apart.
    """
    if map_file:
        return _pair_by_map(graph, map_file)
    return pair_by_prefix(graph, prefixes or find_prefixes(graph))


def pair_by_rewrite(rewrite: Rewrite) -> list[HeadPairs]:
    """Pair the heads of a rewrite's branches: those that came from one source node; the first branch is the reference.

    Raises:
        RefusedError: there is one branch only.
        InputError: a branch has no head that came from a node of the first.
    """
    first, *others = rewrite.branches
    if not others:
        raise RefusedError(Fault("there is only one branch", hint="`graphshare duplicate` adds one"))
    reference = {image: node for node, image in first.images.items()}
    return [
        _pair_images(rewrite.graph, reference, branch.images, first.label, branch.label, "the rewrite") for branch in others
    ]


def pair_nodes(pair: HeadPairs) -> Pairing:
    """Pair the nodes of a branch with those of its reference; barriers of equal meaning may have other keys."""
    return compare_structure(pair.left, pair.right, exempt=BARRIER_KEYS)


def _pair_by_map(graph: Graph, path: str) -> list[HeadPairs]:
    """Pair heads whose nodes came from one source node; the first branch of the map is the reference."""
    images: dict[str, dict[tuple[int, int], Node]] = {}
    finder = NodeFinder(graph)
    for entry in read_map(path).entries:
        if entry.target is None or entry.target.id is None or entry.source.id is None:
            continue
        node = finder.find(entry.target)
        if node is None and not 0 <= entry.target.id < len(graph.nodes):
            raise InputError(Fault(f"refers to node {entry.target.id}, which the graph does not have", where=path))
        images.setdefault(entry.branch, {})[entry.graph, entry.source.id] = node or graph.nodes[entry.target.id]
    labels = list(images)
    if len(labels) < 2:
        raise InputError(
            Fault("has one branch only", where=path, hint="give the map that `graphshare duplicate --map-out` wrote")
        )
    reference = {node: source for source, node in images[labels[0]].items()}
    return [_pair_images(graph, reference, images[label], labels[0], label, path) for label in labels[1:]]


Origin = TypeVar("Origin")


def _pair_images(
    graph: Graph,
    reference: Mapping[Node, Origin],
    images: Mapping[Origin, Node],
    name: str,
    label: str,
    path: str,
) -> HeadPairs:
    origins = {node: source for source, node in images.items()}
    back = {source: node for node, source in reference.items()}
    heads = [entry for entry in graph.heads if entry.node in origins and origins[entry.node] in back]
    twins = [Entry(back[origins[entry.node]], entry.index, entry.version) for entry in heads]
    # Heads of an output that is listed several times are one pair.
    pairs = {(entry.node, entry.index): (twin, entry) for twin, entry in zip(twins, heads, strict=True)}.values()
    if all(twin.node is entry.node for twin, entry in pairs):
        raise InputError(Fault(f"pairs no head of branch {label!r} with one of {name!r}", where=path))
    return HeadPairs(name, label, tuple(a for a, _ in pairs), tuple(b for _, b in pairs))


def upgrade_model(model: Checkpoint, wanted: Sequence[Entry], notes: dict[str, None]) -> tuple[Checkpoint, dict[Entry, Entry]]:
    """Return the part of a graph that ``wanted`` needs, and the images of these entries; implied variables are nodes."""
    part, _, implied = upgrade_part(model.graph, wanted)
    if any(list_implied_variables(part)):  # an operator without a kernel kept it as it is
        implied = sum(1 for _ in list_implied_variables(part))
        part = upgrade(part, keep_amp_cast=True).graph
    notes.update(dict.fromkeys(describe_upgrade(implied)))
    return msgspec.structs.replace(model, graph=part), dict(zip(wanted, part.heads, strict=True))


class ModelPairs(msgspec.Struct, frozen=True, eq=False):
    """Two models of which outputs and inputs belong together.

    Both graphs are upgraded, and their heads are the ``outputs`` in their order, with their ``names`` on both sides; ``inputs``
    are pairs of variables, and ``alone`` are inputs that one model alone reads. ``notes`` say what was paired by its place, or
    left out.
    """

    left: Checkpoint
    right: Checkpoint
    outputs: list[tuple[Entry, Entry]]
    names: list[tuple[str, str]]
    inputs: list[tuple[Node, Node]]
    alone: frozenset[Node]
    notes: list[str]


def pair_models(left: Checkpoint, right: Checkpoint, as_input: Collection[str], names: Mapping[str, str]) -> ModelPairs:
    """Pair the outputs and inputs of two models by name, or in their order where the names differ.

    Outputs of one model may be inner values of the other. ``names`` are those on the right for names on the left.

    Raises:
        RefusedError: the models have other numbers of outputs or inputs, and names do not tell which belong together.
    """
    notes: list[str] = []
    heads = _pair_outputs(left.graph, right.graph, names, notes)
    upgrades: dict[str, None] = {}
    faults: list[Fault] = []
    sides = []
    for model, entries in zip((left, right), zip(*heads, strict=True), strict=True):
        try:
            with locate_refusals(model):
                sides.append(_cut(model, entries, upgrades))
        except RefusedError as error:
            faults += error.faults
    if faults:
        raise RefusedError(faults)
    notes += upgrades
    outputs = list(zip(sides[0].graph.heads, sides[1].graph.heads, strict=True))
    own = [unique_names(list(map(output_name, entries))) for entries in zip(*heads, strict=True)]
    inputs, alone = _pair_inputs(sides, as_input, names, notes)
    return ModelPairs(sides[0], sides[1], outputs, list(zip(*own, strict=True)), inputs, alone, notes)


def _cut(model: Checkpoint, heads: Sequence[Entry], notes: dict[str, None]) -> Checkpoint:
    """Return a model of these heads, upgraded where its format has older generations."""
    if find_format(model.graph).supports(Capability.UPGRADE):
        return upgrade_model(model, heads, notes)[0]
    return msgspec.structs.replace(model, graph=msgspec.structs.replace(model.graph, heads=tuple(heads)))


def _pair_outputs(left: Graph, right: Graph, names: Mapping[str, str], notes: list[str]) -> list[tuple[Entry, Entry]]:
    heads = dict(zip(_list_names(left, names), left.heads, strict=True))
    others = dict(zip(_list_names(right), right.heads, strict=True))
    if not heads or not others:
        empty = left if not heads else right
        message = "the graph has no outputs, so there is nothing to compare"
        raise RefusedError(Fault(message, where=empty.source.format, hint="list the outputs in the heads of the graph"))
    if heads.keys() == others.keys():
        return [(entry, others[name]) for name, entry in heads.items()]
    inner = [_find_inner(graph, wanted) for graph, wanted in ((left, others), (right, heads))]
    if inner[0] is not None:
        _note_rest([name for name in heads if name not in others], "the one model", notes)
        return [(inner[0][name], entry) for name, entry in others.items()]
    if inner[1] is not None:
        _note_rest([name for name in others if name not in heads], "the other", notes)
        return [(entry, inner[1][name]) for name, entry in heads.items()]
    if len(heads) == len(others):
        pairs = ", ".join(f"{a} with {b}" for a, b in zip(heads, others, strict=True) if a != b)
        notes.append(f"the outputs have other names, and are compared in their order: {pairs}")
        return list(zip(heads.values(), others.values(), strict=True))
    raise _refuse_counts(list(heads), list(others), "output")


def _list_names(graph: Graph, names: Mapping[str, str] = EMPTY) -> list[str]:
    """Return the names of the outputs of a graph, each once, as the other model has them."""
    return unique_names([_rename(output_name(head), head.node.name, names) for head in graph.heads])


def _rename(name: str, node: str, names: Mapping[str, str]) -> str:
    """Return the name that an output of a node has in the other model; in MXNet it is that of the node with an ending."""
    if name in names or node not in names or not name.startswith(node):
        return names.get(name, name)
    return names[node] + name.removeprefix(node)


def _find_inner(graph: Graph, wanted: Collection[str]) -> dict[str, Entry] | None:
    """Return the values of these names in a graph; None where one is missing, the name of several, or that of an input.

    What one model computes is not the input of the other that happens to have its name.
    """
    own = {output_name(entry): entry for entry in graph.heads}
    entries: dict[str, list[Entry]] = {}
    for name, entry in internals(graph.nodes):
        if name in wanted and name not in own and entry.node.op:
            entries.setdefault(name, []).append(entry)
    inner = {name: same[0] for name, same in entries.items() if len(same) == 1}
    return {name: own.get(name) or inner[name] for name in wanted} if all(n in own or n in inner for n in wanted) else None


def _note_rest(names: Sequence[str], title: str, notes: list[str]) -> None:
    if names:
        notes.append(f"outputs of {title} that are not compared: {format_names(names, _NAMED)}")


def _refuse_counts(left: Sequence[str], right: Sequence[str], noun: str) -> RefusedError:
    counts = f"{format_count(len(left), noun)} ({format_names(left, 4)}) and {len(right)} ({format_names(right, 4)})"
    return RefusedError(Fault(f"the models have {counts}", hint="`graphshare extract` cuts out what both have"))


def _pair_inputs(
    sides: Sequence[Checkpoint], as_input: Collection[str], names: Mapping[str, str], notes: list[str]
) -> tuple[list[tuple[Node, Node]], frozenset[Node]]:
    """Return the inputs of two models that belong together, and those that one alone reads, labels and states aside."""
    left, right = (_list_inputs(side, as_input) for side in sides)
    others: dict[str, list[Node]] = {}
    for node in right:
        others.setdefault(node.name, []).append(node)
    pairs = []
    for node in left:
        twins = others.get(names.get(node.name, node.name))
        if twins:
            pairs.append((node, twins.pop(0)))
    taken = {*(a for a, _ in pairs), *(b for _, b in pairs)}
    alone = [[node for node in own if node not in taken] for own in (left, right)]
    # An input that the other model declares and does not read has not got another name there.
    unread = [{node.name for node in _list_inputs(side, as_input, unread=True)} for side in sides]
    back = {new: old for old, new in names.items()}
    rest = [
        [node for node in alone[0] if names.get(node.name, node.name) not in unread[1]],
        [node for node in alone[1] if back.get(node.name, node.name) not in unread[0]],
    ]
    if rest[0] and rest[1] and len(rest[0]) != len(rest[1]):
        rest = [[node for node in own if not roles[node]] for own, roles in zip(rest, (left, right), strict=True)]
    if rest[0] and rest[1] and len(rest[0]) != len(rest[1]):
        raise _refuse_counts([node.name for node in left], [node.name for node in right], "input")
    if rest[0] and rest[1]:
        text = ", ".join(f"{a.name} with {b.name}" for a, b in zip(*rest, strict=True))
        notes.append(f"inputs have other names, and are paired in their order: {text}")
        pairs += zip(*rest, strict=True)
        alone = [[node for node in own if node not in paired] for own, paired in zip(alone, rest, strict=True)]
    # An input that one model alone reads has a value of its own: where it matters, outputs differ.
    alone = [[node for node in nodes if not roles[node]] for nodes, roles in zip(alone, (left, right), strict=True)]
    for title, nodes in zip(_TITLES, alone, strict=True):
        if nodes:
            notes.append(f"{format_names([repr(node.name) for node in nodes], _NAMED)}: an input of {title} alone")
    return pairs, frozenset((*alone[0], *alone[1]))


def _list_inputs(model: Checkpoint, as_input: Collection[str], *, unread: bool = False) -> dict[Node, bool]:
    """Return the inputs that a model needs, each with whether it is a label or a state, which default to zeros.

    With ``unread`` they are those that no output needs.
    """
    roles = assign_roles(model.graph, held=list_parameter_names(model.parameter_file), as_input=as_input)
    needed = post_order(head.node for head in model.graph.heads)
    nodes = set(model.graph.variables()).difference(needed) if unread else needed
    inputs = (node for node in nodes if node.is_variable and node in roles and not roles[node].is_parameter)
    return {node: roles[node].is_label or roles[node].is_state for node in inputs}


class Side:
    """A model with its records and the roles of its variables; ``as_input`` are inputs, whatever they look like."""

    def __init__(self, model: Checkpoint, as_input: Collection[str] = ()) -> None:
        self.model, self.as_input = model, as_input
        self.records = None if model.parameter_file is None else RecordsByName(model.parameter_file)
        held = None if self.records is None else frozenset(self.records.names())
        self.roles: dict[Node, Role] = assign_roles(model.graph, held=held, as_input=as_input)

    def is_auxiliary(self, node: Node) -> bool:
        """Whether a variable is an auxiliary state."""
        return self.roles[node].kind is Kind.AUXILIARY

    def is_parameter(self, *nodes: Node) -> bool:
        """Whether one of some variables, such as a variable or its twin, is a parameter."""
        return any(self.roles[node].is_parameter for node in nodes)


def find_changes(pairs: ModelPairs, *, across_dtypes: bool) -> tuple[Pairing, tuple[str, ...]]:
    """Return the pairs of nodes of two models of one format, and what differs, in words.

    With ``across_dtypes`` weights of unlike dtypes are not a difference.
    """
    left, right = pairs.left, pairs.right
    heads = HeadPairs("", "the other model", tuple(left.graph.heads), tuple(right.graph.heads))
    pairing = pair_nodes(heads)
    pairing.statements += [
        change.describe() for change in find_statement_changes(left.graph, right.graph, pairing.pairs, computed=True)
    ]
    one, two = Side(left), Side(right)
    # Structure pairs inputs by their use, so exchanged names go unseen; but callers feed by name.
    twins = dict(pairs.inputs)
    exchanged = [(a, b) for a, b in pairing.variables if twins.get(a, b) is not b or not pairs.alone.isdisjoint((a, b))]
    pairing.statements += [f"input {a.name!r} takes the place of input {b.name!r} of the other" for a, b in exchanged]
    parameters = [(a, b) for a, b in pairing.variables if one.is_parameter(a) or two.is_parameter(b)]
    compared = compare_parameters(parameters, one.is_auxiliary, one.records, two.records)
    # A weight in another dtype has other bytes by intent; values decide there.
    different = [p for p in compared if p.how == "different" and not (across_dtypes and p.detail.startswith("types "))]
    return pairing, (*pairing.describe(), *(f"{p.left.name!r} and {p.right.name!r}: {p.detail}" for p in different))
