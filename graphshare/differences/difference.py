"""``diff``: the differences of two graphs and their parameter files, given a map, prefixes or
names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeVar

import msgspec

from graphshare.checkpoint.load import Names, StrPath, as_names
from graphshare.checkpoint.map_file import MapFile, NodeFinder, read_map
from graphshare.checkpoint.model import Checkpoint
from graphshare.differences.alignment import align, index_by_name
from graphshare.differences.changes import (
    Changed,
    GraphDiff,
    NodeRef,
    PairedBranch,
    format_values,
)
from graphshare.errors import Fault, InputError, RefusedError, UsageError, locate_refusals
from graphshare.formats.params.diff import ParameterChange, ParameterDiff
from graphshare.ir.compare import Change
from graphshare.ir.graph import VARIABLE_OP, Graph, Node
from graphshare.text.format import format_count, format_names, shorten
from graphshare.text.summary import ShortRepr, format_html

_Kind = Literal[
    "removed", "added", "renamed", "changed", "ties", "outputs", "attributes", "parameters"
]
T = TypeVar("T")
_MOST = 3  # most groups of a kind to name
_SMALLEST = 5  # a fifth of all: if fewer have a prefix in common, it is chance
_LONGEST = 400  # longer names are not searched for prefixes: the time grows with the square of their length


class Difference(ShortRepr, msgspec.Struct, frozen=True):
    """The differences of the graphs, and of the parameter files if both models have one; true if
    there is any.

    ``summary`` has a sentence on each kind of change: ``222 nodes renamed: all have the prefix
    net1_``.
    """

    graph: GraphDiff
    parameters: ParameterDiff | None = None
    summary: tuple[Summary, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.graph) or bool(self.parameters)

    def _repr_html_(self) -> str:
        tables = [self.graph.make_table()]
        if self.parameters is not None:
            tables.append(self.parameters.make_table())
        facts = [(line.what, line.text) for line in self.summary]
        return format_html(self.verdict, facts=facts, tables=tables)

    @property
    def verdict(self) -> str:
        """The result in one line."""
        graph = self.graph
        parameters: Sequence[ParameterChange] = ()
        missing: Sequence[str] = ()
        if self.parameters is not None:
            parameters, missing = self.parameters.changes, self.parameters.missing
        only_bits = all(change.how == "bits" for change in parameters)
        counts = (
            (graph.added, "node", " added"),
            (graph.removed, "node", " removed"),
            (graph.renamed, "node", " renamed"),
            (graph.changed, "node", " changed"),
            (graph.ties, "tie", " moved"),
            (graph.outputs, "output", ""),
            (graph.attributes, "graph attribute", ""),
            (parameters, "parameter", " (bits)" if only_bits else ""),
        )
        parts = [format_count(len(changes), what) + how for changes, what, how in counts if changes]
        rest = ""
        if missing:
            count = format_count(len(missing), "parameter")
            rest = f"; {count} not compared: the values are missing"
        if parts:
            return f"DIFFERENT: {', '.join(parts)}{rest}"
        if self.parameters is None or missing:
            return f"SAME: the graphs{rest}"
        return "SAME: the graphs and their parameters"


def match_nodes(
    left: Checkpoint,
    right: Checkpoint,
    *,
    prefixes: Names = (),
    map: StrPath | None = None,
    renames: bool = True,
) -> list[PairedBranch]:
    """Pair the nodes of two models, branch by branch; see :func:`diff`."""
    names = as_names(prefixes)
    if map and names:
        raise UsageError(Fault("a map excludes prefixes"))
    map_file = read_map(map) if map else None
    with locate_refusals(right):
        branches = [PairedBranch("", {})]
        if map_file is not None:
            branches = _match_map(left.graph, right.graph, map_file)
        elif names:
            branches = _match_prefixes(left.graph, right.graph, names, left.where)
        return _complete(left.graph, right.graph, branches, renames)


def _complete(
    left: Graph, right: Graph, branches: list[PairedBranch], renames: bool
) -> list[PairedBranch]:
    """Align the remaining nodes, as parts of the first branch."""
    first, *others = branches
    # Nodes that only another branch has are not free for pairing; pairs of the first branch are
    # known.
    elsewhere = {node for branch in others for pair in branch.images.items() for node in pair}
    taken = elsewhere.difference(first.images)
    images = align(left, right, known=first.images, taken=taken, renames=renames).images
    first = msgspec.structs.replace(first, images=images)
    return [branch for branch in (first, *others) if branch.images] or [first]


def _match_prefixes(
    left: Graph, right: Graph, prefixes: Sequence[str], other: str
) -> list[PairedBranch]:
    """Return a branch for each prefix, paired by name, and one for the right graph's plain names."""
    lefts, rights = index_by_name(left.nodes), index_by_name(right.nodes)
    branches = [
        PairedBranch(prefix, dict(_pair_names(lefts, rights, prefix)), prefix=prefix)
        for prefix in prefixes
    ]
    unmatched = [branch.label for branch in branches if not branch.images]
    if unmatched:
        hint = f"its nodes are {format_names(dict.fromkeys(node.name for node in right.nodes), 6)}"
        faults = [
            Fault(f"no node has the prefix {prefix!r} before a name of {other}", hint=hint)
            for prefix in unmatched
        ]
        raise RefusedError(faults)
    paired = {b for branch in branches for b in branch.images.values()}
    rest = index_by_name(node for node in right.nodes if node not in paired)
    plain = {a: b for a, b in _pair_names(lefts, rest) if a.op == b.op}
    return [PairedBranch("", plain), *branches]


