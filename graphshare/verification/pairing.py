"""Pair the values of branches or of two graphs: heads, variables, and names of inputs and outputs."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import TypeVar

import msgspec

from graphshare.analysis.branches import HeadPairs, find_branches, find_prefixes, pair_by_prefix
from graphshare.analysis.name_lists import (
    list_implied_variables,
    list_numbered,
    number_variables,
    output_name,
    resolve_targets,
)
from graphshare.analysis.normal_form import make_form
from graphshare.analysis.roles import Role, assign_roles, find_auxiliary, list_parameters
from graphshare.checkpoint.map_file import NodeFinder, read_map
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, InputError, RefusedError, locate_refusals
from graphshare.execute.prepare.prepare import describe_upgrade, unique_names, upgrade_part
from graphshare.formats.model_format import Operation, find_format, find_statement_changes
from graphshare.formats.params.lookup import RecordsByName, compare_parameters
from graphshare.ir.compare import Pairing, compare_structure
from graphshare.ir.graph import EMPTY, Entry, Graph, Node, Rewrite
from graphshare.ir.rebuild import relink_all
from graphshare.ir.terms import Facts, Place, TermTable
from graphshare.ir.walk import list_value_places, own_inputs, post_order
from graphshare.ops.normalization.signature import BARRIER_KEYS
from graphshare.rewrite.upgrade_graph import upgrade_graph
from graphshare.text.format import format_count, format_names
from graphshare.verification.comparison import TITLES

_NAMED = 6


def pair_branches(graph: Graph, prefixes: Sequence[str], map_file: str | None) -> list[HeadPairs]:
    """Find a grouped graph's branches: by ``map_file``, ``prefixes``, or output names.

    Output names differ by prefixes or other parts, or towers of one block share them.

    Raises:
        InputError: the map cannot be read or belongs to another graph.
        RefusedError: heads have no counterpart, or the branches cannot be told apart.
    """
    if map_file:
        return _pair_by_map(graph, map_file)
    if prefixes:
        return pair_by_prefix(graph, prefixes)
    try:
        detected = find_prefixes(graph)
    except RefusedError:
        # graphshare adds prefixes; others use suffixes, or one name for all.
        if pairs := find_branches(graph):
            return pairs
        raise
    return pair_by_prefix(graph, detected)


def pair_by_rewrite(rewrite: Rewrite) -> list[HeadPairs]:
    """Pair heads of a rewrite's branches with one source node; the first branch is the reference.

    Raises:
        RefusedError: there is only one branch.
        InputError: a branch has no head from a node of the first.
    """
    first, *others = rewrite.branches
    if not others:
        raise RefusedError(Fault("there is only one branch", hint="`gs.duplicate` adds one"))
    reference = {image: node for node, image in first.images.items()}
    return [
        _pair_images(
            rewrite.graph, reference, branch.images, first.label, branch.label, "the rewrite"
        )
        for branch in others
    ]


def pair_nodes(pair: HeadPairs) -> Pairing:
    """Pair a branch's nodes with its reference's; keys of barriers may differ."""
    return compare_structure(pair.left, pair.right, exempt=BARRIER_KEYS)


def _pair_by_map(graph: Graph, path: str) -> list[HeadPairs]:
    """The map's first branch is the reference."""
    images: dict[str, dict[tuple[int, int], Node]] = {}
    finder = NodeFinder(graph)
    for entry in read_map(path).entries:
        target, source = entry.target, entry.source
        if target is None or target.id is None or source.id is None:
            continue
        node = finder.find(target)
        if node is None:
            if not 0 <= target.id < len(graph.nodes):
                message = f"refers to node {target.id}, which the graph does not have"
                raise InputError(Fault(message, where=path))
            node = graph.nodes[target.id]
        images.setdefault(entry.branch, {})[entry.graph, source.id] = node
    labels = list(images)
    if len(labels) < 2:
        raise InputError(
            Fault(
                "has one branch only",
                where=path,
                hint="give the map that `save(map=...)` wrote after `gs.duplicate`",
            )
        )
    reference = {node: source for source, node in images[labels[0]].items()}
    return [
        _pair_images(graph, reference, images[label], labels[0], label, path)
        for label in labels[1:]
    ]


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
    twins = {node: back[source] for node, source in origins.items() if source in back}
    # Heads may repeat an output.
    pairs: dict[Place, tuple[Entry, Entry]] = {}
    for head in graph.heads:
        if head.node in twins:
            twin = Entry(twins[head.node], head.index, head.version)
            pairs[head.node, head.index] = twin, head
    if all(twin.node is head.node for twin, head in pairs.values()):
        message = f"pairs no head of branch {label!r} with one of {name!r}"
        raise InputError(Fault(message, where=path))
    left, right = zip(*pairs.values(), strict=True)
    return HeadPairs(name, label, left, right)


