"""The report as workflow commands: GitHub shows each as an annotation of its line."""

from __future__ import annotations

from graphshare.reports.model import Finding, Level, Report
from graphshare.text.format import escape_control, escape_surrogates

_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}


def render(report: Report) -> str:
    """A line for each finding, and one for the whole run."""
    lines = [_annotation(finding) for finding in report.findings]
    lines.append(f"graphshare {report.command}: {report.summary()}")
    return "".join(f"{line}\n" for line in lines)


def _annotation(finding: Finding) -> str:
    properties = {"file": finding.where}
    if finding.line:
        properties |= {"line": str(finding.line), "col": str(finding.column)}
    properties["title"] = finding.code
    said = [finding.message]
    at = " ".join(part for part in (finding.path, f'(node "{finding.node}")' if finding.node is not None else "") if part)
    said += [f"at {at}"] if at else []
    said += [f"hint: {finding.hint}"] if finding.hint else []
    told = ",".join(f"{key}={property_text(value)}" for key, value in properties.items())
    return f"::{_COMMANDS[finding.level]} {told}::{message_text(chr(10).join(said))}"


def message_text(text: str) -> str:
    """``text`` as a workflow command's message: one line, control characters spelled out."""
    shown = escape_control(escape_surrogates(text), keep="\r\n")
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def property_text(text: str) -> str:
    """``text`` as the value of a workflow command's property, where colons and commas mean something too."""
    return message_text(text).replace(":", "%3A").replace(",", "%2C")
