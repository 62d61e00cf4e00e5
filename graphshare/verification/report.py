"""The report of ``verify`` and ``compare``: branches with their stages, and a one-line verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal

import msgspec

from graphshare.execute.backends.backend import REFERENCE
from graphshare.formats.params.comparison import Comparison
from graphshare.formats.params.lookup import How, ParameterPair
from graphshare.ir.compare import Pairing
from graphshare.ir.graph import VARIABLE_OP
from graphshare.text.format import escape_control, format_count
from graphshare.text.summary import ShortRepr, Table, format_html
from graphshare.verification.comparison import (
    TITLES,
    DtypeTolerance,
    EngineComparison,
    InnerComparison,
    OutputComparison,
    Tolerance,
    Values,
)
from graphshare.verification.region import Operator, RegionReport, merge_rounds, name_end
from graphshare.verification.training import TrainedPair, Training

OTHER_MODEL = TITLES[1]
_LISTED = 20
_FATES = {
    "tied": "tied",
    "drifts": "copied: will drift",
    "stays": "copied, not moved apart by this step",
    "frozen": "copied and frozen",
}
Verdict = Literal["holds", "fails", "unknown", "skipped"]
Outcome = Literal["equal", "not equal", "not proved", "not judged"]
_NOT_PROVED = {"regions", "changes", "exact", "samples"}
"""Stages that can fail although all outputs are equal."""
SHOWS_MORE = ("layers",)
"""Stages that only add information and do not affect the verdict."""


class Stage(msgspec.Struct, frozen=True):
    """The answer of one stage in a line, with details."""

    name: str
    verdict: Verdict
    summary: str
    details: tuple[str, ...] = ()


class ParameterResult(msgspec.Struct, frozen=True):
    """A comparison of a reference's parameter with its counterpart, both by name."""

    reference: str
    parameter: str
    how: How
    detail: str = ""


class BranchReport(ShortRepr, msgspec.Struct, frozen=True):
    """The comparison of one branch with the reference; ``rounds`` has the values of each run.

    Each engine has its own rounds; ``engines`` compares all with the first. ``tolerance`` is the
    rule for comparing values, or None. ``regions`` has, for each run of two different graphs, the
    exact operators and the judged regions; with ``is_exact`` all operators are exact, for every
    input. With ``is_record`` the reference is a record, and inner outputs count as much as outputs.
    """

    reference: str
    branch: str
    stages: tuple[Stage, ...]
    rounds: tuple[Values, ...] = ()
    training: Training | None = None
    parameters: tuple[ParameterResult, ...] = ()
    engines: tuple[EngineComparison, ...] = ()
    tolerance: Tolerance | None = None
    regions: tuple[RegionReport, ...] = ()
    is_exact: bool = False
    is_record: bool = False

    def __bool__(self) -> bool:
        return bool(self.stages) and not self.list_stages("fails", "unknown")

    @property
    def is_weighed(self) -> bool:
        return are_weighed(self.regions)

    @property
    def title(self) -> str:
        """The branch's name in reports."""
        return self.branch or "(original)"

    @property
    def outputs(self) -> tuple[OutputComparison, ...]:
        return tuple(output for values in self.rounds for output in values.outputs)

    def list_stages(self, *verdicts: Verdict) -> list[Stage]:
        """Return stages with these verdicts that affect the branch's verdict."""
        shows_more = () if self.is_record else SHOWS_MORE
        return [
            stage
            for stage in self.stages
            if stage.verdict in verdicts and stage.name not in shows_more
        ]


def are_weighed(reports: Sequence[RegionReport]) -> bool:
    """Return whether weights show everything inexact to be equal for every input."""
    if not any(each.regions or each.defined for each in reports):
        return False
    return all(region.is_weighed for each in reports for region in each.regions)


class Reduction(ShortRepr, msgspec.Struct, frozen=True):
    """The smallest parts that show a difference: files, both sides' operators, a command.

    ``inputs`` has shapes by name, ``verdict`` is about the files.
    """

    files: tuple[str, ...]
    operators: tuple[Operator, ...]
    other_operators: tuple[Operator, ...]
    inputs: Mapping[str, tuple[int, ...]]
    command: str
    verdict: str


