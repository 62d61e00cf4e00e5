"""GS105: an output that its node has not."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.ir.graph import Entry, Node
from graphshare.reports.model import Level
from graphshare.text.format import format_count


def find(subject: Subject) -> Iterator[Found]:
    """Every input and head with such an index."""
    for steps, graph in subject.graphs:
        for i, node in enumerate(graph.nodes):
            for k, entry in enumerate(node.inputs):
                if entry.index and (message := _fault(subject, entry)):
                    yield Found(message, (*steps, "nodes", i, "inputs", k), node, hint=_HINT)
        for k, entry in enumerate(graph.heads):
            if entry.index and (message := _fault(subject, entry)):
                yield Found(message, (*steps, "heads", k), hint=_HINT)


_HINT = "outputs count from 0"


def _fault(subject: Subject, entry: Entry) -> str:
    count = _count(subject, entry.node)
    if count is None or entry.index < count:
        return ""
    return f"takes output {entry.index} of {entry.node.name!r} ({entry.node.op}), which has {format_count(count, 'output')}"


def _count(subject: Subject, node: Node) -> int | None:
    """How many outputs a node has, hidden ones included; the file's own count counts too, since builds differ."""
    if node.is_variable:
        return 1
    outputs = subject.facts(node).outputs
    return max(outputs.total, 1) if outputs is not None else node.num_outputs


RULE = Rule(
    code="GS105",
    name="output-index",
    level=Level.ERROR,
    summary="An input or a head takes an output that its node does not have",
    why="MXNet does not look at the index while loading; later calls read memory that is not theirs.",
    find=find,
    fails=Example(dense().replace('"heads": [[3, 0, 0]]', '"heads": [[3, 1, 0]]')),
    passes=Example(dense()),
)
