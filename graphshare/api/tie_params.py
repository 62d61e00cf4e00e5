"""``tie_params``: keep one copy of the arrays that a checkpoint folder ties, or restore the second."""

from __future__ import annotations

import os
from collections.abc import Collection

import msgspec

from graphshare.checkpoint.load import Names, StrPath, as_names
from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.files.atomic import OutputTransaction, make_folder, refusing_links
from graphshare.files.leftovers import TEMPORARY_START
from graphshare.files.paths import base_name, find_stdout_faults, is_folder, is_snapshot, list_names
from graphshare.formats.model_names import CONFIG
from graphshare.formats.params.shards import read_shard_folder, require_sound
from graphshare.formats.params.tie import (
    How,
    Retied,
    choose_tied,
    choose_untied,
    plan_retie,
    stage_retie,
)
from graphshare.formats.params.tied_names import find_pairs, read_statement
from graphshare.text.format import format_count, format_names
from graphshare.text.summary import ShortRepr
from graphshare.text.urls import is_url


class RetiedFolder(ShortRepr, msgspec.Struct, frozen=True):
    """The result of ``tie_params``: ``arrays`` with the names that they lose or gain, and the
    ``files`` to write.

    ``left`` are the other files of the folder; they are not copied.
    """

    source: str
    how: How
    arrays: tuple[Retied, ...]
    files: tuple[str, ...]
    left: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes that the folder loses or gains."""
        return sum(array.size for array in self.arrays)

    def _summary(self) -> str:
        return f"{self.how} {format_names([array.name for array in self.arrays])}, {format_count(self.size, 'byte')}"


def tie_params(
    folder: StrPath,
    out: StrPath | None = None,
    *,
    untie: bool = False,
    keep: Names = (),
    in_place: bool = False,
    dry_run: bool = False,
) -> RetiedFolder:
    """Write a safetensors checkpoint folder with one copy of the arrays that its architecture ties (``untie``: two).

    ``folder`` has shards, their index if there are several, and ``config.json``. The names of a pair are those that
    transformers ties for the architecture in ``config.json``. Two equal copies become one, under the name of the
    embedding unless ``keep`` has the other name; shards, index and configuration are updated consistently. Every other
    tensor keeps its bytes. ``out`` is a new folder, or one that only contains files of an earlier run; ``in_place``
    writes the shards that change in ``folder`` itself. ``dry_run`` writes nothing.

    Raises:
        InputError: a file cannot be read, or index and shards contradict each other.
        UsageError: neither or both of ``out`` and ``in_place`` are given; ``out`` is stdout.
        RefusedError: there is nothing to tie, copies differ, ``out`` has other files, or is in a model hub's cache.
        OutputError: a file cannot be written; all files are left unchanged.
    """
    path, target = os.fspath(folder), os.fspath(out) if out is not None else ""
    if not dry_run and bool(target) == in_place:
        raise UsageError(
            Fault("needs either `out` or `in_place`", hint="name a new folder for the result")
        )
    hint = "name a new folder with `out`"
    UsageError.raise_any(find_stdout_faults(target, "a folder of parameters", hint))
    if not dry_run:
        _refuse_target(path, target or path)
    shards = read_shard_folder(path)
    require_sound(shards)
    pairs, statement = find_pairs(shards), read_statement(shards)
    arrays = choose_untied(shards, pairs) if untie else choose_tied(shards, pairs, as_names(keep))
    plan = plan_retie(shards, "untie" if untie else "tie", arrays, statement)
    written = {*plan.shards, base_name(shards.index_path), CONFIG}
    if dry_run:
        return RetiedFolder(path, plan.how, plan.arrays, tuple(plan.changed))
    if not in_place:
        _refuse_others(path, target, written)
    target = target or path
    with make_folder(target), refusing_links(target), OutputTransaction() as stage:
        files = stage_retie(shards, plan, target, stage)
        stage.commit()
    others = [] if in_place else [name for name in list_names(path) if name not in written]
    return RetiedFolder(path, plan.how, plan.arrays, tuple(files), tuple(others))


def _refuse_target(path: str, target: str) -> None:
    if is_url(path) or is_url(target):
        message = "is a URL; tied folders are written on this machine"
        raise RefusedError(Fault(message, where=target, hint="copy it first"))
    folder = target if is_folder(target) else os.path.dirname(os.path.abspath(target))
    if is_snapshot(folder):
        message = "is in a model hub's cache, which is not written to"
        hint = "write it elsewhere with `out`"
        raise RefusedError(Fault(message, where=target, hint=hint))


def _refuse_others(path: str, target: str, names: Collection[str]) -> None:
    if not is_folder(target):
        return
    if os.path.samefile(path, target):
        hint = "add `in_place=True`, or name a new folder"
        raise RefusedError(Fault("is the source itself", where=target, hint=hint))
    others = [name for name in list_names(target) if name not in names]
    others = [name for name in others if not name.startswith(TEMPORARY_START)]
    if others:
        message = f"is a folder with other files in it: {format_names(others, 5)}"
        raise RefusedError(Fault(message, where=target, hint="name a new or an empty folder"))