class Report(ShortRepr, msgspec.Struct, frozen=True):
    """All branches. Without comparisons it is a failure.

    ``reduced`` is set if a difference was written as files.
    """

    branches: tuple[BranchReport, ...]
    notes: tuple[str, ...] = ()
    reduced: Reduction | None = None

    def __bool__(self) -> bool:
        return bool(self.branches) and all(self.branches)

    @property
    def outcome(self) -> Outcome:
        """The worst outcome of all branches."""
        failed = self._failed
        if not failed:
            return "equal" if self else "not judged"
        if failed == {"changes"} and self.list_stages("unknown"):
            return "not judged"  # values that are not judged show nothing, whatever changed
        return "not proved" if failed <= _NOT_PROVED else "not equal"

    @property
    def rung(self) -> str:
        """The weakest rung of any output."""
        outcome = self.outcome
        if outcome == "not judged":
            return "not judged"
        if outcome == "not equal" or "regions" in self._failed:
            return "differs"
        if outcome == "equal" and all(branch.is_exact for branch in self.branches):
            return "exact"
        if all(branch.is_exact or branch.is_weighed for branch in self.branches):
            return "by weights"
        count = max(len(branch.rounds) for branch in self.branches)
        return f"on {format_count(count, 'input')}" if count else "not judged"

    @property
    def verdict(self) -> str:
        outcome = self.outcome
        if outcome == "equal":
            return self._describe_equality()
        if outcome == "not equal":
            return self._describe_failures()
        if outcome == "not proved":
            return f"NOT PROVED: {self._describe_gap()}"
        reasons = (text for _, stage in self.list_stages("unknown") for text in stage.details)
        reason = next(reasons, "nothing was compared")
        return f"NOT JUDGED: {reason}"

    @property
    def text(self) -> str:
        """The stages and the verdict, as the command prints them."""
        return "\n".join("".join(text for _, text in line) for line in format_report(self))

    def __str__(self) -> str:
        return self.text

    def list_stages(self, *verdicts: Verdict) -> list[tuple[BranchReport, Stage]]:
        """Return stages with these verdicts that affect the outcome, with their branches."""
        return [
            (branch, stage) for branch in self.branches for stage in branch.list_stages(*verdicts)
        ]

    @property
    def _failed(self) -> set[str]:
        return {stage.name for _, stage in self.list_stages("fails")}

    def _describe_equality(self) -> str:
        titles = ", ".join(branch.title for branch in self.branches)
        reference = self.branches[0].reference or "the original"
        compared = f"{titles} and {reference}"
        skipped = {stage.name: stage.details for _, stage in self.list_stages("skipped")}
        without = "; parameters not compared" if "parameters" in skipped else ""
        outputs = [output for branch in self.branches for output in branch.outputs]
        if "values" in skipped or not outputs:
            return f"STRUCTURE EQUAL: {compared}, values not compared{without}"
        places = skipped.get("structure")
        differs = f"; {format_count(len(places), 'difference')} of structure" if places else ""
        holding = self.list_stages("holds")
        regions = "".join(f"; {stage.summary}" for _, stage in holding if stage.name == "regions")
        how = self._describe_closeness(outputs)
        fate = self._describe_fate()
        return f"EQUAL: {compared}, {how}{differs}{regions}{without}{fate}"

    def _describe_closeness(self, outputs: Sequence[OutputComparison]) -> str:
        rung = self.rung
        if rung in ("exact", "by weights"):
            return f"{rung} for every input"
        first = self.branches[0]
        if all(output.comparison.identical for output in outputs):
            how = "bit for bit"
        elif isinstance(first.tolerance, DtypeTolerance):
            how = f"within the tolerance of {first.tolerance.dtype}"
        else:
            how = "within the tolerance"
        return f"{how} {rung}" if first.branch == OTHER_MODEL else how

    def _describe_failures(self) -> str:
        """If only training separates the branches, name its effect."""
        failed = self.list_stages("fails")
        trained = [
            branch.training
            for branch, stage in failed
            if stage.name == "training" and branch.training
        ]
        if len(trained) == len(failed):
            branches = ", ".join(branch.branch for branch, _ in failed)
            drifts = any(training.drifting for training in trained)
            return f"NOT TIED: {branches} {'will drift' if drifts else 'has copies'}"
        stages = ", ".join(f"{stage.name} of {branch.branch}" for branch, stage in failed)
        return f"NOT EQUAL: {stages}"

    def _describe_gap(self) -> str:
        failed = self._failed
        if "regions" in failed:
            rounds = [each for branch in self.branches for each in branch.regions]
            _, _, departed = merge_rounds(rounds)
            count = format_count(len(departed), "region")
            differ = "differs" if len(departed) == 1 else "differ"
            first = name_end(departed[0])
            return f"the outputs are equal, but {count} {differ}, first at {first}"
        if "changes" not in failed:
            rung = "by weights" if "samples" in failed else "exact"
            return f"the values are equal, but not {rung} for every input"
        if any(branch.rounds for branch in self.branches):
            return "the values are equal, but none of them shows the differences between the models"
        return "the models differ, and their values were not computed"

    def _repr_html_(self) -> str:
        rows = [(b.title, s.name, s.verdict, s.summary) for b in self.branches for s in b.stages]
        table = Table(("branch", "stage", "verdict", "what was found"), rows)
        return format_html(
            self.verdict, facts=[("note", note) for note in self.notes], tables=[table]
        )

    def _describe_fate(self) -> str:
        trained = [branch.training for branch in self.branches if branch.training is not None]
        if not trained:
            return ""
        drifting = sum(len(training.drifting) for training in trained)
        if drifting:
            return f"; copied: {format_count(drifting, 'parameter')} will drift"
        if all(training.is_tied for training in trained):
            return "; tied: they train as one"
        return "; copied, not tied, though this step did not move them apart"


