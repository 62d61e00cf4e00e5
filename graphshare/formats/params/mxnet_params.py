"""MXNet's ``.params`` files as a parameter format; :mod:`graphshare.formats.params.mxnet_index` describes the bytes.

Known records are written under new names by copying byte ranges, and new dense arrays as V2 or V3. A record is copied whole,
header and data, so that its form, its device word and everything else in its header stay as they are; only the count at the
start and the names at the end are new.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO

import msgspec

from graphshare.errors import Fault, InputError, RefusedError, SelfCheckError
from graphshare.files.byte_source import ByteSource
from graphshare.files.open_source import reopen_source
from graphshare.files.staged_file import output_error
from graphshare.formats.params.byte_ranges import copy_ranges, first_difference, write_all
from graphshare.formats.params.format import Chunks, ParameterFormat, Parts, Plan, WriteOptions
from graphshare.formats.params.mxnet_index import (
    MAGIC,
    MAGIC_V2,
    MAGIC_V3,
    MAX_NAME_SIZE,
    UNLOADABLE_DTYPES,
    index_params,
)
from graphshare.formats.params.records import DTYPES, MAX_RANK, MAX_RECORDS, ParameterFile, Record, encode_key, format_record
from graphshare.progress import task
from graphshare.text.format import format_count


class MxnetParams(ParameterFormat):
    """Every generation is read; arrays are written as MXNet 1.9.1 writes them."""

    name = "params"
    suffix = ".params"
    description = ".params (mx.nd.save)"
    starts = (MAGIC.to_bytes(8, "little"),)
    unique_names = False
    copies_records = True

    def index(self, source: ByteSource) -> ParameterFile:
        return index_params(source)

    def write(self, plan: Plan, out: BinaryIO, chunks: Chunks, options: WriteOptions) -> None:
        write_dense_records(plan, out, chunks, np_shape=options.np_shape)

    def refuse(self, record: Record, key: str, options: WriteOptions) -> Fault | None:
        """Return why MXNet 1.9.1 could not load the array."""
        if record.dtype in UNLOADABLE_DTYPES:
            return Fault(f"is {record.dtype}, which MXNet neither saves nor loads", hint="cast it first, for instance to int32")
        if record.shape == () and not options.np_shape:
            hint = "write V3 records (np_shape), or make it (1,)"
            return Fault("is a scalar, which only np-shape (V3) files hold", hint=hint)
        return None

    def copy(self, parts: Parts, out: BinaryIO) -> None:
        copy_records(parts, out)

    def verify_copy(self, written: ByteSource, parts: Parts, *, verify_bytes: bool) -> ParameterFile:
        return verify_records(written, parts, verify_bytes=verify_bytes)


def copy_records(parts: Parts, out: BinaryIO) -> None:
    """Write the planned records of several ``.params`` files to ``out``, file by file.

    A record may occur several times, and keys may repeat. Memory does not grow with the arrays. Raises RefusedError for a plan
    that mixes keys and None or has a name that is too long to be read, InputError when a source changed since it was indexed,
    OutputError when writing fails.
    """
    plan = [item for _, items in parts for item in items]
    names = _encode_keys(plan)
    try:
        write_all(out, _encode_header(len(plan), parts[0][0].reserved))
        with task("copying parameters", sum(record.size for record, _ in plan), "B") as advance:
            for file, items in parts:
                ranges = ((record.offset, record.size) for record, _ in items)
                with reopen_source(file.path, file.identity, file.held) as source:
                    copy_ranges(source, ranges, out, advance=advance)
                    source.check_unchanged()
        write_all(out, _encode_names(names))
        out.flush()
    except OSError as error:
        raise output_error(error, str(getattr(out, "target", "") or getattr(out, "name", ""))) from error


def _encode_keys(plan: Plan) -> list[bytes]:
    """Return the keys of ``plan`` as bytes; none for a list without names. Raises RefusedError as :func:`copy_records`."""
    if len(plan) > MAX_RECORDS:
        raise RefusedError(f"the file would hold {format_count(len(plan), 'array')}; graphshare reads up to {MAX_RECORDS:,}")
    keys = [key for _, key in plan]
    if all(key is None for key in keys):
        return []
    faults = []
    names = []
    for number, key in enumerate(keys):
        if key is None:
            faults.append(Fault("has no name, while other records have one", path=f"record {number}"))
            continue
        names.append(encode_key(key))
        if len(names[-1]) > MAX_NAME_SIZE:
            faults.append(Fault(f"the name has more than {MAX_NAME_SIZE:,} bytes", path=format_record(key, number)))
    if faults:
        raise RefusedError(faults)
    return names


def _encode_header(count: int, reserved: int = 0) -> bytes:
    """Return the first 24 bytes of a file with ``count`` arrays."""
    return struct.pack("<QQQ", MAGIC, reserved, count)


def _encode_names(names: Sequence[bytes]) -> bytes:
    """Return the bytes after the last array."""
    parts = [struct.pack("<Q", len(names))]
    for name in names:
        parts.append(struct.pack("<Q", len(name)))
        parts.append(name)
    return b"".join(parts)


def encode_dense_header(shape: tuple[int, ...], dtype: str, *, np_shape: bool) -> bytes:
    """Return the header of a dense record as MXNet 1.9.1 writes it on a CPU: V3 when ``np_shape``, V2 otherwise.

    Raises RefusedError for what the form cannot hold: a scalar in V2, a rank above 255.
    """
    if not shape and not np_shape:
        raise RefusedError("a V2 record cannot hold a scalar", hint="write V3 records (np_shape)")
    if len(shape) > MAX_RANK:
        raise RefusedError(f"has rank {len(shape)}; ranks go up to {MAX_RANK}")
    magic = MAGIC_V3 if np_shape else MAGIC_V2
    return struct.pack(f"<Iii{len(shape)}qiii", magic, 0, len(shape), *shape, 1, 0, DTYPES[dtype].mxnet)


def write_dense_records(plan: Plan, out: BinaryIO, chunks: Chunks, *, np_shape: bool) -> None:
    """Write each record's dense form under its key, as ``mx.nd.save`` of MXNet 1.9.1 does, with the bytes from ``chunks``."""
    names = _encode_keys(plan)
    write_all(out, _encode_header(len(plan)))
    for record, _ in plan:
        write_all(out, encode_dense_header(*record.shape_and_dtype(), np_shape=np_shape))
        for chunk in chunks(record):
            write_all(out, chunk)
    write_all(out, _encode_names(names))