def _pair_names(
    lefts: Mapping[str, Sequence[Node]], rights: Mapping[str, Sequence[Node]], prefix: str = ""
) -> Iterator[tuple[Node, Node]]:
    """Yield pairs of nodes whose names differ by ``prefix``, in file order where names repeat."""
    for name, nodes in lefts.items():
        yield from zip(nodes, rights.get(prefix + name, ()), strict=False)


def _match_map(left: Graph, right: Graph, map_file: MapFile) -> list[PairedBranch]:
    """Return the branches of a map. An id counts if the node there has the map's name; otherwise a
    unique name counts.

    Raises:
        InputError: none of the map's nodes is in the graphs.
    """
    entries = map_file.entries
    lefts, rights = NodeFinder(left), NodeFinder(right)
    images: dict[str, dict[Node, Node]] = {}
    names: dict[str, dict[Node, str]] = {}
    for entry in entries:
        a = lefts.find(entry.source)
        if a is None or entry.target is None:
            continue
        names.setdefault(entry.branch, {})[a] = entry.target.name
        b = rights.find(entry.target)
        if b is not None:
            images.setdefault(entry.branch, {})[a] = b
    if entries and not images:
        hint = "use the map of the rewrite that made the second graph from the first"
        raise InputError(Fault("pairs no node of these graphs", where=map_file.where, hint=hint))
    return [PairedBranch(label, pairs, names[label]) for label, pairs in images.items()] or [
        PairedBranch("", {})
    ]


class Summary(msgspec.Struct, frozen=True):
    """A sentence on all changes of one kind; ``count`` is their number."""

    what: _Kind
    count: int
    text: str


def summarize_changes(
    graph: GraphDiff,
    parameters: ParameterDiff | None,
    *,
    left_names: Collection[str],
    right_names: Collection[str],
) -> tuple[Summary, ...]:
    """Return a sentence on each kind of change; names of both graphs tell which prefixes are new."""
    removed = _describe_nodes(graph.removed, right_names)
    added = _describe_nodes(graph.added, left_names)
    renamed = _describe_renames([(pair.old.name, pair.new.name) for pair in graph.renamed])
    changed = _describe_changes(graph.changed)
    moved = _count_words(tie.how for tie in graph.ties)
    kinds: list[tuple[_Kind, int, str, str]] = [
        ("removed", len(graph.removed), "node", f"removed: {removed}"),
        ("added", len(graph.added), "node", f"added: {added}"),
        ("renamed", len(graph.renamed), "node", f"renamed: {renamed}"),
        ("changed", len(graph.changed), "node", f"changed: {changed}"),
        ("ties", len(graph.ties), "tie", f"moved: {moved}"),
        ("outputs", len(graph.outputs), "output", "changed"),
        ("attributes", len(graph.attributes), "graph attribute", "changed"),
    ]
    if parameters is not None:
        kinds.append(
            ("parameters", len(parameters.changes), "parameter", _describe_parameters(parameters))
        )
    return tuple(
        Summary(what, count, f"{format_count(count, noun)} {text}")
        for what, count, noun, text in kinds
        if count
    )


def _describe_renames(pairs: Sequence[tuple[str, str]]) -> str:
    groups, rest = _group(pairs, lambda pair: _list_renames(*pair))
    return _join(groups, len(pairs), f"{rest} otherwise" if groups else "each otherwise", rest)


