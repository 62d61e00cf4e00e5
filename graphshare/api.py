"""The functions of the package by the names of the commands. Import them from :mod:`graphshare` itself."""

from __future__ import annotations

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

__all__ = ["Rule", "Ruleset", "duplicate", "extract", "group", "inspect", "load", "load_rules", "rename", "rename_by_rules",
           "save", "share", "upgrade"]  # fmt: skip


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
