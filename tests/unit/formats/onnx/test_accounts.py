"""The account of the messages of files: what a rewrite loses is a fault, what goes with its owner is listed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import onnx.parser
import pytest
from msgspec.structs import replace
from onnx import TensorProto, helper

import graphshare as gs
from graphshare.errors import Fault, SelfCheckError
from graphshare.formats.model_format import RemovedMessage
from graphshare.formats.onnx.accounts import account, check_kept
from graphshare.formats.onnx.compose import add_metadata, restate_shapes
from graphshare.formats.onnx.graph_fields import VALUE_INFO
from graphshare.formats.onnx.stored import METADATA, NO_MESSAGES, get_source, replace_stored
from graphshare.ir.graph import Graph, Node
from graphshare.ir.rebuild import rebuild_graph

TEXT = """<ir_version: 8, opset_import: ["" : 17], producer_name: "maker"> g (float[2] x, bool c) => (float[2] y, float[2] h)
    <float[2] h, float[2] r, float[2] nothing>
    { h = Relu(x) r = Neg(h) y = If(c) <then_branch = t () => (float[2] a) <float[2] b> { b = Neg(r) a = Abs(b) },
      else_branch = e () => (float[2] d) { d = Identity(r) }> }"""


def write(folder: Path, change: Callable[[onnx.ModelProto], None] = lambda model: None) -> Path:
    model = onnx.parser.parse_model(TEXT)
    annotation = model.graph.quantization_annotation.add(tensor_name="r")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="h")
    change(model)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def list_faults(graph: Graph, source: Graph) -> list[str]:
    images = dict(zip(source.nodes, graph.nodes, strict=True))
    return [part.message for part in account(graph, [(source, images)]) if isinstance(part, Fault)]


def change_node(graph: Graph, name: str, change: Callable[[Node], Node]) -> Graph:
    return rebuild_graph(graph, lambda node: change(node) if node.name == name else node)[0]


def forget(node: Node) -> Node:
    return replace_stored(node, values=NO_MESSAGES)


def test_a_message_that_a_node_loses_is_a_fault(tmp_path: Path) -> None:
    graph = gs.load(write(tmp_path)).graph
    assert list_faults(graph, graph) == []
    lost = [f"the message of {name!r} in {kind} is lost" for kind, name in
            (("value_info", "r"), ("quantization_annotation", "r"))]  # fmt: skip
    changed = change_node(graph, "r", forget)
    assert list_faults(changed, graph) == lost
    with pytest.raises(SelfCheckError, match="the message of 'r' in value_info is lost"):
        check_kept(changed, graph)


def test_a_message_that_a_body_loses_is_a_fault(tmp_path: Path) -> None:
    graph = gs.load(write(tmp_path)).graph

    def change(node: Node) -> Node:
        body = change_node(node.subgraphs[0], "b", forget)
        return replace(node, subgraphs=(body, *node.subgraphs[1:]))

    assert list_faults(change_node(graph, "y", change), graph) == [
        "the message of 'b' in value_info is lost"
    ]


def test_what_a_body_says_beside_its_nodes_is_looked_for(tmp_path: Path) -> None:
    def orphan(model: onnx.ModelProto) -> None:
        model.graph.node[2].attribute[0].g.value_info[0].name = "none"

    graph = gs.load(write(tmp_path, orphan)).graph

    def change(node: Node) -> Node:
        body = node.subgraphs[0]
        poorer = replace(body, source=replace(get_source(body), rest=(), orphans=()))
        return replace(node, subgraphs=(poorer, *node.subgraphs[1:]))

    assert list_faults(change_node(graph, "y", change), graph) == [
        "the field name of a body is lost", "the message of 'none' in value_info is lost",
    ]  # fmt: skip
    removed = gs.extract(gs.load(write(tmp_path, orphan)), "h").removed
    assert [each.name for each in removed if each.reason == "the body is gone"] == ["none"]


def test_new_metadata_does_not_stand_for_lost_metadata(tmp_path: Path) -> None:
    def state(model: onnx.ModelProto) -> None:
        model.metadata_props.add(key="k", value="v")

    graph = gs.load(write(tmp_path, state)).graph
    source = get_source(graph)
    poorer = replace(
        source, fields=tuple([field for field in source.fields if field[0] != METADATA])
    )
    pooled = replace(graph, source=add_metadata(poorer, {"graphshare.pool.w": ""}))
    assert list_faults(pooled, graph) == ["the field metadata_props is lost"]


def test_fields_and_messages_on_no_value_that_are_lost_are_faults(tmp_path: Path) -> None:
    graph = gs.load(write(tmp_path)).graph
    source = get_source(graph)
    poorer = replace(source, fields=source.fields[2:], rest=(), orphans=())
    assert list_faults(replace(graph, source=poorer), graph) == [
        "the field producer_name is lost", "the field name is lost", "the message of 'nothing' in value_info is lost",
    ]  # fmt: skip


def test_a_list_that_was_not_read_as_a_whole_is_a_fault(tmp_path: Path) -> None:
    graph = gs.load(write(tmp_path)).graph
    source = get_source(graph)
    more = replace(
        graph,
        source=replace(source, counts={**source.counts, VALUE_INFO: source.counts[VALUE_INFO] + 1}),
    )
    assert list_faults(graph, more) == ["has 5 messages in value_info, but 4 were read"]


def test_what_goes_with_its_owner_is_listed(tmp_path: Path) -> None:
    path = write(tmp_path)
    part = gs.extract(path, "h")
    assert {(each.kind, each.name, each.reason) for each in part.removed} == {
        ("value_info", "r", "the value is gone"), ("value_info", "b", "the value is gone"),
        ("quantization_annotation", "r", "the value is gone"),
        *(("output", name, "the value is gone") for name in "yad"),
    }  # fmt: skip
    assert gs.rename(path, prefix="p_").removed == ()
    assert gs.extract(part, "h").removed == part.removed


def test_a_type_that_another_one_replaces_is_not_lost(tmp_path: Path) -> None:
    graph = gs.load(write(tmp_path)).graph
    changed = change_node(graph, "r", lambda node: restate_shapes(node, {0: (5,)}))
    assert changed.nodes[3].details.stored is not graph.nodes[3].details.stored
    assert list_faults(changed, graph) == []


def test_a_group_lists_what_the_first_model_has_alone(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()

    def change(model: onnx.ModelProto) -> None:
        model.producer_name, model.graph.name = "other", "other"
        model.metadata_props.add(key="k", value="2")
        model.graph.metadata_props.add(key="g", value="2")
        model.training_info.add()

    def state(model: onnx.ModelProto) -> None:
        model.metadata_props.add(key="k", value="1")

    other = write(tmp_path / "b", change)
    result = gs.group([write(tmp_path, state), other], prefixes=["a_", "b_"])
    reason = "the first model has one of its own"
    assert [(each.kind, each.name) for each in result.removed if each.reason == reason] == [
        ("producer_name", ""), ("metadata_props", "k"), ("training_info", ""), ("name", ""),
    ]  # fmt: skip
    assert (
        f"{other}: its metadata 'k', of which the first model has another value, is left out"
        in result.notes
    )
    gs.save(result, tmp_path / "out.onnx")
    written = onnx.load(tmp_path / "out.onnx")
    assert [each.key for each in written.graph.metadata_props] == ["g"]
    assert [each.name for each in written.graph.value_info].count("nothing") == 2


@pytest.mark.parametrize(("rename", "kept"), [("p_", True), ("noth", False)])
def test_a_message_on_no_value_does_not_become_one_on_another(
    rename: str, kept: bool, tmp_path: Path
) -> None:
    def name(model: onnx.ModelProto) -> None:
        model.graph.node[0].output[0] = model.graph.node[1].input[0] = model.graph.output[
            1
        ].name = "ing"
        model.graph.value_info[0].name = "ing"

    path = write(tmp_path, name)
    result = gs.rename(path, prefix=rename)
    gs.save(result, tmp_path / "out.onnx")
    names = [each.name for each in onnx.load(tmp_path / "out.onnx").graph.value_info]
    assert names == [f"{rename}ing", f"{rename}r", *(["nothing"] if kept else [])]
    reason = "the file has no such value, and another one has the name now"
    assert result.notes == (
        () if kept else (f"{path}: value_info of 'nothing' is left out: {reason}",)
    )
    assert result.removed == (
        () if kept else (RemovedMessage("value_info", "nothing", reason, str(path)),)
    )


def test_what_is_written_is_compared_with_the_source(tmp_path: Path) -> None:
    from graphshare.formats.onnx.read_back import check_written
    from graphshare.formats.onnx.write import encode_graph_file

    graph = gs.rename(write(tmp_path), prefix="p_").graph
    data = b"".join(encode_graph_file(graph).pieces())
    out = tmp_path / "out.onnx"

    def check(change: Callable[[onnx.ModelProto], object]) -> str:
        model = onnx.ModelProto.FromString(data)
        change(model)
        out.write_bytes(model.SerializeToString())
        try:
            check_written(str(out), graph, where="out")
        except SelfCheckError as error:
            return error.faults[0].message
        return ""

    assert check(lambda model: None) == ""
    says = "what {} says of {!r} reads back as something else"
    assert check(lambda model: model.graph.value_info.pop(0)) == says.format("value_info", "p_h")
    assert check(lambda model: model.graph.value_info.add(name="p_h")) == says.format(
        "value_info", "p_h"
    )
    assert check(lambda model: model.graph.value_info.pop(2)) == says.format(
        "value_info", "nothing"
    )
    assert check(lambda m: m.graph.node[2].attribute[0].g.value_info.pop()) == says.format(
        "value_info", "b"
    )
    assert check(
        lambda m: (
            m.graph.quantization_annotation[0].quant_parameter_tensor_names[0].ClearField("value")
        )
    ) == (says.format("quantization_annotation", "p_r"))
    assert check(lambda m: setattr(m.graph.input[0], "doc_string", "text")) == says.format(
        "input", "p_x"
    )
    assert check(lambda m: setattr(m.graph.output[0], "doc_string", "text")) == says.format(
        "output", "p_y"
    )
    assert (
        check(lambda m: setattr(m.graph, "doc_string", "text"))
        == "the fields of a graph read back as others"
    )
    assert (
        check(lambda m: m.ClearField("producer_name"))
        == "the fields of the model read back as others"
    )
    assert check(lambda m: setattr(m.graph.node[1], "doc_string", "text")) == says.format(
        "node", "p_r"
    )


def test_data_that_comes_back_has_the_form_that_it_had(tmp_path: Path) -> None:
    numbers = list(range(-300, 340))
    kinds = {
        "f": helper.make_tensor("f", TensorProto.FLOAT, [640], [*map(float, numbers)]),
        "d": helper.make_tensor("d", TensorProto.DOUBLE, [640], [*map(float, numbers)]),
        "i": helper.make_tensor("i", TensorProto.INT32, [640], numbers),
        "b": helper.make_tensor(
            "b", TensorProto.INT8, [1280], [number % 100 - 50 for number in numbers * 2]
        ),
        "l": helper.make_tensor("l", TensorProto.INT64, [640], numbers),
        "u": helper.make_tensor(
            "u", TensorProto.UINT32, [640], [number % 1000 for number in numbers]
        ),
        "r": helper.make_tensor("r", TensorProto.FLOAT, [640], bytes(2560), raw=True),
    }
    kinds["s"] = TensorProto.FromString(kinds["r"].SerializeToString())
    kinds["s"].name, kinds["s"].data_location, kinds["s"].doc_string = (
        "s",
        TensorProto.DEFAULT,
        "stated",
    )
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in kinds]
    outputs = [
        helper.make_tensor_value_info(f"{n}_out", t.data_type, list(t.dims))
        for n, t in kinds.items()
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [], outputs, [*kinds.values()]), ir_version=8
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    pooled, back = tmp_path / "pooled", tmp_path / "back"
    assert gs.pool([path], pooled).models[0].arrays == len(kinds)
    gs.pool([pooled / "m.onnx"], back, embed=True)
    assert (back / "m.onnx").read_bytes() == path.read_bytes()
