"""Read a checkpoint folder: safetensors files (shards), their index, and the model's configuration.

``model.safetensors.index.json`` names the file of each tensor, and the bytes of all of them::

    {"metadata": {"total_size": 28000}, "weight_map": {"<tensor>": "<file in this folder>", ...}}

Without an index the tensors come from ``model.safetensors``, else from every ``.safetensors`` file.
Only headers are read.

A name in an index is never a path. A shard may be a link only within the folder, or, in a snapshot
of a model hub's cache, into that cache's ``blobs``.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.files.open_source import open_source
from graphshare.files.paths import find_blobs, is_folder, join, list_names
from graphshare.formats.model_names import CONFIG, INDEX_END, SHARD_END, has_shards
from graphshare.formats.params.records import Origin, ParameterFile, Record, format_record
from graphshare.formats.params.safetensors import (
    FORMAT,
    Header,
    TensorEntry,
    find_misfit,
    index_header,
    read_header,
)
from graphshare.text.format import format_count, format_names
from graphshare.text.urls import is_url

_SINGLE = "model.safetensors"
_MOST_TEXT = 100_000_000  # bytes of an index or a configuration, as of a header
_LISTED = 20  # faults of one kind

Kind = Literal["unreadable", "index", "twice", "empty", "unlisted"]
_SOUND: tuple[Kind, ...] = ("unlisted",)  # no loader looks for such a tensor


class ShardFolder(msgspec.Struct, frozen=True):
    """A checkpoint folder. ``shards`` are the readable headers by file name, in order.

    ``others`` are headers outside of the index, read only if it misses a tensor. ``index`` is JSON,
    None without one, ``weight_map`` its names of tensors and files, and ``config`` the
    configuration with its text. ``unreadable`` are the faults of files.
    """

    path: str
    index_path: str
    index: dict[str, Any] | None
    weight_map: dict[str, str]
    shards: dict[str, Header]
    others: dict[str, Header]
    config: dict[str, Any]
    config_text: str
    unreadable: tuple[Fault, ...]

    @property
    def config_path(self) -> str:
        return join(self.path, CONFIG)

    def list_tensors(self) -> dict[str, tuple[Header, TensorEntry]]:
        """Return the tensors that a loader finds, each with its shard."""
        tensors: dict[str, tuple[Header, TensorEntry]] = {}
        for name, header in self.shards.items():
            for key, entry in header.entries.items():
                if self.index is None or self.weight_map.get(key) == name:
                    tensors.setdefault(key, (header, entry))
        return {key: tensor for key, tensor in tensors.items() if not _is_empty(key, tensor[1])}


def is_shard_folder(path: str) -> bool:
    """Whether a folder holds a checkpoint. Raises InputError for one that cannot be read."""
    return is_folder(path) and has_shards(_list_names(path))


def read_shard_folder(path: str) -> ShardFolder:
    """Read a checkpoint folder; faults of files in it are in the result.

    Raises:
        InputError: the folder itself cannot be read.
    """
    names = _list_names(path)
    faults: list[Fault] = []
    present = [name for name in names if name.endswith(SHARD_END)]
    index_path, index = "", None
    weight_map: dict[str, str] = {}
    files = [_SINGLE] if _SINGLE in names else present
    index_name = _choose_index(names)
    if index_name:
        index_path = join(path, index_name)
        index, weight_map = _read_index(path, index_name, faults)
        files = list(dict.fromkeys(weight_map.values()))
    shards = _read_headers(path, files, faults)
    lost = any(
        name in shards and key not in shards[name].entries for key, name in weight_map.items()
    )
    others: dict[str, Header] = {}
    if lost:
        others = _read_headers(path, [name for name in present if name not in files], [])
    text: str = ""
    config: dict[str, Any] = {}
    if CONFIG in names:
        text, config = _read_json(path, CONFIG, faults)
    return ShardFolder(
        path,
        index_path,
        index,
        weight_map,
        shards,
        others,
        config,
        text,
        tuple(faults),
    )


def _choose_index(names: Collection[str]) -> str:
    """Return the name of the index that loaders read; they prefer a single file."""
    if _SINGLE in names:
        return ""
    usual = f"model{INDEX_END}"  # comes before the names of variants
    return min(
        (name for name in names if name.endswith(INDEX_END)),
        key=lambda name: name != usual,
        default="",
    )


def _read_headers(folder: str, names: Iterable[str], faults: list[Fault]) -> dict[str, Header]:
    """Add the faults of unreadable shards to ``faults``."""
    headers: dict[str, Header] = {}
    for name in names:
        try:
            with open_source(_locate(folder, name)) as source:
                headers[name] = read_header(source)
        except InputError as error:
            faults += error.faults
    return headers


def _list_names(folder: str) -> list[str]:
    try:
        return list_names(folder)
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror}", where=folder)) from error


def _locate(folder: str, name: str) -> str:
    """Return the path of a file that lies in the folder by name and links. Raises InputError."""
    path = join(folder, name)
    separators = "/\\\0:%?#" if is_url(folder) else "/\\\0:"  # a server may unquote a name
    if not name or name in (os.curdir, os.pardir) or any(c in name for c in separators):
        hint = "an index names files of its own folder; write the name alone"
        message = f"the index names the file {name[:200]!r}, which is a path"
        raise InputError(Fault(message, where=folder, path="$.weight_map", hint=hint))
    if not is_url(path) and os.path.islink(path):
        root, place = os.path.realpath(folder), os.path.realpath(path)
        if os.path.dirname(place) not in (root, find_blobs(folder)):
            hint = "put a copy of the file in place of the link"
            raise InputError(
                Fault(
                    "is a link that leads out of the folder, which is not followed",
                    where=path,
                    hint=hint,
                )
            )
    return path


def _read_json(folder: str, name: str, faults: list[Fault]) -> tuple[str, dict[str, Any]]:
    """Return a file's text and object; both are empty after an error, added to ``faults``."""
    try:
        with open_source(_locate(folder, name)) as source:
            if source.size > _MOST_TEXT:
                message = (
                    f"has {format_count(source.size, 'byte')}; at most {_MOST_TEXT:,} are read"
                )
                raise InputError(Fault(message, where=source.name))
            data = source.read_at(0, source.size)
        text = data.decode("utf-8")
        return text, msgspec.json.decode(data, type=dict[str, Any])
    except InputError as error:
        faults += error.faults
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        faults.append(
            Fault(f"is not a JSON object that can be read: {error}", where=join(folder, name))
        )
    return "", {}


