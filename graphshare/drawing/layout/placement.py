"""Coordinates: the boxes of an arranged picture in the plane, and the paths of its lines.

``page/placement.js`` computes the same placement whenever a scope is folded; a test compares the
two. Everything is computed for data that flow down, then turned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, pairwise

import msgspec

from graphshare.drawing.layout.levels import Layout, Link, ScopeLevel, Vertex
from graphshare.drawing.layout.text_size import LINE_STEP, TITLE_BAR, title_width

PAD = 14.0
ROW_GAP = 26.0
SIDE_GAP = 60.0  # left of the boxes beside the rows
STACK_GAP = 12.0
GUTTER_MARGIN = 26.0
FLAT = ("LR", "RL")  # directions in which data flow across the page


class Rect(msgspec.Struct):
    """A vertex's top left corner and size."""

    x: float
    y: float
    width: float
    height: float


class Route(msgspec.Struct):
    """A line as cubic curves: the start, then two control points and the end of each.

    ``arrow`` is ``start``, ``end`` or empty.
    """

    points: list[tuple[float, float]]
    kind: str
    net: int
    arrow: str = ""


class VertexPlacement(msgspec.Struct):
    """The places of the vertices, the routes, and the total size."""

    rects: dict[int, Rect]
    routes: list[Route]
    width: float
    height: float


class _Inner(msgspec.Struct):
    """A placed level in its own coordinates: centres of the vertices, top and height of the rows."""

    x: dict[int, float]
    y: dict[int, float]
    tops: list[float]
    heights: list[float]
    width: float
    height: float
    shared: dict[int, tuple[float, float]] = {}


def place(layout: Layout, *, direction: str = "TB") -> VertexPlacement:
    """Return the coordinates of ``layout`` with all scopes open; data flow in ``direction``."""
    return _Placer(layout, direction).place()


