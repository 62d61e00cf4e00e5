"""The answer of ``verify``: its branches with their stages, the verdict in one line, and findings for the report formats."""

from __future__ import annotations

import msgspec

from graphshare.formats.params.lookup import How
from graphshare.reports.model import Finding, Level, RuleInfo
from graphshare.reports.model import Report as Findings
from graphshare.text.format import format_count
from graphshare.text.html import Table, format_html
from graphshare.text.short_repr import ShortRepr
from graphshare.verification.compare import EngineComparison, Tolerance, Values
from graphshare.verification.stages import Stage
from graphshare.verification.training import Training

_RULES = {
    stage: RuleInfo(f"verify-{stage}", f"verify-{stage}", Level.ERROR, summary)
    for stage, summary in (
        ("structure", "The branches are not one graph but for names"),
        ("parameters", "Parameters of the branches are neither tied nor equal"),
        ("values", "Equal inputs give different outputs"),
        ("layers", "Inner outputs depart"),
        ("engines", "Engines give different outputs"),
        ("training", "A step of training takes the branches apart"),
        ("verdict", "The branches are not proved to be equal"),
    )
}


class ParameterResult(msgspec.Struct, frozen=True):
    """A parameter of the reference and its twin, by name; ``how`` they compare, and what differs in words."""

    reference: str
    parameter: str
    how: How
    detail: str = ""


class BranchReport(ShortRepr, msgspec.Struct, frozen=True):
    """What was found of one branch beside the reference; ``rounds`` has the values of each run, ``training`` the step's.

    Each engine has rounds of its own; ``engines`` compares the outputs of all with those of the first. ``tolerance`` is
    the rule by which values were compared, None where they were not.
    """

    reference: str
    branch: str
    stages: tuple[Stage, ...]
    rounds: tuple[Values, ...] = ()
    training: Training | None = None
    parameters: tuple[ParameterResult, ...] = ()
    engines: tuple[EngineComparison, ...] = ()
    tolerance: Tolerance | None = None

    def __bool__(self) -> bool:
        return bool(self.stages) and all(stage.verdict != "fails" for stage in self.stages)


class Report(ShortRepr, msgspec.Struct, frozen=True):
    """All branches. A report without comparisons is a failure."""

    branches: tuple[BranchReport, ...]
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.branches) and all(self.branches)

    @property
    def verdict(self) -> str:
        """One line."""
        if not self.branches:
            return "NOT VERIFIED: nothing was compared"
        names = ", ".join(report.branch or "(original)" for report in self.branches)
        if not self:
            failed = [(s.name, b.branch) for b in self.branches for s in b.stages if s.verdict == "fails"]
            if all(b.training for b in self.branches if ("training", b.branch) in failed) and {n for n, _ in failed} == {
                "training"
            }:
                fate = "will drift" if any(b.training and b.training.drifting for b in self.branches) else "has copies"
                return f"NOT TIED: {', '.join(branch for _, branch in failed)} {fate}"
            return f"NOT EQUAL: {', '.join(f'{name} of {branch}' for name, branch in failed)}"
        skipped = sorted({s.name for b in self.branches for s in b.stages if s.verdict == "skipped"})
        outputs = [o for b in self.branches for r in b.rounds for o in r.outputs]
        identical = all(o.comparison.identical for o in outputs)
        how = "values not compared" if not outputs else "bit for bit" if identical else "within the tolerance"
        without = "; parameters not compared" if "parameters" in skipped else ""
        return f"EQUAL: {names} and {self.branches[0].reference or 'the original'}, {how}{without}{self._fate()}"

    def _repr_html_(self) -> str:
        """Return the stages of each branch as a table, which notebooks show."""
        rows = [(b.branch or "(original)", s.name, s.verdict, s.summary) for b in self.branches for s in b.stages]
        table = Table(("branch", "stage", "verdict", "what was found"), rows)
        return format_html(self.verdict, facts=[("note", note) for note in self.notes], tables=[table])

    def _fate(self) -> str:
        """What training makes of them, where that was asked."""
        trained = [branch.training for branch in self.branches if branch.training is not None]
        if not trained:
            return ""
        drifting = sum(len(training.drifting) for training in trained)
        if drifting:
            return f"; copied: {format_count(drifting, 'parameter')} will drift"
        tied = all(training.is_tied for training in trained)
        return "; tied: they train as one" if tied else "; copied, though this step did not move them apart"


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
