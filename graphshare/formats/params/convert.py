"""Convert parameter files into another format, and write them under new names.

Keys keep their ``arg:`` and ``aux:``. A list without names gets the keys ``arr_0``, ``arr_1`` ...
if the target needs names, as in ``numpy.savez``, and keeps them when converted back. Floating-point
arrays may get another dtype, piece by piece while written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import BinaryIO

import msgspec

from graphshare.errors import Fault, InputError, RefusedError, SelfCheckError, UsageError
from graphshare.files.atomic import OutputTransaction
from graphshare.files.open_source import open_source
from graphshare.formats.params.arrays import ArrayReader, record_of_bytes
from graphshare.formats.params.format import (
    MODELS,
    ParameterFormat,
    Parts,
    Plan,
    WriteOptions,
    find_format,
    list_formats,
    read_index,
)
from graphshare.formats.params.lookup import find_equal_arrays
from graphshare.formats.params.records import (
    ITEM_SIZES,
    Origin,
    ParameterFile,
    Record,
    encode_key,
    format_record,
    select_keys,
)
from graphshare.progress import task
from graphshare.text.format import join_words
from graphshare.text.names import split_key
from graphshare.text.summary import ShortRepr

FLOATS = ("float16", "float32", "float64")
"""The dtypes that arrays can be converted to."""

_PLAIN = WriteOptions()
_CONVERTED = frozenset((*FLOATS, "bfloat16"))
_STATISTICS = re.compile(r"(.*)(?:moving|running)_(?:mean|var)", re.DOTALL)
_SCALES = ("gamma", "beta", "weight", "bias")


class Conversion(ShortRepr, msgspec.Struct, frozen=True):
    """The result of a conversion; ``arrays`` counts those that were written.

    ``densified``, ``named_by_position``, ``tied`` (written as second names), ``untied`` (written as
    arrays of their own) and ``cast`` (to another dtype) hold keys in ``target``. ``overflows``
    counts each array's finite numbers that became infinite. ``kept`` are the keys that ``keep`` or
    its default exempted from the cast. With ``lost_names`` the target's format drops the source's
    names.
    """

    source: ParameterFile
    target: str
    format: str
    densified: tuple[str, ...] = ()
    named_by_position: tuple[str, ...] = ()
    arrays: int = 0
    tied: tuple[str, ...] = ()
    untied: tuple[str, ...] = ()
    cast: tuple[str, ...] = ()
    overflows: Mapping[str, int] = {}
    kept: tuple[str, ...] = ()
    lost_names: bool = False

    @property
    def keeper(self) -> str:
        """Return the operators that need float32, and the reason, as the end of a sentence."""
        if self.source.format in MODELS:
            return "BatchNormalization and Resize keep their type: they stay float32 beside float16 data"
        return "BatchNorm keep their type: MXNet takes them in float32 only"


def describe_conversion(
    file: ParameterFile,
    plan: Plan,
    target: str,
    format_: ParameterFormat,
    options: WriteOptions,
    cast: Cast | None,
) -> Conversion:
    """Return the result of writing the records of ``plan`` to ``target``."""
    copies = _can_copy(file, plan, format_, options, cast)

    def list_keys(selects: Callable[[Record], bool]) -> tuple[str, ...]:
        return tuple(key or "" for record, key in plan if selects(record))

    tied = list_keys(lambda record: record.tied_to is not None)
    changed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    overflows: Mapping[str, int] = {}
    if cast is not None:
        changed, kept, overflows = list_keys(cast.changes), list_keys(cast.keeps), cast.overflows
    return Conversion(
        source=file,
        target=target,
        format=format_.name,
        densified=() if copies else list_keys(lambda record: record.storage != "default"),
        named_by_position=tuple(
            key or "" for record, key in plan if record.key is None and key is not None
        ),
        arrays=len(plan),
        tied=tied if format_.has_ties else (),
        untied=() if format_.has_ties else tied,
        cast=changed,
        overflows=overflows,
        kept=kept,
        lost_names=not format_.keeps_names and any(key is not None for _, key in plan),
    )


def stage_params(
    parts: Parts,
    stage: OutputTransaction,
    target: str | os.PathLike[str],
    *,
    to: str | None = None,
    options: WriteOptions = _PLAIN,
    verify_bytes: bool = False,
    cast: Cast | None = None,
) -> ParameterFile | None:
    """Stage one file with the planned records of several, file by file; return its index as read
    back.

    The format is the first file's unless ``to`` names another. Within ``.params`` byte ranges are
    copied and nothing is decoded; else one array at a time is in memory. The result is None for a
    pipe. The caller commits ``stage``. ``verify_bytes`` compares the data of copied records too.
    ``cast`` changes dtypes. Raises RefusedError, InputError, OutputError, SelfCheckError.
    """
    format_ = find_format(to or parts[0][0].format)
    refuse_parts(parts, format_, cast, options)
    out = stage.open(target)
    copies = write_parts(parts, out, format_, cast, options)
    if out.direct:
        return None
    try:
        if copies:
            with open_source(out.name) as source:
                written = format_.verify_copy(source, parts, verify_bytes=verify_bytes)
        else:
            planned = [item for _, plan in parts for item in _cast_plan(plan, cast)]
            written = verify_written(out.name, planned, format_)
    except SelfCheckError as error:  # name the file that was asked for, not the temporary one
        raise SelfCheckError(
            [msgspec.structs.replace(fault, where=out.target) for fault in error.faults]
        ) from error
    return msgspec.structs.replace(written, path=out.target)


def refuse_parts(
    parts: Parts, format_: ParameterFormat, cast: Cast | None, options: WriteOptions
) -> None:
    """Refuse planned records that a format cannot hold. Raises RefusedError; all are listed."""
    refused = [fault for part in parts for fault in _refuse_plan(*part, format_, cast, options)]
    if refused:
        raise RefusedError(refused)


def write_parts(
    parts: Parts,
    out: BinaryIO,
    format_: ParameterFormat,
    cast: Cast | None = None,
    options: WriteOptions = _PLAIN,
) -> bool:
    """Write the planned records of several files; return whether they were copied unchanged.

    Raises InputError, OutputError.
    """
    copies = all(_can_copy(*part, format_, options, cast) for part in parts)
    if copies:
        format_.copy(parts, out)
    else:
        _convert(parts, out, format_, options, cast)
    out.flush()
    return copies


def verify_written(path: str, plan: Plan, format_: ParameterFormat) -> ParameterFile:
    """Compare the index of a written file with the plan's keys, shapes and dtypes. Raises
    SelfCheckError.
    """
    try:
        written = read_index(path)
    except InputError as error:
        raise SelfCheckError(error.faults) from error
    actual = [(record.key, record.shape, record.dtype) for record in written.records]
    expected = [(key, record.shape, record.dtype) for record, key in plan]
    if not format_.keeps_names:
        ordered = sorted(expected, key=lambda item: encode_key(item[0] or ""))
        expected = [(None, shape, dtype) for _, shape, dtype in ordered]
    if format_.has_ties:  # tied names are read after the others
        actual, expected = sorted(actual, key=repr), sorted(expected, key=repr)
    if written.format != format_.name or actual != expected:
        raise SelfCheckError(
            "does not read back with the names, shapes and types that were written"
        )
    return written


def refuse_record(
    record: Record, key: str | None, format_: ParameterFormat, options: WriteOptions
) -> Fault | None:
    """Return why the format cannot hold ``record``, if so."""
    if record.shape is None:
        return Fault("was never filled: there is no array to write")
    if record.storage != "default" and not options.densify:
        return Fault(
            f"is sparse ({record.storage})", hint="convert it in dense form with `densify`"
        )
    if record.stated:  # it is listed as the bytes that it takes
        dtype = record.stated.partition(" ")[0]
        hint = "`select` chooses the arrays to write; in graphs they stay as they are"
        return Fault(f"is {dtype}, a dtype that parameter files do not have", hint=hint)
    if key is None and format_.unique_names:
        return Fault(f"has no name, and {format_.name} needs one")
    return format_.refuse(record, key or "", options)


def find_ties(plan: Plan) -> dict[str, str]:
    """Return the planned keys that are second names in the source, each with the key that it
    repeats.

    If the plan holds records several times (a copy for each branch), each round has its own ties.
    """
    rounds: dict[str | None, list[str]] = {}
    for record, key in plan:
        if record.tied_to is None:
            rounds.setdefault(record.key, []).append(key or "")
    ties: dict[str, str] = {}
    met: dict[str | None, int] = {}
    for record, key in plan:
        if record.tied_to is not None:
            number = met[record.key] = met.get(record.key, -1) + 1
            kept = rounds.get(record.tied_to, [])
            if number < len(kept):
                ties[key or ""] = kept[number]
    return ties


def plan_conversion(
    file: ParameterFile,
    format_: ParameterFormat,
    select: Sequence[str],
    tie: bool,
    leave_out: Sequence[str] = (),
) -> list[tuple[Record, str | None]]:
    """Return the records to convert, with their keys in the target."""
    plan = _name_records(file, format_)
    if select or leave_out:
        chosen = select_keys(file, select, leave_out=leave_out)
        plan = [(record, key) for record, key in plan if record.key in chosen]
    return _tie_equal_arrays(file, plan, format_) if tie else plan


def choose_cast(
    file: ParameterFile, plan: Plan, dtype: str | None, keep: Sequence[str] | None
) -> Cast | None:
    """Return the conversion to ``dtype``; None if it changes no array, so that records can be
    copied.
    """
    if dtype is None:
        if keep:
            raise UsageError(
                Fault("`keep` needs `dtype`", hint="without `dtype` every array keeps its type")
            )
        return None
    if dtype not in FLOATS:
        raise UsageError(
            Fault(f"cannot convert to {dtype}", hint=f"the dtypes are {', '.join(FLOATS)}")
        )
    kept = _choose_kept(file, dtype, keep)
    # One array under several names has one dtype.
    ties = [(record.full_name, record.tied_to) for record, _ in plan if record.tied_to is not None]
    kept |= {holder for key, holder in ties if key in kept}
    kept |= {key for key, holder in ties if holder in kept}
    cast = Cast(dtype, kept)
    return cast if any(cast.changes(record) for record, _ in plan) else None


def _choose_kept(file: ParameterFile, dtype: str, keep: Sequence[str] | None) -> set[str]:
    """The default is what MXNet refuses in float16."""
    if keep is None and dtype == "float16":
        return _find_batch_norms(file)
    patterns = [pattern for pattern in keep or () if pattern]
    return select_keys(file, patterns, option="`keep`") if patterns else set()


def cast_in_memory(file: ParameterFile, dtype: str) -> tuple[ParameterFile, Conversion]:
    """Return ``file`` with floating-point arrays in ``dtype`` (in memory), and the result of the
    conversion.

    Raises:
        UsageError: arrays cannot be converted to ``dtype``.
        InputError: an array cannot be read.
    """
    plan = _name_records(file, find_format(file.format))
    cast = choose_cast(file, plan, dtype, None)
    records = []
    with ArrayReader(file) as reader:
        for record, key in plan:
            if cast is None or not cast.changes(record):
                origin = record.origin or Origin(record.key, file)
                records.append(msgspec.structs.replace(record, origin=origin))
                continue
            content = memoryview(b"".join(cast.chunks(record, key or "", reader.chunks(record))))
            new = record_of_bytes(key or "", dtype, record.shape_and_dtype()[0], content)
            records.append(msgspec.structs.replace(new, tied_to=record.tied_to))
    changed = msgspec.structs.replace(file, records=tuple(records))
    return changed, describe_conversion(file, plan, "", find_format(file.format), _PLAIN, cast)


def _find_batch_norms(file: ParameterFile) -> set[str]:
    """Return the keys of statistics, and of gamma and beta (weight and bias) beside them: MXNet
    refuses them in float16.
    """
    keys = {
        split_key(record.key)[1]: record.key for record in file.records if record.key is not None
    }
    kept = find_format(file.format).find_float32(file)
    for name, key in keys.items():
        match = _STATISTICS.fullmatch(name)
        if match is None:
            continue
        kept.add(key)
        for scale in _SCALES:
            beside = keys.get(match[1] + scale)
            if beside is not None:
                kept.add(beside)
    return kept


def _name_records(file: ParameterFile, format_: ParameterFormat) -> list[tuple[Record, str | None]]:
    if file.named or not format_.unique_names:
        return [(record, record.key) for record in file.records]
    return [(record, f"arr_{number}") for number, record in enumerate(file.records)]


def _tie_equal_arrays(
    file: ParameterFile, plan: Plan, format_: ParameterFormat
) -> list[tuple[Record, str | None]]:
    """Raises RefusedError for a format that has no ties."""
    if not format_.has_ties:
        able = join_words([each.suffix for each in list_formats() if each.has_ties])
        hint = (
            f"{able} has them; in {format_.suffix} every name has an array of its own, and a "
            f"graph ties parameters by one node"
        )
        raise RefusedError(Fault(f"{format_.name} has no ties", hint=hint))
    holders: dict[str | None, str] = {}
    for holder, others in find_equal_arrays(file, [record for record, _ in plan]):
        holders.update(dict.fromkeys(others, holder))
    records = {record.key: record for record, _ in plan}
    tied: list[tuple[Record, str | None]] = []
    for record, key in plan:
        if record.key in holders:
            kept = holders[record.key]
            record = msgspec.structs.replace(records[kept], key=record.key, tied_to=kept)
        tied.append((record, key))
    return tied


def _can_copy(
    source: ParameterFile,
    plan: Plan,
    format_: ParameterFormat,
    options: WriteOptions,
    cast: Cast | None,
) -> bool:
    if cast is not None or options.layout:
        return False
    if not format_.copies_records or source.format != format_.name:
        return False
    for record, _ in plan:
        is_densified = options.densify and record.storage != "default"
        if is_densified or record.origin is not None:
            return False
    return True


def _cast_plan(plan: Plan, cast: Cast | None) -> Plan:
    return plan if cast is None else [(cast.record(record), key) for record, key in plan]


def _convert(
    parts: Parts, out: BinaryIO, format_: ParameterFormat, options: WriteOptions, cast: Cast | None
) -> None:
    stored = [item for _, items in parts for item in items]
    plan = _cast_plan(stored, cast)
    metadata: dict[str, str] = {}
    # The first file's text of a key comes last and stays.
    for source, _ in reversed(parts):
        metadata.update(source.metadata)
    ties: dict[str, str] = {}
    if format_.has_ties:
        for _, items in parts:
            ties.update(find_ties(items))
    options = msgspec.structs.replace(options, metadata=metadata, ties=ties)
    with ExitStack() as files:
        readers = [(files.enter_context(ArrayReader(source)), plan) for source, plan in parts]
        # Records of two files may be equal, so identity shows their file.
        reader_by_record = {id(record): reader for reader, items in readers for record, _ in items}
        sources = {id(record): source for (record, _), source in zip(plan, stored, strict=True)}
        advance = files.enter_context(
            task("converting", sum(record.dense_size for record, _ in plan), "B")
        )

        def chunks(record: Record) -> Iterable[bytes | memoryview]:
            source, key = sources[id(record)]
            pieces = reader_by_record[id(source)].chunks(source)
            for chunk in pieces if cast is None else cast.chunks(source, key or "", pieces):
                yield chunk
                advance(len(chunk))

        format_.write(plan, out, chunks, options)


def _refuse_plan(
    file: ParameterFile,
    plan: Plan,
    format_: ParameterFormat,
    cast: Cast | None,
    options: WriteOptions,
) -> list[Fault]:
    # Copied records were in a file of this format already.
    if _can_copy(file, plan, format_, options, cast):
        return []
    faults: list[Fault] = []
    if format_.unique_names:
        faults += _find_repeated_names(plan)
    for number, (record, key) in enumerate(_cast_plan(plan, cast)):
        fault = refuse_record(record, key, format_, options)
        if fault is not None:
            faults.append(msgspec.structs.replace(fault, path=format_record(key, number)))
    return [msgspec.structs.replace(fault, where=file.path) for fault in faults]


def _find_repeated_names(plan: Plan) -> Iterator[Fault]:
    seen: set[str] = set()
    for number, (_, key) in enumerate(plan):
        if key is None:
            continue
        if key in seen:
            yield Fault(
                "has the name of an earlier record; this format needs each once",
                path=format_record(key, number),
            )
        seen.add(key)


class Cast:
    """The conversion of floating-point arrays to ``dtype``, except the keys ``kept``.

    ``overflows`` counts, by key, the finite numbers that became infinite.
    """

    def __init__(self, dtype: str, kept: Collection[str] = ()) -> None:
        self.dtype = dtype
        self._kept = kept
        self.overflows: dict[str, int] = {}

    def changes(self, record: Record) -> bool:
        return self._is_other(record) and record.key not in self._kept

    def keeps(self, record: Record) -> bool:
        return self._is_other(record) and record.key in self._kept

    def _is_other(self, record: Record) -> bool:
        return record.dtype in _CONVERTED and record.dtype != self.dtype

    def record(self, record: Record) -> Record:
        return msgspec.structs.replace(record, dtype=self.dtype) if self.changes(record) else record

    def chunks(
        self, record: Record, key: str, chunks: Iterable[bytes | memoryview]
    ) -> Iterable[bytes | memoryview]:
        """Return little-endian dense bytes in the new dtype, piece by piece."""
        return self._convert(record.dtype or "", key, chunks) if self.changes(record) else chunks

    def _convert(
        self, dtype: str, key: str, chunks: Iterable[bytes | memoryview]
    ) -> Iterator[memoryview]:
        import numpy as np  # start-up: headers are read without numpy

        target = np.dtype(self.dtype)
        stored = np.dtype("<u2" if dtype == "bfloat16" else dtype).newbyteorder("<")
        for piece in _split_whole(chunks, ITEM_SIZES[dtype]):
            values = np.frombuffer(piece, stored)
            if dtype == "bfloat16":  # its bits are the upper half of the float32 of the same value
                values = (values.astype("<u4") << np.uint32(16)).view("<f4")
            # An overflow is counted, and NaN may signal
            with np.errstate(over="ignore", invalid="ignore"):
                new = values.astype(target.newbyteorder("<"))
            # A wider dtype holds every finite number of a narrower one.
            if target.itemsize < values.itemsize:
                count = int(np.count_nonzero(np.isinf(new) & ~np.isinf(values)))
                if count:
                    self.overflows[key] = self.overflows.get(key, 0) + count
            yield new.view(np.uint8).data


def _split_whole(chunks: Iterable[bytes | memoryview], size: int) -> Iterator[bytes | memoryview]:
    """Yield whole elements of ``size`` bytes: a decompressor cuts them anywhere."""
    rest = b""
    for chunk in chunks:
        if not rest and len(chunk) % size == 0:
            yield chunk
            continue
        data = rest + bytes(chunk)
        whole = len(data) - len(data) % size
        rest = data[whole:]
        if whole:
            yield data[:whole]
