"""Runs of the rules on models and files, in one process or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from graphshare.checkpoint.model import Checkpoint
from graphshare.checks.baseline import drop_known, read_baseline
from graphshare.checks.config import CheckOptions
from graphshare.checks.context import SHARDS, CheckContext
from graphshare.checks.document import Reading
from graphshare.checks.engine import RULES, run_rules, select_codes
from graphshare.checks.fix import drop_repeated, plan_fixes, stage_fix
from graphshare.checks.targets import Target, read_context
from graphshare.errors import Fault, GraphshareError, InputError
from graphshare.files.atomic import OutputTransaction, refuse_links, refusing_links
from graphshare.files.paths import STDIN, collect_read_files, note_read
from graphshare.formats.model_format import ModelFormat, find_format
from graphshare.progress import task
from graphshare.reports.model import Finding, FindingsReport
from graphshare.text.urls import redact

_CHUNK = 16  # files sent to a process at once
# A file that belongs to no graph may contain other data; these faults are possible in any file.
_WITHOUT_GRAPH = frozenset(("GS401", "GS409", "GS410", "GS412"))


class TargetResult(msgspec.Struct, frozen=True):
    """The findings of one target, and how many the file suppresses.

    ``faults`` is set if the graph file cannot be read, ``unchecked`` is the reason why no rule ran.
    """

    target: Target
    findings: tuple[Finding, ...] = ()
    suppressed: int = 0
    faults: tuple[Fault, ...] = ()
    unchecked: str = ""


def check_target(target: Target, options: CheckOptions) -> TargetResult:
    """Run the rules on one target."""
    try:
        context = read_context(target, options)
    except GraphshareError as error:
        return TargetResult(target, faults=error.faults)
    if unchecked := _explain_unchecked(context.format):
        return TargetResult(target, unchecked=unchecked)
    codes = options.codes_for(context.where)
    findings, suppressed = run_rules(
        context, codes if target.graph or context.subject == SHARDS else codes & _WITHOUT_GRAPH
    )
    vars(context).clear()  # a reference cycle, and garbage collection is off
    return TargetResult(target, tuple(findings), suppressed)


def check_model(model: Checkpoint, options: CheckOptions) -> TargetResult:
    """Run the rules on a model in memory."""
    format_ = find_format(model.graph)
    if unchecked := _explain_unchecked(format_):
        return TargetResult(Target(model.where), unchecked=unchecked)
    data = model.data or (b"".join(format_.encode(model.graph)) if format_.is_text else b"")
    reading = None if format_.is_text else Reading(graph=model.graph)
    context = CheckContext(
        model.where,
        data,
        params=model.parameter_file,
        given_shapes=options.shapes,
        format_=format_,
        reading=reading,
    )
    findings, suppressed = run_rules(context, options.codes_for(model.where))
    vars(context).clear()  # as above
    return TargetResult(Target(model.where), tuple(findings), suppressed)


def _explain_unchecked(format_: ModelFormat) -> str:
    """Return why no rule checks models of this format, empty if some do."""
    if any(rule.format == format_.name for rule in RULES.values()):
        return ""
    return f"no rule looks at {format_.plural}"


def check_targets(
    targets: Sequence[Target], options: CheckOptions, *, jobs: int = 1
) -> list[TargetResult]:
    """Run the rules on all targets, ``jobs`` at a time, in order.

    Raises:
        InputError: graph files cannot be read; all are listed.
        UsageError: a code belongs to no rule.
    """
    select_codes(options.select, options.ignore)
    if len(targets) == 1:  # reading shows its own progress
        results = [check_target(targets[0], options)]
    else:
        results = []
        with task("checking", len(targets), "files") as advance:
            # More processes than chunks would have nothing to do.
            for result in _run(targets, options, min(jobs, -(-len(targets) // _CHUNK))):
                results.append(result)
                advance(1)
    faults = [fault for result in results for fault in result.faults]
    if faults:
        raise InputError(faults)
    return results


def _run(targets: Sequence[Target], options: CheckOptions, jobs: int) -> Iterator[TargetResult]:
    if jobs <= 1:
        yield from (check_target(target, options) for target in targets)
        return
    from graphshare.worker_process import map_in_workers  # start-up

    chunks = [targets[start : start + _CHUNK] for start in range(0, len(targets), _CHUNK)]
    for results, paths in map_in_workers(partial(_check_chunk, options=options), chunks, jobs):
        for path in paths:
            note_read(path)
        yield from results


def _check_chunk(
    targets: Sequence[Target], options: CheckOptions
) -> tuple[list[TargetResult], list[str]]:
    with collect_read_files() as paths:
        results = [check_target(target, options) for target in targets]
    return results, list(paths)


def _fix_files(targets: Sequence[Target], options: CheckOptions, stage: OutputTransaction) -> None:
    fixes = drop_repeated(plan_fixes(targets, options))
    changed: dict[str, list[str]] = {}  # by folder
    for fix in fixes:
        changed.setdefault(fix.target.folder, []).extend(fix.list_paths())
    for folder, paths in changed.items():
        if folder:  # the path of an argument may be a link
            refuse_links(folder, paths)
    for fix in fixes:
        with refusing_links(fix.target.folder):
            stage_fix(fix, stage)
    stage.place()


def _merge_findings(results: Sequence[TargetResult]) -> list[Finding]:
    """A later parameter file of a graph only adds new findings, with the file's name."""
    findings: list[Finding] = []
    known: dict[str, tuple[Finding, ...]] = {}
    for result in results:
        graph, params = result.target.graph, result.target.params
        first = known.setdefault(graph, result.findings) if params and graph else result.findings
        for finding in result.findings:
            if first is result.findings or finding.where == redact(params):
                findings.append(finding)
            elif finding not in first:
                findings.append(
                    msgspec.structs.replace(
                        finding, message=f"{finding.message} ({redact(params)})"
                    )
                )
    return findings


def check_files(
    targets: Sequence[Target],
    options: CheckOptions,
    *,
    models: Sequence[Checkpoint] = (),
    jobs: int = 1,
    fix: bool = False,
    baseline: str | None = None,
    stage: OutputTransaction | None = None,
) -> FindingsReport:
    """Run the rules on all targets and on models in memory, and return the report.

    With ``fix``, fixable findings are first fixed in place, in all files or none; with a ``stage``,
    only when the caller commits it. Findings in the file ``baseline`` are only counted.

    Raises:
        InputError: graph files cannot be read, or the baseline is not valid; all faults are listed.
        UsageError: a code belongs to no rule, or standard input is given with ``fix``.
        OutputError: a fix cannot be written; all files are unchanged.
        RefusedError: a fix would change the target of a link that no argument names.
    """
    if fix and stage is None:
        # Fixed files are checked before the commit, so that an error restores the originals.
        with OutputTransaction() as stage:
            report = check_files(
                targets, options, models=models, jobs=jobs, fix=fix, baseline=baseline, stage=stage
            )
            stage.commit()
        return report
    before = 0
    if fix and stage is not None:
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
        files=tuple(dict.fromkeys(map(_name_target, results))),
        findings=tuple(findings),
        rules=tuple(rule.info for rule in RULES.values()),
        ignored=sum(result.suppressed for result in results),
        known=known,
        fixed=fixed,
        unchecked={
            _name_target(result): result.unchecked for result in results if result.unchecked
        },
    )


def _name_target(result: TargetResult) -> str:
    target = result.target
    return STDIN if target.graph == "-" else redact(target.graph or target.params)
