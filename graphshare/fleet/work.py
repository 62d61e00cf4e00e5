"""The work on one model: fingerprint its files, run the command in this process, measure the run."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

import msgspec
from msgspec.structs import replace

from graphshare.errors import Fault, GraphshareError, InputError
from graphshare.files.atomic import find_place, refusing_links
from graphshare.files.byte_source import ListedFile, hash_pieces
from graphshare.files.leftovers import FolderMemory, remember_folders
from graphshare.files.open_source import describe_file
from graphshare.files.paths import list_remote, split
from graphshare.files.staged_file import overwriting
from graphshare.fleet.records import Answer, Captured, FileState, Result, Run, Task, is_checkpoint
from graphshare.resources import TimeUp, memory_limit, time_error, time_limit
from graphshare.text.format import escape_control, escape_surrogates, format_count, shorten
from graphshare.text.urls import is_url, redact

if sys.platform != "win32":
    import resource

# Listing a folder of 100,000 outputs for left-overs takes 30 ms: once a minute is enough
_FOLDERS = FolderMemory()
_LONGEST_ERROR = 2000  # characters
_MOST_ERRORS = 3
_MOST_FIGURES = 32  # an object of more numbers is a list by name, not counts
_PIECE = 1 << 20
_GRACE = 5.0  # seconds for a single call of native code after the limit; then the process is ended


def work(run: Run, task: Task) -> Result:
    """Run one task in this process; no exception of the command leaves it."""
    started, cpu = time.perf_counter(), time.process_time()
    graph = params = None
    try:
        with _limits(task):
            graph = _describe_state(task.model.graph, task.model.listed)
            if task.model.params:
                params = _describe_state(task.model.params, task.model.listed_params)
            with refusing_links(task.out), overwriting(task.overwrite), remember_folders(_FOLDERS):
                places = [find_place(path) for path in task.outputs if not is_url(path)]
                for folder in set(map(os.path.dirname, places)):
                    os.makedirs(folder, exist_ok=True)
                captured = run(task.words)
    except GraphshareError as error:  # a file that is gone, or a limit
        captured = Captured(2, b"", "", error.faults)
    except OSError as error:
        captured = Captured(2, b"", "", [Fault(f"{error.strerror or error}: {error.filename}")])
    except Exception as error:  # of another function: the command line reports errors itself
        message = f"this is a bug in graphshare: {type(error).__name__}: {error}"
        captured = Captured(2, b"", "", [Fault(message)])
    seconds = time.perf_counter() - started
    figures = {"cpu_seconds": round(time.process_time() - cpu, 6)}
    return _summarize(task, captured, graph, params, seconds, figures)


def _summarize(
    task: Task,
    captured: Captured,
    graph: FileState | None,
    params: FileState | None,
    seconds: float,
    figures: dict[str, float],
) -> Result:
    answers: dict[int, Answer] = {0: "done", 1: "no"}
    answer = answers.get(captured.code, "failed")
    report = _parse_report(captured.stdout) if task.has_report and answer != "failed" else None
    if report is not None:
        figures |= _find_figures(msgspec.json.decode(report))
    if graph is None:
        graph = FileState(task.model.graph, -1)
    if params is not None:
        params = replace(params, source=clean_text(params.source))
    return Result(
        source=clean_text(task.model.graph),
        size=graph.size,
        sha256=graph.sha256,
        etag=graph.etag,
        modified=graph.modified,
        params=params,
        command=tuple(map(clean_text, task.command)),
        outputs=tuple(map(clean_text, task.outputs)),
        result=answer,
        code=captured.code,
        seconds=round(seconds, 6),
        figures=figures,
        error=_describe_faults(captured, task.model.graph) if answer != "done" else "",
        report=report if report is not None else msgspec.Raw(b"null"),
    )


def make_unfinished(task: Task, answer: Answer, error: str, seconds: float = 0.0) -> Result:
    """Return the result of a task whose worker ended."""
    return Result(
        source=clean_text(task.model.graph),
        command=tuple(map(clean_text, task.command)),
        outputs=tuple(map(clean_text, task.outputs)),
        result=answer,
        seconds=seconds,
        error=clean_text(error),
    )


def clean_text(text: str) -> str:
    """Return a path or message for a manifest, without secrets of URLs; non-Unicode bytes are
    escaped.
    """
    return escape_surrogates(redact(text))


def _parse_report(stdout: bytes) -> msgspec.Raw | None:
    try:
        return msgspec.Raw(msgspec.json.format(stdout, indent=-1))
    except msgspec.DecodeError:
        return None


def _find_figures(report: object) -> dict[str, float]:
    """Return the numbers at the top level of a report and in small objects there."""
    figures: dict[str, float] = {}
    if not isinstance(report, dict):
        return figures
    for key, value in report.items():
        values = {key: value}
        if isinstance(value, dict) and len(value) <= _MOST_FIGURES:
            values |= {f"{key}.{name}": number for name, number in value.items()}
        for name, number in values.items():
            is_number = isinstance(number, int | float) and not isinstance(number, bool)
            # The version of the report's schema is not a figure.
            if is_number and name != "version":
                figures[name] = number
    return figures


def _describe_faults(captured: Captured, source: str) -> str:
    """Describe the first faults on ``source``, else all messages, without secrets of URLs."""
    texts = []
    for fault in captured.faults[:_MOST_ERRORS]:
        where = "" if fault.where == source else fault.where
        texts.append(escape_control(str(replace(fault, where=where))))
    text = "; ".join(texts) or " ".join(captured.stderr.split())
    if len(captured.faults) > _MOST_ERRORS:
        text += f"; and {format_count(len(captured.faults) - _MOST_ERRORS, 'more error')}"
    return clean_text(shorten(text, _LONGEST_ERROR))


@contextmanager
def _limits(task: Task) -> Iterator[None]:
    with (
        any_time_limit(task.time_limit),
        memory_limit(task.max_memory),
        _limit_data(task.max_memory),
    ):
        yield


@contextmanager
def _limit_data(size: int | None) -> Iterator[None]:
    """Let this process allocate ``size`` more bytes; more raises MemoryError."""
    if size is None or sys.platform != "linux":
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with open("/proc/self/statm", encoding="ascii") as file:
        # The sixth number has the pages of data and stack.
        held = int(file.read().split()[5]) * resource.getpagesize()
    bound = held + size
    if hard != resource.RLIM_INFINITY:
        bound = min(bound, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _describe_state(path: str, listed: ListedFile | None) -> FileState:
    """A complete listing describes a file at a URL. Raises InputError."""
    if is_checkpoint(path):
        return _describe_folder(path)
    if is_url(path):
        if listed is not None and listed.version and listed.size >= 0:
            return FileState(path, listed.size, etag=listed.version)
        known = describe_file(path)
        return FileState(path, known.size, etag=known.version)
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            sha256 = hash_pieces(iter(partial(file.read, _PIECE), b""))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(Fault(f"cannot be read: {reason}", where=path)) from error
    return FileState(path, status.st_size, sha256, modified=status.st_mtime_ns)


def _describe_folder(path: str) -> FileState:
    """Use the names, sizes and times (at URLs tags) of the folder's files."""
    if is_url(path):
        files = [(split(file.path)[1], file.size, file.version) for file in list_remote(path)]
    else:
        with os.scandir(path) as entries:
            stats = [(entry.name, entry.stat()) for entry in entries if entry.is_file()]
        files = [(name, status.st_size, str(status.st_mtime_ns)) for name, status in stats]
    # repr: a name may have bytes that are not UTF-8
    tag = hash_pieces([repr(sorted(files)).encode()])
    return FileState(path, sum(size for _, size, _ in files), etag=tag)


