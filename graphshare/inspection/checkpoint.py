"""``inspect FOLDER`` of a checkpoint folder: shards, tensors and ties, from headers only."""

from __future__ import annotations

import os
from collections import Counter
from typing import Literal

import msgspec

from graphshare.checkpoint.load import StrPath
from graphshare.errors import Fault
from graphshare.formats.params.records import element_count
from graphshare.formats.params.safetensors import name_dtype
from graphshare.formats.params.shards import Kind, find_faults, read_shard_folder, require_sound
from graphshare.formats.params.tied_names import (
    TiedPair,
    find_pairs,
    list_architectures,
    read_statement,
)
from graphshare.text.format import format_count
from graphshare.text.summary import ShortRepr
from graphshare.text.urls import redact

_HARMLESS: tuple[Kind, ...] = ("index", "twice", "empty", "unlisted")
"""Faults of a folder whose tensors can still be counted."""


class StatedTie(msgspec.Struct, frozen=True):
    """Two names that the architecture ties: ``name`` (for example the output layer's) and ``kept``
    (the embedding's).

    ``stored`` is ``once`` if only one name is stored, ``twice`` if both are with the same dtype and
    shape (headers do not tell whether they are equal), else ``unlike``. ``size`` is the size of the
    second copy in bytes, or 0.
    """

    name: str
    kept: str
    stored: Literal["once", "twice", "unlike"]
    size: int


class CheckpointFacts(ShortRepr, msgspec.Struct, frozen=True):
    """A summary of the headers in a checkpoint folder.

    ``tied`` is the configuration's statement on ties, None if it is absent or contradictory;
    ``statement`` quotes its place. ``index`` is the name of the index, or None. ``tensors`` counts
    the names that a loader finds, ``numbers`` their elements, ``size`` their bytes; ``dtypes`` has
    the bytes by dtype. ``remarks`` are the faults of index and shards.
    """

    folder: str
    architectures: tuple[str, ...]
    tied: bool | None
    statement: str
    ties: tuple[StatedTie, ...]
    index: str | None
    shards: int
    tensors: int
    numbers: int
    size: int
    dtypes: dict[str, int]
    remarks: tuple[Fault, ...]

    @property
    def generation(self) -> str:
        """A short description of the folder."""
        return f"checkpoint of {format_count(self.shards, 'shard')}, {self.statement}"


def inspect_checkpoint(folder: StrPath) -> CheckpointFacts:
    """Summarize a checkpoint folder of safetensors files from their headers; no tensor is read.

    ``folder`` has the files, their index if there are several, and ``config.json``.

    Raises:
        InputError: the folder has no safetensors file, or a file of it cannot be read.
    """
    path = os.fspath(folder)
    shards = read_shard_folder(path)
    require_sound(shards, allow=_HARMLESS)
    entries = [entry for _, entry in shards.list_tensors().values()]
    dtypes: Counter[str] = Counter()
    for entry in entries:
        dtypes[name_dtype(entry.dtype)] += entry.size
    statement = read_statement(shards)
    return CheckpointFacts(
        folder=redact(shards.path),
        architectures=tuple(list_architectures(shards)),
        tied=statement.tied,
        statement=str(statement),
        ties=tuple(map(_describe, find_pairs(shards))),
        index=os.path.basename(redact(shards.index_path)) or None,
        shards=len(shards.shards),
        tensors=len(entries),
        numbers=sum(element_count(entry.shape) for entry in entries),
        size=sum(entry.size for entry in entries),
        dtypes=dict(dtypes.most_common()),
        remarks=tuple(fault for _, fault in find_faults(shards)),  # of the kinds above
    )


def _describe(pair: TiedPair) -> StatedTie:
    return StatedTie(
        pair.name, pair.kept, pair.stored, pair.first[1].size if pair.first and pair.second else 0
    )
