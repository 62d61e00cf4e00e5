"""Operators that put scores in order are judged by what the model gives them where nearly equal scores swap places."""

from __future__ import annotations

import numpy as np
import pytest

import graphshare as gs
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import DisprovedError
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ops.registry import TRANSLATIONS, register_translation
from graphshare.ops.translation import Translation, Translator
from graphshare.verification import onnx_export
from tests.symbols import document, mxnet_text, operator, variable

SHAPE = {"data": (1, 256, 60, 60)}


def ranking() -> Checkpoint:
    """The order of 3600 scores, each a sum of 256 products, and a value computed from it."""
    nodes = [
        variable("data"),
        variable("w"),
        operator(
            "Convolution",
            "conv",
            [0, 1],
            attrs={"kernel": "(1, 1)", "num_filter": "1", "no_bias": "True"},
        ),
        operator("Flatten", "flat", [2]),
        operator("argsort", "order", [3]),
        operator("_plus_scalar", "next", [4], attrs={"scalar": "1"}),
    ]
    model = Checkpoint(read_symbol(mxnet_text(document(nodes, [4, 5])).encode()))
    return model.with_params(
        {"w": np.random.default_rng(0).normal(size=(1, 256, 1, 1)).astype("f4")}
    )


def test_nearly_equal_scores_may_swap_places(monkeypatch: pytest.MonkeyPatch) -> None:
    report = gs.export(ranking(), shapes=SHAPE).report
    assert report.proof.verdict.endswith("; order (argsort) on the model's own inputs")
    assert report.proof.describe()["by_inputs"] == ["order (argsort)"]
    monkeypatch.setattr(onnx_export, "judge_by_inputs", lambda *others: (others[3], []))
    # Or the model would not show what the rule is for
    with pytest.raises(DisprovedError, match="order_output"):
        gs.export(ranking(), shapes=SHAPE)


@pytest.mark.parametrize("op", ["argsort", "_plus_scalar", "Flatten"])
def test_a_wrong_model_is_disproved(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong in what orders, behind it, or before it."""

    def translate(t: Translation) -> str:
        if op == "argsort":
            count = t.integers([t.inputs[0].shape[-1]])
            _, order = t.emit_several("TopK", 2, t.inputs[0], count, axis=-1, largest=1, sorted=1)
            return t.cast(order, "float32", "int64")
        x = t.emit("Flatten", t.inputs[0]) if op == "Flatten" else t.inputs[0].name
        return (
            t.emit("Add", x, t.number(2, "float32"))
            if op == "_plus_scalar"
            else t.emit("Mul", x, t.number(1.01, "float32"))
        )

    monkeypatch.setattr(TRANSLATIONS, "registered", {})
    register_translation(Translator(op, translate))
    with pytest.raises(DisprovedError):
        gs.export(ranking(), shapes=SHAPE)
