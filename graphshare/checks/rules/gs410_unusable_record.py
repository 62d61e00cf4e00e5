"""GS410: a record that holds no array MXNet can use."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, ExampleRecord, Found, Rule
from graphshare.checks.rules.gs401_params_unreadable import DENSE
from graphshare.checks.subject import Subject
from graphshare.checks.values import unreadable
from graphshare.formats.params.mxnet_index import UNLOADABLE_DTYPES
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each record that was never filled, has a type MXNet does not load, or cannot be decoded."""
    for held in subject.records:
        if held.record.shape is None:
            yield Found("was never filled: it has no array", record=held.place, hint="initialise it before saving")
        elif held.record.dtype in UNLOADABLE_DTYPES:
            message = f"is {held.record.dtype}, which MXNet 1.9.1 does not load"
            yield Found(message, record=held.place, hint="convert the array to another type")
    for place, message in unreadable(subject):
        yield Found(message, record=place, hint="the file is damaged: fetch or save it again")


RULE = Rule(
    code="GS410",
    name="unusable-record",
    level=Level.ERROR,
    summary="A record is empty, damaged, or of a type that MXNet does not load",
    why="It fails when first used (unknown storage type: -1), or the whole file does (Unknown type enum).",
    find=find,
    fails=Example(dense(), (DENSE[0], ExampleRecord("arg:fc_bias", None))),
    passes=Example(dense(), DENSE),
)
