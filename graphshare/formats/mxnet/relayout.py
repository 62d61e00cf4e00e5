"""``format``: the same graph in another layout."""

from __future__ import annotations

import re

from graphshare.errors import Fault, UsageError
from graphshare.formats.mxnet.source import restyle
from graphshare.ir.graph import Graph
from graphshare.reports.model import Finding, FindingsReport, Level, RuleInfo

_RULE = RuleInfo("format-layout", "format-layout", Level.ERROR, "The file is not laid out as asked for", fixable=True)

_INDENT = re.compile(r"indent:(\d{1,2})")


def relayout(graph: Graph, layout: str | None) -> Graph:
    """Return ``graph`` to be written as ``mxnet``, ``compact`` or ``indent:N``; None keeps its layout.

    A layout that is asked for starts from its own conventions: plain line ends, a final newline for ``indent:N`` only, and
    strings that MXNet can read.

    Raises:
        UsageError: there is no such layout.
    """
    if layout is None:
        return restyle(graph)
    indent = _INDENT.fullmatch(layout)
    if layout not in ("mxnet", "compact") and indent is None:
        hint = "layouts are mxnet, compact and indent:N, as in indent:2"
        raise UsageError(Fault(f"there is no layout {layout!r}", hint=hint))
    return restyle(
        graph,
        layout="indent" if indent else layout,
        indent=int(indent[1]) if indent else 2,
        newline="\n",
        tail="\n" if indent else "",
        escapes="mxnet",
    )


def layout_report(where: str, layout: str, *, changes: bool) -> FindingsReport:
    """Return the result of ``format --check``, for the report formats."""
    again = f"graphshare format{f' --layout {layout}' if layout else ''} {where} -o {where}"
    message = f"is not laid out as {layout}" if layout else "does not keep the rules of its own layout"
    finding = Finding(
        code=_RULE.code, level=_RULE.level, message=message, where=where, line=1, column=1, hint=again, fixable=True
    )
    return FindingsReport(command="format --check", files=(where,), findings=(finding,) if changes else (), rules=(_RULE,))
