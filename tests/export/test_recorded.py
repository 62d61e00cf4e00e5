"""Every exported operator against what MXNet 1.9.1 computed: the recorded cases of the kernels, in each dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphshare.errors import RefusedError
from graphshare.ops.registry import find_translation
from graphshare.ops.translation import Translator
from tests.elementwise import describe_mismatch
from tests.export.judge import export_operator, run_onnx
from tests.kernels.test_recorded import FAMILIES, cases_of, recorded, tolerance_of

EVERYDAY = 10
"""One in so many cases of a family is tried in an everyday run."""


def exported_cases() -> list[Any]:
    """Return the recorded cases of operators that are exported; those of training are not."""
    return [
        pytest.param(
            family, number, case, id=f"{family}-{number}-{case['op']}", marks=[pytest.mark.large] if number % EVERYDAY else []
        )
        for family in FAMILIES
        for number, case in enumerate(cases_of(family))
        if isinstance(find_translation(case["op"]), Translator) and not case.get("train")
    ]


@pytest.mark.parametrize(("family", "number", "case"), exported_cases())
def test_onnx_computes_what_mxnet_computed(family: str, number: int, case: dict[str, Any]) -> None:
    kept = recorded(family)
    inputs = [kept[f"{number}_in{i}"] for i in range(len(case["inputs"]))]
    wanted = [kept[f"{number}_out{i}"] for i in range(sum(key.startswith(f"{number}_out") for key in kept))]
    translator = find_translation(case["op"])
    assert isinstance(translator, Translator)
    data = export_operator(case["op"], case["attrs"], inputs, len(wanted))
    if isinstance(data, RefusedError):
        assert translator.condition, f"refused without a stated condition: {data}"
        return
    outputs, _ = run_onnx(data, {f"in{i}": x for i, x in enumerate(inputs)})
    for got, want in zip(outputs, wanted, strict=True):
        mismatch = describe_mismatch(np.asarray(got), want, tolerance_of(case, want), zero_signs=False)
        assert mismatch is None, mismatch
