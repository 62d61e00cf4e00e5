"""Read ``.pdiparams`` files of PaddlePaddle as an index by seeking, and write them as a stream.

The format has no names: the records are a graph's parameters, their names ordered by code points::

    uint32 0 | uint64 levels | [uint64 bytes, data] for each level | uint32 0 | int32 size | description | data

The description is a protobuf message of ``size`` bytes: the dtype (field 1, a varint), and the size
of each axis (field 2, a varint each). Integers are little endian, data is row-major and not
aligned. PaddlePaddle 2 has the same file beside its ``.pdmodel``.
"""

from __future__ import annotations

from struct import Struct
from typing import BinaryIO

from graphshare.errors import Fault, InputError, SelfCheckError
from graphshare.files.byte_source import DAMAGED, ByteSource, Cursor
from graphshare.formats.onnx.protobuf import (
    VARINT,
    WireError,
    encode_varint,
    once,
    read_varint,
    scan,
)
from graphshare.formats.params.byte_ranges import write_all
from graphshare.formats.params.copied_records import copy_records, verify_records
from graphshare.formats.params.format import Chunks, ParameterFormat, Parts, Plan, WriteOptions
from graphshare.formats.params.records import (
    ITEM_SIZES,
    MAX_RANK,
    MAX_RECORDS,
    ParameterFile,
    Record,
    element_count,
    encode_key,
)
from graphshare.text.format import format_shape

_CODES = {
    "bool": 0,
    "int16": 1,
    "int32": 2,
    "int64": 3,
    "float16": 4,
    "float32": 5,
    "float64": 6,
    "uint8": 20,
    "int8": 21,
    "bfloat16": 22,
}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
_COMPLEX = {23: ("complex64", 8), 24: ("complex128", 16)}
"""Dtypes unique to this format, with their element size in bytes: they are listed as bytes."""
_U32, _U64, _I32 = Struct("<I"), Struct("<Q"), Struct("<i")
_HEADER = Struct("<IQIi")
_LARGEST = 11 * (MAX_RANK + 1)  # bytes of a description
_MAX_LEVELS = 64
_DTYPE, _SIZE = 1, 2  # fields of a description


class Pdiparams(ParameterFormat):
    """Files of PaddlePaddle. Records without names keep their order; others are sorted by name."""

    name = "pdiparams"
    description = ".pdiparams (PaddlePaddle)"
    unique_names = False
    keeps_names = False
    may_be_empty = False  # Paddle refuses such a file
    copies_records = True

    def sniff(self, start: bytes) -> bool:
        if len(start) <= _HEADER.size or any(start[: _U32.size]):
            return False
        (levels,) = _U64.unpack_from(start, _U32.size)
        # Zeros alone may be anything: a description with the tag of its dtype follows them
        if not levels:
            return _HEADER.unpack_from(start)[2] == 0 and start[_HEADER.size] == 8
        return bool(
            levels <= _MAX_LEVELS
            and _U64.unpack_from(start, _U32.size + _U64.size)[0] % _U64.size == 0
        )

    def index(self, source: ByteSource) -> ParameterFile:
        cursor, records = Cursor(source), list[Record]()
        while cursor.position < cursor.size:
            cursor.record = len(records)
            if len(records) == MAX_RECORDS:
                cursor.fail(
                    f"has more than {MAX_RECORDS:,} arrays, which is as many as graphshare reads"
                )
            records.append(_read_record(cursor))
        return ParameterFile(
            source.name,
            source.size,
            self.name,
            tuple(records),
            named=False,
            identity=source.identity,
        )

    def write(self, plan: Plan, out: BinaryIO, chunks: Chunks, options: WriteOptions) -> None:
        for record, _ in order_by_name(plan):
            shape, dtype = record.shape_and_dtype()
            description = b"".join(
                [
                    b"\x08",
                    encode_varint(_CODES[dtype]),
                    *(b"\x10" + encode_varint(size) for size in shape),
                ]
            )
            write_all(out, _HEADER.pack(0, 0, 0, len(description)) + description)
            for chunk in chunks(record):
                write_all(out, chunk)

    def refuse(self, record: Record, key: str, options: WriteOptions) -> Fault | None:
        if record.dtype not in _CODES:
            return Fault(
                f"is {record.dtype}, which Paddle does not save",
                hint="cast it first, for instance to int64",
            )
        return None

    def copy(self, parts: Parts, out: BinaryIO) -> None:
        copy_records(_order_parts(parts), out)

    def verify_copy(
        self, written: ByteSource, parts: Parts, *, verify_bytes: bool
    ) -> ParameterFile:
        try:
            index = self.index(written)
        except InputError as error:
            raise SelfCheckError(error.faults) from error
        verify_records(index, written, _order_parts(parts), verify_bytes=verify_bytes, named=False)
        return index


