"""``verify`` of what optimizers and converters make of models, done by hand: a sample of ``python
-m benchmarks.rewrites``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import graphshare as gs
from graphshare.errors import Fault, InputError
from graphshare.verification import region_plan
from graphshare.verification.report import BranchReport, Report

_RNG = np.random.default_rng(0)
_EPSILON = 1e-3

KERNEL, LAST = (
    _RNG.standard_normal(shape).astype(np.float32) for shape in ((4, 3, 3, 3), (2, 4, 1, 1))
)
BIAS, SCALE, SHIFT, MEAN = (_RNG.standard_normal(4).astype(np.float32) for _ in range(4))
VARIANCE = np.array([0.5, 1, 2, 4], np.float32)
FACTOR = SCALE / np.sqrt(VARIANCE + np.float32(_EPSILON))
MATRIX = _RNG.standard_normal((4, 4)).astype(np.float32)

NORMALIZED = {
    "kernel": KERNEL,
    "bias": BIAS,
    "scale": SCALE,
    "shift": SHIFT,
    "mean": MEAN,
    "variance": VARIANCE,
    "last": LAST,
}
FOLDED = {
    "kernel": KERNEL * FACTOR[:, None, None, None],
    "bias": (BIAS - MEAN) * FACTOR + SHIFT,
    "last": LAST,
}


def parse(text: str, weights: Mapping[str, np.ndarray], opset: int) -> onnx.ModelProto:
    """Return a model of the lines of a graph, the inputs and outputs first."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')
    model.graph.initializer.extend(
        numpy_helper.from_array(values, name) for name, values in weights.items()
    )
    return model


STEM = """stem (float[N, 3, 6, 6] data) => (float[N, 2, 6, 6] out) {
  entry = Identity (data)
  conv = Conv <pads = [1, 1, 1, 1]> (entry, kernel, bias)
  norm = BatchNormalization <epsilon = 1e-3> (conv, scale, shift, mean, variance)
  act = Relu (norm)
  drop = Dropout (act)
  out = Conv (drop, last)
}"""
SLIM_STEM = """stem (float[N, 3, 6, 6] data) => (float[N, 2, 6, 6] out) {
  conv = Conv <pads = [1, 1, 1, 1], auto_pad = "NOTSET", group = 1> (data, kernel, bias)
  norm = BatchNormalization <epsilon = 1e-3> (conv, scale, shift, mean, variance)
  act = Relu (norm)
  out = Conv (act, last)
}"""
FOLDED_STEM = """stem (float[N, 3, 6, 6] data) => (float[N, 2, 6, 6] out) {
  norm = Conv <pads = [1, 1, 1, 1]> (data, kernel, bias)
  act = Relu (norm)
  out = Conv (act, last)
}"""

SCORES = """scores (float[4, 4] data) => (float[4, 4] out) {
  two = Constant <value = float {2.0}> ()
  turn = Transpose <perm = [1, 0]> (data)
  back = Transpose <perm = [1, 0]> (turn)
  product = MatMul (back, matrix)
  less = Sub (product, two)
  out = Softmax (less)
}"""
SLIM_SCORES = """scores (float[4, 4] data) => (float[4, 4] out) {
  product = MatMul (data, matrix)
  less = Sub (product, two)
  out = Softmax <axis = -1> (less)
}"""
TURNED_SCORES = """scores (float[4, 4] data) => (float[4, 4] out) {
  turn = Transpose <perm = [1, 0]> (data)
  product = MatMul (turn, matrix)
  less = Sub (product, two)
  out = Softmax (less)
}"""
SCORE_WEIGHTS = {"matrix": MATRIX, "two": np.array(2, np.float32)}

SUMS = """sums (float[1, 4, 4] data) => (float[4] out) {
  sum = ReduceSum <axes = [2], keepdims = 1> (data)
  narrow = Squeeze <axes = [0, 2]> (sum)
  out = Exp (narrow)
}"""
LATER_SUMS = """sums (float[1, 4, 4] data) => (float[4] out) {
  sum = ReduceSum (data, last_axis)
  narrow = Squeeze (sum, outer_axes)
  out = Exp (narrow)
}"""
SWITCH = """switch (float[2, 3] data, int64 n) => (float[2, 3] out) {
  is_three = Equal (n, three)
  out = If (is_three) <
    then_branch = yes () => (float[2, 3] p) { p = Add (data, data) },
    else_branch = no () => (float[2, 3] q) { h = Neg (data) q = Exp (h) }>
}"""
DOUBLED = SWITCH.replace("Add (data, data)", "Mul (data, two)")
CHOICE = """switch (float[2, 3] data, int64 n) => (float[2, 3] out) {
  is_three = Equal (n, three)
  p = Add (data, data)
  h = Neg (data)
  q = Exp (h)
  out = Where (is_three, p, q)
}"""
SWITCH_WEIGHTS = {"three": np.array(3), "two": np.array(2, np.float32)}
WORDS = """words (string[3] data, float[3] more) => (string[3] out, float[3] sum) {
  same = StringConcat (data, data)
  out = StringConcat (same, suffix)
  sum = Neg (more)
}"""

