"""GS109: ``node_row_ptr`` that does not count the outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.ir.graph import Node
from graphshare.ops.registry import canonical
from graphshare.reports.model import Level

# How many outputs these have depends on the build (oneDNN keeps a workspace), so both counts are right.
_BUILD_DEPENDENT = frozenset(("Pooling", "_contrib_quantized_pooling", "LRN"))


def find(subject: Subject) -> Iterator[Found]:
    """The list of each graph that is no running sum, or the first node that it counts wrongly."""
    graphs = dict(subject.graphs)
    for steps, document in subject.documents:
        sums: Sequence[int] | None = document.get("node_row_ptr")
        graph = graphs.get(steps)
        if sums is not None and graph is not None:
            message = _fault(subject, sums, graph.nodes)
            if message:
                hint = "leave it out, or count every output, hidden ones too"
                yield Found(f"node_row_ptr {message}", (*steps, "node_row_ptr"), hint=hint)


def _fault(subject: Subject, sums: Sequence[int], nodes: Sequence[Node]) -> str:
    if len(sums) != len(nodes) + 1:
        return f"has {len(sums)} numbers for {len(nodes)} nodes, not {len(nodes) + 1}"
    if sums[0] != 0:
        return f"starts at {sums[0]}, not 0"
    for i, node in enumerate(nodes):
        count = sums[i + 1] - sums[i]
        if count < 0:
            return f"falls at node {i} ({node.name!r})"
        if not _possible(subject, node, count):
            return f"counts {count} outputs of node {i} ({node.op} {node.name!r})"
    return ""


def _possible(subject: Subject, node: Node, count: int) -> bool:
    """Whether an operator can have that many outputs, in one build or another."""
    if node.is_variable:
        return count == 1
    outputs = subject.facts(node).outputs
    if outputs is None:
        return count >= 1
    return count == outputs.total or (canonical(node.op) in _BUILD_DEPENDENT and outputs.visible <= count <= outputs.total + 1)


RULE = Rule(
    code="GS109",
    name="node-row-ptr",
    level=Level.WARNING,
    summary="node_row_ptr is not the running sum of the nodes' output counts",
    why="MXNet does not look at it; tools that do compute with wrong places.",
    find=find,
    fails=Example(dense().replace('"heads"', '"node_row_ptr": [0, 1, 2, 3, 5],\n "heads"')),
    passes=Example(dense().replace('"heads"', '"node_row_ptr": [0, 1, 2, 3, 4],\n "heads"')),
    fix="writes the sum that follows from the nodes, or leaves it out where an operator is not known",
)
