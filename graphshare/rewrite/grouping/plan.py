"""``group``: several graphs into one, outputs connected to inputs, parameters joined."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Literal, NamedTuple

import msgspec

from graphshare.analysis.roles import Kind, Role, assign_roles
from graphshare.checkpoint.parameters import list_parameter_names
from graphshare.errors import Fault, RefusedError, SelfCheckError
from graphshare.formats.model_format import find_format, list_mismatches
from graphshare.formats.model_names import find_stem
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.lookup import RecordsByName, describe_difference
from graphshare.formats.params.records import Record
from graphshare.ir.compare import check_isomorphic
from graphshare.ir.graph import Branch, Entry, Graph, Node, Rewrite
from graphshare.ir.walk import list_value_places
from graphshare.ops.normalization.signature import BARRIER_KEYS
from graphshare.rewrite.choices import check_prefixes
from graphshare.rewrite.grouping.connections import name_output, resolve_names
from graphshare.rewrite.grouping.join import (
    Collision,
    Member,
    Output,
    Place,
    find_collisions,
    join,
    resolve_connections,
)
from graphshare.text.patterns import compile_pattern

OnCollision = Literal["error", "prefix", "tie-if-equal"]
_UNUSUAL = re.compile(r"[^\w.-]")  # a character that a prefix made of a file's name does not have


class Grouping(Rewrite, frozen=True, eq=False, gc=False, kw_only=True):
    """A rewrite of several graphs to one.

    ``parts`` are the graphs with their prefixes, ``connect`` the variables that an output replaces,
    ``tied`` the variables of later parts that became one of an earlier part.
    """

    parts: tuple[Member, ...]
    roles: tuple[Mapping[Node, Role], ...]
    connect: Mapping[Place, Output]
    tied: Mapping[Place, Place]


def plan_group(
    members: Sequence[Member],
    *,
    connect: Sequence[tuple[str, str]] = (),
    share_inputs: Sequence[str] = (),
    on_collision: OnCollision = "error",
    as_input: Collection[str] = (),
    as_parameter: Collection[str] = (),
) -> Grouping:
    """Return one graph of the nodes and heads of all ``members``.

    ``connect`` has pairs of an output and the input that it feeds, named as in the result (with
    prefixes) or in their files; every other member with such an input loses it. ``share_inputs``
    are patterns of inputs and labels, by their own names, that all members use together. Any other
    shared name is a collision: an error; or the later member gets a prefix from its file's name; or
    byte-equal parameters become one node. ``as_input`` and ``as_parameter`` name variables as their
    own files do.

    Raises RefusedError as :func:`graphshare.group`.
    """
    if len({id(member.graph) for member in members}) < max(2, len(members)):
        message = "a group takes at least two graphs, each of them once"
        raise RefusedError(Fault(message, hint="load a file twice to use it twice"))
    # Otherwise one of two functions with the same name and different bodies would be lost.
    separated = list(find_format(members[0].graph).separate([member.graph for member in members]))
    parts = [
        msgspec.structs.replace(m, graph=graph)
        for m, (graph, _) in zip(members, separated, strict=True)
    ]
    faults = find_incompatibilities(parts)
    faults += _prefix_faults([part.prefix for part in parts if part.prefix])
    roles = [
        assign_roles(
            m.graph,
            held=list_parameter_names(m.params),
            as_input=as_input,
            as_parameter=as_parameter,
        )
        for m in members
    ]
    wired, problems = resolve_names(parts, roles, connect)
    faults += problems
    ties, problems = _tie_shared_inputs(parts, roles, wired, share_inputs)
    faults += problems
    problems, untyped = _compare_types(parts, wired, ties)
    faults += problems
    RefusedError.raise_any(faults)
    unequal: Mapping[str, str] = {}
    if on_collision == "tie-if-equal":
        equal, unequal = _equal_parameters(parts, roles, wired)
        ties.update(equal)
    if on_collision == "prefix":
        parts = _add_prefixes(parts, wired, ties)
    _refuse_collisions(find_collisions(parts, wired, ties), parts, on_collision, unequal)
    rewrite = join(parts, connect=wired, ties=ties)
    _check_result(rewrite, wired)
    branches = [
        follow_member(branch, member)
        for branch, member in zip(rewrite.branches, members, strict=True)
    ]
    notes = list_renamed_functions(members, separated)
    if untyped:
        unknown = find_format(rewrite.graph).types.explain_unknown_types(untyped)
        if unknown:
            notes.append(f"connected without a comparison of types: {unknown}")
    return Grouping(
        *(rewrite.graph, tuple(branches), rewrite.renames, tuple(notes)),
        parts=tuple(parts),
        roles=tuple(roles),
        connect=wired,
        tied=ties,
    )


def list_renamed_functions(
    members: Sequence[Member], separated: Sequence[tuple[Graph, Mapping[str, str]]]
) -> list[str]:
    """Return notes on functions renamed because an earlier graph has a different one of that name."""
    return [
        f"{member.label}: function {old} is called {new} in the result, where {old} is another one"
        for member, (_, names) in zip(members, separated, strict=True)
        for old, new in names.items()
    ]


def follow_member(branch: Branch, member: Member) -> Branch:
    """Return the branch of a member's own graph; the joined one may be a twin with equal nodes in
    order.
    """
    if branch.source is member.graph:
        return branch
    pairs = zip(member.graph.nodes, branch.source.nodes, strict=True)
    images = {node: branch.images[twin] for node, twin in pairs if twin in branch.images}
    return Branch(branch.label, member.graph, images)


def _prefix_faults(prefixes: Sequence[str]) -> list[Fault]:
    try:
        check_prefixes(prefixes)
    except RefusedError as error:
        return list(error.faults)
    return []


def _tie_shared_inputs(
    parts: Sequence[Member],
    roles: Sequence[Mapping[Node, Role]],
    wired: Mapping[Place, Output],
    patterns: Sequence[str],
) -> tuple[dict[Place, Place], list[Fault]]:
    ties: dict[Place, Place] = {}
    faults = []
    for pattern in patterns:
        option = f"`share_inputs` {pattern!r}"
        matches = compile_pattern(pattern)
        first: dict[str, Place] = {}
        count = len(ties)
        for number, part_roles in enumerate(roles):
            for node, role in part_roles.items():
                place = (number, node)
                if role.is_parameter or place in wired or not matches(node.name):
                    continue
                keeper = first.setdefault(node.name, place)
                if keeper[0] == number or place in ties:
                    continue
                ties[place] = keeper
                differing = _describe_difference(keeper[1], node)
                if differing:
                    labels = f"{parts[keeper[0]].label} and {parts[number].label}"
                    message = f"{option}: {node.name!r} of {labels} differ in {differing}"
                    faults.append(Fault(message))
        if len(ties) == count:
            message = f"{option} matches no input that two graphs have"
            hint = "inputs are shared by the names that their own files give them; `connect` joins different ones"
            faults.append(Fault(message, hint=hint))
    return ties, faults


def _compare_types(
    parts: Sequence[Member], wired: Mapping[Place, Output], ties: Mapping[Place, Place]
) -> tuple[list[Fault], list[str]]:
    """Return faults of inputs fed by another dtype or shape, and values of unknown type."""
    pairs = {**wired, **{place: (number, Entry(node)) for place, (number, node) in ties.items()}}
    wanted: dict[int, list[Entry]] = {}
    for (number, node), (other, entry) in pairs.items():
        wanted.setdefault(number, []).append(Entry(node))
        wanted.setdefault(other, []).append(entry)
    types = {
        number: find_format(parts[number].graph).types.find_types(
            parts[number].graph, wanted[number]
        )
        for number in wanted
    }
    faults: list[Fault] = []
    unknown: dict[str, None] = {}
    for (number, node), (other, entry) in pairs.items():
        input_type = types[number].get((node, 0))
        output_type = types[other].get((entry.node, entry.index))
        name = parts[number].name(node)
        output = name_output(parts, (other, entry))
        if output_type is None:
            unknown[output] = None
        if input_type is None:
            unknown[name] = None
        if input_type is None or output_type is None:
            continue
        if input_type.contradicts(output_type):
            option = "`connect`" if (number, node) in wired else "`share_inputs`"
            output_text = f"{output!r} of {parts[other].label} is {output_type}"
            input_text = f"input {name!r} of {parts[number].label} is {input_type}"
            hint = "a Cast or a Reshape between them makes them fit"
            faults.append(Fault(f"{option}: {output_text}, and {input_text}", hint=hint))
    return faults, list(unknown)


def _describe_difference(a: Node, b: Node) -> str:
    if any((a.inputs, b.inputs, a.control_deps, b.control_deps)):
        return "what they depend on"
    differences = []
    for key in {**a.attrs, **b.attrs}:
        value, other = a.attrs.get(key), b.attrs.get(key)
        if value != other:
            differences.append(f"{key} ({value} and {other})")
    return ", ".join(differences)


def _add_prefixes(
    parts: Sequence[Member], wired: Mapping[Place, Output], ties: Mapping[Place, Place]
) -> list[Member]:
    members = list(parts)
    while True:
        colliding = [collision.second for collision in find_collisions(members, wired, ties)]
        unprefixed = [number for number in colliding if not members[number].prefix]
        if not unprefixed:
            return members
        # A prefix can create new collisions with later parts.
        number = min(unprefixed)
        prefix = _make_prefix(members, number)
        members[number] = msgspec.structs.replace(members[number], prefix=prefix)


def _make_prefix(parts: Sequence[Member], number: int) -> str:
    """Return ``head2-`` for ``models/head2-symbol.json``, with a number if taken."""
    file_name = parts[number].label.replace("\\", "/").rpartition("/")[2]
    base = _UNUSUAL.sub("-", find_stem(file_name)).strip("-") or "graph"
    taken = {part.prefix for part in parts}
    prefix, count = f"{base}-", 1
    while prefix in taken:
        count += 1
        prefix = f"{base}-{count}-"
    return prefix


def _refuse_collisions(
    collisions: Sequence[Collision],
    parts: Sequence[Member],
    on_collision: OnCollision,
    unequal: Mapping[str, str],
) -> None:
    hints = {
        "error": "give a file a `prefixes`, share an input with `share_inputs`, or choose another `on_collision`",
        "prefix": "give the file another `prefixes`",
        "tie-if-equal": "only parameters of equal value are tied; give the file a `prefixes` for the rest",
    }
    faults = []
    for one in collisions:
        message = one.describe(parts)
        if why := unequal.get(one.name):
            message = f"{message}, {why}"
        faults.append(Fault(message, hint=hints[on_collision]))
    RefusedError.raise_any(faults)


def _check_result(rewrite: Rewrite, wired: Mapping[Place, Output]) -> None:
    branches = rewrite.branches
    for number, branch in enumerate(branches):
        missing = [node for node in branch.source.nodes if node not in branch.images]
        if any((number, node) not in wired for node in missing):
            raise SelfCheckError(
                f"a node of graph {number + 1} was lost; this is a bug in graphshare"
            )
    connected = resolve_connections(wired).items()
    replaced = {
        place: Entry(branches[number].images[out.node], out.index)
        for place, (number, out) in connected
    }
    check_isomorphic(rewrite, replaced=replaced, exempt=BARRIER_KEYS)
    used = {(number, out.node, out.index) for number, out in wired.values()}
    wanted = []
    for number, branch in enumerate(branches):
        for head in branch.source.heads:
            if (number, head.node, head.index) in used:
                continue
            entry = replaced.get((number, head.node))
            if entry is None:
                wanted.append((branch.images[head.node], head.index))
            else:
                wanted.append((entry.node, entry.index))
    heads = list_value_places(rewrite.graph.heads)
    if heads != wanted:
        raise SelfCheckError("the heads are not those of the graphs; this is a bug in graphshare")


def _equal_parameters(
    parts: Sequence[Member], roles: Sequence[Mapping[Node, Role]], taken: Collection[Place]
) -> tuple[dict[Place, Place], dict[str, str]]:
    """Return later parameters with the equal earlier one, and why others are not equal.

    Names are from the graphs' own files. Equal means the same kind, attributes, shape, dtype and
    bytes. The reasons have names in the result as keys.
    """
    inputs = {
        node
        for part in parts
        for node in find_format(part.graph).types.list_replaceable(part.graph)
    }
    outputs = {head.node for part in parts if part.prefix for head in part.graph.heads}
    first: dict[str, _Parameter] = {}
    equal: dict[Place, Place] = {}
    reasons: dict[str, str] = {}
    with ExitStack() as files:
        for number, (part, own) in enumerate(zip(parts, roles, strict=True)):
            file = None
            if part.params is not None:
                records = RecordsByName(part.params)
                file = (records, files.enter_context(ArrayReader(part.params)))
            for node, role in own.items():
                if not role.is_parameter or (number, node) in taken or not node.name:
                    continue
                parameter = _Parameter(number, node, role, node in inputs, node in outputs, file)
                keeper = first.setdefault(node.name, parameter)
                if keeper.number == number:
                    continue
                reason = _explain_difference(keeper, parameter)
                if reason:
                    reasons[part.name(node)] = reason
                else:
                    equal[number, node] = (keeper.number, keeper.node)
    return equal, reasons


class _Parameter(NamedTuple):
    number: int
    node: Node
    role: Role
    is_input: bool
    is_output: bool
    file: tuple[RecordsByName, ArrayReader] | None

    def find_array(self) -> tuple[ArrayReader, Record] | None:
        if self.file is None:
            return None
        records, reader = self.file
        record = records.of(self.node, auxiliary=self.role.kind is Kind.AUXILIARY)
        return None if record is None else (reader, record)


def _explain_difference(left: _Parameter, right: _Parameter) -> str:
    if left.role.kind is not right.role.kind:
        return "an auxiliary state in one of them"
    if left.is_input != right.is_input:
        return "an input with a default in one of them"
    if right.is_output:
        return "an output of the later one"
    if dict(left.node.attrs) != dict(right.node.attrs) or left.node.inputs or right.node.inputs:
        return "with different attributes"
    array, other = left.find_array(), right.find_array()
    if array is None or other is None:
        return "and its values are not known from parameter files"
    if array[1].shape is None and other[1].shape is None:
        return ""
    difference = describe_difference(*array, *other)
    return difference and f"with different {difference}"


def find_incompatibilities(members: Sequence[Member]) -> list[Fault]:
    """Return reasons why the graphs do not fit into one file.

    A parameter file is read under np-shape (V3 records) or not.
    """
    first = members[0]
    faults = [
        fault
        for m in members[1:]
        for fault in list_mismatches(first.label, first.graph, m.label, m.graph)
    ]
    all_files = [member.params for member in members if member.params is not None]
    files = [file for file in all_files if file.format == "params" and file.records]
    modern = [file.path for file in files if any(record.layout == "V3" for record in file.records)]
    plain = [file.path for file in files if file.path not in modern]
    if modern and plain:
        message = f"{modern[0]} holds V3 arrays (np-shape) and {plain[0]} does not"
        hint = "MXNet reads a file with np-shape or without; write one anew with `gs.convert`"
        faults.append(Fault(message, hint=hint))
    return faults
