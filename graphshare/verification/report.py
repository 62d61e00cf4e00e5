"""The answer of ``verify``: branches with their stages in words, the verdict in one line, and findings for report formats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from graphshare.errors import Fault
from graphshare.execute.backends.backend import REFERENCE
from graphshare.formats.params.comparison import Comparison
from graphshare.formats.params.lookup import How, ParameterPair
from graphshare.ir.compare import Pairing
from graphshare.ir.graph import VARIABLE_OP
from graphshare.reports.model import Finding, FindingsReport, Level, RuleInfo
from graphshare.text.format import format_count
from graphshare.text.summary import ShortRepr, Table, format_html
from graphshare.verification.comparison import (
    DtypeTolerance,
    EngineComparison,
    InnerComparison,
    OutputComparison,
    Tolerance,
    Values,
)
from graphshare.verification.region import Operator, Region, RegionReport
from graphshare.verification.training import TrainedPair, Training

OTHER_MODEL = "the other model"
_LISTED = 20
_SHOWN = 8  # operators of a region
Verdict = Literal["holds", "fails", "unknown", "skipped"]
Outcome = Literal["equal", "not equal", "not proved", "not judged"]
_NOT_PROVED = {"regions", "changes", "exact"}
"""Stages whose failure no output shows."""
_SHOWS_MORE = ("layers",)
"""Stages that only show more, and change no verdict."""
_RULES = {
    stage: RuleInfo(f"verify-{stage}", f"verify-{stage}", Level.ERROR, summary)
    for stage, summary in (
        ("structure", "The branches differ in more than names"),
        ("parameters", "Parameters of the branches are neither tied nor equal"),
        ("values", "Equal inputs give different outputs"),
        ("regions", "A part of the other model departs on the values of the original"),
        ("changes", "The differences between the models changed no value"),
        ("layers", "Inner outputs depart"),
        ("exact", "The models are not exact for every input"),
        ("engines", "Engines give different outputs"),
        ("training", "Branches diverge after one training step"),
        ("verdict", "The branches are not proved to be equal"),
    )
}


class Stage(msgspec.Struct, frozen=True):
    """The answer of one stage in a line, with details."""

    name: str
    verdict: Verdict
    summary: str
    details: tuple[str, ...] = ()


class ParameterResult(msgspec.Struct, frozen=True):
    """A parameter of the reference and its twin, by name; ``how`` they compare, and what differs in words."""

    reference: str
    parameter: str
    how: How
    detail: str = ""


class BranchReport(ShortRepr, msgspec.Struct, frozen=True):
    """The comparison of one branch with the reference; ``rounds`` has the values of each run, ``training`` the step's.

    Each engine has rounds of its own; ``engines`` compares the outputs of all with those of the first. ``tolerance`` is
    the rule by which values were compared, None where they were not. ``regions`` has, for each run of two models that are not
    one graph, what is exact in them and what became of the rest; with ``is_exact`` all of it is, for every input.
    With ``is_record`` the reference is recorded outputs, whose inner ones count as much.
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

    def list_stages(self, *verdicts: Verdict) -> list[Stage]:
        """Return the stages with these verdicts that count for that of the branch."""
        shows_more = () if self.is_record else _SHOWS_MORE
        return [stage for stage in self.stages if stage.verdict in verdicts and stage.name not in shows_more]


class Reduction(ShortRepr, msgspec.Struct, frozen=True):
    """The smallest parts that show a difference: the files that were written, the operators of both, how to run them.

    ``inputs`` has the shape of each by name, ``verdict`` is that of the files.
    """

    files: tuple[str, ...]
    operators: tuple[Operator, ...]
    other_operators: tuple[Operator, ...]
    inputs: Mapping[str, tuple[int, ...]]
    command: str
    verdict: str


