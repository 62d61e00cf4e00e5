"""The interface of parameter formats, and how a file's format is found: by content, never by name.

A new format is one module with a subclass of :class:`ParameterFormat`, its object ``FORMAT``, and
one line in :data:`graphshare.formats.model_names.PARAMETER_FORMATS`. It reads ranges of bytes and
decodes no array for its index.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO, ClassVar

import msgspec

from graphshare.errors import Fault, InputError, RefusedError
from graphshare.files.byte_source import DAMAGED, SAMPLE, ByteSource, HeldBytes
from graphshare.files.open_source import (
    GZIP,
    MAX_UNPACKED,
    open_source,
    unpack_gzip,
    unpack_gzip_start,
)
from graphshare.files.paths import base_name, is_folder
from graphshare.formats.model_names import ARRAY_ENDINGS, PARAMETER_FORMATS, suggest_suffix
from graphshare.formats.params.records import ParameterFile, Record
from graphshare.text.format import format_count, join_words

if TYPE_CHECKING:  # start-up: only a file that is refused needs it
    from graphshare.formats.wrong_file import Wanted

CHUNK = 1 << 20  # bytes of an array that are in memory at a time

Plan = Sequence[tuple[Record, str | None]]
"""The records to write, in order, each with its new key, or None."""

Parts = Sequence[tuple[ParameterFile, Plan]]
"""The planned records of several files that become one file."""

Chunks = Callable[[Record], Iterable[bytes | memoryview]]
"""Gives an array's bytes piece by piece; to a writer in dense C order, little endian."""
#: Formats of models that hold their own parameters, and are written as models.
MODELS = {"onnx": "graphshare.formats.onnx.parameters"}
_START = 24  # bytes that identify a format
_SHARDS = "graphshare.formats.params.shards"  # reads folders; loaded as a format is, when it is first asked for


class WriteOptions(msgspec.Struct, frozen=True):
    """The options of a written file; a format ignores those that it cannot express.

    ``densify`` writes sparse arrays in dense form. ``np_shape`` allows scalars and arrays of size 0
    (V3 records of ``.params``). ``layout`` is the form of records for an older MXNet, ``V0``,
    ``V1`` or ``V2``. ``metadata`` are texts beside the arrays. ``ties`` maps each second name to
    its array's key.
    """

    densify: bool = False
    np_shape: bool = False
    layout: str = ""
    metadata: Mapping[str, str] = {}
    ties: Mapping[str, str] = {}


