"""Options of ``verify`` that exclude each other are refused, and options beside them are not."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import graphshare as gs
from graphshare.verification import onnx_checker
from tests.processes import ROOT


@pytest.fixture
def lenet(tmp_path: Path) -> gs.Checkpoint:
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path)
    return gs.load(tmp_path / "lenet")


SIDES = {
    "alone": lambda model: (gs.duplicate(model, "sha-"), {}),
    "branches": lambda model: (gs.duplicate(model, "sha-"), {"prefixes": ["sha-"]}),
    "files": lambda model: (model, {"against": model}),
}


@pytest.mark.parametrize(
    ("side", "options", "message"),
    [
        (
            "files",
            {"values_only": True, "rounds": 2},
            "`values_only` of two models by the names of outputs has one set of inputs",
        ),
        ("files", {"values_only": True, "layers": True, "rounds": 2}, "`layers` of two models by the names of outputs has one"),
        ("files", {"reduce": "part", "layers": True}, "`reduce` looks for the region that departs, and `layers` for an inner"),
        ("files", {"reduce": "https://host/part"}, "`reduce` writes to a folder on this machine"),
        ("files", {"prefixes": ["sha-"]}, "`against` compares two files; `prefixes` and `map` are for branches in one"),
        ("files", {"map": "m.json"}, "`against` compares two files; `prefixes` and `map` are for branches in one"),
        ("branches", {"reduce": "part"}, "`reduce` needs `against`"),
        ("alone", {"reduce": "part"}, "`reduce` needs `against`"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    side: str, options: dict[str, Any], message: str, lenet: gs.Checkpoint, tmp_path: Path
) -> None:
    model, more = SIDES[side](lenet)
    with pytest.raises(gs.GraphshareError, match=re.escape(message)):
        gs.verify(model, **{**more, **options})


@pytest.mark.parametrize(
    ("side", "options"),
    [
        ("files", {"values_only": True, "rounds": 1}),
        ("files", {"rounds": 2}),
        ("files", {"layers": True}),
        ("files", {"engine": ["numpy", "auto"]}),
        ("branches", {"layers": True, "rounds": 2}),
        ("branches", {"engine": "numpy,auto"}),
        ("alone", {"rounds": 2}),
    ],
)
def test_options_that_go_together_are_not(side: str, options: dict[str, Any], lenet: gs.Checkpoint) -> None:
    model, more = SIDES[side](lenet)
    assert gs.verify(model, **{**more, **options})


@pytest.mark.parametrize(
    ("mode", "verdict"),
    [
        ("copy", "EQUAL: sha- and the original, bit for bit"),
        ("tie", "EQUAL: sha- and the original, bit for bit"),
        ("batch", "EQUAL: (original), sha- and runs of their own"),
    ],
)
def test_a_rewrite_in_memory_names_its_branches(mode: Any, verdict: str, lenet: gs.Checkpoint) -> None:
    report = gs.verify(gs.duplicate(lenet, "sha-", mode=mode, force=mode == "batch"))
    assert report
    assert report.verdict.startswith(verdict)


def test_a_rewrite_of_one_branch_has_none_to_compare(lenet: gs.Checkpoint) -> None:
    with pytest.raises(gs.GraphshareError, match="branch"):
        gs.verify(gs.rename(lenet, prefix="net1_"))


@pytest.mark.parametrize(
    ("missing", "words"),
    [({"onnx"}, "onnx is not installed"), ({"onnx", "onnxruntime"}, "onnx and onnxruntime are not installed"), (set(), "")],
)
def test_packages_that_a_proof_needs_are_named(missing: set[str], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_checker, "find_spec", lambda name: None if name in missing else object())
    if not words:
        onnx_checker.require_onnx()
        return
    with pytest.raises(gs.GraphshareError, match=f"^{words}, so nothing can be proved"):
        onnx_checker.require_onnx()


@pytest.mark.parametrize(
    ("place", "name"), [("conv1", "conv1"), ("conv1/Add/x", "conv1"), ("a/b/Mul", "a/b"), ("a/c/Mul", "a"), ("other/x", None)]
)
def test_what_the_checker_of_onnx_names_belongs_to_an_operator(place: str, name: str | None) -> None:
    assert onnx_checker._find_node(place, {"conv1", "a", "a/b"}) == name
