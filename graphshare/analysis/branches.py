"""Branches of a graph, paired by prefixes or output names, and their twin variables.

A shape or feed of a variable also holds for its twins: variables with the same place in other
branches and no value of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import zip_longest
from typing import TypeVar

import msgspec

from graphshare.analysis.name_lists import internals, output_name, resolve_targets
from graphshare.analysis.roles import assign_roles
from graphshare.errors import Fault, RefusedError
from graphshare.ir.compare import compare_structure
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.normalization.signature import BARRIER_KEYS
from graphshare.ops.registry import visible_outputs
from graphshare.text.format import format_count, format_names
from graphshare.text.names import KnownPrefixes, unique_names

_MOST_TOWERS = 100  # each is walked
_PLACE = "\0"  # stands for the part of a name by which branches differ; no name has it


class HeadPairs(msgspec.Struct, frozen=True, eq=False):
    """A branch, named ``label``, and the reference: heads that should give equal values."""

    reference: str
    label: str
    left: tuple[Entry, ...]
    right: tuple[Entry, ...]


def _sort_heads(
    graph: Graph, prefixes: Sequence[str], shared: Collection[Node]
) -> dict[str, list[tuple[str, Entry]]]:
    """Return each prefix's heads without ``shared`` ones; ``_PLACE`` replaces the prefix in their names."""
    known = KnownPrefixes(prefixes)
    begun = set(map(known.find_longest, map(output_name, graph.heads)))
    inside = [prefix for prefix in prefixes if prefix not in begun]
    inside.sort(key=len, reverse=True)
    named: dict[str, list[tuple[str, Entry]]] = {prefix: [] for prefix in ("", *prefixes)}
    for entry in graph.heads:
        if entry.node in shared:
            continue
        name = output_name(entry)
        # A prefix may begin another: `a-` begins `a-b-`.
        part = known.find_longest(name)
        form = _PLACE + name.removeprefix(part)
        if not part:
            part = next((part for part in inside if part in name), "")
            if part:
                form = name.replace(part, _PLACE)
        named[part].append((form, entry))
    return named


def pair_by_prefix(graph: Graph, prefixes: Sequence[str]) -> list[HeadPairs]:
    """Return the branches with these prefixes. The reference has none, or the first if every head
    has one.

    A prefix that begins no head is inside other names: ``_b`` in ``out_b_output``. A variable that
    all branches share (tied, or a shared input) is a head of each under one name.

    Raises:
        RefusedError: a prefix has no head, or branches have different heads.
    """
    shared = _find_shared_heads(graph, prefixes)
    named = _sort_heads(graph, prefixes, shared)
    labels = [label for label in ("", *prefixes) if label or named[label]]
    _check_branches(graph, labels, named, shared)
    common = [entries[0] for entries in shared.values()]
    inner = _InnerOutputs(graph)
    return [_pair_heads(inner, named, labels[0], label, common) for label in labels[1:]]


