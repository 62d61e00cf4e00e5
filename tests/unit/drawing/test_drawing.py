"""Pictures: what stands in them, in all three languages."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given

import graphshare
from graphshare.api.draw import _nodes_at, draw
from graphshare.api.duplicate import duplicate
from graphshare.checkpoint.map_file import Place, parse_map
from graphshare.drawing import page
from graphshare.drawing.drawing import Drawing
from graphshare.drawing.languages import _escape_entities, _quote, format_dot, format_mermaid
from graphshare.drawing.page import _describe_box, _describe_sections, describe_boxes
from graphshare.drawing.palette import DARK, LIGHT, Paint, Palette
from graphshare.drawing.picture import (
    MAX_BOXES,
    AnnotatedGraph,
    Box,
    Line,
    Picture,
    Section,
    _choose_depth,
    _summarize_endings,
    make_picture,
)
from graphshare.drawing.scopes import ScopedName, _adopt_scopes, _split_name
from graphshare.errors import GraphshareError
from graphshare.formats.params.format import read_index
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.text.format import escape_control
from tests.processes import ROOT, write_json
from tests.surroundings import pick_everyday
from tests.symbols import Document, document, operator, variable
from tests.unit.text.test_markup import NAMES

HAS_DOT = pytest.mark.usefixtures("graphviz")


def lenet() -> Graph:
    return graphshare.load(ROOT / "fixtures" / "lenet-symbol.json").graph


def siam(mode: str = "tie") -> Graph:
    return duplicate(lenet(), ["sha-"], mode=mode).graph  # type: ignore[arg-type]


def scoped(mark: str, *, made_up: bool = False) -> Document:
    """Two stages of two units of two operators, parted by ``mark``; ``made_up`` lets MXNet name
    what joins the units.
    """
    nodes, last = [variable("data")], 0
    for stage in (1, 2):
        for unit in (1, 2):
            name = f"stage{stage}{mark}unit{unit}"
            nodes.append(variable(f"{name}{mark}conv_weight"))
            attrs = {"kernel": "(3, 3)", "num_filter": "4", "no_bias": "True", "pad": "(1, 1)"}
            nodes.append(
                operator("Convolution", f"{name}{mark}conv", [last, len(nodes) - 1], attrs=attrs)
            )
            nodes.append(
                operator(
                    "Activation", f"{name}{mark}relu", [len(nodes) - 1], attrs={"act_type": "relu"}
                )
            )
            last = len(nodes) - 1
            if made_up:
                nodes.append(operator("elemwise_add", f"_plus{len(nodes)}", [last, last]))
                last = len(nodes) - 1
    return document(nodes, [last])


def load(tmp_path: Path, found: Document) -> Graph:
    return graphshare.load(write_json(tmp_path / "g.json", found)).graph


def titles(picture: Picture, kind: str) -> list[str]:
    return [box.title for box in picture.boxes if box.kind == kind]


@pytest.mark.parametrize(("mark", "made_up"), [("/", False), ("_", False), ("_", True)])
def test_scopes_collapse_to_a_depth(mark: str, made_up: bool, tmp_path: Path) -> None:
    graph = load(tmp_path, scoped(mark, made_up=made_up))
    assert titles(draw(graph, depth=1).picture, "scope") == ["stage1", "stage2"]
    second = draw(graph, depth=2).picture
    assert titles(second, "scope") == ["unit1", "unit2", "unit1", "unit2"]
    assert [box.cluster for box in second.boxes if box.kind == "scope"] == [
        ("", f"stage{s}") for s in (1, 1, 2, 2)
    ]
    whole = draw(graph, depth=9).picture
    assert titles(whole, "scope") == []
    assert len(titles(whole, "operator")) == 8 + 4 * made_up
    assert titles(draw(graph, depth=0).picture, "scope") == ["graph"]


def test_a_shared_word_alone_is_not_a_scope(tmp_path: Path) -> None:
    nodes = [variable("x"), operator("broadcast_add", "broadcast_add0", [0, 0]), operator("relu", "act", [1]),
             operator("broadcast_add", "broadcast_add1", [2, 2]), operator("relu", "broadcast_relu", [0])]  # fmt: skip
    found = draw(load(tmp_path, document(nodes, [3, 4])), depth=1).picture
    assert titles(found, "scope") == []
    for op, scopes in (("relu", []), ("tanh", ["blk"])):  # one kind of connected operators, and two
        nodes = [
            variable("x"),
            operator("relu", "blk_one", [0]),
            operator(op, "blk_two", [1]),
            operator("relu", "other", [2]),
        ]
        assert (
            titles(draw(load(tmp_path, document(nodes, [3])), depth=1).picture, "scope") == scopes
        )


def test_names_have_at_most_sixteen_parts() -> None:
    parts = [f"p{i}" for i in range(17)]
    assert _split_name("/".join(parts[:16]), "/") == parts[:16]
    assert _split_name("/".join(parts), "/") == [*parts[:15], "p15/p16"]
    assert _split_name("/".join([*parts, "a"]), "/") == [*parts[:15], "p15/p16/a"]
    assert [_split_name(name, "/") for name in ("//a//b/", "", "//")] == [["a", "b"], [""], ["//"]]


def test_operators_that_mxnet_named_are_in_the_scope_of_their_first_input_that_has_one() -> None:
    x, conv, top = Node("", "x"), Node("Convolution", "s_conv0"), Node("tanh", "top")
    plus = Node("elemwise_add", "_plus3", inputs=(Entry(x), Entry(top), Entry(conv)))
    moved = [
        Node(op, name, inputs=(Entry(plus),))
        for op, name in (("Activation", "activation2"), ("_Plus", "plus8"))
    ]
    own = [
        Node(op, name, inputs=(Entry(plus),))
        for op, name in (("Convolution", "conv7"), ("relu", "relu"))
    ]
    own.append(Node("relu", "relu4", inputs=(Entry(top),)))
    names = {node: node.name for node in (conv, top, plus, *moved, *own)}
    parts = {node: [part for part in name.split("_") if part] for node, name in names.items()}
    _adopt_scopes(names, parts)
    assert [parts[node] for node in (plus, *moved)] == [
        ["s", "_plus3"],
        ["s", "activation2"],
        ["s", "plus8"],
    ]
    assert [parts[node] for node in (conv, top, *own)] == [
        ["s", "conv0"],
        ["top"],
        ["conv7"],
        ["relu"],
        ["relu4"],
    ]


def test_a_graph_of_one_operator_is_that_operator_at_any_depth() -> None:
    graph = Graph((node := Node("relu", "s/a"),), (Entry(node),))
    for depth in (0, 1, None):
        (box, _) = draw(graph, depth=depth).picture.boxes
        assert (box.kind, box.title, box.cluster) == ("operator", "s/a", ("",))


def test_operators_without_scopes_are_one_box_at_depth_0_alone() -> None:
    first = Node("relu", "a")
    graph = Graph((first, last := Node("tanh", "b", inputs=(Entry(first),))), (Entry(last),))
    assert [box.kind for box in draw(graph, depth=0).picture.boxes] == ["scope", "output"]
    assert [box.kind for box in draw(graph, depth=1).picture.boxes] == [
        "operator",
        "operator",
        "output",
    ]


@pytest.mark.parametrize(
    ("deepest", "counts", "depth"),
    [
        (0, {None: 200}, None),
        (3, {None: 80}, None),
        (4, {None: 81, 1: 10, 2: 80, 3: 81, 4: 1}, 2),
        (3, {None: 81, 1: 100, 2: 150}, 1),
        (3, {None: 81, 1: 1, 2: 2, 3: 3}, 3),
        (1, {None: 81}, 1),
    ],
)
def test_as_many_levels_are_open_as_fit_eighty_boxes(
    deepest: int, counts: dict[int | None, int], depth: int | None
) -> None:
    builder: Any = SimpleNamespace(
        names={
            Node("relu", "a"): ScopedName(("s",) * deepest, "a"),
            Node("relu", "b"): ScopedName((), "b"),
        },
        build=lambda depth: SimpleNamespace(boxes=[None] * counts[depth]),
    )
    assert _choose_depth(builder) == depth


def test_the_tip_of_a_shared_box_names_forty_parameters() -> None:
    parameters = [Node("", f"p{i}") for i in range(41)]
    users = [Node("add_n", name, inputs=tuple(map(Entry, parameters))) for name in "ab"]
    graph = AnnotatedGraph(
        Graph((*parameters, *users), tuple(map(Entry, users))), frozenset(parameters)
    )
    (box,) = [box for box in make_picture(graph, depth=None).boxes if box.kind == "shared"]
    assert (box.kind, box.title, box.tip) == (
        "shared",
        "41 shared parameters",
        ", ".join(f"p{i}" for i in range(40)),
    )


def test_branches_are_clusters_and_shared_parameters_are_outside() -> None:
    found = draw(siam()).picture
    assert found.branches == ["", "sha-"]
    shared = [number for number, box in enumerate(found.boxes) if box.kind == "shared"]
    assert len(shared) == 6  # a box for each operator that has parameters
    assert all(found.boxes[number].cluster is None for number in shared)
    for number in shared:
        users = [found.boxes[line.target] for line in found.lines if line.source == number]
        assert [(user.cluster, user.title) for user in users] == [
            (("",), users[0].title),
            (("sha-",), users[0].title),
        ]
        assert all(line.kind == "shared" for line in found.lines if line.source == number)


def test_copied_branches_share_nothing() -> None:
    found = draw(siam("copy")).picture
    assert found.branches == ["", "sha-"]
    assert titles(found, "shared") == titles(found, "parameter") == []
    assert len(titles(draw(siam("copy"), all_parameters=True).picture, "parameter")) == 32


def test_lines_show_shapes_also_those_of_twins() -> None:
    found = draw(siam(), shapes={"data": (1, 1, 28, 28)}).picture
    labels = [line.labels for line in found.lines if line.kind == "data"]
    assert all(labels)
    assert labels.count(["1×8×24×24"]) == 2 * sum(label == ["1×8×24×24"] for label in labels) // 2
    conv = next(box for box in found.boxes if box.title == "conv1")
    assert conv.lines == ["Convolution 5×5 8", "208 weights"]
    with pytest.raises(GraphshareError, match="names no variable"):
        draw(siam(), shapes={"dada": (1,)})


def test_shapes_of_an_old_file_and_of_a_parameter_file(tmp_path: Path) -> None:
    old = graphshare.load(ROOT / "fixtures/cases/duplicate/old-with-parameters/in/old.json")
    assert draw(old.graph).picture.boxes
    source = graphshare.load(ROOT / "fixtures" / "lenet")
    conv = next(box for box in draw(source).picture.boxes if box.title == "conv1")
    assert conv.lines[-1] == "208 weights"


def test_nodes_that_a_map_renamed_are_highlighted(tmp_path: Path) -> None:
    entries = {"conv1": "convX", "pool1": "pool1"}
    found = json.loads((ROOT / "fixtures" / "lenet-symbol.json").read_text())
    next(node for node in found["nodes"] if node["name"] == "conv1")["name"] = "convX"
    names, others = tmp_path / "names.json", tmp_path / "others.json"
    names.write_text(json.dumps(entries))
    others.write_text('{"a": "b"}')
    picture = draw(load(tmp_path, found), highlight=names).picture
    assert [(box.title, box.lines[-1]) for box in picture.boxes if box.mark == "highlight"] == [
        ("convX", "was conv1")
    ]
    with pytest.raises(GraphshareError, match="names no node"):
        draw(lenet(), highlight=others)
    with pytest.raises(GraphshareError, match="is not a map"):
        parse_map(b"[]", "m")


def test_a_prefix_that_no_operator_has_is_refused() -> None:
    with pytest.raises(GraphshareError, match="'x-'"):
        draw(lenet(), prefixes=["x-"])


def test_odd_names_survive_every_language(tmp_path: Path) -> None:
    name = 'a"b\\n<c>\n`d`;}]#x'
    graph = load(tmp_path, document([variable("x"), operator("relu", name, [0])], [1]))
    mermaid = draw(graph, to="mermaid").text
    assert 'n0["a#quot;b\\n#lt;c#gt;\\n#96;d#96;;}]#35;x<br/>relu"]' in mermaid
    assert len(mermaid.splitlines()) == len(
        draw(lenet_of_one(tmp_path), to="mermaid").text.splitlines()
    )
    assert 'a"b\\n<c>\\n`d`;}]#x' in svg_texts(draw(graph, to="svg"))


@given(NAMES)
def test_no_name_leaves_its_label(name: str) -> None:
    """A reader of DOT or Mermaid gets the name, without control characters and cut, and no directive."""
    shown = escape_control(name[:200])
    quoted = re.fullmatch(r'"((?:[^"\\\n]|\\.)*)"', _quote(name))
    assert quoted is not None
    assert re.sub(r"\\(.)", r"\1", quoted[1]) == shown
    label = _escape_entities(name)
    assert not re.search(r'["<>&`%\n]', label)
    assert (
        re.sub(
            r"#(\w+);",
            lambda match: unescape(f"&{'#' if match[1].isdigit() else ''}{match[1]};"),
            label,
        )
        == shown
    )


def lenet_of_one(tmp_path: Path) -> Graph:
    return load(tmp_path, document([variable("x"), operator("relu", "plain", [0])], [1]))


def svg_texts(drawn: Drawing) -> list[str]:
    root = ET.fromstring(drawn.text)
    return ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]


def test_svg_has_every_box_with_its_kind_and_a_dark_style() -> None:
    drawn = draw(siam(), to="svg", shapes={"data": (1, 1, 28, 28)})
    root = ET.fromstring(drawn.text)
    groups = [g.get("class") or "" for g in root.iter("{http://www.w3.org/2000/svg}g")]
    sorts = [g.split()[1] for g in groups if g.startswith("node ")]
    assert sorted(sorts) == sorted(box.kind for box in drawn.picture.boxes)
    assert sum(g.startswith("edge shared") for g in groups) == 12
    assert sum(g.startswith("cluster branch") for g in groups) == 2
    style = drawn.text[drawn.text.index("<style>") : drawn.text.index("</style>")]
    assert "prefers-color-scheme: dark" in style
    for kind in sorts:
        assert f".node.{kind} " in style
    assert "<style>" not in draw(siam(), to="svg", theme="dark").text


def test_operators_are_coloured_by_kind_unless_something_is_marked(tmp_path: Path) -> None:
    graph = load(
        tmp_path,
        document([variable("x"), operator("relu", "a", [0]), operator("add_n", "b", [1, 1])], [2]),
    )
    assert [(box.title, box.paint) for box in draw(graph).picture.boxes] == [
        ("a", "activation"), ("b", "arithmetic"), ("x", "input"), ("b_output", "output"),
    ]  # fmt: skip
    found = AnnotatedGraph(
        graph, frozenset(), marks={graph.nodes[1]: "added", graph.nodes[2]: "added"}
    )
    marked = make_picture(found, depth=None)
    assert [box.paint for box in marked.boxes] == ["added", "added", "input", "added"]
    assert [line.mark for line in marked.lines if marked.boxes[line.target].kind == "output"] == [
        "added"
    ]
    near = make_picture(msgspec.structs.replace(found, marks={graph.nodes[1]: "near"}), depth=None)
    assert [box.paint for box in near.boxes] == ["near", "operator", "input", "output"]


def test_each_output_has_a_box_and_a_line_with_its_shape(tmp_path: Path) -> None:
    nodes = [variable("x"), operator("SliceChannel", "parts", [0], attrs={"num_outputs": "2"})]
    graph = load(tmp_path, document(nodes, [[1, 1, 0], [1, 0, 0], [0, 0, 0]]))
    picture = draw(graph, shapes={"x": (4, 6)}).picture
    assert titles(picture, "output") == ["parts_output1", "parts_output0", "x"]
    lines = [line for line in picture.lines if picture.boxes[line.target].kind == "output"]
    assert [(picture.boxes[line.source].title, line.labels) for line in lines] == [
        ("parts", ["4×3"]), ("parts", ["4×3"]), ("x", ["4×6"]),
    ]  # fmt: skip


def test_a_parameter_that_is_an_output_is_drawn(tmp_path: Path) -> None:
    nodes = [
        variable("x"),
        variable("w_weight"),
        operator("FullyConnected", "w", [0, 1], attrs={"num_hidden": "4", "no_bias": "1"}),
    ]
    picture = draw(load(tmp_path, document(nodes, [2, 1]))).picture
    assert titles(picture, "parameter") == ["w_weight"]
    assert titles(picture, "output") == ["w_output", "w_weight"]


def test_the_texts_of_a_box_are_in_its_middle() -> None:
    space = "{http://www.w3.org/2000/svg}"
    checked = set()
    for group in ET.fromstring(draw(siam(), to="svg", shapes={"data": (1, 1, 28, 28)}).text).iter(
        f"{space}g"
    ):
        rect, texts = group.find(f"{space}rect"), group.findall(f"{space}text")
        if rect is None or not (group.get("class") or "").startswith("node "):
            continue
        top, height = float(rect.get("y", "")), float(rect.get("height", ""))
        heights = [float(text.get("y", "")) for text in texts]
        assert top < heights[0] <= heights[-1] < top + height
        # A text is above its line by most of its size.
        assert abs((heights[0] - 8.5 - top) - (top + height - heights[-1] - 2)) < 4
        assert {float(text.get("x", "")) for text in texts} == {
            float(rect.get("x", "")) + float(rect.get("width", "")) / 2
        }
        checked.add(len(texts))
    assert {2, 3} <= checked


@HAS_DOT
def test_a_refusal_of_graphviz_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphshare.drawing import languages

    with pytest.raises(GraphshareError, match="refuses"):
        languages.render_image("digraph {", "png")
    monkeypatch.setattr(languages, "LIMIT", 0.0)
    with pytest.raises(GraphshareError, match="did not finish"):
        languages.render_image("digraph { a }", "png")


@HAS_DOT
@pytest.mark.parametrize(("to", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_graphviz_draws_images(to: str, start: bytes) -> None:
    drawn = draw(siam(), to=to)
    assert drawn.data.startswith(start)
    assert drawn._repr_svg_() == draw(siam(), to="svg").text


def test_missing_graphviz_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GraphshareError, match="is not on the path"):
        draw(lenet(), to="png")
    assert draw(lenet(), to="dot").text.startswith("digraph")
    assert draw(lenet(), to="svg").text.startswith("<?xml")
    assert draw(lenet(), to="html").text.startswith("<!doctype html>")


def test_mermaid_subgraphs_are_closed(tmp_path: Path) -> None:
    for graph in (siam(), load(tmp_path, scoped("/")), load(tmp_path, scoped("_", made_up=True))):
        for depth in (None, 1, 2):
            lines = [
                line.strip() for line in draw(graph, to="mermaid", depth=depth).text.splitlines()
            ]
            opened = 0
            for line in lines:
                opened += line.startswith("subgraph ") - (line == "end")
                assert opened >= 0
            assert opened == 0
            drawn = set(re.findall(r"^(n\d+)[\[(]", "\n".join(lines), re.M))
            used = {end for line in lines if "->" in line for end in re.findall(r"\bn\d+\b", line)}
            assert used <= drawn


def test_an_input_beside_all_branches_is_in_no_cluster() -> None:
    boxes = [
        Box("operator", "a", [], ("a-",)),
        Box("operator", "b", [], ("b-",)),
        Box("input", "x", [], ("",)),
    ]
    text = format_mermaid(Picture(boxes, [], ["a-", "b-"], None))
    assert re.findall(r"^ *subgraph .*|^  n.*", text, re.M) == [
        '  n2(["x"]):::input', '  subgraph s0["a-"]', '  subgraph s1["b-"]'
    ]  # fmt: skip


_PLAIN = Palette(
    "b",
    "t",
    "l",
    "c",
    "f",
    "s",
    kinds={kind: Paint("f", "s", "t") for kind in LIGHT.kinds},
    marks={},
)
_TWO_BRANCHES = Picture(
    boxes=[
        Box("input", "data", [], ("",)),
        Box("operator", 'a"b', ["3x3", "#4"], ("", "stage", "unit"), operator_kind="layer"),
        Box("operator", "c", [], ("", "stage")),
        Box("shared", "w", ["2 of 3"], None),
        Box("operator", "d", [], ("x-",), mark="highlight", tip="tip"),
        Box("output", "e", [], ("x-",)),
    ],
    lines=[
        Line(0, 1, "data", ["1x4"]),
        Line(3, 1, "shared", []),
        Line(3, 4, "shared", ["1", "2", "3", "4"]),
        Line(3, 2, "shared", ["1", "2", "3"]),
        Line(1, 2, "control", []),
        Line(4, 5, "data", []),
    ],
    branches=["", "x-"],
    depth=None,
)
_ONE_BRANCH = Picture(
    [*_TWO_BRANCHES.boxes[:3], Box("parameter", "w", [], None)],
    [Line(3, 1, "data", [])],
    branches=[""],
    depth=None,
)
_DOT_HEAD = r"""digraph "g" {
  graph [rankdir=LR, bgcolor="b", fontcolor="t", fontname="Helvetica,Arial,sans-serif", fontsize=12,
         nodesep=0.3, ranksep=0.35, newrank=true, compound=true, pad=0.2]
  node [shape=box, style="filled,rounded", fontname="Helvetica,Arial,sans-serif", fontsize=11, margin="0.14,0.07", height=0.3]
  edge [color="l", fontcolor="t", fontname="Helvetica,Arial,sans-serif", fontsize=9, arrowsize=0.7]
  subgraph cluster_0 {
"""
_TWO_BRANCHES_DOT = r"""    label="original"; class="branch"; style="rounded,filled"; fillcolor="f";
    color="c"; fontcolor="t"; margin=10;
    n0 [label="data", PAINT, class="input", tooltip="data", shape=ellipse, style="filled"];
    subgraph cluster_1 {
      label="stage"; class="scope"; style="rounded,filled"; fillcolor="f";
      color="c"; fontcolor="t"; margin=10;
      subgraph cluster_2 {
        label="unit"; class="scope"; style="rounded,filled"; fillcolor="f";
        color="c"; fontcolor="t"; margin=10;
        n1 [label="a\"b\n3x3\n#4", PAINT, class="operator layer", tooltip="a\"b"];
      }
      n2 [label="c", PAINT, class="operator", tooltip="c"];
    }
  }
  subgraph cluster_3 {
    label="x-"; class="branch"; style="rounded,filled"; fillcolor="f";
    color="c"; fontcolor="t"; margin=10;
    n4 [label="d", PAINT, class="operator highlight", tooltip="tip", penwidth=1.8];
    n5 [label="e", PAINT, class="output", tooltip="e", shape=ellipse, style="filled"];
  }
  n3 [label="w\n2 of 3", PAINT, class="shared", tooltip="w", shape=cylinder, style="filled", labelloc=b, penwidth=1.8];
  n0 -> n1 [class="data", label=" 1x4 "];
  n3 -> n1 [class="shared", color="s", style=dashed, penwidth=1.4];
  n3 -> n4 [class="shared", label=" 1 \n 2 \n 3 \n … ", color="s", style=dashed, penwidth=1.4];
  n3 -> n2 [class="shared", label=" 1 \n 2 \n 3 ", color="s", style=dashed, penwidth=1.4];
  n1 -> n2 [class="control", style=dotted];
  n4 -> n5 [class="data"];
}
"""
_TWO_BRANCHES_MERMAID = r"""flowchart LR
  n3[("w<br/>2 of 3")]:::shared
  subgraph s0["original"]
    n0(["data"]):::input
    subgraph s1["stage"]
      n2["c"]:::operator
      subgraph s2["unit"]
        n1["a#quot;b<br/>3x3<br/>#35;4"]:::layer
      end
    end
  end
  subgraph s3["x-"]
    n4["d"]:::highlight
    n5(["e"]):::output
  end
  n0 -->|"1x4"| n1
  n3 -.-> n1
  n3 -.->|"1<br/>2<br/>3"| n4
  n3 -.->|"1<br/>2<br/>3"| n2
  n1 -.- n2
  n4 --> n5
