"""Proofs of whole models: a copy bit for bit, and a folded model within its tolerance, each beside a wrong one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from graphshare.errors import DisprovedError, Fault, InputError, MemoryLimitError
from graphshare.resources import resource_limits
from graphshare.rewrite.folding.fold_graph import Folded, Folding, FoldingProof
from graphshare.verification.whole_model import BitComparison, compare_bits, prove_folding

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

_TWO = "(float[2,4] x) => (float[2,4] y, float[2,4] z)"
_WRONG = "nothing was written; please report it"


def load(folder: Path, name: str, text: str) -> gs.Checkpoint:
    path = folder / f"{name}.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}'), path)
    return gs.load(path)


def compare(folder: Path, text: str, copy: str) -> BitComparison:
    source = load(folder, "source", text)
    load(folder, "copy", copy)
    return compare_bits(
        source, source, "copy.onnx", lambda: ((folder / "copy.onnx").read_bytes(), str(folder))
    )


def refuse(*_: object, **__: object) -> None:
    raise MemoryLimitError(Fault("too large"))


@pytest.mark.parametrize(
    ("text", "copy", "words"),
    [
        (f"{_TWO} {{ y = Neg(x) z = Exp(x) }}", f"{_TWO} {{ z = Exp(x) y = Neg(x) }}", "2 outputs equal bit for bit"),
        ("(float[2] x) => (float[2] y) { y = Log(x) }",) * 2 + ("1 output equal bit for bit",),
        (
            "(float[4] x) => (float[4] y) { r = RandomNormalLike(x) y = Add(r, x) }",
            "(float[4] x) => (float[4] y) { z = Neg(x) r = RandomNormalLike(x) y = Sub(r, z) }",
            "not compared: two runs of the model itself differ",
        ),
        (
            "(float[4] x) => (float[K] y) <int64[1] k = {3}> { y = Reshape(x, k) }",
            "(float[4] x) => (float[K] y) <int64[1] k = {4}> { y = Reshape(x, k) }",
            "not computed: onnxruntime",
        ),
    ],
)  # fmt: skip
def test_a_copy_is_compared_bit_for_bit(text: str, copy: str, words: str, tmp_path: Path) -> None:
    comparison = compare(tmp_path, text, copy)
    assert comparison.text.startswith(words)
    assert comparison.were_compared == words.endswith("bit for bit")


@pytest.mark.parametrize(
    ("copy", "words"),
    [
        (
            "<float c = {0.0000001}> { y = Add(x, c) z = Exp(x) }",
            "computes different bits from its source: y",
        ),
        ("{ y = Exp(x) z = Neg(x) }", "computes different bits from its source: y, z"),
        (
            "<int64[1] k = {3}> { y = Identity(x) z = Reshape(x, k) }",
            "cannot be computed as its source can: onnxruntime",
        ),
    ],
)
def test_a_copy_that_computes_something_else_is_disproved(
    copy: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(DisprovedError) as caught:
        compare(tmp_path, f"{_TWO} {{ y = Identity(x) z = Exp(x) }}", f"{_TWO} {copy}")
    (fault,) = caught.value.faults
    assert fault.message.startswith(words)
    assert (fault.where, fault.hint) == ("copy.onnx", _WRONG)


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_limit_that_is_chosen_ends_a_proof_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_whole: bool
) -> None:
    text = "(float[2] x) => (float[2] y) { y = Neg(x) }"
    model = load(tmp_path, "source", text)
    monkeypatch.setattr("graphshare.verification.whole_model.open_computation", refuse)

    def prove() -> str:
        if is_whole:
            return compare_bits(model, model, "", lambda: (b"", "")).text
        return prove_folding(model, Folding((), ()), model, {"float32"}, None).notes[-1]

    assert prove().endswith(": too large")
    with resource_limits("4 GB", None), pytest.raises(MemoryLimitError):
        prove()


def test_another_refusal_leaves_a_model_unproved_under_a_limit(tmp_path: Path) -> None:
    text = "(float[4] x) => (float[K] y) <int64[1] k = {3}> { y = Reshape(x, k) }"
    with resource_limits("4 GB", None):
        comparison = compare(tmp_path, text, text)
        assert (comparison.were_compared, comparison.text.partition(": ")[0]) == (
            False,
            "not computed",
        )
        model = gs.load(tmp_path / "source.onnx")
        note = prove_folding(model, Folding((), ()), model, {"float32"}, None).notes[-1]
    assert note.startswith("proved by weights alone, as the models were not computed: onnxruntime")


@pytest.mark.parametrize(
    ("changed", "words"),
    [(None, "does not exist"), (b"", "changed since"), (bytes(4096), "changed since")],
)
@pytest.mark.parametrize("proof", ["of a copy", "of folding"])
def test_nothing_follows_from_external_data_that_changes(
    proof: str, changed: bytes | None, words: str, tmp_path: Path
) -> None:
    """onnxruntime reads it itself: the model seems to compute something else, or not to be computed at all."""
    head = '<ir_version: 8, opset_import: ["" : 17]> g'
    made = onnx.parser.parse_model(head + " (float[1024] x) => (float[1024] y) { y = Add(x, c) }")
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(1024, np.float32), "c"))
    onnx.save(made, tmp_path / "copy.onnx")
    onnx.save(
        made,
        tmp_path / "source.onnx",
        save_as_external_data=True,
        location="data",
        size_threshold=0,
    )
    copy, model = (gs.load(tmp_path / f"{name}.onnx") for name in ("copy", "source"))
    (tmp_path / "data").unlink()
    if changed is not None:
        (tmp_path / "data").write_bytes(changed)
        os.utime(tmp_path / "data", (1, 1))
    ways: dict[str, Callable[[], object]] = {
        "of a copy": lambda: compare_bits(
            model, model, "copy.onnx", lambda: ((tmp_path / "copy.onnx").read_bytes(), "")
        ),
        "of folding": lambda: prove_folding(copy, Folding((), ()), model, {"float32"}, None),
    }
    with pytest.raises(InputError, match=words):
        ways[proof]()


def fold(
    folder: Path,
    change: float,
    dtypes: Sequence[str] = ("float32",),
    tolerance: float | None = None,
    tail: str = "Neg(n)",
) -> FoldingProof:
    """Prove a model beside one in which the first number of the norm ``n``, a maximum, is larger by ``change``.

    Weights decide nothing about a maximum.
    """
    head = "(float[1,4] x) => (float[1,4] y)"
    text = "{} <float[4] c = {{{}, 0.0, 0.0, 0.0}}> {{ a = Sub(x, x) n = Max(a, c) y = {} }}"
    source, folded = (
        load(folder, name, text.format(head, 1 + more, tail))
        for name, more in (("a", 0.0), ("b", change))
    )
    report = Folding((Folded("w", "b", ("layer",), ("n",)),), ())
    proof = prove_folding(folded, report, source, dtypes, tolerance).report.proof
    assert isinstance(proof, FoldingProof)
    return proof


def test_outputs_and_layers_of_a_folded_model_are_measured(tmp_path: Path) -> None:
    """Outputs by themselves, layers relative to their largest number, which is 1 here."""
    proof = fold(tmp_path, 2.0**-16, tail="Add(n, n)")
    assert proof == FoldingProof(outputs=1, max_abs=2.0**-15, layers=1, of_largest=2.0**-16)
    assert fold(tmp_path, 0.0) == FoldingProof(1, 0.0, 1, 0.0)


def test_a_layer_that_is_an_output_is_compared_once(tmp_path: Path) -> None:
    text = "(float[1,4] x) => (float[1,4] n) <float c = {{{}}}> {{ a = Sub(x, x) n = Max(a, c) }}"
    source, folded = (
        load(tmp_path, name, text.format(value))
        for name, value in (("a", 2.0), ("b", 2.0 + 2.0**-15))
    )
    report = Folding((Folded("w", "b", ("layer",), ("n",)),), ())
    proof = prove_folding(folded, report, source, {"float32"}, None).report.proof
    assert proof == FoldingProof(1, 2.0**-15, 1, 2.0**-16)


@pytest.mark.parametrize(
    ("change", "dtypes", "tolerance", "is_proved"),
    [
        (0.9e-4, ["float32"], None, True),
        (1.2e-4, ["float32"], None, False),
        (0.9e-2, ["float32", "float16"], None, True),  # the coarsest
        (1.3e-2, ["float16", "float32"], None, False),
        (0.9e-3, ["float32"], 1e-3, True),
        (1.2e-3, ["float32"], 1e-3, False),
        (2.0**-23, ["float32"], 0.0, False),
    ],
)
def test_a_folded_model_may_differ_by_its_tolerance(
    change: float, dtypes: list[str], tolerance: float | None, is_proved: bool, tmp_path: Path
) -> None:
    if is_proved:
        assert fold(tmp_path, change, dtypes, tolerance).of_largest == pytest.approx(
            change, rel=1e-2
        )
        return
    with pytest.raises(DisprovedError) as caught:
        fold(tmp_path, change, dtypes, tolerance)
    first = caught.value.faults[0]
    assert first.message.startswith("y and y: values differ, max abs ")
    assert (first.where, first.hint) == (
        str(tmp_path / "a.onnx"),
        "nothing was written; `tolerance` allows a larger difference",
    )


@pytest.mark.parametrize(
    ("dtype", "step"), [("float16", 2.0**-9), ("float32", 2.0**-22), ("float64", 2.0**-51)]
)
def test_a_share_near_zero_may_be_off_by_two_steps_of_1(
    dtype: str, step: float, tmp_path: Path
) -> None:
    """Both numbers are almost 0, and 1 beside them: a Sigmoid has such an error everywhere."""
    onnx_dtype = {"float16": "float16", "float32": "float", "float64": "double"}[dtype]
    text = "({0}[1] x) => ({0}[1] y) {{ a = Sub(x, x) y = Max(a, c) }}"
    for factor, is_proved in ((1.0, True), (1.5, False)):
        models = []
        for name, value in (("a", 0.0), ("b", step * factor)):
            model = onnx.parser.parse_model(
                f'<ir_version: 8, opset_import: ["" : 17]> g {text.format(onnx_dtype)}'
            )
            model.graph.initializer.append(
                onnx.numpy_helper.from_array(np.array([value], dtype), "c")
            )
            onnx.save(model, tmp_path / f"{name}.onnx")
            models.append(gs.load(tmp_path / f"{name}.onnx"))
        source, folded = models
        if is_proved:
            assert prove_folding(
                folded, Folding((), ()), source, {dtype}, None
            ).report.proof == FoldingProof(1, step, 0, None)
        else:
            with pytest.raises(DisprovedError):
                prove_folding(folded, Folding((), ()), source, {dtype}, None)
