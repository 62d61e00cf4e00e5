"""Pairs of heads that belong together: by a map of nodes, by prefix, or by the names of the outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from graphshare.analysis.name_lists import internals, output_name
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.text.format import format_count


class HeadPairs(msgspec.Struct, frozen=True, eq=False):
    """One branch and the reference: heads that should give equal values. ``label`` names the branch."""

    reference: str
    label: str
    left: tuple[Entry, ...]
    right: tuple[Entry, ...]


def pair_by_prefix(graph: Graph, prefixes: Sequence[str]) -> list[HeadPairs]:
    """Return the branches that have these prefixes. The reference has none of them, or the first where every head has one.

    A variable that all branches share (tied, or a shared input) is a head of each of them under one name.

    Raises:
        RefusedError: a prefix has no head, or branches have different heads; all are listed.
    """
    shared = _find_shared_heads(graph, prefixes)
    named: dict[str, list[tuple[str, Entry]]] = {"": [], **{prefix: [] for prefix in prefixes}}
    for entry in graph.heads:
        if entry.node in shared:
            continue
        name = output_name(entry)
        prefix = max((p for p in prefixes if name.startswith(p)), key=len, default="")
        named[prefix].append((name[len(prefix) :], entry))
    labels = [label for label in ("", *prefixes) if label or named[label]]
    faults = [
        Fault(
            f"no output begins with the prefix {label!r}",
            hint=f"outputs are {', '.join(output_name(e) for e in graph.heads[:8])}",
        )
        for label in labels
        if not named[label]
    ]
    if not faults and len(labels) < 2:
        faults.append(Fault("there is only one branch", hint="give the prefix of another with `prefixes`"))
    faults += [
        Fault(
            f"output {node.name!r} is there {format_count(count, 'time')}, and there are {format_count(len(labels), 'branch')}"
        )
        for node, count in shared.items()
        if count % len(labels)
    ]
    if faults:
        raise RefusedError(faults)
    common = [next(entry for entry in graph.heads if entry.node is node) for node in shared]
    return [_pair_heads(graph, named, labels[0], label, common) for label in labels[1:]]


def _find_shared_heads(graph: Graph, prefixes: Sequence[str]) -> dict[Node, int]:
    """Return the variables that are heads of all branches, and how often each is a head: no head is its copy by name."""
    names = {output_name(entry) for entry in graph.heads}
    counts = Counter(entry.node for entry in graph.heads if entry.node.is_variable)
    return {
        node: count
        for node, count in counts.items()
        if count > 1
        and not any(node.name.startswith(prefix) for prefix in prefixes)
        and not any(prefix + node.name in names for prefix in prefixes)
    }


def _pair_heads(
    graph: Graph, named: Mapping[str, list[tuple[str, Entry]]], reference: str, label: str, common: Sequence[Entry]
) -> HeadPairs:
    """Pair the heads of a branch with those of the reference; every head must have a twin. ``common`` are heads of both.

    A copy made up to an inner output (``--upto``) has that as a head, while the original keeps its own heads: then the twin is
    the inner output, and the original's heads have none.
    """
    heads: dict[str, list[Entry]] = {}
    for name, entry in named[reference]:
        heads.setdefault(name, []).append(entry)
    inner: dict[str, list[Entry]] = {}
    for name, entry in internals(graph.nodes):
        inner.setdefault(name, []).append(entry)
    pairs: list[tuple[Entry, Entry]] = [(entry, entry) for entry in common]
    faults = []
    reaches_inside = False
    for name, entry in named[label]:
        if heads.get(name):
            pairs.append((heads[name].pop(0), entry))
        elif len(inner.get(reference + name, ())) == 1:
            pairs.append((inner[reference + name][0], entry))
            reaches_inside = True
        else:
            faults.append(Fault(f"output {label + name!r} has no counterpart {reference + name!r}"))
    if not reaches_inside:
        rest = [name for name, entries in heads.items() for _ in entries]
        faults += [Fault(f"output {reference + name!r} has no counterpart {label + name!r}") for name in rest]
    if faults:
        raise RefusedError(faults)
    return HeadPairs(reference, label, tuple(a for a, _ in pairs), tuple(b for _, b in pairs))


def find_prefixes(graph: Graph) -> list[str]:
    """Return the prefixes of the branches of a grouped graph, from the names of its outputs.

    Raises:
        RefusedError: the names of the heads do not fit any set of prefixes.
    """
    names = [output_name(entry) for entry in graph.heads]
    first = next((i for i, entry in enumerate(graph.heads) if not entry.node.is_variable), 0)
    if names:
        base = names[first]
        prefixes = [name[: -len(base)] for name in names[first + 1 :] if name.endswith(base) and name != base]
        per_branch = len(names) // (len(prefixes) + 1)
        reference = graph.heads[:per_branch]
        shared = _find_shared_heads(graph, prefixes)
        wanted = [
            output_name(entry) if entry.node in shared else prefix + output_name(entry)
            for prefix in ("", *prefixes)
            for entry in reference
        ]
        if prefixes and sorted(wanted) == sorted(names):
            return list(dict.fromkeys(prefixes))
    hint = "name them with `prefixes`, or give the map file with `map`; `against` compares with another file"
    raise RefusedError(Fault("the branches cannot be told from the outputs' names", hint=hint))


def pair_all(left: Graph, right: Graph) -> HeadPairs:
    """Pair all heads of two graphs, in their order.

    Raises:
        RefusedError: they have different numbers of heads.
    """
    if len(left.heads) != len(right.heads):
        message = f"the graphs have {len(left.heads)} and {format_count(len(right.heads), 'output')}"
        raise RefusedError(Fault(message, hint="`values_only` compares outputs by name"))
    return HeadPairs("", "other", left.heads, right.heads)
