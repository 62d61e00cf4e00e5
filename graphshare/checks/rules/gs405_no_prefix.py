"""GS405: keys without ``arg:`` and ``aux:``."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, ExampleRecord, Found, Rule
from graphshare.checks.rules.gs401_params_unreadable import DENSE
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """The first such key, with how many there are."""
    bare = [held for held in subject.records if not held.kind]
    if bare and subject.params is not None and subject.params.format == "params":
        what = "all keys have" if len(bare) == len(subject.records) else f"{len(bare)} of {len(subject.records)} keys have"
        hint = "save with arg: and aux: (Gluon: net.export)"
        yield Found(f"{what} neither arg: nor aux:, {bare[0].record.key!r} first", hint=hint, record=bare[0].place)


RULE = Rule(
    code="GS405",
    name="no-prefix",
    level=Level.WARNING,
    summary="Keys of the parameter file have neither arg: nor aux:",
    why="load_checkpoint fails on them (not enough values to unpack); SymbolBlock.imports takes them.",
    find=find,
    fails=Example(dense(), (ExampleRecord("fc_weight", (2, 3)), ExampleRecord("fc_bias", (2,)))),
    passes=Example(dense(), DENSE),
)
