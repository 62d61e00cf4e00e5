"""What every operator infers when a part of the shapes and dtypes of its recorded cases is unknown,
or contradicts the rest.

Where a shape or a size is forgotten, whatever is inferred is what the whole shapes give; a label
and some others have several shapes that fit, and of these the operator takes one ("chosen"). How
much is inferred, what is said of a size that is one too large, and what the operator costs, is
recorded: ``python -m tests.kernels.test_partial_shapes`` writes ``partial_shapes.json.gz``.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from graphshare.ops.kernel import KernelError, Shape
from graphshare.ops.registry import canonical, find_kernel, lookup
from graphshare.text.format import format_shape
from tests.kernels.recordings import FAMILIES, cases_of

RECORDED = Path(__file__).with_name("partial_shapes.json.gz")
MANY = 8
"""Cases of an operator that are tried: the first of its attributes and ranks."""

Shapes = list[Shape]


class Question:
    """A recorded case: an operator, its attributes, and the shapes and dtypes of its inputs."""

    def __init__(
        self, op: str, attrs: dict[str, str], inputs: list[tuple[int, ...]], dtypes: list[str]
    ) -> None:
        self.attrs, self.inputs, self.dtypes = attrs, inputs, dtypes
        self.title = f"{json.dumps(attrs, sort_keys=True)} {' '.join(map(format_shape, inputs))}"
        signature, self.kernel = lookup(op), find_kernel(op)
        assert signature is not None
        self.values = signature.parse(attrs)[0]
        outputs = signature.outputs(attrs)
        self.count = outputs.visible if outputs is not None else 1

    def infer(self, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> tuple[Shapes, Shapes]:
        assert self.kernel is not None
        known, results = self.kernel.shapes(self.values, list(inputs), list(outputs))
        return list(known), list(results)

    def list_answers(self) -> list[str]:
        """The answers to all questions; the first to that with every input known."""
        try:
            known, results = self.infer(self.inputs, [None] * self.count)
        except KernelError as error:
            return [f"refused: {error}"]
        answers = [format_answer(known, results)]
        for asked in (self.inputs, results):
            for given in ([None] * self.count, results):
                for i in range(len(asked)):
                    for shape in forget(asked[i]):
                        inputs, outputs = [*self.inputs], [*given]
                        (inputs if asked is self.inputs else outputs)[i] = shape  # type: ignore[call-overload]
                        answers.append(self._ask(inputs, outputs, known, results))
        for i, shape in enumerate(results):
            inputs = [None] * len(self.inputs)
            answers.append(self._ask(inputs, results, known, results))
            for wrong in enlarge(shape):
                answers.append(
                    self._contradict(self.inputs, [*results[:i], wrong, *results[i + 1 :]])
                )
        for i, shape in enumerate(self.inputs):
            for wrong in enlarge(shape):
                answers.append(
                    self._contradict(
                        [*self.inputs[:i], wrong, *self.inputs[i + 1 :]], [None] * self.count
                    )
                )
        return answers

    def list_dtypes(self) -> list[str]:
        """The dtypes that follow from those of the inputs, from each alone, from all others, and with another one."""
        count, answers = len(self.dtypes), [self._infer_dtypes(self.dtypes, [None] * self.count)]
        for i in range(count):
            answers.append(
                self._infer_dtypes(
                    [d if j == i else None for j, d in enumerate(self.dtypes)], [None] * self.count
                )
            )
            for other in (None, "float16", "int32"):
                inputs = [other if j == i else d for j, d in enumerate(self.dtypes)]
                answers.append(self._infer_dtypes(inputs, [None] * self.count))
        for dtype in ("float16", "int64"):
            for i in range(self.count):
                outputs = [dtype if j == i else None for j in range(self.count)]
                answers.append(self._infer_dtypes([None] * count, outputs))
        return answers

    def _infer_dtypes(self, inputs: Sequence[str | None], outputs: Sequence[str | None]) -> str:
        assert self.kernel is not None
        try:
            known, results = self.kernel.types(self.values, list(inputs), list(outputs))
        except KernelError as error:
            return f"refused: {error}"
        return f"{' '.join(map(str, known))} -> {' '.join(map(str, results))}"

    def count_cost(self) -> int | None:
        """The multiply-adds; None where the operator counts none, or a size is unknown."""
        assert self.kernel is not None
        try:
            known, results = self.infer(self.inputs, [None] * self.count)
        except KernelError:
            return None
        if self.kernel.cost is None or any(
            shape is None or None in shape for shape in (*known, *results)
        ):
            return None
        return self.kernel.cost(self.values, known, results)  # type: ignore[arg-type]

    def _ask(
        self, inputs: Sequence[Shape], outputs: Sequence[Shape], known: Shapes, results: Shapes
    ) -> str:
        try:
            found, given = self.infer(inputs, outputs)
        except KernelError as error:
            return f"refused: {error}"
        is_whole = all(map(is_part, (*found, *given), (*known, *results)))
        return ("" if is_whole else "chosen: ") + format_answer(found, given)

    def _contradict(self, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> str:
        try:
            return format_answer(*self.infer(inputs, outputs))
        except KernelError as error:
            return f"refused: {error}"


def forget(shape: Shape) -> Iterator[Shape]:
    """Nothing of a shape, and all but one of its sizes."""
    yield None
    for axis in range(len(shape or ())):
        yield (*(shape or ())[:axis], None, *(shape or ())[axis + 1 :])


def enlarge(shape: Shape) -> Iterator[Shape]:
    """A shape with one size that is one larger, for each of its known sizes, and one with an axis more."""
    for axis, size in enumerate(shape or ()):
        if size is not None:
            yield (*(shape or ())[:axis], size + 1, *(shape or ())[axis + 1 :])
    if shape is not None:
        yield (*shape, 2)


def is_part(found: Shape, whole: Shape) -> bool:
    """Whether a partial shape is the whole one with sizes left out."""
    if found is None or whole is None:
        return True
    return len(found) == len(whole) and all(
        a is None or b is None or a == b for a, b in zip(found, whole, strict=True)
    )


def format_answer(inputs: Shapes, outputs: Shapes) -> str:
    return f"{' '.join(map(format_shape, inputs))} -> {' '.join(map(format_shape, outputs))}"


@cache
def find_questions() -> dict[str, list[Question]]:
    questions: dict[str, dict[tuple[Any, ...], Question]] = {}
    for family in FAMILIES:
        for case in cases_of(family):
            if all(isinstance(each.get("shape"), list) for each in case["inputs"]):
                op = canonical(case["op"])
                inputs = [tuple(each["shape"]) for each in case["inputs"]]
                dtypes = [each.get("dtype", "float32") for each in case["inputs"]]
                key = (*sorted(case.get("attrs", {}).items()), *map(len, inputs))
                mine = questions.setdefault(op, {})
                if len(mine) < MANY and key not in mine:
                    mine[key] = Question(op, case.get("attrs", {}), inputs, dtypes)
    return {op: list(mine.values()) for op, mine in sorted(questions.items())}


CHOOSE = ("SoftmaxOutput", "_npi_average", "pick")
"""Operators with an input of which several shapes fit."""


def list_all(question: Question) -> dict[str, Any]:
    return {
        "shapes": question.list_answers(),
        "dtypes": question.list_dtypes(),
        "cost": question.count_cost(),
    }


def record() -> dict[str, dict[str, Any]]:
    return {
        op: {each.title: list_all(each) for each in mine} for op, mine in find_questions().items()
    }


@cache
def read_recorded() -> dict[str, dict[str, Any]]:
    with gzip.open(RECORDED, "rt", encoding="utf-8") as file:
        answers: dict[str, dict[str, Any]] = json.load(file)
    return answers


@pytest.mark.parametrize("op", find_questions())
def test_what_follows_from_a_part_is_as_recorded(op: str) -> None:
    for question in find_questions()[op]:
        recorded = read_recorded().get(op, {}).get(question.title)
        assert recorded is not None, "not recorded: run python -m tests.kernels.test_partial_shapes"
        found = list_all(question)
        assert found == recorded
        assert op in CHOOSE or not [
            answer for answer in found["shapes"] if answer.startswith("chosen")
        ]


def test_a_part_of_a_shape_is_told_from_another() -> None:
    assert is_part((2, None), (2, 3))
    assert is_part(None, (2,))
    assert not is_part((3, None), (2, 3))
    assert not is_part((2,), (2, 3))


if __name__ == "__main__":
    with gzip.GzipFile(RECORDED, "wb", mtime=0) as file:
        file.write(json.dumps(record(), indent=0).encode())
