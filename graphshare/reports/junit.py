"""Write a report as JUnit XML: a suite for each file, a failed case for each finding, one passed
case for a clean file.

An unchecked file is a skipped case. Findings that do not make the exit code 1 (notes, and warnings
unless the report is strict) are in the suite's ``system-out``. The schema has no attributes for
file and line, so they are in a case's class name and text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from graphshare.reports.model import Finding, FindingsReport
from graphshare.text.format import escape_control

# Characters that XML 1.0 cannot contain, not even as references.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: FindingsReport) -> str:
    """Return the report as an XML document."""
    by_file: dict[str, list[Finding]] = {file: [] for file in report.files}
    for finding in report.findings:
        by_file.setdefault(finding.where, []).append(finding)
    suites = [_format_suite(report, file, findings) for file, findings in by_file.items()]
    tests, failures = sum(suite[0] for suite in suites), sum(suite[1] for suite in suites)
    head = f'<testsuites name="graphshare {report.command}" tests="{tests}" failures="{failures}" errors="0">'
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            head,
            *(text for _, _, text in suites),
            "</testsuites>",
            "",
        ]
    )


def _format_suite(
    report: FindingsReport, file: str, findings: Sequence[Finding]
) -> tuple[int, int, str]:
    failed = [finding for finding in findings if report.is_failure(finding)]
    notes = [finding for finding in findings if not report.is_failure(finding)]
    cases = [_format_case(file, finding) for finding in failed]
    skipped = report.unchecked.get(file, "")
    if skipped:
        case = f"    <testcase classname={_quote(file)} name={_quote(report.command)}>"
        cases.append(f"{case}<skipped message={_quote(skipped)}/></testcase>")
    elif not failed:
        cases = [f"    <testcase classname={_quote(file)} name={_quote(report.command)}/>"]
    counts = (
        f'tests="{len(cases)}" failures="{len(failed)}" errors="0" skipped="{int(bool(skipped))}"'
    )
    head = f"  <testsuite name={_quote(file)} {counts}>"
    lines = [head, *cases]
    if notes:
        lines.append(
            f"    <system-out>{_escape_content(chr(10).join(_format_finding(note) for note in notes))}</system-out>"
        )
    return len(cases), len(failed), "\n".join([*lines, "  </testsuite>"])


def _format_case(file: str, finding: Finding) -> str:
    name = " ".join(part for part in (finding.code, finding.path or finding.node or "") if part)
    return (
        f"    <testcase classname={_quote(file)} name={_quote(name)}>\n"
        f"      <failure type={_quote(finding.level.value)} message={_quote(finding.message)}>"
        f"{_escape_content(_format_finding(finding))}</failure>\n"
        "    </testcase>"
    )


def _format_finding(finding: Finding) -> str:
    lines = [f"{finding.place}: {finding.level.value} {finding.code} {finding.message}"]
    lines += [f"at {finding.path}"] if finding.path else []
    lines += [f"hint: {finding.hint}"] if finding.hint else []
    return "\n".join(map(escape_control, lines))  # a line break in a name must not begin a line


def _quote(text: str) -> str:
    # XML parsers turn bare line breaks and tabs in attributes into blanks.
    return quoteattr(_escape_forbidden(text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _escape_content(text: str) -> str:
    # XML parsers turn a bare \r into a line feed.
    return escape(_escape_forbidden(text), {"\r": "&#13;"})


def _escape_forbidden(text: str) -> str:
    return _FORBIDDEN.sub(lambda match: repr(match[0])[1:-1], text)
