"""numpy's files: the header of an ``.npy`` array, and ``.npz``, a zip archive of such arrays named
by key.

An array::

    0   6   93 4E 55 4D 50 59  (0x93, "NUMPY")
    6   2   version: major 1, 2 or 3, minor 0
    8   2   uint16 header length (version 1); uint32, 4 bytes, from version 2 on
    ..  ..  the header: a Python dict literal with 'descr', 'fortran_order' and 'shape'; Latin-1, UTF-8 in version 3
    ..  ..  the elements

The index comes from the members' headers; nothing is unpickled or extracted to disk, so a member
may be called ``../x``. Members are stored or deflated (as numpy writes them); other methods and
encryption are refused. Before its data is read, a member's declared size must match its header's
shape and dtype, and fit its compressed bytes. Archives are written uncompressed.
"""

from __future__ import annotations

import ast
import io
import re
import struct
import zlib
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, BinaryIO

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.files.byte_source import ByteSource, SourceFile
from graphshare.formats.params.format import CHUNK, Chunks, ParameterFormat, Plan, WriteOptions
from graphshare.formats.params.records import (
    DTYPES,
    ITEM_SIZES,
    MAX_RANK,
    MAX_RECORDS,
    ParameterFile,
    Record,
    element_count,
    format_record,
)
from graphshare.text.format import format_count, shorten

if TYPE_CHECKING:  # start-up: zipfile is imported where an archive is opened
    import zipfile

_STORED, _DEFLATED = 0, 8  # methods of compression
_DEFLATE_RATIO = 1032  # bytes that one deflated byte can hold at most
_ENCRYPTED = 0x1
# Bytes at either end; at the start is the first member's name, at the end a list of all names
_SAMPLE = 1 << 16
_MAX_RANK = 64  # numpy's
# What stands before each member: signature, sizes of its name and of what follows that
_LOCAL = struct.Struct("<4s22xHH")
_MEMBER = b"PK\x03\x04"
# Flags; the other bits of the second say how it was deflated and where its checksum is
_UTF_8, _USUAL = 0x800, 0x80E
_HEAD = 512  # bytes from a member's beginning on that hold its .npy header, unless the name is long
_BATCH = 256  # members whose headers are requested together
MAX_HEADER_SIZE = 10_000  # numpy's own limit
MAGIC = b"\x93NUMPY"
_LONG_LITERAL = re.compile(r"(\d)L\b")  # Python 2 wrote shapes as (3L, 4L)
_DTYPES = {codes.npy[1:]: dtype for dtype, codes in DTYPES.items() if codes.npy}


class Npz(ParameterFormat):
    """Archives of numpy."""

    name = "npz"
    starts = (_MEMBER, b"PK\x05\x06")  # a member's header; the end record of an empty archive

    def may_hold_arrays(self, source: ByteSource) -> bool:
        """Whether an archive has an array, or no member at all; a PyTorch checkpoint is an archive
        too.
        """
        size = min(_SAMPLE, source.size)
        # The end is read next
        parts = (source.read_at(offset, size) for offset in (source.size - size, 0))
        return any(
            b".npy" in part or MAGIC in part or part.startswith(b"PK\x05\x06") for part in parts
        )

    def index(self, source: ByteSource) -> ParameterFile:
        """Faults of all members are reported at once."""
        with _open_archive(source) as archive:
            members = archive.infolist()
            if len(members) > MAX_RECORDS:
                raise InputError(
                    Fault(
                        f"has {format_count(len(members), 'member')}; graphshare reads up to {MAX_RECORDS:,}",
                        where=source.name,
                    )
                )
            faults = list(_find_misplaced_members(members, source.size))
            records = []
            for number, member in enumerate(members) if not faults else ():
                if number % _BATCH == 0:
                    starts = [other.header_offset for other in members[number : number + _BATCH]]
                    source.prefetch((start, min(start + _HEAD, source.size)) for start in starts)
                try:
                    records.append(_read_record(archive, source, member))
                except InputError as error:
                    place = format_record(_key(member), number)
                    faults += [msgspec.structs.replace(fault, path=place) for fault in error.faults]
        if faults:
            raise InputError(
                [msgspec.structs.replace(fault, where=source.name) for fault in faults]
            )
        return ParameterFile(
            source.name,
            source.size,
            self.name,
            tuple(records),
            named=bool(records),
            identity=source.identity,
        )

    def read(self, source: ByteSource) -> Chunks:
        """A member's checksum is compared while its elements are read."""
        archive = _open_archive(source)
        members = {member.header_offset: member for member in archive.infolist()}

        def describe(record: Record) -> str:
            return format_record(
                record.key, list(members).index(record.offset) if record.offset in members else None
            )

        def chunks(record: Record) -> Iterator[bytes]:
            left = record.data_size
            try:
                with archive.open(members[record.offset]) as stream:
                    read_npy_header(stream)
                    # The read at the end makes zipfile compare the checksum
                    while chunk := stream.read(CHUNK):
                        left -= len(chunk)
                        yield chunk
            except _read_errors() as error:
                raise _unreadable(source, error, describe(record)) from error
            if left:
                raise _unreadable(
                    source, EOFError(f"{format_count(left, 'byte')} missing"), describe(record)
                )

        return chunks

    def write(self, plan: Plan, out: BinaryIO, chunks: Chunks, options: WriteOptions) -> None:
        import zipfile  # start-up: only npz files need it

        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
            for record, key in plan:
                header = encode_npy_header(*record.shape_and_dtype())
                # The first date of archives: equal arrays give equal bytes on any day.
                member = zipfile.ZipInfo(f"{key}.npy", date_time=(1980, 1, 1, 0, 0, 0))
                member.create_system = 3  # the same bytes on every system
                # zipfile decides by it whether the member needs the 64-bit fields.
                member.file_size = len(header) + record.dense_size
                with archive.open(member, "w") as stream:
                    stream.write(header)
                    for chunk in chunks(record):
                        stream.write(chunk)

    def refuse(self, record: Record, key: str, options: WriteOptions) -> Fault | None:
        if record.dtype == "bfloat16":
            return Fault(
                "is bfloat16, which has no .npy form",
                hint="convert to .safetensors, or cast it to float32 first",
            )
        if record.shape is not None and len(record.shape) > _MAX_RANK:
            return Fault(f"has rank {len(record.shape)}; numpy supports ranks up to {_MAX_RANK}")
        if "\0" in key:
            return Fault(
                "has a name with a NUL, which ends a zip member's name", hint="rename it first"
            )
        try:
            size = len(key.encode()) + 4
        except UnicodeEncodeError:
            return Fault("has a name that is not UTF-8", hint="rename it first")
        return Fault("has a name too long for a zip member") if size > 0xFFFF else None


