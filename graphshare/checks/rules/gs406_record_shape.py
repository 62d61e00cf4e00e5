"""GS406: the shape of a record is not what the graph asks for."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, ExampleRecord, Found, Rule
from graphshare.checks.rules.gs401_params_unreadable import DENSE
from graphshare.checks.subject import Subject
from graphshare.errors import Fault
from graphshare.reports.model import Level
from graphshare.text.format import format_dims


def find(subject: Subject) -> Iterator[Found]:
    """Each record that contradicts what follows from the graph alone."""
    if subject.params is None or not subject.inferable:
        return
    alone = subject.shapes.alone
    if alone is None or isinstance(alone, Fault):
        return
    for node, held in subject.shapes.records.items():
        wanted, shape = alone.shapes[node][0], held.record.shape
        if wanted is None or shape is None:
            continue
        if len(wanted) != len(shape) or any(a is not None and a != b for a, b in zip(wanted, shape, strict=True)):
            hint = "the file is of another version of the graph"
            yield Found(
                f"is {format_dims(shape)}, but the graph asks for {format_dims(wanted)}",
                hint=hint,
                record=held.place,
                name=node.name,
            )


RULE = Rule(
    code="GS406",
    name="record-shape",
    level=Level.ERROR,
    summary="A parameter has another shape than the graph asks for",
    why="Module refuses it (expected ..., got ...).",
    find=find,
    fails=Example(dense(), (DENSE[0], ExampleRecord("arg:fc_bias", (3,)))),
    passes=Example(dense(), DENSE),
)