def _read_index(
    folder: str, name: str, faults: list[Fault]
) -> tuple[dict[str, Any], dict[str, str]]:
    _, index = _read_json(folder, name, faults)
    try:
        return index, msgspec.convert(index.get("weight_map", {}), dict[str, str])
    except msgspec.ValidationError as error:
        faults.append(
            Fault(
                f"has a weight_map that does not map names to files: {error}",
                where=join(folder, name),
            )
        )
        return index, {}


def _is_empty(key: str, entry: TensorEntry) -> bool:
    """Whether a weight has no elements, as if another process of a group owned it; other arrays may
    have none.
    """
    return not entry.dtype or (
        0 in entry.shape and (len(entry.shape) > 1 or key.endswith(".weight"))
    )


def find_faults(folder: ShardFolder) -> Iterator[tuple[Kind, Fault]]:
    """Yield the faults of a folder's files, each with its kind; unlisted tensors are harmless."""
    for fault in folder.unreadable:
        yield "unreadable", fault
    holders: dict[str, list[str]] = {}
    for name, header in folder.shards.items():
        for key, entry in header.entries.items():
            holders.setdefault(key, []).append(name)
            if _is_empty(key, entry):
                hint = "save the checkpoint again, or remove the entry and its line in the index"
                yield (
                    "empty",
                    _fault(header.path, key, "is an empty entry: there are no elements", hint),
                )
        filled = {key: entry for key, entry in header.entries.items() if entry.dtype}
        filled_header = msgspec.structs.replace(header, entries=filled)
        for fault in find_misfit(filled_header, known_dtypes=False):
            yield "unreadable", fault
    for key, names in holders.items():
        if len(names) > 1:
            message = f"is in {format_names(names)}; loaders take one of them"
            yield (
                "twice",
                _fault(folder.shards[names[1]].path, key, message, "leave it in one file"),
            )
    if folder.index is not None:
        yield from _compare_index(folder, holders)


def _compare_index(
    folder: ShardFolder, holders: Mapping[str, list[str]]
) -> Iterator[tuple[Kind, Fault]]:
    hint = "correct the index, or save the checkpoint again"
    if not folder.weight_map:
        yield (
            "index",
            Fault(
                "has no weight_map, which maps tensors to files", where=folder.index_path, hint=hint
            ),
        )
    for key, name in folder.weight_map.items():
        names = holders.get(key) or [
            other for other, header in folder.others.items() if key in header.entries
        ]
        if name in folder.shards and name not in names:
            place = f"it is in {format_names(names)}" if names else "no shard has it"
            message = f"is in {name} by the index, and {place}"
            yield "index", _fault(folder.index_path, key, message, hint)
    for key, names in holders.items():
        if key not in folder.weight_map:
            yield (
                "unlisted",
                _fault(
                    folder.shards[names[0]].path,
                    key,
                    "is not in the index, so that no loader finds it",
                    hint,
                ),
            )


def _fault(file: str, key: str, message: str, hint: str) -> Fault:
    return Fault(message, where=file, path=format_record(key, None), hint=hint)


def index_shards(path: str) -> ParameterFile:
    """Return the tensors of a checkpoint folder as one parameter file, with their bytes in the
    shards.

    Raises:
        InputError: a file cannot be read, or index and shards contradict each other; all faults are
        listed.
    """
    folder = read_shard_folder(path)
    require_sound(folder)
    faults = [fault for header in folder.shards.values() for fault in find_misfit(header)]
    if faults:
        raise InputError(faults[:_LISTED])
    tensors = folder.list_tensors()
    records: list[Record] = []
    size = 0
    for header in folder.shards.values():
        file = index_header(header)
        size += file.size
        for record in file.records:
            holder, _ = tensors.get(record.full_name, (None, None))
            if record.tied_to is not None or holder is header:
                origin = Origin(record.tied_to or record.key, file)
                records.append(msgspec.structs.replace(record, origin=origin))
    return ParameterFile(path, size, FORMAT.name, tuple(records), named=True)


def require_sound(folder: ShardFolder, *, allow: Collection[Kind] = _SOUND) -> None:
    """Raise InputError, with the first faults, for faults of kinds other than ``allow``."""
    faults = [fault for kind, fault in find_faults(folder) if kind not in allow]
    if not folder.shards and not faults:
        hint = "name a folder with model.safetensors or an index"
        faults.append(Fault("has no safetensors file", where=folder.path, hint=hint))
    if faults:
        raise InputError(faults[:_LISTED])