def structure_stage(pairing: Pairing) -> Stage:
    """Return stage 1: the branches are one graph."""
    if pairing:
        operators = sum(not a.is_variable for a, _ in pairing.pairs)
        counts = f"{format_count(len(pairing.pairs), 'pair of nodes')}, {format_count(operators, 'operator')}"
        return Stage("structure", "holds", f"{counts}, the same but for names")
    details = pairing.describe()
    return Stage("structure", "fails", format_count(len(details), "difference"), details)


def exact_stage(report: RegionReport) -> Stage:
    """Return stage 1 of two exact models: the identities and their counts."""
    used = ", ".join(f"{name} {count}" for name, count in sorted(report.identities.items()))
    details = (f"identities: {used}",) if used else ()
    return Stage(
        "structure", "holds", f"{format_count(report.operators, 'operator')} exact", details
    )


def parameter_stage(
    pairs: Sequence[ParameterPair], no_file: bool, tied: tuple[str, ...] = ()
) -> Stage:
    """Return stage 2: pairs of parameters; ``tied`` says how much is tied.

    ``no_file`` means that values are unknown.
    """
    count = Counter(pair.how for pair in pairs)
    wrong = tuple(
        f"{p.left.name!r} and {p.right.name!r}: {p.detail}"
        for p in pairs
        if p.how in ("different", "missing")
    )
    summary = f"{count['tied']} tied, {count['equal']} equal byte for byte"
    if count["fed"]:
        summary += f", {count['fed']} fed"
    if not wrong:
        return Stage("parameters", "holds", summary, tied)
    if no_file and not count["different"]:
        summary += f", {count['missing']} not compared: no parameter file is given"
        return Stage("parameters", "skipped", summary)
    summary += f", {count['different']} different, {count['missing']} missing"
    return Stage("parameters", "fails", summary, wrong)


