"""The report of ``diff``: a finding for each node, tie, output and parameter that differs."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.cli.parameter_lines import format_parameter_diff
from graphshare.differences.changes import GraphDiff, NodeRef, format_change, format_node, format_tie
from graphshare.differences.diff import Difference
from graphshare.reports.model import Finding, FindingsReport, Level, RuleInfo

_RULES = {
    what: RuleInfo(f"diff-{what}", f"diff-{what}", Level.ERROR, summary)
    for what, summary in (
        ("removed", "A node of the first graph is not in the second"),
        ("added", "A node of the second graph is not in the first"),
        ("renamed", "A node has another name"),
        ("changed", "A node has other attributes, inputs or outputs"),
        ("tie", "Parameters are shared otherwise"),
        ("graph", "The graphs have other outputs or attributes"),
        ("parameter", "A parameter has another value, shape or type"),
        ("verdict", "Whether anything differs"),
    )
}


def make_diff_report(found: Difference, left: str, right: str) -> FindingsReport:
    """Return the report of a comparison of the files ``left`` and ``right``, the verdict last."""
    findings = [*_graph_findings(found.graph, left, right), *_parameter_findings(found, right)]
    level = Level.ERROR if found else Level.NOTE
    findings.append(Finding(code="diff-verdict", level=level, message=found.verdict, where=right))
    files = tuple(dict.fromkeys((left, right)))
    return FindingsReport(command="diff", files=files, findings=tuple(findings), rules=tuple(_RULES.values()))


def _graph_findings(graph: GraphDiff, left: str, right: str) -> Iterator[Finding]:
    for node in graph.removed:
        yield _finding("removed", f"{format_node(node)} is gone", left, node)
    for node in graph.added:
        yield _finding("added", f"{format_node(node)} is new", right, node)
    for pair in graph.renamed:
        yield _finding("renamed", f"{format_node(pair.old)} is now {pair.new.name}", right, pair.new)
    for changed in graph.changed:
        yield _finding(
            "changed", f"{format_node(changed.new)}: {'; '.join(map(format_change, changed.changes))}", right, changed.new
        )
    for tie in graph.ties:
        yield _finding("tie", f"{tie.how}: {format_tie(tie)}", right)
    for change in (*graph.outputs, *graph.attributes):
        yield _finding("graph", format_change(change), right)


def _parameter_findings(found: Difference, right: str) -> Iterator[Finding]:
    if found.parameters:
        for _, text in [*format_parameter_diff(found.parameters)][:-1]:  # the last line counts them
            yield _finding("parameter", " ".join(text.split()), right)


def _finding(what: str, message: str, where: str, node: NodeRef | None = None) -> Finding:
    path, name = (f"$.nodes[{node.id}]", node.name or None) if node is not None else ("", None)
    return Finding(code=f"diff-{what}", level=Level.ERROR, message=message, where=where, path=path, node=name)
