"""The answer of ``verify`` in one line: what is wrong, or what was compared and how closely."""

from __future__ import annotations

import pytest

from graphshare.formats.params.comparison import Comparison
from graphshare.verification.compare import OutputComparison, Tolerance, Values, tolerate_dtype
from graphshare.verification.regions import Region, RegionReport
from graphshare.verification.report import BranchReport, Report, Stage, region_stage
from graphshare.verification.training import TrainedOutput, TrainedPair, Training

EXACT, NEAR, APART = Comparison(True, True, 0, 0), Comparison(True, False, 1e-7, 1e-7), Comparison(False, False, 1, 1)
HOLDS = tuple(Stage(name, "holds", "") for name in ("structure", "parameters", "values"))


def values(comparison: Comparison) -> Values:
    return Values((OutputComparison("y", "b-y", (2,), "float32", comparison),), None, 0, None, (), "numpy")


def branch(*stages: Stage, name: str = "b-", comparison: Comparison = EXACT, **more: object) -> BranchReport:
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
        ((), "NOT VERIFIED: nothing was compared"),
        ((branch(),), "EQUAL: b- and the original, bit for bit"),
        ((branch(), branch(name="c-", comparison=NEAR)), "EQUAL: b-, c- and the original, within the tolerance"),
        ((branch(comparison=NEAR, tolerance=Tolerance(0, 0)),), "EQUAL: b- and the original, within the tolerance"),
        (
            (branch(comparison=NEAR, tolerance=tolerate_dtype("float16", 0, 0)),),
            "EQUAL: b- and the original, within the tolerance of float16",
        ),
        ((branch(*STRUCTURE_SKIPPED),), "EQUAL: b- and the original, bit for bit; 2 differences of structure"),
        (
            (branch(HOLDS[0], Stage("parameters", "skipped", ""), HOLDS[2]),),
            "EQUAL: b- and the original, bit for bit; parameters not compared",
        ),
        (
            (branch(HOLDS[0], Stage("parameters", "skipped", ""), Stage("values", "skipped", "")),),
            "STRUCTURE EQUAL: b- and the original, values not compared; parameters not compared",
        ),
        ((BranchReport("a-", "b-", HOLDS),), "STRUCTURE EQUAL: b- and a-, values not compared"),
        ((branch(training=trained("tied", "frozen")),), "EQUAL: b- and the original, bit for bit; tied: they train as one"),
        (
            (branch(training=trained("tied")), branch(name="c-", training=trained("tied", "drifts"))),
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
            (failing("training", training=trained("stays")), failing("training", name="c-", training=trained("drifts"))),
            "NOT TIED: b-, c- will drift",
        ),
        # Only the branch that fails has to have been trained.
        ((branch(), failing("training", name="c-", training=trained("drifts"))), "NOT TIED: c- will drift"),
        ((failing("training"),), "NOT EQUAL: training of b-"),
        ((failing("values", "training", training=trained("drifts")),), "NOT EQUAL: values of b-, training of b-"),
        ((failing("values"), branch(name="c-")), "NOT EQUAL: values of b-"),
        (
            (failing("regions", regions=regions(region(None), region(None, "s"))),),
            "NOT PROVED: the values are equal, and 2 regions could not be judged",
        ),
        ((failing("regions", regions=regions(region(None), region(APART, "s"))),), "NOT EQUAL: regions of b-"),
        (
            (failing("changes"),),
            "NOT PROVED: the values are equal, but none of them shows the differences between the models",
        ),
        ((failing("changes", "values"),), "NOT EQUAL: changes of b-, values of b-"),
        (
            (branch(regions=regions(region(NEAR, of_largest=0.25))),),
            "EQUAL: b- and the original, bit for bit; 3 of 5 operators exact, 1 region within 0.2 of the largest number",
        ),
        ((branch(regions=regions()),), "EQUAL: b- and the original, bit for bit"),
    ],
)
def test_the_verdict_says_what_failed_or_what_was_compared(branches: tuple[BranchReport, ...], verdict: str) -> None:
    report = Report(branches)
    assert (report.verdict, bool(report)) == (verdict, verdict.startswith(("EQUAL", "STRUCTURE EQUAL")))


@pytest.mark.parametrize(
    ("found", "summary"),
    [
        ([region(EXACT)], "3 of 5 operators exact, 1 region bit for bit"),
        (
            [region(EXACT), region(NEAR, "s", of_largest=2e-7)],
            "3 of 5 operators exact, 2 regions within 2e-07 of the largest number",
        ),
        ([region(APART)], "3 of 5 operators exact, 1 region DIFFERS"),
        ([region(APART), region(APART, "s")], "3 of 5 operators exact, 2 regions DIFFER"),
        ([region(None), region(APART, "s")], "3 of 5 operators exact, 1 region DIFFERS, 1 region not judged"),
    ],
)
def test_regions_are_counted_by_what_became_of_them(found: list[Region], summary: str) -> None:
    assert region_stage(regions(*found)).summary == summary
