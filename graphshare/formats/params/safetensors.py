"""Read ``.safetensors`` files as an index by seeking, and write them as a stream.

The format::

    0       8    uint64 N, little endian
    8       N    a JSON object: {"<key>": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...};
                 it may end in spaces; "__metadata__" is not an array but an object of strings
    8 + N   ...  the data; offsets count from here, and the arrays cover it without a hole or an overlap

The header's keys are in any order: written ones in the order of the plan, and the data by
descending element size, so that every array is aligned for readers that view it in place.

The ``safetensors`` package maps files into memory and writes all arrays at once; here an index
takes a few kilobytes, and a conversion streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, BinaryIO

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.files.byte_source import DAMAGED, ByteSource, Cursor, Identity
from graphshare.formats.params.byte_ranges import write_all
from graphshare.formats.params.format import Chunks, ParameterFormat, Plan, WriteOptions
from graphshare.formats.params.records import (
    DTYPES,
    ITEM_SIZES,
    MAX_RANK,
    ParameterFile,
    Record,
    element_count,
    format_record,
)
from graphshare.text.format import format_count

MAX_HEADER_SIZE = 100_000_000  # bytes; the limit of the format's own library
METADATA = "__metadata__"

_DTYPES = {codes.safetensors: dtype for dtype, codes in DTYPES.items()}
_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class TensorEntry(msgspec.Struct, frozen=True):
    """An array as the header states it; offsets are bytes from the start of the data."""

    dtype: str
    shape: tuple[_Count, ...]
    data_offsets: tuple[_Count, _Count]

    @property
    def size(self) -> int:
        return self.data_offsets[1] - self.data_offsets[0]


class Header(msgspec.Struct, frozen=True, eq=False):
    """The header of a file of ``size`` bytes, with data from byte ``start``; ``identity`` changes
    with the file.
    """

    path: str
    size: int
    identity: Identity
    start: int
    entries: dict[str, TensorEntry]
    metadata: dict[str, str]


class Safetensors(ParameterFormat):
    """Files of the ``safetensors`` package. A tie is a key of the metadata whose text is an array's
    key.
    """

    name = "safetensors"
    has_ties = True

    def sniff(self, start: bytes) -> bool:
        # Far above the limit on headers, so that larger ones are refused by their size, not as
        # unknown files.
        return (
            len(start) > 8
            and start[8:9] == b"{"
            and 0 < int.from_bytes(start[:8], "little") < 1 << 40
        )

    def index(self, source: ByteSource) -> ParameterFile:
        header = read_header(source)
        faults = list(find_misfit(header))
        if faults:
            raise InputError(faults)
        return index_header(header)

    def write(self, plan: Plan, out: BinaryIO, chunks: Chunks, options: WriteOptions) -> None:
        """A tied array is written once; the metadata map further names to it, as in
        ``safetensors.torch.save_model``.
        """
        arrays = [(record, key or "") for record, key in plan if key not in options.ties]
        # Stable: else in the plan's order
        placed = sorted(arrays, key=lambda item: -ITEM_SIZES[item[0].dtype or "bool"])
        offsets: dict[str, tuple[int, int]] = {}
        end = 0
        for record, key in placed:
            offsets[key] = (end, end + record.dense_size)
            end += record.dense_size
        metadata = {**options.metadata, **options.ties}
        entries: dict[str, TensorEntry] = {}
        for record, key in arrays:
            shape, dtype = record.shape_and_dtype()
            entries[key] = TensorEntry(DTYPES[dtype].safetensors, shape, offsets[key])
        write_all(out, encode_header(entries, metadata))
        for record, _ in placed:
            for chunk in chunks(record):
                write_all(out, chunk)

    def refuse(self, record: Record, key: str, options: WriteOptions) -> Fault | None:
        if key == METADATA:
            return Fault(
                f"has the name {METADATA}, which the format reserves", hint="rename it first"
            )
        try:
            key.encode()
        except UnicodeEncodeError:
            return Fault("has a name that is not UTF-8", hint="rename it first")
        return None


FORMAT = Safetensors()


def read_header(source: ByteSource) -> Header:
    """Return a file's header, whose entries may still contradict it. Raises InputError when it
    cannot be read.
    """
    cursor = Cursor(source)
    length = int.from_bytes(cursor.take(8, "the header's length"), "little")
    if length > source.size - 8:
        cursor.cut_short(length, "the header")
    if length > MAX_HEADER_SIZE:
        cursor.fail(
            f"has a header of {format_count(length, 'byte')}; the format allows {MAX_HEADER_SIZE:,}",
            at=0,
        )
    try:
        entries, metadata = _decode(cursor.take(length, "the header"))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            Fault(f"has a malformed header: {error}", where=source.name, path="byte 8")
        ) from error
    return Header(source.name, source.size, source.identity, 8 + length, entries, metadata)


def _decode(header: bytes) -> tuple[dict[str, TensorEntry], dict[str, str]]:
    raw = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
    metadata: dict[str, str] = {}
    if METADATA in raw:
        metadata = msgspec.json.decode(raw.pop(METADATA), type=dict[str, str])
    decoder = msgspec.json.Decoder(TensorEntry)
    return {key: decoder.decode(value) for key, value in raw.items()}, metadata


def encode_header(entries: Mapping[str, TensorEntry], metadata: Mapping[str, str]) -> bytes:
    """Return the start of a file: the length of the header, and the header."""
    encoded = msgspec.json.encode({METADATA: metadata, **entries} if metadata else entries)
    # The data begins at a multiple of 8 bytes, as in files of the safetensors package.
    encoded += b" " * (-len(encoded) % 8)
    return len(encoded).to_bytes(8, "little") + encoded


def find_misfit(header: Header, *, known_dtypes: bool = True) -> Iterator[Fault]:
    """Yield contradictions to the header; without ``known_dtypes`` any dtype passes."""
    end = 0
    numbered = sorted(enumerate(header.entries.items()), key=lambda item: item[1][1].data_offsets)
    for number, (key, entry) in numbered:
        for message, hint in _describe_misfit(entry, end, known_dtypes):
            yield Fault(message, where=header.path, path=format_record(key, number), hint=hint)
        end = max(entry.data_offsets[1], end)
    data_size = header.size - header.start
    if end != data_size:
        message = f"has {format_count(data_size, 'byte')} of data; its header describes {end:,}"
        yield Fault(message, where=header.path, hint=DAMAGED)


def _describe_misfit(entry: TensorEntry, end: int, known_dtypes: bool) -> Iterator[tuple[str, str]]:
    begin, stop = entry.data_offsets
    dtype = _DTYPES.get(entry.dtype)
    if dtype is None and known_dtypes:
        yield f"has dtype {entry.dtype[:40]!r}, which no parameter file holds", ""
    elif len(entry.shape) > MAX_RANK:
        yield f"has rank {len(entry.shape)}; ranks go up to {MAX_RANK}", ""
    elif stop < begin or not _fits(element_count(entry.shape), dtype, stop - begin):
        yield (
            f"has {format_count(stop - begin, 'byte')}, which is not what its shape and dtype need",
            "",
        )
    if begin != end:
        yield f"starts at byte {begin:,} of the data, expected byte {end:,}", DAMAGED


def _fits(count: int, dtype: str | None, size: int) -> bool:
    """Elements of an unknown dtype may have a bit or more."""
    return count <= 8 * size if dtype is None else count * ITEM_SIZES[dtype] == size


def name_dtype(text: str) -> str:
    """Return the name of a header's dtype; the text itself if unknown."""
    return _DTYPES.get(text, text)


def index_header(header: Header) -> ParameterFile:
    """Return the index of a file with this header, without contradictions."""
    entries = header.entries
    records = {key: _record(key, entry, header.start) for key, entry in entries.items()}
    ties = {
        key: kept for key, kept in header.metadata.items() if key not in entries and kept in entries
    }
    tied = [
        msgspec.structs.replace(records[kept], key=key, tied_to=kept) for key, kept in ties.items()
    ]
    return ParameterFile(
        header.path,
        header.size,
        FORMAT.name,
        (*records.values(), *tied),
        named=bool(records),
        metadata={key: value for key, value in header.metadata.items() if key not in ties},
        identity=header.identity,
    )


def _record(key: str, entry: TensorEntry, start: int) -> Record:
    begin, stop = entry.data_offsets
    offset, size = start + begin, stop - begin
    return Record(key, entry.shape, _DTYPES[entry.dtype], "safetensors", offset, size, offset, size)
