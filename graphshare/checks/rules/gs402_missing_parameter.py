"""GS402: a parameter that the parameter file does not contain."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import DENSE_RECORDS, dense
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level
from graphshare.text.names import did_you_mean


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield each parameter and auxiliary state without a record."""
    if not context.has_graph or context.params is None or not (context.params.named or not context.params.records):
        return
    unused = [name for name in context.records_by_name if name not in context.prefixes]
    for name, node in context.expected_parameters.items():
        if name not in context.records_by_name:
            hint = did_you_mean(name, unused) or "is it the right file?"
            message = f"the parameter file does not contain {name!r}"
            yield Violation(message, context.node_steps(node), node, hint=hint, name=name)


RULE = CheckRule(
    code="GS402",
    name="missing-parameter",
    level=Level.ERROR,
    summary="The parameter file does not contain a parameter of the graph",
    why="Module.set_params and Gluon's SymbolBlock refuse the file: ... is not presented.",
    find=find,
    fails=Example(dense(), DENSE_RECORDS[:1]),
    passes=Example(dense(), DENSE_RECORDS),
)
