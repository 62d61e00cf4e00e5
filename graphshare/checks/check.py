"""``check``: run rules on files, in one process or several, under a configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec

from graphshare.checkpoint.load import STDIN, read_source
from graphshare.checks.config import CheckConfig
from graphshare.checks.context import CheckContext, PartialShape
from graphshare.checks.engine import run_rules
from graphshare.checks.registry import RULES, select_codes
from graphshare.checks.targets import Target
from graphshare.errors import Fault, GraphshareError, InputError
from graphshare.progress import task
from graphshare.reports.model import Finding, Report

_CHUNK = 16  # files that a process gets at once


class CheckOptions(msgspec.Struct, frozen=True):
    """The options for all files.

    ``select`` and ``ignore`` are those of the command line: ``select`` replaces the configuration's, ``ignore`` adds to it.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    config: CheckConfig = CheckConfig()
    shapes: Mapping[str, PartialShape] = {}

    def codes_for(self, path: str) -> frozenset[str]:
        """Return the codes of the rules to run on a file. Raises UsageError for codes of no rule."""
        ignored = (*self.ignore, *self.config.ignore, *self.config.list_ignored_codes(path))
        return select_codes(self.select or self.config.select, ignored)


class TargetResult(msgspec.Struct, frozen=True):
    """The findings of one target, and how many the file suppresses; ``faults`` where the graph file could not be read."""

    target: Target
    findings: tuple[Finding, ...] = ()
    suppressed: int = 0
    faults: tuple[Fault, ...] = ()


def read_context(target: Target, options: CheckOptions) -> CheckContext:
    """Read the files of a target. Raises InputError where the graph file cannot be read."""
    path = STDIN if target.graph == "-" else target.graph
    return CheckContext(path, read_source(path), params_path=target.params, given_shapes=options.shapes)


def check_target(target: Target, options: CheckOptions) -> TargetResult:
    """Run the rules on one target."""
    try:
        context = read_context(target, options)
    except GraphshareError as error:
        return TargetResult(target, faults=error.faults)
    findings, suppressed = run_rules(context, options.codes_for(context.where))
    vars(context).clear()  # it refers to itself, and garbage collection is off
    return TargetResult(target, tuple(findings), suppressed)


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


def make_report(
    results: Sequence[TargetResult], *, known: int = 0, fixed: int = 0, findings: Sequence[Finding] | None = None
) -> Report:
    """Return the report of a run; ``findings`` are those to report if a baseline contains the others."""
    every = [finding for result in results for finding in result.findings]
    return Report(
        command="check",
        files=tuple(STDIN if result.target.graph == "-" else result.target.graph for result in results),
        findings=tuple(every if findings is None else findings),
        rules=tuple(rule.info for rule in RULES.values()),
        ignored=sum(result.suppressed for result in results),
        known=known,
        fixed=fixed,
    )
