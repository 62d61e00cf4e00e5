"""What ``verify`` found, for the report formats: a finding for each stage that fails."""

from __future__ import annotations

from graphshare.reports.model import Finding, Level, RuleInfo
from graphshare.reports.model import Report as Findings
from graphshare.verification.verdict import Report

_RULES = {
    stage: RuleInfo(f"verify-{stage}", f"verify-{stage}", Level.ERROR, summary)
    for stage, summary in (
        ("structure", "The branches are not one graph but for names"),
        ("parameters", "Parameters of the branches are neither tied nor equal"),
        ("values", "Equal inputs give different outputs"),
        ("verdict", "The branches are not proved to be equal"),
    )
}


def report_of(report: Report, where: str) -> Findings:
    """The report of the proof for the graph file ``where``, the verdict last."""
    findings = [
        _finding(stage.name, f"{stage.name} of {branch.branch}: {stage.summary}", stage.details, where)
        for branch in report.branches
        for stage in branch.stages
        if stage.verdict == "fails"
    ]
    # Where all holds, that is what a job wants to see: a note, which fails nothing.
    findings.append(_finding("verdict", report.verdict, (), where, Level.NOTE if report else Level.ERROR))
    return Findings(command="verify", files=(where,), findings=tuple(findings), rules=tuple(_RULES.values()))


def _finding(stage: str, summary: str, details: tuple[str, ...], where: str, level: Level = Level.ERROR) -> Finding:
    rule = _RULES[stage]
    message = "\n".join((summary, *details))
    return Finding(code=rule.code, level=level, message=message, where=where)