class Report(ShortRepr, msgspec.Struct, frozen=True):
    """All branches. A report without comparisons is a failure. ``reduced`` is there where a difference was written as files."""

    branches: tuple[BranchReport, ...]
    notes: tuple[str, ...] = ()
    reduced: Reduction | None = None

    def __bool__(self) -> bool:
        return bool(self.branches) and all(self.branches)

    @property
    def outcome(self) -> Outcome:
        """Return the answer: the worst of all branches."""
        failed = {stage.name for branch in self.branches for stage in branch.list_stages("fails")}
        if failed:
            return "not proved" if failed <= _NOT_PROVED else "not equal"
        return "equal" if self else "not judged"

    @property
    def verdict(self) -> str:
        """Return the result in one line."""
        if not self.branches:
            return "NOT JUDGED: nothing was compared"
        if not self:
            return self._describe_failure()
        names = ", ".join(report.branch or "(original)" for report in self.branches)
        skipped = sorted({s.name for b in self.branches for s in b.stages if s.verdict == "skipped"})
        outputs = [o for b in self.branches for r in b.rounds for o in r.outputs]
        identical = all(o.comparison.identical for o in outputs)
        without = "; parameters not compared" if "parameters" in skipped else ""
        compared = f"{names} and {self.branches[0].reference or 'the original'}"
        if "values" in skipped or not outputs:
            return f"STRUCTURE EQUAL: {compared}, values not compared{without}"
        tolerance = self.branches[0].tolerance
        of_dtype = f" of {tolerance.dtype}" if isinstance(tolerance, DtypeTolerance) else ""
        how = "bit for bit" if identical else f"within the tolerance{of_dtype}"
        if self.branches[0].branch == OTHER_MODEL:
            how = "exact for every input" if self.rung == "exact" else f"{how} {self.rung}"
        stages = [stage for branch in self.branches for stage in branch.stages]
        places = [place for s in stages if (s.name, s.verdict) == ("structure", "skipped") for place in s.details]
        differs = f"; {format_count(len(places), 'difference')} of structure" if places else ""
        return f"EQUAL: {compared}, {how}{differs}{self._measure_regions()}{without}{self._fate()}"

    @property
    def rung(self) -> str:
        """Return the weakest that is known of any output, in the words of the ladder."""
        if self.outcome == "equal" and all(branch.is_exact for branch in self.branches):
            return "exact"
        failed = {stage.name for branch in self.branches for stage in branch.list_stages("fails")}
        if self.outcome == "not equal" or "regions" in failed:
            return "differs"
        count = max((len(branch.rounds) for branch in self.branches), default=0)
        return f"on {format_count(count, 'input')}" if count and self.outcome != "not judged" else "not judged"

    def _describe_failure(self) -> str:
        """Return what failed, or was not judged, in one line."""
        failed = [(stage.name, branch.branch) for branch in self.branches for stage in branch.list_stages("fails")]
        if self.outcome == "not judged":
            reasons = [text for branch in self.branches for stage in branch.list_stages("unknown") for text in stage.details]
            return f"NOT JUDGED: {reasons[0] if reasons else 'nothing was compared'}"
        names = {name for name, _ in failed}
        if names == {"training"} and all(b.training for b in self.branches if ("training", b.branch) in failed):
            fate = "will drift" if any(b.training and b.training.drifting for b in self.branches) else "has copies"
            return f"NOT TIED: {', '.join(branch for _, branch in failed)} {fate}"
        if self.outcome == "not equal":
            return f"NOT EQUAL: {', '.join(f'{name} of {branch}' for name, branch in failed)}"
        if "regions" in names:
            merged = _merge_rounds([each for branch in self.branches for each in branch.regions])
            places = ", ".join(map(_name_end, merged.departed[:1]))
            count = len(merged.departed)
            text = f"{format_count(count, 'region')} {'differs' if count == 1 else 'differ'}, first at {places}"
            return f"NOT PROVED: the outputs are equal, but {text}"
        if "changes" in names and any(branch.rounds for branch in self.branches):
            return "NOT PROVED: the values are equal, but none of them shows the differences between the models"
        if "changes" in names:
            return "NOT PROVED: the models differ, and their values were not computed"
        return "NOT PROVED: the values are equal, but not exact for every input"

    def _repr_html_(self) -> str:
        """Return the stages of each branch as a table, which notebooks show."""
        rows = [(b.branch or "(original)", s.name, s.verdict, s.summary) for b in self.branches for s in b.stages]
        table = Table(("branch", "stage", "verdict", "what was found"), rows)
        return format_html(self.verdict, facts=[("note", note) for note in self.notes], tables=[table])

    def _measure_regions(self) -> str:
        """Return how much of two models is exact, where something is not; an empty text elsewhere."""
        regions = [each for branch in self.branches for each in branch.regions if each.regions]
        return f"; {region_stage(regions).summary}" if regions else ""

    def _fate(self) -> str:
        """Return what training does to the branches, where that was asked for."""
        trained = [branch.training for branch in self.branches if branch.training is not None]
        if not trained:
            return ""
        drifting = sum(len(training.drifting) for training in trained)
        if drifting:
            return f"; copied: {format_count(drifting, 'parameter')} will drift"
        tied = all(training.is_tied for training in trained)
        return "; tied: they train as one" if tied else "; copied, not tied, though this step did not move them apart"


