"""The index of a parameter file: facts about arrays that are known without reading them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from graphshare.errors import Fault, RefusedError
from graphshare.files.byte_source import Identity
from graphshare.text.format import escape_surrogates, format_bytes, format_count, shorten
from graphshare.text.names import split_key, suggest
from graphshare.text.patterns import compile_pattern
from graphshare.text.summary import ShortRepr, quote_name
from graphshare.text.urls import redact

if TYPE_CHECKING:
    from numpy.typing import NDArray

Storage = Literal["default", "row_sparse", "csr"]

WEIGHTS_HINT = "copy the file of the weights beside the model"

#: Bounds beyond those in the formats keep a small hostile file cheap.
MAX_RANK = 255
MAX_RECORDS = 1 << 20


class DtypeCodes(NamedTuple):
    """A dtype in files: ``size`` in bytes per element, and its code in each format."""

    size: int
    npy: str
    safetensors: str
    mxnet: int


#: By name; the names are numpy's, and ``bfloat16``.
DTYPES = {
    "float32": DtypeCodes(4, "<f4", "F32", 0),
    "float64": DtypeCodes(8, "<f8", "F64", 1),
    "float16": DtypeCodes(2, "<f2", "F16", 2),
    "uint8": DtypeCodes(1, "|u1", "U8", 3),
    "int32": DtypeCodes(4, "<i4", "I32", 4),
    "int8": DtypeCodes(1, "|i1", "I8", 5),
    "int64": DtypeCodes(8, "<i8", "I64", 6),
    "bool": DtypeCodes(1, "|b1", "BOOL", 7),
    "int16": DtypeCodes(2, "<i2", "I16", 8),
    "uint16": DtypeCodes(2, "<u2", "U16", 9),
    "uint32": DtypeCodes(4, "<u4", "U32", 10),
    "uint64": DtypeCodes(8, "<u8", "U64", 11),
    "bfloat16": DtypeCodes(2, "", "BF16", 12),
}
ITEM_SIZES = {dtype: codes.size for dtype, codes in DTYPES.items()}
STEPS = {
    "bfloat16": (2.0**-133, 2.0**-7),
    "float16": (2.0**-24, 2.0**-10),
    "float32": (2.0**-149, 2.0**-23),
}
"""The distance between numbers, near zero and relative, from the least precise dtype on."""
PRECISIONS = (*STEPS, "float64")


def find_coarsest(dtypes: Iterable[str | None]) -> str:
    """Return the least precise floating-point dtype; empty if there is none."""
    return min((dtype for dtype in dtypes if dtype in PRECISIONS), key=PRECISIONS.index, default="")


class SparsePart(msgspec.Struct, frozen=True, gc=False):
    """One index array of a sparse record: ``shape`` in elements, ``offset`` and ``size`` in
    bytes.
    """

    role: Literal["indices", "indptr"]
    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int


class Origin(ShortRepr, msgspec.Struct, frozen=True, eq=False):
    """The place of the bytes of a rewritten record: in ``file`` under ``key``, or in memory as
    ``array``.
    """

    key: str | None
    file: ParameterFile | None = None
    array: NDArray[Any] | None = None

    def _summary(self) -> str:
        return f"{quote_name(self.key or '')} in {self.file.shown_path if self.file is not None else 'memory'}"


class Record(msgspec.Struct, frozen=True, gc=False):
    """One array of a parameter file. Offsets (from the start of the file) and sizes are in bytes.

    ``key`` is the name in the file (``arg:conv1_weight``), None in a list without names; lone
    surrogates (``surrogateescape``) are bytes that are not UTF-8. ``shape`` and ``dtype`` are None
    for an array that was never filled. ``layout`` is the form of the record: ``V0`` to ``V3`` in
    ``.params``, ``npy`` in ``.npz``, else the format. ``offset`` and ``size`` span the whole record
    with its header; ``data_offset`` is None if the file has the data in another form (a compressed
    member), ``data_size`` excludes the sparse parts. ``storage_shape`` is the shape of a sparse
    array's stored values. ``tied_to`` names the record that has the bytes. ``origin`` is set if the
    bytes are outside of the file. ``stated`` is the dtype and shape in an ONNX file of elements
    that are listed as bytes.
    """

    key: str | None
    shape: tuple[int, ...] | None
    dtype: str | None
    layout: str
    offset: int
    size: int
    data_offset: int | None
    data_size: int
    storage: Storage = "default"
    storage_shape: tuple[int, ...] = ()
    parts: tuple[SparsePart, ...] = ()
    fortran_order: bool = False
    big_endian: bool = False
    tied_to: str | None = None
    origin: Origin | None = None
    stated: str = ""

    @property
    def full_name(self) -> str:
        """The key; empty in a list without names."""
        return self.key or ""

    @property
    def kind(self) -> str:
        """The prefix of the key, ``arg`` or ``aux``; empty without one."""
        return split_key(self.full_name)[0]

    @property
    def name(self) -> str:
        """The key without ``arg:`` or ``aux:``; empty in a list without names."""
        return split_key(self.full_name)[1]

    @property
    def element_type(self) -> str | None:
        """The dtype; for elements listed as bytes the stated one. Arrays that differ in it
        differ.
        """
        return self.stated or self.dtype

    @property
    def other_file(self) -> ParameterFile | None:
        """The file with the bytes, if another one lists the record."""
        return None if self.origin is None else self.origin.file

    @property
    def is_plain(self) -> bool:
        """Whether the stored bytes are dense, little endian and in C order."""
        return self.storage == "default" and not (self.fortran_order or self.big_endian)

    @property
    def key_bytes(self) -> bytes:
        return encode_key(self.full_name)

    def shape_and_dtype(self) -> tuple[tuple[int, ...], str]:
        """Raises RefusedError for an array that was never filled."""
        if self.shape is None or self.dtype is None:
            raise RefusedError(
                f"{format_record(self.key, None)} was never filled: there is no array"
            )
        return self.shape, self.dtype

    @property
    def dense_size(self) -> int:
        """Bytes of the array in dense form, with the file's dtype."""
        if self.shape is None or self.dtype is None:
            return 0
        return element_count(self.shape) * ITEM_SIZES[self.dtype]


