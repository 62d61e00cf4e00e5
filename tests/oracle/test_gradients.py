"""Gradients of single operators against those that MXNet computes: all recorded cases, and more of the tricky kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.elementwise import describe_mismatch, tolerance_of_sums
from tests.gradients.agreement import LEAST, RTOL, check_gradients
from tests.gradients.more_cases import CASES, drawn
from tests.gradients.numpy_cases import NUMPY, REFUSED, UNDEFINED
from tests.surroundings import run_oracle

pytestmark = pytest.mark.oracle

RECORDED = Path(__file__).parents[1] / "kernels" / "recorded"
PROCESS = Path(__file__).with_name("gradient_process.py")


def asked(oracle_python: str, source: Path, folder: Path) -> dict[str, Any]:
    """What MXNet answers to the cases in ``source``."""
    out = folder / "answers.npz"
    run_oracle(oracle_python, PROCESS, source, out)
    return dict(np.load(out))


# Layers that oneDNN joins have no backward pass; to ask for one ends the process.
FAMILIES = sorted(path.stem for path in RECORDED.glob("*.npz") if path.stem != "joined")


MORE = {"more": CASES, "numpy": NUMPY}


@pytest.mark.parametrize("family", [*FAMILIES, *MORE])
def test_gradients_are_those_of_mxnet(family: str, oracle_python: str, tmp_path: Path) -> None:
    source = RECORDED / f"{family}.npz"
    if family in MORE:
        source = tmp_path / "cases.npz"
        np.savez(source, cases=np.array(json.dumps(MORE[family])), **drawn(MORE[family]))
    kept, answers = dict(np.load(source)), asked(oracle_python, source, tmp_path)
    check_gradients(json.loads(str(kept["cases"])), kept, answers)


def test_mxnet_refuses_what_is_refused(oracle_python: str, tmp_path: Path) -> None:
    source = tmp_path / "cases.npz"
    np.savez(source, cases=np.array(json.dumps(REFUSED)), **drawn(REFUSED))
    answers = asked(oracle_python, source, tmp_path)
    failed = [f"{number}_error" in answers for number in range(len(REFUSED))]
    assert failed == [case not in UNDEFINED for case in REFUSED]


def test_a_gradient_that_is_slightly_wrong_is_a_mismatch() -> None:
    wanted = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    tolerance = tolerance_of_sums(wanted, "float32", rtol=RTOL["float32"], least=LEAST["float32"])
    assert describe_mismatch(wanted, wanted, tolerance) is None
    assert describe_mismatch(wanted * np.float32(1.0005), wanted, tolerance) is not None
    wrong = wanted.copy()
    wrong[np.unravel_index(np.argmin(np.abs(wanted)), wanted.shape)] *= np.float32(1.0005)
    assert describe_mismatch(wrong, wanted, tolerance) is not None