FORMAT = Npz()


def _open_archive(source: ByteSource) -> zipfile.ZipFile:
    import zipfile  # start-up: only npz files need it

    try:
        return zipfile.ZipFile(io.BufferedReader(SourceFile(source)))
    except _read_errors() as error:
        raise _unreadable(source, error) from error


def _read_errors() -> tuple[type[Exception], ...]:
    import zipfile  # start-up: only npz files need it

    return (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
        OSError,
        ValueError,
        OverflowError,
        struct.error,
        KeyError,
    )


def _unreadable(source: ByteSource, error: BaseException, place: str = "") -> InputError:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return InputError(Fault(f"cannot be read as .npz: {reason}", where=source.name, path=place))


def _read_record(archive: zipfile.ZipFile, source: ByteSource, member: zipfile.ZipInfo) -> Record:
    if member.flag_bits & _ENCRYPTED:
        raise InputError("is encrypted")
    if member.compress_type not in (_STORED, _DEFLATED):
        raise InputError(
            f"is compressed by method {member.compress_type}", hint="save it with numpy.savez"
        )
    if member.compress_type == _STORED and member.file_size != member.compress_size:
        raise InputError(
            f"claims {format_count(member.file_size, 'byte')}, stored in {member.compress_size:,}"
        )
    if member.file_size > member.compress_size * _DEFLATE_RATIO:
        raise InputError(
            f"claims {format_count(member.file_size, 'byte')}, more than {member.compress_size:,} "
            f"compressed ones can hold"
        )
    header = _peek_header(source, member) if source.descriptor() is None else None
    if header is None:
        try:
            with archive.open(member) as stream:
                header = read_npy_header(stream)
        except _read_errors() as error:
            raise InputError(f"cannot be read: {error}") from error
    size = header.size + element_count(header.shape) * ITEM_SIZES[header.dtype]
    if size != member.file_size:
        shape = shorten(f"({', '.join(map(str, header.shape))})", 120)
        raise InputError(
            f"has {format_count(member.file_size, 'byte')}, but its shape {shape} needs {format_count(size)}"
        )
    return Record(
        key=_key(member),
        shape=header.shape,
        dtype=header.dtype,
        layout="npy",
        offset=member.header_offset,
        size=member.compress_size,
        data_offset=None,
        data_size=size - header.size,
        fortran_order=header.fortran_order,
        big_endian=header.big_endian,
    )


def _peek_header(source: ByteSource, member: zipfile.ZipInfo) -> NpyHeader | None:
    """Return a member's ``.npy`` header from its first bytes alone: zipfile requests 4 KiB and
    more.

    None if it is incomplete or unusual: zipfile then reads it, or reports the fault.
    """
    start = source.read_at(member.header_offset, min(_HEAD, source.size - member.header_offset))
    if len(start) < _LOCAL.size or member.flag_bits & ~_USUAL:
        return None
    signature, name_size, extra_size = _LOCAL.unpack_from(start)
    data = start[_LOCAL.size + name_size + extra_size :][: member.compress_size]
    try:
        name = member.orig_filename.encode("utf-8" if member.flag_bits & _UTF_8 else "cp437")
        if signature != _MEMBER or start[_LOCAL.size :][:name_size] != name:
            return None
        if member.compress_type == _DEFLATED:
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, _HEAD)
        # Only a member that is here as a whole can be checked already.
        is_damaged = len(data) == member.file_size and zlib.crc32(data) != member.CRC
        return None if is_damaged else read_npy_header(io.BytesIO(data))
    except (zlib.error, UnicodeEncodeError, InputError):
        return None


