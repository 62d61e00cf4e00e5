"""The layout of pictures: nothing overlaps, everything is inside its scope, and large graphs take little time."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphshare
from graphshare.api.draw import draw
from graphshare.api.duplicate import duplicate
from graphshare.drawing.layout.arrange import (
    MOST_POINTS,
    _find_ports,
    _sweep,
    arrange,
    count_crossings,
)
from graphshare.drawing.layout.levels import Layout, Link, ScopeLevel, build_levels, find_paths
from graphshare.drawing.layout.placement import (
    GUTTER_MARGIN,
    STACK_GAP,
    Rect,
    VertexPlacement,
    _measure_gaps,
    clamp_stack,
    fit_in_order,
    place,
    route_sideways,
)
from graphshare.drawing.layout.text_size import (
    LABEL_MARGIN,
    LINE_SIZE,
    LINE_STEP,
    PADDING,
    RIM,
    TITLE_SIZE,
    estimate_width,
    measure_box,
    measure_label,
    shorten_middle,
)
from graphshare.drawing.picture import Box, Line, Picture
from graphshare.ir.graph import Entry, Graph, Node
from tests.processes import ROOT, write_json
from tests.surroundings import pick_everyday
from tests.symbols import Document, document, operator, variable


def load(tmp_path: Path, found: Document) -> Graph:
    return graphshare.load(write_json(tmp_path / "g.json", found)).graph


def siam() -> Picture:
    lenet = graphshare.load(ROOT / "fixtures" / "lenet-symbol.json").graph
    return draw(duplicate(lenet, ["sha-"], mode="tie").graph).picture


def list_overlaps(layout: Layout, placement: VertexPlacement) -> list[tuple[int, int]]:
    """Boxes of one level that overlap, and vertices that stick out of their scope."""
    by_level: dict[int, list[int]] = {}
    for v in placement.rects:
        if layout.vertices[v].kind in ("box", "scope"):
            by_level.setdefault(layout.vertices[v].level, []).append(v)
    overlaps = []
    for number, vertices in by_level.items():
        vertices.sort(key=lambda v: placement.rects[v].y)
        for i, v in enumerate(vertices):
            a = placement.rects[v]
            for u in vertices[i + 1 :]:
                b = placement.rects[u]
                if b.y >= a.y + a.height - 1e-6:
                    break
                if a.x < b.x + b.width - 1e-6 and b.x < a.x + a.width - 1e-6:
                    overlaps.append((v, u))
            outer = layout.levels[number].vertex
            if outer >= 0 and not is_inside(a, placement.rects[outer]):
                overlaps.append((v, outer))
    return overlaps


def is_inside(inner: Rect, outer: Rect) -> bool:
    return (
        outer.x <= inner.x + 1e-6
        and outer.y <= inner.y + 1e-6
        and inner.x + inner.width <= outer.x + outer.width + 1e-6
        and inner.y + inner.height <= outer.y + outer.height + 1e-6
    )


def residual_net(count: int, scope: str = "") -> Document:
    """A net of ``count`` nodes whose blocks of ten nodes have two shortcuts; ``scope`` is a format
    of the block's number.
    """
    nodes, last, shortcut = [variable("data")], 0, 0
    for i in range(count - 1):
        kind = {3: "elemwise_mul", 9: "elemwise_add"}.get(i % 10, "relu")
        name = f"{scope.format(i // 1000, i // 10)}{kind}{i}"
        nodes.append(operator(kind, name, [last, shortcut] if kind != "relu" else [last]))
        last = len(nodes) - 1
        if i % 10 == 9:
            shortcut = last
    return document(nodes, [last])


@pytest.mark.parametrize("direction", ["TB", "LR", "BT", "RL"])
def test_nothing_overlaps_in_any_direction(direction: str, tmp_path: Path) -> None:
    graph = load(tmp_path, residual_net(200, "stage{0}/unit{1}/"))
    for picture in (siam(), draw(graph, depth=9).picture):
        layout = arrange(picture)
        placement = place(layout, direction=direction)
        assert set(layout.at) <= set(placement.rects)
        assert list_overlaps(layout, placement) == []
        first, second = (placement.rects[layout.at[box]] for box in (0, 1))
        assert {
            "TB": first.y < second.y,
            "BT": first.y > second.y,
            "LR": first.x < second.x,
            "RL": first.x > second.x,
        }[direction]


def test_an_overlap_is_found() -> None:
    layout = arrange(siam())
    placement = place(layout)
    a, b = layout.at[:2]
    placement.rects[a] = placement.rects[b]
    assert (a, b) in list_overlaps(layout, placement) or (b, a) in list_overlaps(layout, placement)


def test_branches_are_side_by_side_and_shared_parameters_between_them() -> None:
    picture = siam()
    layout = arrange(picture)
    rects = place(layout).rects
    left, right = (rects[level.vertex] for level in layout.levels if level.kind == "branch")
    assert left.y == right.y
    assert left.x + left.width < right.x
    for number, box in enumerate(picture.boxes):
        if box.kind == "shared":
            rect = rects[layout.at[number]]
            assert left.x + left.width < rect.x
            assert rect.x + rect.width < right.x
            users = [
                rects[layout.at[line.target]] for line in picture.lines if line.source == number
            ]
            assert [
                abs(user.y + user.height / 2 - rect.y - rect.height / 2) < 1 for user in users
            ] == [True, True]


def test_the_main_path_is_a_straight_line(tmp_path: Path) -> None:
    graph = load(tmp_path, residual_net(60))
    layout = arrange(draw(graph).picture)
    rects = place(layout).rects
    centres = [rects[v].x + rects[v].width / 2 for v in layout.at]
    assert max(centres) - min(centres) < 0.5  # pixels


def test_what_both_branches_need_is_outside_of_both(tmp_path: Path) -> None:
    nodes = [variable("x"), variable("b-x"), operator("relu", "one", [0]), operator("relu", "b-one", [1]),
             operator("elemwise_add", "loss", [2, 3])]  # fmt: skip
    picture = draw(load(tmp_path, document(nodes, [4])), prefixes=["b-"]).picture
    layout = arrange(picture)
    paths = {
        (picture.boxes[n].title, layout.levels[layout.vertices[v].level].path)
        for n, v in enumerate(layout.at)
    }
    assert paths == {
        ("loss", ()),
        ("loss_output", ()),
        ("one", ("",)),
        ("x", ("",)),
        ("one", ("b-",)),
        ("x", ("b-",)),
    }


@pytest.mark.parametrize("count", [3, 5000])
def test_what_some_operators_of_a_branch_need_of_others_is_outside_however_many_branches_there_are(
    count: int,
) -> None:
    nodes, heads = [Node("", "data")], []
    for number in range(count):
        prefix = f"b{number}-" if number else ""
        first = Node(
            "Activation", f"{prefix}first", inputs=(Entry(nodes[-1] if number == 2 else nodes[0]),)
        )
        apart = Node("Activation", f"{prefix}apart", inputs=(Entry(nodes[0]),))
        last = Node("add", f"{prefix}last", inputs=(Entry(first), Entry(apart)))
        nodes += (first, apart, last)
        heads.append(Entry(last))
    picture = draw(
        Graph(tuple(nodes), tuple(heads)), prefixes=[f"b{number}-" for number in range(1, count)]
    ).picture
    boxes = [
        (box, path)
        for box, path in zip(picture.boxes, find_paths(picture), strict=True)
        if box.kind == "operator"
    ]
    paths = {box.nodes[0].name: path for box, path in boxes}
    assert {name for name, path in paths.items() if not path} == {"b2-first", "b2-last"}
    assert len(set(paths.values())) == count + 1


def test_scopes_that_need_each_other_are_drawn(tmp_path: Path) -> None:
    nodes = [variable("x"), operator("relu", "a/one", [0]), operator("relu", "b/one", [1]), operator("tanh", "a/two", [2]),
             operator("tanh", "b/two", [3])]  # fmt: skip
    layout = arrange(draw(load(tmp_path, document(nodes, [4])), depth=9).picture)
    placement = place(layout)
    assert list_overlaps(layout, placement) == []
    assert any(link.reversed for level in layout.levels for link in level.links)


def test_one_source_for_everything_needs_few_points(tmp_path: Path) -> None:
    nodes = [variable("x"), variable("mask")]
    for i in range(600):
        nodes.append(
            operator(
                "elemwise_add",
                f"add{i}",
                [len(nodes) - 1 if i else 0, 1 if i % 2 else max(i // 2, 1)],
            )
        )
    layout = arrange(draw(load(tmp_path, document(nodes, [len(nodes) - 1]))).picture)
    points = sum(vertex.kind == "point" for vertex in layout.vertices)
    assert points <= MOST_POINTS * 602 + 1000
    assert layout.levels[0].long_links
    assert list_overlaps(layout, place(layout)) == []


@pytest.mark.large
def test_a_large_level_has_no_more_points_than_one_of_ten_thousand_members() -> None:
    """Each operator reads the one before it and one from far above."""
    nodes = [Node("", "x"), Node("relu", "first")]
    for i in range(11_000):
        nodes.append(
            Node(
                "elemwise_add",
                f"add{i}",
                inputs=(Entry(nodes[-1]), Entry(nodes[len(nodes) * 7 // 8])),
            )
        )
    layout = arrange(draw(Graph(tuple(nodes), (Entry(nodes[-1]),))).picture)
    points = sum(vertex.kind == "point" for vertex in layout.vertices)
    assert 100_000 < points <= MOST_POINTS * 10_000 + 1000
    assert layout.levels[0].long_links


def test_very_many_operators_without_edges_have_rows() -> None:
    nodes = tuple(Node("zeros", f"zero{i}") for i in range(40_000))
    layout = arrange(draw(Graph(nodes, tuple(map(Entry, nodes)))).picture)
    assert max(map(len, layout.levels[0].rows)) == 12
    assert len(layout.levels[0].rows) == 2 * -(-40_000 // 12)


def test_operators_without_edges_fill_rows(tmp_path: Path) -> None:
    nodes = [variable("x")] + [
        operator("zeros", f"zero{i}", [], attrs={"shape": "(1,)"}) for i in range(300)
    ]
    layout = arrange(draw(load(tmp_path, document(nodes, list(range(1, 301))))).picture)
    placement = place(layout)
    assert placement.width < 3000
    assert list_overlaps(layout, placement) == []


@pytest.mark.large
@pytest.mark.parametrize("scope", ["", "stage{0}/unit{1}/"])
def test_five_thousand_nodes_are_placed(scope: str, tmp_path: Path) -> None:
    graph = load(tmp_path, residual_net(5000, scope))
    placement = place(arrange(draw(graph, to="html").picture))
    assert len([v for v in placement.rects.values() if v.height > 0]) >= 5000


def test_crossings_are_counted() -> None:
    assert count_crossings([[1, 2], [3, 4]], {1: [(3, 0.5)], 2: [(4, 0.5)]}) == 0
    assert count_crossings([[1, 2], [3, 4]], {1: [(4, 0.5)], 2: [(3, 0.5)]}) == 1
    both = [(3, 0.5), (4, 0.5)]
    assert count_crossings([[1, 2], [3, 4]], {1: both, 2: both}) == 1
    # At two ports of one scope
    assert count_crossings([[1, 2], [3]], {1: [(3, 0.7)], 2: [(3, 0.3)]}) == 1


@pytest.mark.parametrize(
    ("row", "neighbours", "expected"),
    [
        ([5], {5: []}, [5]),
        # Between 0 and 1, as 7 stays at 1
        ([5, 6, 7], {5: [(2, 0.5)], 6: [(1, 0.5)], 7: []}, [6, 5, 7]),
        ([5, 6], {5: [(1, 0.5), (4, 0.5), (4, 0.5)], 6: [(2, 0.5)]}, [6, 5]),  # the mean of several
        # One of two without neighbours stays at its end
        ([5, 6], {5: [(4, 0.5), (3, 0.5)], 6: []}, [5, 6]),
        ([5, 6], {5: [(2, 0.9)], 6: [(2, 0.1)]}, [6, 5]),  # at two ports of one scope
        ([5, 6], {5: [(2, 1.0)], 6: [(3, 0.0)]}, [5, 6]),  # not beyond its place
        ([5, 6], {5: [(9, 0.5)], 6: []}, [5, 6]),  # a neighbour that is not in the row before
    ],
)
def test_a_row_is_sorted_by_the_places_of_neighbours(
    row: list[int], neighbours: dict[int, list[tuple[int, float]]], expected: list[int]
) -> None:
    above = {**{v: [] for v in range(1, 5)}, **neighbours}
    assert _sweep([[1, 2, 3, 4], row], above) == [[1, 2, 3, 4], expected]


def test_places_in_rows_of_one_and_two_vertices() -> None:
    free: dict[int, list[tuple[int, float]]] = {v: [] for v in range(10)}
    # The second of two stands at 1, as the last of five does.
    assert _sweep([[8, 9], [5, 1, 2, 3, 4]], {**free, 5: [(9, 0.5)]})[1] == [1, 2, 3, 5, 4]
    # A port moves the only vertex of a row by 0.4, beyond the second of five.
    assert _sweep([[9], [5, 1, 2, 3, 4]], {**free, 5: [(9, 0.9)]})[1] == [1, 5, 2, 3, 4]


def test_inputs_stand_in_the_order_of_the_ports_that_they_feed(tmp_path: Path) -> None:
    nodes, last = [variable("h0")], 0
    for t in range(8):
        nodes.append(variable(f"t{t}_data"))
        nodes.append(operator("elemwise_add", f"rnn/t{t}/add", [last, len(nodes) - 1]))
        nodes.append(operator("tanh", f"rnn/t{t}/tanh", [len(nodes) - 1]))
        last = len(nodes) - 1
    nodes.append(operator("relu", "out", [last]))
    picture = draw(load(tmp_path, document(nodes, [len(nodes) - 1])), depth=9).picture
    layout = arrange(picture)
    placement = place(layout)
    rnn = next(level for level in layout.levels if level.path == ("rnn",))
    inputs = [
        (placement.rects[layout.at[net]].x, placement.rects[port].x)
        for net, port in rnn.entrances.items()
    ]
    assert [port for _, port in sorted(inputs)] == sorted(port for _, port in inputs)


def test_positions_are_as_near_as_the_gaps_allow() -> None:
    assert fit_in_order([0, 10], [1, 1], [5]) == [0, 10]
    assert fit_in_order([0, 0], [1, 1], [6]) == [-3, 3]
    assert fit_in_order([0, 0], [1, 3], [8]) == [-6, 2]


@pytest.mark.corpus
def test_no_real_graph_has_boxes_that_overlap(corpus: Path) -> None:
    for path in pick_everyday(
        sorted((corpus / "graphs").glob("*.json")), 8, lambda path: path.name
    ):
        picture = draw(graphshare.load(path).graph).picture
        layout = arrange(picture)
        assert list_overlaps(layout, place(layout)) == [], path.name


def test_a_picture_without_scopes_has_one_level() -> None:
    picture = Picture([], [], [""], None)
    assert len(build_levels(picture).levels) == 1
    assert place(arrange(picture)).routes == []


def test_the_width_of_a_text_grows_with_its_letters_and_their_size() -> None:
    assert estimate_width("", 12) == 0
    assert (
        estimate_width("ab", 12)
        == pytest.approx(2 * estimate_width("a", 12))
        == pytest.approx(estimate_width("ab", 6) * 2)
    )
    narrow, usual, capital, wide, double = (
        estimate_width(text, 10) for text in ("i", "a", "A", "W", "\u5c42")
    )
    assert narrow < usual < capital < wide < double


def test_a_box_is_as_wide_as_its_widest_text_and_its_title_is_bold() -> None:
    title = "W" * 20
    width = estimate_width(title, TITLE_SIZE)
    assert measure_box(Box("operator", title, ["x"], None)) == (
        round(1.06 * width + 2 * PADDING),
        2 * PADDING - 4 + 2 * LINE_STEP,
    )
    assert measure_box(Box("parameter", title, [], None))[1] == 2 * PADDING - 4 + LINE_STEP + RIM
    line = estimate_width("W" * 30, LINE_SIZE)
    assert measure_box(Box("operator", "x", ["W" * 30], None))[0] == round(line + 2 * PADDING)
    assert measure_box(Box("operator", "x", [], None))[0] == 56


def test_a_long_text_keeps_both_ends() -> None:
    assert shorten_middle("abcdefghij", 10) == "abcdefghij"
    assert shorten_middle("abcdefghijk", 10) == "abcde…hijk"
    # Escapes are counted as they are drawn, also those on both sides of a cut through a very long text.
    assert shorten_middle("\x07" * 3, 10) == "\\x07\\…\\x07"
    assert shorten_middle("a" * 5 + "b" * 1000 + "c" * 4, 10) == "aaaaa…cccc"


def test_a_label_has_a_margin_and_no_label_has_none() -> None:
    assert measure_label("") == 0
    assert measure_label("ab") == round(estimate_width("ab", LINE_SIZE)) + LABEL_MARGIN


@pytest.mark.parametrize(
    ("consumer", "route"),
    [
        # Its centre is left of that of the box
        (Rect(95, 50, 30, 10), [(100, 10), (80, 10), (145, 55), (125, 55)]),
        (Rect(105, 50, 30, 10), [(140, 10), (160, 10), (85, 55), (105, 55)]),
        (Rect(200, 50, 30, 10), [(140, 10), (170, 10), (170, 55), (200, 55)]),
        (Rect(0, -20, 30, 10), [(100, 10), (65, 10), (65, -15), (30, -15)]),
    ],
)
def test_a_line_of_shared_parameters_leads_to_the_nearer_side(
    consumer: Rect, route: list[tuple[float, float]]
) -> None:
    assert route_sideways(Rect(100, 0, 40, 20), consumer) == route


def test_the_levels_of_a_picture_and_their_boxes() -> None:
    """A scope without a name is not the original branch where there is one branch alone."""
    boxes = [
        Box("operator", "a", [], ("", "", "s")), Box("operator", "b", [], ("", "", "s")), Box("operator", "c", [], ("", "t")),
        Box("shared", "w", [], None), Box("shared", "v", [], None),
    ]  # fmt: skip
    lines = [Line(0, 1, "data", []), Line(1, 2, "data", [])]
    lines += [
        Line(source, target, "shared", []) for source, target in ((3, 0), (3, 1), (4, 1), (4, 2))
    ]
    layout = build_levels(Picture(boxes, lines, [""], None))
    levels = [
        (level.path, level.title, level.kind, layout.boxes[level.box].title)
        for level in layout.levels[1:]
    ]
    assert levels == [
        (("",), "", "scope", ""),
        (("", "s"), "s", "scope", "s"),
        (("t",), "t", "scope", "t"),
    ]
    assert [layout.vertices[level.vertex].level for level in layout.levels[1:]] == [0, 1, 0]
    inside, outside = layout.levels[2].shared, layout.levels[0].shared
    assert [
        (layout.boxes[layout.vertices[each.vertex].content].title, each.consumers)
        for each in (*inside, *outside)
    ] == [("w", [layout.at[0], layout.at[1]]), ("v", [layout.at[1], layout.at[2]])]
    assert [layout.vertices[layout.at[number]].level for number in (3, 4)] == [2, 0]


@pytest.mark.parametrize(("is_chain", "has_gutter"), [(True, False), (False, True)])
def test_what_members_of_one_row_share_stands_between_them(
    is_chain: bool, has_gutter: bool
) -> None:
    boxes = [
        Box("operator", "a", [], ("",)),
        Box("operator", "b", [], ("",)),
        Box("shared", "w", [], None),
    ]
    lines = [
        *([Line(0, 1, "data", [])] if is_chain else []),
        Line(2, 0, "shared", []),
        Line(2, 1, "shared", []),
    ]
    layout = arrange(Picture(boxes, lines, [""], None))
    (shared,) = layout.levels[0].shared
    assert (shared.gutter >= 0) == has_gutter
    kinds = [[layout.vertices[v].kind for v in row] for row in layout.levels[0].rows]
    assert kinds == ([["box", "gutter", "box"]] if has_gutter else [["box"], ["box"]])


def plain_boxes(*names: str) -> list[Box]:
    return [
        Box("operator", name, [], ("", "s") if name.startswith("s/") else ("",)) for name in names
    ]


def data_lines(*pairs: tuple[int, int]) -> list[Line]:
    return [Line(source, target, "data", []) for source, target in pairs]


def test_the_short_side_of_a_detour_stands_where_it_ends_and_an_input_above_its_consumer() -> None:
    boxes = plain_boxes("x", "a", "b", "c", "end", "short", "side")
    pairs = ((0, 1), (1, 2), (2, 3), (3, 4), (0, 5), (5, 4), (6, 3))
    layout = arrange(Picture(boxes, data_lines(*pairs), [""], None))
    rows = [
        [layout.vertices[v].content for v in row if layout.vertices[v].kind == "box"]
        for row in layout.levels[0].rows
    ]
    assert [sorted(row) for row in rows] == [[0], [1], [2, 6], [3, 5], [4]]


def test_the_ports_of_a_scope_are_at_equal_distances() -> None:
    boxes = plain_boxes("a", "b", "s/c", "d", "e")
    lines = data_lines((0, 2), (1, 2), (2, 3), (2, 4))
    layout = arrange(Picture(boxes, lines, [""], None))
    ports = _find_ports(layout, layout.levels[1].vertex)
    assert ports.keys() == {(0, False), (1, False), (2, True)}
    assert sorted(ports.values()) == [pytest.approx(1 / 3), 0.5, pytest.approx(2 / 3)]
    assert ports[2, True] == 0.5
    assert _find_ports(layout, layout.at[0]) == {}


@pytest.mark.parametrize(
    ("labels", "text"),
    [([], ""), ([["2"]], "2"), ([["2"], ["3", "2"]], "2, 3"), ([["2"], ["3", "4"]], "3 shapes")],
)
def test_a_box_has_the_shapes_of_the_lines_that_start_there(
    labels: list[list[str]], text: str
) -> None:
    lines = [
        *(Line(0, 1, "data", each) for each in labels),
        Line(0, 1, "control", ["9"]),
        Line(2, 1, "data", ["9"]),
    ]
    picture = Picture([*plain_boxes("a", "b"), Box("input", "x", [], ("",))], lines, [""], None)
    assert [box.label for box in build_levels(picture).boxes] == [text, "", ""]


@pytest.mark.parametrize(
    ("at", "high", "expected"),
    [
        ([20, 60], 100, [20, 60]),
        ([5, 60], 100, [10, 60]),  # half of its height below the lower bound
        ([20, 30], 100, [20, 57]),  # 12 between them
        ([20, 95], 100, [20, 85]),
        ([80, 90], 100, [48, 85]),  # pushed back by the second
        ([40, 45], 60, [8, 45]),  # more than there is room for: the end counts
    ],
)
def test_a_stack_of_boxes_is_shifted_into_its_range(
    at: list[float], high: float, expected: list[float]
) -> None:
    assert clamp_stack(at, [20, 30], 0, high) == expected


def test_lines_to_the_side_have_more_room_between_rows() -> None:
    links = [Link(v, v + 1, 0, "data") for v in range(3)]
    level = ScopeLevel((), "", rows=[[0], [1], [2], [3]], links=links)
    assert _measure_gaps(level, {0: 0, 1: 0, 2: 100, 3: -5000}) == [26, 36, 78]
    assert _measure_gaps(ScopeLevel((), "", rows=[]), {}) == []


def test_inputs_need_no_branch() -> None:
    paths = [("",), ("b-",), ("b-",), ("b-",)]
    boxes = [Box("input" if i == 1 else "operator", "n", [], path) for i, path in enumerate(paths)]
    assert find_paths(Picture(boxes, data_lines((1, 2)), ["", "b-"], None)) == paths


def test_shared_boxes_of_one_gutter_are_stacked_in_it() -> None:
    boxes = [
        *plain_boxes("a", "b"),
        Box("shared", "w", ["64 weights"], None),
        Box("shared", "a longer name", [], None),
    ]
    lines = [Line(source, target, "shared", []) for source in (2, 3) for target in (0, 1)]
    layout = arrange(Picture(boxes, lines, [""], None))
    (gutter,) = {shared.gutter for shared in layout.levels[0].shared}
    rects = place(layout).rects
    (first_width, first_height), (second_width, second_height) = (
        measure_box(box) for box in boxes[2:]
    )
    assert rects[gutter].height == first_height + second_height + 2 * STACK_GAP
    assert rects[gutter].width == max(first_width, second_width) + 2 * GUTTER_MARGIN
    first, second = sorted((rects[layout.at[number]] for number in (2, 3)), key=lambda rect: rect.y)
    assert first.y + first.height + STACK_GAP <= second.y
    assert is_inside(first, rects[gutter])
    assert is_inside(second, rects[gutter])


@pytest.mark.parametrize("depth", range(5))
def test_a_shared_box_is_in_the_innermost_scope_around_its_consumers(depth: int) -> None:
    path = tuple("pqrst"[:depth])
    boxes = [
        *(Box("operator", name, [], ("", *path)) for name in "ab"),
        Box("shared", "w", [], None),
    ]
    layout = build_levels(
        Picture(boxes, [Line(2, 0, "shared", []), Line(2, 1, "shared", [])], [""], None)
    )
    assert [level.path for level in layout.levels if level.shared] == [path]
    assert layout.levels[layout.vertices[layout.at[2]].level].path == path
