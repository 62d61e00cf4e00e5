"""GS412: bytes after the last name of a parameter file, or a header that MXNet does not write."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, ExampleRecord, Found, Rule
from graphshare.checks.rules.gs401_params_unreadable import DENSE
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level
from graphshare.text.format import format_count


def find(subject: Subject) -> Iterator[Found]:
    """What is there and means nothing."""
    file = subject.params
    if file is None:
        return
    if file.trailing:
        yield Found(
            f"has {format_count(file.trailing, 'byte')} after the last name",
            record="",
            hint="graphshare params convert drops them",
        )
    if file.reserved:
        yield Found(f"has {file.reserved:#x} in the reserved word of its header, where MXNet writes 0", record="")
    for held in subject.records:
        if held.record.key is not None and any("\udc80" <= c <= "\udcff" or c == "\0" for c in held.record.key):
            message = "has a name with bytes that are not UTF-8" if "\0" not in held.record.key else "has a name with a NUL"
            yield Found(message, record=held.place, hint="mx.nd.load cannot decode it, or cuts it short")


RULE = Rule(
    code="GS412",
    name="stray-bytes",
    level=Level.WARNING,
    summary="The parameter file holds bytes that MXNet does not write",
    why="MXNet ignores them or fails to decode a name; they are the trace of damage or of another program.",
    find=find,
    fails=Example(dense(), (*DENSE, ExampleRecord("arg:\0", (2,)))),
    passes=Example(dense(), DENSE),
)
