"""Nodes that are translated: recorded cases of their operators, and changes of these in attributes,
shapes and dtypes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from io import BytesIO
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from graphshare.errors import RefusedError
from graphshare.execute.interpreter import run_plan
from graphshare.execute.plan import make_plan
from graphshare.ir.graph import Graph, Node
from graphshare.ops.inference import infer
from graphshare.ops.registry import canonical, lookup
from tests.export.judge import OPSET, graph_of_operator, translate
from tests.gradients import more_cases
from tests.kernels.recordings import FAMILIES, RECORDED, WITH_BODIES, cases_of
from tests.kernels.test_bodies import graph_of
from tests.kernels.unrecorded import UNRECORDED
from tests.unit.export_onnx.further import FURTHER
from tests.unit.export_onnx.translated_text import describe_graph

_DRAWN = {
    "more": [*more_cases.CASES, *more_cases.CHECKED],
    "unrecorded": UNRECORDED,
    "further": FURTHER,
}
STORED, FED, ALL_STORED = "stored", "fed", "all stored"
"""Which inputs are initializers: the parameters, none, or all but the first."""


class Question(NamedTuple):
    """A node: the case that it is, and what of it is changed.

    ``op`` is another operator with the attributes of the case's own. ``shapes`` and ``dtypes`` are
    those of the inputs, whose values are those of the case again and again. ``inputs`` says which
    of them are initializers; ``outputs`` are the first of the operator that are heads of the graph,
    0 for those of the case.
    """

    case: str
    op: str = ""
    attrs: Mapping[str, str | None] = {}
    shapes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    inputs: str = STORED
    outputs: int = 0
    opset: int = OPSET

    def to_json(self) -> dict[str, Any]:
        """Return the case and what differs from it."""
        return {k: v for k, v in self._asdict().items() if v != self._field_defaults.get(k)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Question:
        """Return the question of :meth:`to_json`."""
        shapes = tuple(tuple(shape) for shape in document.get("shapes", ()))
        return cls(**{**document, "shapes": shapes, "dtypes": tuple(document.get("dtypes", ()))})


class Case(NamedTuple):
    """A recorded or drawn case of an operator: its attributes, arrays, and outputs; its subgraphs where it has any."""

    op: str
    attrs: Mapping[str, str]
    arrays: tuple[Any, ...]
    outputs: int
    whole: Mapping[str, Any]


@cache
def list_cases() -> dict[str, list[str]]:
    """Return the names of the cases of each operator."""
    names: dict[str, list[str]] = {}
    for family in (*FAMILIES, *WITH_BODIES):
        for number, case in enumerate(cases_of(family)):
            if not case.get("train"):
                names.setdefault(canonical(case["op"]), []).append(f"{family}-{number}")
    for source, cases in _DRAWN.items():
        for case in cases:
            start = f"{source}-{case['op']}-"
            mine = names.setdefault(canonical(case["op"]), [])
            mine.append(f"{start}{sum(1 for name in mine if name.startswith(start))}")
    return names


@cache
def read_case(name: str) -> Case:
    """Return the case of a name in :func:`list_cases`."""
    source, *op, text = name.split("-")
    number = int(text)
    if source not in _DRAWN:
        case, kept = cases_of(source)[number], _open_recording(source)
        arrays = tuple(kept[f"{number}_in{i}"] for i in range(len(case["inputs"])))
        outputs = next(i for i in count() if f"{number}_out{i}" not in kept)
        return Case(case["op"], case.get("attrs", {}), arrays, outputs, case)
    case = [each for each in _DRAWN[source] if each["op"] == op[0]][number]
    kept = more_cases.drawn([case])
    arrays = tuple(kept[f"0_in{i}"] for i in range(len(case["inputs"])))
    signature = lookup(case["op"])
    assert signature is not None
    listed = signature.outputs(case.get("attrs", {}))
    return Case(case["op"], case.get("attrs", {}), arrays, listed.visible if listed else 1, case)


@cache
def _open_recording(family: str) -> Any:
    """Return the arrays of a family by their names, each of which is read when it is asked for."""
    # From memory: processes that are forked from this one would share the place in an open file.
    return np.load(BytesIO((RECORDED / f"{family}.npz").read_bytes()), allow_pickle=False)


class Built(NamedTuple):
    """The graph of a question, the arrays of its variables, and those that are initializers."""

    graph: Graph
    arrays: dict[Node, Any]
    stored: set[Node]


def build(question: Question) -> Built:
    """Return the graph that a question is about."""
    case = read_case(question.case)
    attrs = {k: v for k, v in {**case.attrs, **question.attrs}.items() if v is not None}
    arrays = case.arrays
    if question.shapes:
        # Inputs beyond those of the case get the values of its last one.
        arrays = tuple(
            np.resize(arrays[min(i, len(arrays) - 1)], shape)
            for i, shape in enumerate(question.shapes)
        )
    if question.dtypes:
        arrays = tuple(map(convert, arrays, question.dtypes))
    outputs = question.outputs or case.outputs
    if "subgraphs" in case.whole:
        graph = graph_of({**case.whole, "attrs": attrs}, outputs)
        values = {node: arrays[int(node.name.removeprefix("in"))] for node in graph.variables()}
        stored: set[Node] = set()
    else:
        graph, values, stored = graph_of_operator(question.op or case.op, attrs, arrays, outputs)
    if question.inputs == ALL_STORED:
        stored = set(list(values)[1:])
    return Built(graph, values, set() if question.inputs == FED else stored)


def convert(array: Any, dtype: str) -> Any:
    """Return an array in another dtype: fractions become integers that are not all 0, of the same
    sign where there is one.
    """
    if array.dtype.name == dtype:
        return array
    if array.dtype.kind == "f" and np.dtype(dtype).kind in "iub":
        fractions = not np.array_equal(array, np.rint(array))
        array = np.clip(np.nan_to_num(np.rint(array * 3) if fractions else array), -100, 100)
        array = np.abs(array) if np.dtype(dtype).kind == "u" else array
    return array.astype(dtype)


def answer(question: Question) -> str:
    """Return the text of the translated graph, or why it is refused."""
    translated = translate(*build(question), opset=question.opset)
    if isinstance(translated, RefusedError):
        return "\n".join(f"refused: {fault.message}" for fault in translated.faults)
    return describe_graph(translated)


def compute(built: Built) -> list[Any]:
    """Return the outputs that the executor computes."""
    arrays = built.arrays
    found = infer(
        built.graph,
        {n: x.shape for n, x in arrays.items()},
        {n: str(x.dtype) for n, x in arrays.items()},
    )
    values = {node: x.copy() for node, x in arrays.items()}
    return list(run_plan(make_plan(built.graph.heads), values, shapes=found.shapes).outputs)
