"""Records of a fleet run: models, tasks for workers, and results (the lines of a manifest)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from graphshare.errors import Fault, GraphshareError
from graphshare.files.byte_source import ListedFile
from graphshare.reports.model import Level
from graphshare.text.urls import is_url, split_url

_MOST_FINDINGS = 3  # findings that the reason of a result names

Answer = Literal["done", "no", "failed", "killed"]
"""The task is done or holds; the answer is no; it could not be answered; or the worker process
ended.
"""


# gc=False: the garbage collector need not visit a million of these.
class FleetModel(msgspec.Struct, frozen=True, gc=False):
    """A graph file and its parameter file (empty for none), or a checkpoint folder as ``graph``.

    ``listed`` and ``listed_params`` are entries in a listing of URLs. ``start`` is the offset in
    ``graph`` of the path below the pattern's folder.
    """

    graph: str
    params: str
    start: int
    listed: ListedFile | None = None
    listed_params: ListedFile | None = None

    @property
    def relative(self) -> str:
        """The path of the graph below the pattern's folder, without a URL's query."""
        if not is_url(self.graph):
            return self.graph[self.start :]
        return split_url(self.graph).path[self.start :].removesuffix("/")


def is_checkpoint(path: str) -> bool:
    """Whether a model's path names a checkpoint folder; at a URL such a path ends with a slash."""
    return not split_url(path).name if is_url(path) else os.path.isdir(path)


class Task(msgspec.Struct, frozen=True):
    """One command for one model, ready to run in any process.

    The ``outputs`` are below ``out``. With ``folder`` relative paths start there. ``command`` is as
    the user wrote it. With ``has_report`` stdout is JSON. ``overwrite`` lets outputs replace
    existing objects at URLs.
    """

    model: FleetModel
    words: tuple[str, ...]
    outputs: tuple[str, ...]
    command: tuple[str, ...]
    out: str = ""
    has_report: bool = False
    time_limit: float | None = None
    max_memory: int | None = None
    folder: str = ""
    overwrite: bool = False


class Captured(msgspec.Struct, frozen=True):
    """A command's exit code, its output, and the ``faults`` among its messages."""

    code: int
    stdout: bytes
    stderr: str
    faults: Sequence[Fault] = ()


Run = Callable[[Sequence[str]], Captured]
"""Runs a command in this process. It is pickled for worker processes, so it is a module-level
function.
"""


class FileState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The identity of a file's content: its size and SHA-256, or the tag of an object store.

    A checkpoint folder would take minutes to read, so its tag is a digest of names, sizes and
    times. ``modified`` is in nanoseconds; if it and the size are unchanged, a local file is not
    read again.
    """

    source: str
    size: int
    sha256: str = ""
    etag: str = ""
    modified: int = 0


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome for one model, a line of the manifest.

    ``source``, ``size`` and the rest describe the graph, ``params`` its parameter file. ``code`` is
    the exit code, ``figures`` are numbers from the report and the run, and ``report`` is the
    printed JSON. ``was_skipped`` marks an earlier result of an unchanged model; it is not in the
    manifest.
    """

    source: str
    size: int = -1
    sha256: str = ""
    etag: str = ""
    modified: int = 0
    params: FileState | None = None
    command: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    result: Answer
    code: int | None = None
    seconds: float = 0.0
    figures: dict[str, float] = {}
    error: str = ""
    report: msgspec.Raw = msgspec.Raw(b"null")
    was_skipped: bool = False

    def __bool__(self) -> bool:
        return self.result == "done"

    @property
    def verdict(self) -> str:
        """The report's own verdict, empty if it has none."""
        return self.summary.verdict or ""

    @property
    def reason(self) -> str:
        """The error, the report's verdict, or its first findings."""
        findings = self.summary.findings
        errors = [finding.message for finding in findings if finding.level is Level.ERROR]
        messages = errors or [finding.message for finding in findings]
        more = (
            f"; and {len(messages) - _MOST_FINDINGS:,} more"
            if len(messages) > _MOST_FINDINGS
            else ""
        )
        return self.error or self.verdict or "; ".join(messages[:_MOST_FINDINGS]) + more

    @property
    def summary(self) -> ReportSummary:
        """The known fields of the report, none if it has a different form."""
        try:
            return msgspec.json.decode(self.report, type=ReportSummary)
        except (ValueError, RecursionError):
            return ReportSummary()


class ReportedFinding(msgspec.Struct, frozen=True):
    """A finding of ``check``."""

    level: Level
    message: str
    code: str = ""
    file: str = ""
    path: str = ""
    node: str | None = None
    line: int | None = None
    column: int | None = None
    hint: str = ""


class ReportedStage(msgspec.Struct, frozen=True):
    """A stage of ``verify``."""

    name: str
    verdict: str
    summary: str
    details: tuple[str, ...] = ()


class ReportedBranch(msgspec.Struct, frozen=True):
    """A branch of ``verify``."""

    branch: str
    stages: tuple[ReportedStage, ...] = ()


class ReportSummary(msgspec.Struct, frozen=True):
    """The parts of a report that summarize it."""

    verdict: str | None = None
    findings: tuple[ReportedFinding, ...] = ()
    branches: tuple[ReportedBranch, ...] = ()
    structure: str = ""
    weights: str | None = None


class Killed(msgspec.Struct, frozen=True):
    """The worker ended before its task; ``timed_out`` if the time limit ended it."""

    reason: str
    timed_out: bool = False


class SchedulerError(GraphshareError):
    """A cluster cannot be used or is gone; models missing from the manifest are left for another run."""
