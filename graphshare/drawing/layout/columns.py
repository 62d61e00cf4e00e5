"""Where the vertices of each row stand: close to their neighbours above and below, in straight lines if possible.

Sweeps move each vertex towards the weighted mean of its neighbours and keep the order and the gaps of its row. The longest
paths and the points of long edges have a large weight, so that they become straight.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise

from graphshare.drawing.layout.levels import ScopeLevel

GAPS = {(False, False): 22.0, (True, False): 16.0, (False, True): 16.0, (True, True): 10.0}  # is point, is point
SPINE, MAIN_SPINE = 64.0, 4096.0  # weights of links that should be straight: with points, and of the main path
SWEEPS = 6

Pull = tuple[int, float, float]  # a neighbour, where it wants the vertex relative to itself, and the weight
Offset = Callable[..., float]


def assign_x(
    level: ScopeLevel, widths: Mapping[int, float], is_point: Callable[[int], bool], offset: Offset
) -> dict[int, float]:
    """Return the x of the centre of each vertex of ``level``; ``offset`` tells where on a vertex a net arrives or leaves."""
    above, below = _find_pulls(level, is_point, offset)
    steps = [_measure_steps(row, widths, is_point) for row in level.rows]
    x: dict[int, float] = {}
    for vertices, gaps in zip(level.rows, steps, strict=True):
        at = -sum(gaps) / 2
        for v, step in zip(vertices, (*gaps, 0.0), strict=True):
            x[v] = at
            at += step
    order = range(len(level.rows))
    for number in range(SWEEPS):
        pulls = above if number % 2 == 0 else below
        for row in order if number % 2 == 0 else reversed(order):
            _move_row(level.rows[row], steps[row], [pulls], x)
    for row in order:
        _move_row(level.rows[row], steps[row], [above, below], x)
    spine = {v: [pull for pull in pulls if pull[2] >= SPINE] for v, pulls in above.items()}
    for row in order:
        _move_row(level.rows[row], steps[row], [spine], x)
    rest = _hold_spines(above, below)
    for row in reversed(order):
        _move_row(level.rows[row], steps[row], rest, x)
    return x


def _hold_spines(above: Mapping[int, list[Pull]], below: Mapping[int, list[Pull]]) -> list[dict[int, list[Pull]]]:
    """Return the pulls of the vertices without a straight link; the others are held where they are."""
    straight = {v for side in (above, below) for v, pulls in side.items() if any(pull[2] >= SPINE for pull in pulls)}
    held: dict[int, list[Pull]] = {v: [(v, 0.0, MAIN_SPINE)] for v in straight}
    return [held, *({v: pulls for v, pulls in side.items() if v not in straight} for side in (above, below))]


def _move_row(
    row: Sequence[int], steps: Sequence[float], sides: Sequence[Mapping[int, list[Pull]]], x: dict[int, float]
) -> None:
    wanted, weights = [], []
    for v in row:
        total, weight = 0.0, 0.0
        for side in sides:
            for neighbour, shift, strength in side.get(v, ()):
                total += (x[neighbour] + shift) * strength
                weight += strength
        wanted.append(total / weight if weight else x[v])
        weights.append(weight or 0.05)
    x.update(zip(row, fit_in_order(wanted, weights, steps), strict=True))


def _measure_steps(row: Sequence[int], widths: Mapping[int, float], is_point: Callable[[int], bool]) -> list[float]:
    """Return the least distances between the centres of neighbours."""
    return [(widths[a] + widths[b]) / 2 + GAPS[is_point(a), is_point(b)] for a, b in pairwise(row)]


def _find_pulls(
    level: ScopeLevel, is_point: Callable[[int], bool], offset: Offset
) -> tuple[dict[int, list[Pull]], dict[int, list[Pull]]]:
    """Return what pulls each vertex from above and from below."""
    ends = [(link.source, link.target) for link in level.links]
    ports = {*level.entrances.values(), *level.exits.values()}
    points = {v for pair in ends for v in pair if is_point(v) and v not in ports}
    favourite_above = _find_favourites([(target, source) for source, target in ends], points)
    favourite_below = _find_favourites(ends, points)
    above: dict[int, list[Pull]] = {}
    below: dict[int, list[Pull]] = {}
    for i, link in enumerate(level.links):
        is_spine = favourite_above.get(link.target) == i == favourite_below.get(link.source)
        is_main = link.source not in points and link.target not in points
        strength = (MAIN_SPINE if is_main else SPINE) if is_spine else 1.0
        leaves = offset(link.source, link.net, is_source=True, is_reversed=link.reversed)
        arrives = offset(link.target, link.net, is_source=False, is_reversed=link.reversed)
        above.setdefault(link.target, []).append((link.source, leaves - arrives, strength))
        below.setdefault(link.source, []).append((link.target, arrives - leaves, strength))
    return above, below


def _find_favourites(pairs: Sequence[tuple[int, int]], points: Collection[int]) -> dict[int, int]:
    """Return which of its links each vertex would like to be straight: the first to a vertex of its own kind, point or not.

    A vertex with more than two links stands in the middle of them, unless one alone is of its kind.
    """
    links: dict[int, list[int]] = {}
    for i, (v, _) in enumerate(pairs):
        links.setdefault(v, []).append(i)
    favourites: dict[int, int] = {}
    for v, own in links.items():
        alike = [i for i in own if (pairs[i][1] in points) == (v in points)]
        if len(own) <= 2 or len(alike) == 1:
            favourites[v] = alike[0] if alike else own[0]
    return favourites


def fit_in_order(wanted: Sequence[float], weights: Sequence[float], steps: Sequence[float]) -> list[float]:
    """Return the positions nearest to the wanted ones, by weighted squares, whose distances are at least ``steps``."""
    offset, offsets = 0.0, [0.0]
    for step in steps:
        offset += step
        offsets.append(offset)
    blocks: list[tuple[float, float, int]] = []  # mean, weight, count
    for i, weight in enumerate(weights):
        mean, count = wanted[i] - offsets[i], 1
        while blocks and blocks[-1][0] > mean:
            other, its_weight, its_count = blocks.pop()
            mean = (mean * weight + other * its_weight) / (weight + its_weight)
            weight += its_weight
            count += its_count
        blocks.append((mean, weight, count))
    means = [mean for mean, _, count in blocks for _ in range(count)]
    return [mean + at for mean, at in zip(means, offsets, strict=True)]
