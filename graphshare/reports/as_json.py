"""Write a report as JSON, described by ``schemas/report.schema.json``."""

from __future__ import annotations

import msgspec

from graphshare.reports.model import FindingsReport, Level
from graphshare.text.format import encode_json, escape_surrogates


def render(report: FindingsReport) -> str:
    """Return the report as JSON text."""
    encoded = encode_json(to_plain(report))
    return msgspec.json.format(encoded, indent=2).decode("utf-8", "backslashreplace") + "\n"


def to_plain(report: FindingsReport) -> dict[str, object]:
    """Return the report as plain data; unknown places are null."""
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
