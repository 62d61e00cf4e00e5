"""The functions of the package by the names of the commands. Import them from :mod:`graphshare` itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphshare.ir.graph import Rewrite
from graphshare.rules.load import load_rules
from graphshare.rules.model import Rule, Ruleset
from graphshare.transforms.upgrade import upgrade
from graphshare.workflows.checkpoint import Checkpoint, resolve_outputs
from graphshare.workflows.checkpoint import load_checkpoint as load
from graphshare.workflows.duplicate import duplicate
from graphshare.workflows.extract import extract
from graphshare.workflows.group import group
from graphshare.workflows.inspect import inspect
from graphshare.workflows.parameters import held_names, plan_records
from graphshare.workflows.rename import rename, rename_by_rules
from graphshare.workflows.results import write_results
from graphshare.workflows.share import share

if TYPE_CHECKING:
    from graphshare.workflows.verify_options import Options
    from graphshare.workflows.verify_verdict import Report

__all__ = ["Rule", "Ruleset", "duplicate", "extract", "group", "inspect", "load", "load_rules", "rename", "rename_by_rules",
           "save", "share", "upgrade", "verify"]  # fmt: skip


def save(
    rewrite: Rewrite,
    source: Checkpoint,
    out: str,
    *,
    params_out: str | None = None,
    drop_unused: bool = False,
) -> None:
    """Writes a rewrite of ``source`` to ``out``, a path or a stem, and its parameters along; both or neither.

    A stem (``siam``) names both files; for a path, ``params_out`` says where parameters go. ``drop_unused`` leaves out records
    that no variable of the new graph needs.

    Raises:
        OutputError: something could not be written; what stood there before still stands.
        SelfCheckError: the result does not read back as it should.
    """
    held_names(source.params)
    outputs = resolve_outputs(out, params_out, None, source)
    params = []
    if source.params is not None:
        params.append((source.params, plan_records(source.params, rewrite, drop_unused=drop_unused)))
    write_results(rewrite.graph, outputs, params=params)


def verify(
    source: Checkpoint,
    *,
    prefixes: Sequence[str] = (),
    map_file: str | None = None,
    against: Checkpoint | None = None,
    options: Options | None = None,
) -> Report:
    """Compares the branches of ``source``, or its graph with that of ``against``: structure, parameters, values.

    Branches are told by ``prefixes``, by the map of the rewrite, or found from the outputs' names. The report is true when all
    holds; ``report.verdict`` is one line.

    Raises:
        RefusedError: the branches cannot be told apart; shapes, values or parameters are missing.
        UnsupportedError: operators without a kernel, unless ``options`` allow that.
    """
    from graphshare.workflows.branch_pairs import pair_branches, pair_files
    from graphshare.workflows.upgrade import with_implied
    from graphshare.workflows.verify import verify as compare
    from graphshare.workflows.verify_options import Side

    left = Side(with_implied(source), source.params)
    if against is None:
        return compare(pair_branches(left.graph, prefixes, map_file), left, left, options)
    right = Side(with_implied(against), against.params)
    return compare(pair_files(left.graph, right.graph), left, right, options)
