"""``params list``: the records of a parameter file, from its headers alone."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from graphshare.arguments import Natural
from graphshare.checkpoint.load import StrPath, find_params
from graphshare.errors import Fault
from graphshare.formats.params.mxnet_index import UNLOADABLE_DTYPES
from graphshare.formats.params.records import ParameterFile, Record, format_record
from graphshare.formats.params.registry import read_index
from graphshare.text.format import format_bytes, format_count, format_dims
from graphshare.text.html import Table, format_html
from graphshare.text.names import split_key
from graphshare.text.short_repr import ShortRepr


class ListedRecord(msgspec.Struct, frozen=True):
    """A record. ``kind`` is ``arg``, ``aux`` or empty; ``size`` is in bytes of the file, header included."""

    key: str | None
    kind: str
    name: str | None
    shape: tuple[int, ...] | None
    dtype: str | None
    storage: str
    layout: str
    size: int


class ParameterListing(ShortRepr, msgspec.Struct, frozen=True):
    """The records of a parameter file. ``data_size`` is the stored size of the arrays in bytes, without headers and names."""

    path: str
    format: str
    size: int
    named: bool
    arrays: tuple[ListedRecord, ...]
    data_size: int
    remarks: tuple[Fault, ...] = ()

    def _repr_html_(self) -> str:
        """Return the records as a table, which notebooks show."""
        rows = [(a.key or "", format_dims(a.shape, unknown="-"), a.dtype or "", format_bytes(a.size)) for a in self.arrays]
        title = f"{self.path}: {format_count(len(self.arrays), 'array')}, {format_bytes(self.size)}"
        return format_html(title, tables=[Table(("name", "shape", "dtype", "size"), rows)])


def list_params(path: StrPath, *, epoch: Natural | None = None) -> ParameterListing:
    """Return the records of a parameter file, with remarks; no array is read.

    ``path`` is a file, ``-`` for stdin, or the stem of a checkpoint, with its ``epoch`` if it has several.

    Raises:
        InputError: the file cannot be read.
        UsageError: a stem has several parameter files.
    """
    file = read_index(find_params(path, epoch=epoch))
    return ParameterListing(
        path=file.shown_path,
        format=file.format,
        size=file.size,
        named=file.named,
        arrays=tuple(_list_record(record) for record in file.records),
        data_size=sum(r.data_size + sum(part.size for part in r.parts) for r in file.records if r.tied_to is None),
        remarks=tuple(_remarks(file)),
    )


def _list_record(record: Record) -> ListedRecord:
    kind, name = ("", None) if record.key is None else split_key(record.key)
    return ListedRecord(record.key, kind, name, record.shape, record.dtype, record.storage, record.layout, record.size)


def _remarks(file: ParameterFile) -> Iterator[Fault]:
    """Yield the peculiarities of the file that break or surprise readers."""
    if file.trailing:
        yield Fault(
            f"has {format_count(file.trailing, 'byte')} after the last name; MXNet ignores them, a rewrite drops them",
            where=file.path,
        )
    seen: set[str] = set()
    for number, record in enumerate(file.records):
        place = format_record(record.key, number)
        if record.key is not None and record.key in seen:
            yield Fault("has the name of an earlier record; MXNet keeps the last", where=file.path, path=place)
        if record.key is not None:
            seen.add(record.key)
        if record.shape is None:
            yield Fault("was never filled: it has no array", where=file.path, path=place)
        if file.format == "params" and record.dtype in UNLOADABLE_DTYPES:
            yield Fault(f"is {record.dtype}, which MXNet 1.9.1 does not load", where=file.path, path=place)
