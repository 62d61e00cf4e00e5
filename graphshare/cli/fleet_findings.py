"""One report over all models for the formats of findings: what check, verify and diff report, and which models have failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from graphshare.fleet.records import Result
from graphshare.reports.model import Finding, FindingsReport, Level, RuleInfo

_FAILED = RuleInfo("foreach-failed", "foreach-failed", Level.ERROR, "The command could not be run for a model")
_NO = RuleInfo("foreach-no", "foreach-no", Level.ERROR, "The answer for a model is no")


class _Finding(msgspec.Struct):
    """A finding in the report of ``check``."""

    code: str
    level: Level
    message: str
    file: str
    path: str
    node: str | None
    line: int | None
    column: int | None
    hint: str


class _Stage(msgspec.Struct):
    """A stage in the report of ``verify``."""

    name: str
    verdict: str
    summary: str
    details: tuple[str, ...] = ()


class _Branch(msgspec.Struct):
    branch: str
    stages: tuple[_Stage, ...] = ()


class _Report(msgspec.Struct):
    """What is read of the report of any command."""

    verdict: str | None = None
    findings: tuple[_Finding, ...] = ()
    branches: tuple[_Branch, ...] = ()


def collect_findings(command: str, results: Iterable[Result]) -> FindingsReport:
    """Return the findings of all models; ``command`` is its name."""
    files: list[str] = []
    findings: list[Finding] = []
    is_strict = False
    for result in results:
        files.append(result.source)
        of_model = list(_find(command, result))
        findings += of_model
        is_strict |= result.result == "no" and all(finding.level is not Level.ERROR for finding in of_model)
    rules: tuple[RuleInfo, ...] = ()
    if command == "check":
        from graphshare.checks.registry import RULES  # one command needs them

        rules = tuple(rule.info for rule in RULES.values())
    return FindingsReport(
        command=f"foreach {command}",
        files=tuple(files),
        findings=tuple(findings),
        rules=(*rules, _FAILED, _NO),
        strict=is_strict,
    )


def _find(command: str, result: Result) -> Iterator[Finding]:
    where = result.source
    if result.result not in ("done", "no"):
        yield Finding(code=_FAILED.code, level=Level.ERROR, message=result.error or result.result, where=where)
        return
    report = _decode(result.report)
    for found in report.findings:
        yield Finding(
            code=found.code,
            level=found.level,
            message=found.message,
            where=found.file,
            path=found.path,
            node=found.node,
            line=found.line or 0,
            column=found.column or 0,
            hint=found.hint,
        )
    for branch in report.branches:
        for stage in branch.stages:
            if stage.verdict == "fails":
                message = "\n".join((f"{stage.name} of {branch.branch}: {stage.summary}", *stage.details))
                yield Finding(code=f"{command}-{stage.name}", level=Level.ERROR, message=message, where=where)
    if report.verdict or (result.result == "no" and not report.findings):
        code, level = (_NO.code, Level.ERROR) if result.result == "no" else (f"{command}-verdict", Level.NOTE)
        yield Finding(code=code, level=level, message=report.verdict or result.error or "the answer is no", where=where)


def _decode(raw: msgspec.Raw) -> _Report:
    """Return what is known of a report; nothing of one of another form."""
    try:
        return msgspec.json.decode(raw, type=_Report)
    except msgspec.DecodeError:
        return _Report()
