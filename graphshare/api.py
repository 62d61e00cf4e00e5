"""The functions of the package by the names of the commands. Import them from :mod:`graphshare` itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphshare.checkpoint.load import Checkpoint, resolve_outputs
from graphshare.checkpoint.load import load_checkpoint as load
from graphshare.checkpoint.parameter_plan import held_names, plan_records
from graphshare.checkpoint.save import write_results
from graphshare.inspection.graph import inspect
from graphshare.ir.graph import Rewrite
from graphshare.rewrite.duplicate_plan import duplicate
from graphshare.rewrite.extract_plan import extract
from graphshare.rewrite.group_plan import group
from graphshare.rewrite.rename_plan import rename, rename_by_rules
from graphshare.rewrite.rules.load import load_rules
from graphshare.rewrite.rules.model import Rule, Ruleset
from graphshare.rewrite.share import share
from graphshare.rewrite.upgrade import upgrade

if TYPE_CHECKING:
    from graphshare.verification.report import Report

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
    against: Checkpoint | None = None,
    *,
    prefixes: Sequence[str] = (),
    map_file: str | None = None,
    seed: int = 0,
    rounds: int = 1,
    atol: float = 1e-8,
    rtol: float = 1e-5,
    feeds: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int | None]] | None = None,
    params_seed: int | None = None,
    allow_unsupported: bool = False,
    train_step: bool = False,
    expect_tied: bool = False,
) -> Report:
    """Compare the branches of ``source``, or its graph with that of ``against``: structure, parameters, values, training.

    The keywords are the options of the command. The report is true when all holds; ``report.verdict`` is one line.

    Raises:
        RefusedError: the branches cannot be told apart; shapes, values or parameters are missing.
        UnsupportedError: operators without a kernel, unless ``allow_unsupported`` is set.
    """
    from graphshare.rewrite.upgrade_plan import with_implied
    from graphshare.verification.inputs import Side
    from graphshare.verification.verify import verify as verify_sides  # brings numpy along

    return verify_sides(
        Side(with_implied(source), source.params),
        None if against is None else Side(with_implied(against), against.params),
        prefixes=prefixes,
        map_file=map_file,
        seed=seed,
        rounds=rounds,
        atol=atol,
        rtol=rtol,
        feeds=feeds,
        shapes={name: tuple(shape) for name, shape in (shapes or {}).items()},
        params_seed=params_seed,
        allow_unsupported=allow_unsupported,
        train_step=train_step,
        expect_tied=expect_tied,
    )
