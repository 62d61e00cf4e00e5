"""Kernels refuse what lies outside of their limits: no attribute, shape, dtype or value makes one fail like a bug."""

from __future__ import annotations

import warnings
from contextlib import suppress

import msgspec
import numpy as np
import pytest

from graphshare.ops.arrays import KernelError
from graphshare.ops.limits import (
    FLOATS,
    Limits,
    check_filters,
    impossible_shape,
    negative_size,
    with_limits,
)
from graphshare.ops.registry import find_kernel
from tests.kernels.recordings import FAMILIES, cases_of
from tests.oracle.probed import Refusal, backward, forward
from tests.oracle.probing import probes, recorded_cases
from tests.surroundings import size_of_day

SEED, EACH = 31, size_of_day(3, 8)


@pytest.mark.parametrize(
    "op", sorted({case["op"] for family in FAMILIES for case in cases_of(family)})
)
def test_what_a_kernel_does_not_compute_is_refused(op: str) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for case, inputs in probes(op, recorded_cases()[op], EACH, SEED):
            for compute in (forward, lambda case, inputs: backward(case, inputs, 0)):
                # An AssertionError says that inference differs, which is checked elsewhere.
                with suppress(Refusal, AssertionError):
                    compute(case, [x.copy() for x in inputs])


@pytest.mark.parametrize(
    ("limits", "attrs", "shape", "array", "violation"),
    [
        (
            Limits(dtypes=FLOATS),
            {},
            (2,),
            np.ones(2, "int8"),
            "int8 is not supported, expected float16, float32, float64",
        ),
        (Limits(rank=2), {}, (2,), np.ones(2), "(2) has 1 axis, expected at least 2"),
        (Limits(ranks=(1, 3)), {}, (2, 2), np.ones((2, 2)), "(2,2) has 2 axes, expected 1 or 3"),
        (Limits(elements=True), {}, (0, 2), np.ones((0, 2)), "(0,2) has no elements"),
        (Limits(finite=True), {}, (1,), np.array([np.nan]), "expected finite numbers"),
        (
            Limits(positive=("stride",)),
            {"stride": (1, 0)},
            (1,),
            np.ones(1),
            "stride is (1, 0), expected at least 1",
        ),
        (
            Limits(not_negative=("pad",)),
            {"pad": -1},
            (1,),
            np.ones(1),
            "pad is -1, expected at least 0",
        ),
        (
            Limits(above=("scale",)),
            {"scale": 0.0},
            (1,),
            np.ones(1),
            "scale is 0.0, expected more than 0",
        ),
        (Limits(dtypes=FLOATS, rank=1, elements=True, finite=True), {}, (1,), np.ones(1), None),
    ],
)
def test_a_violation_names_what_is_expected(
    limits: Limits,
    attrs: dict[str, object],
    shape: tuple[int, ...],
    array: np.ndarray,
    violation: str | None,
) -> None:  # type: ignore[type-arg]
    assert limits.violation(attrs, [shape], [str(array.dtype)], [array]) == violation


@pytest.mark.parametrize(
    ("shape", "violation"),
    [
        ((1,) * 32, None),
        ((1,) * 33, "an array would have 33 axes, more than 32"),
        ((0, None, (1 << 63) - 1), None),
        ((2, -1), "an array would have the shape (2,-1)"),
        ((1 << 63,), f"an array would have the shape ({1 << 63})"),
    ],
)
def test_a_shape_that_no_array_has_is_named(
    shape: tuple[int | None, ...], violation: str | None
) -> None:
    assert (
        impossible_shape([None, (2, 3), shape, (-5,)][: 3 if violation is None else 4]) == violation
    )


def test_a_negative_size_of_a_result_is_named() -> None:
    assert negative_size([None, (), (0, None, 3)]) is None
    assert negative_size([(2,), (3, None, -1), (-4,)]) == "the result would have the shape (3,?,-1)"


@pytest.mark.parametrize(
    ("filters", "groups", "refusal"),
    [
        (6, 3, None),
        (0, 1, None),
        ((1 << 31) - 1, 1, None),
        (1 << 31, 1, "num_filter is 2147483648, which is a negative number modulo 2**32"),
        (6, 0, "num_group is 0"),
        (6, 4, "num_filter 6 is not a multiple of num_group 4"),
    ],
)
def test_filters_are_refused_that_cannot_be_shared_out(
    filters: int, groups: int, refusal: str | None
) -> None:
    if refusal is None:
        check_filters(filters, groups)
        return
    with pytest.raises(KernelError) as caught:
        check_filters(filters, groups)
    assert str(caught.value) == refusal


def test_kernels_keep_limits_of_their_own() -> None:
    shared, own = Limits(rank=2), Limits(rank=3)
    kernel = find_kernel("relu")
    assert kernel is not None
    kernels = with_limits(
        shared, *(msgspec.structs.replace(kernel, limits=limits) for limits in (None, own))
    )
    assert [kernel.limits for kernel in kernels] == [shared, own]