def verify_records(written: ByteSource, parts: Parts, *, verify_bytes: bool = False) -> ParameterFile:
    """Read back what :func:`copy_records` wrote, compare it with the plan and return its index.

    Headers, names and sizes are always compared; the records' bytes with ``verify_bytes`` (in flat memory). Raises
    SelfCheckError.
    """
    plan = [item for _, items in parts for item in items]
    try:
        index = index_params(written)
    except InputError as error:
        raise SelfCheckError(error.faults) from error
    faults = list(_differences(index, plan))
    if not faults and verify_bytes:
        faults = list(_byte_differences(written, index, parts))
    if faults:
        raise SelfCheckError([msgspec.structs.replace(fault, where=written.name) for fault in faults])
    return index


def _differences(written: ParameterFile, plan: Plan) -> Iterator[Fault]:
    if len(written.records) != len(plan):
        yield Fault(f"holds {format_count(len(written.records), 'array')}, not the {len(plan)} that were to be written")
        return
    if written.trailing:
        yield Fault(f"has {format_count(written.trailing, 'byte')} behind the last name")
    for number, (record, (source, key)) in enumerate(zip(written.records, plan, strict=True)):
        place = format_record(key, number)
        if record.key != key and (record.key is None or key is None or record.key_bytes != encode_key(key)):
            yield Fault(f"reads back under the name {record.key!r}", path=place)
        if _content(record) != _content(source):
            yield Fault("reads back with another shape, type or size", path=place)


def _content(record: Record) -> tuple[object, ...]:
    """Return what a copied record must have in common with its source: everything but the name and the place."""
    parts: tuple[object, ...] = ()
    if record.parts:
        parts = tuple((part.role, part.dtype, part.shape, part.size, part.offset - record.offset) for part in record.parts)
    place = None if record.data_offset is None else record.data_offset - record.offset
    return record.layout, record.storage, record.shape, record.dtype, record.storage_shape, record.size, place, parts


def _byte_differences(written: ByteSource, index: ParameterFile, parts: Parts) -> Iterator[Fault]:
    records = enumerate(index.records)
    total = sum(record.size for record in index.records)
    with ExitStack() as stack:
        advance = stack.enter_context(task("comparing bytes", total, "B"))
        for file, plan in parts:
            source = stack.enter_context(reopen_source(file.path, file.identity, file.held))
            for (planned, key), (number, record) in zip(plan, records, strict=False):
                at = first_difference(source, planned.offset, written, record.offset, planned.size)
                if at is not None:
                    yield Fault(f"differs from its source at byte {at} of the record", path=format_record(key, number))
                advance(planned.size)