"""
_ONE_BRANCH_DOT = r"""    label="stage"; class="scope"; style="rounded,filled"; fillcolor="f";
    color="c"; fontcolor="t"; margin=10;
    subgraph cluster_1 {
      label="unit"; class="scope"; style="rounded,filled"; fillcolor="f";
      color="c"; fontcolor="t"; margin=10;
      n1 [label="a\"b\n3x3\n#4", PAINT, class="operator layer", tooltip="a\"b"];
    }
    n2 [label="c", PAINT, class="operator", tooltip="c"];
  }
  n0 [label="data", PAINT, class="input", tooltip="data", shape=ellipse, style="filled"];
  n3 [label="w", PAINT, class="parameter", tooltip="w", shape=cylinder, style="filled", labelloc=b];
  n3 -> n1 [class="data"];
}
"""
_ONE_BRANCH_MERMAID = r"""flowchart LR
  n0(["data"]):::input
  n3[("w")]:::parameter
  subgraph s0["stage"]
    n2["c"]:::operator
    subgraph s1["unit"]
      n1["a#quot;b<br/>3x3<br/>#35;4"]:::layer
    end
  end
  n3 --> n1
"""


@pytest.mark.parametrize(
    ("picture", "dot", "mermaid"),
    [
        (_TWO_BRANCHES, _TWO_BRANCHES_DOT, _TWO_BRANCHES_MERMAID),
        (_ONE_BRANCH, _ONE_BRANCH_DOT, _ONE_BRANCH_MERMAID),
    ],
    ids=["two branches", "one branch"],
)
def test_the_whole_text_of_a_small_picture(picture: Picture, dot: str, mermaid: str) -> None:
    assert format_dot(picture, _PLAIN, title="g", direction="LR") == _DOT_HEAD + dot.replace(
        "PAINT", 'fillcolor="f", color="s", fontcolor="t"'
    )
    used = {box.paint for box in picture.boxes}
    classes = [
        f"  classDef {kind} fill:f,stroke:s,color:t\n" for kind in LIGHT.kinds if kind in used
    ]
    links = "  linkStyle 1,2,3 stroke:s\n" if picture is _TWO_BRANCHES else ""
    assert (
        format_mermaid(picture, palette=_PLAIN, direction="LR")
        == mermaid + "".join(classes) + links
    )


@pytest.mark.parametrize(
    ("branches", "paths", "clusters"),
    [
        ([""], [("", "")], [("", "scope")]),
        ([""], [("", "s", "t")], [("s", "scope"), ("t", "scope")]),
        (
            ["", "b-"],
            [("", ""), ("b-", "s")],
            [("original", "branch"), ("", "scope"), ("b-", "branch"), ("s", "scope")],
        ),
        (["", "b-"], [("",), ("c-",), ("b-",)], [("original", "branch"), ("b-", "branch")]),
    ],
)
def test_the_clusters_of_branches_and_scopes(
    branches: list[str], paths: list[tuple[str, ...]], clusters: list[tuple[str, str]]
) -> None:
    boxes = [Box("operator", f"n{i}", [], path) for i, path in enumerate(paths)]
    text = format_dot(Picture(boxes, [], branches, None), LIGHT, title="g")
    assert re.findall(r'label="([^"]*)"; class="(\w+)"; style=', text) == clusters
    depths = [
        line.index("n") // 2 for line in text.splitlines() if re.match(r" *n\d \[label", line)
    ]
    inside = [
        len(path) if branches == ["", "b-"] else len(path) - 1
        for path in paths
        if path[0] in branches
    ]
    assert sorted(depths) == sorted(
        [*(depth + 1 for depth in inside), *(1 for path in paths if path[0] not in branches)]
    )


def test_a_very_long_name_is_cut_in_dot() -> None:
    picture = Picture(
        [Box("operator", "a", [], None, tip="x" * 199 + "yz")], [], branches=[""], depth=None
    )
    assert f'tooltip="{"x" * 199}y"]' in format_dot(picture, _PLAIN, title="g", direction="LR")


@pytest.mark.parametrize(("count", "is_warned"), [(500, False), (501, True)])
def test_more_lines_than_mermaid_draws_are_remarked(
    count: int, is_warned: bool, tmp_path: Path
) -> None:
    nodes = [variable("x"), *(operator("relu", f"r{i}", [i]) for i in range(count - 1))]
    drawn = draw(load(tmp_path, document(nodes, [count - 1])), to="mermaid", depth=9)
    assert len(drawn.picture.lines) == count
    assert any("Mermaid draws 500 lines" in remark for remark in drawn.notes) == is_warned


def contrast(a: str, b: str) -> float:
    def luminance(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def list_faint_colours(palette: Palette) -> list[str]:
    """What is hard to see: text below a contrast of 7 to its fill, lines and outlines below 3 to the background."""
    paints = {**palette.kinds, **palette.marks}
    found = [kind for kind, paint in paints.items() if contrast(paint.fill, paint.text) < 7]
    found += [
        f"{kind} outline"
        for kind, paint in paints.items()
        if contrast(palette.background, paint.stroke) < 3
    ]
    lines = {"line": palette.line, "shared_line": palette.shared_line, "text": palette.text}
    return found + [
        name for name, color in lines.items() if contrast(palette.background, color) < 3
    ]


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_have_enough_contrast(palette: Palette) -> None:
    assert list_faint_colours(palette) == []


def test_a_faint_colour_is_found() -> None:
    kinds = {**LIGHT.kinds, "input": Paint("#888888", "#fefefe", "#999999")}
    assert list_faint_colours(msgspec.structs.replace(LIGHT, kinds=kinds)) == [
        "input",
        "input outline",
    ]


RESNET = re.compile(r"resnet-?50(_v1d?|_v2)?(-symbol)?$")


@pytest.mark.corpus
def test_every_real_graph_is_drawn(corpus: Path) -> None:
    """All of them in two languages, or everyday a part; those of ResNet-50 in a few boxes."""
    counts: dict[str, int] = {}
    paths = sorted((corpus / "graphs").glob("*.json"))
    chosen = {
        *pick_everyday(paths, 8, lambda path: path.name),
        *(path for path in paths if RESNET.search(path.stem)),
    }
    for path in sorted(chosen):
        graph = graphshare.load(path).graph
        drawn = draw(graph, depth=1)
        assert draw(graph, to="mermaid", depth=1).text.startswith("flowchart")
        assert drawn.text.count(" -> ") >= len(drawn.picture.lines)
        counts[path.stem] = len(drawn.picture.boxes)
    resnets = {name: count for name, count in counts.items() if RESNET.search(name)}
    assert len(resnets) >= 5
    assert max(resnets.values()) <= 40, resnets


def test_a_page_has_the_shape_of_each_parameter_that_is_known() -> None:
    for graph, shape in (
        (graphshare.load(ROOT / "fixtures" / "lenet"), "8\\u00d71\\u00d75\\u00d75"),
        (lenet(), ""),
    ):
        text = graphshare.draw(graph, to="html").text
        assert f'"conv1_weight":{{"shape":"{shape}","users":["conv1"],"count":1,' in text


@pytest.mark.parametrize(
    ("endings", "lines"),
    [
        (["weight"], ["weight"]),
        (["weight", "weight", "bias"], ["weight ×2, bias"]),
        (
            ["weight", "bias", "gamma", "beta", "moving_mean"],
            ["weight, bias", "gamma, beta", "moving_mean"],
        ),
        (
            ["weight", "bias", "gamma", "beta", "moving_mean", "moving_var"],
            ["weight, bias", "gamma, beta", "and 2 more kinds"],
        ),
    ],
)
def test_shared_parameters_are_counted_by_their_endings(
    endings: list[str], lines: list[str]
) -> None:
    nodes = [Node("", f"n{number}_{ending}") for number, ending in enumerate(endings)]
    assert _summarize_endings(nodes) == lines


@pytest.mark.parametrize(
    ("place", "found"),
    [
        (None, []), (Place(0, "a"), [0]), (Place(1, "a"), [1]), (Place(2, "b"), [2]), (Place(3, "b"), [3]),
        (Place(None, "b"), [2, 3]), (Place(0, "b"), [2, 3]), (Place(4, "b"), [2, 3]), (Place(-1, "b"), [2, 3]),
        (Place(2, "a"), [0, 1]), (Place(1, "c"), []),
    ],
)  # fmt: skip
def test_an_id_of_a_map_counts_where_its_name_fits_and_the_name_otherwise(
    place: Place | None, found: list[int]
) -> None:
    nodes = tuple(Node("", name) for name in "aabb")
    graph = Graph(nodes, ())
    assert [
        nodes.index(node) for node in _nodes_at(graph, place, {"a": nodes[:2], "b": nodes[2:]})
    ] == found


def test_the_first_of_two_files_with_an_array_of_one_name_counts_on_a_page(tmp_path: Path) -> None:
    loaded = load(tmp_path, document([variable("v"), variable("w")], [0, 1]))
    graph = AnnotatedGraph(loaded, frozenset(loaded.nodes))
    files = []
    for name, arrays in (
        ("a", {"arg:w": np.zeros(3, "f4")}),
        ("b", {"arg:v": np.ones(2, "f4"), "arg:w": np.ones(3, "f4")}),
    ):
        np.savez(tmp_path / f"{name}.npz", **arrays)
        files.append(read_index(tmp_path / f"{name}.npz"))
    rows = {name: table["rows"] for name, table in describe_boxes(graph, files).parameters.items()}
    first, second = (describe_boxes(graph, [file]).parameters for file in files)
    assert first["w"]["rows"] != second["w"]["rows"]
    assert rows == {"v": second["v"]["rows"], "w": first["w"]["rows"]}


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("input", "round"),
        ("output", "round"),
        ("shared", "cylinder"),
        ("parameter", "cylinder"),
        ("operator", ""),
        ("scope", ""),
    ],
)
def test_the_shape_of_a_box_on_a_page(kind: str, shape: str) -> None:
    assert _describe_box(Box(kind, "x", [], None), {})["shape"] == shape


def test_a_box_on_a_page_has_the_numbers_of_its_nodes_and_a_scope_has_none() -> None:
    nodes = (Node("relu", "a"), Node("relu", "b"))
    numbers = {nodes[0]: 4, nodes[1]: 7}
    assert _describe_box(Box("operator", "b", ["relu"], None, "added", nodes=nodes[1:], label="2×3"), numbers) == {
        "kind": "added", "shape": "", "texts": ["b", "relu"], "label": "2×3", "nodes": [7], "weights": None,
    }  # fmt: skip
    assert _describe_box(Box("scope", "s", [], None, nodes=nodes), numbers)["nodes"] == []
    assert _describe_box(Box("parameter", "w", [], None, nodes=nodes, weights=6), numbers) == {
        "kind": "parameter", "shape": "cylinder", "texts": ["w"], "label": "", "nodes": [4, 7], "weights": 6,
    }  # fmt: skip


def small_net() -> AnnotatedGraph:
    """An operator with two parameters, and one that reads its result."""
    x, w, v = (Node("", name) for name in "xwv")
    dense = Node("FullyConnected", "dense", {"num_hidden": "2"}, (Entry(x), Entry(w), Entry(v)))
    nodes = (x, w, v, dense, Node("relu", "y", inputs=(Entry(dense),)))
    return AnnotatedGraph(
        Graph(nodes, (Entry(nodes[-1]),)),
        frozenset((w, v)),
        shapes={(dense, 1): (9,), (x, 0): (1, 2), (w, 0): (2, 2), (dense, 0): (1, 3)},
        labels={dense: "was fc"},
        notes={dense: ("one",), nodes[-1]: ("two", "three")},
    )


def test_the_details_of_nodes_and_parameters_on_a_page(tmp_path: Path) -> None:
    graph = small_net()
    arrays: dict[str, Any] = {
        "w": np.array([[0, 1], [2, -3]], "f4"),
        "v": np.array([1, np.nan, np.inf], "f4"),
        "z": np.zeros(4, "f4"),
    }
    np.savez(tmp_path / "p.npz", **arrays)
    details = describe_boxes(graph, [read_index(tmp_path / "p.npz")])
    bins = {0: 1, 24: 1, 32: 1, 39: 1}  # of 40 from -3 to 2; the largest number is in the last one
    assert details.parameters == {
        "w": {
            "shape": "2×2", "users": ["dense"], "count": 1,
            "rows": [
                ("dtype", "float32"), ("size", "16 B"), ("min", "-3"), ("max", "2"), ("mean", "0"), ("std", "1.8708"),
                ("norm", "3.7417"), ("zeros", "1"), ("histogram", [bins.get(i, 0) for i in range(40)]),
            ],
        },
        "v": {
            "shape": "", "users": ["dense"], "count": 1,
            "rows": [
                ("dtype", "float32"), ("size", "12 B"), ("min", "1"), ("max", "1"), ("mean", "1"), ("std", "0"),
                ("norm", "1"), ("zeros", "0"), ("nans", "1"), ("infinities", "1"),
            ],
        },
    }  # fmt: skip
    assert details.notes == ()
    empty: dict[str, object] = {"attrs": [], "inputs": [], "parameters": [], "notes": []}
    assert list(details.nodes.values()) == [
        {**empty, "name": "x", "op": "variable", "outputs": ["1×2"]},
        {**empty, "name": "w", "op": "variable", "outputs": ["2×2"]},
        {**empty, "name": "v", "op": "variable", "outputs": ()},
        {
            "name": "dense", "op": "FullyConnected", "attrs": [("num_hidden", "2")], "inputs": [("x", "1×2")],
            "outputs": ["1×3", "9"], "parameters": ["w", "v"], "notes": ["was fc", "one"],
        },
        {**empty, "name": "y", "op": "relu", "inputs": [("dense", "1×3")], "outputs": (), "notes": ["two", "three"]},
    ]  # fmt: skip
    sections = [
        Section(
            "all", [("first", graph.graph.nodes[0]), ("last", graph.graph.nodes[4]), ("none", None)]
        )
    ]
    assert _describe_sections(sections, details) == [
        ["all", [["first", 0], ["last", 4], ["none", None]]]
    ]


@pytest.mark.parametrize(("most", "is_read"), [(28, True), (27, False)])
def test_more_bytes_of_parameters_than_a_page_reads_have_no_statistics(
    most: int, is_read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "_MOST_BYTES", most)
    np.savez(tmp_path / "p.npz", w=np.ones(4, "f4"), v=np.ones(3, "f4"))
    details = describe_boxes(small_net(), [read_index(tmp_path / "p.npz")])
    rows: Any = details.parameters["w"]["rows"]
    assert rows[:2] == [("dtype", "float32"), ("size", "16 B")]
    assert (len(rows) > 2) == is_read
    assert details.notes == (
        () if is_read else ("statistics are left out: the parameters have 28 B",)
    )


@pytest.mark.parametrize(("boxes", "depth"), [(MAX_BOXES, None), (MAX_BOXES + 1, 1)])
def test_scopes_that_are_closed_for_lack_of_room_are_remarked(
    boxes: int, depth: int | None, tmp_path: Path
) -> None:
    nodes = [variable("x"), *(operator("relu", f"r{i}", [i]) for i in range(boxes - 2 - 2 * 30))]
    for i in range(30):
        nodes += [
            operator(op, f"s{i}/{op}", [len(nodes) + j - 1])
            for j, op in enumerate(("relu", "tanh"))
        ]
    graph = load(tmp_path, document(nodes, [len(nodes) - 1]))
    remark = "scopes are open to depth 1; `depth=N` opens more or fewer"
    for to, depths in {"dot": (None,), "svg": (None, 1), "html": (None,)}.items():
        for wanted in depths:
            drawn = draw(graph, to=to, depth=wanted)  # type: ignore[arg-type]
            assert drawn.picture.depth == (wanted or depth)
            assert (remark in drawn.notes) == (depth == 1 and wanted is None and to != "html")


@pytest.mark.parametrize(
    ("alone", "is_shared"), [("", True), ("c", True), ("bc", False), ("ab", False)]
)
def test_what_one_of_two_graphs_has_alone_shares_nothing_with_the_rest(
    alone: str, is_shared: bool
) -> None:
    weight = Node("", "w")
    users = [Node("relu", name, inputs=(Entry(weight),)) for name in "abc"]
    graph = Graph((weight, *users), tuple(map(Entry, users)))
    found = AnnotatedGraph(
        graph, frozenset([weight]), alone=[node for node in users if node.name in alone]
    )
    assert ("shared" in {box.kind for box in make_picture(found, depth=None).boxes}) == is_shared
