"""Writing ``.params`` files: known records under new names by copying byte ranges, and new dense arrays.

A record is copied whole, header and data, so that the array's form, its device word and whatever else its header says stay as
they are; only the count in front and the names behind are new. :mod:`graphshare.formats.params.mxnet` describes the format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import msgspec

from graphshare.errors import Fault, InputError, RefusedError, SelfCheckError
from graphshare.formats.atomic import output_error
from graphshare.formats.params.byte_ranges import copy_ranges, first_difference, open_unchanged, write_all
from graphshare.formats.params.mxnet import (
    HEADER_SIZE,
    MAGIC,
    MAGIC_V2,
    MAGIC_V3,
    MAX_NAME_SIZE,
    TYPE_FLAGS,
    UNLOADABLE_DTYPES,
    read_params_index,
)
from graphshare.formats.params.records import MAX_RANK, MAX_RECORDS, Chunks, ParameterFile, Record, encode_key, format_record
from graphshare.progress import task

Plan = Sequence[tuple[Record, str | None]]
"""Which records to write, in order, and under what key; all keys None for a list without names."""

_FLAGS = {name: flag for flag, name in TYPE_FLAGS.items()}


def write_params(source: ParameterFile, plan: Plan, out: BinaryIO) -> int:
    """Write the planned records of ``source`` (a ``.params`` file) to ``out``; returns the number of bytes written.

    A record may occur several times, and keys may repeat. Memory does not grow with the arrays. Raises RefusedError for a plan
    that mixes keys and None or has a name that no reader would take, InputError when the source changed since it was indexed,
    OutputError when writing fails.
    """
    return write_joined([(source, plan)], out)


def write_joined(parts: Sequence[tuple[ParameterFile, Plan]], out: BinaryIO) -> int:
    """Write the planned records of several ``.params`` files to ``out``, file by file, as :func:`write_params` does of one."""
    plan = [item for _, items in parts for item in items]
    names = planned_names(plan)
    size = HEADER_SIZE
    try:
        write_all(out, encode_header(len(plan), parts[0][0].reserved))
        with task("copying parameters", sum(record.size for record, _ in plan), "B") as advance:
            for source, items in parts:
                ranges = ((record.offset, record.size) for record, _ in items)
                with open_unchanged(source) as file:
                    size += copy_ranges(file, source.path, ranges, out, advance=advance)
        tail = encode_names(names)
        write_all(out, tail)
        out.flush()
    except OSError as error:
        raise output_error(error, _target(out)) from error
    return size + len(tail)


def planned_names(plan: Plan) -> list[bytes]:
    """The keys of ``plan`` as they are written; empty for a list without names. Raises RefusedError as :func:`write_params`."""
    if len(plan) > MAX_RECORDS:
        raise RefusedError(f"{len(plan):,} arrays are to be written; graphshare reads up to {MAX_RECORDS:,}")
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


def encode_header(count: int, reserved: int = 0) -> bytes:
    """The first 24 bytes of a file with ``count`` arrays."""
    return struct.pack("<QQQ", MAGIC, reserved, count)


def encode_names(names: Sequence[bytes]) -> bytes:
    """What stands behind the last array."""
    parts = [struct.pack("<Q", len(names))]
    for name in names:
        parts.append(struct.pack("<Q", len(name)))
        parts.append(name)
    return b"".join(parts)


def encode_dense_header(shape: tuple[int, ...], dtype: str, *, np_shape: bool) -> bytes:
    """The header of a dense record as MXNet 1.9.1 writes it on a CPU: V3 when ``np_shape``, V2 otherwise.

    Raises RefusedError for what the form cannot hold: a scalar in V2, a rank above 255.
    """
    if not shape and not np_shape:
        raise RefusedError("a scalar has no place in a V2 record", hint="write V3 records (np_shape)")
    if len(shape) > MAX_RANK:
        raise RefusedError(f"has rank {len(shape)}; ranks go up to {MAX_RANK}")
    magic = MAGIC_V3 if np_shape else MAGIC_V2
    return struct.pack(f"<Iii{len(shape)}qiii", magic, 0, len(shape), *shape, 1, 0, _FLAGS[dtype])


def write_dense_params(plan: Plan, out: BinaryIO, chunks: Chunks, *, np_shape: bool) -> None:
    """Write each record's dense form under its key, as ``mx.nd.save`` of MXNet 1.9.1 does, from the bytes ``chunks`` gives.

    The caller has made sure that each has a place (:func:`params_refusal`). Memory does not grow with the arrays.
    """
    names = planned_names(plan)
    write_all(out, encode_header(len(plan)))
    for record, _ in plan:
        shape, dtype = record.filled()
        write_all(out, encode_dense_header(shape, dtype, np_shape=np_shape))
        for chunk in chunks(record):
            write_all(out, chunk)
    write_all(out, encode_names(names))


def params_refusal(record: Record, *, np_shape: bool) -> Fault | None:
    """Why MXNet 1.9.1 could not load ``record`` from a ``.params`` file, if so."""
    if record.dtype in UNLOADABLE_DTYPES:
        return Fault(f"is {record.dtype}, which MXNet neither saves nor loads", hint="cast it first, for instance to int32")
    if record.shape == () and not np_shape:
        return Fault("is a scalar, which only np-shape (V3) files hold", hint="write V3 records (np_shape), or make it (1,)")
    return None


def verify_written(path: str, source: ParameterFile, plan: Plan, *, bytes_too: bool = False) -> ParameterFile:
    """Read back what :func:`write_params` wrote to ``path`` and hold it against the plan; returns the new file's index.

    Headers, names and sizes always; the records' bytes as well with ``bytes_too`` (in flat memory). Raises SelfCheckError.
    """
    return verify_joined(path, [(source, plan)], bytes_too=bytes_too)


def verify_joined(path: str, parts: Sequence[tuple[ParameterFile, Plan]], *, bytes_too: bool = False) -> ParameterFile:
    """Read back what :func:`write_joined` wrote to ``path``, as :func:`verify_written` does of one file."""
    plan = [item for _, items in parts for item in items]
    try:
        written = read_params_index(path)
    except InputError as error:
        raise SelfCheckError(error.faults) from error
    faults = list(_differences(written, plan))
    if not faults and bytes_too:
        faults = list(_byte_differences(written, parts))
    if faults:
        raise SelfCheckError([msgspec.structs.replace(fault, where=path) for fault in faults])
    return written


def _differences(written: ParameterFile, plan: Plan) -> Iterator[Fault]:
    if len(written.records) != len(plan):
        yield Fault(f"holds {len(written.records)} arrays, not the {len(plan)} that were to be written")
        return
    if written.trailing:
        yield Fault(f"has {written.trailing} bytes behind the last name")
    for number, (found, (wanted, key)) in enumerate(zip(written.records, plan, strict=True)):
        place = format_record(key, number)
        if found.key != key and (found.key is None or key is None or found.key_bytes != encode_key(key)):
            yield Fault(f"reads back under the name {found.key!r}", path=place)
        if _content(found) != _content(wanted):
            yield Fault("reads back with another shape, type or size", path=place)


def _content(record: Record) -> tuple[object, ...]:
    """What a copied record must have in common with its source: all but the name and the place."""
    parts: tuple[object, ...] = ()
    if record.parts:
        parts = tuple((part.role, part.dtype, part.shape, part.size, part.offset - record.offset) for part in record.parts)
    place = None if record.data_offset is None else record.data_offset - record.offset
    return record.layout, record.storage, record.shape, record.dtype, record.storage_shape, record.size, place, parts


def _byte_differences(written: ParameterFile, parts: Sequence[tuple[ParameterFile, Plan]]) -> Iterator[Fault]:
    records = enumerate(written.records)
    total = sum(record.size for record in written.records)
    with open(written.path, "rb") as new, task("comparing bytes", total, "B") as advance:
        for source, plan in parts:
            with open(source.path, "rb") as old:
                for (wanted, key), (number, found) in zip(plan, records, strict=False):
                    at = first_difference(old, wanted.offset, wanted.size, new, found.offset)
                    if at is not None:
                        yield Fault(f"differs from its source at byte {at} of the record", path=format_record(key, number))
                    advance(wanted.size)


def _target(out: BinaryIO) -> str:
    return str(getattr(out, "target", "") or getattr(out, "name", ""))
