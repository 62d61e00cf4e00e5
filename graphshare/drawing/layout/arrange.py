"""Arrange a picture: layers, order and gutters of all its levels.

Every edge of a level leads from a row to the next one, long edges through points. Scopes can have
cycles, although graphs have none; some edges are then drawn upwards. Rows follow the longest path;
a vertex that feeds more than it reads stands close to its consumers.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from itertools import pairwise

from graphshare.drawing.layout.levels import Layout, Link, ScopeLevel, Vertex, build_levels
from graphshare.drawing.picture import Picture

MOST_POINTS = 12  # per member of a level, up to 10,000 members; edges that would need more are drawn without points
_MOST_MEMBERS = 10_000  # more points take seconds in a browser
_WIDEST_ROW = 12  # members without edges in a row
_ROUNDS = 10
_WORK = 400_000  # links times rounds

_Neighbours = dict[int, list[int]]
# With the place of the port in a scope, 0 to 1
_PlacedNeighbours = dict[int, list[tuple[int, float]]]


def arrange(picture: Picture) -> Layout:
    """Return the levels of ``picture`` with ordered rows."""
    layout = build_levels(picture)
    for number in reversed(range(len(layout.levels))):  # inside out
        _assign_layers(layout, number)
        _order_rows(layout, number)
    for number in range(len(layout.levels)):
        _add_gutters(layout, number)
    return layout


def _add_gutters(layout: Layout, number: int) -> None:
    """Reserve a place in a row, right of the first consumer, for boxes that its members share."""
    level = layout.levels[number]
    place = {v: (row, i) for row, members in enumerate(level.rows) for i, v in enumerate(members)}
    by_place: dict[tuple[int, int], int] = {}
    for shared in level.shared:
        members = {_find_member(layout, consumer, number) for consumer in shared.consumers}
        places = sorted(place[v] for v in members)
        rows = {row for row, _ in places}
        # Members of several rows have no common gap; such a box stands beside all rows.
        if len(places) < 2 or len(rows) > 1:
            continue
        first = places[0]
        if first not in by_place:
            by_place[first] = len(layout.vertices)
            layout.vertices.append(Vertex("gutter", number, number))
        shared.gutter = by_place[first]
    # From the right, so that the places left of it stay valid.
    for row, i in sorted(by_place, reverse=True):
        _mirror(layout, level.rows[row][i])
        level.rows[row].insert(i + 1, by_place[row, i])


def _find_member(layout: Layout, vertex: int, number: int) -> int:
    """Return the vertex of a level that contains ``vertex``, or is it."""
    return next(v for v in layout.ancestors(vertex) if layout.vertices[v].level == number)


def _mirror(layout: Layout, vertex: int) -> None:
    """Reverse all rows inside a vertex left of a gutter: members beside its main path face outward."""
    pending = [vertex]
    while pending:
        v = pending.pop()
        if layout.vertices[v].kind == "scope":
            level = layout.levels[layout.vertices[v].content]
            for row in level.rows:
                row.reverse()
                pending += row


def _assign_layers(layout: Layout, number: int) -> None:
    level = layout.levels[number]
    vertices = [*level.entrances.values(), *level.members, *level.exits.values()]
    upward = _find_back_edges(vertices, level)
    order = _LevelOrder(vertices, level, upward)
    rank = order.rank()
    _spread_isolated(order.find_isolated(), rank, level)
    height = max(rank.values(), default=-1) + 1
    level.rows = [[] for _ in range(height)]
    for v in vertices:
        level.rows[rank[v]].append(v)
    _add_links(layout, number, rank, upward)


def _find_back_edges(vertices: Sequence[int], level: ScopeLevel) -> set[tuple[int, int]]:
    """Return edges whose removal breaks all cycles: they lead back to the current path of a
    depth-first walk.
    """
    after: _Neighbours = {v: [] for v in vertices}
    for source, target, _ in level.edges:
        after[source].append(target)
    on_path, left = 1, 2
    state: dict[int, int] = {}
    back: set[tuple[int, int]] = set()
    for root in vertices:
        if root in state:
            continue
        state[root] = on_path
        stack = [(root, iter(after[root]))]
        while stack:
            v, targets = stack[-1]
            target = next(targets, -1)
            if target < 0:
                state[v] = left
                stack.pop()
            elif target not in state:
                state[target] = on_path
                stack.append((target, iter(after[target])))
            elif state[target] == on_path:
                back.add((v, target))
    return back


class _LevelOrder:
    """The vertices of a level and their neighbours; edges of ``upward`` are reversed, to break
    cycles.
    """

    def __init__(
        self, vertices: Sequence[int], level: ScopeLevel, upward: set[tuple[int, int]]
    ) -> None:
        self.vertices = vertices
        self.entrances, self.exits = set(level.entrances.values()), set(level.exits.values())
        self.after: _Neighbours = {v: [] for v in vertices}
        self.before: _Neighbours = {v: [] for v in vertices}
        downward: dict[tuple[int, int], None] = {}
        for source, target, _ in level.edges:
            is_upward = (source, target) in upward
            downward[(target, source) if is_upward else (source, target)] = None
        for source, target in downward:
            self.after[source].append(target)
            self.before[target].append(source)

    def find_isolated(self) -> _Neighbours:
        """Return members whose only edges lead to members that read nothing else, with these."""
        ports = self.entrances | self.exits
        members = [v for v in self.vertices if v not in ports]
        ends = {v for v in members if len(self.before[v]) <= 1 and not self.after[v]}
        sources = [v for v in members if not self.before[v]]
        return {v: self.after[v] for v in sources if ends.issuperset(self.after[v])}

    def rank(self) -> dict[int, int]:
        """Return the row of each vertex: entrances first, exits last, others below their inputs."""
        before, after, ports = self.before, self.after, self.entrances | self.exits
        first = 1 if self.entrances else 0
        rank: dict[int, int] = {}
        for v in self._sort():
            top = 0 if v in self.entrances else first
            rank[v] = max((rank[source] + 1 for source in before[v]), default=top)
        last = max((row for v, row in rank.items() if v not in self.exits), default=-1) + 1
        rank.update(dict.fromkeys(self.exits, last))
        # From the bottom, because a row depends on the consumers' rows.
        for v in reversed(list(rank)):
            if len(before[v]) < len(after[v]) and v not in ports:
                rank[v] = min(rank[target] for target in after[v]) - 1
            elif len(before[v]) == len(after[v]) == 1:
                is_short_side = len(after[before[v][0]]) > 1  # of a detour: stand where it ends
                lowest = rank[after[v][0]] - 1
                if is_short_side and lowest > rank[v]:
                    rank[v] = lowest
        return rank

    def _sort(self) -> list[int]:
        missing = {v: len(self.before[v]) for v in self.vertices}
        order = [v for v in self.vertices if not missing[v]]
        for v in order:  # grows while it is walked
            for target in self.after[v]:
                missing[target] -= 1
                if not missing[target]:
                    order.append(target)
        return order


def _spread_isolated(isolated: _Neighbours, rank: dict[int, int], level: ScopeLevel) -> None:
    """Give isolated members rows of a few each, with their own outputs."""
    if len(isolated) <= _WIDEST_ROW:
        return
    exits = set(level.exits.values())
    apart = exits.union(isolated, *isolated.values())
    others = [row for v, row in rank.items() if v not in apart]
    first = max(others, default=-1) + 1
    rows = 2 if any(isolated.values()) else 1
    for i, (v, outputs) in enumerate(isolated.items()):
        rank[v] = first + i // _WIDEST_ROW * rows
        rank.update(dict.fromkeys(outputs, rank[v] + 1))
    last = max(rank[v] for v in isolated) + rows
    rank.update(dict.fromkeys(exits, last))


def _add_links(
    layout: Layout, number: int, rank: Mapping[int, int], upward: set[tuple[int, int]]
) -> None:
    """Add links; the edges of a net from one vertex share their points."""
    level = layout.levels[number]
    left = MOST_POINTS * min(len(level.members) + len(level.entrances), _MOST_MEMBERS) + 1000
    targets: dict[tuple[int, int, bool], dict[int, str]] = {}
    for (source, target, net), kind in level.edges.items():
        is_upward = (source, target) in upward
        top, bottom = (target, source) if is_upward else (source, target)
        targets.setdefault((net, top, is_upward), {})[bottom] = kind
    spans = {
        key: max(map(rank.__getitem__, ends)) - rank[key[1]] - 1 for key, ends in targets.items()
    }
    # Short nets first: many of them get their points for the price of one long net.
    for key in sorted(targets, key=spans.__getitem__):
        net, top, is_upward = key
        ends, span, first = targets[key], spans[key], rank[top] + 1
        if span > left:
            level.long_links += [Link(top, end, net, kind, is_upward) for end, kind in ends.items()]
            continue
        left -= span
        kind = "data" if "data" in ends.values() else next(iter(ends.values()))
        chain = [top]
        for row in range(first, first + span):
            point = len(layout.vertices)
            layout.vertices.append(Vertex("point", number, net))
            level.rows[row].append(point)
            level.links.append(Link(chain[-1], point, net, kind, is_upward))
            chain.append(point)
        for end, kind in ends.items():
            # Each end leaves the common chain in the row above its own.
            above = chain[rank[end] - first]
            level.links.append(Link(above, end, net, kind, is_upward))


def _order_rows(layout: Layout, number: int) -> None:
    """Sort each row so that few links cross; inner levels must be sorted before."""
    level = layout.levels[number]
    above: _PlacedNeighbours = {v: [] for row in level.rows for v in row}
    below: _PlacedNeighbours = {v: [] for row in level.rows for v in row}
    ports = {v: _find_ports(layout, v) for v in above}
    for link in level.links:
        leaves = ports[link.source].get((link.net, not link.reversed), 0.5)
        arrives = ports[link.target].get((link.net, link.reversed), 0.5)
        above[link.target].append((link.source, leaves))
        below[link.source].append((link.target, arrives))
    rows = _walk_order(level.rows, above, below)
    best, fewest = rows, count_crossings(rows, below)
    rounds = max(2, min(_ROUNDS, _WORK // (len(level.links) + 1)))
    for number in range(rounds):
        if not fewest:
            break
        is_downward = number % 2 == 0
        rows = _sweep(rows, above) if is_downward else _sweep(rows[::-1], below)[::-1]
        crossings = count_crossings(rows, below)
        # A sweep may also add crossings.
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    level.rows = [list(row) for row in best]


def _find_ports(layout: Layout, vertex: int) -> dict[tuple[int, bool], float]:
    """Return where each net enters (False) and leaves (True) a scope, from 0 at the left to 1."""
    if layout.vertices[vertex].kind != "scope":
        return {}
    level = layout.levels[layout.vertices[vertex].content]
    ports: dict[tuple[int, bool], float] = {}
    ends = ((False, level.entrances, level.rows[0]), (True, level.exits, level.rows[-1]))
    for is_exit, named, row in ends:
        place = {v: (i + 1) / (len(row) + 1) for i, v in enumerate(row)}
        ports.update({(net, is_exit): place[v] for net, v in named.items()})
    return ports


def _walk_order(
    rows: Sequence[Sequence[int]], above: _PlacedNeighbours, below: _PlacedNeighbours
) -> list[list[int]]:
    """Order the rows by a depth-first walk, so that connected parts stay together."""
    row_of = {v: number for number, row in enumerate(rows) for v in row}
    ordered: list[list[int]] = [[] for _ in rows]
    seen: set[int] = set()
    for root in (v for row in rows for v in row):
        stack = [root]
        while stack:
            v = stack.pop()
            if v in seen:
                continue
            seen.add(v)
            ordered[row_of[v]].append(v)
            # The vertices below are pushed last and so visited first, from left to right.
            stack += [u for u, _ in reversed(above[v]) if u not in seen]
            stack += [u for u, _ in reversed(below[v]) if u not in seen]
    return ordered


def _sweep(rows: Sequence[Sequence[int]], neighbours: _PlacedNeighbours) -> list[list[int]]:
    """Sort each row by its neighbours' mean position in the row before; vertices without any stay."""
    position: dict[int, float] = {}
    sorted_rows: list[list[int]] = []
    before = 1
    for row in rows:
        means = {}
        last = max(len(row) - 1, 1)
        for i, v in enumerate(row):
            # A port shifts the neighbour within its own place in the row, not beyond.
            known = [
                position[u] + (port - 0.5) / before for u, port in neighbours[v] if u in position
            ]
            means[v] = sum(known) / len(known) if known else i / last
        ordered = sorted(row, key=means.__getitem__)
        sorted_rows.append(ordered)
        position.update({v: i / last for i, v in enumerate(ordered)})
        before = len(row)
    return sorted_rows


def count_crossings(rows: Sequence[Sequence[int]], below: _PlacedNeighbours) -> int:
    """Count the pairs of links that cross."""
    crossings = 0
    for upper, lower in pairwise(rows):
        position = {v: i for i, v in enumerate(lower)}
        passed: list[float] = []
        for v in upper:
            ends = sorted(position[u] + port for u, port in below[v] if u in position)
            # A link crosses those before it whose lower ends lie further to the right.
            crossings += sum(len(passed) - bisect_right(passed, end) for end in ends)
            for end in ends:
                insort(passed, end)
    return crossings
