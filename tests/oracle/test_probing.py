"""Probes of all operators, drawn from a seed, against MXNet: what both compute must agree."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.oracle.known_differences import is_known
from tests.oracle.probed import asked, compared_backward, compared_forward, difference
from tests.oracle.probing import Probe, probes, recorded_cases
from tests.oracle.probing_layers import layers

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

SEED = 20
EACH, LAYERS = 4, 60
"""Probes of each operator, and of each layer with windows: half a minute."""


def drawn() -> list[Probe]:
    return [
        probe for op, known in recorded_cases().items() for probe in probes(op, known, EACH, SEED)
    ] + list(layers(LAYERS, SEED))


def test_probes_are_answered_as_mxnet_answers_them(oracle_python: str, tmp_path: Path) -> None:
    made = drawn()
    found, both = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, ((case, inputs), answer) in enumerate(
            zip(made, asked(oracle_python, made, tmp_path), strict=True)
        ):
            if isinstance(answer["forward"], dict):
                continue
            both += 1
            what = compared_forward(case, inputs, answer["forward"])
            what = what or compared_backward(case, inputs, answer["backward"], number)
            if (
                what
                and not what.startswith(("refused", "MXNet refuses"))
                and not is_known(case, inputs, what)
            ):
                found.append(f"{number} {case} {[(x.shape, str(x.dtype)) for x in inputs]}: {what}")
    assert not found, "\n".join(found)
    assert both > len(made) / 2


def test_probes_are_drawn_again_the_same() -> None:
    first, again = drawn(), drawn()
    assert [case for case, _ in first] == [case for case, _ in again]
    assert all(
        np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
        for (_, a), (_, b) in zip(first, again, strict=True)
        for x, y in zip(a, b, strict=True)
    )


def test_an_answer_that_is_slightly_wrong_is_found() -> None:
    wanted = np.linspace(1, 2, 12, dtype="float32")
    assert difference(wanted, wanted, "float32", least=0) is None
    for got in (
        wanted * np.float32(1.001),
        wanted.astype("float64"),
        wanted[None],
        np.where(wanted > 1.5, np.nan, wanted),
    ):
        assert difference(got, wanted, "float32", least=0) is not None