def upgrade_model(
    model: Checkpoint, wanted: Sequence[Entry], notes: dict[str, None], names: Iterable[str] = ()
) -> tuple[Checkpoint, dict[Entry, Entry]]:
    """Cut out and upgrade the part that ``wanted`` needs; map its entries.

    Implied variables get nodes; variables that ``names`` select by number get these names.
    """
    graph, images = number_variables(model.graph, names)
    part, _, implied = upgrade_part(graph, relink_all(wanted, images))
    left_out = sum(1 for _ in list_implied_variables(part))
    if left_out:  # an operator without a kernel prevented the upgrade
        implied = left_out
        part = upgrade_graph(part, keep_amp_cast=True).graph
    notes.update(dict.fromkeys(describe_upgrade(implied)))
    return msgspec.structs.replace(model, graph=part), dict(zip(wanted, part.heads, strict=True))


class ModelPairs(msgspec.Struct, frozen=True, eq=False):
    """Two models with paired outputs and inputs.

    Both graphs are upgraded; their heads are the ``outputs`` in order, with ``names`` on both
    sides. ``missing`` has outputs that only one model lists, by its title; ``alone`` are inputs
    that only one reads. ``notes`` list pairs made by position.
    """

    left: Checkpoint
    right: Checkpoint
    outputs: list[tuple[Entry, Entry]]
    names: list[tuple[str, str]]
    inputs: list[tuple[Node, Node]]
    missing: dict[str, list[str]]
    alone: frozenset[Node]
    notes: list[str]


def pair_models(
    left: Checkpoint,
    right: Checkpoint,
    as_input: Collection[str],
    names: Mapping[str, str],
    targets: Sequence[str] = (),
) -> ModelPairs:
    """Pair the outputs and inputs of two models by name, or by order if the names differ.

    Outputs of one model may be inner values of the other; ``targets`` replace the outputs.
    ``names`` maps left names to right ones.

    Raises:
        RefusedError: a model has no outputs; the numbers of outputs or inputs differ and names do
            not pair them; a model lacks a target, or has several of its name.
    """
    notes: list[str] = []
    missing: dict[str, list[str]] = {}
    if targets:
        outputs = _choose_outputs(left, right, names, targets)
    else:
        _require_outputs(left, right)
        outputs = _pair_outputs(left.graph, right.graph, names, missing, notes)
    heads = list(zip(*outputs, strict=True))
    upgrades: dict[str, None] = {}
    faults: list[Fault] = []
    sides = []
    for model, entries in zip((left, right), heads, strict=True):
        try:
            with locate_refusals(model):
                sides.append(_cut(model, entries, upgrades))
        except RefusedError as error:
            faults += error.faults
    RefusedError.raise_any(faults)
    notes += upgrades
    own = [unique_names(list(map(output_name, entries))) for entries in heads]
    outputs = list(zip(sides[0].graph.heads, sides[1].graph.heads, strict=True))
    inputs, alone = _pair_inputs(sides, as_input, names, notes)
    inputs = _order_inputs(inputs, [model.graph for model in (sides if targets else (left, right))])
    return ModelPairs(
        sides[0], sides[1], outputs, list(zip(*own, strict=True)), inputs, missing, alone, notes
    )


def _require_outputs(*models: Checkpoint) -> None:
    message = "the graph has no outputs, so there is nothing to compare"
    hint = "add outputs to the file, or name values with `targets`"
    lacking = dict.fromkeys(model.where for model in models if not model.graph.heads)
    RefusedError.raise_any(Fault(message, where=where, hint=hint) for where in lacking)


