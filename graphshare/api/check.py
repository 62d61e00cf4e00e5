"""``check``: run rules on models and files."""

from __future__ import annotations

import os
from collections.abc import Iterable

from graphshare.arguments import Natural, Positive
from graphshare.checkpoint.folder import Sieve
from graphshare.checkpoint.load import Names, Shapes, StrPath, as_names, as_path, as_shapes
from graphshare.checkpoint.model import Checkpoint
from graphshare.checks.check_files import check_files
from graphshare.checks.config import CheckConfig, CheckOptions, find_config, read_config
from graphshare.checks.targets import find_targets
from graphshare.errors import Fault, UsageError
from graphshare.reports.model import FindingsReport

Checkable = Checkpoint | StrPath


def check(
    models: Checkable | Iterable[Checkable],
    *,
    epoch: Natural | None = None,
    params: StrPath | None = None,
    shapes: Shapes | None = None,
    select: Names = (),
    ignore: Names = (),
    config: StrPath | None = None,
    isolated: bool = False,
    exclude: Names = (),
    fix: bool = False,
    baseline: StrPath | None = None,
    jobs: Positive = 1,
) -> FindingsReport:
    """Check models, or files named by paths, stems, folders and globs, and report every finding
    with its place.

    ``select`` and ``ignore`` are codes of rules, their beginnings (``GS4``) or names. The
    configuration is ``config``, else the nearest graphshare.toml or pyproject.toml unless
    ``isolated``. ``epoch`` and ``params`` apply to a single model, as for :func:`load`. ``exclude``
    are globs of files to skip in folders. ``fix`` first fixes, in place, all findings that are safe
    to fix. Findings in the file ``baseline`` are not reported. ``jobs`` files are checked at a
    time. If nothing is wrong, ``report.findings`` is empty and ``report.exit_code()`` is 0;
    ``report.unchecked`` has the files that no rule looks at, with reasons.

    Raises:
        InputError: files cannot be read; all are listed.
        UsageError: there is no such rule, or ``params`` or ``epoch`` are given with several graphs.
    """
    items = [models] if isinstance(models, Checkpoint | str | os.PathLike) else list(models)
    if not items:
        raise UsageError(
            Fault("`models` is empty", hint="give models, paths, stems, folders or globs")
        )
    paths = [os.fspath(item) for item in items if not isinstance(item, Checkpoint)]
    options = make_check_options(
        config=as_path(config), isolated=isolated, select=select, ignore=ignore, shapes=shapes
    )
    return check_files(
        find_targets(paths, params=as_path(params), epoch=epoch, sieve=Sieve(as_names(exclude))),
        options,
        models=[item for item in items if isinstance(item, Checkpoint)],
        jobs=jobs,
        fix=fix,
        baseline=as_path(baseline) or options.config.baseline or None,
    )


def make_check_options(
    *,
    config: str | None,
    isolated: bool,
    select: Names = (),
    ignore: Names = (),
    shapes: Shapes | None = None,
) -> CheckOptions:
    """Return the options shared by all files. Raises InputError if the configuration cannot be
    read.
    """
    configuration = CheckConfig() if isolated else read_config(config) if config else find_config()
    return CheckOptions(as_names(select), as_names(ignore), configuration, as_shapes(shapes))
