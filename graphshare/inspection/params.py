"""``params list``, ``show`` and ``stats``: the headers of a parameter file, its arrays and their
statistics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from graphshare.arguments import Natural, Seconds
from graphshare.checkpoint.load import Names, StrPath, as_names, index_params
from graphshare.errors import Fault
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.lookup import find_equal_arrays
from graphshare.formats.params.mxnet_params import UNLOADABLE_DTYPES
from graphshare.formats.params.records import ParameterFile, Record, format_record, select_keys
from graphshare.progress import task
from graphshare.resources import resource_limits
from graphshare.text.format import format_bytes, format_count, format_dims, format_number
from graphshare.text.names import split_key
from graphshare.text.summary import ShortRepr, Table, format_html

if TYPE_CHECKING:
    from graphshare.formats.params.statistics import Statistics


class ListedRecord(msgspec.Struct, frozen=True):
    """A record. ``kind`` is ``arg``, ``aux`` or empty; ``size`` is in bytes of the file, header
    included.
    """

    key: str | None
    kind: str
    name: str | None
    shape: tuple[int, ...] | None
    dtype: str | None
    storage: str
    layout: str
    size: int


class ParameterListing(ShortRepr, msgspec.Struct, frozen=True):
    """The records of a parameter file; ``data_size`` is in bytes, without headers and names."""

    path: str
    format: str
    size: int
    named: bool
    arrays: tuple[ListedRecord, ...]
    data_size: int
    remarks: tuple[Fault, ...] = ()

    def _repr_html_(self) -> str:
        rows = [
            (a.key or "", format_dims(a.shape, unknown="-"), a.dtype or "", format_bytes(a.size))
            for a in self.arrays
        ]
        title = f"{self.path}: {format_count(len(self.arrays), 'array')}, {format_bytes(self.size)}"
        return format_html(title, tables=[Table(("name", "shape", "dtype", "size"), rows)])


def list_params(path: StrPath, *, epoch: Natural | None = None) -> ParameterListing:
    """Return the records of a parameter file, with remarks; no array is read.

    ``path`` is a file, ``-`` for stdin, or the stem of a checkpoint, with its ``epoch`` if it has
    several.

    Raises:
        InputError: the file cannot be read.
        UsageError: a stem has several parameter files.
    """
    file = index_params(path, epoch=epoch)
    return ParameterListing(
        path=file.shown_path,
        format=file.format,
        size=file.size,
        named=file.named,
        arrays=tuple(_list_record(record) for record in file.records),
        # A tied record has its bytes in another record; sparse arrays have their indices in parts.
        data_size=sum(
            r.data_size + sum(part.size for part in r.parts)
            for r in file.records
            if r.tied_to is None
        ),
        remarks=tuple(_remarks(file)),
    )


def _list_record(record: Record) -> ListedRecord:
    kind, name = ("", None) if record.key is None else split_key(record.key)
    return ListedRecord(
        record.key,
        kind,
        name,
        record.shape,
        record.dtype,
        record.storage,
        record.layout,
        record.size,
    )


def _remarks(file: ParameterFile) -> Iterator[Fault]:
    """Yield peculiarities that break or surprise readers."""
    if file.trailing:
        yield Fault(
            f"has {format_count(file.trailing, 'byte')} after the last name; MXNet ignores them, a rewrite drops them",
            where=file.path,
        )
    seen: set[str] = set()
    for number, record in enumerate(file.records):
        place = format_record(record.key, number)
        if record.key is not None and record.key in seen:
            yield Fault(
                "has the name of an earlier record; MXNet keeps the last",
                where=file.path,
                path=place,
            )
        if record.key is not None:
            seen.add(record.key)
        if record.shape is None:
            yield Fault("was never filled: it has no array", where=file.path, path=place)
        if file.format == "params" and record.dtype in UNLOADABLE_DTYPES:
            yield Fault(
                f"is {record.dtype}, which MXNet 1.9.1 does not load", where=file.path, path=place
            )


class ArrayDetails(msgspec.Struct, frozen=True):
    """One array. ``offset`` is the position of its data in the file, None inside a compressed
    member; ``size`` is in bytes.

    ``tied_to`` is the key whose bytes it shares, ``equal_to`` an earlier key with equal values and
    its own bytes.
    """

    key: str | None
    shape: tuple[int, ...] | None
    dtype: str | None
    storage: str
    layout: str
    offset: int | None
    size: int
    tied_to: str | None = None
    equal_to: str | None = None


class ParameterDetails(ShortRepr, msgspec.Struct, frozen=True):
    """The selected arrays of a file. ``repeated`` is the size of arrays that are equal to earlier
    ones, in bytes.
    """

    path: str
    format: str
    arrays: tuple[ArrayDetails, ...]
    size: int
    repeated: int

    def _repr_html_(self) -> str:
        rows = [
            (
                a.key or "",
                format_dims(a.shape, unknown="-"),
                a.dtype or "",
                format_bytes(a.size),
                a.tied_to or a.equal_to or "",
            )
            for a in self.arrays
        ]
        title = f"{self.path}: {format_count(len(self.arrays), 'array')}, {format_bytes(self.size)}"
        return format_html(
            title, tables=[Table(("name", "shape", "dtype", "size", "same as"), rows)]
        )


class ArrayStatistics(msgspec.Struct, frozen=True):
    """One array with its statistics, or None if it was never filled."""

    key: str | None
    shape: tuple[int, ...] | None
    dtype: str | None
    storage: str
    statistics: Statistics | None


class ParameterStatistics(ShortRepr, msgspec.Struct, frozen=True):
    """The selected arrays of a file with their statistics."""

    path: str
    format: str
    arrays: tuple[ArrayStatistics, ...]

    def _repr_html_(self) -> str:
        names = ("min", "max", "mean", "std", "norm")
        rows = [
            (a.key or "", format_dims(a.shape, unknown="-"), a.dtype or "",
             *(("-" if a.statistics is None else format_number(getattr(a.statistics, name))) for name in names))
            for a in self.arrays
        ]  # fmt: skip
        title = f"{self.path}: {format_count(len(self.arrays), 'array')}"
        return format_html(title, tables=[Table(("name", "shape", "dtype", *names), rows)])


def show_params(
    path: StrPath, *, select: Names = (), leave_out: Names = (), epoch: Natural | None = None
) -> ParameterDetails:
    """Return the arrays of the file, and say which are equal; arrays are read in pieces.

    ``path`` is a file, ``-`` for stdin, or the stem of a checkpoint, with its ``epoch`` if it has
    several. ``select`` limits the arrays to names that these patterns match; ``leave_out`` excludes
    names that its patterns match.

    Raises:
        InputError: the file cannot be read.
        UsageError: a stem has several parameter files.
        RefusedError: a pattern matches nothing.
    """
    file = index_params(path, epoch=epoch)
    records = _select_records(file, select, leave_out)
    equal = {key: kept for kept, others in find_equal_arrays(file, records) for key in others}
    arrays = tuple(_describe(record, equal) for record in records)
    repeated = sum(array.size for array in arrays if array.equal_to is not None)
    return ParameterDetails(
        file.shown_path,
        file.format,
        arrays,
        sum(a.size for a in arrays if a.tied_to is None),
        repeated,
    )


def _select_records(file: ParameterFile, select: Names, leave_out: Names) -> list[Record]:
    chosen = select_keys(file, as_names(select), leave_out=as_names(leave_out))
    return [record for record in file.records if record.key in chosen or not (select or leave_out)]


def _describe(record: Record, equal: dict[str, str]) -> ArrayDetails:
    size = record.data_size + sum(part.size for part in record.parts)
    twin = equal.get(record.key or "") if record.tied_to is None else None
    return ArrayDetails(record.key, record.shape, record.dtype, record.storage, record.layout, record.data_offset, size,
                      record.tied_to, twin)  # fmt: skip


def measure_params(
    path: StrPath,
    *,
    select: Names = (),
    leave_out: Names = (),
    epoch: Natural | None = None,
    time_limit: Seconds | None = None,
) -> ParameterStatistics:
    """Return the statistics of each array of the file; arrays are read in pieces.

    ``path`` is a file, ``-`` for stdin, or the stem of a checkpoint, with its ``epoch`` if it has
    several. ``select`` limits the arrays to names that these patterns match; ``leave_out`` excludes
    names that its patterns match. Work ends with an error after ``time_limit`` seconds.

    Raises:
        InputError: the file cannot be read.
        UsageError: a stem has several parameter files.
        RefusedError: a pattern matches nothing; ``time_limit`` has passed.
    """
    # Start-up: `show` needs no numpy
    from graphshare.formats.params.statistics import measure_array

    with resource_limits(None, time_limit):
        file = index_params(path, epoch=epoch)
        records = _select_records(file, select, leave_out)
        arrays = []
        with (
            ArrayReader(file) as reader,
            task("measuring", sum(r.data_size for r in records), "B") as advance,
        ):
            for record in records:
                numbers = None if record.shape is None else measure_array(reader, record, advance)
                arrays.append(
                    ArrayStatistics(record.key, record.shape, record.dtype, record.storage, numbers)
                )
    return ParameterStatistics(file.shown_path, file.format, tuple(arrays))
