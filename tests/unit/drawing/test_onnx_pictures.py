"""Pictures of ONNX models: constants inside boxes, attributes on them, bodies and functions unfolded."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphshare as gs
from graphshare.drawing.merge import _place_bodies
from graphshare.drawing.picture import AnnotatedGraph, Box, Picture
from graphshare.drawing.unfold import OpenBody, unfold
from graphshare.ir.graph import Graph, Node

FLOAT = TensorProto.FLOAT


def value(name: str, shape: object = (1, 4)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, shape)


def draw_nodes(
    nodes: list[onnx.NodeProto],
    folder: Path,
    *,
    tensors: dict[str, np.ndarray] | None = None,
    inputs: tuple[onnx.ValueInfoProto, ...] = (),
    outputs: tuple[str, ...] = ("y",),
    functions: list[onnx.FunctionProto] | None = None,
    **settings: object,
) -> Picture:
    held = [numpy_helper.from_array(array, name) for name, array in (tensors or {}).items()]
    graph = helper.make_graph(
        nodes, "g", list(inputs) or [value("x")], [value(name, None) for name in outputs], held
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    path = folder / "m.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=functions or []),
        path,
    )
    return gs.draw(gs.load(path), **settings).picture  # type: ignore[arg-type]


def find(picture: Picture, title: str) -> Box:
    return next(box for box in picture.boxes if box.title == title)


def edges(picture: Picture) -> set[tuple[str, str]]:
    return {
        (picture.boxes[line.source].title, picture.boxes[line.target].title)
        for line in picture.lines
    }


def make_constant(name: str, array: object, dtype: str = "float32") -> onnx.NodeProto:
    return helper.make_node(
        "Constant", [], [name], value=numpy_helper.from_array(np.array(array, dtype))
    )


def test_constants_and_small_initializers_are_inside_what_uses_them(tmp_path: Path) -> None:
    nodes = [
        make_constant("low", -1.5),
        make_constant("last", 2**63 - 1, "int64"),
        helper.make_node("Clip", ["x", "low", "high"], ["clipped"]),
        helper.make_node("Reshape", ["clipped", "shape"], ["r"]),
        helper.make_node("Add", ["r", "high"], ["y"]),
        helper.make_node("Range", ["zero", "last", "one"], ["z"]),
    ]
    tensors = {
        "high": np.float32(6),
        "shape": np.array([2, 2]),
        "zero": np.array(0),
        "one": np.array(1),
    }
    picture = draw_nodes(nodes, tmp_path, tensors=tensors, outputs=("y", "z"))
    assert {box.title for box in picture.boxes} == {"x", "clipped", "r", "y", "z"}
    assert find(picture, "clipped").lines == ["Clip", "min = -1.5, max = 6"]
    assert find(picture, "r").lines == ["Reshape", "shape = [2, 2]"]
    assert find(picture, "y").lines == ["Add", "B = 6"]  # also where another box has it
    assert find(picture, "z").lines == ["Range", "start = 0, limit = ∞, delta = 1"]


def test_a_constant_that_is_an_output_is_a_box_and_a_weight_is_counted(tmp_path: Path) -> None:
    nodes = [
        make_constant("c", [1.0, 2.0]),
        make_constant("w", np.ones((4, 5))),
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["y"]),
    ]
    picture = draw_nodes(nodes, tmp_path, tensors={"b": np.ones(5, "f")}, outputs=("y", "c"))
    assert find(picture, "c").lines[0] == "Constant"
    assert find(picture, "m").lines == ["MatMul 5", "20 weights"]
    assert find(picture, "y").lines == ["Add", "5 weights"]


def test_tied_weights_are_still_a_box_of_their_own(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["y"]),
    ]
    picture = draw_nodes(nodes, tmp_path, tensors={"w": np.ones((4, 4), "f")})
    assert [box.title for box in picture.boxes if box.kind == "shared"] == ["w"]
    shown = draw_nodes([nodes[0], helper.make_node("Add", ["a", "s"], ["y"])], tmp_path, all_parameters=True,
                       tensors={"w": np.ones((4, 4), "f"), "s": np.float32(2)})  # fmt: skip
    assert [box.title for box in shown.boxes if box.kind == "parameter"] == ["w", "s"]


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (
            helper.make_node(
                "Conv", ["x", "w"], ["y"], kernel_shape=[3, 5], strides=[2, 2], pads=[1, 2, 1, 2]
            ),
            "Conv 3×5 8 /2",
        ),
        (
            helper.make_node(
                "Conv", ["x", "w"], ["y"], kernel_shape=[3, 5], strides=[2, 1], group=2
            ),
            "Conv 3×5 8 /2×1 group 2",
        ),
        (
            helper.make_node("ConvTranspose", ["x", "w"], ["y"], kernel_shape=[3, 5], group=2),
            "ConvTranspose 3×5 6 group 2",
        ),
        (helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2]), "MaxPool 2×2"),
        (
            helper.make_node("Transpose", ["x"], ["y"], perm=[0, 2, 3, 1]),
            "Transpose perm [0, 2, 3, 1]",
        ),
        (helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT16), "Cast float16"),
        (helper.make_node("Softmax", ["x"], ["y"], axis=-1), "Softmax axis -1"),
        (helper.make_node("Relu", ["x"], ["y"]), "Relu"),
    ],
)
def test_a_box_shows_kernel_filters_stride_and_the_like(
    node: onnx.NodeProto, text: str, tmp_path: Path
) -> None:
    tensors = {"w": np.ones((8, 3, 3, 5), "f")} if "w" in node.input else {}
    assert (
        find(draw_nodes([node], tmp_path, tensors=tensors, inputs=(value("x", None),)), "y").lines[
            0
        ]
        == text
    )


def make_branches() -> list[onnx.NodeProto]:
    then = helper.make_graph(
        [helper.make_node("Mul", ["h", "h"], ["a/squared"]), helper.make_node("Relu", ["a/squared"], ["a/out"])],
        "then", [], [value("a/out", None)],
    )  # fmt: skip
    other = helper.make_graph(
        [helper.make_node("Neg", ["h"], ["minus"])], "other", [], [value("minus", None)]
    )
    return [
        helper.make_node("Abs", ["x"], ["h"]),
        helper.make_node("If", ["flag"], ["chosen"], then_branch=then, else_branch=other),
        helper.make_node("Exp", ["chosen"], ["y"]),
    ]


def flag() -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info("flag", TensorProto.BOOL, ())


def test_bodies_of_an_if_unfold(tmp_path: Path) -> None:
    picture = draw_nodes(make_branches(), tmp_path, inputs=(value("x"), flag()))
    inside = {box.title: (box.cluster or ())[1:] for box in picture.boxes if box.kind == "operator"}
    assert inside == {
        "h": (), "squared": ("chosen", "then_branch"), "out": ("chosen", "then_branch"),
        "minus": ("chosen", "else_branch"), "chosen": ("chosen",), "y": (),
    }  # fmt: skip
    assert edges(picture) >= {
        ("h", "squared"),
        ("h", "minus"),
        ("out", "chosen"),
        ("minus", "chosen"),
        ("flag", "chosen"),
    }
    assert ("h", "chosen") not in edges(picture)  # what a body captures is read in it
    half = draw_nodes(make_branches(), tmp_path, inputs=(value("x"), flag()), depth=2)
    clusters = {box.title: (box.kind, box.cluster) for box in half.boxes if (box.cluster or ())[1:]}
    assert clusters == {
        "then_branch": ("scope", ("", "chosen")), "else_branch/minus": ("operator", ("", "chosen")),
        "chosen": ("operator", ("", "chosen")),
    }  # fmt: skip
    folded = draw_nodes(make_branches(), tmp_path, inputs=(value("x"), flag()), depth=1)
    assert find(folded, "chosen").kind == "scope"
    assert edges(folded) == {
        ("x", "h"),
        ("h", "chosen"),
        ("flag", "chosen"),
        ("chosen", "y"),
        ("y", "y"),
    }


def test_the_inputs_of_a_loop_are_inside_it(tmp_path: Path) -> None:
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "v"], ["w"]), helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, ()),
            helper.make_tensor_value_info("c", TensorProto.BOOL, ()),
            value("v"),
        ],
        [helper.make_tensor_value_info("d", TensorProto.BOOL, ()), value("w")],
    )
    nodes = [helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)]
    picture = draw_nodes(nodes, tmp_path, tensors={"count": np.array(3)})
    assert find(picture, "v").cluster == ("", "y", "body")
    assert find(picture, "y").lines == ["Loop", "M = 3"]
    assert edges(picture) >= {("v", "w"), ("w", "y"), ("x", "y"), ("c", "d")}
    folded = draw_nodes(nodes, tmp_path, tensors={"count": np.array(3)}, depth=1)
    assert [(box.kind, box.title) for box in folded.boxes] == [
        ("scope", "y"),
        ("input", "x"),
        ("output", "y"),
    ]


def make_function(name: str, called: str) -> onnx.FunctionProto:
    nodes = [helper.make_node(called, ["a"], ["b"], domain="own" if called.startswith("F") else ""),
             helper.make_node("Relu", ["b"], ["c"])]  # fmt: skip
    return helper.make_function(
        "own",
        name,
        ["a"],
        ["c"],
        nodes,
        [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
    )


def test_functions_that_a_model_calls_unfold(tmp_path: Path) -> None:
    functions = [make_function("Inner", "Neg"), make_function("Outer", "Inner")]
    functions[1].node[0].domain = "own"
    nodes = [
        helper.make_node("Outer", ["x"], ["h"], domain="own"),
        helper.make_node("Outer", ["h"], ["y"], domain="own"),
    ]
    picture = draw_nodes(nodes, tmp_path, functions=functions)
    kinds = [box.lines[0] for box in picture.boxes if box.kind == "operator"]
    assert kinds.count("Neg") == 2  # one for each call
    assert kinds.count("Relu") == 4
    assert next(box.cluster for box in picture.boxes if box.lines[0] == "Neg") == (
        "",
        "h",
        "function",
        "b",
        "function",
    )


def test_functions_that_call_each_other_over_and_over_end(tmp_path: Path) -> None:
    functions = [make_function("F0", "Neg")]
    for level in range(1, 14):
        functions.append(make_function(f"F{level}", f"F{level - 1}"))
        functions[-1].node[1].CopyFrom(
            helper.make_node(f"F{level - 1}", ["b"], ["c"], domain="own")
        )
    draw_nodes([helper.make_node("F13", ["x"], ["y"], domain="own")], tmp_path, functions=functions)
    assert len(unfold(gs.load(tmp_path / "m.onnx").graph).graph.nodes) < 1000  # of 16,000 calls


@pytest.mark.parametrize(("levels", "innermost"), [(11, 1), (12, 0)])
def test_functions_unfold_to_the_twelfth_level(levels: int, innermost: int, tmp_path: Path) -> None:
    functions = [make_function("F0", "Neg")]
    functions += [make_function(f"F{level}", f"F{level - 1}") for level in range(1, levels + 1)]
    draw_nodes(
        [helper.make_node(f"F{levels}", ["x"], ["y"], domain="own")], tmp_path, functions=functions
    )
    unfolded = unfold(gs.load(tmp_path / "m.onnx").graph)
    ops = Counter(node.op for node in unfolded.graph.nodes)
    assert (ops["Relu"], ops["Neg"]) == (12, innermost)
    assert sorted({body.depth for body in unfolded.bodies.values()}) == list(range(12))


def test_two_hundred_calls_of_functions_unfold(tmp_path: Path) -> None:
    nodes = [helper.make_node("F0", ["x"], [f"y{i}"], domain="own") for i in range(202)]
    outputs = tuple(f"y{i}" for i in range(202))
    draw_nodes(nodes, tmp_path, functions=[make_function("F0", "Neg")], outputs=outputs)
    unfolded = unfold(gs.load(tmp_path / "m.onnx").graph)
    assert sum(node.op == "Neg" for node in unfolded.graph.nodes) == 200
    assert len(unfolded.bodies) == 2 * 200


def test_a_body_that_two_operators_have_is_drawn_twice(tmp_path: Path) -> None:
    draw_nodes(make_branches(), tmp_path, inputs=(value("x"), flag()))
    copied = gs.duplicate(gs.load(tmp_path / "m.onnx"), "p_", mode="tie")
    unfolded = unfold(copied.graph)
    assert sum(node.op == "Neg" for node in unfolded.graph.nodes) == 2
    assert len(set(unfolded.graph.nodes)) == len(unfolded.graph.nodes)
    picture = gs.draw(copied).picture
    assert {(box.cluster or ("?",))[0] for box in picture.boxes if "Neg" in box.lines} == {"", "p_"}


def test_a_graph_without_bodies_is_its_own_image() -> None:
    graph = gs.load(Path(__file__).parents[3] / "fixtures" / "lenet-symbol.json").graph
    assert unfold(graph).graph is graph


def test_values_of_unknown_type_are_noted(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["known"]),
        helper.make_node("Mine", ["known"], ["odd"], domain="own"),
    ]
    draw_nodes([*nodes, helper.make_node("Relu", ["odd"], ["y"])], tmp_path)
    (note,) = gs.draw(gs.load(tmp_path / "m.onnx"), to="dot", depth=1).notes
    assert note.startswith("unknown dtype or rank of 2 values (odd, y): ")


def test_a_node_of_one_graph_alone_is_in_the_body_of_its_neighbours_or_in_one_of_its_owner() -> (
    None
):
    names = ("in_body", "other", "outside", "alone", "lonely", "moved", "owner")
    a, b = ({name: Node("Abs", name) for name in names} for _ in range(2))
    bodies = [OpenBody("then", 0, a["owner"]), OpenBody("else", 0, a["owner"])]
    inside = {"in_body": bodies[0], "alone": bodies[0], "moved": bodies[0], "lonely": bodies[1]}
    left = AnnotatedGraph(
        Graph((), ()), frozenset(), bodies={a[name]: body for name, body in inside.items()}
    )
    twin = OpenBody("then", 0, b["owner"])
    right = AnnotatedGraph(
        Graph((), ()),
        frozenset(),
        bodies={b["in_body"]: twin, b["other"]: OpenBody("else", 0, b["owner"])},
    )
    images = {a[name]: b[name] for name in ("in_body", "other", "outside", "moved", "owner")}
    places = _place_bodies(left, right, images, {a[name]: b[name] for name in ("alone", "lonely")})
    assert places.pop(b["alone"]) is twin
    assert [(node, body.key, body.owner) for node, body in places.items()] == [
        (b["lonely"], "else", b["owner"])
    ]


def test_shared_parameters_with_named_sizes_are_drawn(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("MatMul", ["h", "a"], ["y"]),
    ]
    inputs = (value("x", (4, 4)), value("a", (4, "n")))
    picture = draw_nodes(
        nodes, tmp_path, tensors={"a": np.zeros((4, 4), np.float32)}, inputs=inputs
    )
    assert (find(picture, "a").lines, find(picture, "a").weights) == (["4×n", "? weights"], None)
