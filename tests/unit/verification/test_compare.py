"""The tolerances of all comparisons, each at its limit, and the first difference inside of two runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphshare.ir.graph import Entry, Node
from graphshare.verification.comparison import (
    BY_ELEMENT,
    EXACT,
    Tolerance,
    compare_runs,
    compare_values,
    explain_blank,
    tolerate_batch,
    tolerate_dtype,
    tolerate_export,
    tolerate_other_program,
)
from graphshare.verification.coverage import BodyCoverage
from graphshare.verification.region import Region, RegionReport
from graphshare.verification.region_stages import add_regions
from graphshare.verification.report import Stage, value_stage
from graphshare.verification.runners import ABSENT, PartRunner, RecordRunner

LARGE_AND_SMALL = np.array([100.0, 0.0], "float64")


@pytest.mark.parametrize(
    ("tolerance", "dtype", "passes", "fails"),
    [
        (EXACT, "float64", 0, 1e-12),
        (BY_ELEMENT, "float64", 0.9e-8, 1.1e-8),
        (tolerate_other_program(Tolerance(1e-8, 1e-5)), "float64", 0.9e-3, 1.1e-3),
        (tolerate_other_program(Tolerance(1e-2, 1e-5)), "float64", 0.9e-2, 1.1e-2),
        (tolerate_batch(Tolerance(1e-8, 1e-7)), "float64", 0.9e-3, 1.1e-3),
        (tolerate_export(None), "float64", 0.9e-7, 1.1e-7),
        (tolerate_export(None), "float32", 0.9e-2, 1.1e-2),
        (tolerate_export(None), "float16", 0.9, 1.1),
        (tolerate_export(None), "int8", 1, 2),
        (tolerate_export(None), "int32", 0, 1),
        (tolerate_export(1e-3), "float32", 0.09, 0.11),
        (tolerate_export(0.0), "float32", 0, 1e-6),
    ],
)
def test_a_number_near_zero_may_be_so_far_from_the_reference(
    tolerance: Tolerance, dtype: str, passes: float, fails: float
) -> None:
    """The array's largest number is 100, so what is relative to it is 100 times as much."""
    wanted = LARGE_AND_SMALL.astype(dtype)
    for distance, is_equal in ((passes, True), (fails, False)):
        value = wanted + np.array([0, distance], dtype)
        assert bool(compare_values(value, wanted, tolerance)) is is_equal


def test_an_array_of_zeros_counts_as_one_of_ones_in_an_export() -> None:
    zeros = np.zeros(2, "float32")
    assert compare_values(zeros + np.float32(0.9e-4), zeros, tolerate_export(None))
    assert not compare_values(zeros + np.float32(1.1e-4), zeros, tolerate_export(None))
    assert not compare_values(
        zeros + np.float32(0.9e-4), zeros, tolerate_other_program(Tolerance(1e-8, 1e-4))
    )


def test_values_that_are_no_arrays() -> None:
    ones = np.ones(2, "float32")
    assert compare_values([ones, ones], [ones, ones], EXACT).identical
    assert not compare_values([ones, ones + 1], [ones, ones], EXACT)
    assert compare_values([ones], [ones, ones], EXACT).reason == "sequences of 1 and 2"
    assert compare_values(None, None, EXACT)
    assert not compare_values(None, ones, EXACT)
    assert compare_values(ones, ABSENT, EXACT, "dump.npz").reason == "dump.npz does not have it"


def run_of(outputs: Sequence[Any], nodes: Sequence[Node], values: Sequence[Any]) -> RecordRunner:
    inner = {
        (node, 0): (f"{node.name}_output", value) for node, value in zip(nodes, values, strict=True)
    }
    return RecordRunner("run", outputs, inner)


def test_the_first_difference_is_that_of_the_first_pair_of_nodes() -> None:
    x = Node("", "x")
    first = [Node("tanh", name, inputs=(Entry(x),)) for name in ("a", "b", "c")]
    second = [Node("tanh", f"q_{node.name}", inputs=(Entry(x),)) for node in first]
    ones = np.ones(3, "float32")
    reference = run_of([ones * 2], first, [ones, ones, ones])
    runner = run_of([ones], second, [ones, ones + 1, ones + 2])
    pairs = list(zip(first, second, strict=True))
    values = compare_runs([("c", "q_c")], reference, runner, EXACT, nodes=pairs)
    assert not values
    assert values.first is not None
    assert (values.first.reference, values.first.node, values.first.comparison.max_abs) == (
        "b_output",
        "q_b",
        1,
    )
    assert values.outputs[0].of_largest == 0.5
    assert values.layers == ()
    equal = compare_runs(
        [("c", "q_c")],
        reference,
        run_of([ones * 2], second, [ones, ones + 1, ones + 2]),
        EXACT,
        nodes=pairs,
    )
    assert equal
    assert equal.first is None
    layers = compare_runs([("c", "q_c")], reference, runner, EXACT, nodes=pairs, layers=True).layers
    assert [bool(layer.comparison) for layer in layers] == [True, False, False]


