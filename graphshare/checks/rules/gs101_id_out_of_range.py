"""GS101: an id that refers to no node."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import dense
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level, parse_path


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield every such id of inputs, control dependencies, heads and ``arg_nodes``."""
    for fault in (*context.reading.id_faults, *context.reading.missing_arguments):
        yield Violation(fault.message, parse_path(fault.path) or (), hint=fault.hint, name=fault.node)


RULE = CheckRule(
    code="GS101",
    name="id-out-of-range",
    level=Level.ERROR,
    summary="An id refers to a node that does not exist",
    why="MXNet refuses the file with a bare Check failed: e.node_id < jgraph.nodes.size().",
    find=find,
    fails=Example(dense().replace('"heads": [[3,', '"heads": [[9,')),
    passes=Example(dense()),
)
