"""GS109: ``node_row_ptr`` that is not the running sum of output counts."""

from collections.abc import Sequence

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense
from graphshare.ir.graph import Node
from graphshare.ops.registry import canonical
from graphshare.text.format import format_count

# oneDNN keeps a workspace as an output, so the count depends on the build.
_BUILD_DEPENDENT = frozenset(("Pooling", "_contrib_quantized_pooling", "LRN"))


@check_rule(
    level="warning",
    summary="node_row_ptr is not the running sum of the nodes' output counts",
    why="MXNet ignores it; tools that use it find the wrong outputs.",
    fails=dense().replace('"heads"', '"node_row_ptr": [0, 1, 2, 3, 5],\n "heads"'),
    passes=dense().replace('"heads"', '"node_row_ptr": [0, 1, 2, 3, 4],\n "heads"'),
    fix="writes the sum that follows from the nodes, or omits it where an operator is unknown",
)
def find(context: CheckContext) -> Violations:
    """Yield lists that are not running sums or miscount a node's outputs."""
    graphs = dict(context.graphs)
    for steps, document in context.documents:
        sums: Sequence[int] | None = document.get("node_row_ptr")
        graph = graphs.get(steps)
        if sums is not None and graph is not None:
            message = _fault(context, sums, graph.nodes)
            if message:
                hint = "omit it, or count every output, hidden ones too"
                yield Violation(f"node_row_ptr {message}", (*steps, "node_row_ptr"), hint=hint)


def _fault(context: CheckContext, sums: Sequence[int], nodes: Sequence[Node]) -> str:
    if len(sums) != len(nodes) + 1:
        return f"has {format_count(len(sums), 'number')} for {format_count(len(nodes), 'node')}, not {len(nodes) + 1}"
    if sums[0] != 0:
        return f"starts at {sums[0]}, not 0"
    for i, node in enumerate(nodes):
        count = sums[i + 1] - sums[i]
        if count < 0:
            return f"decreases at node {i} ({node.name!r})"
        if not _is_possible(context, node, count):
            return f"counts {format_count(count, 'output')} of node {i} ({node.operator_text} {node.name!r})"
    return ""


def _is_possible(context: CheckContext, node: Node, count: int) -> bool:
    """Whether any build of MXNet has that many outputs."""
    if node.is_variable:
        return count == 1
    outputs = context.facts(node).outputs
    if outputs is None:
        return count >= 1
    return count == outputs.total or (
        canonical(node.op) in _BUILD_DEPENDENT and outputs.visible <= count <= outputs.total + 1
    )
