"""Convert the differences of a proof to faults, and to findings for report formats."""

from __future__ import annotations

from graphshare.errors import Fault
from graphshare.reports.model import Finding, FindingsReport, Level, RuleInfo
from graphshare.verification.report import Report

_RULES = {
    stage: RuleInfo(f"verify-{stage}", f"verify-{stage}", Level.ERROR, summary)
    for stage, summary in (
        ("structure", "The branches differ in more than names"),
        ("outputs", "One of two models lacks outputs of the other"),
        ("parameters", "Parameters of the branches are neither tied nor equal"),
        ("values", "Equal inputs give different outputs"),
        ("regions", "A part of the other model departs on the values of the original"),
        ("weights", "The weights of both models are not equal, rounding apart"),
        ("changes", "The differences between the models changed no value"),
        ("layers", "Inner outputs depart"),
        ("exact", "The models are not exact for every input"),
        ("samples", "Parts of the models are equal on samples alone"),
        ("engines", "Engines give different outputs"),
        ("training", "Branches diverge after one training step"),
        ("verdict", "The branches are not proved to be equal"),
    )
}


def list_failures(report: Report) -> list[Fault]:
    """Return the differences of a report as faults."""
    faults: list[Fault] = []
    for branch, stage in report.list_stages("fails", "unknown"):
        place = f"{stage.name} of {branch.branch}"
        faults += [Fault(f"{place}: {detail}") for detail in stage.details or (stage.summary,)]
    return faults or [Fault(report.verdict)]


def make_report(report: Report, where: str, command: str = "verify") -> FindingsReport:
    """Return the report of the proof for the graph file ``where``, the verdict last."""

    def make_finding(stage: str, message: str, level: Level = Level.ERROR) -> Finding:
        return Finding(code=_RULES[stage].code, level=level, message=message, where=where)

    findings: list[Finding] = []
    for branch in report.branches:
        for stage in branch.stages:
            if stage.verdict in ("fails", "unknown"):
                first = f"{stage.name} of {branch.branch}: {stage.summary}"
                findings.append(make_finding(stage.name, "\n".join((first, *stage.details))))
    findings.append(make_finding("verdict", report.verdict, Level.NOTE if report else Level.ERROR))
    return FindingsReport(
        command=command, files=(where,), findings=tuple(findings), rules=tuple(_RULES.values())
    )
