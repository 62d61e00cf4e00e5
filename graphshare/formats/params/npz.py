"""``.npz``: a zip archive of ``.npy`` members, one per array, the member's name being the key and ``.npy``.

The index comes from the members' headers, of which no more than 10,000 characters are read; nothing is ever unpickled and
nothing extracted to disk, so a member may be called ``/etc/passwd`` or ``../x``. Members are stored or deflated (what numpy
writes); other methods and encryption are refused. A member's declared size must be what its header's shape and dtype need, and
no more than its compressed bytes can hold, before any of its data is read.

An ``.npy`` member::

    0   6   93 4E 55 4D 50 59  (0x93, "NUMPY")
    6   2   version: major 1, 2 or 3, minor 0
    8   2   uint16 header length (version 1); uint32, 4 bytes, from version 2 on
    ..  ..  the header: a Python dict literal with 'descr', 'fortran_order' and 'shape'; Latin-1, UTF-8 in version 3
    ..  ..  the elements
"""

from __future__ import annotations

import ast
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.formats.params.byte_ranges import CHUNK
from graphshare.formats.params.records import (
    ITEM_SIZES,
    MAX_RANK,
    MAX_RECORDS,
    ParameterFile,
    Record,
    element_count,
    format_record,
)
from graphshare.text.format import format_count, shorten

MAX_HEADER_SIZE = 10_000  # numpy's own limit
MAGIC = b"\x93NUMPY"
_DEFLATE_RATIO = 1032  # no deflated byte stands for more
_ENCRYPTED = 0x1
_LONG_LITERAL = re.compile(r"(\d)L\b")  # Python 2 wrote shapes as (3L, 4L)
_CANNOT_READ = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OSError,
    ValueError,
    OverflowError,
    struct.error,
)

DESCRS = {
    "float32": "<f4",
    "float64": "<f8",
    "float16": "<f2",
    "bool": "|b1",
    "int8": "|i1",
    "uint8": "|u1",
    "int16": "<i2",
    "uint16": "<u2",
    "int32": "<i4",
    "uint32": "<u4",
    "int64": "<i8",
    "uint64": "<u8",
}
DTYPES = frozenset(DESCRS)
_DTYPES = {descr[1:]: dtype for dtype, descr in DESCRS.items()}


class NpyHeader(msgspec.Struct, frozen=True):
    """What an ``.npy`` header says; ``size`` is its length in bytes, the magic included."""

    shape: tuple[int, ...]
    dtype: str
    fortran_order: bool
    big_endian: bool
    size: int


class NpzReader:
    """An open ``.npz`` file: its index, and its members' data on demand. A context manager; raises InputError."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._archive = zipfile.ZipFile(path)
        except _CANNOT_READ as error:
            raise self._unreadable(error) from error
        self._members = {member.header_offset: member for member in self._archive.infolist()}

    def __enter__(self) -> NpzReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def index(self) -> ParameterFile:
        """Every member's name, shape and dtype. All that is wrong with any member is reported at once."""
        with open(self.path, "rb") as file:
            size = file.seek(0, 2)
        members = self._archive.infolist()
        if len(members) > MAX_RECORDS:
            raise InputError(Fault(f"has {len(members):,} members; graphshare reads up to {MAX_RECORDS:,}", where=self.path))
        faults = list(_misplaced(members, size))
        records = []
        for number, member in enumerate(members) if not faults else ():
            try:
                records.append(self._record(member))
            except InputError as error:
                place = format_record(_key(member), number)
                faults += [msgspec.structs.replace(fault, path=place) for fault in error.faults]
        if faults:
            raise InputError([msgspec.structs.replace(fault, where=self.path) for fault in faults])
        return ParameterFile(self.path, size, "npz", tuple(records), named=bool(records))

    def _record(self, member: zipfile.ZipInfo) -> Record:
        if member.flag_bits & _ENCRYPTED:
            raise InputError("is encrypted")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InputError(f"is compressed by method {member.compress_type}", hint="save it with numpy.savez")
        if member.compress_type == zipfile.ZIP_STORED and member.file_size != member.compress_size:
            raise InputError(f"claims {member.file_size:,} bytes, stored in {member.compress_size:,}")
        if member.file_size > member.compress_size * _DEFLATE_RATIO:
            raise InputError(f"claims {member.file_size:,} bytes, more than {member.compress_size:,} compressed ones can hold")
        try:
            with self._archive.open(member) as stream:
                header = read_npy_header(stream)
        except _CANNOT_READ as error:
            raise InputError(f"cannot be read: {error}") from error
        wanted = header.size + element_count(header.shape) * ITEM_SIZES[header.dtype]
        if wanted != member.file_size:
            shape = shorten(f"({', '.join(map(str, header.shape))})", 120)
            raise InputError(f"has {member.file_size:,} bytes, but its shape {shape} needs {format_count(wanted)}")
        return Record(
            key=_key(member),
            shape=header.shape,
            dtype=header.dtype,
            layout="npy",
            offset=member.header_offset,
            size=member.compress_size,
            data_offset=None,
            data_size=wanted - header.size,
            fortran_order=header.fortran_order,
            big_endian=header.big_endian,
        )

    def chunks(self, record: Record) -> Iterator[bytes]:
        """The elements of ``record`` as the member holds them, in pieces of at most 1 MiB; checks the checksum on the way."""
        left = record.data_size
        try:
            with self._archive.open(self._members[record.offset]) as stream:
                read_npy_header(stream)
                while True:
                    # One read past the data makes zipfile compare the checksum.
                    chunk = stream.read(CHUNK)
                    if not chunk:
                        break
                    left -= len(chunk)
                    yield chunk
        except (*_CANNOT_READ, KeyError) as error:
            raise self._unreadable(error, self._place(record)) from error
        if left:
            raise self._unreadable(EOFError(f"{left:,} bytes are missing"), self._place(record))

    def _place(self, record: Record) -> str:
        return format_record(record.key, list(self._members).index(record.offset) if record.offset in self._members else None)

    def _unreadable(self, error: BaseException, member: str = "") -> InputError:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return InputError(Fault(f"cannot be read as .npz: {reason}", where=self.path, path=member))


