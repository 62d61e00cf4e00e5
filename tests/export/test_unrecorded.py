"""Operators that MXNet did not record are exported too, and their cases set every attribute.

A translation that ignores an attribute computes what its default gives; only a case with another value shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from graphshare.ops.registry import canonical, find_translation, lookup
from graphshare.ops.translation import Translator
from tests.export.judge import export_operator, run_onnx
from tests.export.test_recorded import compare
from tests.gradients.more_cases import drawn
from tests.kernels.unrecorded import UNRECORDED

EXPORTED = [case for case in UNRECORDED if isinstance(find_translation(case["op"]), Translator)]


def check_case(case: Mapping[str, Any]) -> None:
    """Export the operator of a case, and compare what onnxruntime computes with the outputs that are written down."""
    inputs = [value for key, value in drawn([dict(case)]).items() if key.startswith("0_in")]
    model = export_operator(case["op"], case["attrs"], inputs, len(case["outputs"]))
    assert isinstance(model, bytes), model
    outputs, _ = run_onnx(model, {f"in{i}": x for i, x in enumerate(inputs)})
    wanted = [
        x.dtype.type(expected).reshape(x.shape)
        for x, expected in zip(outputs, case["outputs"], strict=True)
    ]
    assert compare(outputs, wanted, dict(case)) == []


def find_untried(cases: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the attributes of the operators of ``cases`` that none of these sets to anything but the default."""
    tried: dict[str, set[str]] = {}
    for case in cases:
        signature = lookup(case["op"])
        assert signature is not None
        set_ = {
            key
            for key, value in case["attrs"].items()
            if (p := signature.parameter(key)) and value != p.default
        }
        tried.setdefault(canonical(case["op"]), set()).update(set_)
    return [
        f"{op}: {p.name}"
        for op, names in tried.items()
        for p in _list_parameters(op)
        if p.name not in names
    ]


def _list_parameters(op: str) -> Iterable[Any]:
    signature = lookup(op)
    assert signature is not None
    return signature.parameters or ()


@pytest.mark.parametrize(
    "number", range(len(EXPORTED)), ids=lambda number: str(EXPORTED[number]["op"])
)
def test_onnxruntime_computes_the_outputs_of_the_case(number: int) -> None:
    check_case(EXPORTED[number])


def test_every_attribute_is_tried() -> None:
    assert find_untried(EXPORTED) == []


def test_an_attribute_that_no_case_sets_is_found() -> None:
    case = {"op": "hard_sigmoid", "attrs": {"alpha": "0.3", "beta": "0.5"}}
    assert find_untried([case]) == ["hard_sigmoid: beta"]
    assert find_untried([case, {**case, "attrs": {"beta": "0.4"}}]) == []


def test_a_wrong_output_is_found() -> None:
    inputs = [{"shape": [2], "values": [-1.0, 1.0]}]
    case = {
        "op": "hard_sigmoid",
        "attrs": {"alpha": "0.25", "beta": "0.4"},
        "inputs": inputs,
        "outputs": [[0.15, 0.65]],
    }
    check_case(case)
    with pytest.raises(AssertionError):
        check_case({**case, "outputs": [[0.15, 0.66]]})