def _cut(model: Checkpoint, heads: Sequence[Entry], notes: dict[str, None]) -> Checkpoint:
    """Upgrade the model if its format has older generations."""
    if find_format(model.graph).supports(Operation.UPGRADE):
        return upgrade_model(model, heads, notes)[0]
    return msgspec.structs.replace(
        model, graph=msgspec.structs.replace(model.graph, heads=tuple(heads))
    )


def _choose_outputs(
    left: Checkpoint, right: Checkpoint, names: Mapping[str, str], targets: Sequence[str]
) -> list[tuple[Entry, Entry]]:
    """Pair left targets with right namesakes, in order if several share a name."""
    with locate_refusals(left):
        chosen = resolve_targets(
            targets, left.graph.nodes, option="`targets`", heads=left.graph.heads
        )
    wanted = [_rename(output_name(entry), entry.node.name, names) for entry in chosen]
    own, values = (
        _find_values(left.graph, list(map(output_name, chosen))),
        _find_values(right.graph, wanted),
    )
    pairs, faults = [], []
    for entry, name in zip(chosen, wanted, strict=True):
        same, others = own[output_name(entry)], values.get(name, [])
        if len(same) == len(others):
            place = list_value_places(same).index((entry.node, entry.index))
            pairs.append((entry, others[place]))
        else:
            number = len(same) if len(same) > 1 else "one"
            message = f"{format_count(len(others), 'value')} named {name!r}, and `targets` compares {number}"
            faults.append(Fault(message, where=right.where))
    RefusedError.raise_any(faults)
    return pairs


def _pair_outputs(
    left: Graph,
    right: Graph,
    names: Mapping[str, str],
    missing: dict[str, list[str]],
    notes: list[str],
) -> list[tuple[Entry, Entry]]:
    heads = [_list_heads(left, names), _list_heads(right, EMPTY)]
    rest = [_leave_out(own, other) for own, other in zip(heads, reversed(heads), strict=True)]
    by_value = _pair_passed((left, right), heads, rest, names)
    rest = [_leave_out(own, {*chain(*by_value)}) for own in rest]
    # An inner value of the other model is compared, but missing from its outputs.
    inner = [
        _find_inner(graph, wanted)
        for graph, wanted in zip((left, right), reversed(rest), strict=True)
    ]
    in_order = [] if any(inner) else _pair_in_order("output", heads, rest)
    if not in_order:
        missing.update({title: lost for title, lost in zip(TITLES, rest, strict=True) if lost})
    if by_value:
        reason = "outputs have other names, and are compared where one passes the other on"
        notes.append(f"{reason}: {_list_renamed(by_value)}")
    if in_order:
        reason = "the outputs have other names, and are compared in their order"
        notes.append(f"{reason}: {_list_renamed(in_order)}")
    values = [{**own, **more} for own, more in zip(heads, inner, strict=True)]
    pairs = [(entry, values[1][name]) for name, entry in values[0].items() if name in values[1]]
    return pairs + [(heads[0][a], heads[1][b]) for a, b in (*by_value, *in_order)]


def _leave_out(names: Iterable[str], others: Container[str]) -> list[str]:
    return [name for name in names if name not in others]