class _Placer:
    def __init__(self, layout: Layout, direction: str) -> None:
        self.layout = layout
        self.direction = direction
        self.is_flat = direction in FLAT
        self.size = {
            v: measure_vertex(vertex, self.is_flat) for v, vertex in enumerate(layout.vertices)
        }
        for level in layout.levels:
            self._measure_gutters(level)
        self.pads = pads(direction)
        self.inner: dict[int, _Inner] = {}

    def _measure_gutters(self, level: ScopeLevel) -> None:
        """Make gutters as large as the stacks of boxes that stand in them."""
        for shared in level.shared:
            if shared.gutter < 0:
                continue
            width, height = self.size[shared.gutter]
            box_width, box_height = self.size[shared.vertex]
            width = max(width, box_width + 2 * GUTTER_MARGIN)
            self.size[shared.gutter] = (width, height + box_height + STACK_GAP)

    def place(self) -> VertexPlacement:
        for number in reversed(range(len(self.layout.levels))):  # inside out
            self._place_level(number)
        rects: dict[int, Rect] = {}
        routes: list[Route] = []
        origins = {0: (0.0, 0.0)}
        for number, level in enumerate(self.layout.levels):
            inner, (left, top) = self.inner[number], origins[number]
            centres = {v: (inner.x[v], inner.y[v]) for v in chain.from_iterable(level.rows)}
            for v, (x, y) in (centres | inner.shared).items():
                width, height = self.size[v]
                rects[v] = Rect(left + x - width / 2, top + y - height / 2, width, height)
                vertex = self.layout.vertices[v]
                if vertex.kind == "scope":
                    origins[vertex.content] = (rects[v].x, rects[v].y)
        for number, level in enumerate(self.layout.levels):
            routes += self._route_level(number, origins[number])
            routes += self._route_shared(level, rects)
        return self._turn(rects, routes)

    def _place_level(self, number: int) -> None:
        level, sizes = self.layout.levels[number], self.size
        left, top, right, bottom = self.pads if number else (PAD, PAD, PAD, PAD)
        x = self._assign_x(level)
        low = min((at - sizes[v][0] / 2 for v, at in x.items()), default=0.0)
        high = max((at + sizes[v][0] / 2 for v, at in x.items()), default=0.0)
        x = {v: at - low + left for v, at in x.items()}
        heights = [max((sizes[v][1] for v in row), default=0.0) for row in level.rows]
        gaps = [*_measure_gaps(level, x), 0.0]  # below the last row there is none
        tops, y_of = [], {}
        y = top
        for row, height, gap in zip(level.rows, heights, gaps, strict=False):
            tops.append(y)
            y_of.update(dict.fromkeys(row, y + height / 2))
            y += height + gap
        inner = _Inner(x, y_of, tops, heights, left + high - low + right, y + bottom)
        self.inner[number] = inner
        self._place_shared(number, inner)
        title = title_width(level.title) if number else 0.0
        # The title runs across the flow in TB and BT, along it in LR and RL.
        if self.is_flat:
            inner.height = max(inner.height, title)
        else:
            self._widen(inner, title)
        if level.vertex >= 0:
            self.size[level.vertex] = (inner.width, inner.height)

    def _assign_x(self, level: ScopeLevel) -> dict[int, float]:
        above, below = self._find_pulls(level)
        steps = [self._measure_steps(row) for row in level.rows]
        x: dict[int, float] = {}
        for vertices, gaps in zip(level.rows, steps, strict=True):
            at = -sum(gaps) / 2
            for v, step in zip(vertices, (*gaps, 0.0), strict=True):
                x[v] = at
                at += step
        rows = list(zip(level.rows, steps, strict=True))
        for number in range(SWEEPS):
            if number % 2 == 0:
                _move_rows(rows, [above], x)
            else:
                _move_rows(rows[::-1], [below], x)
        _move_rows(rows, [above, below], x)
        # Straight links get the last word from above, then the others move around them.
        spine = {v: [pull for pull in pulls if pull[2] >= SPINE] for v, pulls in above.items()}
        _move_rows(rows, [spine], x)
        _move_rows(rows[::-1], _hold_spines(above, below), x)
        return x

    def _measure_steps(self, row: Sequence[int]) -> list[float]:
        size, is_point = self.size, self._is_point
        return [
            (size[a][0] + size[b][0]) / 2 + GAPS[is_point(a), is_point(b)] for a, b in pairwise(row)
        ]

    def _find_pulls(self, level: ScopeLevel) -> tuple[dict[int, list[Pull]], dict[int, list[Pull]]]:
        ends = [(link.source, link.target) for link in level.links]
        ports = {*level.entrances.values(), *level.exits.values()}
        points = {v for pair in ends for v in pair if self._is_point(v) and v not in ports}
        favourite_above = _find_favourites([(target, source) for source, target in ends], points)
        favourite_below = _find_favourites(ends, points)
        above: dict[int, list[Pull]] = {}
        below: dict[int, list[Pull]] = {}
        for i, link in enumerate(level.links):
            # A link is straight only if both of its ends prefer it.
            is_spine = favourite_above.get(link.target) == i == favourite_below.get(link.source)
            is_main = link.source not in points and link.target not in points
            strength = (MAIN_SPINE if is_main else SPINE) if is_spine else 1.0
            leaves = self._offset(link.source, link.net, is_source=True, is_reversed=link.reversed)
            arrives = self._offset(
                link.target, link.net, is_source=False, is_reversed=link.reversed
            )
            above.setdefault(link.target, []).append((link.source, leaves - arrives, strength))
            below.setdefault(link.source, []).append((link.target, arrives - leaves, strength))
        return above, below

    def _is_point(self, v: int) -> bool:
        return self.layout.vertices[v].kind == "point"

    def _offset(self, v: int, net: int, *, is_source: bool, is_reversed: bool) -> float:
        """Return where the line of ``net`` meets a vertex, from its centre."""
        vertex = self.layout.vertices[v]
        if vertex.kind != "scope":
            return 0.0
        level = self.layout.levels[vertex.content]
        is_exit = is_source != is_reversed
        port = (level.exits if is_exit else level.entrances).get(net)
        if port is None:
            return 0.0
        inner = self.inner[vertex.content]
        return inner.x[port] - inner.width / 2

    def _widen(self, inner: _Inner, width: float) -> None:
        if width > inner.width:
            shift = (width - inner.width) / 2
            inner.x = {v: at + shift for v, at in inner.x.items()}
            inner.shared = {v: (at + shift, y) for v, (at, y) in inner.shared.items()}
            inner.width = width

    def _place_shared(self, number: int, inner: _Inner) -> None:
        """Place boxes of shared parameters at the height of their consumers, in gutters of rows or
        right of them all.
        """
        level = self.layout.levels[number]
        row_of = level.number_rows() if level.shared else {}
        columns: dict[int, dict[int, float]] = {}
        for shared in level.shared:
            wanted = [self._height_inside(consumer, number) for consumer in shared.consumers]
            columns.setdefault(shared.gutter, {})[shared.vertex] = sum(wanted) / len(wanted)
        for gutter, middles in columns.items():
            vertices = sorted(middles, key=middles.__getitem__)
            heights = [self.size[v][1] for v in vertices]
            steps = [(a + b) / 2 + STACK_GAP for a, b in pairwise(heights)]
            at = fit_in_order(sorted(middles.values()), [1.0] * len(vertices), steps)
            if gutter >= 0:
                x = inner.x[gutter]
                middle, half = inner.y[gutter], inner.heights[row_of[gutter]] / 2
                at = clamp_stack(at, heights, middle - half, middle + half)
            else:
                right = self.pads[2] if number else PAD
                widest = max(self.size[v][0] for v in vertices)
                x = inner.width - right + SIDE_GAP + widest / 2
                inner.width = x + widest / 2 + right
                low = inner.tops[0] if inner.tops else 0.0
                # Beside the rows the stack may be higher than they are; then the level grows.
                at = clamp_stack(at, heights, low, max(inner.height, at[-1] + heights[-1]))
                inner.height = max(inner.height, at[-1] + heights[-1] / 2 + PAD)
            inner.shared.update({v: (x, y) for v, y in zip(vertices, at, strict=True)})

    def _height_inside(self, vertex: int, number: int) -> float:
        """Return the y of a vertex in the coordinates of an enclosing level."""
        y = 0.0
        for v in self.layout.ancestors(vertex):
            level = self.layout.vertices[v].level
            y += self.inner[level].y[v] - (self.size[v][1] / 2 if v != vertex else 0.0)
            if level == number:
                break
        return y

    def _route_level(self, number: int, origin: tuple[float, float]) -> Iterable[Route]:
        level, inner = self.layout.levels[number], self.inner[number]
        row_of = level.number_rows()
        entrances, exits = set(level.entrances.values()), set(level.exits.values())
        for link in (*level.links, *level.long_links):
            points = self._link_points(
                link, inner, row_of, is_first=link.source in entrances, is_last=link.target in exits
            )
            head, arrow = (link.source, "start") if link.reversed else (link.target, "end")
            # Lines end at ports and points without an arrow; the box behind them gets it.
            if self.layout.vertices[head].kind != "box":
                arrow = ""
            shifted = [(origin[0] + x, origin[1] + y) for x, y in points]
            yield Route(shifted, link.kind, link.net, arrow)

    def _link_points(
        self, link: Link, inner: _Inner, row_of: dict[int, int], *, is_first: bool, is_last: bool
    ) -> list[tuple[float, float]]:
        upper, lower = row_of[link.source], row_of[link.target]
        xs = inner.x[link.source] + self._offset(
            link.source, link.net, is_source=True, is_reversed=link.reversed
        )
        xt = inner.x[link.target] + self._offset(
            link.target, link.net, is_source=False, is_reversed=link.reversed
        )
        y0 = inner.y[link.source] + self.size[link.source][1] / 2
        y1, y2 = inner.tops[upper] + inner.heights[upper], inner.tops[lower]
        y3 = inner.y[link.target] - self.size[link.target][1] / 2
        if is_first:
            y0 = 0.0
        elif self._is_point(link.source):
            y0 = inner.tops[upper]
        if is_last:
            y3 = inner.height
        elif self._is_point(link.target):
            y3 = y2
        middle = (y1 + y2) / 2
        # Straight down to the end of the row, so that the curve bends only between rows and meets
        # no box.
        return [
            (xs, y0),
            *_straight((xs, y0), (xs, y1)),
            (xs, middle),
            (xt, middle),
            (xt, y2),
            *_straight((xt, y2), (xt, y3)),
        ]

    def _route_shared(self, level: ScopeLevel, rects: dict[int, Rect]) -> Iterable[Route]:
        for shared in level.shared:
            box, net = rects[shared.vertex], self.layout.vertices[shared.vertex].content
            for consumer in shared.consumers:
                yield Route(route_sideways(box, rects[consumer]), "shared", net, "end")

    def _turn(self, rects: dict[int, Rect], routes: list[Route]) -> VertexPlacement:
        width, height = self.inner[0].width, self.inner[0].height

        def turn(x: float, y: float) -> tuple[float, float]:
            if self.direction in ("RL", "BT"):
                y = height - y
            return (y, x) if self.is_flat else (x, y)

        for v, rect in rects.items():
            x0, y0 = turn(rect.x, rect.y)
            x1, y1 = turn(rect.x + rect.width, rect.y + rect.height)
            rects[v] = Rect(min(x0, x1), min(y0, y1), abs(x1 - x0), abs(y1 - y0))
        for route in routes:
            route.points = [turn(x, y) for x, y in route.points]
        total = (height, width) if self.is_flat else (width, height)
        return VertexPlacement(rects, routes, *total)


