"""Divide a graph's operators into consecutive parts, and find the values that cross between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

import msgspec

from graphshare.analysis.name_lists import output_name, resolve_each
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Entry, Graph, Node, Rewrite
from graphshare.ir.walk import post_order, reachable, topological
from graphshare.rewrite.extract_graph import extract_entries
from graphshare.text.format import format_count


class Crossing(msgspec.Struct, frozen=True):
    """A value that one part computes and others read; parts are counted from 1."""

    name: str
    source: int
    readers: tuple[int, ...]


class GraphParts(msgspec.Struct, frozen=True, eq=False):
    """The rewrites that make the parts of a graph, and the values that cross between them."""

    rewrites: tuple[Rewrite, ...]
    crossings: tuple[Crossing, ...]


def split_at(graph: Graph, names: Sequence[str]) -> dict[Node, int]:
    """Return the parts of needed operators: the first computes the first of ``names``, the last the
    rest.

    Raises RefusedError as :func:`graphshare.split`.
    """
    parts: dict[Node, int] = {}
    faults = []
    cuts = resolve_each(names, graph.nodes, option="`at`")
    for number, (name, cut) in enumerate(zip(names, cuts, strict=True)):
        before = len(parts)
        for node in post_order(entry.node for entry in cut):
            if node.op:
                parts.setdefault(node, number)
        if len(parts) == before:
            message = f"`at` {name!r} leaves no operator for part {number + 1}"
            faults.append(Fault(message, hint="name cuts from the inputs on"))
    needed = [node for node in reachable(graph) if node.op]
    if parts.keys() >= set(needed):
        message = f"`at` {names[-1]!r} leaves no operator for the last part"
        faults.append(Fault(message, hint="name a value before the outputs"))
    RefusedError.raise_any(faults)
    return {node: parts.get(node, len(names)) for node in needed}


def split_evenly(graph: Graph, count: int, measure: Callable[[Node], int]) -> dict[Node, int]:
    """Return the parts of needed operators: ``count`` parts with weights of about equal size.

    ``measure`` returns the bytes of a variable, or of an operator without inputs. Raises
    RefusedError for fewer operators than parts.
    """
    needed = set(reachable(graph))
    nodes = [node for node in topological(graph) if node in needed and node.op]
    # An operator without inputs, such as a Constant with a weight, goes with its first reader: in
    # the file it may be far before.
    order = [node for node in nodes if node.inputs] or nodes
    if not 2 <= count <= len(order):
        message = f"cannot make {count} parts of {format_count(len(order), 'operator')}"
        hint = "give `into` a number from 2 to that of the operators"
        raise RefusedError(Fault(message, hint=hint))
    sizes = _weigh(order, measure)
    parts: dict[Node, int] = {}
    number, taken, left = 0, 0, sum(sizes)
    for place, (node, size) in enumerate(zip(order, sizes, strict=True)):
        others = count - number - 1
        # A part ends where another operator would take it further from its share.
        share = (left + taken) / (others + 1)
        is_full = taken and 2 * taken + size > 2 * share
        if others and (is_full or len(order) - place == others):
            number, taken = number + 1, 0
        parts.update(dict.fromkeys(_find_sources(node) - parts.keys(), number))
        parts[node] = number
        taken, left = taken + size, left - size
    return {node: parts.get(node, number) for node in nodes}


def _find_sources(node: Node) -> set[Node]:
    return {entry.node for entry in node.inputs if not entry.node.inputs}


def _weigh(order: Sequence[Node], measure: Callable[[Node], int]) -> list[int]:
    """Each operator counts one, plus the sources that it reads first."""
    seen: set[Node] = set()
    weights = []
    for node in order:
        fresh = _find_sources(node) - seen
        seen.update(fresh)
        weights.append(1 + sum(map(measure, fresh)))
    return weights


def extract_parts(graph: Graph, parts: Mapping[Node, int]) -> GraphParts:
    """Return the parts of a graph. Values that later parts read become outputs under their names.

    Raises:
        RefusedError: the format requires the unknown type of a value that crosses; several nodes
            have a name that joins parts.
    """
    readers: dict[tuple[Node, int], set[int]] = {}
    entries: dict[tuple[Node, int], Entry] = {}
    for node, number in parts.items():
        for entry in node.inputs:  # what bodies capture is among them
            if entry.node.op and parts[entry.node] != number:
                place = entry.node, entry.index
                readers.setdefault(place, set()).add(number)
                entries.setdefault(place, entry)
    count = max(parts.values()) + 1
    ends: list[dict[tuple[Node, int], Entry]] = [{} for _ in range(count)]
    for head in graph.heads:
        ends[parts.get(head.node, count - 1)].setdefault((head.node, head.index), head)
    for place, entry in entries.items():
        ends[parts[place[0]]].setdefault(place, entry)
    _refuse_repeated(parts, {head.node for own in ends for head in own.values()})
    rewrites = []
    for number in range(count):
        cuts = {
            place: output_name(entries[place])
            for place, numbers in readers.items()
            if number in numbers
        }
        rewrites.append(extract_entries(graph, list(ends[number].values()), cuts=cuts))
    crossings = []
    for place, numbers in readers.items():
        source = parts[place[0]] + 1
        later = tuple(number + 1 for number in sorted(numbers))
        crossings.append(Crossing(output_name(entries[place]), source, later))
    crossings.sort(key=lambda crossing: crossing.source)
    return GraphParts(tuple(rewrites), tuple(crossings))


def _refuse_repeated(parts: Mapping[Node, int], ends: Set[Node]) -> None:
    """Parts are joined by names, so names at their ends must not repeat."""
    named: dict[str, dict[Node, set[int]]] = {}
    for user, number in parts.items():
        for node in (user, *(entry.node for entry in user.inputs if not entry.node.op)):
            named.setdefault(node.name, {}).setdefault(node, set()).add(number)
    wrong = []
    for name, same in named.items():
        if not name or len(same) == 1:
            continue
        numbers = set[int]().union(*same.values())
        if len(numbers) > 1 or not ends.isdisjoint(same):
            wrong.append(name)
    if wrong:
        hint = f"`gs.rename(GRAPH, match={{{wrong[0] + '#1'!r}: 'NEW'}})` names the second of them"
        message = "several nodes have this name, by which parts are joined"
        raise RefusedError([Fault(f"{name!r}: {message}", hint=hint) for name in wrong])