def value_stage(rounds: Sequence[Values], *, is_proved: bool = False) -> Stage:
    """Return stage 3: all outputs of all rounds.

    Unless the equality ``is_proved`` without values, an output that shows nothing in any round is
    not judged.
    """
    if not any(values.outputs for values in rounds):
        nothing = "there are no outputs to compare"
        return Stage("values", "unknown", nothing, (nothing,))
    apart: list[str] = []
    firsts: list[str] = []
    unjudged: dict[str, None] = {}
    for values in rounds:
        sizes = _sizes(values)
        for output in values.outputs:
            if output.differs:
                difference = describe_difference(output.comparison)
                apart.append(f"{output.output} and {output.reference}: {difference}{sizes}")
            elif output.unjudged:
                unjudged[f"{output.reference}: {output.unjudged}"] = None
        if values.first is not None:
            firsts.append(_describe_first(values.first, sizes))
    if apart:
        return _fail_outputs("values", rounds, apart, firsts)
    if not is_proved:
        unjudged |= dict.fromkeys(explain_blanks(rounds))
    counts = _summarize([values.outputs for values in rounds], "output")
    summary = f"{counts}{_name_owners(rounds, ';')}"
    if not unjudged:
        return Stage("values", "holds", summary)
    summary += f"; {format_count(len(unjudged), 'output')} not judged"
    return Stage("values", "unknown", summary, tuple(unjudged))


def explain_blanks(rounds: Sequence[Values]) -> list[str]:
    """Return the reasons for outputs that show nothing in any round."""
    outputs = [output for values in rounds for output in values.outputs]
    judged = {output.reference for output in outputs if not output.blank}
    blanks = {each.reference: each.blank for each in outputs if each.reference not in judged}
    return [
        f"{name}: {reason}, so nothing was compared; `feeds` gives other inputs"
        for name, reason in blanks.items()
    ]


def engine_stage(compared: Sequence[EngineComparison]) -> Stage:
    """Return the stage that compares engines, over all rounds."""
    names: dict[str, None] = {}
    apart: list[str] = []
    firsts: list[str] = []
    for engines in compared:
        names |= {engines.reference: None, engines.engine: None}
        for output in engines.outputs:
            if not output.comparison:
                difference = describe_difference(output.comparison)
                both = f"{engines.engine} and {engines.reference}"
                apart.append(f"{output.output} in {both}: {difference}")
        if (first := engines.first) is not None:
            difference = describe_difference(first.comparison)
            place = f"{first.op} {first.node!r}, output {first.output}"
            firsts.append(f"first at {place}: {difference}")
    title = " and ".join(names)
    if apart:
        return _fail_outputs("engines", compared, apart, firsts, f"{title}: ")
    summary = _summarize([engines.outputs for engines in compared], "output")
    return Stage("engines", "holds", f"{title}: {summary}")


def _fail_outputs(
    name: str,
    runs: Sequence[Values | EngineComparison],
    apart: Sequence[str],
    firsts: Sequence[str],
    start: str = "",
) -> Stage:
    count = format_count(max(len(run.outputs) for run in runs), "output")
    return Stage(
        name,
        "fails",
        f"{start}{format_count(len(apart), 'difference')} in {count}",
        (*apart, *firsts[:1]),
    )


def layer_stage(rounds: Sequence[Values], *, missing: int = 0) -> Stage:
    """Return the stage of inner outputs, naming the first difference in topological order.

    ``missing`` counts inner outputs without a counterpart.
    """
    more = f"; {missing} not recorded" if missing else ""
    layers = [(values, layer) for values in rounds for layer in values.layers]
    if not layers:
        if missing:
            return Stage("layers", "fails", f"no inner output was compared{more}")
        return Stage("layers", "skipped", "there are no inner outputs")
    apart = [(values, layer) for values, layer in layers if not layer.comparison]
    if not apart:
        summary = _summarize([values.layers for values in rounds], "inner output")
        return Stage("layers", "holds", f"{summary}{more}")
    values, first = apart[0]
    details = [_describe_first(first, _sizes(values))]
    if len(apart) > 1:
        details.append(f"and {len(apart) - 1} more (--format json lists all)")
    summary = f"{len(apart)} of {format_count(len(layers), 'inner output')} depart{more}"
    return Stage("layers", "fails", summary, tuple(details))


def _summarize(runs: Sequence[Sequence[OutputComparison | InnerComparison]], noun: str) -> str:
    compared = [[output.comparison for output in run] for run in runs if run]
    identical = 0
    for in_all_runs in zip(*compared, strict=False):
        identical += all(comparison.identical for comparison in in_all_runs)
    worst = max(comparison.max_abs for comparison in chain(*compared))
    count = f"{format_count(len(compared[0]), noun)} compared"
    if len(compared) > 1:
        count += f" in {len(compared)} runs"
    return f"{count}, {identical} bit for bit, max abs {worst:.3g}"