def structure_stage(pairing: Pairing) -> Stage:
    """Return stage 1: the branches are one graph."""
    if pairing:
        operators = sum(not a.is_variable for a, _ in pairing.pairs)
        return Stage(
            "structure",
            "holds",
            f"{format_count(len(pairing.pairs), 'pair of nodes')}, "
            f"{format_count(operators, 'operator')}, the same but for names",
        )
    details = pairing.describe()
    return Stage("structure", "fails", format_count(len(details), "difference"), details)


def exact_stage(report: RegionReport) -> Stage:
    """Return stage 1 of two models of which every operator is exact: by which identities, and how often each was used."""
    used = ", ".join(f"{name} {count}" for name, count in sorted(report.identities.items()))
    return Stage(
        "structure", "holds", f"{format_count(report.operators, 'operator')} exact", (f"identities: {used}",) if used else ()
    )


class _Merged(msgspec.Struct):
    """The regions of all runs: those that depart in one, those that no run judged, and what equal values hide."""

    departed: list[Region]
    unjudged: list[Region]
    near: list[Region]
    hidden: list[str]
    unreached: list[str]


def _merge_rounds(rounds: Sequence[RegionReport]) -> _Merged:
    groups: dict[object, list[Region]] = {}
    for region in (region for each in rounds for region in each.regions):
        groups.setdefault((region.place, region.ends), []).append(region)
    merged = _Merged([], [], [], [], [])
    for group in groups.values():
        # A region counts as judged where any round judged it, and as departed where one round shows it.
        judged = [region for region in group if region.comparison is not None]
        merged.departed += [region for region in judged if not region][:1]
        merged.unjudged += group[:1] if not judged else []
        merged.near += sorted(judged, key=lambda region: region.of_largest or 0.0)[-1:] if all(judged) else []
        if all(judged):
            # One round that was not blind to the change is enough.
            merged.hidden += [f"{_name_end(region)}: {region.hidden}" for region in judged[:1] if all(r.hidden for r in judged)]
        for name in dict.fromkeys(name for region in judged for name in region.switches):
            # Over all rounds: a body that has no counterpart is compared only when its If takes it.
            if len({each.taken.get(name) for each in rounds} - {None}) < 2:
                merged.unreached.append(f"{name!r}: one of its bodies was compared with nothing")
    return merged


