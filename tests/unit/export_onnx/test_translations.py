"""The ONNX text of every operator that is translated, in many attributes, shapes, dtypes and
versions of the operator set.

The texts are recorded: ``python -m tests.unit.export_onnx.test_translations`` writes
``translations.json.gz``. It keeps the questions that are recorded and adds some for operators
without any. Each text is proven before it is written: ONNX's checker accepts the model, and
onnxruntime (its reference where it has no kernel) computes what the executor computes. Here texts
are only compared.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.errors import RefusedError
from graphshare.ops.bodies import draws_numbers
from graphshare.ops.registry import (
    TRANSLATIONS,
    canonical,
    known_translations,
    register_translation,
)
from graphshare.ops.translation import Translation, Translator
from tests.elementwise import Tolerance, describe_mismatch
from tests.export.judge import encode, run_onnx, translate
from tests.export.known_differences import KNOWN
from tests.export.test_recorded import is_ordinary
from tests.unit.export_onnx.further import ASKED
from tests.unit.export_onnx.questions import Question, answer, build, compute, list_cases, read_case
from tests.unit.export_onnx.translated_text import (
    describe_constant,
    describe_graph,
    find_difference,
)

RECORDED = Path(__file__).with_name("translations.json.gz")
FIRST = 8
"""Questions of an operator that has none: cases with other attributes, ranks and dtypes than those before."""
PROVEN = {
    "float64": Tolerance(1e-9, 1e-6),
    "float32": Tolerance(1e-5, 1e-4),
    "float16": Tolerance(2e-3, 1e-2),
}
"""How far onnxruntime may be from the executor; the absolute part is of the largest element.