def read_npz_index(path: str) -> ParameterFile:
    """The index of the ``.npz`` file at ``path``. Raises InputError."""
    with NpzReader(path) as reader:
        return reader.index()


def read_npy_header(stream: IO[bytes]) -> NpyHeader:
    """The header at the start of ``stream``; reads no more than it has. Raises InputError, never unpickles."""
    start = stream.read(8)
    if start[:6] != MAGIC or len(start) < 8:
        raise InputError("is not an .npy array")
    if start[6] not in (1, 2, 3) or start[7] != 0:
        raise InputError(f"has .npy version {start[6]}.{start[7]}; known are 1.0, 2.0 and 3.0")
    width = 2 if start[6] == 1 else 4
    length_field = stream.read(width)
    length = int.from_bytes(length_field, "little")
    if len(length_field) < width or length > MAX_HEADER_SIZE:
        raise InputError(f"has an .npy header of {length:,} bytes; more than {MAX_HEADER_SIZE:,} are not read")
    raw = stream.read(length)
    if len(raw) < length:
        raise InputError("ends inside its .npy header")
    descr, fortran, shape = _parse_header(raw.decode("utf-8" if start[6] == 3 else "latin-1", "replace"))
    dtype = _DTYPES.get(descr[1:])
    if dtype is None or descr[0] not in "<>|=":
        raise _unsupported(descr)
    big = descr[0] == ">" and ITEM_SIZES[dtype] > 1
    return NpyHeader(shape, dtype, fortran and len(shape) > 1, big, 8 + width + length)


def _parse_header(text: str) -> tuple[str, bool, tuple[int, ...]]:
    header = None
    for candidate in (text, _LONG_LITERAL.sub(r"\1", text)):
        try:
            header = ast.literal_eval(candidate.strip())
            break
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise InputError("has an .npy header that is not a dict of 'descr', 'fortran_order' and 'shape'")
    descr, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
    if not isinstance(descr, str) or len(descr) < 2:
        raise _unsupported(descr)
    if not isinstance(fortran, bool):
        raise InputError("has an .npy header whose 'fortran_order' is not True or False")
    if not isinstance(shape, tuple) or not all(type(size) is int and 0 <= size < 1 << 63 for size in shape):
        raise InputError("has an .npy header whose 'shape' is not a tuple of counts")
    if len(shape) > MAX_RANK:
        raise InputError(f"has rank {len(shape)}; ranks go up to {MAX_RANK}")
    return descr, fortran, shape


def _unsupported(descr: object) -> InputError:
    if isinstance(descr, str) and "O" in descr[:2]:
        return InputError(
            "holds pickled Python objects, which are never unpickled", hint="save plain numeric arrays (no dtype=object)"
        )
    return InputError(
        f"has dtype {shorten(repr(descr), 80)}, which no parameter file holds",
        hint="save it as a numeric dtype, such as float32",
    )


def _misplaced(members: list[zipfile.ZipInfo], size: int) -> Iterator[Fault]:
    """Members that overlap or lie outside the file: how an archive is made to unpack to more than it could hold."""
    ordered = sorted(enumerate(members), key=lambda item: item[1].header_offset)
    end = 0
    for number, member in ordered:
        if member.header_offset < end:
            yield Fault("overlaps the member before it", path=format_record(_key(member), number))
        end = member.header_offset + 30 + member.compress_size
        if end > size:
            yield Fault("lies beyond the end of the file", path=format_record(_key(member), number))


def _key(member: zipfile.ZipInfo) -> str:
    return member.orig_filename.removesuffix(".npy")
