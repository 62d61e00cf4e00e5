"""Parameter files as a whole: convert one into another format, write one under new names.

Keys keep their ``arg:`` and ``aux:`` in every format. A list without names gets the keys ``arr_0``, ``arr_1`` ... where the
target needs some, as ``numpy.savez`` names what has no name: the position is all that a consumer of such a list knows, and it
survives. Converting back gives a file with these names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO

import msgspec

from graphshare.errors import Fault, InputError, RefusedError, SelfCheckError
from graphshare.formats.atomic import Staged, staged_outputs
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.files import read_index
from graphshare.formats.params.mxnet_write import Plan, params_refusal, verify_joined, write_dense_params, write_joined
from graphshare.formats.params.records import Format, ParameterFile, Record, format_record
from graphshare.formats.params.select import selection
from graphshare.progress import task

SUFFIXES: dict[str, Format] = {".params": "params", ".npz": "npz", ".safetensors": "safetensors"}


class Conversion(msgspec.Struct, frozen=True):
    """What :func:`convert_params` did; ``arrays`` counts what was written.

    ``densified``, ``named_by_position``, ``tied`` (written as second names of others) and ``untied`` (such names written as
    arrays of their own) hold keys as they are in ``target``.
    """

    source: ParameterFile
    target: str
    format: Format
    densified: tuple[str, ...] = ()
    named_by_position: tuple[str, ...] = ()
    arrays: int = 0
    tied: tuple[str, ...] = ()
    untied: tuple[str, ...] = ()


def convert_params(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    to: Format | None = None,
    densify: bool = False,
    np_shape: bool = False,
    select: Sequence[str] = (),
    tie: bool = False,
) -> Conversion:
    """Convert the parameter file ``source`` (format by content) to ``target`` (format ``to``, or by its suffix).

    ``.params`` from another format is what ``mx.nd.save`` writes: V3 records when ``np_shape``, else V2; a scalar needs V3.
    Within ``.params`` records are copied as they are, sparse ones too, unless ``densify`` makes those dense; the other formats
    have no sparse form, so that they need ``densify``. ``select`` limits it to what these patterns match. With ``tie`` equal
    arrays become one in ``.safetensors``, under the first of their names.
    Streams one array at a time. Raises InputError, RefusedError (naming every record that has no place in the target),
    OutputError or SelfCheckError; ``target`` is then as it was.
    """
    target = os.fspath(target)
    format_ = to or format_of(target)
    file = read_index(source)
    plan = _keyed(file, format_)
    if select:
        chosen = selection(file, select)
        plan = [(record, key) for record, key in plan if record.key in chosen]
    if tie:
        plan = _tied(file, plan, format_)
    with staged_outputs() as stage:
        rewrite_params(file, plan, stage, target, to=format_, densify=densify, np_shape=np_shape)
        stage.commit()
    copies = _copies(file, plan, format_, densify)
    return Conversion(
        source=file,
        target=target,
        format=format_,
        densified=tuple(key or "" for record, key in plan if not copies and record.storage != "default"),
        named_by_position=tuple(key or "" for record, key in plan if record.key is None and key is not None),
        arrays=len(plan),
        tied=tuple(key or "" for record, key in plan if record.tied_to is not None and format_ == "safetensors"),
        untied=tuple(key or "" for record, key in plan if record.tied_to is not None and format_ != "safetensors"),
    )


def _tied(file: ParameterFile, plan: Plan, format_: Format) -> list[tuple[Record, str | None]]:
    """The plan with equal arrays tied. Raises RefusedError for a format that has no ties."""
    if format_ != "safetensors":
        hint = "in .params and .npz every name has an array of its own; a graph ties parameters by using one node"
        raise RefusedError(Fault(f"{format_} has no ties", hint=hint))
    from graphshare.formats.params.equal import equal_arrays

    kept = {key: kept for kept, others in equal_arrays(file, [record for record, _ in plan]) for key in others}
    records = {record.key: record for record, _ in plan}
    return [
        (record if record.key not in kept else msgspec.structs.replace(records[kept[record.key]], key=record.key,
                                                                       tied_to=kept[record.key]), key)
        for record, key in plan
    ]  # fmt: skip


def format_of(path: str) -> Format:
    """The format a file is to have by its suffix. Raises RefusedError for a suffix that says nothing."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in SUFFIXES:
        raise RefusedError(
            Fault(
                f"the suffix {suffix!r} names no format", where=path, hint=f"end it in {', '.join(SUFFIXES)} or give the format"
            )
        )
    return SUFFIXES[suffix]


def rewrite_params(
    source: ParameterFile,
    plan: Plan,
    stage: Staged,
    target: str | os.PathLike[str],
    *,
    to: Format | None = None,
    densify: bool = False,
    np_shape: bool = False,
    verify_bytes: bool = False,
) -> ParameterFile | None:
    """Stage ``target`` with the planned records of ``source`` under their new keys; returns its index as read back.

    The format is the source's unless ``to`` says otherwise. Within ``.params`` byte ranges are copied and nothing is decoded.
    None is returned for an output that cannot be read back (a pipe). Nothing is in place before the caller commits ``stage``.
    ``verify_bytes`` compares the data too, for a ``.params`` file from one. Raises RefusedError, InputError, OutputError,
    SelfCheckError.
    """
    parts = [(source, plan)]
    return join_params(parts, stage, target, to=to, densify=densify, np_shape=np_shape, verify_bytes=verify_bytes)


