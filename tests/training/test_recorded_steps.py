"""One step of training and ten, against what MXNet's Module made of the same nets: summaries that ``record.py`` kept."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.surroundings import corpus_directory, missing
from tests.training.nets import KEPT, NETS, settings, summary
from tests.training.ours import arrays_of, trainer_of

RECORDED = Path(__file__).parent / "recorded" / "steps.npz"
LIMITS = {1: 1e-4, 10: 1e-3}
"""How far a number may be off after so many steps, relative to the largest of its array."""
CHANGES = {1: 1e-4, 10: 3e-3}
"""How far off the change that the steps made may be, relative to the largest change; a net is as sensitive as it is."""


@cache
def recorded() -> dict[str, Any]:
    with np.load(RECORDED, allow_pickle=False) as file:
        return dict(file)


def corpus_of(name: str) -> Path | None:
    found = corpus_directory()
    if NETS[name]["graph"].startswith("corpus:") and found is None:
        missing("corpus", "no corpus: set GRAPHSHARE_CORPUS to its directory")
    return found


def apart(got: Any, wanted: Any) -> tuple[float, float]:
    """The largest difference of two summaries: of values relative to the largest value, of changes to the largest change."""
    largest, change = max(float(wanted[0]), 1e-30), max(float(wanted[1]), 1e-7 * float(wanted[0]), 1e-30)
    distance = np.abs(np.asarray(got, "float64") - np.asarray(wanted, "float64"))
    values = max(distance[0], distance[5 : 5 + KEPT].max()) / largest
    # Of a small change less is known: float32 rounds the values that it is the difference of, ten times.
    changes = max(distance[1], distance[5 + KEPT :].max()) / max(change, 1e-2 * largest)
    return float(values), float(changes)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in ("resnet18_v1", "mobilenetv2_0.25") else ()) for n in NETS]
)
def test_steps_are_those_of_module(name: str) -> None:
    kept = recorded()
    trainer = trainer_of(name, corpus_of(name))
    first = arrays_of(trainer, name)
    assert json.loads(str(kept[name])) == {"sgd": settings(name), "arrays": sorted(first)}
    done = 0
    for steps, limit in LIMITS.items():
        for _ in range(steps - done):
            trainer.step()
        done = steps
        now = arrays_of(trainer, name)
        for key, wanted in zip(sorted(first), kept[f"{name}/{steps}"], strict=True):
            values, changes = apart(summary(key, first[key], now[key]), wanted)
            assert values <= limit, f"{key} after {steps} steps"
            assert changes <= CHANGES[steps], f"what {steps} steps changed of {key}"


def test_an_update_that_is_slightly_wrong_is_found() -> None:
    first = np.random.default_rng(0).standard_normal((4, 5))
    right = first - 0.01 * np.random.default_rng(1).standard_normal((4, 5))
    wrong = first + (right - first) * 1.0005
    wanted = summary("w", first, right)
    assert max(apart(summary("w", first, right), wanted)) <= 1e-6
    assert apart(summary("w", first, wrong), wanted)[1] > CHANGES[1]
