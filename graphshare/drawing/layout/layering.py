"""Layers of one level: every edge leads from a row to the next one, long edges through points.

Cycles, which scopes can have though graphs have none, are cut by drawing some edges upwards. Rows follow the longest path; what
feeds more than it reads stands close to its consumers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphshare.drawing.layout.levels import Layout, Level, Link, Vertex

MOST_POINTS = 12  # per member of a level; longer edges than these suffice for are drawn without points
WIDEST_ROW = 12  # members without edges in a row

Neighbours = dict[int, list[int]]


def assign_layers(layout: Layout, number: int) -> None:
    """Fill the rows and the links of a level."""
    level = layout.levels[number]
    ports = (*level.entrances.values(), *level.exits.values())
    vertices = [*level.entrances.values(), *level.members, *level.exits.values()]
    upward = _find_back_edges(vertices, level)
    after: Neighbours = {v: [] for v in vertices}
    before: Neighbours = {v: [] for v in vertices}
    for source, target in dict.fromkeys((s, t) if (s, t) not in upward else (t, s) for s, t, _ in level.edges):
        after[source].append(target)
        before[target].append(source)
    rank = _rank(vertices, after, before, level)
    isolated = [v for v in vertices if not after[v] and not before[v] and v not in ports]
    _spread_isolated(isolated, rank, level)
    height = max(rank.values(), default=-1) + 1
    level.rows = [[] for _ in range(height)]
    for v in vertices:
        level.rows[rank[v]].append(v)
    _add_links(layout, number, rank, upward)


def _find_back_edges(vertices: Sequence[int], level: Level) -> set[tuple[int, int]]:
    """Return edges without which there is no cycle: those that lead back to where a depth-first walk is."""
    after: Neighbours = {v: [] for v in vertices}
    for source, target, _ in level.edges:
        after[source].append(target)
    state: dict[int, int] = {}
    back: set[tuple[int, int]] = set()
    for root in vertices:
        stack = [(root, iter(after[root]))] if root not in state else []
        state.setdefault(root, 1)
        while stack:
            v, targets = stack[-1]
            target = next(targets, -1)
            if target < 0:
                state[v] = 2
                stack.pop()
            elif target not in state:
                state[target] = 1
                stack.append((target, iter(after[target])))
            elif state[target] == 1:
                back.add((v, target))
    return back


def _rank(vertices: Sequence[int], after: Neighbours, before: Neighbours, level: Level) -> dict[int, int]:
    """Return the row of each vertex: entrances in the first, exits in the last."""
    first = 1 if level.entrances else 0
    entrances, exits = set(level.entrances.values()), set(level.exits.values())
    missing = {v: len(before[v]) for v in vertices}
    order = [v for v in vertices if not missing[v]]
    rank = {v: 0 if v in entrances else first for v in order}
    for v in order:  # grows while it is walked
        for target in after[v]:
            rank[target] = max(rank.get(target, first), rank[v] + 1)
            missing[target] -= 1
            if not missing[target]:
                order.append(target)
    last = max((rank[v] for v in vertices if v not in exits), default=-1) + 1
    rank.update(dict.fromkeys(exits, last))
    for v in reversed(order):
        if after[v] and v not in entrances and v not in exits and len(before[v]) < len(after[v]):
            rank[v] = min(rank[target] for target in after[v]) - 1
        elif after[v] and len(before[v]) == len(after[v]) == 1 and rank[after[v][0]] > rank[v] + 1:
            source = before[v][0]
            if len(after[source]) > 1:  # on the short side of a detour: stand where the detour ends
                rank[v] = rank[after[v][0]] - 1
    return rank


def _spread_isolated(isolated: Sequence[int], rank: dict[int, int], level: Level) -> None:
    """Give members without any edge rows of a few each."""
    if len(isolated) <= WIDEST_ROW:
        return
    exits = set(level.exits.values())
    others = [row for v, row in rank.items() if v not in exits and v not in set(isolated)]
    first = max(others, default=-1) + 1
    for i, v in enumerate(isolated):
        rank[v] = first + i // WIDEST_ROW
    last = max(rank[v] for v in isolated) + 1
    rank.update(dict.fromkeys(exits, last))


def _add_links(layout: Layout, number: int, rank: Mapping[int, int], upward: set[tuple[int, int]]) -> None:
    """Add the links of a level; the edges of a net from one vertex share their points."""
    level = layout.levels[number]
    left = MOST_POINTS * (len(level.members) + len(level.entrances)) + 1000
    targets: dict[tuple[int, int, bool], dict[int, str]] = {}
    for (source, target, net), kind in level.edges.items():
        is_upward = (source, target) in upward
        top, bottom = (target, source) if is_upward else (source, target)
        targets.setdefault((net, top, is_upward), {})[bottom] = kind
    spans = {key: max(rank[v] for v in ends) - rank[key[1]] - 1 for key, ends in targets.items()}
    for key in sorted(targets, key=spans.__getitem__):
        net, top, is_upward = key
        ends = targets[key]
        if spans[key] > left:
            level.long_links += [Link(top, end, net, kind, is_upward) for end, kind in ends.items()]
            continue
        left -= spans[key]
        kind = "data" if "data" in ends.values() else "control"
        chain = [top]
        for row in range(rank[top] + 1, rank[top] + 1 + spans[key]):
            point = len(layout.vertices)
            layout.vertices.append(Vertex("point", number, net))
            level.rows[row].append(point)
            level.links.append(Link(chain[-1], point, net, kind, is_upward))
            chain.append(point)
        for end, kind in ends.items():
            level.links.append(Link(chain[rank[end] - rank[top] - 1], end, net, kind, is_upward))
