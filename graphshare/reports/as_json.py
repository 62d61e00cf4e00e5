"""The report as JSON, as ``schemas/report.schema.json`` describes it."""

from __future__ import annotations

from typing import Any

import msgspec

from graphshare.reports.model import Level, Report


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
                "message": encodable(finding.message),
                "file": encodable(finding.where),
                "path": encodable(finding.path),
                "node": None if finding.node is None else encodable(finding.node),
                "line": finding.line or None,
                "column": finding.column or None,
                "hint": encodable(finding.hint),
                "fixable": finding.fixable,
            }
            for finding in report.findings
        ],
    }


def encodable(text: str) -> str:
    """``text`` without halves of surrogate pairs, which UTF-8 cannot hold: a file name or a key may have them."""
    return text.encode("utf-8", "backslashreplace").decode()
