"""GS101: an id that refers to no node."""

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense


@check_rule(
    level="error",
    summary="An id refers to a node that does not exist",
    why="MXNet refuses the file with a bare Check failed: e.node_id < jgraph.nodes.size().",
    fails=dense().replace('"heads": [[3,', '"heads": [[9,'),
    passes=dense(),
)
def find(context: CheckContext) -> Violations:
    """Yield the ids of inputs, control dependencies, heads and ``arg_nodes``."""
    for fault in (*context.reading.id_faults, *context.reading.missing_arguments):
        yield Violation.of_fault(fault)
