"""Every exported operator against what MXNet 1.9.1 computed: the recorded cases of the kernels, in each dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from graphshare.errors import RefusedError
from graphshare.ops.registry import find_translation
from graphshare.ops.translation import Translator
from tests.elementwise import Tolerance, describe_mismatch
from tests.export.judge import export_operator, run_onnx
from tests.export.known_differences import KNOWN
from tests.kernels.recordings import (
    FAMILIES,
    cases_of,
    recorded_inputs,
    recorded_outputs,
    tolerance_of,
)
from tests.surroundings import pick_everyday

EVERYDAY = 10
"""One in so many cases is tried in an everyday run, chosen by their names."""


def exported_cases() -> list[Any]:
    """Return the recorded cases of operators that are exported; those of training are not."""
    cases = {
        f"{family}-{number}-{case['op']}": (family, number, case)
        for family in FAMILIES
        for number, case in enumerate(cases_of(family))
        if isinstance(find_translation(case["op"]), Translator) and not case.get("train")
    }
    picked = set(pick_everyday(cases, EVERYDAY))
    return [
        pytest.param(*case, id=name, marks=[] if name in picked else [pytest.mark.large])
        for name, case in cases.items()
    ]


@pytest.mark.parametrize(("family", "number", "case"), exported_cases())
def test_onnx_computes_what_mxnet_computed(family: str, number: int, case: dict[str, Any]) -> None:
    inputs, wanted = recorded_inputs(family, number), recorded_outputs(family, number)
    translator = find_translation(case["op"])
    assert isinstance(translator, Translator)
    data = export_operator(case["op"], case["attrs"], inputs, len(wanted))
    if isinstance(data, RefusedError):
        assert translator.condition, f"refused without a stated condition: {data}"
        return
    known = KNOWN.get(f"{family}-{number}-{case['op']}")
    feeds = {f"in{i}": x for i, x in enumerate(inputs)}
    outputs, _ = run_onnx(data, feeds)
    mismatches = compare(outputs, wanted, case)
    if known is None:
        assert not mismatches, mismatches
        return
    assert mismatches, "it no longer differs: take it out of known_differences.py"
    if known.reference:
        outputs, _ = run_onnx(data, feeds, reference=True)
    if known.ordinary_only:
        masks = [
            is_ordinary(got) & is_ordinary(want) for got, want in zip(outputs, wanted, strict=True)
        ]
        outputs, wanted = (
            [x[mask] for x, mask in zip(of, masks, strict=True)] for of in (outputs, wanted)
        )
    mismatches = compare(outputs, wanted, case, known.tolerance)
    assert not mismatches, (mismatches, known.reason)


def is_ordinary(x: Any) -> Any:
    """Return where ``x`` is neither NaN nor infinite nor the largest number of its dtype."""
    return np.abs(x) < np.finfo(x.dtype).max


def compare(
    outputs: Sequence[Any],
    wanted: Sequence[Any],
    case: dict[str, Any],
    tolerance: Tolerance | None = None,
) -> list[str]:
    """Return how outputs differ from the wanted ones by more than ``tolerance``, otherwise that of the case."""
    pairs = zip(outputs, wanted, strict=True)
    found = [
        describe_mismatch(np.asarray(a), b, tolerance or tolerance_of(case, b), zero_signs=False)
        for a, b in pairs
    ]
    return [mismatch for mismatch in found if mismatch is not None]
