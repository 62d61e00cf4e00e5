"""Steps of training against MXNet's Module: every array of the nets that are also on record, in float32 and in float64.

Float64 tells rules from rounding: there the two agree to a millionth of what the steps changed, so
what float32 leaves between them is the rounding of either.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.surroundings import corpus_directory, run_oracle
from tests.training.agreement import ULP, VALUES, apart, limits, summaries_apart
from tests.training.nets import NETS, STEPS
from tests.training.ours import steps_of
from tests.training.test_recorded_steps import RECORDED, corpus_of

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

RECORD = Path(__file__).parents[1] / "training" / "record.py"
FLOAT32_ALONE = {"bert_small": "MXNet has its attention operators in float32 alone"}
UNMOVED = "mobilenetv2_0.25_unmoved"

Theirs = Callable[[str, str], dict[int, dict[str, Any]]]


@pytest.fixture(scope="module")
def theirs(oracle_python: str, tmp_path_factory: pytest.TempPathFactory) -> Theirs:
    """Every array of a net that MXNet trained, in a type, by the number of steps."""
    known: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}

    def ask(name: str, dtype: str) -> dict[int, dict[str, Any]]:
        if (name, dtype) not in known:
            corpus, out = corpus_of(name) or corpus_directory(), tmp_path_factory.mktemp("steps")
            run_oracle(oracle_python, RECORD, corpus or out, name, out, dtype)
            known[name, dtype] = {steps: dict(np.load(out / f"{steps}.npz")) for steps in STEPS}
        return known[name, dtype]

    return ask


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NETS)
def test_every_array_is_that_of_module(name: str, dtype: str, theirs: Theirs) -> None:
    if dtype == "float64" and name in FLOAT32_ALONE:
        pytest.skip(FLOAT32_ALONE[name])
    first: dict[str, Any] = {}
    for steps, ours in steps_of(name, corpus_of(name), dtype):
        first = first or ours
        if steps == 0:
            continue
        wanted, limit = theirs(name, dtype)[steps], limits(name, steps, dtype)
        assert set(wanted) == set(ours)
        for key, array in wanted.items():
            assert array.dtype == ours[key].dtype == dtype
            found = apart(ours[key], array, first[key], steps=steps, dtype=dtype)
            assert found.value <= limit.value, f"{key} after {steps} steps"
            assert found.change <= limit.change, f"what {steps} steps changed of {key}"


def farthest(got: dict[str, Any], wanted: dict[str, Any]) -> float:
    """The largest distance of any array, relative to its largest value."""
    return max(
        float(np.abs(got[key] - x).max()) / max(float(np.abs(x).max()), 1e-30)
        for key, x in wanted.items()
    )


@pytest.mark.parametrize("name", NETS)
def test_float32_is_as_near_to_float64_as_that_of_mxnet(name: str, theirs: Theirs) -> None:
    corpus = corpus_of(name)
    exact, single = dict(steps_of(name, corpus, "float64")), dict(steps_of(name, corpus))
    for steps in STEPS:
        mine, other = (
            farthest(x, exact[steps]) for x in (single[steps], theirs(name, "float32")[steps])
        )
        assert mine <= 2 * other + steps * ULP["float32"], f"after {steps} steps"


def test_a_net_that_is_chaotic_is_followed_for_a_step(theirs: Theirs) -> None:
    """MXNet's float32 parts from MXNet's float64 within ten steps, so nobody can follow it there."""
    exact, single = theirs(UNMOVED, "float64"), theirs(UNMOVED, "float32")
    ours = dict(steps_of(UNMOVED, None, "float64"))
    assert farthest(ours[1], exact[1]) <= VALUES["float64"][1]
    assert farthest(single[10], exact[10]) > 0.1


def test_the_script_makes_the_recording_again(
    oracle_python: str, corpus: Path, tmp_path: Path
) -> None:
    run_oracle(oracle_python, RECORD, corpus, tmp_path / "again.npz")
    kept, again = (
        dict(np.load(path, allow_pickle=False)) for path in (RECORDED, tmp_path / "again.npz")
    )
    assert set(again) == set(kept)
    for name in NETS:
        assert str(again[name]) == str(kept[name])
        for steps in STEPS:
            for new, old in zip(again[f"{name}/{steps}"], kept[f"{name}/{steps}"], strict=True):
                # Another processor may round differently
                found = summaries_apart(new, old, steps=steps)
                limit = limits(name, steps, "float32")
                assert found.value <= limit.value
                assert found.change <= limit.change