class _InnerOutputs:
    """All outputs of a graph by name, listed at the first look-up: most branches need none."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @cached_property
    def _by_name(self) -> Mapping[str, list[Entry]]:
        outputs: dict[str, list[Entry]] = {}
        for name, entry in internals(self._graph.nodes):
            outputs.setdefault(name, []).append(entry)
        return outputs

    def find(self, name: str) -> list[Entry]:
        return self._by_name.get(name, [])


def _check_branches(
    graph: Graph,
    labels: Sequence[str],
    named: Mapping[str, Sequence[object]],
    shared: Mapping[Node, Sequence[Entry]],
) -> None:
    hint = f"outputs are {', '.join(map(output_name, graph.heads[:8]))}"
    faults = [
        Fault(f"no output begins with the prefix {label!r}", hint=hint)
        for label in labels
        if not named[label]
    ]
    if not faults and len(labels) < 2:
        faults.append(
            Fault("there is only one branch", hint="give the prefix of another with `prefixes`")
        )
    hint = "list an output that all branches share once for each of them"
    branches = format_count(len(labels), "branch")
    for node, entries in shared.items():
        if len(entries) % len(labels):
            count = format_count(len(entries), "time")
            faults.append(
                Fault(f"output {node.name!r} is listed {count} for {branches}", hint=hint)
            )
    RefusedError.raise_any(faults)


def _find_shared_heads(graph: Graph, prefixes: Sequence[str]) -> dict[Node, list[Entry]]:
    """Return variables that are heads of all branches, each with its heads; no other head is a copy by name."""
    names = set(map(output_name, graph.heads))
    starts = tuple(prefixes)
    heads: dict[Node, list[Entry]] = {}
    for entry in graph.heads:
        if entry.node.is_variable:
            heads.setdefault(entry.node, []).append(entry)
    shared = {}
    for node, entries in heads.items():
        if len(entries) == 1 or node.name.startswith(starts):
            continue
        copies = [prefix + node.name for prefix in prefixes]
        if names.isdisjoint(copies):
            shared[node] = entries
    return shared


def _pair_heads(
    inner: _InnerOutputs,
    named: Mapping[str, list[tuple[str, Entry]]],
    reference: str,
    label: str,
    common: Sequence[Entry],
) -> HeadPairs:
    """``common`` are heads of both, ``inner`` all outputs by name.

    A copy up to an inner output (``--upto``) ends there, while the original keeps its heads: the
    inner output is the twin then, and those heads have none.
    """
    heads: dict[str, list[tuple[str, Entry]]] = {}
    for form, entry in named[reference]:
        heads.setdefault(form.replace(_PLACE, reference), []).append((form, entry))
    left, right = list(common), list(common)
    lost: list[tuple[str, str]] = []
    reaches_inside = False
    for form, entry in named[label]:
        name, own_name = form.replace(_PLACE, reference), form.replace(_PLACE, label)
        if heads.get(name):
            _, counterpart = heads[name].pop(0)
        else:
            # Names repeat: only one output may have this name, or this name and the same inputs.
            same = _keep_inputs(inner.find(name), entry, label)
            if len(same) != 1:
                lost.append((own_name, name))
                continue
            (counterpart,) = same
            reaches_inside = True
        left.append(counterpart)
        right.append(entry)
    hint = _suggest_prefix(label, lost[0][0], heads) if lost else ""
    if not reaches_inside:
        for name, entries in heads.items():
            lost += [(name, form.replace(_PLACE, label)) for form, _ in entries]
    faults = [Fault(f"output {name!r} has no counterpart {other!r}") for name, other in lost]
    if hint:
        faults[0] = msgspec.structs.replace(faults[0], hint=hint)
    RefusedError.raise_any(faults)
    return HeadPairs(reference, label, tuple(left), tuple(right))


def _suggest_prefix(label: str, output: str, heads: Mapping[str, Sequence[object]]) -> str:
    """Suggest a longer prefix, which leaves the name of one of the ``heads`` without a partner."""
    free = [head for head, entries in heads.items() if entries and output.endswith(head)]
    longer = [output.removesuffix(head) for head in free]
    fitting = [prefix for prefix in longer if prefix.startswith(label)]
    return f"did you mean the prefix {min(fitting, key=len)!r}?" if fitting else ""


def _keep_inputs(same: list[Entry], entry: Entry, label: str) -> list[Entry]:
    """Return the only output, or those that need ``entry``'s variables (perhaps without ``label``)."""
    if len(same) < 2:
        return same
    wanted = {name.removeprefix(label) for name in _list_variables(entry)}
    return [each for each in same if set(_list_variables(each)) == wanted]


def _list_variables(entry: Entry) -> dict[str, None]:
    return dict.fromkeys(node.name for node in post_order([entry.node]) if node.is_variable)


def find_prefixes(graph: Graph) -> list[str]:
    """Return the prefixes of a grouped graph's branches, from its output names.

    Raises:
        RefusedError: the names of the heads do not fit any set of prefixes.
    """
    names = list(map(output_name, graph.heads))
    # A shared variable has one name in all branches; that name shows no prefix.
    first = next((i for i, entry in enumerate(graph.heads) if entry.node.op), 0)
    base = names[first] if names else ""
    prefixes = []
    for name in names[first + 1 :]:
        prefix = name.removesuffix(base)
        if prefix not in ("", name):
            prefixes.append(prefix)
    if prefixes and sorted(_name_branch_outputs(graph, prefixes)) == sorted(names):
        return list(dict.fromkeys(prefixes))
    hint = (
        "give the parts by which their outputs differ with `prefixes`, or the map file with `map`; or cut them out with"
        " `gs.extract`, and `gs.compare` the files"
    )
    if len(graph.heads) == 1:
        hint = (
            "it has one output: make a second branch, as in `gs.duplicate(GRAPH, prefixes='b-')`; "
            "or cut out what is to be"
            " compared with `gs.extract`, and `gs.compare` the files"
        )
    raise RefusedError(
        Fault("the names of the outputs do not show which branches there are", hint=hint)
    )


