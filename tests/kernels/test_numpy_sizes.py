"""Empty inputs and inputs without axes: every ``_np*`` operator answers, or refuses, as MXNet 1.9.1 did."""

from __future__ import annotations

import datetime
import re
from functools import cache
from typing import Any

import numpy as np
import pytest

from graphshare.ops.index import FAMILY_OF
from graphshare.ops.registry import canonical
from tests.kernels import numpy_sizes
from tests.oracle.probed import Refusal, array_of, compared_forward, forward

Row = tuple[str, str, str, str]
"""Patterns of an operator and of a probe (its mode and its sizes), of how the answers differ, and why that is left."""

WIDER = "MXNet refuses"
DIFFERENT: tuple[Row, ...] = (
    # --- oneDNN has no empty arrays: MXNet refuses, and the result is empty, or what the bias alone gives
    (
        "_npx_(activation|batch_flatten|convolution|deconvolution|fully_connected|leaky_relu|pooling)",
        "np_shape",
        WIDER,
        "oneDNN",
    ),
    (
        "_npi_(average|std|var)|_npx_layer_norm",
        "np_shape, (first|last)",
        WIDER,
        "the scratch of a mean over nothing",
    ),
    ("_np_repeat", "np_shape, last axis 0", WIDER, "an empty array is given another shape"),
    # --- MXNet refuses what has an answer
    ("_np_diagflat", "np_shape, no axes", WIDER, "one element is a diagonal"),
    ("_npi_shuffle|_npi_copyto", "np_shape", WIDER, "they infer no dtype, whatever their input is"),
    ("_npi_boolean_mask", "np_shape, no axes", WIDER, "one element is selected or not"),
    (
        "_npx_dropout",
        "np_shape, no axes",
        WIDER,
        "outside training nothing is dropped along any axis",
    ),
    # --- MXNet answers with memory that nobody wrote, or with an array of no shape
    (
        "_npi_bincount",
        "first",
        "output 0: shape",
        "no array is given to a shape that values decide",
    ),
    ("_npi_bincount", "no axes", "refused", "no array is given to a shape that values decide"),
    ("_npi_delete", "axis 0", "output 0: shape", "no array is given to a shape that values decide"),
    ("_npi_delete", "no axes", "refused", "no array is given to a shape that values decide"),
    (
        "_npi_arange",
        "legacy, nothing",
        "refused",
        "the array has an unknown shape there, which (0,) stands for",
    ),
    (
        "_npi_insert_tensor",
        r"\(2, 5, 3\), \(2, 3\), \(\)",
        "output 0: shape",
        "it sizes the result by another axis than it fills",
    ),
    (
        "_npi_nonzero|_npx_nonzero|_npi_unique",
        "",
        "output 0: shape",
        "no array is given to a shape that values decide",
    ),
    (
        "_npi_cholesky",
        "np_shape, last axis 0",
        "refused",
        "a matrix of 3 rows and no columns is not square",
    ),
    ("_npi_pad", "axis 0", "refused", "there is no edge that could be repeated"),
    ("_npi_slice_assign(_scalar)?", "no axes", "refused", "there is no axis to assign to"),
    (
        "_npx_multibox_detection",
        "np_shape, first input",
        "refused",
        "predictions for 0 images and 2 images",
    ),
    ("_npx_pick", "last without axes", "refused", "it reads more indices than there are"),
    # --- without NumPy shapes MXNet takes an array without axes for one of unknown shape, and makes it fit
    (
        "_npx_layer_norm|_npx_rnn",
        "legacy, last without axes",
        "refused",
        "a state of one element where more are needed",
    ),
)


@cache
def by_operator() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for probe in numpy_sizes.recorded()["probes"]:
        found.setdefault(probe["op"], []).append(probe)
    return found


@cache
def differences(op: str) -> list[tuple[str, str]]:
    """Each probe of an operator that MXNet answered otherwise, in words, and how."""
    found = []
    for probe in by_operator()[op]:
        what = difference(probe)
        if what is not None:
            mode = "np_shape" if probe["np_shape"] else "legacy"
            found.append(
                (
                    f"{mode}, {probe['what']}: {[x.shape for x in probe['inputs']]} {probe['attrs']}",
                    what,
                )
            )
    return found


def difference(probe: dict[str, Any]) -> str | None:
    """How this package's answer differs from MXNet's; None where it does not, or MXNet ended."""
    answer, inputs = probe["answer"], probe["inputs"]
    if FAMILY_OF[canonical(probe["op"])] == "random" and isinstance(answer, list):
        try:
            made = [x.shape for x in forward(probe, inputs)]
        except Refusal as error:
            return f"refused ({error})"
        return None if made == [told[1] for told in answer] else f"shapes {made}"
    what = compared_forward(probe, inputs, answer)
    if what is not None and what.startswith("MXNet refuses") and not probe["np_shape"]:
        sizes = [
            *(x.shape for x in inputs),
            *([()] if probe["what"].startswith(("shape", "nothing")) else []),
        ]
        if any(0 in shape or not shape for shape in sizes):
            # a size of 0 is unknown to MXNet there; an array that is there can be computed with all
            # the same
            return None
    return what


def row_of(op: str, probe: str, what: str) -> Row | None:
    return next(
        (
            r
            for r in DIFFERENT
            if re.fullmatch(r[0], op) and re.search(r[1], probe) and re.match(r[2], what)
        ),
        None,
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", numpy_sizes.operators())
def test_sizes_of_nothing_are_computed_as_mxnet_computed_them(op: str) -> None:
    wrong = [
        f"{probe}: {what}" for probe, what in differences(op) if row_of(op, probe, what) is None
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.filterwarnings("ignore")
def test_every_listed_difference_is_one() -> None:
    used = {row_of(op, *found) for op in by_operator() for found in differences(op)}
    assert set(DIFFERENT) <= used


def test_every_operator_is_recorded_in_both_modes_with_empty_inputs_and_without_axes() -> None:
    assert sorted(by_operator()) == numpy_sizes.operators()
    for op, probes in by_operator().items():
        assert {probe["np_shape"] for probe in probes} == {True, False}, op
        shapes = [x.shape for probe in probes for x in probe["inputs"]]
        sized = {probe["attrs"].get("shape") for probe in probes}
        if op not in numpy_sizes.NOTHING:
            assert () in shapes or "()" in sized, op
            assert any(0 in shape for shape in shapes) or "(0, 3)" in sized, op


def test_the_probes_are_recorded_as_they_stand() -> None:
    made = [(case, inputs) for case, inputs in numpy_sizes.probes()]
    kept = numpy_sizes.recorded()
    assert len(made) == len(kept["probes"])
    for (case, inputs), probe in zip(made, kept["probes"], strict=True):
        assert case.items() <= probe.items()
        for x, y in zip(inputs, probe["inputs"], strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
    assert kept["provenance"]["mxnet"] == "1.9.1"
    assert datetime.date.fromisoformat(kept["provenance"]["date"])
    assert sum(isinstance(probe["answer"], list) for probe in kept["probes"]) > 1000


def test_a_wrong_answer_is_found() -> None:
    probe = next(
        p for p in by_operator()["_np_sum"] if p["np_shape"] and isinstance(p["answer"], list)
    )
    assert difference(probe) is None
    (dtype, shape, data), *_ = probe["answer"]
    assert difference({**probe, "answer": [(dtype, (*shape, 1), data)]}) is not None
    assert difference({**probe, "answer": {"error": "no"}}) is not None
    assert array_of((dtype, shape, data)).shape == shape
