"""ONNX's inference and checker in their process: what they answer, and models that keep them busy or end them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from graphshare import confined_process
from graphshare.errors import InputError, MemoryLimitError, RefusedError
from graphshare.formats.facets import TensorType
from graphshare.formats.onnx import inference
from graphshare.formats.onnx.types import parse_type
from graphshare.resources import memory_limit, time_limit

onnx = pytest.importorskip("onnx", reason="onnx is of the onnx extra")
from tests.onnx_files.ending_models import crashing, doubling, encode, swelling  # noqa: E402 (it needs onnx)

TensorProto, TypeProto, helper = onnx.TensorProto, onnx.TypeProto, onnx.helper


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference._Memory, "last", (None, {}))


def test_types_are_inferred_and_a_refusal_is_told() -> None:
    types = inference.infer_types(encode([helper.make_node("Transpose", ["x"], ["y"])], []))
    assert parse_type(types["y"], 0, len(types["y"])) == TensorType("float32", (3, 2))
    with pytest.raises(InputError):
        inference.infer_types(b"no model")
    assert inference.find_refusal(encode([helper.make_node("Neg", ["x"], ["y"])], []), "data") == ""
    assert "No Op registered for Nag" in inference.find_refusal(
        encode([helper.make_node("Nag", ["x"], ["y"])], []), "data"
    )


@pytest.mark.parametrize(
    "ask", [inference.infer_types, lambda model: inference.find_refusal(model, "data")]
)
def test_a_model_that_ends_them_is_an_error_and_the_next_one_is_answered(
    ask: Callable[[bytes], object],
) -> None:
    for _ in range(2):
        with pytest.raises(
            RefusedError, match=r"ONNX's inference ended without an answer \(signal"
        ):
            ask(crashing())
    assert inference.infer_types(encode([helper.make_node("Neg", ["x"], ["y"])], []))["y"]


@pytest.mark.parametrize(
    "ask", [inference.infer_types, lambda model: inference.find_refusal(model, "data")]
)
def test_a_model_that_never_ends_is_ended(
    ask: Callable[[bytes], object], monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.skipif(
    not confined_process.can_limit_process(), reason="the system has no limit of memory"
)
def test_a_model_that_takes_gigabytes_is_refused() -> None:
    with (
        memory_limit(300_000_000),
        pytest.raises(MemoryLimitError, match="more memory in ONNX's inference than the limit"),
    ):
        inference.infer_types(swelling())


def test_sizes_that_onnx_invents_are_left_out() -> None:
    def make(*names: str) -> TypeProto:
        return onnx.helper.make_tensor_type_proto(TensorProto.FLOAT, [*names])

    data = inference._encode_type(make("unk__0", "n", "unk__1"), {"unk__1"})
    assert parse_type(data, 0, len(data)) == TensorType("float32", (None, "n", "unk__1"))
    infos = [
        onnx.helper.make_tensor_value_info("v", TensorProto.FLOAT, sizes)
        for sizes in ([-1, 0, 2], [3])
    ]
    inference._open_sizes(infos)
    shapes = [
        [size.HasField("dim_value") for size in info.type.tensor_type.shape.dim] for info in infos
    ]
    assert shapes == [[False, True, True], [True]]
