"""The report formats by name: text for people, JSON, GitHub's annotations, JUnit XML and SARIF.

Pieces of text have style names (``error``, ``place``, ``code`` ...); the console chooses their
colours. JSON is described by ``schemas/report.schema.json``. GitHub shows each workflow command as
an annotation of its line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module

import msgspec

from graphshare.reports.model import Finding, FindingsReport, Level
from graphshare.text.format import encode_json, escape_control, escape_surrogates

_GITHUB_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}


def render(report: FindingsReport, format_: str) -> str:
    """Return ``report`` in one of :data:`FORMATS`, ending in a line break."""
    if format_ in _WRITERS:
        return _WRITERS[format_](report)
    # Start-up: few need XML and hashes
    text: str = import_module(f"graphshare.reports.{format_}").render(report)
    return text


def default_format(environment: Mapping[str, str] = os.environ) -> str:
    """Return ``github`` inside GitHub Actions, else ``text``."""
    return "github" if environment.get("GITHUB_ACTIONS") == "true" else "text"


def _render_text(report: FindingsReport) -> str:
    return f"{report.text}\n"


def _render_json(report: FindingsReport) -> str:
    encoded = encode_json(_to_plain(report))
    return msgspec.json.format(encoded, indent=2).decode("utf-8", "backslashreplace") + "\n"


def _to_plain(report: FindingsReport) -> dict[str, object]:
    """Return plain data; unknown places are null."""
    plain: dict[str, object] = {
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
    if report.unchecked:
        plain["unchecked"] = {
            escape_surrogates(file): reason for file, reason in report.unchecked.items()
        }
    return plain


def _render_github(report: FindingsReport) -> str:
    lines = [_format_annotation(finding) for finding in report.findings]
    lines += [
        f"::warning file={escape_property(file)}::{escape_message(reason)}"
        for file, reason in report.unchecked.items()
    ]
    lines.append(f"graphshare {report.command}: {report.summary()}")
    return "".join(f"{line}\n" for line in lines)


def _format_annotation(finding: Finding) -> str:
    properties = {"file": finding.where}
    if finding.line:
        properties |= {"line": str(finding.line), "col": str(finding.column)}
    properties["title"] = finding.code
    lines = [finding.message]
    at = " ".join(
        part
        for part in (finding.path, f'(node "{finding.node}")' if finding.node is not None else "")
        if part
    )
    lines += [f"at {at}"] if at else []
    lines += [f"hint: {finding.hint}"] if finding.hint else []
    settings = ",".join(f"{key}={escape_property(value)}" for key, value in properties.items())
    return f"::{_GITHUB_COMMANDS[finding.level]} {settings}::{escape_message(chr(10).join(lines))}"


def escape_message(text: str) -> str:
    """Return ``text`` as the message of a workflow command: one line, control characters escaped."""
    escaped = escape_control(escape_surrogates(text), keep="\r\n")
    # % comes first, because the escapes begin with it.
    return escaped.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """Return ``text`` as a workflow command's property, with colons and commas escaped too."""
    return escape_message(text).replace(":", "%3A").replace(",", "%2C")


_WRITERS = {"text": _render_text, "json": _render_json, "github": _render_github}
FORMATS = (*_WRITERS, "junit", "sarif")
"""The names of the formats."""