def _list_renamed(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(map(" with ".join, pairs))


def _pair_passed(
    graphs: Sequence[Graph],
    heads: Sequence[Mapping[str, Entry]],
    rest: Sequence[Sequence[str]],
    names: Mapping[str, str],
) -> list[tuple[str, str]]:
    """Pair unmatched outputs if one passes on a value that the other model lists by its own name.

    Exports and optimizers that drop such an operator leave the name of its input.
    """
    pairs: list[tuple[str, str]] = []
    paired: set[str] = set()
    for side, renames in enumerate((names, EMPTY)):
        others = rest[1 - side]
        if not others:
            continue
        for own in _leave_out(rest[side], paired):
            values = _list_passed(graphs[side], heads[side][own])
            passed = [_rename(output_name(e), e.node.name, renames) for e in values]
            twins = (name for name in passed if name in others and name not in paired)
            twin = next(twins, None)
            if twin is not None:
                pairs.append((own, twin) if side == 0 else (twin, own))
                paired.update((own, twin))
    return pairs


def _list_passed(graph: Graph, entry: Entry) -> list[Entry]:
    """List inner values that an Identity, or a loss in inference, passes on, nearest first."""
    table = TermTable()
    form = make_form(graph, None, table, Facts())
    values: list[Entry] = []
    while form is not None and entry.node.op and not entry.node.subgraphs:
        operands = own_inputs(entry.node)
        terms = [table.number("input", place) for place in range(len(operands))]
        term = next(islice(form.make_terms(entry.node, terms, ()), entry.index, None), None)
        if term not in terms:
            break
        entry = operands[terms.index(term)]
        values.append(entry)
    return [value for value in values if value.node.op]


def _list_heads(graph: Graph, names: Mapping[str, str]) -> dict[str, Entry]:
    """Index outputs by names in the other model."""
    own = unique_names([_rename(output_name(head), head.node.name, names) for head in graph.heads])
    return dict(zip(own, graph.heads, strict=True))


def _rename(name: str, node: str, names: Mapping[str, str]) -> str:
    """In MXNet an output's name is its node's name with an ending."""
    if name in names:
        return names[name]
    if node in names and name.startswith(node):
        return names[node] + name.removeprefix(node)
    return name


def _find_inner(graph: Graph, wanted: Collection[str]) -> dict[str, Entry]:
    """Find computed values by name; none if a name is missing, ambiguous, or an input's.

    An input of the other model may have the same name by coincidence.
    """
    inner: dict[str, Entry] = {}
    for name, entries in _find_values(graph, wanted).items():
        computed = [entry for entry in entries if entry.node.op]
        if len(computed) == 1:
            inner[name] = computed[0]
    return inner if len(inner) == len(wanted) else {}


def _find_values(graph: Graph, wanted: Collection[str]) -> dict[str, list[Entry]]:
    """Find all values by name, in the order of their numbers."""
    entries: dict[str, list[Entry]] = {}
    for name, entry in list_numbered(graph.nodes, graph.heads):
        if name in wanted:
            entries.setdefault(name, []).append(entry)
    return entries


Paired = TypeVar("Paired")


def _pair_in_order(
    noun: str, names: Sequence[Collection[str]], *choices: Sequence[Sequence[Paired]]
) -> list[tuple[Paired, Paired]]:
    """Take the first choice with equally many names in both models, or none in one.

    Raises RefusedError, with all names, if there is no such choice.
    """
    for left, right in choices:
        if len(left) == len(right) or not left or not right:
            return list(zip(left, right, strict=False))
    own, other = names
    left_names, right_names = (format_names(each, 4) for each in names)
    counts = f"{format_count(len(own), noun)} ({left_names}) and {len(other)} ({right_names})"
    raise RefusedError(
        Fault(f"the models have {counts}", hint="`gs.extract` cuts out what both have")
    )


class _Inputs(msgspec.Struct, frozen=True):
    """A model's inputs, by their names in the other model.

    No output needs ``unread`` ones; ``optional`` labels and states are zeros by default.
    """

    nodes: dict[str, Node]
    unread: frozenset[str]
    optional: frozenset[str]

    def list_others(self, other: _Inputs) -> list[str]:
        """List inputs that the other model lacks or names differently."""
        # An input that the other model declares but does not read is not renamed there.
        return _leave_out(self.nodes, {*other.nodes, *other.unread})

    def list_alone(self, paired: Collection[Node]) -> list[Node]:
        """List inputs without a partner that need a value."""
        required = _leave_out(self.nodes, self.optional)
        return [self.nodes[name] for name in required if self.nodes[name] not in paired]


def _pair_inputs(
    sides: Sequence[Checkpoint],
    as_input: Collection[str],
    names: Mapping[str, str],
    notes: list[str],
) -> tuple[list[tuple[Node, Node]], frozenset[Node]]:
    """Pair inputs; also return those that only one model reads, except labels and states."""
    left = _list_inputs(sides[0], as_input, names)
    right = _list_inputs(sides[1], as_input, EMPTY)
    pairs = [(node, right.nodes[name]) for name, node in left.nodes.items() if name in right.nodes]
    rest = [left.list_others(right), right.list_others(left)]
    required = [_leave_out(rest[0], left.optional), _leave_out(rest[1], right.optional)]
    in_order = _pair_in_order("input", (left.nodes, right.nodes), rest, required)
    if in_order:
        more = [(left.nodes[a], right.nodes[b]) for a, b in in_order]
        text = ", ".join(f"{a.name} with {b.name}" for a, b in more)
        notes.append(f"inputs have other names, and are paired in their order: {text}")
        pairs += more
    paired = {node for pair in pairs for node in pair}
    # With a separate value for each, outputs differ if it matters.
    alone = [left.list_alone(paired), right.list_alone(paired)]
    for title, nodes in zip(TITLES, alone, strict=True):
        if nodes:
            named = format_names([repr(node.name) for node in nodes], _NAMED)
            notes.append(f"{named}: an input of {title} alone")
    return pairs, frozenset((*alone[0], *alone[1]))


def _order_inputs(
    pairs: Sequence[tuple[Node, Node]], graphs: Sequence[Graph]
) -> list[tuple[Node, Node]]:
    """Use both models' order if equal, else names, whichever model is first."""
    orders = []
    for side, graph in enumerate(graphs):
        needed = post_order(head.node for head in graph.heads)
        places = {node.name: place for place, node in enumerate(needed)}
        orders.append(sorted(pairs, key=lambda pair: places.get(pair[side].name, 0)))
    if orders[0] == orders[1]:
        return orders[0]
    return sorted(pairs, key=lambda pair: sorted(node.name for node in pair))


def _list_inputs(model: Checkpoint, as_input: Collection[str], names: Mapping[str, str]) -> _Inputs:
    roles = assign_roles(model.graph, held=model.held, as_input=as_input)
    inputs = {node for node, role in roles.items() if not role.is_parameter}
    needed = post_order(head.node for head in model.graph.heads)
    read = [node for node in needed if node in inputs]
    unread = inputs.difference(read)
    own_names = unique_names([names.get(node.name, node.name) for node in read])
    nodes = dict(zip(own_names, read, strict=True))
    optional = frozenset(name for name, node in nodes.items() if roles[node].is_optional)
    return _Inputs(nodes, frozenset(names.get(node.name, node.name) for node in unread), optional)


class Side:
    """A model with its records and variable roles; ``as_input`` variables count as inputs."""

    def __init__(self, model: Checkpoint, as_input: Collection[str] = ()) -> None:
        self.model, self.as_input = model, as_input
        self.records = None if model.parameter_file is None else RecordsByName(model.parameter_file)
        held = None if self.records is None else frozenset(self.records.names())
        self.roles: dict[Node, Role] = assign_roles(model.graph, held=held, as_input=as_input)
        self._parameters = frozenset(list_parameters(self.roles))
        self.auxiliary = find_auxiliary(self.roles)

    def is_parameter(self, *nodes: Node) -> bool:
        """Whether any of the variables is a parameter."""
        return not self._parameters.isdisjoint(nodes)


def find_changes(pairs: ModelPairs, *, across_dtypes: bool) -> tuple[Pairing, tuple[str, ...]]:
    """Pair the nodes of two models of one format, and describe the differences.

    With ``across_dtypes`` weights of different dtypes do not differ.
    """
    left, right = pairs.left, pairs.right
    heads = HeadPairs("", "the other model", tuple(left.graph.heads), tuple(right.graph.heads))
    pairing = pair_nodes(heads)
    pairing.statements += [
        change.describe()
        for change in find_statement_changes(left.graph, right.graph, pairing.pairs, computed=True)
    ]
    one, two = Side(left), Side(right)
    twins = dict(pairs.inputs)
    variables = pairing.variables
    for a, b in variables:
        # Structure misses exchanged names of inputs, but callers feed by name.
        if twins.get(a, b) is not b or not pairs.alone.isdisjoint((a, b)):
            places = f"input {a.name!r} takes the place of input {b.name!r} of the other"
            pairing.statements.append(places)
    parameters = [(a, b) for a, b in variables if one.is_parameter(a) or two.is_parameter(b)]
    changes = [*pairing.describe()]
    for p in compare_parameters(parameters, one.auxiliary, one.records, two.records):
        # A weight of another dtype has different bytes on purpose; values decide.
        is_converted = across_dtypes and p.has_other_type
        if p.how == "different" and not is_converted:
            changes.append(f"{p.left.name!r} and {p.right.name!r}: {p.detail}")
    return pairing, tuple(changes)
