"""ONNX's inference and checker in their process: what they answer, and models that keep them busy or end them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from graphshare import confined_process
from graphshare.errors import InputError, MemoryLimitError, RefusedError
from graphshare.formats.onnx import inference
from graphshare.formats.onnx.types import TensorType, parse_type
from graphshare.resources import memory_limit, time_limit

onnx = pytest.importorskip("onnx", reason="onnx is of the onnx extra")
TensorProto, TypeProto, helper = onnx.TensorProto, onnx.TypeProto, onnx.helper


def encode(nodes: list[object], outputs: list[object], opset: int = 17, functions: list[object] | None = None) -> bytes:
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [2, 3])], outputs)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return bytes(helper.make_model(graph, opset_imports=imports, functions=functions or [], ir_version=8).SerializeToString())


def crashing() -> bytes:
    """EyeLike of a value without a type."""
    nodes = [helper.make_node("Strange", ["x"], ["f"], domain="own"), helper.make_node("EyeLike", ["f"], ["y"], dtype=1)]
    return encode(nodes, [helper.make_tensor_value_info("y", 1, ["a", "b"])])


def doubling(depth: int = 40) -> bytes:
    """Functions that call the one before twice: inference follows each call."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = []
    for number in range(depth):
        inner, domain = (f"F{number - 1}", "own") if number else ("Neg", "")
        calls = [helper.make_node(inner, [a], [b], domain=domain) for a, b in ("ac", "cb")]
        functions.append(helper.make_function("own", f"F{number}", ["a"], ["b"], calls, imports))
    nodes = [helper.make_node(f"F{depth - 1}", ["x"], ["y"], domain="own")]
    return encode(nodes, [helper.make_tensor_value_info("y", 1, [2, 3])], functions=functions)


def swelling() -> bytes:
    """A value of shape, whose contents inference computes, of 10^9 numbers."""
    nodes = [
        helper.make_node("Constant", [], ["n"], value=helper.make_tensor("n", 7, [1], [10**9])),
        helper.make_node("ConstantOfShape", ["n"], ["big"], value=helper.make_tensor("v", 7, [1], [1])),
        helper.make_node("Concat", ["big", "big"], ["twice"], axis=0),
        helper.make_node("Reshape", ["x", "twice"], ["y"]),
    ]
    return encode(nodes, [helper.make_tensor_value_info("y", 1, None)])


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference._Memory, "last", (None, {}))


def test_types_are_inferred_and_a_refusal_is_told() -> None:
    types = inference.infer_types(encode([helper.make_node("Transpose", ["x"], ["y"])], []))
    assert parse_type(types["y"], 0, len(types["y"])) == TensorType("float32", (3, 2))
    with pytest.raises(InputError):
        inference.infer_types(b"no model")
    assert inference.find_refusal(encode([helper.make_node("Neg", ["x"], ["y"])], []), "data") == ""
    assert "No Op registered for Nag" in inference.find_refusal(encode([helper.make_node("Nag", ["x"], ["y"])], []), "data")


@pytest.mark.parametrize("ask", [inference.infer_types, lambda model: inference.find_refusal(model, "data")])
def test_a_model_that_ends_them_is_an_error_and_the_next_one_is_answered(ask: Callable[[bytes], object]) -> None:
    for _ in range(2):
        with pytest.raises(RefusedError, match=r"ONNX's inference ended without an answer \(signal"):
            ask(crashing())
    assert inference.infer_types(encode([helper.make_node("Neg", ["x"], ["y"])], []))["y"]


@pytest.mark.parametrize("ask", [inference.infer_types, lambda model: inference.find_refusal(model, "data")])
def test_a_model_that_never_ends_is_ended(ask: Callable[[bytes], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "SECONDS", 0.5)
    monkeypatch.setattr(confined_process, "_kept", {})
    with pytest.raises(RefusedError, match=r"ONNX's inference took more than 0\.5 s"):
        ask(doubling())
    with pytest.raises(RefusedError, match=r"the time limit of 0\.4 s"), time_limit(0.4):
        ask(doubling(41))


def test_what_came_of_a_model_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "SECONDS", 0.5)
    monkeypatch.setattr(confined_process, "_kept", {})
    for _ in range(2):
        with pytest.raises(RefusedError, match=r"took more than 0\.5 s"):
            inference.infer_types(doubling())
        monkeypatch.setattr(inference, "_ask", None)  # nobody asks again


@pytest.mark.skipif(not confined_process.can_limit_process(), reason="the system has no limit of memory")
def test_a_model_that_takes_gigabytes_is_refused() -> None:
    with memory_limit(300_000_000), pytest.raises(MemoryLimitError, match="more memory in ONNX's inference than the limit"):
        inference.infer_types(swelling())


def test_sizes_that_onnx_invents_are_left_out() -> None:
    def make(*names: str) -> TypeProto:
        return onnx.helper.make_tensor_type_proto(TensorProto.FLOAT, [*names])

    data = inference._encode_type(make("unk__0", "n", "unk__1"), {"unk__1"})
    assert parse_type(data, 0, len(data)) == TensorType("float32", (None, "n", "unk__1"))
    infos = [onnx.helper.make_tensor_value_info("v", TensorProto.FLOAT, sizes) for sizes in ([-1, 0, 2], [3])]
    inference._open_sizes(infos)
    shapes = [[size.HasField("dim_value") for size in info.type.tensor_type.shape.dim] for info in infos]
    assert shapes == [[False, True, True], [True]]