def measure_vertex(vertex: Vertex, is_flat: bool) -> tuple[float, float]:
    """Return the size of a vertex with its label, across the flow and along it."""
    width, height = vertex.size
    if is_flat:
        return height, width + vertex.label
    return max(width, vertex.label), height + (LINE_STEP if vertex.label else 0.0)


def split_label(rect: Rect, vertex: Vertex, direction: str) -> tuple[Rect, tuple[float, float]]:
    """Return the rectangle of a vertex's box, and the middle of its label behind the box."""
    x, y, width, height = rect.x, rect.y, rect.width, rect.height
    is_first = direction in ("RL", "BT")  # against the axis, the label comes before the box
    if direction in FLAT:
        along = vertex.label
        before = along if is_first else 0.0
        middle = along / 2 if before else width - along / 2
        return Rect(x + before, y, width - along, height), (x + middle, y + height / 2)
    along = LINE_STEP if vertex.label else 0.0
    before = along if is_first else 0.0
    middle = along / 2 if before else height - along / 2
    return Rect(x, y + before, width, height - along), (x + width / 2, y + middle)


def pads(direction: str) -> tuple[float, float, float, float]:
    """Return the left, top, right and bottom padding of a scope before it is turned.

    The title bar is at the top afterwards.
    """
    bar = TITLE_BAR + 6
    return {
        "TB": (PAD, bar, PAD, PAD), "BT": (PAD, PAD, PAD, bar), "LR": (bar, PAD, PAD, PAD), "RL": (bar, PAD, PAD, PAD),
    }[direction]  # fmt: skip