FORMAT = Pdiparams()


def order_by_name(plan: Plan) -> Plan:
    """Sort records by name, by code points; records without names keep their order."""
    return sorted(plan, key=lambda item: encode_key(item[1] or ""))


def _order_parts(parts: Parts) -> Parts:
    items = [(file, record, key) for file, plan in parts for record, key in plan]
    items.sort(key=lambda item: encode_key(item[2] or ""))
    ordered: list[tuple[ParameterFile, list[tuple[Record, str | None]]]] = []
    for file, record, key in items:
        if not ordered or ordered[-1][0] is not file:
            ordered.append((file, []))
        ordered[-1][1].append((record, key))
    return ordered


def _read_record(cursor: Cursor) -> Record:
    start = cursor.position
    _expect_zero(cursor, "the version of the record")
    (levels,) = cursor.unpack(_U64, "the number of levels")
    if levels > _MAX_LEVELS:
        cursor.fail(
            f"claims {levels:,} levels of detail; up to {_MAX_LEVELS} are read",
            at=start + 4,
            hint=DAMAGED,
        )
    for _ in range(levels):
        cursor.skip(cursor.unpack(_U64, "the size of a level")[0], "a level")
    _expect_zero(cursor, "the version of the tensor")
    at = cursor.position
    (size,) = cursor.unpack(_I32, "the size of the description")
    if not 0 < size <= _LARGEST:
        cursor.fail(
            f"has a description of {size:,} bytes; they have 2 to {_LARGEST:,}", at=at, hint=DAMAGED
        )
    code, shape = _read_description(cursor, cursor.take(size, "the description"))
    if code not in _DTYPES and code not in _COMPLEX:
        cursor.fail(
            f"has dtype {code}; known are {', '.join(map(str, sorted([*_DTYPES, *_COMPLEX])))}",
            at=at + 4,
        )
    name, item = _COMPLEX.get(
        code, (_DTYPES.get(code, ""), ITEM_SIZES.get(_DTYPES.get(code, ""), 0))
    )
    count = element_count(shape) * item
    begin = cursor.skip(count, "the data")
    whole = cursor.position - start
    if code in _COMPLEX:
        stated = f"{name} {format_shape(shape)}"
        return Record(
            None, (count,), "uint8", FORMAT.name, start, whole, begin, count, stated=stated
        )
    return Record(None, shape, name, FORMAT.name, start, whole, begin, count)


def _expect_zero(cursor: Cursor, what: str) -> None:
    at = cursor.position
    (version,) = cursor.unpack(_U32, what)
    if version:
        cursor.fail(f"has {version:,} for {what}, which is 0", at=at, hint=DAMAGED)


def _read_description(cursor: Cursor, message: bytes) -> tuple[int, tuple[int, ...]]:
    code, sizes = -1, list[int]()
    try:
        for number, kind, _, start, end in scan(message, 0, len(message), once(_DTYPE)):
            value = read_varint(message, start, end)[0] if kind == VARINT else -1
            if number == _DTYPE and value >= 0:
                code = value
            elif number == _SIZE and 0 <= value < 1 << 63:
                sizes.append(value)
            else:
                cursor.fail(
                    f"has field {number} with another content than a dtype or a size in its description",
                    hint=DAMAGED,
                )
    except WireError as error:
        cursor.fail(f"has a description that cannot be read: {error}", hint=DAMAGED)
    if len(sizes) > MAX_RANK:
        cursor.fail(f"has rank {len(sizes)}; ranks go up to {MAX_RANK}", hint=DAMAGED)
    return code, tuple(sizes)