def _name_branch_outputs(graph: Graph, prefixes: Sequence[str]) -> list[str]:
    """Each branch repeats the first one's names with its prefix."""
    count = len(prefixes) + 1
    shared = _find_shared_heads(graph, prefixes)
    names = []
    for entry in graph.heads[: len(graph.heads) // count]:
        name = output_name(entry)
        if entry.node in shared:
            names += [name] * count
        else:
            names += [prefix + name for prefix in ("", *prefixes)]
    return names


def find_branches(graph: Graph) -> list[HeadPairs]:
    """Return branches whose output names differ by a suffix or another part, or towers of one
    block.

    Names are only a guess, so branches must have one structure.
    """
    names = list(map(output_name, graph.heads))
    # The outputs come branch by branch, or alternate between two branches.
    firsts = [names[::count] for count in range(1, len(names) // 2 + 1) if len(names) % count == 0]
    if len(names) > 2:
        firsts.append(names[:2])
    guesses = []
    for first in firsts:
        for parts in (_find_words(first), _find_endings(first)):
            if not parts:
                continue
            with suppress(RefusedError):  # these parts may not pair all outputs, and others may
                guesses.append(pair_by_prefix(graph, parts))
    guesses.append(_pair_towers(graph))
    return next((pairs for pairs in guesses if all(map(_have_one_structure, pairs))), [])


def _have_one_structure(pair: HeadPairs) -> bool:
    pairing = compare_structure(pair.left, pair.right, exempt=BARRIER_KEYS)
    return bool(pairing) and any(a is not b for a, b in pairing.pairs)


def _find_words(names: Sequence[str]) -> list[str]:
    """Return each name's word at the only position where they differ, if there is one."""
    words = [re.split(r"[\W_]+", name) for name in names]
    columns = {column for column in zip_longest(*words, fillvalue="") if len(set(column)) > 1}
    if len(columns) != 1:
        return []
    (column,) = columns
    is_distinct = len(set(column)) == len(names)
    return list(column) if is_distinct and all(column) else []


def _find_endings(names: Sequence[str]) -> list[str]:
    """Return the text of each name beyond the first one's, if it is at one position."""
    base, *others = names
    parts = []
    for name in others:
        ends = zip(reversed(base), reversed(name), strict=False)
        end = next((i for i, (a, b) in enumerate(ends) if a != b), len(base))
        begin = len(base) - end
        if len(name) > len(base) and name.startswith(base[:begin]):
            parts.append(name[begin : len(name) - end])
    return parts if len(set(parts)) == len(others) else []


def _group_ends(graph: Graph) -> list[list[Entry]]:
    """Return outputs of repeated operators that heads or unique operators read, by name."""
    operators = [node for node in graph.nodes if node.op]
    counts = Counter(node.name for node in operators)
    repeated = []
    read = list(graph.heads)
    for node in operators:
        if counts[node.name] > 1:
            repeated.append(node)
        else:
            read += node.inputs
    ends = {(entry.node, entry.index): entry for entry in read}
    groups: dict[tuple[str, int], list[Entry]] = {}
    for node in repeated:
        for entry in visible_outputs(node):
            if (node, entry.index) in ends:
                groups.setdefault((node.name, entry.index), []).append(ends[node, entry.index])
    return list(groups.values())


def _pair_towers(graph: Graph) -> list[HeadPairs]:
    """Pair the towers of a block used several times: in Gluon's exports every operator name
    repeats.

    Inputs that only one tower reads distinguish them, else their order in the file.
    """
    groups = _group_ends(graph)
    sizes = set(map(len, groups))
    if len(sizes) != 1:
        return []
    (count,) = sizes
    if not 1 < count <= _MOST_TOWERS:
        return []
    towers: dict[str, list[Entry]] = {}
    for group in groups:
        for label, entry in zip(_label_towers(group), group, strict=True):
            towers.setdefault(label, []).append(entry)
    if len(towers) != count or len(set(map(len, towers.values()))) > 1:
        return []
    (first, left), *others = towers.items()
    return [HeadPairs(first, label, tuple(left), tuple(entries)) for label, entries in others]


def _label_towers(ends: Sequence[Entry]) -> list[str]:
    """Label towers by the inputs that not all read, or by number if these are not distinct."""
    reads = list(map(_list_variables, ends))
    common = set(reads[0]).intersection(*reads)
    labels = [", ".join(name for name in names if name not in common) for names in reads]
    if len(set(labels)) < len(labels):
        return unique_names(list(map(output_name, ends)))
    return labels


NodePair = tuple[Node, Node]
F = TypeVar("F")
S = TypeVar("S")


class Counterparts:
    """The variables of all branches at the place of each variable of the reference, by branch."""

    def __init__(self, branches: Iterable[tuple[HeadPairs, Iterable[NodePair]]]) -> None:
        self._members: dict[Node, dict[str, Node]] = {}
        for pair, nodes in branches:
            for a, b in nodes:
                if a.is_variable:
                    self._members.setdefault(a, {pair.reference: a})[pair.label] = b

    def names(self, node: Node) -> dict[str, str]:
        """Return the twins' names by branch, the reference first."""
        return {label: twin.name for label, twin in self._members.get(node, {"": node}).items()}

    def expand(self, names: Collection[str]) -> set[str]:
        expanded = set(names)
        for node in self._members if names else ():
            twins = set(self.names(node).values())
            if not twins.isdisjoint(names):
                expanded |= twins
        return expanded

    def describe(self, node: Node) -> list[str]:
        """Return the names of a variable's twins, each with its branch."""
        twins = self._members.get(node, {"": node})
        if len(twins) > 1 and len(set(twins.values())) == 1:
            return [f"{node.name!r} (all branches)"]
        return [f"{twin.name!r} ({label or 'original'})" for label, twin in twins.items()]

    def find_givers(self, names: Collection[str]) -> dict[str, str]:
        """Map each variable outside ``names`` to a twin in ``names``, if it has one."""
        givers = {}
        for node in self._members:
            twins = self.names(node).values()
            giver = next((name for name in twins if name in names), None)
            if giver is not None:
                givers.update({name: giver for name in twins if name not in names})
        return givers

    def spread(
        self, feeds: Mapping[str, F], shapes: Mapping[str, S], own: Collection[str] = ()
    ) -> tuple[dict[str, F], dict[str, S]]:
        """Copy feeds and shapes to twins without any; variables in ``own`` have a value elsewhere."""
        all_feeds, all_shapes = dict(feeds), dict(shapes)
        for name, giver in self.find_givers({**feeds, **shapes}).items():
            if name in own:
                continue
            if giver in feeds:
                all_feeds[name] = feeds[giver]
            if giver in shapes:
                all_shapes[name] = shapes[giver]
        return all_feeds, all_shapes


def find_twins(graph: Graph) -> Counterparts:
    """Return the twins in branches that output names show."""
    try:
        pairs = pair_by_prefix(graph, find_prefixes(graph))
    except RefusedError:
        # Most graphs have no branches, and run and export ask on every call.
        return Counterparts(())
    return Counterparts(
        (pair, compare_structure(pair.left, pair.right, exempt=BARRIER_KEYS).pairs)
        for pair in pairs
    )


def spread_inputs(
    graph: Graph,
    feeds: Mapping[str, F],
    shapes: Mapping[str, S],
    *,
    targets: Sequence[str] = (),
    option: str = "`targets`",
    held: Collection[str] | None = None,
    as_input: Collection[str] = (),
) -> tuple[dict[str, F], dict[str, S], list[str]]:
    """Return feeds and shapes that also hold for the twins of their inputs, and notes on these.

    Only inputs that ``targets`` (of ``option``) or the heads need are twins, not parameters.
    ``held`` are the names in the parameter file.

    Raises:
        RefusedError: targets are not in the graph.
    """
    stated = {**feeds, **shapes}
    twins = find_twins(graph) if stated else Counterparts(())
    if not twins.find_givers(stated):  # most graphs have one branch
        return dict(feeds), dict(shapes), []
    roles = assign_roles(graph, held=held, as_input=as_input)
    heads: Sequence[Entry] = graph.heads
    if targets:
        heads = resolve_targets(targets, graph.nodes, option=option, heads=heads)
    needed = set(post_order(entry.node for entry in heads))
    own = {node.name for node, role in roles.items() if role.is_parameter or node not in needed}
    more_feeds, more_shapes = twins.spread(feeds, shapes, own)
    notes = []
    for what, verb, own_values, more in (
        ("values", "hold", feeds, more_feeds),
        ("shape", "holds", shapes, more_shapes),
    ):
        names = [name for name in more if name not in own_values]
        if names:
            notes.append(
                f"the {what} of an input {verb} for its twins in other branches too: {format_names(names)}"
            )
    return more_feeds, more_shapes, notes