def _straight(start: tuple[float, float], end: tuple[float, float]) -> list[tuple[float, float]]:
    return [start, end, end]


def route_sideways(box: Rect, consumer: Rect) -> list[tuple[float, float]]:
    """Return the route from a box of shared parameters to the nearer side of a consumer."""
    x0, y0 = box.x + box.width / 2, box.y + box.height / 2
    y1 = consumer.y + consumer.height / 2
    is_left = consumer.x + consumer.width / 2 < x0
    x0 = box.x if is_left else box.x + box.width
    x1 = consumer.x + consumer.width if is_left else consumer.x
    bend = max(abs(x1 - x0) / 2, 20.0) * (-1 if is_left else 1)
    return [(x0, y0), (x0 + bend, y0), (x1 - bend, y1), (x1, y1)]


def _measure_gaps(level: ScopeLevel, x: dict[int, float]) -> list[float]:
    """Return the heights between rows, more where links lead far to the side."""
    row_of = level.number_rows()
    gaps = [ROW_GAP] * max(len(level.rows) - 1, 0)
    for link in level.links:
        row = row_of[link.source]
        gaps[row] = max(
            gaps[row], min(ROW_GAP + abs(x[link.source] - x[link.target]) / 10, 3 * ROW_GAP)
        )
    return gaps