AXES = {"last_axis": np.array([2], np.int64), "outer_axes": np.array([0, 2], np.int64)}

MODELS = {
    "stem": parse(STEM, NORMALIZED, 17),
    "scores": parse(SCORES, {"matrix": MATRIX}, 17),
    "sums": parse(SUMS, {}, 12),
    "switch": parse(SWITCH, SWITCH_WEIGHTS, 17),
    "words": parse(WORDS, {"suffix": np.array(["s"], object)}, 20),
}
EXACT = {
    "Identity and Dropout removed, defaults stated": ("stem", parse(SLIM_STEM, NORMALIZED, 17)),
    "cancelling Transposes removed, Constant to initializer": (
        "scores",
        parse(SLIM_SCORES, SCORE_WEIGHTS, 17),
    ),
    "axes as inputs in a later opset": ("sums", parse(LATER_SUMS, AXES, 13)),
}
FUSED = {"BatchNormalization folded into Conv": ("stem", parse(FOLDED_STEM, FOLDED, 17))}
FAULTS = {
    "padding moved": ("stem", "conv", parse(SLIM_STEM.replace("[1, 1, 1, 1]", "[0, 2, 2, 0]"), NORMALIZED, 17)),
    "epsilon lost": ("stem", "norm", parse(SLIM_STEM.replace("epsilon = 1e-3", "epsilon = 1e-5"), NORMALIZED, 17)),
    "Relu turned": ("stem", "act", parse(SLIM_STEM.replace("Relu", "Neg"), NORMALIZED, 17)),
    "folded without the mean": ("stem", "norm", parse(FOLDED_STEM, {**FOLDED, "bias": BIAS * FACTOR + SHIFT}, 17)),
    "folded into swapped channels": ("stem", "norm", parse(FOLDED_STEM, {**FOLDED, "kernel": FOLDED["kernel"][::-1]}, 17)),
    "one Transpose removed": ("scores", "product", parse(TURNED_SCORES, SCORE_WEIGHTS, 17)),
    "another constant": ("scores", "less", parse(SLIM_SCORES, {**SCORE_WEIGHTS, "two": np.arange(4, dtype=np.float32)}, 17)),
    "operands swapped": ("scores", "less", parse(SLIM_SCORES.replace("(product, two)", "(two, product)"), SCORE_WEIGHTS, 17)),
    "another axis of Softmax": ("scores", "out", parse(SLIM_SCORES.replace("-1", "0"), SCORE_WEIGHTS, 17)),
    "another axis of a sum": (
        "sums",
        "sum",
        parse(LATER_SUMS.replace("Squeeze (sum, outer_axes)", "Reshape (sum, four)"),
              {"last_axis": np.array([1], np.int64), "four": np.array([4], np.int64)}, 13),
    ),
}  # fmt: skip


def verify(name: str, rewrite: onnx.ModelProto, folder: Path, **settings: Any) -> Report:
    """Return the report of a rewrite beside its original."""
    original, other = folder / "original.onnx", folder / "rewrite.onnx"
    onnx.save(MODELS[name], original)
    onnx.save(rewrite, other)
    onnx.checker.check_model(str(other), full_check=True)
    return gs.compare(original, other, **settings)


def judge(name: str, rewrite: onnx.ModelProto, folder: Path) -> BranchReport:
    """Return what one round of a rewrite reports."""
    (branch,) = verify(name, rewrite, folder).branches
    return branch


@pytest.mark.parametrize("case", EXACT)
def test_a_rewrite_by_identities_is_exact(case: str, tmp_path: Path) -> None:
    branch = judge(*EXACT[case], tmp_path)
    assert branch
    (judged,) = branch.regions
    assert judged.exact == judged.operators
    assert not judged.regions


