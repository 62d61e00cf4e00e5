"""Run a command for every model of a fleet and yield the results."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress

import msgspec

from graphshare.checkpoint.folder import Sieve
from graphshare.errors import Fault, UsageError
from graphshare.files.paths import find_stdout_faults
from graphshare.files.staged_file import may_overwrite
from graphshare.fleet.listing import list_models
from graphshare.fleet.manifest import Manifest
from graphshare.fleet.records import FleetModel, Killed, Result, Run, Task
from graphshare.fleet.slots import run_in_slots
from graphshare.fleet.tasks import (
    Template,
    make_task,
    note_exports,
    refuse_collisions,
    refuse_escapes,
    refuse_template,
)
from graphshare.fleet.work import make_unfinished
from graphshare.resources import parse_size
from graphshare.text.format import format_count
from graphshare.text.summary import MOST_ROWS, ShortRepr, Table, format_html
from graphshare.text.urls import is_url


class FleetOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a fleet: the folder of outputs, where and how many tasks run, repetitions, and
    limits per model.

    ``prepare`` is called once in each worker. ``time_limit`` is in seconds, ``max_memory`` in bytes
    or as ``2G``.
    """

    out: str = ""
    jobs: int = 1
    scheduler: str = ""
    shared_filesystem: bool = False
    manifest: str = ""
    retry: bool = False
    force: bool = False
    exclude: Sequence[str] = ()
    time_limit: float | None = None
    max_memory: str | int | None = None


class FleetRun(ShortRepr):
    """An iterator over the results of a run, as models finish; ``total`` is their number.

    ``template`` is the command, ``out`` the folder of the outputs; ``notes`` list the files skipped
    in folders.

    Nothing runs before the first result is requested. :meth:`close`, the end of a ``with`` block
    and the deletion of the iterator end the run early; running models are left without outputs, and
    another run with the same manifest repeats them.
    """

    def __init__(
        self,
        template: Template,
        out: str,
        total: int,
        results: Generator[Result, None, None],
        manifest: Manifest | None,
        notes: Sequence[str],
        *,
        is_new: bool = False,
    ) -> None:
        """``is_new``: the folder ``out`` did not exist before."""
        self._is_new = is_new
        self.template = template
        self.out = out
        self.total = total
        self.notes = notes
        self._results = results
        self._manifest = manifest
        self._counts: Counter[str] = Counter()
        # Rows of finished results, and of all others
        self._rows: dict[bool, list[tuple[str, ...]]] = {True: [], False: []}

    def _summary(self) -> str:
        counts = "".join(f", {count:,} {answer}" for answer, count in self._counts.items())
        return (
            f"{' '.join(self.template.words)}: {self._counts.total():,} of "
            f"{format_count(self.total, 'model')}{counts}"
        )

    def _repr_html_(self) -> str:
        """Unfinished results come first."""
        rows = [*self._rows[False], *self._rows[True]][:MOST_ROWS]
        return format_html(
            self._summary(), tables=[Table(("model", "result", "seconds", "reason"), rows)]
        )

    def __iter__(self) -> Iterator[Result]:
        return self

    def __next__(self) -> Result:
        try:
            result = next(self._results)
        except StopIteration:
            self.close()
            raise
        self._counts[result.result] += 1
        rows = self._rows[bool(result)]
        if len(rows) < MOST_ROWS:
            rows.append((result.source, result.result, f"{result.seconds:.3g}", result.reason))
        return result

    def __enter__(self) -> FleetRun:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """End the run and its workers, and release the manifest."""
        self._results.close()
        if self._is_new and self._counts.keys() - {"done"}:
            # Each task creates the folder of its outputs, and leaves it empty if its command fails.
            for folder, *_ in os.walk(self.out, topdown=False):
                with suppress(OSError):  # a folder with outputs is not removed
                    os.rmdir(folder)
        if self._manifest is not None:
            self._manifest.close()