def join_params(
    parts: Sequence[tuple[ParameterFile, Plan]],
    stage: Staged,
    target: str | os.PathLike[str],
    *,
    to: Format | None = None,
    densify: bool = False,
    np_shape: bool = False,
    verify_bytes: bool = False,
) -> ParameterFile | None:
    """Stage one file with the planned records of several, file by file: :func:`rewrite_params` of more than one source.

    The format is the first one's unless ``to`` says otherwise. No two arrays are in memory at a time.
    """
    format_ = to or parts[0][0].format
    refused = [f for part in parts for f in refusals(*part, format_, densify=densify, np_shape=np_shape)]
    if refused:
        raise RefusedError(refused)
    out = stage.open(target)
    copies = all(_copies(*part, format_, densify) for part in parts)
    if copies:
        write_joined(parts, out)
    else:
        _convert(parts, out, format_, np_shape)
    out.flush()
    if out.direct:
        return None
    try:
        if copies:
            written = verify_joined(out.name, parts, bytes_too=verify_bytes)
        else:
            written = _verify_converted(out.name, [item for _, plan in parts for item in plan], format_)
    except SelfCheckError as error:  # speak of the file that was asked for, not of the one beside it
        raise SelfCheckError([msgspec.structs.replace(fault, where=out.target) for fault in error.faults]) from error
    return msgspec.structs.replace(written, path=out.target)


def _copies(source: ParameterFile, plan: Plan, format_: Format, densify: bool) -> bool:
    """Whether records are copied as they are, header and all."""
    sparse = densify and any(record.storage != "default" for record, _ in plan)
    return source.format == format_ == "params" and not sparse


def _convert(parts: Sequence[tuple[ParameterFile, Plan]], out: BinaryIO, format_: Format, np_shape: bool) -> None:
    plan = [item for _, items in parts for item in items]
    with ExitStack() as files:
        readers = [(files.enter_context(ArrayReader(source)), plan) for source, plan in parts]
        # Records of two files may be equal; which file an object is of is known by its identity.
        of = {id(record): reader for reader, items in readers for record, _ in items}
        advance = files.enter_context(task("converting", sum(record.dense_size for record, _ in plan), "B"))

        def chunks(record: Record) -> Iterable[bytes | memoryview]:
            for chunk in of[id(record)].chunks(record):
                yield chunk
                advance(len(chunk))

        if format_ == "params":
            write_dense_params(plan, out, chunks, np_shape=np_shape)
            return
        named = [(record, key or "") for record, key in plan]
        if format_ == "npz":
            from graphshare.formats.params.npz_write import write_npz

            write_npz(named, out, chunks)
            return
        from graphshare.formats.params.safetensors import ties_in, write_safetensors

        metadata = {key: value for source, _ in reversed(parts) for key, value in source.metadata.items()}
        ties = {key: kept for _, plan in parts for key, kept in ties_in(plan).items()}
        write_safetensors(named, out, chunks, metadata=metadata, ties=ties)


def _verify_converted(path: str, plan: Plan, format_: Format) -> ParameterFile:
    """Read the staged file's index and hold keys, shapes and dtypes against the plan."""
    try:
        written = read_index(path)
    except InputError as error:
        raise SelfCheckError(error.faults) from error
    found = [(record.key, record.shape, record.dtype) for record in written.records]
    wanted = [(key, record.shape, record.dtype) for record, key in plan]
    if format_ == "safetensors":  # tied names stand behind the others
        found, wanted = sorted(found, key=repr), sorted(wanted, key=repr)
    if written.format != format_ or found != wanted:
        raise SelfCheckError("does not read back with the names, shapes and types that were written")
    return written


def _keyed(file: ParameterFile, format_: Format) -> list[tuple[Record, str | None]]:
    if file.named or format_ == "params":
        return [(record, record.key) for record in file.records]
    return [(record, f"arr_{number}") for number, record in enumerate(file.records)]


def refusals(file: ParameterFile, plan: Plan, format_: Format, *, densify: bool, np_shape: bool) -> list[Fault]:
    """Every reason why a planned record has no place in the target format; empty when all have one."""
    if _copies(file, plan, format_, densify):
        return []
    faults = [] if format_ == "params" else list(_repeated(plan))
    for number, (record, key) in enumerate(plan):
        fault = _refusal(record, key, format_, densify, np_shape)
        if fault is not None:
            faults.append(msgspec.structs.replace(fault, path=format_record(key, number)))
    return [msgspec.structs.replace(fault, where=file.path) for fault in faults]


def _refusal(record: Record, key: str | None, format_: Format, densify: bool, np_shape: bool) -> Fault | None:
    if record.shape is None:
        return Fault("was never filled: there is no array to convert")
    if record.storage != "default" and not densify:
        return Fault(f"is sparse ({record.storage})", hint="convert it in dense form with densify")
    if format_ == "params":
        return params_refusal(record, np_shape=np_shape)
    if key is None:
        return Fault(f"has no name, which {format_} needs")
    if format_ == "npz":
        from graphshare.formats.params.npz_write import npz_refusal

        return npz_refusal(record, key)
    from graphshare.formats.params.safetensors import safetensors_refusal

    return safetensors_refusal(record, key)


def _repeated(plan: Sequence[tuple[Record, str | None]]) -> Iterator[Fault]:
    seen: set[str] = set()
    for number, (_, key) in enumerate(plan):
        if key is not None and key in seen:
            yield Fault("has the name of an earlier record; this format needs each once", path=format_record(key, number))
        if key is not None:
            seen.add(key)