@pytest.mark.parametrize("case", FUSED)
def test_a_fusion_is_a_region_within_the_tolerance(case: str, tmp_path: Path) -> None:
    branch = judge(*FUSED[case], tmp_path)
    assert branch
    (region,) = branch.regions[0].regions
    assert {node.name for node in region.nodes} == {"conv", "norm"}
    assert region.steps is not None
    assert 0 < region.steps < 4


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_named_with_its_region(case: str, tmp_path: Path) -> None:
    name, node, rewrite = FAULTS[case]
    branch = judge(name, rewrite, tmp_path)
    assert not branch
    (stage,) = (stage for stage in branch.stages if stage.name == "regions")
    assert stage.verdict == "fails"
    assert "DIFFER" in stage.summary
    assert repr(node) in stage.details[1]


def test_a_body_that_was_not_computed_is_judged_by_its_regions(tmp_path: Path) -> None:
    """Both bodies of one rewrite are right; in the other one the body that is not taken at first has a fault."""
    rewrite = parse(DOUBLED, SWITCH_WEIGHTS, 17)
    once = verify("switch", rewrite, tmp_path)
    assert once, once.verdict
    assert [region.place for region in once.branches[0].regions[0].regions] == [
        "then_branch of 'out'",
        "",
    ]
    twice = verify("switch", rewrite, tmp_path, inputs=gs.Inputs(rounds=2))
    assert twice, twice.verdict
    assert twice.notes[-1] == "bodies computed: 2 of 2"
    faulty = [
        parse(DOUBLED.replace(a, b), SWITCH_WEIGHTS, 17)
        for a, b in (("Exp (h)", "Tanh (h)"), ("two)", "three_more)"))
    ]
    faulty[1].graph.initializer.append(
        numpy_helper.from_array(np.array(3, np.float32), "three_more")
    )
    for model, place in zip(faulty, ("else_branch of 'out'", "then_branch of 'out'"), strict=True):
        report = verify("switch", model, tmp_path)
        # Only the body that the drawn inputs take shows its fault in an output.
        is_taken = place.startswith("then")
        assert report.outcome == ("not equal" if is_taken else "not proved"), report.verdict
        assert is_taken or place in report.verdict
        assert [region.place for region in report.branches[0].regions[0].regions if not region] in (
            [place],
            [place, ""],
        )
        assert verify("switch", model, tmp_path, inputs=gs.Inputs(rounds=2)).verdict.startswith(
            "NOT EQUAL"
        )


def test_a_body_that_has_no_counterpart_must_be_computed(tmp_path: Path) -> None:
    """Without the If there is nothing to compare its bodies with one by one: each has to be taken in a round."""
    rewrite = parse(CHOICE, SWITCH_WEIGHTS, 17)
    once = verify("switch", rewrite, tmp_path)
    assert once.outcome == "not judged", once.verdict
    assert once.branches[0].stages[-1].details == (
        "'out': one of its bodies was compared with nothing",
    )
    twice = verify("switch", rewrite, tmp_path, inputs=gs.Inputs(rounds=2))
    assert twice, twice.verdict
    assert len(twice.branches[0].regions) == 2
    faulty = parse(CHOICE.replace("Exp (h)", "Tanh (h)"), SWITCH_WEIGHTS, 17)
    assert verify("switch", faulty, tmp_path).outcome == "not judged"
    assert verify("switch", faulty, tmp_path, inputs=gs.Inputs(rounds=2)).verdict.startswith(
        "NOT EQUAL"
    )


@pytest.mark.parametrize(
    ("operands", "verdict"),
    [("more, data", "EQUAL"), ("data, data", "NOT PROVED"), ("more, more", "NOT EQUAL")],
)
def test_regions_of_the_same_operators_are_tried_on_other_inputs(
    operands: str, verdict: str, tmp_path: Path
) -> None:
    """These inputs do not show which of the operands is lost: the first one is larger everywhere."""
    larger = """larger (float[3] data, float[3] more) => (float[3] out, float[3] sum) {
      sum = Add (data, more)
      m = Max (data, more)
      out = Exp (m)
    }"""
    feeds = {"data": np.ones(3, np.float32), "more": np.zeros(3, np.float32)}
    paths = []
    for name, text in (
        ("original", larger),
        ("rewrite", larger.replace("Max (data, more)", f"Max ({operands})")),
    ):
        paths.append(tmp_path / f"{name}.onnx")
        onnx.save(parse(text, {}, 17), paths[-1])
    report = gs.compare(paths[0], paths[1], feeds=feeds)
    assert report.verdict.startswith(verdict), report.verdict
    hidden = [region.hidden for region in report.branches[0].regions[0].regions]
    assert hidden[-1] == (
        "different inputs give different values" if verdict == "NOT PROVED" else ""
    )


