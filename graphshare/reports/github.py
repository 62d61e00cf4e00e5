"""Write a report as workflow commands: GitHub shows each as an annotation of its line."""

from __future__ import annotations

from graphshare.reports.model import Finding, FindingsReport, Level
from graphshare.text.format import escape_control, escape_surrogates

_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}


def render(report: FindingsReport) -> str:
    """Return a line for each finding, and one for the whole run."""
    lines = [_format_annotation(finding) for finding in report.findings]
    lines.append(f"graphshare {report.command}: {report.summary()}")
    return "".join(f"{line}\n" for line in lines)


def _format_annotation(finding: Finding) -> str:
    properties = {"file": finding.where}
    if finding.line:
        properties |= {"line": str(finding.line), "col": str(finding.column)}
    properties["title"] = finding.code
    lines = [finding.message]
    at = " ".join(part for part in (finding.path, f'(node "{finding.node}")' if finding.node is not None else "") if part)
    lines += [f"at {at}"] if at else []
    lines += [f"hint: {finding.hint}"] if finding.hint else []
    settings = ",".join(f"{key}={escape_property(value)}" for key, value in properties.items())
    return f"::{_COMMANDS[finding.level]} {settings}::{escape_message(chr(10).join(lines))}"


def escape_message(text: str) -> str:
    """Return ``text`` as the message of a workflow command: one line, control characters escaped."""
    escaped = escape_control(escape_surrogates(text), keep="\r\n")
    return escaped.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """Return ``text`` as the value of a workflow command's property, where colons and commas are escaped too."""
    return escape_message(text).replace(":", "%3A").replace(",", "%2C")
