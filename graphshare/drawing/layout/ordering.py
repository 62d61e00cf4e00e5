"""The order of each row: barycentre sweeps down and up, the order with the fewest crossings wins."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from itertools import pairwise

from graphshare.drawing.layout.levels import Layout

ROUNDS = 10
WORK = 400_000  # links times rounds

Neighbours = dict[int, list[tuple[int, float]]]  # with the place of the port in a scope, 0 to 1


def order_rows(layout: Layout, number: int) -> None:
    """Sort each row of a level so that few links cross; the levels inside it must be sorted before."""
    level = layout.levels[number]
    above: Neighbours = {v: [] for row in level.rows for v in row}
    below: Neighbours = {v: [] for row in level.rows for v in row}
    ports = {v: _find_ports(layout, v) for v in above}
    for link in level.links:
        above[link.target].append((link.source, ports[link.source].get((link.net, not link.reversed), 0.5)))
        below[link.source].append((link.target, ports[link.target].get((link.net, link.reversed), 0.5)))
    rows = _walk_order(level.rows, above, below)
    best, fewest = rows, count_crossings(rows, below)
    rounds = max(2, min(ROUNDS, WORK // (len(level.links) + 1)))
    for number in range(rounds):
        if not fewest:
            break
        rows = _sweep(rows, above) if number % 2 == 0 else _sweep(rows[::-1], below)[::-1]
        crossings = count_crossings(rows, below)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    level.rows = [list(row) for row in best]


def _find_ports(layout: Layout, vertex: int) -> dict[tuple[int, bool], float]:
    """Return where on a scope each net enters (False) and leaves (True), from 0 at the left to 1."""
    if layout.vertices[vertex].kind != "scope":
        return {}
    level = layout.levels[layout.vertices[vertex].content]
    ports: dict[tuple[int, bool], float] = {}
    for is_exit, named, row in ((False, level.entrances, level.rows[0]), (True, level.exits, level.rows[-1])):
        place = {v: (i + 1) / (len(row) + 1) for i, v in enumerate(row)}
        ports.update({(net, is_exit): place[v] for net, v in named.items()})
    return ports


def _walk_order(rows: Sequence[Sequence[int]], above: Neighbours, below: Neighbours) -> list[list[int]]:
    """Order the rows as a depth-first walk along the links meets their vertices, so that connected parts stay together."""
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
            stack += [u for u, _ in reversed(above[v]) if u not in seen]
            stack += [u for u, _ in reversed(below[v]) if u not in seen]
    return ordered


def _sweep(rows: Sequence[Sequence[int]], neighbours: Neighbours) -> list[list[int]]:
    """Sort each row by the mean position of its vertices' neighbours in the row before; others keep their position."""
    position: dict[int, float] = {}
    sorted_rows: list[list[int]] = []
    before = 1
    for row in rows:
        means = {}
        for i, v in enumerate(row):
            known = [position[u] + (port - 0.5) / before for u, port in neighbours[v] if u in position]
            means[v] = sum(known) / len(known) if known else i / max(len(row) - 1, 1)
        ordered = sorted(row, key=means.__getitem__)
        sorted_rows.append(ordered)
        position.update({v: i / max(len(row) - 1, 1) for i, v in enumerate(ordered)})
        before = max(len(row), 1)
    return sorted_rows


def count_crossings(rows: Sequence[Sequence[int]], below: Neighbours) -> int:
    """Return the number of pairs of links that cross."""
    crossings = 0
    for upper, lower in pairwise(rows):
        position = {v: i for i, v in enumerate(lower)}
        passed: list[float] = []
        for v in upper:
            ends = sorted(position[u] + port for u, port in below[v] if u in position)
            crossings += sum(len(passed) - bisect_right(passed, end) for end in ends)
            for end in ends:
                insort(passed, end)
    return crossings