class ParameterFile(ShortRepr, msgspec.Struct, frozen=True, dict=True):
    """The index of one parameter file. ``size`` is in bytes; ``identity`` changes when the file
    does.

    ``named`` is False for a list without names (and for an empty file). ``trailing`` counts bytes
    after the last name (MXNet ignores them and a rewrite drops them); ``reserved`` is the header's
    unused word, kept by a rewrite. ``held`` are the bytes of a file that cannot be opened again: a
    pipe, or unpacked by gzip. ``missing`` says that the file does not exist, or is too short.
    """

    path: str
    size: int
    format: str
    records: tuple[Record, ...]
    named: bool
    reserved: int = 0
    trailing: int = 0
    metadata: dict[str, str] = {}
    identity: Identity = ()
    held: bytes = b""
    missing: str = ""

    def _summary(self) -> str:
        return f"{quote_name(self.shown_path)}, {format_count(len(self.records), 'array')}"

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the records, without ``arg:`` and ``aux:``."""
        return frozenset(record.name for record in self.records if record.key is not None)

    @property
    def shown_path(self) -> str:
        """The path for messages and reports, without credentials of a URL."""
        return redact(self.path)

    def describe_size(self) -> str:
        """Return the number of weights and the size of their data, without second names."""
        records = [record for record in self.records if record.tied_to is None]
        weights = sum(element_count(record.shape) for record in records if record.shape is not None)
        return f"{format_count(weights, 'weight')}, {format_bytes(sum(record.data_size for record in records))}"

    @property
    def whole_size(self) -> int:
        """Bytes of the file, and of its records' data in other files, each range once."""
        ranges = {
            (record.other_file.path, record.offset): record.data_size
            for record in self.records
            if record.other_file is not None and record.other_file.path != self.path
        }
        return self.size + sum(ranges.values())

    def find_holder(self, record: Record) -> ParameterFile | None:
        """Return the file with a record's bytes; None for an array in memory."""
        return self if record.origin is None else record.origin.file

    def lacks(self, record: Record) -> bool:
        """Whether a record's bytes are in a missing or short file."""
        holder = self.find_holder(record)
        return holder is not None and bool(holder.missing)

    def list_missing(self) -> list[str]:
        """Return the files that lack bytes of records, each with the reason."""
        holders = map(self.find_holder, self.records)
        return list(
            dict.fromkeys(
                f"{holder.shown_path} {holder.missing}"
                for holder in holders
                if holder is not None and holder.missing
            )
        )

    def by_key(self) -> dict[str, Record]:
        """Return the records by name; of several with one name the last, as in ``mx.nd.load``."""
        return {record.key: record for record in self.records if record.key is not None}


def element_count(shape: tuple[int, ...]) -> int:
    """Return the product of the dimensions; 1 for a scalar."""
    count = 1
    for dimension in shape:
        count *= dimension
    return count


def decode_key(raw: bytes) -> str:
    """Decode a name; bytes that are not UTF-8 become lone surrogates."""
    return raw.decode("utf-8", "surrogateescape")


def encode_key(key: str) -> bytes:
    """Invert :func:`decode_key`. Other surrogates (U+D800) are encoded as if UTF-8 allowed them."""
    try:
        return key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return key.encode("utf-8", "surrogatepass")


def format_record(key: str | None, number: int | None) -> str:
    """Name record ``number`` (from 0) in messages, with lone surrogates escaped:
    ``record 12 "arg:w"``.
    """
    place = "record" if number is None else f"record {number}"
    if key is None:
        return place
    return f'{place} "{escape_surrogates(shorten(key, 200))}"'


def select_keys(
    file: ParameterFile,
    patterns: Sequence[str],
    *,
    others: Collection[str] = (),
    option: str = "`select`",
    leave_out: Sequence[str] = (),
) -> set[str]:
    """Return the keys that any of ``patterns`` (default all) matches, with or without ``arg:`` or
    ``aux:``.

    Keys that match ``leave_out`` are left out. Patterns may match ``others``, keys of another file,
    instead. ``option`` gave the patterns.

    Raises:
        RefusedError: patterns match nothing; all are listed.
        UsageError: a pattern is malformed.
    """
    keys = [record.key for record in file.records if record.key is not None]
    faults: list[Fault] = []

    def match(patterns: Sequence[str], option: str) -> set[str]:
        matched: set[str] = set()
        for pattern in patterns:
            matches = compile_pattern(pattern)
            hits = {key for key in keys if matches(key) or matches(split_key(key)[1])}
            if not hits and not any(matches(key) or matches(split_key(key)[1]) for key in others):
                near = suggest(pattern, [split_key(key)[1] for key in keys], "parameters")
                faults.append(
                    Fault(f"{option} {pattern!r} matches no parameter", where=file.path, hint=near)
                )
            matched |= hits
        return matched

    selected = (match(patterns, option) if patterns else set(keys)) - match(
        leave_out, "`leave_out`"
    )
    if faults:
        raise RefusedError(faults)
    return selected
