"""Faults planted one by one: what ONNX's checker or onnxruntime refuses is an error of ``check``,
and nothing else is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    helper,
    numpy_helper,
)

import graphshare as gs
from graphshare.formats.onnx import inference, value_types
from graphshare.reports.model import Finding, Level
from tests.onnx_files.running import Session
from tests.processes import in_process

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
FAULTS: dict[str, tuple[str, Callable[[ModelProto], object]]] = {}
"""Each fault by name: the rule that reports it, and what plants it."""
NEEDS_ONNX = {
    "dtype that does not exist",
    *(f"{part} of value info" for part in ("dtype", "rank", "size")),
    "type of output",
}
"""Contradictions to what ONNX infers; so is everything that GS611 reports."""


def value(
    name: str, shape: tuple[int | str, ...] | None = (2, 2), dtype: int = FLOAT
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def tensor(
    name: str = "", fill: float = 1, shape: tuple[int, ...] = (2, 2), dtype: type = np.float32
) -> TensorProto:
    return numpy_helper.from_array(np.full(shape, fill, dtype), name)


def make() -> ModelProto:
    """Return a sound model with an If, a function, initializers and Constants, in the body and the function too."""
    steps = [
        helper.make_node("Add", ["h", "w"], ["t"]),
        helper.make_node("Constant", [], ["inner"], value=tensor(fill=3)),
        helper.make_node("Mul", ["t", "inner"], ["then"]),
    ]
    first = helper.make_graph(steps, "then", [], [value("then", None)])
    product = helper.make_node("MatMul", ["h", "own"], ["else"])
    second = helper.make_graph([product], "else", [], [value("else", None)], [tensor("own", 2)])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], "first"),
        helper.make_node("Constant", [], ["c"], "constant", value=tensor(fill=1.5)),
        helper.make_node("Add", ["h", "c"], ["a"], "add"),
        helper.make_node("If", ["flag"], ["i"], "choice", then_branch=first, else_branch=second),
        helper.make_node("Call", ["a"], ["f"], "call", domain="own"),
        helper.make_node("Add", ["f", "i"], ["y"], "last"),
    ]
    graph = helper.make_graph(
        nodes, "graph", [value("x"), value("flag", (), BOOL)], [value("y")], [tensor("w", 0.25)]
    )
    inside = [
        helper.make_node("Constant", [], ["k"], value=tensor(fill=4)),
        helper.make_node("Add", ["p", "k"], ["q"]),
    ]
    function = helper.make_function(
        "own", "Call", ["p"], ["q"], inside, [helper.make_opsetid("", 17)]
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, functions=[function])


def node(model: ModelProto, name: str) -> NodeProto:
    return next(node for node in model.graph.node if node.name == name)


def attribute(owner: NodeProto, name: str) -> AttributeProto:
    return next(attribute for attribute in owner.attribute if attribute.name == name)


def then(model: ModelProto) -> GraphProto:
    return attribute(node(model, "choice"), "then_branch").g


def other(model: ModelProto) -> GraphProto:
    return attribute(node(model, "choice"), "else_branch").g


def constant(model: ModelProto) -> TensorProto:
    return attribute(node(model, "constant"), "value").t


def weight(model: ModelProto) -> TensorProto:
    weights: TensorProto = model.graph.initializer[0]
    return weights


def fault(code: str, name: str) -> Callable[[Callable[[ModelProto], object]], None]:
    def register(plant: Callable[[ModelProto], object]) -> None:
        assert name not in FAULTS
        FAULTS[name] = (code, plant)

    return register


def plants(code: str, **cases: Callable[[ModelProto], object]) -> None:
    for name, plant in cases.items():
        fault(code, name.replace("_", " "))(plant)


def rename_output(graph: GraphProto, place: int, name: str) -> None:
    """Give the output of a node of a graph another name, for those that read it too."""
    old, graph.node[place].output[0] = graph.node[place].output[0], name
    for each in graph.node:
        each.input[:] = [name if read == old else read for read in each.input]


def point_outside(weights: TensorProto, location: str = "missing.bin", length: int = 16) -> None:
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    for key, text in (("location", location), ("offset", "0"), ("length", str(length))):
        weights.external_data.add(key=key, value=text)


def make_operator(
    model: ModelProto, name: str, op: str, inputs: list[str] | None = None, **values: object
) -> None:
    """Make a node another operator of ONNX."""
    changed = node(model, name)
    changed.op_type, changed.domain = op, ""
    changed.input[:] = changed.input if inputs is None else inputs
    changed.attribute.extend(helper.make_attribute(key, value) for key, value in values.items())


plants(
    "GS606",
    input_without_type=lambda m: m.graph.input[0].ClearField("type"),
    input_without_rank=lambda m: m.graph.input[0].type.tensor_type.ClearField("shape"),
    input_without_dtype=lambda m: m.graph.input[0].type.tensor_type.ClearField("elem_type"),
    output_without_type=lambda m: m.graph.output[0].ClearField("type"),
    output_without_rank=lambda m: m.graph.output[0].type.tensor_type.ClearField("shape"),
    output_without_dtype=lambda m: m.graph.output[0].type.tensor_type.ClearField("elem_type"),
    dtype_that_does_not_exist=lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 99),
    size_of_value_info=lambda m: m.graph.value_info.append(value("h", (2, 3))),
    rank_of_value_info=lambda m: m.graph.value_info.append(value("h", (2,))),
    dtype_of_value_info=lambda m: m.graph.value_info.append(value("h", (2, 2), INT)),
    type_of_output=lambda m: m.graph.output[0].CopyFrom(value("y", (2, 3))),
    shape_of_an_initializer_among_the_inputs=lambda m: m.graph.input.append(value("w", (5, 5))),
    dtype_of_an_initializer_among_the_inputs=lambda m: m.graph.input.append(
        value("w", (2, 2), INT)
    ),
)
plants(
    "GS611",
    dtype_of_the_output_of_a_body=lambda m: then(m).output[0].CopyFrom(value("then", None, INT)),
    shape_of_the_output_of_a_body=lambda m: then(m).output[0].CopyFrom(value("then", (2, 5))),
    value_info_of_a_body=lambda m: then(m).value_info.append(value("t", (5, 5))),
    product_of_unlike_shapes=lambda m: weight(m).CopyFrom(tensor("w", shape=(3, 2))),
    sum_of_unlike_shapes=lambda m: constant(m).CopyFrom(tensor(shape=(3,))),
    sum_of_unlike_dtypes=lambda m: constant(m).CopyFrom(tensor(dtype=np.int64)),
    unlike_shapes_in_a_body=lambda m: attribute(then(m).node[1], "value").t.CopyFrom(
        tensor(shape=(3,))
    ),
    unlike_shapes_in_a_function=lambda m: attribute(m.functions[0].node[0], "value").t.CopyFrom(
        tensor(shape=(3,))
    ),
    unlike_shapes_by_an_input=lambda m: m.graph.input[0].CopyFrom(value("x", ("n", 3))),
    rank_that_an_operator_does_not_take=lambda m: make_operator(m, "call", "Conv", ["a", "w"]),
    axis_that_is_not_there=lambda m: make_operator(m, "call", "Softmax", axis=7),
    condition_that_is_no_truth_value=lambda m: m.graph.input[1].CopyFrom(value("flag", (), FLOAT)),
    branches_of_unlike_outputs=lambda m: then(m).output.append(value("t", None)),
    more_outputs_than_the_branches=lambda m: node(m, "choice").output.append("second"),
    branch_with_an_input=lambda m: then(m).input.append(value("in")),
    if_without_else=lambda m: node(m, "choice").attribute.remove(
        attribute(node(m, "choice"), "else_branch")
    ),
    body_that_returns_a_value_around_it=lambda m: setattr(then(m).output[0], "name", "h"),
    operator_that_does_not_exist=lambda m: setattr(node(m, "add"), "op_type", "Nothing"),
    operator_of_a_later_set=lambda m: setattr(node(m, "add"), "op_type", "BitwiseAnd"),
    operator_of_an_earlier_set=lambda m: make_operator(m, "add", "Upsample", mode="nearest"),
    missing_attribute=lambda m: make_operator(m, "call", "Cast"),
    unknown_attribute=lambda m: make_operator(m, "add", "Add", unknown=1),
    attribute_of_another_kind=lambda m: make_operator(m, "first", "Gemm", alpha=1),
    attribute_without_kind=lambda m: node(m, "add").attribute.add(name="alpha", f=2.0),
    too_few_inputs=lambda m: make_operator(m, "last", "Add", ["f"]),
    too_many_inputs=lambda m: node(m, "add").input.append("w"),
    absent_input=lambda m: make_operator(m, "last", "Add", ["f", ""]),
    too_many_outputs=lambda m: node(m, "add").output.append("second"),
    no_output=lambda m: m.graph.node.append(helper.make_node("Add", ["x", "w"], [])),
    data_in_two_fields=lambda m: weight(m).float_data.extend([1, 2, 3, 4]),
    no_data=lambda m: weight(m).ClearField("raw_data"),
    tensor_without_dtype=lambda m: weight(m).ClearField("data_type"),
    graph_without_name=lambda m: setattr(m.graph, "name", ""),
    no_ir_version=lambda m: m.ClearField("ir_version"),
    ir_version_of_the_future=lambda m: setattr(m, "ir_version", 99),
    initializer_that_is_no_input_in_ir_3=lambda m: setattr(m, "ir_version", 3),
    operator_set_0=lambda m: setattr(m.opset_import[0], "version", 0),
    function_of_another_operator_set=lambda m: setattr(
        m.functions[0].opset_import[0], "version", 12
    ),
)
plants(
    "GS601",
    value_defined_twice=lambda m: rename_output(m.graph, 2, "h"),
    value_defined_twice_in_a_body=lambda m: rename_output(then(m), 1, "t"),
    two_initializers_of_a_name=lambda m: m.graph.initializer.append(tensor("w", 9)),
    two_inputs_of_a_name=lambda m: m.graph.input.append(value("x")),
    node_and_initializer_of_a_name=lambda m: m.graph.initializer.append(tensor("a", 9)),
    output_that_nothing_defines=lambda m: m.graph.output.append(value("nothing")),
    output_of_a_body_that_nothing_defines=lambda m: setattr(then(m).output[0], "name", "nothing"),
    nodes_out_of_order=lambda m: m.graph.node.insert(0, m.graph.node.pop(2)),
    too_little_data=lambda m: setattr(weight(m), "raw_data", b"1234"),
    too_much_data=lambda m: setattr(weight(m), "raw_data", bytes(20)),
    too_little_data_of_a_constant=lambda m: setattr(constant(m), "raw_data", b"1234"),
    negative_size=lambda m: weight(m).dims.__setitem__(0, -2),
    node_without_operator=lambda m: setattr(node(m, "add"), "op_type", ""),
    external_data_above_the_folder=lambda m: point_outside(weight(m), "../missing.bin"),
    external_data_of_another_length=lambda m: point_outside(weight(m), "short.bin", 8),
)
plants(
    "GS602",
    no_operator_set_of_the_calls=lambda m: m.opset_import.pop(),
    no_operator_set_in_a_function=lambda m: m.functions[0].opset_import.pop(),
    function_that_calls_itself=lambda m: m.functions[0].node.append(
        helper.make_node("Call", ["q"], ["z"], domain="own")
    ),
)
plants("GS605", two_nodes_of_a_name=lambda m: setattr(node(m, "add"), "name", "first"))
plants(
    "GS607",
    missing_data=lambda m: point_outside(weight(m)),
    missing_data_of_a_constant=lambda m: point_outside(constant(m)),
    missing_data_of_a_body=lambda m: point_outside(other(m).initializer[0]),
    missing_data_of_a_constant_of_a_body=lambda m: point_outside(
        attribute(then(m).node[1], "value").t
    ),
    missing_data_of_a_function=lambda m: point_outside(
        attribute(m.functions[0].node[0], "value").t
    ),
    file_too_short=lambda m: point_outside(weight(m), "short.bin"),
)
plants(
    "GS609",
    two_functions_of_a_name=lambda m: m.functions.append(m.functions[0]),
    name_twice_in_a_function=lambda m: m.functions[0].node.append(
        helper.make_node("Neg", ["p"], ["k"])
    ),
    value_of_a_function_that_nothing_defines=lambda m: (
        m.functions[0].node[1].input.__setitem__(1, "nothing")
    ),
    output_of_a_function_that_nothing_defines=lambda m: m.functions[0].output.__setitem__(
        0, "nothing"
    ),
    too_many_inputs_of_a_function=lambda m: node(m, "call").input.append("h"),
    too_many_outputs_of_a_function=lambda m: node(m, "call").output.append("second"),
)
plants(
    "GS610",
    value_of_a_body_called_as_one_before_it=lambda m: rename_output(then(m), 0, "a"),
    constant_of_a_body_called_as_one_before_it=lambda m: rename_output(then(m), 1, "c"),
    value_of_a_body_called_as_an_input=lambda m: rename_output(then(m), 0, "x"),
    value_of_a_body_called_as_an_initializer=lambda m: rename_output(then(m), 0, "w"),
)


def write(folder: Path, model: ModelProto) -> Path:
    (folder / "short.bin").write_bytes(bytes(8))
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def is_refused(path: Path) -> bool:
    """Whether ONNX's full check or onnxruntime refuses a file."""
    try:
        onnx.checker.check_model(str(path), full_check=True)
        Session(path.read_bytes(), str(path.parent))
    except Exception:  # errors of the checker, of inference, of protobuf and of onnxruntime
        return True
    return False


