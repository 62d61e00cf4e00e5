"""The report as JUnit XML: a suite for each file, a failed case for each finding, one passed case for a clean file.

Notes are no failures; they stand in the suite's ``system-out``. File and line stand in a case's class name and text: the schema
that readers hold reports against has no attributes for them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from graphshare.reports.model import Finding, Level, Report

# What XML 1.0 cannot hold, in whatever spelling.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report) -> str:
    """The report as an XML document."""
    by_file: dict[str, list[Finding]] = {file: [] for file in report.files}
    for finding in report.findings:
        by_file.setdefault(finding.where, []).append(finding)
    suites = [_suite(report.command, file, found) for file, found in by_file.items()]
    tests, failures = sum(suite[0] for suite in suites), sum(suite[1] for suite in suites)
    head = f'<testsuites name="graphshare {report.command}" tests="{tests}" failures="{failures}" errors="0">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *(text for _, _, text in suites), "</testsuites>", ""])


def _suite(command: str, file: str, findings: Sequence[Finding]) -> tuple[int, int, str]:
    """How many cases a file has, how many of them failed, and the suite's text."""
    failed = [finding for finding in findings if finding.level is not Level.NOTE]
    notes = [finding for finding in findings if finding.level is Level.NOTE]
    cases = [_case(file, finding) for finding in failed]
    if not failed:
        cases = [f"    <testcase classname={_attribute(file)} name={_attribute(command)}/>"]
    head = f'  <testsuite name={_attribute(file)} tests="{len(cases)}" failures="{len(failed)}" errors="0" skipped="0">'
    lines = [head, *cases]
    if notes:
        lines.append(f"    <system-out>{_content(chr(10).join(_told(note) for note in notes))}</system-out>")
    return len(cases), len(failed), "\n".join([*lines, "  </testsuite>"])


def _case(file: str, finding: Finding) -> str:
    name = " ".join(part for part in (finding.code, finding.path or finding.node or "") if part)
    return (
        f"    <testcase classname={_attribute(file)} name={_attribute(name)}>\n"
        f"      <failure type={_attribute(finding.level.value)} message={_attribute(finding.message)}>"
        f"{_content(_told(finding))}</failure>\n"
        "    </testcase>"
    )


def _told(finding: Finding) -> str:
    lines = [f"{finding.place}: {finding.level.value} {finding.code} {finding.message}"]
    lines += [f"at {finding.path}"] if finding.path else []
    lines += [f"hint: {finding.hint}"] if finding.hint else []
    return "\n".join(lines)


def _attribute(text: str) -> str:
    return quoteattr(_legal(text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _content(text: str) -> str:
    return escape(_legal(text), {"\r": "&#13;"})


def _legal(text: str) -> str:
    return _FORBIDDEN.sub(lambda match: repr(match[0])[1:-1], text)
