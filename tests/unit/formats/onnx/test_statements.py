"""What ONNX models state beyond their nodes: what counts at all, and what counts for the values that are computed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import ModelProto, helper

import graphshare as gs
from graphshare.formats.model_format import find_statement_changes
from graphshare.formats.onnx.decode import read_model
from graphshare.ir.compare import compare_structure
from tests.processes import ROOT
from tests.seam.placed import apply_add, body_of, declare, knobs, place, tensor, write

Edit = Callable[[ModelProto], object]


def calling(where: str = "graph") -> ModelProto:
    """A model that calls one of two functions, of a domain of their own, in the graph or in a body."""
    model = place(
        where, [helper.make_node("Composed", ["left", "right"], ["answer"], domain="own")]
    )
    imports = [
        helper.make_opsetid("", 18),
        helper.make_opsetid("test.operators", 1),
        helper.make_opsetid("unread", 1),
    ]
    for name in ("Composed", "Idle"):
        model.functions.append(
            helper.make_function("own", name, ["left", "right"], ["answer"], knobs(), imports)
        )
    return model


def list_changes(
    folder: Path, left: ModelProto, right: ModelProto, *, computed: bool
) -> list[tuple[str | None, ...]]:
    graphs = [
        read_model(str(write(folder / f"{name}.onnx", model)))
        for name, model in (("left", left), ("right", right))
    ]
    pairs = compare_structure(graphs[0].heads, graphs[1].heads).pairs
    return [
        (c.what, c.key, c.old, c.new)
        for c in find_statement_changes(*graphs, pairs, computed=computed)
    ]


def change(model: ModelProto, edit: Edit) -> ModelProto:
    edited = ModelProto()
    edited.CopyFrom(model)
    edit(edited)
    return edited


def set_import(domain: str, version: int) -> Edit:
    def edit(model: ModelProto) -> None:
        next(opset for opset in model.opset_import if opset.domain == domain).version = version

    return edit


def add_unused_node(model: ModelProto) -> None:
    model.functions[0].node.append(helper.make_node("Relu", ["left"], ["unread"]))


EDITS: dict[str, tuple[Edit, tuple[str | None, ...], bool]] = {
    "a used domain": (set_import("own", 2), ("operator set", "own", "1", "2"), True),
    "an unused domain": (
        set_import("test.others", 2),
        ("operator set", "test.others", "1", "2"),
        False,
    ),
    "a domain of the function": (
        lambda m: setattr(m.functions[0].opset_import[1], "version", 2),
        ("function own.Composed, operator set", "test.operators", "1", "2"),
        True,
    ),
    "an unused domain of the function": (
        lambda m: setattr(m.functions[0].opset_import[2], "version", 2),
        ("function own.Composed, operator set", "unread", "1", "2"),
        False,
    ),
    "a function that nothing calls": (
        lambda m: m.functions.pop(),
        ("function", "own.Idle", "1 node", None),
        False,
    ),
    "an input of the function": (
        lambda m: m.functions[0].input.append("more"),
        ("function", "own.Composed", "1 node", "1 node (2 and 3 inputs)"),
        True,
    ),
    "an output of the function": (
        lambda m: m.functions[0].output.append("left"),
        ("function", "own.Composed", "1 node", "1 node (1 and 2 outputs)"),
        True,
    ),
    "an unused node of the function": (
        add_unused_node,
        ("function", "own.Composed", "1 node", "2 nodes (a different number of unused nodes)"),
        False,
    ),
    "a formal attribute": (
        lambda m: m.functions[0].attribute.append("slope"),
        ("function own.Composed, attribute", "slope", None, "no default"),
        True,
    ),
    "a type": (
        lambda m: m.graph.input[0].CopyFrom(declare("left", ("N",))),
        ("type of input", "left", "float32 (2)", "float32 (N)"),
        False,
    ),
}


@pytest.mark.parametrize("where", ["graph", "If in Loop"])
@pytest.mark.parametrize("what", EDITS)
def test_each_change_is_described_and_counts_where_it_changes_values(
    what: str, where: str, tmp_path: Path
) -> None:
    edit, expected, is_computed = EDITS[what]
    model = calling(where)
    edited = change(model, edit)
    assert list_changes(tmp_path, model, edited, computed=False) == [expected]
    assert list_changes(tmp_path, model, edited, computed=True) == (
        [expected] if is_computed else []
    )
    assert list_changes(tmp_path, model, model, computed=False) == []


def test_functions_that_functions_call_count(tmp_path: Path) -> None:
    model = calling()
    model.functions[0].node[0].CopyFrom(
        helper.make_node("Idle", ["left", "right"], ["answer"], domain="own")
    )
    model.functions[0].opset_import.append(helper.make_opsetid("own", 1))
    edited = change(model, lambda m: setattr(m.functions[1].node[0], "op_type", "Other"))
    assert [row[1] for row in list_changes(tmp_path, model, edited, computed=True)] == ["own.Idle"]


def test_a_damaged_function_is_compared_by_its_bytes(tmp_path: Path) -> None:
    graphs = []
    for number, name in enumerate(("missing", "absent!", "missing")):
        model = calling()
        model.functions[0].node[0].input[0] = name
        path = tmp_path / f"{number}.onnx"
        path.write_bytes(model.SerializeToString())
        graphs.append(read_model(str(path)))
    pairs = compare_structure(graphs[0].heads, graphs[1].heads).pairs
    (wrong,) = find_statement_changes(graphs[0], graphs[1], pairs, computed=True)
    assert (wrong.what, wrong.key) == ("function", "own.Composed")
    assert wrong.new is not None
    assert wrong.new.endswith("(different ones)")
    assert not list(find_statement_changes(graphs[0], graphs[2], pairs))


def overload(model: ModelProto) -> None:
    for message in (model.functions[1], model.graph.node[0]):
        message.overload = "second"
    model.functions[1].name = "Composed"


def test_the_overload_says_which_function_a_node_calls(tmp_path: Path) -> None:
    model = change(calling(), lambda m: setattr(m, "ir_version", 10))
    second = change(model, overload)
    first = change(second, lambda m: m.graph.node[0].ClearField("overload"))
    diff = gs.diff(write(tmp_path / "first.onnx", first), write(tmp_path / "second.onnx", second))
    assert [(c.what, c.key) for c in diff.graph.changed[0].changes] == [
        ("attribute", "overload of the function")
    ]
    assert not diff.graph.attributes
    edited = change(second, lambda m: setattr(m.functions[1].node[0], "op_type", "Other"))
    assert [row[1] for row in list_changes(tmp_path, second, edited, computed=True)] == [
        "own.Composed.second"
    ]
    assert (
        list_changes(tmp_path, first, change(first, lambda m: m.functions.pop()), computed=True)
        == []
    )


def annotated() -> ModelProto:
    model = place("graph", apply_add(), [tensor("weight", 1, 2), tensor("scale", 0.5)])
    model.graph.quantization_annotation.add(tensor_name="weight").quant_parameter_tensor_names.add(
        key="SCALE_TENSOR", value="scale"
    )
    return model


def test_annotations_follow_the_names_of_their_values(tmp_path: Path) -> None:
    path = write(tmp_path / "model.onnx", annotated())
    renamed = gs.rename(gs.load(path), prefix="new_")
    gs.save(renamed, tmp_path / "renamed.onnx")
    for other in (renamed, tmp_path / "renamed.onnx"):
        assert not gs.diff(path, other, prefixes="new_")


def test_the_type_of_an_inner_value_that_became_an_input_is_known(tmp_path: Path) -> None:
    model = place(
        "graph",
        [
            helper.make_node("Relu", ["left"], ["middle"]),
            helper.make_node("Relu", ["middle"], ["answer"]),
        ],
    )
    model.graph.value_info.append(declare("middle"))
    part = gs.extract(gs.load(write(tmp_path / "model.onnx", model)), "middle")
    gs.save(part, tmp_path / "part.onnx")
    assert not gs.diff(part, tmp_path / "part.onnx")


def test_models_of_two_formats_state_nothing_in_common(tmp_path: Path) -> None:
    symbol = gs.load(ROOT / "fixtures" / "lenet-symbol.json").graph
    graph = read_model(str(write(tmp_path / "model.onnx", calling())))
    assert not list(find_statement_changes(symbol, graph, []))
    assert not list(find_statement_changes(graph, symbol, []))


def test_types_of_bodies_count_in_diff_alone(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = place("Loop", [helper.make_node("Add", ["state", "right"], ["answer"])])
    edited = change(model, lambda m: body_of(m.graph.node[0]).input[2].ClearField("type"))
    paths = []
    for name, each in (("left", model), ("right", edited)):
        paths.append(tmp_path / f"{name}.onnx")
        paths[-1].write_bytes(each.SerializeToString())
    assert gs.diff(*paths)
    assert gs.compare(paths[0], paths[1])


def test_types_other_than_tensors_are_described(tmp_path: Path) -> None:
    matrix = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, (2, 3))
    types = {
        "sequence of float32 (2, 3)": helper.make_sequence_type_proto(matrix),
        "optional of sequence of float32 (2, 3)": helper.make_optional_type_proto(
            helper.make_sequence_type_proto(matrix)
        ),
        "map from int64 of float32 (2, 3)": helper.make_map_type_proto(
            onnx.TensorProto.INT64, matrix
        ),
        "sparse tensor of float32 (2, 3)": helper.make_sparse_tensor_type_proto(
            onnx.TensorProto.FLOAT, (2, 3)
        ),
    }
    for text, stated in types.items():
        models = calling(), calling()
        models[1].graph.input[1].type.CopyFrom(stated)
        assert list_changes(tmp_path, *models, computed=False) == [
            ("type of input", "right", "float32 (2)", text)
        ]


def test_a_function_that_cannot_be_decoded_is_compared_by_its_bytes(tmp_path: Path) -> None:
    model = calling()
    # It defines a value twice
    damaged = change(model, lambda m: m.functions[1].node.append(m.functions[1].node[0]))
    other = change(damaged, lambda m: setattr(m.functions[1].node[0], "doc_string", "text"))
    sizes = [f"{each.functions[1].ByteSize():,} bytes" for each in (damaged, other)]
    graphs = []
    for number, each in enumerate((model, damaged, other)):
        path = tmp_path / f"{number}.onnx"
        path.write_bytes(each.SerializeToString())
        graphs.append(read_model(str(path)))

    def compare(left: int, right: int) -> list[tuple[str | None, ...]]:
        changes = find_statement_changes(graphs[left], graphs[right], [])
        return [(each.what, each.key, each.old, each.new) for each in changes]

    assert compare(1, 1) == []
    assert compare(1, 2) == [("function", "own.Idle", sizes[0], f"{sizes[1]} (different ones)")]
    assert compare(0, 1) == [("function", "own.Idle", "1 node", f"{sizes[0]} (different ones)")]
    assert compare(1, 0) == [("function", "own.Idle", sizes[0], "1 node (different ones)")]


def test_a_damaged_function_that_needs_a_new_name_is_refused(tmp_path: Path) -> None:
    model = calling()
    operator = model.functions[0].node[0].op_type.encode()
    data = model.SerializeToString()
    start = data.rindex(b'"' + bytes([len(operator)]) + operator, 0, data.rindex(b"Idle"))
    damaged = data[: start + 1] + b"\x7f" + data[start + 2 :]
    other = change(model, lambda m: setattr(m.functions[0], "doc_string", "text"))
    paths = tmp_path / "other.onnx", tmp_path / "damaged.onnx"
    for path, content in zip(paths, (other.SerializeToString(), damaged), strict=True):
        path.write_bytes(content)
    with pytest.raises(gs.InputError) as refusal:
        gs.group(paths, prefixes=["a-", "b-"])
    (fault,) = refusal.value.faults
    assert (fault.where, fault.path) == (str(paths[1]), f"byte {start}")
    assert fault.message.startswith(
        "function own.Composed cannot be renamed: field 4 has 127 bytes"
    )
    assert fault.hint
