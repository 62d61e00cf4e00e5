"""``.safetensors``, read as an index by seeking and written as a stream.

The format::

    0       8    uint64 N, little endian
    8       N    a JSON object: {"<key>": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...};
                 it may end in spaces; "__metadata__" is no array but an object of strings
    8 + N   ...  the data; offsets count from here, and the arrays cover it without a hole or an overlap

The header's order of keys is free. graphshare writes the keys in the order of the plan and the data by falling element size, so
that every array is aligned to its elements (readers that view the data in place need that) and the order still survives.

Why the format is read here and not by the ``safetensors`` package: that one's reader maps the file into memory and its writer
wants all arrays at once; an index needs a few kilobytes, and a conversion streams.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, BinaryIO

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.formats.params.byte_ranges import write_all
from graphshare.formats.params.cursor import DAMAGED, Cursor
from graphshare.formats.params.records import ITEM_SIZES, MAX_RANK, Chunks, ParameterFile, Record, element_count, format_record

MAX_HEADER_SIZE = 100_000_000  # bytes; the limit of the format's own library
METADATA = "__metadata__"

_CODES = {
    "float32": "F32",
    "float64": "F64",
    "float16": "F16",
    "bfloat16": "BF16",
    "bool": "BOOL",
    "int8": "I8",
    "uint8": "U8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}


_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _Entry(msgspec.Struct, frozen=True):
    dtype: str
    shape: tuple[_Count, ...]
    data_offsets: tuple[_Count, _Count]


def read_safetensors_index(path: str) -> ParameterFile:
    """The index of the ``.safetensors`` file at ``path``. Raises InputError with everything that is wrong."""
    try:
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            cursor = Cursor(file, path, size)
            length = int.from_bytes(cursor.take(8, "the header's length"), "little")
            if length > size - 8:
                cursor.cut_short(length, "the header")
            if length > MAX_HEADER_SIZE:
                cursor.fail(f"has a header of {length:,} bytes; the format allows {MAX_HEADER_SIZE:,}", at=0)
            header = cursor.take(length, "the header")
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror}", where=path)) from error
    try:
        entries, metadata = _decode(header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(Fault(f"has a header that is not as it should be: {error}", where=path, path="byte 8")) from error
    start = 8 + length
    faults = list(_misfits(entries, size - start))
    if faults:
        raise InputError([msgspec.structs.replace(fault, where=path) for fault in faults])
    records = {key: _record(key, entry, start) for key, entry in entries.items()}
    ties = {key: kept for key, kept in metadata.items() if key not in entries and kept in entries}
    tied = [msgspec.structs.replace(records[kept], key=key, tied_to=kept) for key, kept in ties.items()]
    rest = {key: value for key, value in metadata.items() if key not in ties}
    return ParameterFile(path, size, "safetensors", (*records.values(), *tied), named=bool(records), metadata=rest)


def _decode(header: bytes) -> tuple[dict[str, _Entry], dict[str, str]]:
    raw = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
    metadata: dict[str, str] = {}
    if METADATA in raw:
        metadata = msgspec.json.decode(raw.pop(METADATA), type=dict[str, str])
    decoder = msgspec.json.Decoder(_Entry)
    return {key: decoder.decode(value) for key, value in raw.items()}, metadata


def _misfits(entries: Mapping[str, _Entry], data_size: int) -> Iterator[Fault]:
    end = 0
    numbered = sorted(enumerate(entries.items()), key=lambda item: item[1][1].data_offsets)
    for number, (key, entry) in numbered:
        place = format_record(key, number)
        begin, stop = entry.data_offsets
        dtype = _DTYPES.get(entry.dtype)
        if dtype is None:
            yield Fault(f"has dtype {entry.dtype[:40]!r}, which no parameter file holds", path=place)
        elif len(entry.shape) > MAX_RANK:
            yield Fault(f"has rank {len(entry.shape)}; ranks go up to {MAX_RANK}", path=place)
        elif stop - begin != element_count(entry.shape) * ITEM_SIZES[dtype]:
            yield Fault(f"has {stop - begin:,} bytes, which is not what its shape and dtype need", path=place)
        if begin != end:
            yield Fault(f"starts at byte {begin:,} of the data, where {end:,} was due", path=place, hint=DAMAGED)
        end = max(stop, end)
    if end != data_size:
        yield Fault(f"has {data_size:,} bytes of data; its header speaks of {end:,}", hint=DAMAGED)


def _record(key: str, entry: _Entry, start: int) -> Record:
    begin, stop = entry.data_offsets
    offset, size = start + begin, stop - begin
    return Record(key, entry.shape, _DTYPES[entry.dtype], "safetensors", offset, size, offset, size)


def write_safetensors(
    plan: Sequence[tuple[Record, str]],
    out: BinaryIO,
    chunks: Chunks,
    *,
    metadata: Mapping[str, str] | None = None,
    ties: Mapping[str, str] | None = None,
) -> None:
    """Write each record under its key. Keys differ and are text (:func:`safetensors_refusal`); memory does not grow.

    ``ties`` are names for what stands under another name (:func:`ties_in`): it is written once, and the metadata map each
    further name to the one that stands in the header, as ``safetensors.torch.save_model`` does.
    """
    ties = ties or {}
    plan = [(record, key) for record, key in plan if key not in ties]
    metadata = {**(metadata or {}), **ties}
    placed = sorted(plan, key=lambda item: -ITEM_SIZES[item[0].dtype or "bool"])  # stable: else in the plan's order
    offsets: dict[str, tuple[int, int]] = {}
    end = 0
    for record, key in placed:
        offsets[key] = (end, end + record.dense_size)
        end += record.dense_size
    header: dict[str, object] = {METADATA: dict(metadata)} if metadata else {}
    for record, key in plan:
        shape, dtype = record.filled()
        header[key] = _Entry(_CODES[dtype], shape, offsets[key])
    encoded = msgspec.json.encode(header)
    encoded += b" " * (-len(encoded) % 8)
    write_all(out, len(encoded).to_bytes(8, "little") + encoded)
    for record, _ in placed:
        _write_chunks(out, chunks(record))


def ties_in(plan: Sequence[tuple[Record, str | None]]) -> dict[str, str]:
    """The planned keys that are second names in the source, with the keys that they are second names for.

    The plan is of one file. It may hold records several times (a copy for each branch): then each round has ties of its own.
    """
    rounds: dict[str | None, list[str]] = {}
    for record, key in plan:
        if record.tied_to is None:
            rounds.setdefault(record.key, []).append(key or "")
    ties: dict[str, str] = {}
    met: dict[str | None, int] = {}
    for record, key in plan:
        if record.tied_to is not None:
            number = met[record.key] = met.get(record.key, -1) + 1
            kept = rounds.get(record.tied_to, [])
            if number < len(kept):
                ties[key or ""] = kept[number]
    return ties


def _write_chunks(out: BinaryIO, chunks: Iterable[bytes | memoryview]) -> None:
    for chunk in chunks:
        write_all(out, chunk)


def safetensors_refusal(record: Record, key: str) -> Fault | None:
    """Why ``record`` has no place in a ``.safetensors`` file under ``key``, if so."""
    if key == METADATA:
        return Fault(f"is called {METADATA}, which the format keeps for itself", hint="rename it first")
    try:
        key.encode()
    except UnicodeEncodeError:
        return Fault("has a name that is not UTF-8", hint="rename it first")
    return None
