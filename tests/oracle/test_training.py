"""Steps of training against MXNet's Module: every array of the nets that are also on record."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.surroundings import corpus_directory
from tests.training.nets import NETS
from tests.training.ours import arrays_of, trainer_of
from tests.training.test_recorded_steps import LIMITS, corpus_of

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

RECORD = Path(__file__).parents[1] / "training" / "record.py"


@pytest.mark.parametrize("name", NETS)
def test_every_array_is_that_of_module(name: str, oracle_python: str, tmp_path: Path) -> None:
    corpus = corpus_of(name)
    trainer, done = trainer_of(name, corpus), 0
    for steps, limit in LIMITS.items():
        out = tmp_path / f"{steps}.npz"
        command = [oracle_python, str(RECORD), str(corpus_directory() or tmp_path), name, str(out), str(steps)]
        subprocess.run(command, check=True, capture_output=True)
        for _ in range(steps - done):
            trainer.step()
        done = steps
        theirs, ours = dict(np.load(out)), arrays_of(trainer, name)
        assert set(theirs) == set(ours)
        for key, wanted in theirs.items():
            largest = max(float(np.abs(wanted).max()), 1e-30)
            assert float(np.abs(ours[key] - wanted).max()) <= limit * largest, f"{key} after {steps} steps"
