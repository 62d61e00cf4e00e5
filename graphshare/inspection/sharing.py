"""``inspect DIR --shared``: arrays of equal bytes in the models of a folder, and what a pool of these would save."""

from __future__ import annotations

import os
from collections import Counter

import msgspec

from graphshare.checkpoint.folder import ModelFiles, Sieve, find_models
from graphshare.checkpoint.load import Names, StrPath, as_names, load
from graphshare.errors import GraphshareError
from graphshare.formats.model_format import Capability, find_format
from graphshare.formats.onnx.pool import Content, PoolMember, hash_members
from graphshare.progress import item_progress
from graphshare.text.summary import ShortRepr
from graphshare.text.urls import redact


class SharedArrays(ShortRepr, msgspec.Struct, frozen=True):
    """Arrays that exactly these ``models`` have with equal bytes; ``size`` counts the bytes of one copy of each."""

    models: tuple[str, ...]
    arrays: int
    size: int


class SharedWeights(ShortRepr, msgspec.Struct, frozen=True):
    """What the ONNX models of a folder have in common, the largest part first.

    ``weights`` are the bytes of all arrays of at least 1,024 bytes, ``distinct`` those of each of these arrays once: a pool
    saves the difference. ``left`` are models that cannot be read, or that no pool takes.
    """

    groups: tuple[SharedArrays, ...]
    weights: int
    distinct: int
    left: tuple[str, ...]


def inspect_shared(folder: StrPath, *, exclude: Names = ()) -> SharedWeights:
    """Find arrays of equal bytes in the ONNX models below ``folder``, and what a pool of these models would save.

    All weights are read. ``exclude`` are globs of what is left out.

    Raises:
        InputError: there is no model; folders cannot be read.
    """
    return find_shared(find_models(os.fspath(folder), Sieve(as_names(exclude))))


def find_shared(models: list[ModelFiles]) -> SharedWeights:
    """Return what models have in common, by the bytes of their arrays; one model is in memory at a time."""
    users: dict[Content, dict[str, None]] = {}
    counts: Counter[Content] = Counter()
    left = []
    for files in item_progress(models, "reading", "models"):
        path = redact(files.graph)
        try:
            model = load(files.graph)
            if not find_format(model.graph).supports(Capability.POOL):
                left.append(path)
                continue
            member = PoolMember(model.graph, model.parameter_file, "")
            hash_members([member])
        except GraphshareError:
            left.append(path)
            continue
        for content in member.contents.values():
            users.setdefault(content, {})[path] = None
            counts[content] += 1
    sizes: dict[tuple[str, ...], list[int]] = {}
    for content, paths in users.items():
        if counts[content] > 1:
            sizes.setdefault(tuple(paths), []).append(content.size)
    groups = [SharedArrays(paths, len(each), sum(each)) for paths, each in sizes.items()]
    return SharedWeights(
        tuple(sorted(groups, key=lambda group: -group.size * len(group.models))),
        sum(content.size * count for content, count in counts.items()),
        sum(content.size for content in counts),
        tuple(left),
    )