Sums have another order.
"""


@cache
def read_recorded() -> dict[str, list[tuple[Question, str]]]:
    """Return the questions of each operator with their texts."""
    if not RECORDED.exists():
        return {}
    with gzip.open(RECORDED, "rt", encoding="utf-8") as file:
        return {
            op: [(Question.from_json(asked), text) for asked, text in rows]
            for op, rows in json.load(file).items()
        }


def list_operators() -> list[str]:
    """Return the operators that are translated."""
    return sorted(
        op for op, translator in known_translations().items() if isinstance(translator, Translator)
    )


def choose_first(op: str) -> Iterator[Question]:
    """Yield cases of an operator, each with an attribute, a rank or a dtype that those before do not have."""
    seen: set[Any] = set()
    names = list_cases().get(op)
    questions = [Question(name) for name in names or ()] or [
        Question(name, op=op) for name in list_cases()[f"_contrib_{op}"]
    ]
    for question in questions:
        case = read_case(question.case)
        types = (*((x.ndim, str(x.dtype)) for x in case.arrays),)
        new = {*case.attrs.items(), types} - seen
        seen |= new
        if new:
            yield question


def list_questions(op: str) -> list[Question]:
    """Return the questions of an operator that are recorded, the first where none are, and those in ``further.py``."""
    asked = [question for question, _ in read_recorded().get(op, [])] or [*choose_first(op)][:FIRST]
    further = [Question(name) for name in list_cases().get(op, ()) if name.startswith("further-")]
    further += [
        question
        for question in map(Question.from_json, ASKED)
        if canonical(read_case(question.case).op) == op
    ]
    return asked + [question for question in further if question not in asked]


def prove(question: Question) -> str:
    """Return the text that a question has, proven. Raises AssertionError where onnxruntime computes something else."""
    built = build(question)
    translated = translate(*built, opset=question.opset)
    if isinstance(translated, RefusedError):
        return answer(question)
    feeds = {node.name: x for node, x in built.arrays.items()}
    wanted = compute(built)
    known = KNOWN.get(f"{question.case}-{read_case(question.case).op}")
    got, _ = run_onnx(encode(translated), feeds, reference=known is not None and known.reference)
    is_drawn = any(draws_numbers(node) for node in built.graph.nodes)
    for i, (x, y) in enumerate(zip(got, wanted, strict=True)):
        x, y = np.asarray(x), np.asarray(y)
        assert (x.shape, x.dtype) == (y.shape, y.dtype), (
            f"output {i} is {x.dtype} {x.shape} instead of {y.dtype} {y.shape}"
        )
        if is_drawn:
            continue
        if known is not None and known.ordinary_only:
            ordinary = is_ordinary(x) & is_ordinary(y)
            x, y = x[ordinary], y[ordinary]
        mismatch = describe_mismatch(x, y, _tolerance_of(y))
        assert mismatch is None, f"output {i}: {mismatch}"
    return describe_graph(translated)


def _tolerance_of(expected: Any) -> Tolerance | None:
    if expected.dtype.kind != "f":
        return None
    atol, rtol = PROVEN[str(expected.dtype)]
    largest = np.abs(expected[np.isfinite(expected)].astype(np.float64)).max(initial=0)
    return Tolerance(atol * max(1.0, float(largest)), rtol)


@pytest.mark.parametrize("op", list_operators())
def test_the_text_is_as_recorded(op: str) -> None:
    assert op in read_recorded(), (
        "not recorded: run python -m tests.unit.export_onnx.test_translations"
    )
    assert list_differences(op) == []


def test_every_operator_has_a_text_that_is_no_refusal() -> None:
    refused = [
        op
        for op, rows in read_recorded().items()
        if all(text.startswith("refused") for _, text in rows)
    ]
    assert refused == []


def test_a_changed_translation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(t: Translation) -> str:
        return t.emit("Softmax", t.inputs[0], axis=0)

    monkeypatch.setattr(TRANSLATIONS, "registered", {})
    register_translation(Translator("softmax", wrong))
    assert list_differences("softmax")
    assert list_differences("log_softmax") == []


@pytest.mark.parametrize(
    ("text", "difference"),
    [
        ("%1 = Add(in0, float32[](0.5)) axis=1", ""),
        ("%1 = Add(in0, float32[](0.5002)) axis=1", ""),
        ("%1 = Add(in0, float32[](0.51)) axis=1", "instead of"),
        ("%1 = Add(in0, float32[](0.5)) axis=2", "instead of"),
        ("%1 = Add(in0, float64[](0.5)) axis=1", "instead of"),
        ("%1 = Sub(in0, float32[](0.5)) axis=1", "instead of"),
        ("%1 = Add(in0, float32[](0.5)) axis=1\n-> %1", "2 lines instead of 1"),
    ],
)
def test_texts_differ_in_numbers_by_more_than_rounding(text: str, difference: str) -> None:
    found = find_difference(text, "%1 = Add(in0, float32[](0.5)) axis=1")
    assert difference in found
    assert bool(found) == bool(difference)


def test_elements_of_a_long_constant_that_change_places_are_noticed() -> None:
    numbers = np.arange(1000.0)
    texts = [describe_constant(np.concatenate([numbers[:i], [500], numbers[i:]])) for i in (5, 700)]
    assert find_difference(*texts)
    assert (
        find_difference(describe_constant(numbers * (1 + 1e-7)), describe_constant(numbers)) == ""
    )
    texts = [
        describe_constant(np.concatenate([np.zeros(i, int), [1], np.zeros(99 - i, int)]))
        for i in (5, 7)
    ]
    assert find_difference(*texts)


def test_a_text_that_onnxruntime_disproves_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TRANSLATIONS, "registered", {})
    (question, *_) = choose_first("tanh")
    assert prove(question) == answer(question)
    register_translation(Translator("tanh", lambda t: t.emit("Sigmoid", t.inputs[0])))
    with pytest.raises(AssertionError, match=r"output 0: .* elements differ"):
        prove(question)


def list_differences(op: str) -> list[str]:
    """Return the questions of an operator whose text is another than the recorded one, with the difference."""
    compared = [
        (question, find_difference(answer(question), text))
        for question, text in read_recorded().get(op, [])
    ]
    return [
        f"{question.to_json()}: {difference}" for question, difference in compared if difference
    ]


def _write() -> int:
    asked = [(op, question) for op in list_operators() for question in list_questions(op)]
    rows: dict[str, list[tuple[dict[str, Any], str]]] = {}
    wrong = 0
    with ProcessPoolExecutor(2) as pool:
        for (op, question), text in zip(
            asked, pool.map(_try, (question for _, question in asked), chunksize=20), strict=True
        ):
            if text.startswith("wrong: "):
                wrong += 1
                print(f"{op} {question.to_json()}: {text}")
                continue
            rows.setdefault(op, []).append((question.to_json(), text))
    with gzip.GzipFile(RECORDED, "wb", mtime=0) as file:
        file.write(json.dumps(rows, indent=0).encode())
    print(
        f"{sum(map(len, rows.values()))} texts of {len(rows)} operators written, {wrong} are wrong"
    )
    return 1 if wrong else 0


def _try(question: Question) -> str:
    try:
        return prove(question)
    except Exception as error:
        return f"wrong: {type(error).__name__}: {str(error)[:300]}"


if __name__ == "__main__":
    sys.exit(_write())