def _describe_first(inner: InnerComparison, sizes: str) -> str:
    what = "variable" if inner.op == VARIABLE_OP else inner.op
    place = f"{what} {inner.node!r} and {inner.reference!r}, output {inner.output}"
    return f"first at {place}: {describe_difference(inner.comparison)}{sizes}"


def _sizes(values: Values) -> str:
    """Name the branch if sizes differ, and the engine unless it is numpy."""
    engine = "" if values.engine == REFERENCE else f", in {values.engine}"
    return engine + _name_owners([values], ",")


def _name_owners(rounds: Sequence[Values], mark: str) -> str:
    owners = dict.fromkeys(
        values.sizes_of or "the original" for values in rounds if values.sizes_of is not None
    )
    if not owners:
        return ""
    return f"{mark} at the sizes of {' and of '.join(owners)}"


def describe_difference(comparison: Comparison) -> str:
    """Return a difference's reason, and its size if that is a number."""
    if comparison.max_abs == float("inf"):
        return comparison.reason
    return (
        f"{comparison.reason}, max abs {comparison.max_abs:.3g}, max rel {comparison.max_rel:.3g}"
    )


def training_stage(training: Training, *, expect_tied: bool) -> Stage:
    """Return stage 4: which parameters stay equal when both branches are trained."""
    counts = Counter(pair.fate for pair in training.pairs if not pair.auxiliary)
    parts: list[str] = []
    for fate, words in _FATES.items():
        if counts[fate] or fate == "tied":
            parts.append(f"{counts[fate]} {words}")
    details: list[str] = []
    for o in training.outputs:
        if not o.comparison:
            difference = f"{o.comparison.reason}, max abs {o.comparison.max_abs:.3g}"
            both = f"{o.reference} and {o.output}"
            details.append(f"{both} differ after a step on equal inputs: {difference}")
    for o in training.outputs:
        means = f"mean {o.before:.9g} before, {o.after:.9g} after"
        twin_means = f"{o.twin_before:.9g}, {o.twin_after:.9g}"
        details.append(f"{o.reference}: {means}; {o.output}: {twin_means}")
    drifting = [_describe_drift(pair) for pair in training.pairs if pair.fate == "drifts"]
    details += drifting[:_LISTED]
    if len(drifting) > _LISTED:
        details.append(f"and {len(drifting) - _LISTED} more that drift (--format json lists all)")
    is_untied = expect_tied and not training.is_tied
    verdict: Verdict = "fails" if is_untied or not training else "holds"
    return Stage("training", verdict, ", ".join(parts), tuple(details))


def _describe_drift(pair: TrainedPair) -> str:
    what = "statistics" if pair.auxiliary else "copied"
    apart = (
        f"{pair.different_inputs:.3g} apart after one step on different inputs, which changed it "
        f"by {pair.changed:.3g}"
    )
    return f"{pair.reference!r} and {pair.parameter!r}: {what}: will drift, {apart}"


_MARKS = {"holds": "ok", "fails": "FAIL", "unknown": "?", "skipped": "skip"}


def format_report(report: Report) -> Iterator[list[tuple[str, str]]]:
    """Yield lines of parts, each with a stage's verdict, the outcome, or nothing."""
    for branch in report.branches:
        reference = branch.reference or "(original)"
        is_other = branch.branch == OTHER_MODEL
        yield [("", "both models" if is_other else f"{reference} and {branch.branch}")]
        for stage in branch.stages:
            mark = _MARKS[stage.verdict]
            yield [
                ("", "  "),
                (stage.verdict, mark),
                ("", f"{'':{5 - len(mark)}}{stage.name:11} {stage.summary}"),
            ]
            for detail in stage.details:
                yield [("", f"       {escape_control(detail)}")]
    if (reduced := report.reduced) is not None:
        count = format_count(len(reduced.operators), "operator")
        others = len(reduced.other_operators)
        yield [("", f"reduced to {count} and {others}: {escape_control(reduced.command)}")]
    word, colon, reason = report.verdict.partition(":")
    yield [(report.outcome, word), ("", colon + reason)]
