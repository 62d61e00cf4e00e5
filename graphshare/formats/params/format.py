"""What a parameter format is: how its files are recognized, indexed, read and written.

A new format is one module with a subclass of :class:`ParameterFormat`, its object ``FORMAT``, and one line in
:data:`graphshare.formats.model_names.PARAMETER_FORMATS`.
A format reads ranges of a :class:`~graphshare.files.byte_source.ByteSource` and never decodes an array to know its name, shape
and dtype.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, ClassVar

import msgspec

from graphshare.errors import Fault
from graphshare.files.byte_source import ByteSource
from graphshare.formats.params.records import ParameterFile, Record

CHUNK = 1 << 20  # bytes of an array that are in memory at a time

Plan = Sequence[tuple[Record, str | None]]
"""Which records to write, in order, and under what key; None for a record without a name."""

Parts = Sequence[tuple[ParameterFile, Plan]]
"""The planned records of several files, which become one file."""

Chunks = Callable[[Record], Iterable[bytes | memoryview]]
"""Gives an array's bytes piece by piece; to a writer in dense C order, little endian."""


class WriteOptions(msgspec.Struct, frozen=True):
    """What a file is written with, besides its arrays; a format ignores what it cannot express.

    ``np_shape`` allows scalars and arrays of size 0 (V3 records of ``.params``). ``metadata`` are texts beside the arrays.
    ``ties`` maps each key that is a second name to the key that has the bytes.
    """

    np_shape: bool = False
    metadata: Mapping[str, str] = {}
    ties: Mapping[str, str] = {}


class ParameterFormat(ABC):
    """One parameter format. Instances have no state.

    ``name`` is what ``--to`` takes and, after a dot, what file names end in; ``description`` is what messages call the format.
    ``starts`` are the first bytes of every such file. ``unique_names`` is False where records may share a name or have none.
    ``has_ties`` tells whether one array can have several names. ``copies_records`` tells whether records are copied
    within the format without decoding (:meth:`copy`).
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    starts: ClassVar[tuple[bytes, ...]] = ()
    unique_names: ClassVar[bool] = True
    has_ties: ClassVar[bool] = False
    copies_records: ClassVar[bool] = False

    @property
    def suffix(self) -> str:
        """What the names of files end in."""
        return f".{self.name}"

    def sniff(self, start: bytes) -> bool:
        """Return whether a file that starts with these 16 bytes (fewer when it is shorter) is of this format."""
        return start.startswith(self.starts)

    def may_hold_arrays(self, source: ByteSource) -> bool:
        """Return whether a file with such a start may be of this format; False where other files begin alike."""
        return True

    @abstractmethod
    def index(self, source: ByteSource) -> ParameterFile:
        """Return names, shapes, dtypes and places; read no array. Raises InputError for a file that is damaged."""

    def find_float32(self, file: ParameterFile) -> set[str]:
        """Return the keys of arrays that the operators of a model take in float32 beside float16 data."""
        return set()

    def read(self, source: ByteSource) -> Chunks:
        """Return a function that yields a record's stored elements in pieces of at most ``source.piece`` bytes.

        Here the elements lie at the record's ``data_offset``. Formats that compress them have their own.
        """

        def chunks(record: Record) -> Iterator[bytes]:
            start = record.data_offset or 0
            end = start + record.data_size
            for offset in range(start, end, source.piece):
                yield source.read_at(offset, min(source.piece, end - offset))

        return chunks

    @abstractmethod
    def write(self, plan: Plan, out: BinaryIO, chunks: Chunks, options: WriteOptions) -> None:
        """Write each record in dense form under its key; the same arrays always give the same bytes.

        The caller has made sure that the format can hold each of them (:meth:`refuse`). Memory does not grow with the arrays.
        """

    @abstractmethod
    def refuse(self, record: Record, key: str, options: WriteOptions) -> Fault | None:
        """Return why the format cannot hold the dense array ``record`` under ``key``; None when it can."""

    def copy(self, parts: Parts, out: BinaryIO) -> None:
        """Copy the planned records as they are, header and all. Only where ``copies_records``."""
        raise NotImplementedError

    def verify_copy(self, written: ByteSource, parts: Parts, *, verify_bytes: bool) -> ParameterFile:
        """Compare what :meth:`copy` wrote with its plan and return its index; the data too with ``verify_bytes``.

        Raises SelfCheckError.
        """
        raise NotImplementedError
