"""``diff`` of ONNX models: every single change of what a model computes is seen and named, and nothing else is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper

import graphshare as gs
from tests.processes import in_process
from tests.seam.meaningless import MEANINGLESS, Edit, graph_of, place_rich
from tests.seam.placed import (
    BODIES,
    DOMAIN,
    FLOAT,
    OTHER,
    PLACES,
    apply_add,
    body_of,
    declare,
    knobs,
    place,
    tensor,
    write,
)

Change = tuple[ModelProto, ModelProto]


def find_differences(folder: Path, left: ModelProto, right: ModelProto) -> str:
    """Return what ``diff`` prints, or nothing where it says that the models are the same; their
    order must not decide.
    """
    paths = write(folder / "left.onnx", left), write(folder / "right.onnx", right)
    run = in_process("diff", *paths, "--format", "text")
    assert run.returncode in (0, 1), run.stderr
    assert run.stderr == b""
    assert run.stdout.splitlines()[-1].startswith(b"DIFFERENT" if run.returncode else b"SAME")
    assert bool(gs.diff(*reversed(paths))) == bool(run.returncode), (
        "the order of the models decides"
    )
    return run.stdout.decode() if run.returncode else ""


def check_change(folder: Path, change: Change, *words: str) -> None:
    """Check that a change is seen, and that what is printed has one of ``words``."""
    text = find_differences(folder, *change)
    assert text, "SAME"
    assert any(word.lower() in text.lower() for word in words), text


# One attribute of an operator, before and after: the kind of attribute, and what changes in it.


def attribute(value: object, kind: int | None = None) -> AttributeProto:
    return helper.make_attribute("knob", value, attr_type=kind)


def give(constant: float) -> onnx.GraphProto:
    node = helper.make_node("Constant", [], ["inside"], value_float=constant)
    return helper.make_graph([node], "kept", [], [declare("inside", ())])


def sparse(
    values: tuple[float, ...] = (1.0, 2.0), places: tuple[int, ...] = (0, 2), size: int = 4
) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        tensor("", *values), tensor("", *places, dtype="int64"), [size]
    )


_LONG, _TEXTS, _MANY = "x" * 300, [f"word {number}" for number in range(20)], list(range(20))
_FLOATS = [number / 4 for number in range(20)]
_MATRIX = onnx.TypeProto(
    tensor_type=onnx.TypeProto.Tensor(
        elem_type=FLOAT, shape=declare("", (2, 3)).type.tensor_type.shape
    )
)
_DOUBLES = helper.make_tensor_type_proto(TensorProto.DOUBLE, (2, 3))
_WIDE = helper.make_tensor_type_proto(FLOAT, (2, 4))

ATTRIBUTES: dict[str, tuple[AttributeProto, AttributeProto | None]] = {
    "int": (attribute(1), attribute(2)),
    "float": (attribute(0.5), attribute(0.25)),
    "float by one bit": (
        attribute(1.0),
        attribute(float(np.nextafter(np.float32(1), np.float32(2)))),
    ),
    "sign of zero": (attribute(0.0), attribute(-0.0)),
    "string": (attribute("same"), attribute("other")),
    "end of a long string": (attribute(_LONG), attribute(_LONG[:-1] + "y")),
    "length of a long string": (attribute(_LONG), attribute(_LONG + "x")),
    "byte that is no text": (attribute(b"\xff"), attribute(b"\\xff")),
    "first of ints": (attribute([1, 2]), attribute([3, 2])),
    "17th of ints": (attribute(_MANY), attribute([*_MANY[:16], 99, *_MANY[17:]])),
    "number of many ints": (attribute(_MANY), attribute([*_MANY, 20])),
    "last of a thousand ints": (attribute(list(range(1000))), attribute([*range(999), 0])),
    "first of floats": (attribute([0.5, 1.0]), attribute([0.25, 1.0])),
    "20th of floats": (attribute(_FLOATS), attribute([*_FLOATS[:19], 99.0])),
    "first of strings": (attribute(["a", "b"]), attribute(["c", "b"])),
    "20th of strings": (attribute(_TEXTS), attribute([*_TEXTS[:19], "other"])),
    "strings joined": (attribute(["a", "b"]), attribute(["a, b"])),
    "values of a tensor": (attribute(tensor("", 1, 2)), attribute(tensor("", 1, 3))),
    "dtype of a tensor": (
        attribute(tensor("", 1, 2)),
        attribute(tensor("", 1, 2, dtype="float64")),
    ),
    "values of tensors": (
        attribute([tensor("", 1), tensor("", 2)]),
        attribute([tensor("", 1), tensor("", 3)]),
    ),
    "values of a sparse tensor": (attribute(sparse()), attribute(sparse((1.0, 3.0)))),
    "indices of a sparse tensor": (attribute(sparse()), attribute(sparse(places=(0, 3)))),
    "size of a sparse tensor": (attribute(sparse()), attribute(sparse(size=5))),
    "values of sparse tensors": (
        attribute([sparse(), sparse()]),
        attribute([sparse(), sparse((1.0, 3.0))]),
    ),
    "graph": (attribute(give(1.0)), attribute(give(2.0))),
    "second of graphs": (attribute([give(1.0), give(1.0)]), attribute([give(1.0), give(2.0)])),
    "dtype of a type": (attribute(_MATRIX), attribute(_DOUBLES)),
    "shape of a type": (attribute(_MATRIX), attribute(_WIDE)),
    "second of types": (attribute([_MATRIX, _MATRIX]), attribute([_MATRIX, _DOUBLES])),
    "int or float": (attribute(1), attribute(1.0)),
    "int or list": (attribute([1]), attribute(["1"])),
    "int or string": (attribute(1), attribute("1")),
    "attribute dropped": (attribute(1), None),
    "attribute renamed": (attribute(1), helper.make_attribute("kneb", 1)),
}
_ONE_OF_EACH = ("int", "17th of ints", "values of a tensor", "second of graphs")


@pytest.mark.parametrize(
    ("where", "what"),
    [
        (where, what)
        for where in PLACES
        for what in (_ONE_OF_EACH if where in ("If", "Loop", "Scan") else ATTRIBUTES)
    ],
)
def test_a_change_of_one_attribute_is_seen(where: str, what: str, tmp_path: Path) -> None:
    before, after = ([knob] if knob is not None else [] for knob in ATTRIBUTES[what])
    change = place(where, knobs(*before)), place(where, knobs(*after))
    check_change(tmp_path, change, "knob", "result", "Composed")


# One operator and what it reads, before and after.


def apply(op: str, *inputs: str, **attributes: Any) -> list[NodeProto]:
    return [helper.make_node(op, inputs, ["answer"], **attributes)]


def apply_constant(**value: Any) -> list[NodeProto]:
    return [helper.make_node("Constant", [], ["fixed"], **value), *apply("Add", "left", "fixed")]


def apply_outputs(*outputs: str) -> list[NodeProto]:
    return [helper.make_node("Knobs", ["left"], outputs, "knobs", domain=DOMAIN)]


OPERATORS: dict[str, tuple[list[NodeProto], list[NodeProto]]] = {
    "operator": (apply("Add", "left", "right"), apply("Mul", "left", "right")),
    "domain": (knobs(), knobs(domain=OTHER)),
    "order of inputs": (apply("Sub", "left", "right"), apply("Sub", "right", "left")),
    "one input": (apply("Sub", "left", "right"), apply("Sub", "left", "left")),
    "number of inputs": (apply("Sum", "left", "right"), apply("Sum", "left", "right", "right")),
    "position of an absent input": (
        knobs(inputs=("left", "", "right")),
        knobs(inputs=("", "left", "right")),
    ),
    "minimum or maximum": (apply("Clip", "left", "low", ""), apply("Clip", "left", "", "low")),
    "which output": (apply_outputs("answer", "rest"), apply_outputs("rest", "answer")),
    "one operator more": (
        apply("Add", "left", "right"),
        [helper.make_node("Relu", ["right"], ["more"]), *apply("Add", "left", "more")],
    ),
    "tensor of a Constant": (
        apply_constant(value=tensor("", 1, 2)),
        apply_constant(value=tensor("", 1, 3)),
    ),
    "number of a Constant": (apply_constant(value_float=1.0), apply_constant(value_float=2.0)),
    "numbers of a Constant": (
        apply_constant(value_floats=_FLOATS),
        apply_constant(value_floats=[*_FLOATS[:19], 99.0]),
    ),
    "sparse value of a Constant": (
        apply_constant(sparse_value=sparse()),
        apply_constant(sparse_value=sparse((1.0, 3.0))),
    ),
}


def _place_with_bound(where: str, nodes: list[NodeProto]) -> ModelProto:
    """Return the placed nodes; what reads ``low`` has a value for it."""
    if not any("low" in node.input for node in nodes):
        return place(where, nodes)
    return place(where, [helper.make_node("Constant", [], ["low"], value_float=0.0), *nodes])


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("what", OPERATORS)
def test_a_change_of_one_operator_is_seen(where: str, what: str, tmp_path: Path) -> None:
    before, after = OPERATORS[what]
    change = _place_with_bound(where, before), _place_with_bound(where, after)
    check_change(tmp_path, change, "answer", "fixed", "more", "left", "result", "Composed")


TENSORS: dict[str, tuple[TensorProto, TensorProto]] = {
    "value": (tensor("weight", 1, 2), tensor("weight", 1, 3)),
    "dtype": (tensor("weight", 1, 2), tensor("weight", 1, 2, dtype="float64")),
    "shape": (tensor("weight", 1, 2), helper.make_tensor("weight", FLOAT, (1, 2), (1.0, 2.0))),
}


@pytest.mark.parametrize("where", ["graph", *BODIES])
@pytest.mark.parametrize("what", TENSORS)
def test_a_change_of_an_initializer_is_seen(where: str, what: str, tmp_path: Path) -> None:
    before, after = TENSORS[what]
    check_change(
        tmp_path,
        (place(where, apply_add(), [before]), place(where, apply_add(), [after])),
        "weight",
        "result",
    )


@pytest.mark.parametrize("where", ["graph", "If"])
@pytest.mark.parametrize(
    "after", [sparse((1.0, 3.0)), sparse(places=(0, 3))], ids=["value", "index"]
)
def test_a_change_of_a_sparse_initializer_is_seen(
    where: str, after: onnx.SparseTensorProto, tmp_path: Path
) -> None:
    models = []
    for value in (sparse(), after):
        value = copy.deepcopy(value)
        value.values.name = "weight"
        model = place(where, apply_add(), [tensor("weight", 1, 2)])
        graph = graph_of(model)
        del graph.initializer[:]
        graph.sparse_initializer.append(value)
        models.append(model)
    check_change(tmp_path, (models[0], models[1]), "weight", "result")


# What a model declares: operator sets, inputs and outputs, functions, annotations.


def simple() -> ModelProto:
    return place("graph", apply_add(), [tensor("weight", 1, 2)])


def calling() -> ModelProto:
    """A function with a formal attribute, one that has a default, and one of several operator sets."""
    model = place("function", knobs())
    node = model.functions[0].node[0]
    node.attribute.append(
        AttributeProto(name="knob", ref_attr_name="slope", type=AttributeProto.FLOAT)
    )
    node.attribute.append(
        AttributeProto(name="other", ref_attr_name="bias", type=AttributeProto.FLOAT)
    )
    model.functions[0].attribute_proto.append(helper.make_attribute("slope", 0.5))
    model.functions[0].attribute_proto.append(helper.make_attribute("bias", 0.25))
    return model


def looping() -> ModelProto:
    return place("Loop", apply("Add", "state", "right"))


def choosing() -> ModelProto:
    return place("If", apply("Neg", "left"))


def annotated(where: str = "weight") -> ModelProto:
    model = place(
        "graph", apply_add(), [tensor("weight", 1, 2), tensor("scale", 0.5), tensor("finer", 0.25)]
    )
    annotate(model.graph, where)
    return model


def annotate(graph: onnx.GraphProto, name: str, scale: str = "scale") -> None:
    graph.quantization_annotation.add(tensor_name=name).quant_parameter_tensor_names.add(
        key="SCALE_TENSOR", value=scale
    )


def set_version(model: ModelProto, domain: str, version: int) -> None:
    next(opset for opset in model.opset_import if opset.domain == domain).version = version


def set_type(value: onnx.ValueInfoProto, kind: onnx.TypeProto) -> None:
    value.type.CopyFrom(kind)


def set_input(dtype: int = FLOAT, shape: tuple[int | str, ...] = (2,)) -> Edit:
    return lambda model: set_type(model.graph.input[0], declare("", shape, dtype).type)


def set_output(dtype: int = FLOAT, shape: tuple[int | str, ...] = (2,)) -> Edit:
    return lambda model: set_type(model.graph.output[0], declare("", shape, dtype).type)


def set_state(dtype: int = FLOAT, shape: tuple[int, ...] = (2,)) -> Edit:
    """Return what declares the state of a Loop in its body."""
    return lambda model: set_type(
        body_of(model.graph.node[0]).input[2], declare("", shape, dtype).type
    )


def make_sequence(model: ModelProto) -> None:
    set_type(model.graph.input[1], helper.make_sequence_type_proto(_MATRIX))


def operator(model: ModelProto) -> NodeProto:
    """Return the operator in the function of a model."""
    return model.functions[0].node[0]


def set_scale(model: ModelProto, name: str) -> None:
    model.graph.quantization_annotation[0].quant_parameter_tensor_names[0].value = name


def annotate_body(model: ModelProto) -> None:
    annotate(body_of(model.graph.node[0]), "state", "right")


def exchange_branches(model: ModelProto) -> None:
    first, second = model.graph.node[0].attribute
    first.name, second.name = second.name, first.name


_SETS, _FORMAL = ("opset", "operator set"), ("Composed", "slope", "bias", "opset", "operator set")

_NOTED = ("annotation",)

DECLARED: dict[str, tuple[Callable[[], ModelProto], Edit, tuple[str, ...]]] = {
    "opset": (simple, lambda m: set_version(m, "", 17), _SETS),
    "opset of a domain": (simple, lambda m: set_version(m, DOMAIN, 2), _SETS),
    "dtype of an input": (simple, set_input(TensorProto.DOUBLE), ("left",)),
    "size of an input": (simple, set_input(shape=(1,)), ("left",)),
    "rank of an input": (simple, set_input(shape=(1, 2)), ("left",)),
    "size of an input left open": (simple, set_input(shape=("N",)), ("left",)),
    "an input that is a sequence": (simple, make_sequence, ("right",)),
    "dtype of an output": (simple, set_output(TensorProto.DOUBLE), ("answer",)),
    "size of an output": (simple, set_output(shape=(3,)), ("answer",)),
    "dtype of an input of a body": (looping, set_state(TensorProto.DOUBLE), ("state", "result")),
    "size of an input of a body": (looping, set_state(shape=(1,)), ("state", "result")),
    "one input less": (simple, lambda m: m.graph.input.pop(), ("right",)),
    "one output more": (simple, lambda m: m.graph.output.append(declare("weight")), ("output",)),
    "the branches of an If": (choosing, exchange_branches, ("result", "then_branch")),
    "operator of a function": (
        calling,
        lambda m: setattr(operator(m), "op_type", "Other"),
        ("Composed", "Other"),
    ),
    "default of a function": (
        calling,
        lambda m: setattr(m.functions[0].attribute_proto[0], "f", 1.0),
        _FORMAL,
    ),
    "attributes of a function": (
        calling,
        lambda m: setattr(operator(m).attribute[0], "ref_attr_name", "bias"),
        _FORMAL,
    ),
    "inputs of a function": (calling, lambda m: m.functions[0].input.reverse(), ("Composed",)),
    "output of a function": (
        calling,
        lambda m: m.functions[0].output.__setitem__(0, "left"),
        ("Composed",),
    ),
    "opset of a function": (
        calling,
        lambda m: setattr(m.functions[0].opset_import[1], "version", 2),
        _FORMAL,
    ),
    "an annotation more": (annotated, lambda m: annotate(m.graph, "left"), ("left", *_NOTED)),
    "an annotation of an operator": (
        annotated,
        lambda m: annotate(m.graph, "answer"),
        ("answer", *_NOTED),
    ),
    "an annotation less": (
        annotated,
        lambda m: m.graph.ClearField("quantization_annotation"),
        ("weight", *_NOTED),
    ),
    "the scale of an annotation": (
        annotated,
        lambda m: set_scale(m, "finer"),
        ("weight", "finer", *_NOTED),
    ),
    "an annotation in a body": (looping, annotate_body, ("state", "result", *_NOTED)),
}


@pytest.mark.parametrize("what", DECLARED)
def test_a_change_of_a_declaration_is_seen(what: str, tmp_path: Path) -> None:
    build, edit, words = DECLARED[what]
    before, after = build(), build()
    edit(after)
    check_change(tmp_path, (before, after), *words)


# What has no meaning is no difference, and neither is one value written in two ways.


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("what", MEANINGLESS)
def test_what_has_no_meaning_is_no_difference(where: str, what: str, tmp_path: Path) -> None:
    before, after = place_rich(where), place_rich(where)
    MEANINGLESS[what](after)
    assert find_differences(tmp_path, before, after) == ""


@pytest.mark.parametrize("label", ["", "ai.onnx"])
def test_the_default_domain_has_two_names(label: str, tmp_path: Path) -> None:
    models = [simple(), simple()]
    for node in models[1].graph.node:
        node.domain = label
    models[1].opset_import[0].domain = label
    paths = [tmp_path / "left.onnx", tmp_path / "right.onnx"]
    for path, model in zip(paths, models, strict=True):
        path.write_bytes(model.SerializeToString())
    run = in_process("diff", *paths)
    assert (run.returncode, run.stderr) == (0, b""), run.stdout
