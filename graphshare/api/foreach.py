"""``foreach``: run a command of the command line for every model that matches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module

from graphshare.arguments import Natural, Positive, Seconds
from graphshare.checkpoint.load import Names, StrPath, as_names
from graphshare.files.paths import as_paths
from graphshare.fleet.foreach import FleetOptions, FleetRun
from graphshare.fleet.foreach import foreach as run_fleet

_COMMANDS = "graphshare.cli.fleet"
"""The name of the module that runs commands.

Workers import it by name, so that nothing here depends on the command line.
"""


def foreach(
    patterns: StrPath | Sequence[StrPath],
    command: Sequence[str],
    *,
    out: StrPath | None = "",
    jobs: Positive = 1,
    scheduler: str = "",
    shared_filesystem: bool = False,
    manifest: StrPath | None = None,
    retry: bool = False,
    force: bool = False,
    exclude: Names = (),
    time_limit: Seconds | None = None,
    max_memory: Natural | str | None = None,
) -> FleetRun:
    """Run a command for every model that matches, and return the run, an iterator over the results.

    ``patterns`` are globs, stems, folders or paths; a checkpoint folder is one model, where a
    command takes it. ``command`` are the words of a command; ``{}`` stands for the model,
    ``{stem}`` for its path without ``-symbol.json``, ``{name}`` for the last part of that path.
    Outputs go to ``out``, at the model's path relative to the fixed part of its pattern. Up to
    ``jobs`` worker processes run at a time, or with ``scheduler`` the workers of a Dask cluster;
    ``shared_filesystem`` states that they see the same files under the same paths. ``manifest`` is
    a file of JSON lines: unchanged models that it lists as finished are not run again, unless
    ``force`` is set; with ``retry`` only failed models are run. ``time_limit`` (seconds) and
    ``max_memory`` (bytes, or a text such as ``2G``) apply to each model. ``exclude`` are globs of
    files to skip in folders.

    Raises:
        InputError: a pattern matches no model, or the manifest cannot be read.
        RefusedError: two models would be written to one place, one in place of an input, or one
            outside of ``out``.
        UsageError: the command or the options are invalid.
    """
    settings = FleetOptions(
        out=os.fspath(out or ""), jobs=jobs, scheduler=scheduler, shared_filesystem=shared_filesystem,
        manifest=os.fspath(manifest or ""), retry=retry, force=force, exclude=as_names(exclude),
        time_limit=time_limit, max_memory=max_memory,
    )  # fmt: skip
    line = import_module(_COMMANDS)
    return run_fleet(
        as_paths(patterns),
        line.make_template(command),
        line.run_captured,
        settings,
        prepare=line.prepare_worker,
    )
