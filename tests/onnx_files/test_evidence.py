"""What the inputs of a proof show: values of every kind and size, and never a verdict from nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import parser

import graphshare as gs
from graphshare.errors import InputError, RefusedError, UsageError
from tests.surroundings import ROOT
from tests.symbols import document, operator, variable

pytest.importorskip("onnxruntime")


class Pair(NamedTuple):
    """Two graphs in ONNX's text form, and the right outcome."""

    one: str
    other: str
    outcome: str
    options: Mapping[str, Any] = {}


_NUMBERS = "(float[2,4] x) => (float[2,4] y)"
_FREE = "(float[N,S] x) => (float[N,T] y)"
_BOXES = "(float[1,2,4] b, float[1,1,2] s) => (int64[k,3] y)"
_NMS = "m = Constant<value = int64 {3}>() t = Constant<value = float {0.5}>() y = NonMaxSuppression"
_SLICE = "z = Constant<value_ints = [0]>() o = Constant<value_ints = [1]>()"
PAIRS = {
    "all numbers are NaN": Pair(
        f"{_NUMBERS} {{ c = Constant<value_float = 99.0>() a = Sub(x, c) y = Sqrt(a) }}",
        f"{_NUMBERS} {{ c = Constant<value_float = 99.0>() a = Sub(x, c) b = Sqrt(a) y = Neg(b) }}",
        "not judged",
    ),
    "large integers": Pair(
        "(float[1,4] x) => (int64[1,1] y) { c = Constant<value_int = 1000000>() i = ArgMax<axis = 1>(x) y = Add(i, c) }",
        "(float[1,4] x) => (int64[1,1] y) { c = Constant<value_int = 1000000>() i = ArgMin<axis = 1>(x) y = Add(i, c) }",
        "not equal",
    ),
    "integers next to each other": Pair(
        "(int64[4] x) => (int64[4] y) { c = Constant<value_int = 30522000>() y = Add(x, c) }",
        "(int64[4] x) => (int64[4] y) { c = Constant<value_int = 30522001>() y = Add(x, c) }",
        "not equal",
    ),
    "negative integers": Pair(
        "(int64[8] x) => (int64[8] y) { y = Abs(x) }",
        "(int64[8] x) => (int64[8] y) { y = Identity(x) }",
        "not equal",
    ),
    "bytes above 127": Pair(
        "(uint8[16] x) => (float[16] y) { i = Cast<to = 3>(x) y = Cast<to = 1>(i) }",
        "(uint8[16] x) => (float[16] y) { y = Cast<to = 1>(x) }",
        "not equal",
    ),
    "exchanged texts": Pair(
        "(string[4] s, string[4] t) => (string[4] y) { y = StringConcat(s, t) }",
        "(string[4] s, string[4] t) => (string[4] y) { y = StringConcat(t, s) }",
        "not equal",
    ),
    "odd sizes": Pair(
        f"{_FREE} {{ p = Constant<value_int = 2>() {_SLICE} a = Shape<start = 1>(x) b = Div(a, p) e = Mul(b, p) y = Slice(x, z, e, o) }}",
        "(float[N,S] x) => (float[N,T] y) { y = Identity(x) }",
        "not equal",
    ),
    "a size beyond a Slice": Pair(
        f"{_FREE} {{ e = Constant<value_ints = [512]>() {_SLICE} y = Slice(x, z, e, o) }}",
        f"{_FREE} {{ y = Identity(x) }}",
        "not proved",
        {"by_weights": True},
    ),
    "an attribute of one side that is not the default": Pair(
        f"{_BOXES} {{ {_NMS}(b, s, m, t) }}",
        f"{_BOXES} {{ {_NMS}<center_point_box = 1>(b, s, m, t) }}",
        "not proved",
    ),
    "an attribute of one side that is the default": Pair(
        f"{_BOXES} {{ {_NMS}(b, s, m, t) }}",
        f"{_BOXES} {{ {_NMS}<center_point_box = 0>(b, s, m, t) }}",
        "equal",
    ),
    "random numbers on one side and their difference on the other": Pair(
        f"{_NUMBERS} {{ r = RandomNormalLike(x) s = RandomNormalLike(x) y = Sub(s, r) }}",
        f"{_NUMBERS} {{ r = RandomNormalLike(x) y = Sub(r, r) }}",
        "not judged",
    ),
}  # fmt: skip


def write(folder: Path, name: str, text: str) -> str:
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]>\ng {text}')
    if "StringConcat" in text:
        model.opset_import[0].version = 20
    path = str(folder / f"{name}.onnx")
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_has_the_right_outcome_in_both_orders(name: str, tmp_path: Path) -> None:
    pair = PAIRS[name]
    paths = [write(tmp_path, "one", pair.one), write(tmp_path, "other", pair.other)]
    for both in (paths, paths[::-1]):
        report = gs.compare(*both, **pair.options)
        assert report.outcome == pair.outcome, report.text