# The rewrite drops an Add, and calls the value before it by the name of its result; the Adds behind that are joined.
SHIFTED = """shifted (float[4, 8] data) => (bool[4, 8] out) {
  z = Relu (data)
  x = Add (z, half)
  t = Add (x, eighth)
  y = Add (t, more)
  out = Greater (y, ten)
}"""
UNSHIFTED = """shifted (float[4, 8] data) => (bool[4, 8] out) {
  x = Relu (data)
  y = Add (x, both)
  out = Greater (y, ten)
}"""
SHIFTED_BODY = """shifted (float[4, 8] data, int64 n) => (float[4, 8] out) {
  z = Relu (data)
  x = Add (z, half)
  is_three = Equal (n, three)
  out = If (is_three) <
    then_branch = yes () => (float[4, 8] y) { t = Add (x, eighth) y = Add (t, more) },
    else_branch = no () => (float[4, 8] q) { q = Exp (data) }>
}"""
UNSHIFTED_BODY = """shifted (float[4, 8] data, int64 n) => (float[4, 8] out) {
  x = Relu (data)
  is_three = Equal (n, three)
  out = If (is_three) <
    then_branch = yes () => (float[4, 8] y) { y = Add (x, both) },
    else_branch = no () => (float[4, 8] q) { q = Exp (data) }>
}"""
SHIFTED_EXACT = SHIFTED_BODY.replace(
    "t = Add (x, eighth) y = Add (t, more)", "t = Mul (eighth, more) y = Add (x, t)"
)
SHIFTS = {
    name: np.array(value, np.float32)
    for name, value in (("half", 0.5), ("eighth", 0.125), ("more", 0.625))
}
THREE, TEN = {"three": np.array(3)}, {"ten": np.array(10, np.float32)}


@pytest.mark.parametrize(
    ("original", "rewrite", "joined", "more"),
    [
        (SHIFTED, UNSHIFTED, 0.75, TEN),
        (SHIFTED_BODY, UNSHIFTED_BODY, 0.75, THREE),
        (SHIFTED_EXACT, UNSHIFTED_BODY, 0.078125, THREE),
    ],
    ids=["main", "body", "exact body"],
)
def test_a_region_is_judged_again_where_its_start_was_taken_for_another_value(
    original: str, rewrite: str, joined: float, more: Mapping[str, np.ndarray], tmp_path: Path
) -> None:
    """What follows the name is right if it starts from the original's value of that name, which the
    rewrite does not have.
    """
    paths = []
    for name, text, weights in (
        ("original", original, SHIFTS),
        ("rewrite", rewrite, {"both": np.array(joined, np.float32)}),
    ):
        paths.append(tmp_path / f"{name}.onnx")
        onnx.save(parse(text, {**weights, **more}, 17), paths[-1])
    feeds = {
        "data": np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32),
        **({"n": np.array(0)} if more is THREE else {}),
    }
    report = gs.compare(paths[0], paths[1], feeds=feeds)
    # No input may reach a body; without one, the weights show that some input gives other outputs.
    word = (
        "NOT EQUAL: regions"
        if more is TEN
        else "NOT PROVED: the outputs are equal, but 1 region differs, first at y"
    )
    assert report.verdict.startswith(word), report.verdict
    assert [output.comparison.identical for output in report.branches[0].rounds[0].outputs] == [
        True
    ]
    (region,) = (region for region in report.branches[0].regions[0].regions if not region)
    assert [node.name for node in region.nodes] == ["x", "t", "y"][-len(region.nodes) :]


LOOP = """loop (float[2, 3] data) => (float[2, 3] out, float[2, 3] last) {{
  out = Loop (three, yes, data) <body = body (int64 i, bool c, float[2, 3] state) => (bool go, float[2, 3] next) {{
    go = Identity (c)
    inner = Sub (state, {limit})
    next = Relu (inner)
  }}>
  {tail}
  last = Cos (y)
}}"""
LIMITS = {"low": np.array(2000, np.float32), "high": np.array(4000, np.float32)}


