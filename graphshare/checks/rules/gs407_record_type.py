"""GS407: the type of a record is not what the graph asks for."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, ExampleRecord, Found, Rule
from graphshare.checks.rules.gs401_params_unreadable import DENSE
from graphshare.checks.subject import Subject
from graphshare.errors import Fault
from graphshare.reports.model import Level

_FLAGS = {"0": "float32", "1": "float64", "2": "float16", "3": "uint8", "4": "int32", "5": "int8", "6": "int64", "7": "bool",
          "12": "bfloat16"}  # fmt: skip


def find(subject: Subject) -> Iterator[Found]:
    """Each record that contradicts its variable's ``__dtype__``, and the first operator whose inputs do not go together."""
    if subject.params is None or not subject.inferable:
        return
    for variable, held in subject.shapes.records.items():
        declared = _FLAGS.get(variable.attrs.get("__dtype__", ""))
        if declared is not None and declared != held.record.dtype:
            message = f"is {held.record.dtype}, but its variable says {declared} (__dtype__)"
            yield Found(message, record=held.place, hint="convert the array or correct __dtype__", name=variable.name)
    found, shapes = subject.shapes.with_types, subject.shapes.with_shapes
    if isinstance(found, Fault) and not isinstance(shapes, Fault):
        node = subject.shapes.original(found.node)
        yield Found(found.message, subject.steps_of(node), node, hint="convert the arrays to one type", name=found.node)


RULE = Rule(
    code="GS407",
    name="record-type",
    level=Level.ERROR,
    summary="The types of parameters do not go together, or not with what the graph declares",
    why="MXNet's type inference refuses them.",
    find=find,
    fails=Example(dense(), (DENSE[0], ExampleRecord("arg:fc_bias", (2,), "float16"))),
    passes=Example(dense(), DENSE),
)
