"""GS301: the hint for an operator that MXNet 1.9.1 does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphshare.checks.engine import run_rules
from graphshare.checks.rule import Example, operator, symbol, variable
from graphshare.ops.kernel import Kernel
from graphshare.ops.registry import KERNELS, register_kernel
from graphshare.ops.unification import same_dtypes, same_shapes
from tests.unit.checks.examples import read_context


def find_hints(op: str, folder: Path) -> list[str]:
    findings, _ = run_rules(
        read_context(Example(symbol(variable("data"), operator(op, "a", 0))), folder)
    )
    return [finding.hint for finding in findings if finding.code == "GS301"]


def test_the_hint_for_an_operator_with_a_kernel_says_that_graphshare_computes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_hints("Relu", tmp_path) == ["did you mean 'relu'?"]
    monkeypatch.setattr(KERNELS, "registered", {})
    register_kernel(Kernel("Relu", lambda context, attrs, x: x, same_shapes, same_dtypes))
    assert find_hints("Relu", tmp_path) == ["graphshare computes it, MXNet 1.9.1 does not load it"]


def test_the_hint_names_the_operator_that_an_old_one_became(tmp_path: Path) -> None:
    assert find_hints("MultiBoxPrior", tmp_path) == [
        "MXNet 1.9.1 has it under the name '_contrib_MultiBoxPrior'"
    ]


def test_the_hint_for_a_foreign_operator_without_a_kernel_does_not_say_so(tmp_path: Path) -> None:
    (hint,) = find_hints("WarpCTC", tmp_path)
    assert "graphshare computes it" not in hint