def test_an_integer_of_a_record_may_differ_by_atol_alone(tmp_path: Path) -> None:
    path = write(tmp_path, "m", "(int64[2] x) => (int64[2] y) { y = Add(x, x) }")
    record = {"x": np.array([500_000, 3]), "y": np.array([1_000_001, 6])}
    assert gs.compare(path, record).outcome == "not equal"
    assert gs.compare(path, record, tolerance=gs.Tolerance(rtol=0.1)).outcome == "not equal"
    assert gs.compare(path, record, tolerance=gs.Tolerance(atol=1)).outcome == "equal"


def test_an_input_that_takes_fractions_in_one_model_alone_is_noted(tmp_path: Path) -> None:
    one = write(tmp_path, "one", "(float[4] x) => (float[4] y) { y = Round(x) }")
    other = write(tmp_path, "other", "(int64[4] x) => (float[4] y) { y = Cast<to = 1>(x) }")
    for both, text in (
        ((one, other), f"float32 in {one}, and int64 in {other}"),
        ((other, one), f"int64 in {other}, and float32 in {one}"),
    ):
        assert f"'x' is {text}: both got whole numbers" in gs.compare(*both).notes
    assert not any("whole" in note for note in gs.compare(one, one).notes)


@pytest.mark.parametrize("layers", [False, True])
def test_outputs_without_an_element_are_not_judged(tmp_path: Path, *, layers: bool) -> None:
    lenet = gs.load(ROOT / "fixtures" / "lenet")
    wrong = lenet.with_params({"fc2_weight": lenet.params["fc2_weight"] * 3})
    exported = gs.export(wrong, shapes={"data": ("n", 1, 28, 28)})
    for one, other in ((lenet, exported), (exported, lenet)):
        report = gs.compare(one, other, shapes={"data": (0, 1, 28, 28)}, layers=layers)
        assert "it has no elements, since an input has none" in report.verdict
        assert (report.outcome, report.rung) == ("not judged", "not judged")
    record = {"data": np.zeros((0, 1, 28, 28), "float32"), "softmax_output": np.zeros((0, 10), "float32")}  # fmt: skip
    assert gs.compare(lenet, record, layers=layers).outcome == "not judged"


def test_a_model_is_not_exported_or_fixed_at_a_size_of_zero(tmp_path: Path) -> None:
    lenet = gs.load(ROOT / "fixtures" / "lenet")
    free = gs.export(lenet, shapes={"data": ("n", 1, 28, 28)})
    for act in (gs.export, gs.reshape):
        model = lenet if act is gs.export else free
        with pytest.raises(UsageError, match="the size 0, so there is nothing to compute"):
            act(model, shapes={"data": (0, 1, 28, 28)})


def test_a_sequence_of_nothing_but_nan_is_not_judged(tmp_path: Path) -> None:
    text = "(float[2,4] x) => (seq(float[2,4]) y) {{ c = Constant<value_float = 99.0>() a = Sub(x, c) b = Sqrt(a) {} y = SequenceConstruct(d, b) }}"
    one, other = (write(tmp_path, op, text.format(f"d = {op}(b)")) for op in ("Neg", "Exp"))
    assert "all its numbers are NaN" in gs.compare(one, other).verdict


NAN = document(
    [variable("x"), operator("_minus_scalar", "far", [0], attrs={"scalar": "99"}), operator("sqrt", "y", [1])],
    [2],
)  # fmt: skip


def test_no_rewrite_is_proved_by_numbers_that_are_all_nan(tmp_path: Path) -> None:
    (tmp_path / "nan-symbol.json").write_text(json.dumps(NAN))
    nan = gs.load(str(tmp_path / "nan-symbol.json"))
    with pytest.raises(RefusedError, match="all its numbers are NaN") as raised:
        gs.export(nan, str(tmp_path / "nan.onnx"), shapes={"x": (2, 4)})
    assert "verify=False" in raised.value.faults[0].hint
    assert not (tmp_path / "nan.onnx").exists()
    assert gs.export(nan, feeds={"x": np.full((2, 4), 100.0, "float32")}).report.proof
    free = gs.export(nan, shapes={"x": ("n", 4)}, verify=False)
    for sizes in ({"x": (3, 4)}, {"x": ("n", "m")}):
        with pytest.raises(RefusedError, match="all its numbers are NaN"):
            gs.reshape(free, shapes=sizes)


def test_equal_models_that_no_engine_takes_are_told_the_way_out(tmp_path: Path) -> None:
    path = write(tmp_path, "m", "(float[4] x) => (float[4] y) { y = ai.other.Unheard(x) }")
    model = onnx.load(path)
    model.opset_import.add(domain="ai.other", version=1)
    onnx.save(model, path)
    with pytest.raises(InputError) as raised:
        gs.compare(path, path)
    assert all("`allow_unsupported`" in fault.hint for fault in raised.value.faults)
    assert gs.compare(path, path, allow_unsupported=True).verdict.startswith("STRUCTURE EQUAL")


def test_an_output_may_be_empty_where_inputs_are_not(tmp_path: Path) -> None:
    text = "(float[2,4] x) => (int64[2,k] y) {{ c = Constant<value_float = 99.0>() b = Greater(x, c) y = NonZero(b) {} }}"
    one = write(tmp_path, "one", text.format(""))
    other = write(tmp_path, "other", text.replace("Greater(x, c)", "Less(c, x)").format(""))
    assert gs.compare(one, other).outcome == "equal"