def list_errors(path: Path) -> list[Finding]:
    return [finding for finding in gs.check(path).findings if finding.level is Level.ERROR]


def test_the_sound_model_has_no_finding(tmp_path: Path) -> None:
    path = write(tmp_path, make())
    assert (is_refused(path), gs.check(path).findings) == (False, ())
    assert in_process("check", path, "--strict").returncode == 0


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_an_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, plant = FAULTS[name]
    model = make()
    plant(model)
    path = write(tmp_path, model)
    assert is_refused(path)
    assert {finding.code for finding in list_errors(path)} == {code}
    for module in (inference, value_types):
        monkeypatch.setattr(module, "is_installed", lambda: False)
    if code == "GS611" or name in NEEDS_ONNX:
        (note,) = [finding for finding in gs.check(path).findings if finding.code == "GS611"]
        assert (note.level, "the onnx package is not installed" in note.message) == (
            Level.NOTE,
            True,
        )
        assert list_errors(path) == []
    else:
        assert {finding.code for finding in list_errors(path)} == {code}


ACCEPTED: dict[str, tuple[set[str], Callable[[ModelProto], object]]] = {
    "initializer of a body called as one around it": ({"GS610"}, lambda m: name_own(m, "w")),
    "initializer of a body called as a value around it": ({"GS610"}, lambda m: name_own(m, "a")),
    "initializer of a body called as one of its sibling": (set(), lambda m: name_own(m, "t")),
    "value of a body called as that of its If": (set(), lambda m: rename_output(then(m), 0, "i")),
    "unused initializer": ({"GS603"}, lambda m: m.graph.initializer.append(tensor("unused"))),
    "Constant and node of a name": (set(), lambda m: setattr(node(m, "constant"), "name", "first")),
    "value_info without type": (set(), lambda m: m.graph.value_info.add(name="h")),
    "operator set imported twice": (
        set(),
        lambda m: m.opset_import.append(helper.make_opsetid("ai.onnx", 17)),
    ),
}
"""What loaders take: the codes of its warnings and notes."""