@pytest.mark.parametrize(
    "tail",
    ["x = Exp (data) y = Neg (x)", "z = Exp (data) x = Neg (z) y = Identity (x)"],
    ids=["same", "moved"],
)
def test_a_body_that_departs_is_reported_in_a_plan_that_follows_a_moved_name(
    tail: str, tmp_path: Path
) -> None:
    """The Relu hides what the body of the Loop subtracts; the name of another value contradicts the first plan."""
    paths = [tmp_path / "original.onnx", tmp_path / "rewrite.onnx"]
    for path, limit, own in zip(paths, LIMITS, ("x = Exp (data) y = Neg (x)", tail), strict=True):
        onnx.save(
            parse(
                LOOP.format(limit=limit, tail=own),
                {**LIMITS, "three": np.array(3), "yes": np.array(True)},
                17,
            ),
            path,
        )
    for first, second in (paths, reversed(paths)):
        verdict = gs.compare(first, second).verdict
        assert (
            verdict
            == "NOT PROVED: the outputs are equal, but 1 region differs, first at inner in body of 'out'"
        )


SEQUENCE_LOOP = """sequences (float[2, 3] data) => (float[2, 3] out) {{
  begin = SequenceConstruct (data)
  end = Loop (three, yes, begin) <body = body (int64 i, bool c, seq(float[2, 3]) state)
      => (bool go, seq(float[2, 3]) next) {{
    go = Identity (c)
    at = SequenceAt (state, i)
    inner = {double}
    next = SequenceInsert (state, inner)
  }}>
  out = SequenceAt (end, three)
}}"""


def test_a_loop_that_carries_a_sequence_is_judged_by_its_outputs(tmp_path: Path) -> None:
    paths = [tmp_path / "original.onnx", tmp_path / "rewrite.onnx"]
    weights = {"three": np.array(3), "yes": np.array(True), "two": np.array(2, np.float32)}
    for path, double in zip(paths, ("Add (at, at)", "Mul (at, two)"), strict=True):
        onnx.save(parse(SEQUENCE_LOOP.format(double=double), weights, 17), path)
    report = gs.compare(*paths)
    assert report, report.verdict


def test_a_difference_that_no_output_can_show_is_none(tmp_path: Path) -> None:
    """The largest of some numbers stays the largest where all of them are shifted, whatever the numbers are."""
    paths = [tmp_path / "original.onnx", tmp_path / "rewrite.onnx"]
    for path, text, weights in zip(
        paths, (SHIFTED, UNSHIFTED), (SHIFTS, {"both": np.array(0.75, np.float32)}), strict=True
    ):
        largest = text.replace("Greater (y, ten)", "ArgMax <axis = 1, keepdims = 0> (y)")
        onnx.save(parse(largest.replace("bool[4, 8] out", "int64[4] out"), weights, 17), path)
    report = gs.compare(*paths)
    assert report, report.verdict
    assert report.rung.startswith("on ")


def test_texts_pass_between_regions(tmp_path: Path) -> None:
    branch = judge("words", parse(WORDS, {"suffix": np.array(["t"], object)}, 20), tmp_path)
    (region,) = branch.regions[0].regions
    assert [str(node) for node in region.nodes] == ["StringConcat 'out'"]
    assert region.comparison is not None, region.reason
    assert not region


def test_regions_that_are_not_judged_prove_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise InputError(Fault("onnxruntime has no kernel"))

    monkeypatch.setattr("graphshare.verification.parts.open_part", refuse)
    paths = [tmp_path / "original.onnx", tmp_path / "rewrite.onnx"]
    for path, text in zip(
        paths, (CHOICE, CHOICE.replace("Add (data, data)", "Mul (data, two)")), strict=True
    ):
        onnx.save(parse(text, SWITCH_WEIGHTS, 17), path)
    report = gs.compare(*paths)
    assert report.outcome == "not judged"
    assert report.verdict == "NOT JUDGED: first at p: not judged: onnxruntime has no kernel"


def test_weights_need_no_run_of_regions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise InputError(Fault("onnxruntime has no kernel"))

    monkeypatch.setattr("graphshare.verification.parts.open_part", refuse)
    report = verify("stem", FUSED["BatchNormalization folded into Conv"][1], tmp_path)
    assert report.rung == "by weights"
    assert [output.comparison.equal for output in report.branches[0].rounds[0].outputs] == [True]


def test_plans_end_where_nothing_new_is_learned(tmp_path: Path) -> None:
    path = tmp_path / "original.onnx"
    onnx.save(MODELS["stem"], path)
    model = gs.load(path)
    planner = region_plan.Planner(
        model, model, [(head, head) for head in model.graph.heads], {"data": "data"}
    )
    place = region_plan.get_place(model.graph.heads[0])
    changes = region_plan.PlanChanges(banned={place})
    assert planner.changes.lacks(changes)
    planner.changes.add(changes)
    assert not planner.changes.lacks(changes)
    assert not planner.changes.lacks(region_plan.PlanChanges())