def test_a_part_of_a_run_has_the_outputs_of_its_places() -> None:
    whole = run_of([1, 2, 3, 4], [], [])
    assert PartRunner(whole, [3, 1]).run() == [4, 2]


def test_models_without_outputs_are_not_equal() -> None:
    runner = RecordRunner("", [])
    values = compare_runs([], runner, runner, EXACT)
    assert not values
    stage = value_stage([values])
    assert (stage.verdict, stage.summary) == ("unknown", "there are no outputs to compare")


def test_a_body_counts_as_compared_where_any_round_takes_it() -> None:
    same = compare_values(LARGE_AND_SMALL, LARGE_AND_SMALL, EXACT)
    region = Region((("y", "y"),), (), (), same, 0.0, switches=("if",))
    rounds = [RegionReport(1, 2, {}, (region,), {"if": taken}) for taken in (True, False)]
    hidden = "'if': one of its bodies was compared with nothing"
    for some, is_hidden in ((rounds[:1], True), ([rounds[0], rounds[0]], True), (rounds, False)):
        stages = add_regions([Stage("values", "holds", "")], some)
        assert [stage.name for stage in stages] == [
            "regions",
            "values",
            *(["changes"] if is_hidden else []),
        ]
        assert (hidden in stages[-1].details) == is_hidden


@pytest.mark.parametrize(
    ("taken", "notes"),
    [
        ([], []),
        ([{"a": True}], ["If 'a': only the then branch was computed", "bodies computed: 1 of 2"]),
        (
            [{"a": True, "b": False, "c": False}, {"a": False}],
            ["If 'b', 'c': only the else branch was computed", "bodies computed: 4 of 6"],
        ),
    ],
)
def test_bodies_that_no_round_computed_are_noted(
    taken: list[dict[str, bool]], notes: list[str]
) -> None:
    coverage = BodyCoverage()
    for each in taken:
        for name, side in each.items():
            coverage._taken.setdefault(name, set()).add(side)
    assert list(coverage.describe()) == notes


@pytest.mark.parametrize(
    ("value", "wanted", "reason"),
    [
        ([np.ones(2)], [np.ones(2)], ""),
        ([np.ones(3)], np.ones(2), "texts or kinds of values differ"),
        (np.ones(3), [np.ones(2)], "texts or kinds of values differ"),
        ([], [np.ones(2)], "sequences of 0 and 1"),
        ([np.ones(2), np.zeros(2)], [np.ones(2), np.ones(2)], "values differ"),
        ([np.ones(2), np.ones(3)], [np.ones(2), np.ones(2)], "shapes (3,) and (2,)"),
        (np.array(["a"], object), np.array(["b"], object), "texts or kinds of values differ"),
        (np.array(["a"], object), np.array(["a", "b"], object), "shapes (1,) and (2,)"),
        (None, None, ""),
        (None, np.ones(2), "texts or kinds of values differ"),
    ],
)
def test_values_of_any_kind_are_compared(value: object, wanted: object, reason: str) -> None:
    compared = compare_values(value, wanted, EXACT)
    assert (bool(compared), compared.reason) == (not reason, reason)


_INTEGERS = st.sampled_from(["int16", "int32", "int64", "uint16", "uint32", "uint64"])
_PROGRAMS = (tolerate_other_program(BY_ELEMENT), tolerate_batch(BY_ELEMENT), tolerate_export(None),
             tolerate_dtype("float16", BY_ELEMENT))  # fmt: skip


@given(_INTEGERS, st.integers(0, 2**63), st.integers(-3, 3), st.sampled_from(_PROGRAMS))
def test_integers_of_any_size_are_equal_or_differ(
    dtype: str, number: int, step: int, tolerance: Tolerance
) -> None:
    limits = np.iinfo(dtype)
    values = [min(max(int(limits.min), each), int(limits.max)) for each in (number, number + step)]
    one, other = (np.array([each, 0], dtype) for each in values)
    assert bool(compare_values(one, other, tolerance)) == (values[0] == values[1])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn"])
def test_numbers_show_nothing_if_all_are_nan(dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    nan = np.array([np.nan, np.nan]).astype(getattr(ml_dtypes, dtype, dtype))
    mixed = np.array([np.nan, 1]).astype(nan.dtype)
    reason = "all its numbers are NaN"
    assert [explain_blank(each) for each in (nan, [nan, nan], mixed, [nan, mixed], [], nan[:0])] == [
        reason, reason, "", "", "", ""
    ]  # fmt: skip
    assert explain_blank(nan[:0], is_fed_nothing=True)
    assert not explain_blank(mixed, is_fed_nothing=True)
