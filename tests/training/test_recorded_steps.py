"""One step of training and ten, against what MXNet's Module made of the same nets: summaries that
``record.py`` kept.
"""

from __future__ import annotations

import datetime
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.surroundings import corpus_directory, missing
from tests.training.agreement import CHANGES, apart, limits, summaries_apart
from tests.training.nets import NETS, SGD, net, summary
from tests.training.ours import steps_of

RECORDED = Path(__file__).parent / "recorded" / "steps.npz"


@cache
def recorded() -> dict[str, Any]:
    with np.load(RECORDED, allow_pickle=False) as file:
        return dict(file)


def corpus_of(name: str) -> Path | None:
    found = corpus_directory()
    if net(name)["graph"].startswith("corpus:") and found is None:
        missing("corpus", "no corpus: set GRAPHSHARE_CORPUS to its directory")
    return found


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.large if n in ("resnet18_v1", "mobilenetv2_0.25") else ())
        for n in NETS
    ],
)
def test_steps_are_those_of_module(name: str) -> None:
    kept = recorded()
    first: dict[str, Any] = {}
    for steps, now in steps_of(name, corpus_of(name)):
        first = first or now
        assert json.loads(str(kept[name])) == {"sgd": SGD, "arrays": sorted(now)}
        if steps == 0:
            continue
        limit = limits(name, steps, "float32")
        for key, wanted in zip(sorted(first), kept[f"{name}/{steps}"], strict=True):
            found = summaries_apart(summary(key, first[key], now[key]), wanted, steps=steps)
            assert found.value <= limit.value, f"{key} after {steps} steps"
            assert found.change <= limit.change, f"what {steps} steps changed of {key}"


def test_recording_has_its_provenance() -> None:
    provenance = json.loads(str(recorded()["provenance"]))
    assert provenance["mxnet"] == "1.9.1"
    assert "MKLDNN" in provenance["features"]
    assert provenance["onednn"].startswith("v")
    assert {"instructions", "instructions_limit", "numpy"} <= provenance.keys()
    assert datetime.date.fromisoformat(provenance["date"])


def moved(factor: float = 1.0, where: Any = slice(None)) -> tuple[Any, Any, Any]:
    """An array, what a step made of it, and the same where ``factor`` multiplied the change ``where`` it is said."""
    first = np.random.default_rng(0).standard_normal((40, 50))
    right = first - 0.01 * np.random.default_rng(1).standard_normal((40, 50))
    wrong = right.copy()
    wrong[where] = first[where] + (right - first)[where] * factor
    return first, right, wrong


def test_an_update_that_is_slightly_wrong_is_found() -> None:
    first, right, wrong = moved(1.0005)
    kept = summary("w", first, right)
    assert max(summaries_apart(kept, kept, steps=1)) == 0
    assert max(apart(right, right, first, steps=1, dtype="float32")) == 0
    assert summaries_apart(summary("w", first, wrong), kept, steps=1).change > CHANGES["float32"][1]
    assert apart(wrong, right, first, steps=1, dtype="float32").change > CHANGES["float32"][1]
    wrong[3, 4] = np.nan
    assert apart(wrong, right, first, steps=1, dtype="float32").value == np.inf


def test_a_row_that_was_not_updated_is_found_in_a_summary() -> None:
    for row in range(40):
        first, right, wrong = moved(0.0, np.s_[row])
        found = summaries_apart(summary("w", first, wrong), summary("w", first, right), steps=1)
        assert found.change > CHANGES["float32"][1]
