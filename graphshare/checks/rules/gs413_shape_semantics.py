"""GS413: graph and parameter file of different shape semantics."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, ExampleRecord, Found, Rule
from graphshare.checks.rules.gs401_params_unreadable import DENSE
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """The first record that cannot be loaded together with the graph."""
    if not subject.sound or subject.params is None or subject.params.format != "params":
        return
    value = subject.graph.attrs.get("is_np_shape")
    np_shape = isinstance(value, (list, tuple)) and len(value) == 2 and value[1] == 1
    wrong = [held for held in subject.records if (held.record.layout == "V3") != np_shape]
    if wrong:
        says = "has np-shape on" if np_shape else "has np-shape off"
        of = (
            "a V3 record, which MXNet loads with np-shape on only"
            if not np_shape
            else f"a {wrong[0].record.layout} record, not V3"
        )
        count = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        hint = "graphshare params convert, with or without --np-shape"
        yield Found(f"is {of}, and the graph {says}{count}", record=wrong[0].place, hint=hint)


RULE = Rule(
    code="GS413",
    name="shape-semantics",
    level=Level.WARNING,
    summary="Graph and parameter file were saved under different shape semantics",
    why="MXNet refuses V3 records with np-shape off, and V2 records with np-shape on.",
    find=find,
    fails=Example(dense().replace('{"mxnet_version"', '{"is_np_shape": ["int", 1], "mxnet_version"'), DENSE),
    passes=Example(dense(), (DENSE[0], ExampleRecord("arg:fc_bias", (2,)))),
)
