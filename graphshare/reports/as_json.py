"""The report as JSON, as ``schemas/report.schema.json`` describes it."""

from __future__ import annotations

from typing import Any

import msgspec

from graphshare.reports.model import Level, Report
from graphshare.text.format import escape_surrogates


def render(report: Report) -> str:
    """The report as JSON text."""
    encoded = msgspec.json.encode(plain(report))
    return msgspec.json.format(encoded, indent=2).decode("utf-8", "backslashreplace") + "\n"


def plain(report: Report) -> dict[str, Any]:
    """The report as plain data; absent places are left out."""
    return {
        "version": 1,
        "command": report.command,
        "files": list(report.files),
        "counts": {level.value: report.count(level) for level in Level},
        "fixed": report.fixed,
        "known": report.known,
        "suppressed": report.ignored,
        "findings": [
            {
                "code": finding.code,
                "level": finding.level.value,
                "message": escape_surrogates(finding.message),
                "file": escape_surrogates(finding.where),
                "path": escape_surrogates(finding.path),
                "node": None if finding.node is None else escape_surrogates(finding.node),
                "line": finding.line or None,
                "column": finding.column or None,
                "hint": escape_surrogates(finding.hint),
                "fixable": finding.fixable,
            }
            for finding in report.findings
        ],
    }
