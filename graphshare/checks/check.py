"""``check``: run rules on files, in one process or several; the entry is :func:`check`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from graphshare.checkpoint.model import Checkpoint
from graphshare.checks.baseline import drop_known, read_baseline
from graphshare.checks.config import CheckOptions
from graphshare.checks.context import CheckContext
from graphshare.checks.document import Reading
from graphshare.checks.engine import run_rules
from graphshare.checks.fix import drop_repeated, plan_fixes, stage_fix
from graphshare.checks.registry import RULES, select_codes
from graphshare.checks.targets import Target, read_context
from graphshare.errors import Fault, GraphshareError, InputError
from graphshare.files.atomic import OutputTransaction
from graphshare.files.paths import STDIN
from graphshare.formats.model_format import find_format
from graphshare.progress import task
from graphshare.reports.model import Finding, FindingsReport
from graphshare.text.urls import redact

_CHUNK = 16  # files that a process gets at once
# A file that belongs to no graph may hold data: only what is wrong with any file is a fault there.
_WITHOUT_GRAPH = frozenset(("GS401", "GS409", "GS410", "GS412"))


class TargetResult(msgspec.Struct, frozen=True):
    """The findings of one target, and how many the file suppresses; ``faults`` where the graph file could not be read."""

    target: Target
    findings: tuple[Finding, ...] = ()
    suppressed: int = 0
    faults: tuple[Fault, ...] = ()


def check_target(target: Target, options: CheckOptions) -> TargetResult:
    """Run the rules on one target."""
    try:
        context = read_context(target, options)
    except GraphshareError as error:
        return TargetResult(target, faults=error.faults)
    codes = options.codes_for(context.where)
    findings, suppressed = run_rules(context, codes if target.graph else codes & _WITHOUT_GRAPH)
    vars(context).clear()  # it refers to itself, and garbage collection is off
    return TargetResult(target, tuple(findings), suppressed)


def check_model(model: Checkpoint, options: CheckOptions) -> TargetResult:
    """Run the rules on a model in memory: its graph as it would be written, and its parameters."""
    format_ = find_format(model.graph)
    data = model.data or (b"".join(format_.encode(model.graph)) if format_.is_text else b"")
    reading = None if format_.is_text else Reading(graph=model.graph)
    context = CheckContext(
        model.where, data, params=model.parameter_file, given_shapes=options.shapes, format_=format_, reading=reading
    )
    findings, suppressed = run_rules(context, options.codes_for(model.where))
    vars(context).clear()  # it refers to itself, and garbage collection is off
    return TargetResult(Target(model.where), tuple(findings), suppressed)


def check_targets(targets: Sequence[Target], options: CheckOptions, *, jobs: int = 1) -> list[TargetResult]:
    """Run the rules on all targets, ``jobs`` at a time; the results are in the order of ``targets``.

    Raises:
        InputError: graph files that cannot be read; all are listed.
        UsageError: a code of no rule.
    """
    select_codes(options.select, options.ignore)
    if len(targets) == 1:  # reading shows its own progress
        results = [check_target(targets[0], options)]
    else:
        results = []
        with task("checking", len(targets), "files") as advance:
            for result in _run(targets, options, min(jobs, -(-len(targets) // _CHUNK))):
                results.append(result)
                advance(1)
    faults = [fault for result in results for fault in result.faults]
    if faults:
        raise InputError(faults)
    return results


def _run(targets: Sequence[Target], options: CheckOptions, jobs: int) -> Iterator[TargetResult]:
    work = partial(check_target, options=options)
    if jobs <= 1:
        yield from map(work, targets)
        return
    from concurrent.futures import ProcessPoolExecutor  # start-up: most runs need one process

    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(work, targets, chunksize=_CHUNK)


def _fix_files(targets: Sequence[Target], options: CheckOptions, stage: OutputTransaction | None) -> None:
    if stage is None:
        with OutputTransaction() as own:
            _fix_files(targets, options, own)
            own.commit()
        return
    for fix in drop_repeated(plan_fixes(targets, options)):
        stage_fix(fix, stage)
    stage.place()


def _merge_findings(results: Sequence[TargetResult]) -> list[Finding]:
    """Return the findings, those of a graph with several parameter files once; what one of them adds to it names that file."""
    findings: list[Finding] = []
    known: dict[str, tuple[Finding, ...]] = {}
    for result in results:
        graph, params = result.target.graph, result.target.params
        first = known.setdefault(graph, result.findings) if params and graph else result.findings
        for finding in result.findings:
            if first is result.findings or finding.where == redact(params):
                findings.append(finding)
            elif finding not in first:
                findings.append(msgspec.structs.replace(finding, message=f"{finding.message} ({redact(params)})"))
    return findings


def check(
    targets: Sequence[Target],
    options: CheckOptions,
    *,
    models: Sequence[Checkpoint] = (),
    jobs: int = 1,
    fix: bool = False,
    baseline: str | None = None,
    stage: OutputTransaction | None = None,
) -> FindingsReport:
    """Run the rules on all targets, ``jobs`` at a time, and on models in memory, and return the report.

    With ``fix``, fixable findings are fixed in place first, in all files or none. With a ``stage`` the fixed files are put back
    unless the caller commits it. Findings that the file ``baseline`` contains are only counted.

    Raises:
        InputError: graph files that cannot be read, or a baseline that is not one; all faults are listed.
        UsageError: a code of no rule; standard input with ``fix``.
        OutputError: a fix cannot be written; all files are unchanged.
    """
    before = 0
    if fix:
        before = len(_merge_findings(check_targets(targets, options, jobs=jobs)))
        _fix_files(targets, options, stage)
    results = check_targets(targets, options, jobs=jobs)
    results += [check_model(model, options) for model in models]
    findings = _merge_findings(results)
    fixed = max(0, before - len(findings))
    known = 0
    if baseline is not None:
        findings, known = drop_known(findings, read_baseline(baseline), baseline)
    return FindingsReport(
        command="check",
        files=tuple(
            dict.fromkeys(STDIN if r.target.graph == "-" else redact(r.target.graph or r.target.params) for r in results)
        ),
        findings=tuple(findings),
        rules=tuple(rule.info for rule in RULES.values()),
        ignored=sum(result.suppressed for result in results),
        known=known,
        fixed=fixed,
    )
