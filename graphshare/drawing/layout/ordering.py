"""The order of each row: barycentre sweeps down and up, the order with the fewest crossings wins."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from itertools import pairwise

from graphshare.drawing.layout.levels import Level

ROUNDS = 10
WORK = 400_000  # links times rounds

Neighbours = dict[int, list[int]]


def order_rows(level: Level) -> None:
    """Sort each row of ``level`` so that few links cross."""
    above: Neighbours = {v: [] for row in level.rows for v in row}
    below: Neighbours = {v: [] for row in level.rows for v in row}
    for link in level.links:
        above[link.target].append(link.source)
        below[link.source].append(link.target)
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
            stack += [u for u in reversed(above[v]) if u not in seen]
            stack += [u for u in reversed(below[v]) if u not in seen]
    return ordered


def _sweep(rows: Sequence[Sequence[int]], neighbours: Neighbours) -> list[list[int]]:
    """Sort each row by the mean position of its vertices' neighbours in the row before; others keep their position."""
    position: dict[int, float] = {}
    sorted_rows: list[list[int]] = []
    for row in rows:
        means = {}
        for i, v in enumerate(row):
            known = [position[u] for u in neighbours[v] if u in position]
            means[v] = sum(known) / len(known) if known else i / max(len(row) - 1, 1)
        ordered = sorted(row, key=means.__getitem__)
        sorted_rows.append(ordered)
        position.update({v: i / max(len(row) - 1, 1) for i, v in enumerate(ordered)})
    return sorted_rows


def count_crossings(rows: Sequence[Sequence[int]], below: Neighbours) -> int:
    """Return the number of pairs of links that cross."""
    crossings = 0
    for upper, lower in pairwise(rows):
        position = {v: i for i, v in enumerate(lower)}
        passed: list[int] = []
        for v in upper:
            ends = sorted(position[u] for u in below[v] if u in position)
            crossings += sum(len(passed) - bisect_right(passed, end) for end in ends)
            for end in ends:
                insort(passed, end)
    return crossings