def region_stage(rounds: Sequence[RegionReport]) -> Stage:
    """Return the stage of the regions of all runs; the first that departs is named, with its operators on both sides."""
    merged, last = _merge_rounds(rounds), rounds[-1]
    parts = [f"{last.exact:,} of {format_count(last.operators, 'operator')} exact"]
    if merged.near:
        same = all(region.comparison is not None and region.comparison.identical for region in merged.near)
        worst = max(region.of_largest or 0.0 for region in merged.near)
        how = "bit for bit" if same else f"within {worst:.1g} of the largest number"
        parts.append(f"{format_count(len(merged.near), 'region')} {how}")
    if merged.departed:
        count = len(merged.departed)
        parts.append(f"{format_count(count, 'region')} {'DIFFERS' if count == 1 else 'DIFFER'}")
    if merged.unjudged:
        parts.append(f"{format_count(len(merged.unjudged), 'region')} not judged")
    wrong = [*merged.departed, *merged.unjudged]
    details = [text for region in wrong[:1] for text in _describe_region(region)]
    if len(wrong) > 1:
        details.append(f"and {len(wrong) - 1} more (--format json lists all)")
    verdict: Verdict = "fails" if merged.departed else "unknown" if merged.unjudged else "holds"
    return Stage("regions", verdict, ", ".join(parts), tuple(details))


def add_regions(stages: Sequence[Stage], rounds: Sequence[RegionReport]) -> tuple[Stage, ...]:
    """Return the stages of a proof with those of the regions of all runs: before the values, and after all what values hide."""
    if not any(each.regions for each in rounds):
        return tuple(stages)
    # Reports of several sets of inputs have these stages already, each of one round.
    own = [stage for stage in stages if stage.name not in ("regions", "changes")]
    place = next((number for number, stage in enumerate(own) if stage.name == "values"), len(own))
    result = [*own[:place], region_stage(rounds), *own[place:]]
    merged = _merge_rounds(rounds)
    if any(stage.verdict == "fails" and stage.name not in _SHOWS_MORE for stage in result):
        return tuple(result)
    if merged.hidden:
        count = format_count(len(merged.hidden), "place")
        summary = f"differences in {count} changed no value that was computed; `feeds` gives inputs that may show them"
        result.append(Stage("changes", "fails", summary, (*merged.hidden, *merged.unreached)))
    elif merged.unreached:
        summary = f"{format_count(len(merged.unreached), 'If')} with a body that was not reached; `feeds` gives other inputs"
        result.append(Stage("changes", "unknown", summary, tuple(merged.unreached)))
    return tuple(result)


def _name_end(region: Region) -> str:
    name = " and ".join(dict.fromkeys(region.ends[0]))
    return f"{name} in {region.place}" if region.place else name


def _describe_region(region: Region) -> Iterator[str]:
    if region.comparison is None:
        yield f"first at {_name_end(region)}: not judged: {region.reason}"
    else:
        yield f"first at {_name_end(region)}: {describe_difference(region.comparison)}"
    for title, nodes in (("the original", region.nodes), (OTHER_MODEL, region.other_nodes)):
        more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
        yield f"{title} computes it by {', '.join(map(str, nodes[-_SHOWN:])) or 'nothing'}{more}"


def parameter_stage(pairs: Sequence[ParameterPair], no_file: bool, tied: tuple[str, ...] = ()) -> Stage:
    """Return stage 2: each pair of parameters; with ``no_file`` their values are unknown. ``tied`` is how much is tied."""
    count = {how: sum(pair.how == how for pair in pairs) for how in ("tied", "equal", "different", "missing", "fed")}
    wrong = tuple(f"{p.left.name!r} and {p.right.name!r}: {p.detail}" for p in pairs if p.how in ("different", "missing"))
    summary = f"{count['tied']} tied, {count['equal']} equal byte for byte"
    summary += f", {count['fed']} fed" if count["fed"] else ""
    if not wrong:
        return Stage("parameters", "holds", summary, tied)
    if no_file and not count["different"]:
        return Stage("parameters", "skipped", f"{summary}, {count['missing']} not compared: no parameter file is given")
    return Stage("parameters", "fails", f"{summary}, {count['different']} different, {count['missing']} missing", wrong)