def is_unchanged(state: FileState, path: str, listed: ListedFile | None) -> bool:
    """Whether a file still has the content of ``state``; a local file is read only if its size or
    time changed.
    """
    try:
        if state.etag or is_url(path):
            now = _describe_state(path, listed)
            return bool(now.etag) and (now.size, now.etag) == (state.size, state.etag)
        status = os.stat(path)
        if status.st_size != state.size:
            return False
        if status.st_mtime_ns == state.modified:
            return True
        return _describe_state(path, None).sha256 == state.sha256
    except (OSError, InputError):
        return False


@contextmanager
def any_time_limit(seconds: float | None) -> Iterator[None]:
    """End the work inside the block after ``seconds``, in any thread, unless that is None.

    Raises:
        RefusedError: the limit has passed.
    """
    if seconds is None or threading.current_thread() is threading.main_thread():
        with time_limit(seconds):
            yield
        return
    deadline = time.monotonic() + seconds

    # Signals reach only the main thread, and a Dask worker runs tasks in a different one.
    def look(frame: FrameType, event: str, argument: object) -> None:
        if time.monotonic() > deadline:
            raise TimeUp

    watchdog = threading.Timer(seconds + _GRACE, lambda: os._exit(1))
    watchdog.daemon = True
    before = sys.getprofile()
    try:
        try:
            watchdog.start()
            # Called at each call and return in this thread: costs some tens of percent of time
            sys.setprofile(look)
            yield
        finally:
            sys.setprofile(before)  # a call, too: the limit may pass here
    except TimeUp:
        raise time_error(seconds) from None
    finally:
        watchdog.cancel()