def clamp_stack(
    at: Sequence[float], heights: Sequence[float], low: float, high: float
) -> list[float]:
    """Shift a stack of boxes, given by their centres, into the range; push them together where they
    leave it.
    """
    at = list(at)
    bound = low
    for i, height in enumerate(heights):
        at[i] = max(at[i], bound + height / 2)
        bound = at[i] + height / 2 + STACK_GAP
    bound = high
    for i in range(len(at) - 1, -1, -1):
        at[i] = min(at[i], bound - heights[i] / 2)
        bound = at[i] - heights[i] / 2 - STACK_GAP
    return at


# By whether the left and the right neighbour are points.
GAPS = {(False, False): 22.0, (True, False): 16.0, (False, True): 16.0, (True, True): 10.0}
# Weights of links that should be straight: with points, and of the main path
SPINE, MAIN_SPINE = 64.0, 4096.0
SWEEPS = 6

# A neighbour, the position relative to itself where it pulls the vertex, and the weight
Pull = tuple[int, float, float]


def _hold_spines(
    above: Mapping[int, list[Pull]], below: Mapping[int, list[Pull]]
) -> list[dict[int, list[Pull]]]:
    """Return the pulls of the vertices without a straight link; the others are held."""
    held: dict[int, list[Pull]] = {}
    for v, pulls in chain(above.items(), below.items()):
        if any(strength >= SPINE for _, _, strength in pulls):
            held[v] = [(v, 0.0, MAIN_SPINE)]
    free_above = {v: pulls for v, pulls in above.items() if v not in held}
    free_below = {v: pulls for v, pulls in below.items() if v not in held}
    return [held, free_above, free_below]


def _move_rows(
    rows: Iterable[tuple[Sequence[int], Sequence[float]]],
    sides: Sequence[Mapping[int, list[Pull]]],
    x: dict[int, float],
) -> None:
    """Move the vertices of each row, given with its ``steps``, to where the pulls draw them."""
    for row, steps in rows:
        wanted, weights = [], []
        for v in row:
            total, weight = 0.0, 0.0
            for neighbour, shift, strength in chain.from_iterable(
                side.get(v, ()) for side in sides
            ):
                total += (x[neighbour] + shift) * strength
                weight += strength
            wanted.append(total / weight if weight else x[v])
            # A vertex without neighbours gives way to all others, but keeps its order.
            weights.append(weight or 0.05)
        x.update(zip(row, fit_in_order(wanted, weights, steps), strict=True))


def _find_favourites(pairs: Sequence[tuple[int, int]], points: Collection[int]) -> dict[int, int]:
    """Return the link of each vertex that should be straight: the first to a vertex of its own
    kind, point or not.

    A vertex with more than two links stands in the middle of them, unless one alone is of its kind.
    """
    links: dict[int, list[int]] = {}
    for i, (v, _) in enumerate(pairs):
        links.setdefault(v, []).append(i)
    favourites: dict[int, int] = {}
    for v, own in links.items():
        is_point = v in points
        alike = [i for i in own if (pairs[i][1] in points) == is_point]
        if len(own) <= 2 or len(alike) == 1:
            favourites[v] = alike[0] if alike else own[0]
    return favourites


def fit_in_order(
    wanted: Sequence[float], weights: Sequence[float], steps: Sequence[float]
) -> list[float]:
    """Return the positions nearest to the wanted ones, by weighted squares, at distances of at
    least ``steps``.
    """
    offset, offsets = 0.0, [0.0]
    for step in steps:
        offset += step
        offsets.append(offset)
    blocks: list[tuple[float, float, int]] = []  # mean, weight, count
    for i, weight in enumerate(weights):
        mean, count = wanted[i] - offsets[i], 1
        while blocks and blocks[-1][0] > mean:
            other, its_weight, its_count = blocks.pop()
            # Vertices that would overlap move as one block, to the mean of their wanted positions.
            mean = (mean * weight + other * its_weight) / (weight + its_weight)
            weight += its_weight
            count += its_count
        blocks.append((mean, weight, count))
    means = [mean for mean, _, count in blocks for _ in range(count)]
    return [mean + at for mean, at in zip(means, offsets, strict=True)]