def foreach(
    patterns: Sequence[str],
    template: Template,
    run: Run,
    settings: FleetOptions,
    *,
    prepare: Callable[[], None],
) -> FleetRun:
    """List the models that match ``patterns``, refuse runs that must fail, and return the run.

    ``run`` and ``prepare`` are module-level functions, so that worker processes can import them.

    Raises as :func:`graphshare.foreach`.
    """
    _refuse_settings(settings, patterns)
    refuse_template(template, settings.out)
    size = (
        parse_size(settings.max_memory)
        if isinstance(settings.max_memory, str)
        else settings.max_memory
    )
    sieve = Sieve(settings.exclude)
    models = list_models(patterns, sieve, kinds=template.kinds)
    template = note_exports(template, models) if template.outputs else template
    refuse_escapes(template, models, settings.out)
    refuse_collisions(template, models, settings.out)
    manifest = Manifest(settings.manifest) if settings.manifest else None

    # A killed run leaves objects that its manifest does not list.
    overwrite = may_overwrite() or (manifest is not None and manifest.is_continued)
    # Workers of a cluster start in folders of their own.
    folder = os.getcwd() if settings.scheduler else ""

    def make(model: FleetModel) -> Task:
        task = make_task(template, model, settings.out)
        limits = {"time_limit": settings.time_limit, "max_memory": size}
        return msgspec.structs.replace(task, **limits, folder=folder, overwrite=overwrite)

    if settings.retry and manifest is not None:
        models = [model for model in models if manifest.has_failed(make(model))]
    is_new = bool(settings.out) and not is_url(settings.out) and not os.path.exists(settings.out)
    results = _Runner(run, prepare, settings, manifest).run_all(map(make, models))
    return FleetRun(
        template, settings.out, len(models), results, manifest, tuple(sieve.notes()), is_new=is_new
    )


def _refuse_settings(settings: FleetOptions, patterns: Sequence[str]) -> None:
    faults = [
        *find_stdout_faults(settings.out, "the outputs of models", "name a folder with `out`"),
        *find_stdout_faults(settings.manifest, "a manifest", "name a file with `manifest`"),
    ]
    if settings.retry and not settings.manifest:
        faults.append(
            Fault(
                "`retry` needs a manifest, which lists the models that have failed",
                hint="name it with `manifest=FILE`",
            )
        )
    if settings.retry and settings.force:
        faults.append(Fault("`retry` and `force` cannot be combined", hint="leave out one of them"))
    if settings.shared_filesystem and not settings.scheduler:
        faults.append(
            Fault(
                "`shared_filesystem` has no effect without a cluster",
                hint="add `scheduler='tcp://HOST:8786'`, or leave it out",
            )
        )
    if settings.scheduler and not settings.shared_filesystem:
        local = [path for path in (*patterns, settings.out) if path and not is_url(path)]
        hint = (
            "add `shared_filesystem` if they see the same files under the same paths, or name URLs"
        )
        faults += [
            Fault(
                "is a local path, which the workers of a cluster may not see", where=path, hint=hint
            )
            for path in local
        ]
    if faults:
        raise UsageError(faults)


class _Runner(msgspec.Struct, frozen=True):
    """The function, its preparation in a worker, the options, and earlier results."""

    run: Run
    prepare: Callable[[], None]
    settings: FleetOptions
    manifest: Manifest | None

    def run_all(self, tasks: Iterator[Task]) -> Generator[Result, None, None]:
        """Yield earlier results of unchanged models, then new ones; tasks that killed a worker
        rerun alone.
        """
        skipped: list[Result] = []

        def pending() -> Iterator[Task]:
            for task in tasks:
                earlier = (
                    None
                    if self.manifest is None or self.settings.force
                    else self.manifest.find_finished(task)
                )
                if earlier is None:
                    yield task
                else:
                    skipped.append(earlier)

        killed: list[Task] = []
        with closing(self._start(pending(), self.settings.jobs)) as outcomes:
            for task, outcome in outcomes:
                # The generator of tasks meets finished models on its way.
                yield from _drain(skipped)
                if isinstance(outcome, Killed) and not outcome.timed_out:
                    killed.append(task)
                    self._note(make_unfinished(task, "killed", outcome.reason))
                    continue
                yield self._note(
                    make_unfinished(task, "failed", outcome.reason)
                    if isinstance(outcome, Killed)
                    else outcome
                )
            yield from _drain(skipped)
        for task in killed:  # once more, alone
            with closing(self._start(iter([task]), 1)) as outcomes:
                for _, outcome in outcomes:
                    if isinstance(outcome, Killed):
                        outcome = make_unfinished(
                            task, "failed", f"{outcome.reason}; it failed again when run alone"
                        )
                    yield self._note(outcome)

    def _note(self, result: Result) -> Result:
        if self.manifest is not None:
            self.manifest.append(result)
        return result

    def _start(
        self, tasks: Iterator[Task], jobs: int
    ) -> Generator[tuple[Task, Result | Killed], None, None]:
        if self.settings.scheduler:
            from graphshare.fleet.cluster import run_on_cluster  # few runs need a cluster

            return run_on_cluster(tasks, self.run, self.settings.scheduler)
        return run_in_slots(tasks, self.run, self.prepare, jobs)


def _drain(results: list[Result]) -> Iterator[Result]:
    while results:
        yield results.pop(0)