def _list_renames(old: str, new: str) -> Iterator[str]:
    """Yield the ways in which ``new`` may follow from ``old``, the simplest first."""
    if not old or not new:
        return
    if new.endswith(old):
        yield f"the prefix {new.removesuffix(old)}"
    if new.startswith(old):
        yield f"the suffix {new.removeprefix(old)}"
    if old.endswith(new):
        yield f"lost the prefix {old.removesuffix(new)}"
    if old.startswith(new):
        yield f"lost the suffix {old.removeprefix(new)}"
    shortest = min(len(old), len(new))
    end = _count_common(old[::-1], new[::-1])
    if 0 < end < shortest:
        yield f"the prefix {new[:-end]} instead of {old[:-end]}"
    start = _count_common(old, new)
    if 0 < start < shortest:
        yield f"the suffix {new[start:]} instead of {old[start:]}"


def _count_common(a: str, b: str) -> int:
    """Return the length of the common start of two texts."""
    for place, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return place
    return min(len(a), len(b))


def _describe_nodes(nodes: Sequence[NodeRef], names: Collection[str]) -> str:
    """Describe nodes by the prefix that they put before names of the other graph, else by operator."""
    known = frozenset(names)
    groups, _ = _group(nodes, lambda node: _list_prefixes(node.name, known))
    prefixes = tuple(text.removeprefix("the prefix ") for text, _ in groups)
    others = [node for node in nodes if not node.name.startswith(prefixes)]
    operators = _count_words("variable" if node.op == VARIABLE_OP else node.op for node in others)
    return _join(groups, len(nodes), operators, len(others))


def _list_prefixes(name: str, known: Collection[str]) -> Iterator[str]:
    if len(name) <= _LONGEST:
        yield from (f"the prefix {name[:i]}" for i in range(1, len(name)) if name[i:] in known)


def _group(
    items: Iterable[T], labels: Callable[[T], Iterable[str]]
) -> tuple[list[tuple[str, int]], int]:
    """Return labels with the number of items that each covers, and the number without a label."""
    left = [dict.fromkeys(labels(item)) for item in items]
    total = len(left)
    groups: list[tuple[str, int]] = []
    while len(groups) < _MOST and left:
        counts = Counter(label for candidates in left for label in candidates).most_common(1)
        if not counts or counts[0][1] < max(2, total / _SMALLEST):
            break
        label, count = counts[0]
        groups.append((label, count))
        # An item counts for one label only, so that the numbers add up.
        left = [candidates for candidates in left if label not in candidates]
    return groups, len(left)


def _join(groups: Sequence[tuple[str, int]], count: int, rest: str, remaining: int) -> str:
    if groups:
        label, number = groups[0]
        if number == count:
            return f"all {_add_verb(label)}"
    parts = [f"{number} {_add_verb(label)}" for label, number in groups]
    if remaining:
        parts.append(rest)
    return ", ".join(parts)


def _add_verb(label: str) -> str:
    clause = label if label.startswith("lost ") else f"have {label}"
    return shorten(clause, _LONGEST)


def _describe_changes(changed: Sequence[Changed]) -> str:
    """Describe changes, with both values if all nodes have the same."""
    changes: dict[str, list[Change]] = {}
    nodes: Counter[str] = Counter()
    for node in changed:
        labels = {_label(change): change for change in node.changes}
        nodes.update(labels.keys())
        for label, change in labels.items():
            changes.setdefault(label, []).append(change)
    texts = []
    for label, count in nodes.most_common():
        text = f"{label} of {count}"
        values = {(change.old, change.new) for change in changes[label]}
        if len(values) == 1 and label != "inputs":
            text += f" ({format_values(*values.pop())})"
        texts.append(text)
    return format_names(texts, _MOST)


def _label(change: Change) -> str:
    return "inputs" if change.what == "input" else f"{change.what} {change.key}".rstrip()


def _describe_parameters(parameters: ParameterDiff) -> str:
    words = {
        "values": "values of",
        "bits": "bits of",
        "form": "shape, type or storage of",
        "renamed": "arg: or aux: of",
    }
    counts = Counter(change.how for change in parameters.changes)
    if counts.keys() in ({"added"}, {"removed"}):
        return next(iter(counts))
    texts = [
        f"{words[how]} {count}" if how in words else f"{count} {how}"
        for how, count in counts.most_common()
    ]
    text = f"changed: {', '.join(texts)}"
    distances = [change.distance for change in parameters.changes if change.distance is not None]
    far = [distance.max_abs for distance in distances if distance.max_abs is not None]
    if far and counts["values"]:
        text += f"; max abs {max(far):.4g}"
    return text


def _count_words(words: Iterable[str]) -> str:
    counts = Counter(words).most_common()
    return format_names((f"{word} {count}" for word, count in counts), _MOST)
