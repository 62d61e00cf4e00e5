"""Write a report as SARIF 2.1.0 for code scanning services and editors."""

from __future__ import annotations

import hashlib
import os
from urllib.parse import quote

import msgspec

from graphshare.reports.model import Finding, FindingsReport, RuleInfo
from graphshare.text.format import escape_surrogates
from graphshare.text.urls import is_url

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def render(report: FindingsReport) -> str:
    """Return the report as JSON text."""
    encoded = msgspec.json.encode(make_document(report))
    return msgspec.json.format(encoded, indent=2).decode("utf-8") + "\n"


def make_document(report: FindingsReport) -> dict[str, object]:
    """Return the report as a SARIF log of one run."""
    rules = list(report.rules)
    known = {rule.code for rule in rules}
    for finding in report.findings:  # every result refers to a rule
        if finding.code not in known:
            known.add(finding.code)
            rules.append(RuleInfo(finding.code, finding.code, finding.level, finding.code))
    places = {rule.code: i for i, rule in enumerate(rules)}
    driver = {
        "name": "graphshare",
        **(
            {"version": report.tool_version, "semanticVersion": report.tool_version}
            if report.tool_version
            else {}
        ),
        "rules": [_describe_rule(rule) for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        # The run itself came to its end; findings do not make it fail.
        "invocations": [
            {"executionSuccessful": not report.unchecked, **_describe_unchecked(report)}
        ],
        "artifacts": [{"location": {"uri": _format_uri(file)}} for file in report.files],
        # Finding counts columns in characters, not in units of UTF-16.
        "columnKind": "unicodeCodePoints",
        "results": [_describe_result(finding, places[finding.code]) for finding in report.findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _describe_unchecked(report: FindingsReport) -> dict[str, object]:
    notifications = [
        {
            "level": "error",
            "message": {"text": reason},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": _format_uri(file)}}}],
        }
        for file, reason in report.unchecked.items()
    ]
    return {"toolExecutionNotifications": notifications} if notifications else {}


def _describe_rule(rule: RuleInfo) -> dict[str, object]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "help": {"text": rule.help or rule.summary},
        "defaultConfiguration": {"level": rule.level.value},
    }


def _describe_result(finding: Finding, rule: int) -> dict[str, object]:
    physical: dict[str, object] = {"artifactLocation": {"uri": _format_uri(finding.where)}}
    if finding.line:
        physical["region"] = {"startLine": finding.line, "startColumn": finding.column}
    location: dict[str, object] = {"physicalLocation": physical}
    logical: dict[str, object] = (
        {"fullyQualifiedName": escape_surrogates(finding.path)} if finding.path else {}
    )
    if finding.node is not None:
        logical["name"] = escape_surrogates(finding.node)
    if logical:
        location["logicalLocations"] = [logical]
    text = escape_surrogates(finding.message) + (
        f"\nHint: {escape_surrogates(finding.hint)}" if finding.hint else ""
    )
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.level.value,
        "message": {"text": text},
        "locations": [location],
        "partialFingerprints": {"graphshare/v1": _hash_finding(finding)},
    }


def _hash_finding(finding: Finding) -> str:
    """Return a fingerprint that does not change when lines move: the hash of code, file, node and
    message.
    """
    # The path is left out: its indices change when a node is inserted before it.
    parts = (finding.code, finding.where, finding.node or "", finding.message)
    return hashlib.sha256("\0".join(map(escape_surrogates, parts)).encode()).hexdigest()[:32]


def _format_uri(path: str) -> str:
    """Return a path as a relative reference, or as a file URI if it is absolute; a URL is only
    escaped.
    """
    if is_url(path):
        return quote(path.encode("utf-8", "surrogateescape"), safe=":/?")
    text = quote(path.replace(os.sep, "/").encode("utf-8", "surrogateescape"), safe="/")
    if os.path.isabs(path):
        return f"file://{'' if text.startswith('/') else '/'}{text}"
    return text
