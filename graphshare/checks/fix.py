"""``check --fix``: what is safe to mend, written in place or shown as a difference."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff

import msgspec

from graphshare.checks.check import Settings, subject_of
from graphshare.checks.document import BOM
from graphshare.checks.fixes import fixed_graph, fixed_records
from graphshare.checks.run import check_subject
from graphshare.checks.targets import Target
from graphshare.errors import Fault, UsageError
from graphshare.formats.atomic import staged_outputs
from graphshare.formats.params.records import Record

MAX_DIFFED = 1 << 22  # bytes of a file whose lines are compared


class Fix(msgspec.Struct, frozen=True, eq=False):
    """New contents for the files of a target; None for one that stays. ``before`` are the graph file's bytes as they are."""

    target: Target
    before: bytes
    graph: bytes | None
    records: list[tuple[Record, str | None]] | None

    def __bool__(self) -> bool:
        return self.graph is not None or self.records is not None


def plan_fixes(targets: Sequence[Target], settings: Settings) -> list[Fix]:
    """What can be mended in the targets, those left out in which nothing can.

    Raises:
        InputError: a graph file cannot be read.
        UsageError: standard input is among them.
    """
    if any(target.graph == "-" for target in targets):
        raise UsageError(Fault("--fix writes files in place, and standard input is none", hint="name a file"))
    return [fix for target in targets if (fix := _plan(target, settings))]


def _plan(target: Target, settings: Settings) -> Fix:
    subject = subject_of(target, settings)
    findings, _ = check_subject(subject, settings.codes_for(subject.where))
    codes = {finding.code for finding in findings if finding.fixable}
    graph = fixed_graph(subject, codes)
    return Fix(target, subject.data, graph if graph != subject.data else None, fixed_records(subject, codes))


def apply_fix(fix: Fix) -> None:
    """Writes a fix, graph and parameter file together or neither. Raises OutputError, and then all is as it was."""
    with staged_outputs() as stage:
        if fix.graph is not None:
            stage.open(fix.target.graph).write(fix.graph)
        if fix.records is not None:
            from graphshare.formats.params.convert import stage_params
            from graphshare.formats.params.registry import read_index

            source = read_index(fix.target.params)
            stage_params([(source, fix.records)], stage, fix.target.params)
        stage.commit()


def fix_lines(fix: Fix) -> list[str]:
    """What a fix changes: a unified diff of the graph file, and the keys of records that change."""
    lines: list[str] = []
    path = fix.target.graph
    if fix.graph is not None:
        if max(len(fix.before), len(fix.graph)) > MAX_DIFFED:
            lines.append(f"{path}: would be written anew ({len(fix.before):,} bytes, then {len(fix.graph):,})")
        else:
            before, after = (_lines(data) for data in (fix.before, fix.graph))
            lines += [line.rstrip("\n") for line in unified_diff(before, after, path, path, n=1)]
    for record, key in fix.records or ():
        if key != record.key:
            lines += [f"--- {fix.target.params}", f"+++ {fix.target.params}", f"-{record.key}", f"+{key}"]
    return lines


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "backslashreplace")
    return text.replace("\ufeff", "\\ufeff", 1).split("\n") if data.startswith(BOM) else text.split("\n")
