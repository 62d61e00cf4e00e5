"""Tie and untie the tensors of a checkpoint folder, in its shards, index and configuration.

All other tensors' bytes are copied unchanged. Shards are streamed; all files are put in place
together, in an order that keeps the folder loadable: names leave the index before their bytes leave
a shard, and come after them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from graphshare.errors import Fault, RefusedError, SelfCheckError
from graphshare.files.atomic import OutputTransaction
from graphshare.files.open_source import open_source, reopen_source
from graphshare.files.paths import base_name, join
from graphshare.files.staged_file import StagedFile
from graphshare.formats.model_names import CONFIG
from graphshare.formats.mxnet.places import find_places
from graphshare.formats.params.byte_ranges import copy_ranges, write_all
from graphshare.formats.params.records import element_count
from graphshare.formats.params.safetensors import (
    Header,
    TensorEntry,
    encode_header,
    find_misfit,
    read_header,
)
from graphshare.formats.params.shards import ShardFolder
from graphshare.formats.params.tied_names import KEY, TiedPair, TieStatement, find_difference
from graphshare.progress import Advance, task
from graphshare.text.format import format_names
from graphshare.text.names import did_you_mean

How = Literal["tie", "untie"]


class Retied(msgspec.Struct, frozen=True):
    """An array that gets one name or two: ``kept`` has its bytes, ``name`` loses or gets a copy;
    ``size`` is in bytes.
    """

    name: str
    kept: str
    size: int


class RetiePlan(msgspec.Struct, frozen=True):
    """The files of the new folder: texts (empty if not there), and tensors with their places in the
    old one.

    ``changed`` are the files that differ from the folder's.
    """

    how: How
    arrays: tuple[Retied, ...]
    shards: dict[str, dict[str, TensorEntry]]
    metadata: dict[str, dict[str, str]]
    index: bytes
    config: bytes
    changed: tuple[str, ...]


def choose_tied(
    folder: ShardFolder, pairs: Sequence[TiedPair], keep: Sequence[str]
) -> list[Retied]:
    """Return the pairs with two equal copies. The name in ``keep`` stays, else the embedding's.

    Raises:
        RefusedError: there is no such pair, copies differ, or ``keep`` names another tensor; all
        are listed.
    """
    faults, arrays = list(_find_unknown(keep, pairs, folder.path)), []
    lost: dict[str, str] = {}
    for pair in pairs:
        if pair.first is None or pair.second is None:
            continue
        if pair.stored == "unlike":
            faults.append(
                Fault(f"{pair.name} and {pair.kept} differ in shape or type", where=folder.path)
            )
        elif (at := find_difference(pair.first, pair.second)) is not None:
            message = f"{pair.name} and {pair.kept} differ at byte {at:,} of the array"
            faults.append(Fault(message, where=folder.path, hint="only equal arrays are tied"))
        else:
            name, kept = (pair.kept, pair.name) if pair.name in keep else (pair.name, pair.kept)
            if name in lost:
                faults.append(
                    Fault(
                        f"`keep` names {lost[name]} and {kept}, which are one array",
                        where=folder.path,
                    )
                )
            lost[name] = kept
            arrays.append(Retied(name, kept, pair.first[1].size))
    # Another pair may drop the embedding: shared.weight with `keep` lm_head.weight.
    arrays = [
        msgspec.structs.replace(array, kept=lost.get(array.kept, array.kept)) for array in arrays
    ]
    if not faults and not arrays:
        faults.append(
            Fault("has no two copies of an array that its architecture ties", where=folder.path)
        )
    if faults:
        raise RefusedError(faults)
    return arrays


def _find_unknown(keep: Sequence[str], pairs: Sequence[TiedPair], where: str) -> Iterator[Fault]:
    names = [name for pair in pairs for name in (pair.name, pair.kept)]
    for name in keep:
        if name not in names:
            hint = did_you_mean(name, names) or f"the tied names are {format_names(names)}"
            yield Fault(
                f"`keep` names {name!r}, which is not one of two tied names", where=where, hint=hint
            )


def choose_untied(folder: ShardFolder, pairs: Sequence[TiedPair]) -> list[Retied]:
    """Return the pairs with only one name in the folder. Raises RefusedError if there is none."""
    arrays = []
    for pair in pairs:
        if pair.first is None and pair.second is not None:
            arrays.append(Retied(pair.name, pair.kept, pair.second[1].size))
        elif pair.first is not None and pair.second is None:
            arrays.append(Retied(pair.kept, pair.name, pair.first[1].size))
    if not arrays:
        message = "has no array that its architecture ties under one name"
        raise RefusedError(Fault(message, where=folder.path, hint="`gs.check` lists what is tied"))
    return arrays


def plan_retie(
    folder: ShardFolder, how: How, arrays: Sequence[Retied], statement: TieStatement
) -> RetiePlan:
    """Plan the files of a folder in which ``arrays`` are tied or untied."""
    tensors = folder.list_tensors()
    shards = {name: dict(header.entries) for name, header in folder.shards.items()}
    metadata = {name: dict(header.metadata) for name, header in folder.shards.items()}
    weight_map = dict(folder.weight_map)
    files = {header.path: name for name, header in folder.shards.items()}
    for array in arrays:
        header, entry = tensors[array.kept]
        home = files[header.path]
        for name, entries in shards.items():
            entries.pop(array.name, None)
            metadata[name].pop(array.name, None)
        if how == "tie":
            weight_map.pop(array.name, None)
            # Else the shard would be written again for it
            if array.name in folder.shards[home].entries:
                metadata[home][array.name] = array.kept
        else:
            shards[home][array.name] = entry
            weight_map[array.name] = home
    sources = folder.shards
    changed = [
        n
        for n, entries in shards.items()
        if (entries, metadata[n]) != (sources[n].entries, sources[n].metadata)
    ]
    index = b""
    if folder.index is not None:
        stated = folder.index.get("metadata")
        size = sum(shards[name][key].size for key, name in weight_map.items())
        total = {**(stated if isinstance(stated, dict) else {}), "total_size": size}
        index = (
            json.dumps({**folder.index, "metadata": total, "weight_map": weight_map}, indent=2)
            + "\n"
        ).encode()
        changed.append(base_name(folder.index_path))
    config = _state_ties(folder, statement, how == "tie").encode() if folder.config_text else b""
    changed += [CONFIG] if config != folder.config_text.encode() else []
    return RetiePlan(how, tuple(arrays), shards, metadata, index, config, tuple(changed))


def _state_ties(folder: ShardFolder, statement: TieStatement, tied: bool) -> str:
    text, word = folder.config_text, str(tied).lower()
    if not statement.places:
        at = text.index("{") + 1
        return f'{text[:at]}\n  "{KEY}": {word}{"," if folder.config else ""}{text[at:]}'
    for at in sorted(find_places(text, statement.places).values(), reverse=True):
        text = text[:at] + word + text[at:].removeprefix("true").removeprefix("false")
    return text


def stage_retie(
    folder: ShardFolder, plan: RetiePlan, target: str, stage: OutputTransaction
) -> list[str]:
    """Stage the planned files in the folder ``target``, only changed ones in the same folder.

    Returns their paths. Raises InputError, OutputError, and SelfCheckError for a shard that does
    not read back as planned.
    """
    texts = {base_name(folder.index_path): plan.index, CONFIG: plan.config}
    texts = {name: text for name, text in texts.items() if text}
    names = [*plan.shards, *texts] if plan.how == "untie" else [*reversed(texts), *plan.shards]
    names = [name for name in names if target != folder.path or name in plan.changed]
    size = sum(entry.size for name in names for entry in plan.shards.get(name, {}).values())
    with task("writing", size, "B") as advance:
        for name in names:
            out = stage.open(join(target, name))
            if name in texts:
                out.write(texts[name])
            else:
                _write_shard(
                    folder.shards[name], plan.shards[name], plan.metadata[name], out, advance
                )
    return [join(target, name) for name in names]


def _write_shard(
    header: Header,
    entries: Mapping[str, TensorEntry],
    metadata: Mapping[str, str],
    out: StagedFile,
    advance: Advance,
) -> None:
    """Copy ``entries`` from the file of ``header``, and read the new header back."""
    # Wider elements come first, so that every array is aligned.
    order = sorted(entries.items(), key=lambda item: (-_item_size(item[1]), item[1].data_offsets))
    placed: dict[str, TensorEntry] = {}
    end = 0
    for key, entry in order:
        placed[key] = msgspec.structs.replace(entry, data_offsets=(end, end + entry.size))
        end += entry.size
    write_all(out, encode_header({key: placed[key] for key in entries}, metadata))
    with reopen_source(header.path, header.identity) as source:
        ranges = ((header.start + entry.data_offsets[0], entry.size) for _, entry in order)
        copy_ranges(source, ranges, out, advance=advance)
        source.check_unchanged()
    out.flush()
    with open_source(out.name) as source:
        written = read_header(source)
    if (
        written.entries != placed
        or written.metadata != metadata
        or any(find_misfit(written, known_dtypes=False))
    ):
        raise SelfCheckError(
            Fault("does not read back with the tensors that were written", where=out.target)
        )


def _item_size(entry: TensorEntry) -> int:
    return entry.size // max(1, element_count(entry.shape))
