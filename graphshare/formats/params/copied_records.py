"""Copy records between parameter files of one format, header and all, and compare a copy with its
plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import BinaryIO

import msgspec

from graphshare.errors import Fault, SelfCheckError
from graphshare.files.byte_source import ByteSource
from graphshare.files.open_source import reopen_source
from graphshare.files.staged_file import output_error
from graphshare.formats.params.byte_ranges import copy_ranges, first_difference, write_all
from graphshare.formats.params.format import Parts, Plan
from graphshare.formats.params.records import ParameterFile, Record, encode_key, format_record
from graphshare.progress import task
from graphshare.text.format import format_count


def copy_records(parts: Parts, out: BinaryIO, head: bytes = b"", tail: bytes = b"") -> None:
    """Write ``head``, the planned records of several files, file by file, and ``tail`` to ``out``.

    Raises InputError when a source changed since it was indexed, OutputError when writing fails.
    """
    try:
        write_all(out, head)
        with task(
            "copying parameters", sum(record.size for _, plan in parts for record, _ in plan), "B"
        ) as advance:
            for file, items in parts:
                # Neighbours become one range, often the whole file.
                ranges = ((record.offset, record.size) for record, _ in items)
                with reopen_source(file.path, file.identity, file.held) as source:
                    copy_ranges(source, ranges, out, advance=advance)
                    source.check_unchanged()
        write_all(out, tail)
        out.flush()
    except OSError as error:
        raise output_error(
            error, str(getattr(out, "target", "") or getattr(out, "name", ""))
        ) from error


def verify_records(
    index: ParameterFile,
    written: ByteSource,
    parts: Parts,
    *,
    verify_bytes: bool,
    named: bool = True,
) -> None:
    """Compare the ``index`` of a copied file with its plan; with ``verify_bytes`` also the bytes.

    Unless ``named`` the file has no names. Memory does not grow with the arrays. Raises
    SelfCheckError.
    """
    plan = [item for _, items in parts for item in items]
    faults = list(_differences(index, plan, named))
    if not faults and verify_bytes:
        faults = list(_byte_differences(written, index, parts))
    if faults:
        raise SelfCheckError(
            [msgspec.structs.replace(fault, where=written.name) for fault in faults]
        )


def _differences(written: ParameterFile, plan: Plan, named: bool) -> Iterator[Fault]:
    if len(written.records) != len(plan):
        yield Fault(
            f"holds {format_count(len(written.records), 'array')}, not the {len(plan)} that were to be written"
        )
        return
    if written.trailing:
        yield Fault(f"has {format_count(written.trailing, 'byte')} behind the last name")
    for number, (record, (source, key)) in enumerate(zip(written.records, plan, strict=True)):
        place = format_record(key, number)
        if (
            named
            and record.key != key
            and (record.key is None or key is None or record.key_bytes != encode_key(key))
        ):
            yield Fault(f"reads back under the name {record.key!r}", path=place)
        if _content(record) != _content(source):
            yield Fault("reads back with another shape, type or size", path=place)


def _content(record: Record) -> tuple[object, ...]:
    parts: tuple[object, ...] = ()
    if record.parts:
        parts = tuple(
            (part.role, part.dtype, part.shape, part.size, part.offset - record.offset)
            for part in record.parts
        )
    place = None if record.data_offset is None else record.data_offset - record.offset
    return (
        record.layout,
        record.storage,
        record.shape,
        record.dtype,
        record.storage_shape,
        record.size,
        place,
        parts,
    )


def _byte_differences(written: ByteSource, index: ParameterFile, parts: Parts) -> Iterator[Fault]:
    records = enumerate(index.records)
    total = sum(record.size for record in index.records)
    with ExitStack() as stack:
        advance = stack.enter_context(task("comparing bytes", total, "B"))
        for file, plan in parts:
            source = stack.enter_context(reopen_source(file.path, file.identity, file.held))
            # The plan comes first: at its end zip has not yet taken a record of the next file.
            for (planned, key), (number, record) in zip(plan, records, strict=False):
                at = first_difference(source, planned.offset, written, record.offset, planned.size)
                if at is not None:
                    yield Fault(
                        f"differs from its source at byte {at} of the record",
                        path=format_record(key, number),
                    )
                advance(planned.size)
