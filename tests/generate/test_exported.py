"""Campaigns of exported graphs: the judge finds what is wrong, and an abort of the runtime is counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from graphshare.export_onnx import translate
from graphshare.ops.registry import find_translation
from graphshare.ops.translation import NoTranslation, Translation, Translator
from tests.fuzz.sandbox import abort
from tests.generate import exported
from tests.generate.exported import Campaign, check_export, exporting_grower, judge_seed
from tests.generate.grow import Grower
from tests.generate.known_exports import known_reason


def _emit_cosine(t: Translation) -> str:
    return t.cast(
        t.emit("Cos", t.cast(t.inputs[0], "float32")), t.outputs[0].dtype, dtype="float32"
    )


def test_a_wrong_translation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    grower = Grower(
        {op: cases for op, cases in Grower().pool.items() if op in ("sin", "relu", "elemwise_add")}
    )
    models = [grower.grow(seed) for seed in range(3)]
    assert [check_export(model).faults for model in models] == [()] * 3

    def plant(op: str) -> Translator | NoTranslation | None:
        return Translator("sin", _emit_cosine) if op == "sin" else find_translation(op)

    monkeypatch.setattr(translate, "find_translation", plant)
    faults = [fault for model in models for fault in check_export(model).faults]
    assert faults
    assert all(" sin {" in fault for fault in faults), faults


def test_what_is_wrong_in_a_whole_model_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    grower = Grower(
        {op: cases for op, cases in Grower().pool.items() if op in ("sin", "relu", "elemwise_add")}
    )
    plant = Translator("sin", _emit_cosine)
    monkeypatch.setattr(
        translate, "find_translation", lambda op: plant if op == "sin" else find_translation(op)
    )
    monkeypatch.setattr(exported, "_compare_alone", lambda *arguments: (None, "onnxruntime"))
    faults = [fault for seed in range(3) for fault in check_export(grower.grow(seed)).faults]
    assert faults
    assert all(" sin {} in the whole model: " in fault for fault in faults), faults


def test_an_abort_is_a_disagreement_of_its_seed(tmp_path: Path) -> None:
    def case(seed: int) -> tuple[str, str]:
        if seed == 7:
            abort()
        return "done", '{"agreeing": 3, "known": ["open"], "operators": ["sin"]}'

    campaign = Campaign(case)
    campaign.run(range(5, 10))
    assert campaign.faults == ["seed 7: ended by signal 6"]
    assert (
        campaign.counts["graphs"],
        campaign.counts["graphs that agree"],
        campaign.counts["values that agree"],
    ) == (5, 4, 12)
    assert campaign.describe()[-1] == "known, 4 times: open"


def test_known_differences_are_narrow() -> None:
    nan, number = np.array([np.nan, 1], np.float32), np.array([2, 1], np.float32)
    assert known_reason("max", {}, [nan], number, number)
    assert not known_reason("max", {}, [number], number, number)
    assert not known_reason("relu", {}, [nan], number, number)
    small, large = np.full(20, 1, np.int8), np.full(24, 3, np.int8)
    assert known_reason("prod", {}, [large], large[:1], large[:1])
    assert not known_reason("prod", {}, [small], small[:1], small[:1])
    whole = np.array([3], np.int64)
    assert known_reason("_random_pdf_exponential", {}, [whole], whole - 1, whole)
    assert not known_reason("_random_pdf_exponential", {}, [whole], whole - 2, whole)
    assert known_reason("_linalg_det", {}, [np.ones((2, 2), np.float32)], number, number)
    assert not known_reason("_linalg_det", {}, [np.eye(2, dtype=np.float32)], number, number)
    assert known_reason(
        "sigmoid", {}, [number], np.array([1.5e-7], np.float32), np.array([6e-8], np.float32)
    )
    assert not known_reason(
        "sigmoid", {}, [number], np.array([0.5], np.float32), np.array([0.51], np.float32)
    )


def test_only_what_depends_on_a_nan_may_differ() -> None:
    rows = np.array([[np.nan, 1], [2, 3]], np.float32)
    compute, want = lambda arrays: arrays[0].max(axis=1), np.array([np.nan, 3], np.float32)
    assert known_reason("max", {}, [rows], np.array([1, 3], np.float32), want, compute)
    assert not known_reason("max", {}, [rows], np.array([np.nan, 2], np.float32), want, compute)


def test_only_as_much_as_a_last_digit_moves_may_be_rounding() -> None:
    x = np.array([1234.567, 0.1], np.float32)
    compute = lambda arrays: (arrays[0][:1] - np.float32(1234.5)) * 100  # noqa: E731
    want = compute([x])
    assert known_reason("_minus_scalar", {}, [x], want + np.float32(1e-2), want, compute)
    assert not known_reason("_minus_scalar", {}, [x], want + np.float32(1), want, compute)


@pytest.mark.large
def test_thirty_graphs_agree() -> None:
    campaign = Campaign(judge_seed(exporting_grower()))
    campaign.run(range(30))
    assert not campaign.faults
    assert campaign.counts["graphs"] == 30
    assert campaign.counts["values that agree"] > 300