def name_own(model: ModelProto, name: str) -> None:
    other(model).initializer[0].name = other(model).node[0].input[1] = name


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_loaders_take_is_no_error(name: str, tmp_path: Path) -> None:
    codes, plant = ACCEPTED[name]
    model = make()
    plant(model)
    path = write(tmp_path, model)
    findings = gs.check(path).findings
    assert (is_refused(path), {finding.code for finding in findings}) == (False, codes)
    assert Level.ERROR not in {finding.level for finding in findings}


def test_a_name_that_comes_later_around_a_body_is_a_warning(tmp_path: Path) -> None:
    # onnxruntime refuses it where it computes the other value first, the checker takes it
    model = make()
    rename_output(then(model), 0, "f")
    (finding,) = gs.check(write(tmp_path, model)).findings
    assert (finding.code, finding.level, finding.node) == ("GS610", Level.WARNING, "f")


def test_data_in_a_file_of_its_own_is_no_finding(tmp_path: Path) -> None:
    model = make()
    point_outside(weight(model), "weights.bin")
    (tmp_path / "weights.bin").write_bytes(bytes(16))
    assert gs.check(write(tmp_path, model)).findings == ()


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_data_behind_a_link_is_a_warning(
    link: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    model = make()
    point_outside(weight(model), "weights.bin")
    path = write(tmp_path, model)
    (tmp_path / "real.bin").write_bytes(bytes(16))
    link(tmp_path / "real.bin", tmp_path / "weights.bin")
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(str(path))
    Session(path.read_bytes(), str(tmp_path))
    (finding,) = gs.check(path).findings
    assert (finding.code, finding.level) == ("GS607", Level.WARNING)
    assert in_process("check", path).returncode == 0


def test_a_finding_names_the_node_of_a_body(tmp_path: Path) -> None:
    model = make()
    then(model).node[2].name = "scale"
    make_operator(model, "add", "Add", unknown=1)
    finding = list_errors(write(tmp_path, model))[0]
    assert (finding.node, finding.path) == ("a", "$.nodes[5]")
    model = make()
    then(model).node[2].name = "scale"
    then(model).node[2].op_type = "Nothing"
    finding = list_errors(write(tmp_path, model))[0]
    assert "No Op registered for Nothing" in finding.message
    assert finding.node is not None


def grow(model: ModelProto, *changes: tuple[TensorProto, int]) -> None:
    """Give weights 16 by 16 numbers, which differ by their seed."""
    for weights, seed in changes:
        numbers = np.random.default_rng(seed).standard_normal((16, 16)).astype(np.float32)
        weights.CopyFrom(numpy_helper.from_array(numbers, weights.name))


def storage(path: Path) -> list[str]:
    findings = [finding for finding in gs.check(path).findings if finding.code == "GS612"]
    assert {finding.level for finding in findings} <= {Level.NOTE}
    return [finding.message for finding in findings]


def make_large(seeds: tuple[int, int, int, int]) -> ModelProto:
    """Return the model with weights of 1 KiB: an initializer, a Constant, and both of bodies."""
    model = make()
    parts = [
        weight(model),
        constant(model),
        other(model).initializer[0],
        attribute(then(model).node[1], "value").t,
    ]
    grow(model, *zip(parts, seeds, strict=True))
    attribute(model.functions[0].node[0], "value").t.CopyFrom(tensor(shape=(16, 16)))
    model.graph.input[0].CopyFrom(value("x", (16, 16)))
    model.graph.output[0].CopyFrom(value("y", (16, 16)))
    return model


def test_equal_weights_are_noted_with_what_a_tie_saves(tmp_path: Path) -> None:
    assert storage(write(tmp_path, make_large((1, 2, 3, 4)))) == []
    path = write(tmp_path, make_large((1, 1, 2, 1)))
    assert is_refused(path) is False
    (message,) = storage(path)
    assert (
        message
        == "2 weights with the bytes of another one (inner = w, c = w): a tie saves 2.0 kB of 4.1 kB"
    )
    assert in_process("check", path, "--strict").returncode == 0
    tied = tmp_path / "tied.onnx"
    gs.save(gs.share(path, aliases={"c": "w", "inner": "w"}), tied)
    assert storage(tied) == []
    assert path.stat().st_size - tied.stat().st_size > 1900


def test_weights_of_one_place_in_a_file_are_tied_already(tmp_path: Path) -> None:
    model = make_large((1, 1, 2, 3))
    (tmp_path / "weights.bin").write_bytes(weight(model).raw_data)
    point_outside(weight(model), "weights.bin", 1024)
    assert len(storage(write(tmp_path, model))) == 1
    point_outside(constant(model), "weights.bin", 1024)
    assert storage(write(tmp_path, model)) == []


def test_constants_that_hold_most_weights_are_noted(tmp_path: Path) -> None:
    model = make_large((1, 2, 3, 4))
    other(model).initializer[0].CopyFrom(tensor("own", 2, (16, 1)))
    (message,) = storage(write(tmp_path, model))
    assert message.startswith("Constants hold 2.0 kB of the 3.1 kB of weights")


def test_large_data_is_not_copied_for_the_checker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_large((1, 2, 3, 4))
    for each in (weight(model), constant(model)):
        numbers = (
            np.random.default_rng(len(each.name)).standard_normal((200, 200)).astype(np.float32)
        )
        each.CopyFrom(numpy_helper.from_array(numbers, each.name))
    sizes = []
    find_refusal = inference.find_refusal
    monkeypatch.setattr(
        inference,
        "find_refusal",
        lambda data, location: sizes.append(len(data)) or find_refusal(data, location),
    )
    path = write(tmp_path, model)
    # 200 by 200 does not fit 16 by 16
    assert {finding.code for finding in list_errors(path)} == {"GS611"}
    (size,) = sizes
    assert size < 8000 < path.stat().st_size


def test_a_model_in_memory_is_checked_as_it_would_be_written(tmp_path: Path) -> None:
    path = write(tmp_path, make())
    assert gs.check(gs.extract(path, "=h")).findings == ()
    assert gs.check(gs.duplicate(path, "b_", mode="tie")).findings == ()


def test_what_a_loop_carries_has_a_rank(tmp_path: Path) -> None:
    ends = [value("i", (), INT), value("going", (), BOOL), value("state", (2, 3))]
    results = [value("on", (), BOOL), value("next", (2, "n")), value("steps", (2, "n"))]
    steps = [helper.make_node("Identity", ["going"], ["on"]), helper.make_node("Neg", ["state"], ["next"]),
             helper.make_node("Abs", ["next"], ["steps"])]  # fmt: skip
    body = helper.make_graph(steps, "body", ends, results)
    nodes = [
        helper.make_node("Loop", ["count", "", "x"], ["last", "all"], body=body),
        helper.make_node("Relu", ["last"], ["y"]),
    ]
    count = numpy_helper.from_array(np.array(2), "count")
    graph = helper.make_graph(nodes, "loop", [value("x", (2, 3))], [value("y", None)], [count])
    graph.output[0].CopyFrom(value("y", (2, 3)))
    path = write(
        tmp_path,
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
    )
    part = tmp_path / "part.onnx"
    gs.save(gs.extract(path, "=last"), part)
    shape = onnx.load(part).graph.output[0].type.tensor_type.shape
    assert [size.dim_value or None for size in shape.dim] == [2, None]
    assert (is_refused(part), list_errors(part)) == (False, [])
