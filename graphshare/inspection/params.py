"""The results of ``params list``, ``show`` and ``stats``: headers, arrays and their statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from graphshare.errors import Fault
from graphshare.text.format import format_bytes, format_count, format_dims, format_number
from graphshare.text.summary import ShortRepr, Table, format_html

if TYPE_CHECKING:
    from graphshare.formats.params.statistics import Statistics


class ListedRecord(msgspec.Struct, frozen=True):
    """A record. ``kind`` is ``arg``, ``aux`` or empty; ``size`` is in bytes, header included."""

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
    """The selected arrays of a file; ``repeated`` are the bytes of arrays equal to earlier ones."""

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
