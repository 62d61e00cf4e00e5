"""MXNet's ``.params`` files (``mx.nd.save``): indexed by seeking, written by copying ranges of
bytes.

All integers are little endian; nothing is padded or aligned.

The file::

    offset  bytes
    0       8      uint64  0x112
    8       8      uint64  reserved; written as 0, ignored
    16      8      uint64  N, the number of arrays
    24      ...            N records back to back
    ...     8      uint64  number of names: N, or 0 for a list without names
    ...     ...            per name: uint64 length in bytes, then the name (UTF-8 by custom, no terminator)

Bytes after the last name are ignored. A record takes one of four forms; a file may mix them::

    V0 (up to 0.10)       uint32 ndim (its first word IS the rank), ndim x uint32 dims, context, int32 type, data
    V1 0xF993FAC8 (0.11)  uint32 magic, shape, context, int32 type, data
    V2 0xF993FAC9 (0.12)  uint32 magic, int32 storage, [storage shape], shape, context, int32 type, [aux], data,
                          [aux data]
    V3 0xF993FACA (1.5)   as V2; written while np-shape is active

    shape    int32 ndim, ndim x int64 dims
    context  int32 device type (1 = cpu), int32 device id; any value loads in a CPU build
    storage  0 dense; 1 row_sparse, with 1 aux array; 2 csr, with 2. [..] is there for the sparse ones only:
    aux      per aux array: int32 type, shape. Then the data of storage shape, then each aux array's data.
             row_sparse: the row numbers. csr: indptr (rows + 1), then the column indices.
    type     0 float32, 1 float64, 2 float16, 3 uint8, 4 int32, 5 int8, 6 int64, 7 bool (1 byte), 12 bfloat16 (2 bytes);
             8 int16, 9 uint16, 10 uint32 and 11 uint64 are in MXNet's headers, but 1.9.1 neither saves nor loads them

A dense V2 or V3 record's data starts 24 + 8 * ndim bytes after its first byte.

Rank 0 has no single meaning:

* V2, rank 0: an array never filled. The record ends after the shape.
* V3, rank 0: a scalar, with context, type and one element. Rank -1 or a dimension of -1: never
  filled, ends after the shape.
* V0 and V1, rank 0: MXNet 1.9.1 reads a scalar, but writers before 1.5 ended the record after the
  shape. The file is read as 1.9.1 would, and if that does not fit, once more with all of them
  ending there.
* V1, a dimension of -1: never filled, ends after the shape, as 1.9.1 reads it.

1.9.1 neither writes nor reads sparse V3 records.

Limits that keep a small hostile file cheap: rank 255, names of 1 MiB, 1,048,576 records.

A known record is copied whole, so that its header stays unchanged; only the count at the start and
the names at the end are new. New dense arrays are written as V2 or V3.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import repeat
from struct import Struct
from typing import Any, BinaryIO, Literal, NoReturn

from graphshare.errors import Fault, InputError, RefusedError, SelfCheckError
from graphshare.files.byte_source import DAMAGED, ByteSource, Cursor
from graphshare.formats.params.byte_ranges import write_all
from graphshare.formats.params.copied_records import copy_records, verify_records
from graphshare.formats.params.format import Chunks, ParameterFormat, Parts, Plan, WriteOptions
from graphshare.formats.params.records import (
    DTYPES,
    ITEM_SIZES,
    MAX_RANK,
    MAX_RECORDS,
    ParameterFile,
    Record,
    SparsePart,
    Storage,
    decode_key,
    element_count,
    encode_key,
    format_record,
)
from graphshare.text.format import format_count

MAGIC = 0x112
MAGIC_V1, MAGIC_V2, MAGIC_V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
MAX_NAME_SIZE = 1 << 20
SMALLEST_RECORD = 4  # bytes: V0 of rank 0 in its bare form

_DTYPES = {codes.mxnet: dtype for dtype, codes in DTYPES.items()}
#: Numbered, but neither saved nor loaded by MXNet 1.9.1.
UNLOADABLE_DTYPES = frozenset({"int16", "uint16", "uint32", "uint64"})

#: The index arrays of a sparse record, in file order.
_SPARSE_ROLES: dict[Storage, tuple[Literal["indices", "indptr"], ...]] = {
    "row_sparse": ("indices",),
    "csr": ("indptr", "indices"),
}
_STORAGES: dict[int, Storage] = {0: "default", 1: "row_sparse", 2: "csr"}

_U32, _I32, _U64 = Struct("<I"), Struct("<i"), Struct("<Q")
_CONTEXT_AND_TYPE = Struct("<iii")
_HEADER = Struct("<QQQ")
_DIMS = tuple(Struct(f"<{rank}q") for rank in range(MAX_RANK + 1))
_DIMS_V0 = tuple(Struct(f"<{rank}I") for rank in range(MAX_RANK + 1))

_Array = tuple[Any, ...]


def _read_file(cursor: Cursor, *, bare: bool) -> ParameterFile:
    magic, reserved, count = cursor.unpack(_HEADER, "the header")
    if magic != MAGIC:
        cursor.fail(f"is not a .params file: it starts with {magic:#x}, not {MAGIC:#x}", at=0)
    left = cursor.size - cursor.position - _U64.size
    # Before anything is allocated: a hostile file may claim any 64-bit count.
    if count * SMALLEST_RECORD > left:
        cursor.fail(
            f"claims {format_count(count, 'array')}, but has room for {max(left, 0) // SMALLEST_RECORD:,} at most",
            at=16,
            hint=DAMAGED,
        )
    if count > MAX_RECORDS:
        cursor.fail(
            f"claims {format_count(count, 'array')}; graphshare reads up to {MAX_RECORDS:,}", at=16
        )
    arrays = [_read_array(cursor, number, bare) for number in range(count)]
    cursor.record = -1
    names = _read_names(cursor, count)
    records = tuple(
        [Record(name, *array) for name, array in zip(names or repeat(None), arrays, strict=False)]
    )
    return ParameterFile(
        path=cursor.source.name,
        identity=cursor.source.identity,
        size=cursor.size,
        format="params",
        records=records,
        named=bool(names),
        reserved=reserved,
        trailing=cursor.size - cursor.position,
    )


def _read_names(cursor: Cursor, count: int) -> list[str]:
    cursor.window = max(cursor.window, MAX_NAME_SIZE)  # nothing follows that is not wanted
    (name_count,) = cursor.unpack(_U64, "the number of names")
    if name_count not in (0, count):
        cursor.fail(
            f"has {format_count(name_count, 'name')} for {format_count(count, 'array')}",
            at=cursor.position - 8,
        )
    names = []
    for number in range(name_count):
        (length,) = cursor.unpack(_U64, f"the length of name {number}")
        if length > cursor.size - cursor.position:
            cursor.cut_short(length, f"name {number}")
        if length > MAX_NAME_SIZE:
            cursor.fail(
                f"name {number} has {format_count(length, 'byte')}; graphshare reads up to {MAX_NAME_SIZE:,}",
                at=cursor.position - 8,
            )
        names.append(decode_key(cursor.take(length, "a name")))
    return names


def _read_array(cursor: Cursor, number: int, bare: bool) -> _Array:
    cursor.record = number
    offset = cursor.position
    (word,) = cursor.unpack(_U32, "a record's first word")
    if word == MAGIC_V2:
        return _read_modern(cursor, offset, "V2")
    if word == MAGIC_V3:
        return _read_modern(cursor, offset, "V3")
    if word == MAGIC_V1:
        return _read_legacy(
            cursor, offset, "V1", _read_shape(cursor, "the shape", unknown=True), bare
        )
    if word > MAX_RANK:
        cursor.fail(
            f"starts with {word:#x}, which is neither an array's magic number nor a rank up to {MAX_RANK}",
            at=offset,
            hint="the file is damaged, or the header of the preceding array is wrong",
        )
    return _read_legacy(cursor, offset, "V0", cursor.unpack(_DIMS_V0[word], "the dimensions"), bare)


def _read_legacy(
    cursor: Cursor, offset: int, layout: str, shape: tuple[int, ...] | None, bare: bool
) -> _Array:
    if shape == ():
        cursor.ambiguous = True
    if shape is None or (bare and shape == ()):
        return _empty_record(cursor, offset, layout)
    return _read_dense(cursor, offset, layout, shape)


def _read_modern(cursor: Cursor, offset: int, layout: str) -> _Array:
    (flag,) = cursor.unpack(_I32, "the storage type")
    storage = _STORAGES.get(flag)
    if storage is None:
        cursor.fail(
            f"has storage type {flag}; known are 0 (dense), 1 (row_sparse) and 2 (csr)",
            at=cursor.position - 4,
        )
    if storage == "default":
        shape = _read_shape(cursor, "the shape", unknown=layout == "V3")
        if shape is None or (layout == "V2" and not shape):
            return _empty_record(cursor, offset, layout)
        return _read_dense(cursor, offset, layout, shape)
    if layout == "V3":
        cursor.fail(f"is a {storage} array in V3 form, which does not exist", at=offset)
    storage_shape = _require_shape(_read_shape(cursor, "the storage shape"))
    shape = _require_shape(_read_shape(cursor, "the shape"))
    if not shape:
        return _empty_record(cursor, offset, layout, storage)
    return _read_sparse(cursor, offset, layout, storage, storage_shape, shape)


def _read_shape(cursor: Cursor, what: str, *, unknown: bool = False) -> tuple[int, ...] | None:
    """Read int32 rank and int64 dimensions.

    If a shape may be ``unknown``, rank -1 and dimensions of -1 make it None.
    """
    at = cursor.position
    (rank,) = cursor.unpack(_I32, what)
    if not 0 <= rank <= MAX_RANK:
        if rank == -1 and unknown:
            return None
        cursor.fail(
            f"has rank {rank:,} in {what}; ranks go from 0 to {MAX_RANK}", at=at, hint=DAMAGED
        )
    shape = cursor.unpack(_DIMS[rank], what)
    if rank and min(shape) < 0:
        if unknown and min(shape) == -1:
            return None
        cursor.fail(f"has a negative dimension in {what}: {shape}", at=at, hint=DAMAGED)
    return shape


def _require_shape(shape: tuple[int, ...] | None) -> tuple[int, ...]:
    assert shape is not None  # only None where an unknown shape is allowed
    return shape


def _empty_record(cursor: Cursor, offset: int, layout: str, storage: Storage = "default") -> _Array:
    end = cursor.position
    return (None, None, layout, offset, end - offset, end, 0, storage)


def _read_dense(cursor: Cursor, offset: int, layout: str, shape: tuple[int, ...]) -> _Array:
    dtype = _read_dtype(cursor)
    size = element_count(shape) * ITEM_SIZES[dtype]
    data_offset = cursor.skip(size, "the data")
    return (shape, dtype, layout, offset, cursor.position - offset, data_offset, size)


def _read_dtype(cursor: Cursor) -> str:
    _, _, flag = cursor.unpack(_CONTEXT_AND_TYPE, "the context and the type")
    return _DTYPES.get(flag) or _unknown_type(cursor, flag)


def _unknown_type(cursor: Cursor, flag: int) -> NoReturn:
    cursor.fail(f"has type flag {flag}; known are 0 to 12", at=cursor.position - 4)


def _read_sparse(
    cursor: Cursor,
    offset: int,
    layout: str,
    storage: Storage,
    storage_shape: tuple[int, ...],
    shape: tuple[int, ...],
) -> _Array:
    dtype = _read_dtype(cursor)
    heads: list[tuple[Literal["indices", "indptr"], str, tuple[int, ...]]] = []
    for role in _SPARSE_ROLES[storage]:
        (flag,) = cursor.unpack(_I32, f"the type of the {role}")
        aux_dtype = _DTYPES.get(flag) or _unknown_type(cursor, flag)
        heads.append(
            (role, aux_dtype, _require_shape(_read_shape(cursor, f"the shape of the {role}")))
        )
    size = element_count(storage_shape) * ITEM_SIZES[dtype]
    data_offset = cursor.skip(size, "the stored values")
    parts = []
    for role, aux_dtype, aux_shape in heads:
        aux_size = element_count(aux_shape) * ITEM_SIZES[aux_dtype]
        parts.append(
            SparsePart(role, aux_dtype, aux_shape, cursor.skip(aux_size, f"the {role}"), aux_size)
        )
    whole = cursor.position - offset
    return (
        shape,
        dtype,
        layout,
        offset,
        whole,
        data_offset,
        size,
        storage,
        storage_shape,
        tuple(parts),
    )


class MxnetParams(ParameterFormat):
    """Every generation is read; arrays are written as in MXNet 1.9.1."""

    name = "params"
    description = ".params (mx.nd.save)"
    starts = (MAGIC.to_bytes(8, "little"),)
    unique_names = False
    copies_records = True

    def index(self, source: ByteSource) -> ParameterFile:
        """Raises InputError, with the record and the byte, for a file that is cut short or
        contradicts itself.
        """
        cursor = Cursor(source)
        try:
            return _read_file(cursor, bare=False)
        except InputError:
            if not cursor.ambiguous:
                raise
            try:
                return _read_file(Cursor(source), bare=True)
            except InputError:
                pass
            raise  # neither reading fits: report the fault of MXNet's own

    def write(self, plan: Plan, out: BinaryIO, chunks: Chunks, options: WriteOptions) -> None:
        names = _encode_keys(plan)
        write_all(out, _encode_header(len(plan)))
        for record, _ in plan:
            write_all(
                out,
                encode_dense_header(
                    *record.shape_and_dtype(), np_shape=options.np_shape, layout=options.layout
                ),
            )
            for chunk in chunks(record):
                write_all(out, chunk)
        write_all(out, _encode_names(names))

    def refuse(self, record: Record, key: str, options: WriteOptions) -> Fault | None:
        if record.dtype in UNLOADABLE_DTYPES:
            return Fault(
                f"is {record.dtype}, which MXNet neither saves nor loads",
                hint="cast it first, for instance to int32",
            )
        if record.shape == () and (options.layout or not options.np_shape):
            hint = "write V3 records with `np_shape`, or make it (1,)"
            return Fault("is a scalar, which only np-shape (V3) files hold", hint=hint)
        return None

    def copy(self, parts: Parts, out: BinaryIO) -> None:
        """Write the planned records of several ``.params`` files to ``out``, file by file.

        Records and keys may repeat. Memory does not grow with the arrays. Raises RefusedError for a
        plan with both keys and None, or too long a name, InputError when a source changed since it
        was indexed, OutputError when writing fails.
        """
        plan = [item for _, items in parts for item in items]
        names = _encode_keys(plan)
        copy_records(
            parts, out, _encode_header(len(plan), parts[0][0].reserved), _encode_names(names)
        )

    def verify_copy(
        self, written: ByteSource, parts: Parts, *, verify_bytes: bool
    ) -> ParameterFile:
        try:
            index = self.index(written)
        except InputError as error:
            raise SelfCheckError(error.faults) from error
        verify_records(index, written, parts, verify_bytes=verify_bytes)
        return index


FORMAT = MxnetParams()


def _encode_keys(plan: Plan) -> list[bytes]:
    """Return the keys as bytes; none for a list without names. Raises RefusedError as
    :meth:`MxnetParams.copy`.
    """
    if len(plan) > MAX_RECORDS:
        raise RefusedError(
            f"the file would hold {format_count(len(plan), 'array')}; graphshare reads up to {MAX_RECORDS:,}"
        )
    keys = [key for _, key in plan]
    if all(key is None for key in keys):
        return []
    faults = []
    names = []
    for number, key in enumerate(keys):
        if key is None:
            faults.append(
                Fault("has no name, while other records have one", path=f"record {number}")
            )
            continue
        names.append(encode_key(key))
        if len(names[-1]) > MAX_NAME_SIZE:
            faults.append(
                Fault(
                    f"the name has more than {MAX_NAME_SIZE:,} bytes",
                    path=format_record(key, number),
                )
            )
    if faults:
        raise RefusedError(faults)
    return names


def _encode_header(count: int, reserved: int = 0) -> bytes:
    return struct.pack("<QQQ", MAGIC, reserved, count)


def _encode_names(names: Sequence[bytes]) -> bytes:
    parts = [struct.pack("<Q", len(names))]
    for name in names:
        parts.append(struct.pack("<Q", len(name)))
        parts.append(name)
    return b"".join(parts)


def encode_dense_header(
    shape: tuple[int, ...], dtype: str, *, np_shape: bool, layout: str = ""
) -> bytes:
    """Return the header of a dense record as MXNet 1.9.1 writes it on a CPU: V3 with ``np_shape``,
    else V2.

    Raises RefusedError for a scalar in V2, and for a rank above 255.
    """
    layout = layout or ("V3" if np_shape else "V2")
    if not shape and layout != "V3":
        raise RefusedError(
            f"a {layout} record cannot hold a scalar", hint="write V3 records with `np_shape`"
        )
    if len(shape) > MAX_RANK:
        raise RefusedError(f"has rank {len(shape)}; ranks go up to {MAX_RANK}")
    # Device 1, number 0: cpu(0). Every build loads it.
    end = (*shape, 1, 0, DTYPES[dtype].mxnet)
    if layout == "V0":
        return struct.pack(f"<I{len(shape)}Iiii", len(shape), *end)
    if layout == "V1":
        return struct.pack(f"<Ii{len(shape)}qiii", MAGIC_V1, len(shape), *end)
    return struct.pack(
        f"<Iii{len(shape)}qiii", MAGIC_V3 if layout == "V3" else MAGIC_V2, 0, len(shape), *end
    )
