"""The differences in a few sentences: for each kind of change what its members have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Literal, TypeVar

import msgspec

from graphshare.differences.changes import Changed, GraphDiff, NodeRef
from graphshare.formats.mxnet.document import VARIABLE_OP
from graphshare.formats.params.diff import ParameterDiff
from graphshare.ir.compare import Change
from graphshare.text.format import format_count, format_names, shorten

Kind = Literal["removed", "added", "renamed", "changed", "ties", "outputs", "attributes", "parameters"]
T = TypeVar("T")
_MOST = 3  # groups of a kind that are named
_SMALLEST = 5  # a fifth of all: what fewer have in common is chance
_LONGEST = 400  # longer names are not searched for prefixes, which would take the square of their length


class Summary(msgspec.Struct, frozen=True):
    """A sentence on all changes of one kind, which are ``count``."""

    what: Kind
    count: int
    text: str


def summarize(
    graph: GraphDiff, parameters: ParameterDiff | None, *, left_names: Collection[str], right_names: Collection[str]
) -> tuple[Summary, ...]:
    """Return a summary of each kind of which there is a change; the names are those of all nodes of each graph."""
    removed = _describe_nodes(graph.removed, right_names)
    added = _describe_nodes(graph.added, left_names)
    renamed = _describe_renames([(pair.old.name, pair.new.name) for pair in graph.renamed])
    kinds: list[tuple[Kind, int, str, str]] = [
        ("removed", len(graph.removed), "node", f"removed: {removed}"),
        ("added", len(graph.added), "node", f"added: {added}"),
        ("renamed", len(graph.renamed), "node", f"renamed: {renamed}"),
        ("changed", len(graph.changed), "node", f"changed: {_describe_changes(graph.changed)}"),
        ("ties", len(graph.ties), "tie", f"moved: {_count_words(tie.how for tie in graph.ties)}"),
        ("outputs", len(graph.outputs), "output", "changed"),
        ("attributes", len(graph.attributes), "graph attribute", "changed"),
    ]
    if parameters is not None:
        kinds.append(("parameters", len(parameters.changes), "parameter", _describe_parameters(parameters)))
    return tuple(Summary(what, count, f"{format_count(count, noun)} {text}") for what, count, noun, text in kinds if count)


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
    end = _count_common(old[::-1], new[::-1])
    if 0 < end < min(len(old), len(new)):
        yield f"the prefix {new[:-end]} instead of {old[:-end]}"
    start = _count_common(old, new)
    if 0 < start < min(len(old), len(new)):
        yield f"the suffix {new[start:]} instead of {old[start:]}"


def _count_common(a: str, b: str) -> int:
    """Return the length of the common beginning of two texts."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _describe_nodes(nodes: Sequence[NodeRef], names: Collection[str]) -> str:
    """Describe nodes by a prefix before names of the other graph, and those that have none by their operators."""
    known = frozenset(names)
    groups, _ = _group(nodes, lambda node: _list_prefixes(node.name, known))
    prefixes = tuple(text.removeprefix("the prefix ") for text, _ in groups)
    others = [node for node in nodes if not groups or not node.name.startswith(prefixes)]
    operators = _count_words("variable" if node.op == VARIABLE_OP else node.op for node in others)
    return _join(groups, len(nodes), operators, len(others))


def _list_prefixes(name: str, known: Collection[str]) -> Iterator[str]:
    if len(name) <= _LONGEST:
        yield from (f"the prefix {name[:i]}" for i in range(1, len(name)) if name[i:] in known)


def _group(items: Iterable[T], labels: Callable[[T], Iterable[str]]) -> tuple[list[tuple[str, int]], int]:
    """Return labels with the number of items that each covers, most first, and how many items remain without one."""
    left = [dict.fromkeys(labels(item)) for item in items]
    total = len(left)
    groups: list[tuple[str, int]] = []
    while len(groups) < _MOST and left:
        counts = Counter(label for candidates in left for label in candidates).most_common(1)
        if not counts or counts[0][1] < max(2, total / _SMALLEST):
            break
        label, count = counts[0]
        groups.append((label, count))
        left = [candidates for candidates in left if label not in candidates]
    return groups, len(left)


def _join(groups: Sequence[tuple[str, int]], count: int, rest: str, remaining: int) -> str:
    if groups and groups[0][1] == count:
        return f"all {_add_verb(groups[0][0])}"
    parts = [f"{number} {_add_verb(label)}" for label, number in groups]
    return ", ".join([*parts, *([rest] if remaining else [])])


def _add_verb(label: str) -> str:
    return shorten(label if label.startswith("lost ") else f"have {label}", _LONGEST)


def _describe_changes(changed: Sequence[Changed]) -> str:
    """Describe changed nodes by what changed, with both values where they are the same everywhere."""
    changes: dict[str, list[Change]] = {}
    nodes: Counter[str] = Counter()
    for node in changed:
        labels = {_label(change): change for change in node.changes}
        nodes.update(labels.keys())
        for label, change in labels.items():
            changes.setdefault(label, []).append(change)
    texts = []
    for label, count in nodes.most_common():
        values = {(change.old, change.new) for change in changes[label]}
        old, new = next(iter(values))
        same = f" ({_show(old)} -> {_show(new)})" if len(values) == 1 and label != "inputs" else ""
        texts.append(f"{label} of {count}{same}")
    return format_names(texts, _MOST)


def _label(change: Change) -> str:
    return "inputs" if change.what == "input" else f"{change.what} {change.key}".rstrip()


def _show(value: str | None) -> str:
    return "none" if value is None else value or "''"


def _describe_parameters(parameters: ParameterDiff) -> str:
    words = {"values": "values of", "form": "shape, type or storage of", "renamed": "arg: or aux: of"}
    counts = Counter(change.how for change in parameters.changes)
    texts = [f"{words[how]} {count}" if how in words else f"{count} {how}" for how, count in counts.most_common()]
    if counts.keys() in ({"added"}, {"removed"}):
        return next(iter(counts))
    far = [c.distance.max_abs for c in parameters.changes if c.distance is not None and c.distance.max_abs is not None]
    return "changed: " + ", ".join(texts) + (f"; max abs {max(far):.4g}" if far and counts["values"] else "")


def _count_words(words: Iterable[str]) -> str:
    counts = Counter(words).most_common()
    return format_names((f"{word} {count}" for word, count in counts), _MOST)