def _find_misplaced_members(members: list[zipfile.ZipInfo], size: int) -> Iterator[Fault]:
    """Report members that overlap or lie outside: such an archive could unpack to too much."""
    ordered = sorted(enumerate(members), key=lambda item: item[1].header_offset)
    end = 0
    for number, member in ordered:
        if member.header_offset < end:
            yield Fault("overlaps the member before it", path=format_record(_key(member), number))
        end = member.header_offset + _LOCAL.size + member.compress_size
        if end > size:
            yield Fault("lies beyond the end of the file", path=format_record(_key(member), number))


def _key(member: zipfile.ZipInfo) -> str:
    # Not filename: it ends at a NUL and has slashes in place of the separators of Windows.
    return member.orig_filename.removesuffix(".npy")


class NpyHeader(msgspec.Struct, frozen=True):
    """The header of an ``.npy`` array; ``size`` is in bytes, the magic included."""

    shape: tuple[int, ...]
    dtype: str
    fortran_order: bool
    big_endian: bool
    size: int


def read_npy_header(stream: IO[bytes]) -> NpyHeader:
    """Read the header at the start of ``stream`` and no more. Raises InputError, also for a dtype
    without numbers.
    """
    descr, fortran, shape, size = read_npy_start(stream)
    dtype = _DTYPES.get(descr[1:])
    if dtype is None or descr[0] not in "<>|=":
        raise _refuse_dtype(descr)
    big = descr[0] == ">" and ITEM_SIZES[dtype] > 1
    return NpyHeader(shape, dtype, fortran and len(shape) > 1, big, size)


def read_npy_start(stream: IO[bytes]) -> tuple[str, bool, tuple[int, ...], int]:
    """Read a header of any dtype: its text, whether columns come first, the shape, and the size."""
    start = stream.read(8)
    if start[:6] != MAGIC or len(start) < 8:
        raise InputError("is not an .npy array")
    if start[6] not in (1, 2, 3) or start[7] != 0:
        raise InputError(f"has .npy version {start[6]}.{start[7]}; known are 1.0, 2.0 and 3.0")
    width = 2 if start[6] == 1 else 4
    length_field = stream.read(width)
    length = int.from_bytes(length_field, "little")
    if len(length_field) < width or length > MAX_HEADER_SIZE:
        raise InputError(
            f"has an .npy header of {format_count(length, 'byte')}; graphshare reads up to {MAX_HEADER_SIZE:,}"
        )
    raw = stream.read(length)
    if len(raw) < length:
        raise InputError("ends inside its .npy header")
    return *_parse_header(
        raw.decode("utf-8" if start[6] == 3 else "latin-1", "replace")
    ), 8 + width + length


def _parse_header(text: str) -> tuple[str, bool, tuple[int, ...]]:
    header = None
    for candidate in (text, _LONG_LITERAL.sub(r"\1", text)):
        try:
            header = ast.literal_eval(candidate.strip())
            break
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise InputError(
            "has an .npy header that is not a dict of 'descr', 'fortran_order' and 'shape'"
        )
    descr, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
    if not isinstance(descr, str) or len(descr) < 2:
        raise _refuse_dtype(descr)
    if not isinstance(fortran, bool):
        raise InputError("has an .npy header whose 'fortran_order' is not True or False")
    if not isinstance(shape, tuple) or not all(
        type(size) is int and 0 <= size < 1 << 63 for size in shape
    ):
        raise InputError("has an .npy header whose 'shape' is not a tuple of counts")
    if len(shape) > MAX_RANK:
        raise InputError(f"has rank {len(shape)}; ranks go up to {MAX_RANK}")
    return descr, fortran, shape


def _refuse_dtype(descr: object) -> InputError:
    if isinstance(descr, str) and "O" in descr[:2]:
        return InputError(
            "holds pickled Python objects, which are never unpickled",
            hint="save plain numeric arrays (no dtype=object)",
        )
    message = f"has dtype {shorten(repr(descr), 80)}, which is not numeric"
    return InputError(message, hint="save it as a numeric dtype, such as float32")


def encode_npy_header(shape: tuple[int, ...], dtype: str) -> bytes:
    """Return the header of a little-endian C-order array, padded to a multiple of 64 bytes."""
    dims = "".join(f"{size}, " for size in shape)
    dims = dims.rstrip() if len(shape) == 1 else dims.removesuffix(", ")
    text = f"{{'descr': '{DTYPES[dtype].npy}', 'fortran_order': False, 'shape': ({dims}), }}"
    # Magic, version and length have ten bytes, and a line break ends the header.
    padding = -(len(text) + 11) % 64
    length = len(text) + padding + 1
    return (
        MAGIC
        + b"\x01\x00"
        + length.to_bytes(2, "little")
        + text.encode("ascii")
        + b" " * padding
        + b"\n"
    )
