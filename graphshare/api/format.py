"""``format``: the layout of a graph's file, changed or checked."""

from __future__ import annotations

from graphshare.checkpoint.load import Model, as_checkpoint
from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.formats.model_format import Operation, find_format
from graphshare.ir.graph import Branch, Kept, Rewrite
from graphshare.reports.model import Finding, FindingsReport, Level, RuleInfo
from graphshare.text.markup import quote_shell, write_path

_RULE = RuleInfo(
    "format-layout",
    "format-layout",
    Level.ERROR,
    "The file is not laid out as asked for",
    fixable=True,
)


def format(model: Model, layout: str | None = None) -> Checkpoint:
    """Change the ``layout`` of the graph's file: ``mxnet``, ``compact`` or ``indent:N``; None keeps the file's layout.

    Raises:
        UsageError: there is no such layout.
        RefusedError: the format of the model has no layouts.
    """
    source = as_checkpoint(model)
    format_ = find_format(source.graph)
    graph = format_.demand(format_.layout, Operation.LAYOUT, where=source.where).relayout(
        source.graph, layout
    )
    return follow_rewrite(source, Rewrite(graph, (Branch("", source.graph, Kept(source.graph)),)))


def layout_report(where: str, layout: str, *, changes: bool) -> FindingsReport:
    """Return the result of ``format --check`` as findings for the report formats."""
    path = write_path(where)
    again = quote_shell(
        "graphshare", "format", *(("--layout", layout) if layout else ()), path, "-o", path
    )
    message = (
        f"is not laid out as {layout}" if layout else "does not follow the rules of its own layout"
    )
    finding = Finding(
        code=_RULE.code,
        level=_RULE.level,
        message=message,
        where=where,
        line=1,
        column=1,
        hint=again,
        fixable=True,
    )
    return FindingsReport(
        command="format --check",
        files=(where,),
        findings=(finding,) if changes else (),
        rules=(_RULE,),
    )
