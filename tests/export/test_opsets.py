"""Every version of the operator set that is written: a model of it passes ONNX's checker, or is refused by name."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest

from graphshare.errors import RefusedError
from graphshare.export_onnx.opsets import FIRST, FIRST_WITH, IR_VERSIONS
from graphshare.ops.registry import find_translation
from graphshare.ops.translation import Translator
from tests.export.judge import export_operator
from tests.kernels.recordings import FAMILIES, cases_of, recorded_inputs, recorded_outputs


@cache
def first_cases() -> dict[str, tuple[str, int, dict[str, Any]]]:
    """Return a recorded case of every operator that is exported, by operator."""
    found: dict[str, tuple[str, int, dict[str, Any]]] = {}
    for family in FAMILIES:
        for number, case in enumerate(cases_of(family)):
            if isinstance(find_translation(case["op"]), Translator) and not case.get("train"):
                found.setdefault(case["op"], (family, number, case))
    return found


@pytest.mark.parametrize(
    "opset",
    [
        pytest.param(opset, marks=[pytest.mark.large] if opset != 13 else [])
        for opset in IR_VERSIONS
    ],
)
def test_every_operator_is_valid_or_refused(opset: int) -> None:
    refused = wrong = checked = 0
    messages = []
    for op, (family, number, case) in first_cases().items():
        inputs, outputs = recorded_inputs(family, number), len(recorded_outputs(family, number))
        data = export_operator(op, case["attrs"], inputs, outputs, opset=opset)
        if isinstance(data, RefusedError):
            refused += 1
            continue
        checked += 1
        try:
            onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
        except Exception as error:
            wrong += 1
            messages.append(f"{op}: {str(error)[:200]}")
    assert not messages, "\n".join(messages)
    assert checked > 5 * refused


@pytest.mark.parametrize("op_type", FIRST)
def test_the_first_version_is_that_of_onnx(op_type: str) -> None:
    assert onnx.defs.get_schema(op_type, 17).since_version == FIRST[op_type]


@pytest.mark.parametrize(("op_type", "attribute"), FIRST_WITH)
def test_the_first_version_of_an_attribute_is_that_of_onnx(op_type: str, attribute: str) -> None:
    first = FIRST_WITH[op_type, attribute]
    assert attribute in onnx.defs.get_schema(op_type, first).attributes
    assert attribute not in onnx.defs.get_schema(op_type, first - 1).attributes


def test_the_lowest_version_of_the_format_for_each_version_of_the_operator_set() -> None:
    table = {opset: ir for _, ir, opset, *_ in onnx.helper.VERSION_TABLE}
    lowest: dict[int, int] = {}
    for opset in IR_VERSIONS:
        lowest[opset] = min(ir for known, ir in table.items() if known >= opset)
    assert np.array_equal([*IR_VERSIONS.values()], [*lowest.values()])
