"""``check``: find what is wrong with graphs and their parameter files."""

from __future__ import annotations

import os
from collections.abc import Iterable

from graphshare.arguments import Natural, Positive
from graphshare.checkpoint.folder import Sieve
from graphshare.checkpoint.load import Names, Shapes, StrPath, as_names, as_path, as_shapes
from graphshare.checkpoint.model import Checkpoint
from graphshare.checks.check import check as check_targets
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
    """Check models, or the files that paths, stems, folders and globs name, and report every finding with its place.

    ``select`` and ``ignore`` are codes of rules, their beginnings (``GS4``) or names. The configuration is ``config``, else the
    nearest graphshare.toml or pyproject.toml unless ``isolated``. ``epoch`` and ``params`` are those of one model, as for
    :func:`load`. ``exclude`` are globs of what is left out of folders. ``fix`` first fixes in place what is safe to fix.
    Findings in the file ``baseline`` are not reported. ``jobs`` files are checked at a time. ``report.findings`` is empty, and
    ``report.exit_code()`` 0, where nothing is wrong.

    Raises:
        InputError: files that cannot be read; all are listed.
        UsageError: there is no such rule; ``params`` or ``epoch`` with several graphs.
    """
    items = [models] if isinstance(models, Checkpoint | str | os.PathLike) else list(models)
    if not items:
        raise UsageError(Fault("`models` is empty", hint="give models, paths, stems, folders or globs"))
    paths = [os.fspath(item) for item in items if not isinstance(item, Checkpoint)]
    options = check_options(config=as_path(config), isolated=isolated, select=select, ignore=ignore, shapes=shapes)
    return check_targets(
        find_targets(paths, params=as_path(params), epoch=epoch, sieve=Sieve(as_names(exclude))),
        options,
        models=[item for item in items if isinstance(item, Checkpoint)],
        jobs=jobs,
        fix=fix,
        baseline=as_path(baseline) or options.config.baseline or None,
    )


def check_options(
    *, config: str | None, isolated: bool, select: Names = (), ignore: Names = (), shapes: Shapes | None = None
) -> CheckOptions:
    """Return what holds for every file that is checked. Raises InputError for a configuration that cannot be read."""
    configuration = CheckConfig() if isolated else read_config(config) if config else find_config()
    return CheckOptions(as_names(select), as_names(ignore), configuration, as_shapes(shapes))