class ParameterFormat(ABC):
    """One parameter format. Instances have no state.

    ``name`` is the value for ``--to`` and, after a dot, the suffix of files; ``description`` is for
    messages. ``starts`` are the first bytes of every such file. ``unique_names`` is False if
    records may share a name or have none. Without ``keeps_names`` a file has no names, and records
    are in the order of the names they would have. Unless it ``may_be_empty`` a file has arrays.
    With ``has_ties`` one array can have several names; with ``copies_records`` records are copied
    within the format without decoding (:meth:`copy`).
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    starts: ClassVar[tuple[bytes, ...]] = ()
    unique_names: ClassVar[bool] = True
    keeps_names: ClassVar[bool] = True
    may_be_empty: ClassVar[bool] = True
    has_ties: ClassVar[bool] = False
    copies_records: ClassVar[bool] = False

    @property
    def suffix(self) -> str:
        return f".{self.name}"

    def sniff(self, start: bytes) -> bool:
        """Whether a file with these first 24 bytes (or fewer) is of this format."""
        return start.startswith(self.starts)

    def may_hold_arrays(self, source: ByteSource) -> bool:
        """For formats that share their first bytes with others."""
        return True

    @abstractmethod
    def index(self, source: ByteSource) -> ParameterFile:
        """Return names, shapes, dtypes and places; read no array. Raises InputError for a damaged
        file.
        """

    def find_float32(self, file: ParameterFile) -> set[str]:
        """Return the keys of arrays that a model's operators take in float32 beside float16
        data.
        """
        return set()

    def read(self, source: ByteSource) -> Chunks:
        """Return a function that yields a record's stored elements in pieces of at most
        ``source.piece`` bytes.
        """

        def chunks(record: Record) -> Iterator[bytes]:
            start = record.data_offset or 0
            end = start + record.data_size
            for offset in range(start, end, source.piece):
                yield source.read_at(offset, min(source.piece, end - offset))

        return chunks

    @abstractmethod
    def write(self, plan: Plan, out: BinaryIO, chunks: Chunks, options: WriteOptions) -> None:
        """Write each record in dense form under its key; the same arrays always give the same
        bytes.

        The caller has called :meth:`refuse` for each. Memory does not grow with the arrays.
        """

    @abstractmethod
    def refuse(self, record: Record, key: str, options: WriteOptions) -> Fault | None:
        """Return why the format cannot hold the dense array ``record`` under ``key``."""

    def copy(self, parts: Parts, out: BinaryIO) -> None:
        """Copy the planned records unchanged, header and all. Only if ``copies_records``."""
        raise NotImplementedError

    def verify_copy(
        self, written: ByteSource, parts: Parts, *, verify_bytes: bool
    ) -> ParameterFile:
        """Compare the file that :meth:`copy` wrote with its plan, with ``verify_bytes`` its data
        too; return its index.

        Raises SelfCheckError.
        """
        raise NotImplementedError


def read_index(path: str | os.PathLike[str], *, wanted: Wanted = "parameters") -> ParameterFile:
    """Return the index of the parameter file at ``path`` (``-`` for stdin); no array is read.

    A checkpoint folder's index lists the tensors of all shards. Messages ask for the ``wanted``
    kind.

    Raises InputError when the file is not a parameter file, is cut short or contradicts itself.
    """
    if is_folder(os.fspath(path)):
        shards = import_module(_SHARDS)
        if shards.is_shard_folder(os.fspath(path)):
            index: ParameterFile = shards.index_shards(os.fspath(path))
            return index
    with open_parameters(path) as source:
        content = _unpack_model(source)
        return recognize_format(content, wanted=wanted).index(content)


def open_parameters(path: str | os.PathLike[str]) -> ByteSource:
    """Open the bytes of a parameter file (``-`` for stdin).

    Raises InputError if the file does not exist, is not a regular file or cannot be read.
    """
    endings = (*ARRAY_ENDINGS, *(f".{name}" for name in MODELS))
    return open_source(path, endings=endings, accepts=_begins_like_parameters)


def _unpack_model(source: ByteSource) -> ByteSource:
    """Unpack a model from gzip; other files stay packed: arrays are read in place."""
    if source.read_at(0, min(len(GZIP), source.size)) != GZIP:
        return source
    start = HeldBytes(
        source.name, unpack_gzip_start(source.read_at(0, min(SAMPLE, source.size)), SAMPLE)
    )
    if not any(
        format_.sniff(start.content) and format_.may_hold_arrays(start)
        for format_ in map(find_format, MODELS)
    ):
        return source
    return HeldBytes(
        source.name,
        unpack_gzip(source.read_at(0, min(source.size, MAX_UNPACKED)), where=source.name),
    )


def _begins_like_parameters(start: bytes) -> bool:
    return any(format_.sniff(start[:_START]) for format_ in _iter_formats())


def find_format(name: str) -> ParameterFormat:
    """Return the format that a :class:`ParameterFile` names, loaded on first use."""
    format_: ParameterFormat = import_module(PARAMETER_FORMATS.get(name) or MODELS[name]).FORMAT
    return format_


def list_formats() -> list[ParameterFormat]:
    """Return the formats that are written."""
    return list(map(find_format, PARAMETER_FORMATS))


def _iter_formats() -> Iterator[ParameterFormat]:
    """Formats with a magic number come first."""
    others = []
    for format_ in map(find_format, PARAMETER_FORMATS):
        if format_.starts:
            yield format_
        else:
            others.append(format_)
    yield from others
    yield from map(find_format, MODELS)


def recognize_format(source: ByteSource, *, wanted: Wanted = "parameters") -> ParameterFormat:
    """Return the format of a file, by its first bytes. Raises InputError when no format has such a
    start.
    """
    start = source.read_at(0, min(_START, source.size))
    for format_ in _iter_formats():
        if format_.sniff(start) and format_.may_hold_arrays(source):
            return format_
    # Start-up: only this path needs it
    from graphshare.formats.wrong_file import refuse_bytes, take_sample

    endings = [format_.description or format_.suffix for format_ in list_formats()]
    known = f"known formats: {join_words(endings)}"
    if wanted == "arrays":
        known = f"known formats: {join_words(['.npy', *endings])}; numpy.save('x.npy', array) writes one array"
    cut = _explain_cut(start)
    if cut:
        raise InputError(Fault(cut, where=source.name, hint=DAMAGED if start else known))
    raise InputError(refuse_bytes(take_sample(source), wanted, where=source.name, known=known))


def choose_format(path: str, *, option: str = "") -> ParameterFormat:
    """Return the format for writing a file of this name; ``option`` would give it, too.

    Raises RefusedError for an unknown suffix.
    """
    suffix = os.path.splitext(base_name(path))[1].lower()
    if suffix[1:] in PARAMETER_FORMATS:
        return find_format(suffix[1:])
    endings = [f".{name}" for name in PARAMETER_FORMATS]
    other = f", or give the format with {option}" if option else ""
    hint = suggest_suffix(path) or f"end it in one of {', '.join(endings)}{other}"
    raise RefusedError(
        Fault(f"the suffix {suffix!r} is not that of a parameter format", where=path, hint=hint)
    )


def _explain_cut(start: bytes) -> str:
    """Return the fault of a file that ends inside the first bytes of a format."""
    if not start:
        return "is empty"
    for format_ in list_formats():
        if any(len(start) < len(whole) and whole.startswith(start) for whole in format_.starts):
            return f"ends after {format_count(len(start), 'byte')}, inside the header of a {format_.suffix} file"
    return ""
