"""The answer of ``verify`` in one line: what is wrong, or what was compared and how closely."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.formats.params.comparison import Comparison
from graphshare.formats.params.lookup import ParameterPair
from graphshare.verification.comparison import (
    EngineComparison,
    InnerComparison,
    OutputComparison,
    Tolerance,
    Values,
    tolerate_dtype,
)
from graphshare.verification.onnx_export import ExportReport
from graphshare.verification.region import Operator, Region, RegionReport
from graphshare.verification.region_stages import add_regions, region_stage
from graphshare.verification.report import (
    OTHER_MODEL,
    BranchReport,
    Report,
    Stage,
    Verdict,
    engine_stage,
    exact_stage,
    layer_stage,
    parameter_stage,
    training_stage,
    value_stage,
)
from graphshare.verification.training import TrainedOutput, TrainedPair, Training
from tests.symbols import document, operator, variable

EXACT, NEAR, APART = (
    Comparison(True, True, 0, 0),
    Comparison(True, False, 1e-7, 1e-7),
    Comparison(False, False, 1, 1),
)
SIGNED = Comparison(True, False, 0, 0)
HOLDS = tuple(Stage(name, "holds", "") for name in ("structure", "parameters", "values"))


def values(comparison: Comparison) -> Values:
    return Values(
        (OutputComparison("y", "b-y", (2,), "float32", comparison),), None, 0, None, (), "numpy"
    )


def branch(
    *stages: Stage, name: str = "b-", comparison: Comparison = EXACT, **more: object
) -> BranchReport:
    return BranchReport("", name, stages or HOLDS, (values(comparison),), **more)  # type: ignore[arg-type]


def failing(*names: str, name: str = "b-", **more: object) -> BranchReport:
    return branch(*HOLDS, *(Stage(each, "fails", "") for each in names), name=name, **more)


def trained(*fates: str, auxiliary: bool = False) -> Training:
    pairs = tuple(TrainedPair("w", "b-w", fate, auxiliary, 0, 0, 0) for fate in fates)
    return Training(1.0, pairs, (TrainedOutput("y", "b-y", 0, 0, 0, 0, EXACT),))


def region(comparison: Comparison | None, end: str = "r", **more: object) -> Region:
    return Region(((end, end),), (), (), comparison, **more)  # type: ignore[arg-type]


def regions(*found: Region, exact: int = 3) -> tuple[RegionReport, ...]:
    return (RegionReport(exact, 5, {}, found),)


STRUCTURE_SKIPPED = (Stage("structure", "skipped", "", ("one", "two")), *HOLDS[1:])


@pytest.mark.parametrize(
    ("branches", "verdict"),
    [
        ((), "NOT JUDGED: nothing was compared"),
        ((branch(),), "EQUAL: b- and the original, bit for bit"),
        (
            (branch(), branch(name="c-", comparison=NEAR)),
            "EQUAL: b-, c- and the original, within the tolerance",
        ),
        (
            (branch(comparison=NEAR, tolerance=Tolerance(0, 0)),),
            "EQUAL: b- and the original, within the tolerance",
        ),
        (
            (branch(comparison=NEAR, tolerance=tolerate_dtype("float16", Tolerance())),),
            "EQUAL: b- and the original, within the tolerance of float16",
        ),
        (
            (branch(*STRUCTURE_SKIPPED),),
            "EQUAL: b- and the original, bit for bit; 2 differences of structure",
        ),
        (
            (branch(HOLDS[0], Stage("parameters", "skipped", ""), HOLDS[2]),),
            "EQUAL: b- and the original, bit for bit; parameters not compared",
        ),
        (
            (branch(HOLDS[0], Stage("parameters", "skipped", ""), Stage("values", "skipped", "")),),
            "STRUCTURE EQUAL: b- and the original, values not compared; parameters not compared",
        ),
        ((BranchReport("a-", "b-", HOLDS),), "STRUCTURE EQUAL: b- and a-, values not compared"),
        (
            (branch(training=trained("tied", "frozen")),),
            "EQUAL: b- and the original, bit for bit; tied: they train as one",
        ),
        (
            (
                branch(training=trained("tied")),
                branch(name="c-", training=trained("tied", "drifts")),
            ),
            "EQUAL: b-, c- and the original, bit for bit; copied: 1 parameter will drift",
        ),
        (
            (branch(training=trained("stays")), branch(name="c-", training=trained("tied"))),
            "EQUAL: b-, c- and the original, bit for bit; copied, not tied, though this step did not move them apart",
        ),
        (
            (branch(training=trained("drifts", auxiliary=True)),),
            "EQUAL: b- and the original, bit for bit; tied: they train as one",
        ),
        ((failing("training", training=trained("stays")),), "NOT TIED: b- has copies"),
        (
            (
                failing("training", training=trained("stays")),
                failing("training", name="c-", training=trained("drifts")),
            ),
            "NOT TIED: b-, c- will drift",
        ),
        # Only the branch that fails has to have been trained.
        (
            (branch(), failing("training", name="c-", training=trained("drifts"))),
            "NOT TIED: c- will drift",
        ),
        ((failing("training"),), "NOT EQUAL: training of b-"),
        (
            (failing("values", "training", training=trained("drifts")),),
            "NOT EQUAL: values of b-, training of b-",
        ),
        ((failing("values"), branch(name="c-")), "NOT EQUAL: values of b-"),
        (
            (
                branch(
                    *HOLDS, Stage("regions", "unknown", "", ("first at r: not judged: why", "more"))
                ),
            ),
            "NOT JUDGED: first at r: not judged: why",
        ),
        ((branch(*HOLDS, Stage("values", "unknown", "")),), "NOT JUDGED: nothing was compared"),
        (
            (failing("regions", regions=regions(region(None), region(APART, "s"))),),
            "NOT PROVED: the outputs are equal, but 1 region differs, first at s",
        ),
        (
            (failing("regions", regions=regions(region(APART), region(APART, "s"))),),
            "NOT PROVED: the outputs are equal, but 2 regions differ, first at r",
        ),
        (
            (failing("regions", "values", regions=regions(region(APART))),),
            "NOT EQUAL: regions of b-, values of b-",
        ),
        # A difference is an answer, whatever else could not be judged.
        (
            (branch(*HOLDS, Stage("regions", "unknown", ""), Stage("values", "fails", "")),),
            "NOT EQUAL: values of b-",
        ),
        ((failing("exact"),), "NOT PROVED: the values are equal, but not exact for every input"),
        ((failing("layers"),), "EQUAL: b- and the original, bit for bit"),
        (
            (branch(name=OTHER_MODEL, is_exact=True),),
            "EQUAL: the other model and the original, exact for every input",
        ),
        (
            (branch(name=OTHER_MODEL, comparison=NEAR),),
            "EQUAL: the other model and the original, within the tolerance on 1 input",
        ),
        (
            (failing("changes"),),
            "NOT PROVED: the values are equal, but none of them shows the differences between the models",
        ),
        ((failing("changes", "values"),), "NOT EQUAL: changes of b-, values of b-"),
        (
            (branch(*add_regions(HOLDS, regions(region(NEAR, of_largest=0.25)))),),
            (
                "EQUAL: b- and the original, bit for bit; 3 of 5 operators exact, 1 region within 0.2 "
                "of the largest number"
            ),
        ),
        ((branch(*add_regions(HOLDS, regions())),), "EQUAL: b- and the original, bit for bit"),
    ],
)
def test_the_verdict_says_what_failed_or_what_was_compared(
    branches: tuple[BranchReport, ...], verdict: str
) -> None:
    report = Report(branches)
    assert (report.verdict, bool(report)) == (
        verdict,
        verdict.startswith(("EQUAL", "STRUCTURE EQUAL")),
    )


@pytest.mark.parametrize(
    ("found", "summary"),
    [
        ([region(EXACT)], "3 of 5 operators exact, 1 region bit for bit"),
        (
            [region(EXACT), region(NEAR, "s", of_largest=2e-7)],
            "3 of 5 operators exact, 2 regions within 2e-07 of the largest number",
        ),
        # Numbers at no distance may have other bits: 0 and -0.
        (
            [region(SIGNED, of_largest=0.0)],
            "3 of 5 operators exact, 1 region within 0 of the largest number",
        ),
        ([region(APART)], "3 of 5 operators exact, 1 region DIFFERS"),
        ([region(APART), region(APART, "s")], "3 of 5 operators exact, 2 regions DIFFER"),
        (
            [region(None), region(APART, "s")],
            "3 of 5 operators exact, 1 region DIFFERS, 1 region not judged",
        ),
    ],
)
def test_regions_are_counted_by_what_became_of_them(found: list[Region], summary: str) -> None:
    assert region_stage(regions(*found)).summary == summary


FAR = Comparison(False, False, float("inf"), float("inf"), "shapes (2,) and (3,)")
OFF = Comparison(False, False, 0.5, 0.25, "values differ")
MORE = "(--format json lists all)"


def output(comparison: Comparison, name: str = "y") -> OutputComparison:
    return OutputComparison(name, f"b-{name}", (2,), "float32", comparison)


def inner(comparison: Comparison, name: str = "h", op: str = "Conv") -> InnerComparison:
    return InnerComparison(name, f"b-{name}", op, 1, comparison)


def run(
    *outputs: Comparison,
    first: InnerComparison | None = None,
    layers: tuple[InnerComparison, ...] = (),
    sizes_of: str | None = None,
    engine: str = "numpy",
) -> Values:
    named = tuple(output(comparison, f"y{number}") for number, comparison in enumerate(outputs))
    return Values(named, first, 0, sizes_of, layers, engine)


def compared(*outputs: Comparison, first: InnerComparison | None = None) -> EngineComparison:
    return EngineComparison("numpy", "auto", tuple(map(output, outputs)), first)


def operators(count: int) -> tuple[Operator, ...]:
    return tuple(Operator("Add", f"n{number}") for number in range(count))


_FIRST, _LAST = (
    ", ".join(f"Add 'n{number}'" for number in numbers) for numbers in (range(8), range(1, 9))
)

STAGES = {
    "no outputs": (
        value_stage([run()]),
        "unknown",
        "there are no outputs to compare",
        ("there are no outputs to compare",),
    ),
    "equal outputs": (
        value_stage([run(EXACT, NEAR)]),
        "holds",
        "2 outputs compared, 1 bit for bit, max abs 1e-07",
        (),
    ),
    "equal outputs in runs": (
        value_stage([run(EXACT, EXACT, sizes_of=""), run(NEAR, EXACT, sizes_of="b-")]),
        "holds",
        "2 outputs compared in 2 runs, 1 bit for bit, max abs 1e-07; at the sizes of the original and of b-",
        (),
    ),
    "other outputs": (
        value_stage(
            [run(EXACT, OFF), run(FAR, EXACT, first=inner(OFF), sizes_of="b-", engine="auto")]
        ),
        "fails",
        "2 differences in 2 outputs",
        (
            "b-y1 and y1: values differ, max abs 0.5, max rel 0.25",
            "b-y0 and y0: shapes (2,) and (3,), in auto, at the sizes of b-",
            (
                "first at Conv 'b-h' and 'h', output 1: values differ, max abs 0.5, max rel 0.25, in "
                "auto, at the sizes of b-"
            ),
        ),
    ),
    "equal engines": (
        engine_stage([compared(NEAR)]),
        "holds",
        "numpy and auto: 1 output compared, 0 bit for bit, max abs 1e-07",
        (),
    ),
    "other engines": (
        engine_stage([compared(EXACT), compared(OFF, first=inner(FAR))]),
        "fails",
        "numpy and auto: 1 difference in 1 output",
        (
            "b-y in auto and numpy: values differ, max abs 0.5, max rel 0.25",
            "first at Conv 'b-h', output 1: shapes (2,) and (3,)",
        ),
    ),
    "no layers": (layer_stage([run(EXACT)]), "skipped", "there are no inner outputs", ()),
    "no recorded layers": (
        layer_stage([run(EXACT)], missing=1),
        "fails",
        "no inner output was compared; 1 not recorded",
        (),
    ),
    "equal layers": (
        layer_stage([run(EXACT, layers=(inner(EXACT), inner(NEAR)))], missing=3),
        "holds",
        "2 inner outputs compared, 1 bit for bit, max abs 1e-07; 3 not recorded",
        (),
    ),
    "one other layer": (
        layer_stage([run(EXACT, layers=(inner(EXACT), inner(OFF, "x", "null")), sizes_of="")]),
        "fails",
        "1 of 2 inner outputs depart",
        (
            (
                "first at variable 'b-x' and 'x', output 1: values differ, max abs 0.5, max rel 0.25, "
                "at the sizes of the original"
            ),
        ),
    ),
    "other layers": (
        layer_stage([run(EXACT, layers=(inner(OFF), inner(FAR), inner(EXACT)))], missing=2),
        "fails",
        "2 of 3 inner outputs depart; 2 not recorded",
        (
            "first at Conv 'b-h' and 'h', output 1: values differ, max abs 0.5, max rel 0.25",
            f"and 1 more {MORE}",
        ),
    ),
    "exact": (exact_stage(RegionReport(3, 3, {})), "holds", "3 operators exact", ()),
    "exact by identities": (
        exact_stage(RegionReport(1, 1, {"Identity": 2, "Cast": 1})),
        "holds",
        "1 operator exact",
        ("identities: Cast 1, Identity 2",),
    ),
    "one region": (
        region_stage(
            (
                RegionReport(
                    1_000,
                    1_001,
                    {},
                    (Region((("r", "s"),), operators(8), (), OFF, place="body of 'l'"),),
                ),
            )
        ),
        "fails",
        "1,000 of 1,001 operators exact, 1 region DIFFERS",
        (
            "first at r and s in body of 'l': values differ, max abs 0.5, max rel 0.25",
            f"the original computes it by {_FIRST}",
            "the other model computes it by nothing",
        ),
    ),
    "several regions": (
        region_stage(
            (
                RegionReport(
                    0,
                    1,
                    {},
                    (
                        region(None, reason="too large"),
                        Region((("r", "r"), ("q", "q")), (), operators(9), FAR),
                    ),
                ),
            )
        ),
        "fails",
        "0 of 1 operator exact, 1 region DIFFERS, 1 region not judged",
        (
            "first at r: shapes (2,) and (3,)",
            "the original computes it by nothing",
            f"the other model computes it by {_LAST} and 1 more",
            f"and 1 more {MORE}",
        ),
    ),
    "a region that was not judged": (
        region_stage(regions(region(None, reason="too large"))),
        "unknown",
        "3 of 5 operators exact, 1 region not judged",
        (
            "first at r: not judged: too large",
            "the original computes it by nothing",
            "the other model computes it by nothing",
        ),
    ),
    "a region that one round judges": (
        region_stage(
            (
                *regions(region(None)),
                *regions(region(NEAR, of_largest=0.25)),
                *regions(region(NEAR, of_largest=0.5)),
            )
        ),
        "holds",
        "3 of 5 operators exact, 1 region within 0.5 of the largest number",
        (),
    ),
    "nothing to train": (
        training_stage(trained(), expect_tied=True),
        "holds",
        "0 tied",
        ("y: mean 0 before, 0 after; b-y: 0, 0",),
    ),
    "training": (
        training_stage(trained("tied", "tied", "stays", "frozen", "drifts"), expect_tied=False),
        "holds",
        "2 tied, 1 copied: will drift, 1 copied, not moved apart by this step, 1 copied and frozen",
        (
            "y: mean 0 before, 0 after; b-y: 0, 0",
            "'w' and 'b-w': copied: will drift, 0 apart after one step on different inputs, which changed it by 0",
        ),
    ),
    "training of copies that have to be tied": (
        training_stage(trained("stays", "stays", "frozen"), expect_tied=True),
        "fails",
        "0 tied, 2 copied, not moved apart by this step, 1 copied and frozen",
        ("y: mean 0 before, 0 after; b-y: 0, 0",),
    ),
    "training that parts equal branches": (
        training_stage(
            Training(
                1.0,
                (TrainedPair("s", "b-s", "drifts", True, 0.5, 0, 0.25),),
                (TrainedOutput("y", "b-y", 1, 2, 1, 3, OFF),),
            ),
            expect_tied=False,
        ),
        "fails",
        "0 tied",
        (
            "y and b-y differ after a step on equal inputs: values differ, max abs 0.5",
            "y: mean 1 before, 2 after; b-y: 1, 3",
            (
                "'s' and 'b-s': statistics: will drift, 0.25 apart after one step on different "
                "inputs, which changed it by 0.5"
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_says_what_was_found(name: str) -> None:
    stage, *wanted = STAGES[name]
    assert [stage.verdict, stage.summary, stage.details] == wanted


def test_a_region_is_bit_for_bit_only_if_it_is_so_in_every_run() -> None:
    runs = [regions(region(comparison, of_largest=0.0))[0] for comparison in (SIGNED, EXACT)]
    for rounds in (runs, runs[::-1]):
        assert (
            region_stage(rounds).summary
            == "3 of 5 operators exact, 1 region within 0 of the largest number"
        )


def test_an_if_of_two_regions_is_counted_once() -> None:
    rounds = regions(region(EXACT, switches=("s",)), region(EXACT, "t", switches=("s",)))
    assert (
        add_regions(HOLDS, rounds)[-1].summary
        == "1 If with a body that was not reached; `feeds` gives other inputs"
    )


def test_parameters_that_drift_are_listed_up_to_20() -> None:
    for count, last in (
        (20, "'w' and 'b-w': copied: will drift, "),
        (21, f"and 1 more that drift {MORE}"),
    ):
        stage = training_stage(trained(*["drifts"] * count), expect_tied=False)
        assert (stage.summary, len(stage.details)) == (
            f"0 tied, {count} copied: will drift",
            1 + count,
        )
        assert stage.details[-1].startswith(last)


_CHANGES = "differences in 1 place changed no value that was computed; `feeds` gives inputs that may show them"


@pytest.mark.parametrize(
    ("rounds", "hidden"),
    [
        ((regions(region(EXACT, hidden="differ")),), ("r: differ",)),
        ((regions(region(EXACT, hidden="differ")), regions(region(EXACT))), ()),
        ((regions(region(EXACT, hidden="differ")), regions(region(OFF, hidden="differ"))), ()),
        ((regions(region(EXACT, hidden="differ", place="body")),) * 2, ("r in body: differ",)),
    ],
)
def test_what_equal_values_hide_is_a_stage_of_its_own(
    rounds: tuple[tuple[RegionReport, ...], ...], hidden: tuple[str, ...]
) -> None:
    stages = add_regions(HOLDS, [report for each in rounds for report in each])
    assert [stage.name for stage in stages] == [
        "structure",
        "parameters",
        "regions",
        "values",
        *(["changes"] if hidden else []),
    ]
    if hidden:
        assert stages[-1] == Stage("changes", "fails", _CHANGES, hidden)


def test_a_body_that_was_compared_with_nothing_leaves_a_model_not_judged() -> None:
    stage = add_regions(HOLDS, regions(region(EXACT, switches=("s",))))[-1]
    summary = "1 If with a body that was not reached; `feeds` gives other inputs"
    assert stage == Stage(
        "changes", "unknown", summary, ("'s': one of its bodies was compared with nothing",)
    )
    report = Report((branch(*HOLDS, stage),))
    assert (report.outcome, report.rung) == ("not judged", "not judged")


@pytest.mark.parametrize(
    ("branches", "outcome", "rung"),
    [
        ((), "not judged", "not judged"),
        ((branch(),), "equal", "on 1 input"),
        ((branch(is_exact=True),), "equal", "exact"),
        ((branch(is_exact=True), branch()), "equal", "on 1 input"),
        ((branch(*HOLDS, Stage("values", "unknown", "")),), "not judged", "not judged"),
        ((failing("regions"),), "not proved", "differs"),
        ((failing("changes", "exact"),), "not proved", "on 1 input"),
        ((failing("regions", "values"),), "not equal", "differs"),
        ((branch(), failing("structure")), "not equal", "differs"),
        ((failing("layers"),), "equal", "on 1 input"),
    ],
)
def test_the_worst_of_all_branches_is_the_outcome(
    branches: tuple[BranchReport, ...], outcome: str, rung: str
) -> None:
    report = Report(branches)
    assert (report.outcome, report.rung, bool(report)) == (outcome, rung, outcome == "equal")


@pytest.mark.parametrize(
    ("taken", "is_hidden"),
    [
        (({"s": True}, {"s": False}), False),
        (({"s": True}, {"s": True}), True),
        (({"s": True}, {}), True),
    ],
)
def test_a_switch_is_compared_where_rounds_take_both_bodies(
    taken: tuple[dict[str, bool], ...], is_hidden: bool
) -> None:
    rounds = [RegionReport(0, 1, {}, (region(EXACT, switches=("s",)),), each) for each in taken]
    assert (add_regions(HOLDS, rounds)[-1].name == "changes") is is_hidden


def test_stages_without_regions_stay() -> None:
    assert add_regions(HOLDS, regions()) == HOLDS


@pytest.mark.parametrize(
    ("outputs", "is_equal"), [((), False), ((EXACT, NEAR), True), ((EXACT, OFF), False)]
)
def test_nothing_is_equal_without_outputs(outputs: tuple[Comparison, ...], is_equal: bool) -> None:
    assert bool(compared(*outputs)) is bool(run(*outputs)) is is_equal


def export(*rounds: Values, branches: tuple[BranchReport, ...] = ()) -> ExportReport:
    return ExportReport(
        branches, model=BranchReport("", "model", (value_stage(rounds),), rounds), runtime="1.0"
    )


@pytest.mark.parametrize(
    ("report", "verdict"),
    [
        (export(run(EXACT)), "EQUAL in onnxruntime: 1 output, max abs 0, 0 of the largest value"),
        (
            export(run(NEAR, EXACT), run(EXACT, EXACT)),
            "EQUAL in onnxruntime: 2 outputs at 2 sizes, max abs 1e-07, 0 of the largest value",
        ),
        (
            export(run(EXACT), branches=(branch(), branch(name="c-"))),
            "EQUAL in onnxruntime: 1 output, max abs 0, 0 of the largest value; bit for bit in the branches b-, c-",
        ),
        (export(run(EXACT, OFF)), "NOT EQUAL in onnxruntime: y1"),
        (
            export(
                run(OFF),
                run(EXACT, first=inner(OFF)),
                branches=(branch(Stage("values", "fails", ""), comparison=OFF),),
            ),
            "NOT EQUAL in onnxruntime: y0, b-y; the first value that differs is h (Conv)",
        ),
    ],
)
def test_the_verdict_on_an_export(report: ExportReport, verdict: str) -> None:
    assert (report.verdict, bool(report)) == (verdict, verdict.startswith("EQUAL"))


def test_an_export_is_described_output_by_output() -> None:
    two = BranchReport("", "b-", (), (run(EXACT, OFF), run(EXACT)))
    described = export(run(OFF), run(NEAR, first=inner(OFF)), branches=(two,)).describe()
    rows = [
        (row["name"], row["max_abs"], row["max_rel"], row["holds"], row["reason"])
        for row in described["outputs"]
    ]
    assert rows == [("y0", 0.5, 0.25, False, "values differ"), ("y0", 1e-7, 1e-7, True, "")]
    assert described["branches"] == [
        {"reference": "", "branch": "b-", "outputs": 2, "differ": ["b-y1"]}
    ]
    assert (described["first"], described["runtime"]) == ("h (Conv)", "1.0")


def test_how_much_of_an_onnx_model_is_tied(tmp_path: Path) -> None:
    """One weight of both branches, one that each has, and one in a function that both call."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    text = """<ir_version: 9, opset_import: ["" : 17, "own" : 1]>
        g (float[2,256] x, float[2,256] b_x) => (float[2,256] y, float[2,256] b_y) {
            h = Mul(x, w) k = own.F(h) y = Add(k, b) b_h = Mul(b_x, w) b_k = own.F(b_h) b_y = Add(b_k, b_b) }
        <domain: "own", opset_import: ["" : 17]> F (i) => (o) { c = Constant <value = float {0.5}> () o = Add(i, c) }"""
    model = onnx.parser.parse_model(text)
    array = onnx.numpy_helper.from_array(np.arange(256, dtype=np.float32))
    model.functions[0].node[0].attribute[0].t.CopyFrom(array)
    for name in ("w", "b", "b_b"):
        model.graph.initializer.add().CopyFrom(array)
        model.graph.initializer[-1].name = name
    onnx.save(model, tmp_path / "m.onnx")
    (report,) = gs.verify(tmp_path / "m.onnx", prefixes="b_").branches
    stage = report.stages[1]
    assert (stage.verdict, stage.summary) == ("holds", "1 tied, 1 equal byte for byte")
    (detail,) = stage.details
    assert detail.startswith("tied: 2 of 3 parameters (1 of them in functions), 2.0 kB of ")


@pytest.mark.parametrize(
    ("hows", "no_file", "verdict", "summary", "details"),
    [
        ("tied equal fed equal", False, "holds", "1 tied, 2 equal byte for byte, 1 fed", ("1 kB",)),
        ("", True, "holds", "0 tied, 0 equal byte for byte", ("1 kB",)),
        ("tied missing", True, "skipped", "1 tied, 0 equal byte for byte, 1 not compared: no parameter file is given", ()),
        ("missing", False, "fails", "0 tied, 0 equal byte for byte, 0 different, 1 missing", ("'a' and 'b': why",)),
        (
            "missing different fed", True, "fails", "0 tied, 0 equal byte for byte, 1 fed, 1 different, 1 missing",
            ("'a' and 'b': why",) * 2,
        ),
        ("different tied", False, "fails", "1 tied, 0 equal byte for byte, 1 different, 0 missing", ("'a' and 'b': why",)),
    ],
)  # fmt: skip
def test_parameters_are_counted_by_how_they_belong_together(
    hows: str, no_file: bool, verdict: Verdict, summary: str, details: tuple[str, ...]
) -> None:
    a, b = read_symbol(json.dumps(document([variable("a"), variable("b")], [0, 1])).encode()).nodes
    pairs = [ParameterPair(a, b, how, "why") for how in hows.split()]  # type: ignore[arg-type]
    assert parameter_stage(pairs, no_file, ("1 kB",)) == Stage(
        "parameters", verdict, summary, details
    )


def test_a_sigmoid_near_zero_is_one_value_in_two_engines(tmp_path: Path) -> None:
    """onnxruntime returns 0 below -18, and numpy a share that is next to nothing beside 1."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    ends = [onnx.helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Sigmoid", ["x"], ["y"])], "g", ends[:1], ends[1:]
    )
    onnx.save(
        onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8
        ),
        tmp_path / "g.onnx",
    )
    (tmp_path / "g.json").write_text(
        json.dumps(document([variable("x"), operator("sigmoid", "y", [0])], [1]))
    )
    pair = tmp_path / "g.onnx", tmp_path / "g.json"
    for number, outcome in ((-18.2, "equal"), (0.1, "equal")):
        for models in (pair, pair[::-1]):
            report = gs.compare(*models, feeds={"x": np.array([number, number - 1], "float32")})
            assert report.outcome == outcome, report.verdict
    other = json.dumps(document([variable("x"), operator("tanh", "y", [0])], [1]))
    (tmp_path / "g.json").write_text(other)
    assert gs.compare(*pair, feeds={"x": np.array([1e-6, 0], "float32")}).outcome == "not equal"


def test_bodies_of_an_if_count_whichever_model_has_it(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from tests.onnx_files.mutable import BOOL, body, build, declare, node  # it imports onnx

    branches = {f"{which}_branch": body(which, [node(op, "x", f"y_{which}")], [], [declare(f"y_{which}")])
                for which, op in (("then", "Neg"), ("else", "Relu"))}  # fmt: skip
    for name, nodes in (
        ("if", [node("If", "flag", "y", **branches)]),
        ("where", [node("Neg", "x", "a"), node("Relu", "x", "b"), node("Where", "flag a b", "y")]),
    ):
        onnx.save(
            build(nodes, [declare("flag", (), BOOL), declare("x")], [declare("y")]),
            tmp_path / f"{name}.onnx",
        )
    x = np.array([[1, -2], [3, -4]], "float32")
    sets = [{"flag": np.array(value), "x": x} for value in (True, False)]
    for pair in (("if", "where"), ("where", "if")):
        models = [tmp_path / f"{name}.onnx" for name in pair]
        assert gs.compare(*models, inputs=gs.Inputs(sets=sets)).outcome == "equal"
        assert gs.compare(*models, inputs=gs.Inputs(sets=sets[:1])).outcome == "not judged"
