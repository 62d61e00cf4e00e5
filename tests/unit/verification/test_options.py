"""Options of proofs that exclude each other are refused, and options beside them are not."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.errors import UsageError
from graphshare.verification import onnx_checker
from tests.processes import ROOT


@pytest.fixture
def lenet(tmp_path: Path) -> gs.Checkpoint:
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path)
    return gs.load(tmp_path / "lenet")


def compare_twins(model: gs.Checkpoint, **options: Any) -> gs.Report:
    return gs.compare(model, model, **options)


def compare_record(model: gs.Checkpoint, **options: Any) -> gs.Report:
    feeds = {"data": np.ones((1, 1, 28, 28), "float32")}
    return gs.compare(model, {**gs.run(model, feeds=feeds).outputs, **feeds}, **options)


def verify_branches(model: gs.Checkpoint, **options: Any) -> gs.Report:
    return gs.verify(gs.duplicate(model, "sha-"), prefixes=["sha-"], **options)


def verify_rewrite(model: gs.Checkpoint, **options: Any) -> gs.Report:
    return gs.verify(gs.duplicate(model, "sha-"), **options)


TWO, NONE = gs.Inputs(rounds=2), gs.Inputs(sets=[])


@pytest.mark.parametrize(
    ("prove", "options", "message"),
    [
        (
            compare_twins,
            {"reduce": "https://host/part"},
            "`reduce` writes to a folder on this machine",
        ),
        (
            compare_twins,
            {"inputs": gs.Inputs(sets=[{}], rounds=2)},
            "each set of `sets` is a round: `rounds` and `train_step`",
        ),
        (compare_twins, {"inputs": NONE}, "`sets` contains no set"),
        (
            compare_record,
            {"inputs": TWO},
            "a record has inputs of its own: leave `sets` and `rounds` out",
        ),
        (
            compare_record,
            {"inputs": gs.Inputs(sets=[{}])},
            "a record has inputs of its own: leave `sets` and `rounds` out",
        ),
        (compare_record, {"reduce": "part"}, "`reduce` needs two models, and one is a record"),
        (compare_record, {"exact": True}, "`exact` needs two models, and one is a record"),
        (compare_record, {"map": "names.json"}, "`map` needs two models, and one is a record"),
        (
            compare_record,
            {"allow_unsupported": True},
            "`allow_unsupported` needs two models, and one is a record",
        ),
        (
            verify_branches,
            {"inputs": gs.Inputs(sets=[{}]), "train_step": True},
            "each set of `sets` is a round: `rounds` and",
        ),
        (verify_branches, {"inputs": NONE}, "`sets` contains no set"),
        (verify_branches, {"expect_tied": True}, "`expect_tied` needs `train_step`"),
        (verify_rewrite, {"expect_tied": True}, "`expect_tied` needs `train_step`"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    prove: Callable[..., gs.Report], options: dict[str, Any], message: str, lenet: gs.Checkpoint
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        prove(lenet, **options)


@pytest.mark.parametrize(
    ("prove", "options"),
    [
        (compare_twins, {"inputs": TWO}),
        (compare_twins, {"layers": True}),
        (compare_twins, {"layers": True, "inputs": TWO}),
        (compare_twins, {"engine": ["numpy", "auto"]}),
        (compare_record, {"layers": True}),
        (compare_record, {"engine": ["numpy", "auto"]}),
        (verify_branches, {"layers": True, "inputs": TWO}),
        (verify_branches, {"engine": "numpy,auto"}),
        (verify_rewrite, {"inputs": TWO}),
    ],
)
def test_options_that_go_together_are_not(
    prove: Callable[..., gs.Report], options: dict[str, Any], lenet: gs.Checkpoint
) -> None:
    assert prove(lenet, **options)


@pytest.mark.parametrize(
    "option", ["against", "values_only", "across_dtypes", "recorded", "reduce"]
)
def test_options_for_two_models_are_not_those_of_verify(option: str, lenet: gs.Checkpoint) -> None:
    with pytest.raises(TypeError, match=option):
        gs.verify(lenet, **{option: "x"})


def test_layers_beside_parts_that_show_a_difference(lenet: gs.Checkpoint, tmp_path: Path) -> None:
    """Parts are looked for where a region departs, whether inner outputs are shown or not."""
    other = lenet.with_params({"fc2_bias": np.full_like(lenet.params["fc2_bias"], 3)})
    report = gs.compare(lenet, other, layers=True, reduce=tmp_path / "part")
    assert report.outcome == "not equal"
    assert report.reduced is not None
    assert [stage.verdict for stage in report.branches[0].stages if stage.name == "layers"] == [
        "fails"
    ]


@pytest.mark.parametrize(
    ("mode", "verdict"),
    [
        ("copy", "EQUAL: sha- and the original, bit for bit"),
        ("tie", "EQUAL: sha- and the original, bit for bit"),
        ("batch", "EQUAL: (original), sha- and runs of their own"),
    ],
)
def test_a_rewrite_in_memory_names_its_branches(
    mode: Any, verdict: str, lenet: gs.Checkpoint
) -> None:
    report = gs.verify(gs.duplicate(lenet, "sha-", mode=mode, force=mode == "batch"))
    assert report
    assert report.verdict.startswith(verdict)


def test_a_rewrite_of_one_branch_has_none_to_compare(lenet: gs.Checkpoint) -> None:
    with pytest.raises(gs.GraphshareError, match="branch"):
        gs.verify(gs.rename(lenet, prefix="net1_"))


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ({"onnx"}, "onnx is not installed"),
        ({"onnx", "onnxruntime"}, "onnx and onnxruntime are not installed"),
        (set(), ""),
    ],
)
def test_packages_that_a_proof_needs_are_named(
    missing: set[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        onnx_checker, "find_spec", lambda name: None if name in missing else object()
    )
    if not words:
        onnx_checker.require_onnx()
        return
    with pytest.raises(gs.GraphshareError, match=f"^{words}, so nothing can be proved"):
        onnx_checker.require_onnx()


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("conv1", "conv1"),
        ("conv1/Add/x", "conv1"),
        ("a/b/Mul", "a/b"),
        ("a/c/Mul", "a"),
        ("other/x", None),
    ],
)
def test_what_the_checker_of_onnx_names_belongs_to_an_operator(
    place: str, name: str | None
) -> None:
    assert onnx_checker._find_node(place, {"conv1", "a", "a/b"}) == name


def test_a_tolerance_of_the_largest_number_holds(lenet: gs.Checkpoint) -> None:
    other = lenet.with_params(
        {
            "fc2_bias": np.array(lenet.params["fc2_bias"])
            + np.float32(1e-2) * np.arange(10, dtype="f")
        }
    )
    shapes = {"data": (1, 1, 28, 28)}
    assert gs.compare(lenet, other, shapes=shapes).outcome == "not equal"
    assert (
        gs.compare(lenet, other, shapes=shapes, tolerance=gs.Tolerance(of_largest=1.0)).outcome
        == "equal"
    )
