"""Numbers that no input reached: a note says where both sides part there; true rewrites have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

import graphshare as gs
from graphshare.ops.kernel import Array
from graphshare.ops.registry import find_kernel
from graphshare.verification.far_values import _BY_ELEMENT
from tests.onnx_files.test_weights import Node, build, compare
from tests.processes import graphshare

pytest.importorskip("onnxruntime")

_NUMBERS: Mapping[str, Array] = {
    "zero": np.float32(0),
    "one": np.float32(1),
    "two": np.float32(2),
    "three": np.float32(3),
    "six": np.float32(6),
    "eight": np.float32(8),
    "far": np.float32(1e5),
    "slopes": np.array([0.25, 0.5], "f").reshape(2, 1),
}
_SILU: Sequence[Node] = [("Sigmoid", "x", "s", {}), ("Mul", "x s", "y", {})]
_SILU_BY_EXP: Sequence[Node] = [
    ("Neg", "x", "n", {}),
    ("Exp", "n", "e", {}),
    ("Add", "e one", "d", {}),
    ("Div", "x d", "y", {}),
]
_PAIR: Sequence[Node] = [("Transpose", "x", "p", {"perm": [1, 0, 2]})]
_HARD: Sequence[Node] = [
    ("Add", "x three", "a", {}),
    ("Clip", "a zero six", "c", {}),
    ("Mul", "x c", "p", {}),
    ("Div", "p six", "y", {}),
]


def write(*sides: Sequence[Node], shape: Sequence[int] = (2, 2, 4)) -> list[onnx.ModelProto]:
    """Return both models, each with the numbers that it reads."""
    models = []
    for nodes in sides:
        read = {name for _, inputs, _, _ in nodes for name in inputs.split()}
        models.append(
            build(nodes, {name: array for name, array in _NUMBERS.items() if name in read}, shape)
        )
    return models


DEPARTING: Mapping[str, tuple[Sequence[Node], Sequence[Node], str]] = {
    # An Exp that overflows at 88.7 makes a Softplus infinite.
    "overflow on one side": (
        [("Exp", "x", "e", {}), ("Add", "e one", "a", {}), ("Log", "a", "y", {})],
        [("Softplus", "x", "y", {})],
        "departs at 100",
    ),
    "a limit beyond what is drawn": (
        [*_SILU_BY_EXP[:-1], ("Div", "x d", "h", {}), ("Min", "h far", "y", {})],
        _SILU,
        "departs at 1.12e+05",
    ),
    "two values": (
        [
            *_PAIR,
            ("Exp", "p", "e", {}),
            ("Exp", "x", "f", {}),
            ("Mul", "e f", "g", {}),
            ("Log", "g", "y", {}),
        ],
        [*_PAIR, ("Add", "p x", "y", {})],
        "departs at 'p' 100 and 'x' 0.126",
    ),
}
SILENT: Mapping[str, tuple[Sequence[Node], Sequence[Node]]] = {
    "HardSwish, by a Clip": (
        _HARD,
        [("HardSigmoid", "x", "h", {"alpha": 1 / 6, "beta": 0.5}), ("Mul", "x h", "y", {})],
    ),
    "HardSwish": ([("HardSwish", "x", "y", {})], _HARD),
    "SiLU": (_SILU, _SILU_BY_EXP),
    "overflow on both sides": (
        [("Pow", "x eight", "y", {})],
        [("Mul", "x x", "a", {}), ("Mul", "a a", "b", {}), ("Mul", "b b", "y", {})],
    ),
    "no number on both sides": (
        [("Sqrt", "x", "l", {}), ("Div", "l three", "y", {})],
        [("Sqrt", "x", "h", {}), ("Div", "one three", "t", {}), ("Mul", "h t", "y", {})],
    ),
    "slopes by channel": (
        [("PRelu", "x slopes", "y", {})],
        [
            ("Relu", "x", "r", {}),
            ("Sub", "x r", "n", {}),
            ("Mul", "n slopes", "m", {}),
            ("Add", "r m", "y", {}),
        ],
    ),
    "numbers that a Tanh does not reach": (
        [
            ("Tanh", "x", "t", {}),
            ("Exp", "t", "e", {}),
            ("Mul", "e e", "q", {}),
            ("Log", "q", "y", {}),
        ],
        [("Tanh", "x", "t", {}), ("Mul", "t two", "y", {})],
    ),
    "a sine of large numbers": (
        [("Sin", "x", "s", {}), ("Mul", "x s", "p", {}), ("Mul", "p three", "y", {})],
        [("Mul", "x three", "t", {}), ("Sin", "x", "h", {}), ("Mul", "t h", "y", {})],
    ),
}


def list_notes(report: gs.Report) -> list[str]:
    return [
        region.note
        for branch in report.branches
        for each in branch.regions
        for region in each.regions
        if region.note
    ]


@pytest.mark.parametrize("case", DEPARTING)
def test_a_departure_is_a_note(case: str, tmp_path: Path) -> None:
    one, other, text = DEPARTING[case]
    report = compare(tmp_path, *write(one, other))
    assert (report.outcome, report.rung) == ("equal", "on 1 input"), report.verdict
    notes = list_notes(report)
    assert [note.partition(", departs")[2] for note in notes] == [text.removeprefix("departs")]
    assert notes[0].startswith("agrees on the values seen (")
    assert [
        text
        for branch in report.branches
        for stage in branch.stages
        for text in stage.details
        if notes[0] in text
    ]
    strict = compare(tmp_path, *write(one, other), by_weights=True)
    assert strict.outcome == "not proved"


@pytest.mark.parametrize("case", SILENT)
def test_a_true_rewrite_has_none(case: str, tmp_path: Path) -> None:
    report = compare(tmp_path, *write(*SILENT[case]))
    assert report, report.verdict
    assert list_notes(report) == []


@pytest.mark.parametrize("shape", [(), (1,), (3, 100_000)])
def test_arrays_of_any_size_are_tried(shape: Sequence[int], tmp_path: Path) -> None:
    one, other, _ = DEPARTING["overflow on one side"]
    report = compare(tmp_path, *write(one, other, shape=shape))
    assert report.rung == "on 1 input"
    assert len(list_notes(report)) == 1


def test_what_is_hidden_says_where(tmp_path: Path) -> None:
    """A Clip that no drawn number reached was not shown to be a Relu: the stage of what is hidden has the number."""
    report = compare(tmp_path, *write([("Relu", "x", "y", {})], [("Clip", "x zero six", "y", {})]))
    assert report.outcome == "not proved"
    (stage,) = [
        stage for branch in report.branches for stage in branch.stages if stage.name == "changes"
    ]
    (detail,) = stage.details
    assert detail.startswith(
        "y: different inputs give different values; agrees on the values seen ("
    )
    assert detail.endswith(", departs at 6.75")


def test_a_departure_on_what_is_drawn_is_a_difference(tmp_path: Path) -> None:
    report = compare(tmp_path, *write([("Relu", "x", "y", {})], [("Clip", "x zero one", "y", {})]))
    assert report.outcome == "not equal"


def test_the_note_is_in_the_data_and_in_the_picture(tmp_path: Path) -> None:
    one, other, text = DEPARTING["overflow on one side"]
    compare(tmp_path, *write(one, other))
    paths = [str(tmp_path / f"{name}.onnx") for name in ("original", "rewrite")]
    for how in ("json", "html", "text"):
        done = graphshare("compare", *paths, "--format", how)
        assert done.returncode == 0
        assert text in done.stdout.decode()


def test_operators_by_element_exist() -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history()} | {
        "BiasGelu",
        "FastGelu",
        "QuickGelu",
    }
    assert [op for op in sorted(_BY_ELEMENT - known) if find_kernel(op) is None] == []


def test_numbers_that_float16_does_not_have_are_no_departure(tmp_path: Path) -> None:
    halves: Sequence[Node] = [
        ("Cast", "x", "h", {"to": onnx.TensorProto.FLOAT16}),
        ("Sub", "h k", "d", {}),
        ("Abs", "d", "a", {}),
        ("Cast", "a", "y", {"to": onnx.TensorProto.FLOAT}),
    ]
    left = build([("Sub", "x k", "d", {}), ("Abs", "d", "y", {})], {"k": np.float32(3)}, ["n", 40])
    right = build(halves, {"k": np.float16(3)}, ["n", 40])
    report = compare(tmp_path, left, right)
    assert report.outcome == "equal", report.verdict
    assert not [
        region.note
        for branch in report.branches
        for each in branch.regions
        for region in each.regions
        if region.note
    ]
