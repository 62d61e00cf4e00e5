"""``check``: files held against rules, in this process or several, with what a configuration and a baseline say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec

from graphshare.checkpoint.load import STDIN, read_source
from graphshare.checks.config import Config
from graphshare.checks.registry import RULES, selected
from graphshare.checks.run import check_subject
from graphshare.checks.subject import Subject
from graphshare.checks.targets import Target
from graphshare.errors import Fault, GraphshareError, InputError
from graphshare.progress import task
from graphshare.reports.model import Finding, Report

GivenShape = tuple[int | None, ...]
_CHUNK = 16  # files handed to a process at once


class Settings(msgspec.Struct, frozen=True):
    """What holds for every file. ``select`` and ``ignore`` are those of the command line; ``select`` replaces the
    configuration's, ``ignore`` adds to it."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    config: Config = Config()
    shapes: Mapping[str, GivenShape] = {}

    def codes_for(self, path: str) -> frozenset[str]:
        """The rules that a file is held against. Raises UsageError for codes that there are not."""
        ignored = (*self.ignore, *self.config.ignore, *self.config.ignored_at(path))
        return selected(self.select or self.config.select, ignored)


class Checked(msgspec.Struct, frozen=True):
    """What was found in one file. ``faults`` say why it could not be read at all."""

    target: Target
    findings: tuple[Finding, ...] = ()
    suppressed: int = 0
    faults: tuple[Fault, ...] = ()


def subject_of(target: Target, settings: Settings) -> Subject:
    """The files of a target as what rules look at. Raises InputError where the graph file cannot be read."""
    path = STDIN if target.graph == "-" else target.graph
    return Subject(path, read_source(path), params_path=target.params, given=settings.shapes)


def check_target(target: Target, settings: Settings) -> Checked:
    """What the rules find in one target."""
    try:
        subject = subject_of(target, settings)
    except GraphshareError as error:
        return Checked(target, faults=error.faults)
    codes = settings.codes_for(subject.where)
    findings, suppressed = check_subject(subject, codes)
    vars(subject).clear()  # it holds itself in a circle, and collections are off
    return Checked(target, tuple(findings), suppressed)


def check_targets(targets: Sequence[Target], settings: Settings, *, jobs: int = 1) -> list[Checked]:
    """What the rules find in every target, in their order, ``jobs`` at a time.

    Raises:
        InputError: graph files that cannot be read; all are listed.
        UsageError: there is no such rule.
    """
    selected(settings.select, settings.ignore)
    if len(targets) == 1:  # how far it is read tells more than that it is not done
        done = [check_target(targets[0], settings)]
    else:
        done = []
        with task("checking", len(targets), "files") as advance:
            for checked in _run(targets, settings, min(jobs, -(-len(targets) // _CHUNK))):
                done.append(checked)
                advance(1)
    faults = [fault for checked in done for fault in checked.faults]
    if faults:
        raise InputError(faults)
    return done


def _run(targets: Sequence[Target], settings: Settings, jobs: int) -> Iterator[Checked]:
    work = partial(check_target, settings=settings)
    if jobs <= 1:
        yield from map(work, targets)
        return
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(work, targets, chunksize=_CHUNK)


def report_of(done: Sequence[Checked], *, known: int = 0, fixed: int = 0, findings: Sequence[Finding] | None = None) -> Report:
    """The report of a run; ``findings`` are those to report where a baseline holds some of them."""
    every = [finding for checked in done for finding in checked.findings]
    return Report(
        command="check",
        files=tuple(STDIN if checked.target.graph == "-" else checked.target.graph for checked in done),
        findings=tuple(every if findings is None else findings),
        rules=tuple(rule.info for rule in RULES.values()),
        ignored=sum(checked.suppressed for checked in done),
        known=known,
        fixed=fixed,
    )