def value_stage(rounds: Sequence[Values]) -> Stage:
    """Return stage 3: all outputs of all rounds."""
    if not any(values.outputs for values in rounds):
        return Stage("values", "unknown", "there are no outputs to compare", ("there are no outputs to compare",))
    apart = [(values, output) for values in rounds for output in values.outputs if output.differs]
    details = [f"{o.output} and {o.reference}: {describe_difference(o.comparison)}{_sizes(values)}" for values, o in apart]
    unjudged = dict.fromkeys(f"{o.reference}: {o.unjudged}" for values in rounds for o in values.outputs if o.unjudged)
    if not details:
        owners = dict.fromkeys(values.sizes_of or "the original" for values in rounds if values.sizes_of is not None)
        sizes = f"; at the sizes of {' and of '.join(owners)}" if owners else ""
        summary = _summarize((values.outputs for values in rounds), "output") + sizes
        if unjudged:
            return Stage("values", "unknown", f"{summary}; {format_count(len(unjudged), 'output')} not judged", tuple(unjudged))
        return Stage("values", "holds", summary)
    summary = f"{format_count(len(details), 'difference')} in {_count_outputs(rounds)}"
    first = next((values for values in rounds if values.first is not None), None)
    if first is not None and first.first is not None:
        details.append(f"first at {_place(first.first)}: {describe_difference(first.first.comparison)}{_sizes(first)}")
    return Stage("values", "fails", summary, tuple(details))


def engine_stage(compared: Sequence[EngineComparison]) -> Stage:
    """Return the stage of engine against engine, over all rounds."""
    apart = [(engines, output) for engines in compared for output in engines.outputs if not output.comparison]
    details = [
        f"{o.output} in {engines.engine} and {engines.reference}: {describe_difference(o.comparison)}" for engines, o in apart
    ]
    names = " and ".join(dict.fromkeys(name for engines in compared for name in (engines.reference, engines.engine)))
    if not details:
        return Stage("engines", "holds", f"{names}: {_summarize((engines.outputs for engines in compared), 'output')}")
    summary = f"{names}: {format_count(len(details), 'difference')} in {_count_outputs(compared)}"
    first = next((engines.first for engines in compared if engines.first is not None), None)
    if first is not None:
        details.append(f"first at {first.op} {first.node!r}, output {first.output}: {describe_difference(first.comparison)}")
    return Stage("engines", "fails", summary, tuple(details))


def layer_stage(rounds: Sequence[Values], *, missing: int = 0) -> Stage:
    """Return the stage of the inner outputs of all rounds; the first that departs is named, in topological order.

    ``missing`` is the number of those that have nothing to be compared with.
    """
    more = f"; {missing} not recorded" if missing else ""
    layers = [(values, layer) for values in rounds for layer in values.layers]
    apart = [(values, layer) for values, layer in layers if not layer.comparison]
    if not layers and not missing:
        return Stage("layers", "skipped", "there are no inner outputs")
    if not layers:
        return Stage("layers", "fails", f"no inner output was compared{more}")
    if not apart:
        return Stage("layers", "holds", _summarize((values.layers for values in rounds), "inner output") + more)
    values, first = apart[0]
    details = [f"first at {_place(first)}: {describe_difference(first.comparison)}{_sizes(values)}"]
    if len(apart) > 1:
        details.append(f"and {len(apart) - 1} more (--format json lists all)")
    summary = f"{len(apart)} of {format_count(len(layers), 'inner output')} depart{more}"
    return Stage("layers", "fails", summary, tuple(details))


def _count_outputs(runs: Sequence[Values | EngineComparison]) -> str:
    return format_count(max((len(run.outputs) for run in runs), default=0), "output")


def _summarize(runs: Iterable[Sequence[OutputComparison | InnerComparison]], noun: str) -> str:
    """Return how many outputs were compared, each counted once, in how many runs, and how far apart they are at most."""
    compared = [[output.comparison for output in run] for run in runs if run]
    identical = sum(all(comparison.identical for comparison in each) for each in zip(*compared, strict=False))
    worst = max(comparison.max_abs for run in compared for comparison in run)
    count = f"{format_count(len(compared[0]), noun)} compared" + (f" in {len(compared)} runs" if len(compared) > 1 else "")
    return f"{count}, {identical} bit for bit, max abs {worst:.3g}"


