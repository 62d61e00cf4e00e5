"""Arrange a picture: layers, order and gutters of all its levels."""

from __future__ import annotations

from graphshare.drawing.layout.layering import assign_layers
from graphshare.drawing.layout.levels import Layout, Vertex, build_levels, iterate_inside_out
from graphshare.drawing.layout.ordering import order_rows
from graphshare.drawing.picture import Picture


def arrange(picture: Picture) -> Layout:
    """Return the levels of ``picture`` with their rows in order; coordinates depend on which scopes are open."""
    layout = build_levels(picture)
    for number in iterate_inside_out(layout):
        assign_layers(layout, number)
        order_rows(layout, number)
    for number in range(len(layout.levels)):
        _add_gutters(layout, number)
    return layout


def _add_gutters(layout: Layout, number: int) -> None:
    """Keep a place in a row for boxes that members of this row share, right of the first of them."""
    level = layout.levels[number]
    place = {v: (row, i) for row, members in enumerate(level.rows) for i, v in enumerate(members)}
    by_place: dict[tuple[int, int], int] = {}
    for shared in level.shared:
        members = {next(v for v in layout.ancestors(c) if layout.vertices[v].level == number) for c in shared.consumers}
        places = sorted(place[v] for v in members)
        if len(places) < 2 or len({row for row, _ in places}) > 1:
            continue
        gutter = by_place.setdefault(places[0], len(layout.vertices))
        if gutter == len(layout.vertices):
            layout.vertices.append(Vertex("gutter", number, number))
        shared.gutter = gutter
    for row, i in sorted(by_place, reverse=True):
        _mirror(layout, level.rows[row][i])
        level.rows[row].insert(i + 1, by_place[row, i])


def _mirror(layout: Layout, vertex: int) -> None:
    """Reverse all rows inside a vertex left of a gutter: what stands alone beside its main path then stands outside."""
    pending = [vertex]
    while pending:
        v = pending.pop()
        if layout.vertices[v].kind == "scope":
            level = layout.levels[layout.vertices[v].content]
            for row in level.rows:
                row.reverse()
                pending += row
