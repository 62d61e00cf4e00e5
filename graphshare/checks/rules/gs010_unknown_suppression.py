"""GS010: a suppression that suppresses nothing, or names no rule."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.checks.suppression import KEY, codes_of, known_code
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Every code that no rule has."""
    for steps, graph in subject.graphs:
        for i, node in enumerate(graph.nodes):
            for code in codes_of(node) if KEY in node.attrs else ():
                if not known_code(code):
                    hint = "codes are listed by `graphshare check --list`"
                    yield Found(f"{KEY} names {code!r}, which is no rule", (*steps, "nodes", i), node, hint=hint)


RULE = Rule(
    code="GS010",
    name="unknown-suppression",
    level=Level.WARNING,
    summary="A node suppresses a rule that does not exist",
    why="The suppression is probably misspelt and does nothing.",
    find=find,
    fails=Example(dense().replace('"num_hidden": "2"', '"__graphshare_ignore__": "GS9999", "num_hidden": "2"')),
    passes=Example(dense().replace('"num_hidden": "2"', '"__graphshare_ignore__": "GS504", "num_hidden": "2"')),
)