def _place(inner: InnerComparison) -> str:
    what = "variable" if inner.op == VARIABLE_OP else inner.op
    return f"{what} {inner.node!r} and {inner.reference!r}, output {inner.output}"


def _sizes(values: Values) -> str:
    """Return at whose sizes these values are, where branches have different ones, and in which engine other than numpy."""
    engine = "" if values.engine == REFERENCE else f", in {values.engine}"
    return engine if values.sizes_of is None else f"{engine}, at the sizes of {values.sizes_of or 'the original'}"


def describe_difference(comparison: Comparison) -> str:
    """Return the reason of a difference, and its size where that is a number."""
    if comparison.max_abs == float("inf"):
        return comparison.reason
    return f"{comparison.reason}, max abs {comparison.max_abs:.3g}, max rel {comparison.max_rel:.3g}"


def training_stage(training: Training, *, expect_tied: bool) -> Stage:
    """Return stage 4: which parameters stay equal when both branches are trained."""
    parameters = [pair for pair in training.pairs if not pair.auxiliary]
    tied = sum(pair.fate == "tied" for pair in parameters)
    drifting = training.drifting
    parts = [f"{tied} tied"]
    if drifting:
        parts.append(f"{len(drifting)} copied: will drift")
    for fate, words in (("stays", "copied, not moved apart by this step"), ("frozen", "copied and frozen")):
        count = sum(pair.fate == fate for pair in parameters)
        parts += [f"{count} {words}"] if count else []
    details = [
        f"{o.reference} and {o.output} differ after a step on equal inputs: {o.comparison.reason}, "
        f"max abs {o.comparison.max_abs:.3g}"
        for o in training.outputs
        if not o.comparison
    ]
    for o in training.outputs:
        means = f"mean {o.before:.9g} before, {o.after:.9g} after; {o.output}: {o.twin_before:.9g}, {o.twin_after:.9g}"
        details.append(f"{o.reference}: {means}")
    moved = [pair for pair in training.pairs if pair.fate == "drifts"]
    details += [_words(pair) for pair in moved[:_LISTED]]
    if len(moved) > _LISTED:
        details.append(f"and {len(moved) - _LISTED} more that drift (--format json lists all)")
    fails = not training or (expect_tied and not training.is_tied)
    return Stage("training", "fails" if fails else "holds", ", ".join(parts), tuple(details))


def _words(pair: TrainedPair) -> str:
    what = "statistics" if pair.auxiliary else "copied"
    apart = f"{pair.different_inputs:.3g} apart after one step on different inputs, which changed it by {pair.changed:.3g}"
    return f"{pair.reference!r} and {pair.parameter!r}: {what}: will drift, {apart}"


def list_failures(report: Report) -> list[Fault]:
    """Return the differences of a report as faults."""
    return [
        Fault(f"{stage.name} of {branch.branch}: {detail}")
        for branch in report.branches
        for stage in branch.list_stages("fails", "unknown")
        for detail in stage.details or (stage.summary,)
    ] or [Fault(report.verdict)]


def make_report(report: Report, where: str, command: str = "verify") -> FindingsReport:
    """Return the report of the proof for the graph file ``where``, the verdict last."""
    findings = [
        _finding(stage.name, f"{stage.name} of {branch.branch}: {stage.summary}", stage.details, where)
        for branch in report.branches
        for stage in branch.stages
        if stage.verdict in ("fails", "unknown")
    ]
    # Where all holds, that is what a job wants to see: a note, which fails nothing.
    findings.append(_finding("verdict", report.verdict, (), where, Level.NOTE if report else Level.ERROR))
    return FindingsReport(command=command, files=(where,), findings=tuple(findings), rules=tuple(_RULES.values()))


def _finding(stage: str, summary: str, details: tuple[str, ...], where: str, level: Level = Level.ERROR) -> Finding:
    rule = _RULES[stage]
    message = "\n".join((summary, *details))
    return Finding(code=rule.code, level=level, message=message, where=where)
