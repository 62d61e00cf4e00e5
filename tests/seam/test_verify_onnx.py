"""``compare`` of ONNX models, and ``verify`` of their branches, compare what is written, not only
what drawn inputs reach.

That is what is in bodies, functions and operator sets.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, ModelProto, NodeProto, helper, numpy_helper

import graphshare as gs
from tests.processes import done, in_process
from tests.seam.meaningless import MEANINGLESS, place_rich
from tests.seam.placed import PLACES, apply_add, body_of, fix_input, place, tensor, write

pytest.importorskip("onnxruntime")


def check_unequal(left: Path, right: Path) -> None:
    """Check that the difference is found and named, in either order of the files."""
    for first, second in ((left, right), (right, left)):
        run = in_process("compare", first, second)
        assert run.returncode == 1, (run.stdout + run.stderr).decode()
        lines = run.stdout.splitlines()
        assert lines[-1].startswith((b"NOT EQUAL: ", b"NOT PROVED: ")), run.stdout
        (place,) = (
            number for number, line in enumerate(lines) if line.startswith(b"  skip structure   ")
        )
        assert b"difference" in lines[place]
        assert lines[place + 1].startswith(b"       "), run.stdout


def check_equal(left: Path, right: Path) -> None:
    for first, second in ((left, right), (right, left)):
        run = in_process("compare", first, second)
        assert run.returncode == 0, (run.stdout + run.stderr).decode()
        assert (
            run.stdout.splitlines()[-1]
            == b"EQUAL: the other model and the original, exact for every input"
        ), run.stdout


def place_unreached(
    where: str, nodes: list[NodeProto], tensors: tuple[onnx.TensorProto, ...] = ()
) -> ModelProto:
    """Return the placed nodes in a branch that is not taken, or in a Loop of no steps."""
    model = place(where, nodes, tensors)
    if "If" in where:
        fix_input(model, "flag", False)
    if "Loop" in where:
        fix_input(model, "count", np.int64(0 if where == "Loop" else 2))
    return model


UNREACHED = ("If", "If in Loop", "Loop")


@pytest.mark.parametrize("where", UNREACHED)
@pytest.mark.parametrize("values", [(1, 3), (1, float("nan"))], ids=["number", "nan"])
def test_initializers_of_bodies_are_compared(
    where: str, values: tuple[float, float], tmp_path: Path
) -> None:
    models = [
        place_unreached(where, apply_add(), (tensor("weight", *numbers),))
        for numbers in ((1, 2), values)
    ]
    check_unequal(
        *(write(tmp_path / f"{name}.onnx", model) for name, model in zip("ab", models, strict=True))
    )


def apply_constant(**value: Any) -> list[NodeProto]:
    return [
        helper.make_node("Constant", [], ["fixed"], **value),
        helper.make_node("Add", ["left", "fixed"], ["answer"]),
    ]


@pytest.mark.parametrize("where", UNREACHED)
def test_constants_of_bodies_are_compared(where: str, tmp_path: Path) -> None:
    models = [place_unreached(where, apply_constant(value=tensor("", 1, last))) for last in (2, 3)]
    check_unequal(
        *(write(tmp_path / f"{name}.onnx", model) for name, model in zip("ab", models, strict=True))
    )


@pytest.mark.parametrize("where", UNREACHED)
def test_operators_of_bodies_are_compared(where: str, tmp_path: Path) -> None:
    models = [
        place_unreached(where, [helper.make_node(op, ["left", "right"], ["answer"])])
        for op in ("Add", "Sub")
    ]
    check_unequal(
        *(write(tmp_path / f"{name}.onnx", model) for name, model in zip("ab", models, strict=True))
    )


@pytest.mark.parametrize("mode", ["tie", "copy"])
@pytest.mark.parametrize("where", UNREACHED)
def test_initializers_of_bodies_are_compared_between_branches(
    where: str, mode: str, tmp_path: Path
) -> None:
    path = write(
        tmp_path / "model.onnx", place_unreached(where, apply_add(), (tensor("weight", 1, 2),))
    )
    siam = tmp_path / "siam.onnx"
    gs.save(gs.duplicate(gs.load(path), "b_", mode=mode), siam)
    assert (
        done(in_process("verify", siam)).stdout.splitlines()[-1]
        == b"EQUAL: b_ and the original, bit for bit"
    )
    model = onnx.load(siam)
    node = next(node for node in model.graph.node if node.output[0] == "b_result")
    inner = body_of(node)
    while not inner.initializer:
        inner = body_of(inner.node[0])
    inner.initializer[0].CopyFrom(tensor(inner.initializer[0].name, 1, 3))
    run = in_process("verify", write(siam, model), "--prefix", "b_")
    assert run.returncode == 1, run.stdout.decode()
    assert run.stdout.splitlines()[-1].startswith(b"NOT EQUAL: ")


def set_operator(model: ModelProto) -> None:
    model.functions[0].node[1].op_type = "Sub"


def set_tensor(model: ModelProto) -> None:
    model.functions[0].node[0].attribute[0].t.CopyFrom(tensor("", 1, 3))


def set_default(model: ModelProto) -> None:
    model.functions[0].attribute_proto[0].f = 0.75


def set_version(model: ModelProto) -> None:
    model.functions[0].opset_import[0].version = 17


def set_version_of_domain(model: ModelProto) -> None:
    next(opset for opset in model.opset_import if opset.domain == "own").version = 2


def exchange_inputs(model: ModelProto) -> None:
    model.functions[0].input.reverse()


def call_unreached() -> ModelProto:
    """Return an If that calls a function where it is not taken; the function has a formal attribute with a default."""
    call = helper.make_node("Composed", ["left", "right"], ["answer"], domain="own")
    model = place_unreached("If", [call])
    leak = helper.make_node("LeakyRelu", ["sum"], ["answer"])
    leak.attribute.append(
        AttributeProto(name="alpha", ref_attr_name="slope", type=AttributeProto.FLOAT)
    )
    nodes = [
        helper.make_node("Constant", [], ["fixed"], value=tensor("", 1, 2)),
        helper.make_node("Add", ["left", "fixed"], ["moved"]),
        helper.make_node("Mul", ["moved", "right"], ["sum"]),
        leak,
    ]
    imports = [helper.make_opsetid("", 18)]
    function = helper.make_function(
        "own", "Composed", ["left", "right"], ["answer"], nodes, imports
    )
    function.attribute_proto.append(helper.make_attribute("slope", 0.5))
    model.functions.append(function)
    return model


def call_within() -> ModelProto:
    """Return the same where another function calls it."""
    model = call_unreached()
    call = helper.make_node("Composed", ["left", "right"], ["answer"], domain="own")
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    model.functions.append(
        helper.make_function("own", "Caller", ["left", "right"], ["answer"], [call], imports)
    )
    body_of(model.graph.node[0]).node[0].op_type = "Caller"
    return model


@pytest.mark.parametrize("build", [call_unreached, call_within])
@pytest.mark.parametrize("edit", [set_operator, set_tensor, set_default, exchange_inputs])
def test_functions_are_compared(
    build: Callable[[], ModelProto], edit: Callable[[ModelProto], None], tmp_path: Path
) -> None:
    model = build()
    left = write(tmp_path / "a.onnx", model)
    edit(model)
    check_unequal(left, write(tmp_path / "b.onnx", model))


@pytest.mark.parametrize("where", ["graph", "If"])
def test_operator_sets_are_compared(where: str, tmp_path: Path) -> None:
    """Of Softmax versions 12 and 13 are other functions; Relu is the same in both, which an identity says."""
    nodes = [
        helper.make_node("Reshape", ["left", "wide"], ["row"]),
        helper.make_node("Softmax", ["row"], ["shares"], axis=0),
        helper.make_node("Reshape", ["shares", "flat"], ["answer"]),
    ]
    sizes = (
        numpy_helper.from_array(np.array([1, 2]), "wide"),
        numpy_helper.from_array(np.array([2]), "flat"),
    )
    for model, check in (
        (place_unreached(where, nodes, sizes), check_unequal),
        (place_unreached(where, [helper.make_node("Relu", ["left"], ["answer"])]), check_equal),
    ):
        left = write(tmp_path / "a.onnx", model)
        model.opset_import[0].version = 12
        check(left, write(tmp_path / "b.onnx", model))


@pytest.mark.parametrize("build", [call_unreached, call_within])
@pytest.mark.parametrize("edit", [set_version, set_version_of_domain])
def test_versions_that_give_operators_of_functions_no_other_meaning_are_no_difference(
    build: Callable[[], ModelProto], edit: Callable[[ModelProto], None], tmp_path: Path
) -> None:
    model = build()
    left = write(tmp_path / "a.onnx", model)
    edit(model)
    right = write(tmp_path / "b.onnx", model)
    check_equal(left, right)
    assert gs.diff(left, right)


# Names are no difference, wherever they stand.


def rename_inside(model: ModelProto) -> None:
    """Give every value inside of bodies another name; what is read from around them keeps its name."""
    pending = [body_of(model.graph.node[0])]
    while pending:
        graph = pending.pop()
        for message in (*graph.input, *graph.output, *graph.initializer):
            message.name = f"inner {message.name}"
        for node in graph.node:
            node.input[:] = [
                name if name in ("left", "right", "flag") else f"inner {name}"
                for name in node.input
            ]
            node.output[:] = [f"inner {name}" for name in node.output]
            pending += [body_of(node)] if node.op_type == "If" else []


@pytest.mark.parametrize("where", PLACES[1:5])
def test_names_in_bodies_are_no_difference(where: str, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["left", "weight"], ["product"]),
        helper.make_node("Relu", ["product"], ["answer"]),
    ]
    model = place(where, nodes, (tensor("weight", 1, 2),))
    left = write(tmp_path / "a.onnx", model)
    rename_inside(model)
    check_equal(left, write(tmp_path / "b.onnx", model))


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("what", MEANINGLESS)
def test_what_has_no_meaning_is_no_difference(where: str, what: str, tmp_path: Path) -> None:
    before, after = place_rich(where), place_rich(where)
    MEANINGLESS[what](after)
    check_equal(write(tmp_path / "a.onnx", before), write(tmp_path / "b.onnx", after))
