"""The parameters of a model as arrays by name, read from their files when they are asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from graphshare.errors import Fault, InputError, RefusedError
from graphshare.files.open_source import reopen_source
from graphshare.formats.params.arrays import ArrayReader, have_equal_values, record_in_memory
from graphshare.formats.params.records import Origin, ParameterFile, Record
from graphshare.text.format import format_bytes, format_count, format_dims, format_shape
from graphshare.text.names import join_key, split_key
from graphshare.text.summary import Table, format_html

if TYPE_CHECKING:
    from graphshare.formats.params.arrays import Array

MEMORY = "<memory>"


class Parameters(Mapping[str, "Array"]):
    """Arrays by the name of their variable (``conv1_weight``) or their key (``arg:conv1_weight``), each read on access.

    An array is a read-only view of its file where the format allows it; bfloat16 is read as float32, sparse arrays as dense.
    """

    __slots__ = ("_by_key", "_by_name")

    def __init__(self, file: ParameterFile | None) -> None:
        keys = {} if file is None else file.by_key()
        self._by_key: dict[str, tuple[ParameterFile, Record]] = {key: (file, record) for key, record in keys.items() if file}
        self._by_name: dict[str, str] = {}
        for key in self._by_key:
            name = split_key(key)[1]
            self._by_name[key if name in self._by_name else name] = key

    def __getitem__(self, name: str) -> Array:
        file, record = self._by_key[self._by_name.get(name, name)]
        with ArrayReader(file) as reader:
            return reader.read(record)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name or name in self._by_key

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __eq__(self, other: object) -> bool:
        return have_equal_values(self, other) if isinstance(other, Mapping) else NotImplemented

    def __repr__(self) -> str:
        return f"<Parameters: {format_count(len(self), 'array')}>"

    def _repr_html_(self) -> str:
        """Return the names, shapes and dtypes as a table, which notebooks show; no array is read."""
        records = {name: self._by_key[key][1] for name, key in self._by_name.items()}
        rows = [
            (name, format_dims(r.shape, unknown="-"), r.dtype or "", format_bytes(r.dense_size)) for name, r in records.items()
        ]
        title = f"{format_count(len(rows), 'array')}, {format_bytes(sum(r.dense_size for r in records.values()))}"
        return format_html(title, tables=[Table(("name", "shape", "dtype", "size"), rows)])


def check_unchanged(file: ParameterFile) -> None:
    """Look whether the files that the records of ``file`` are read from are still those that were indexed.

    Raises:
        InputError: one is gone, or has another size or time of change.
    """
    origins = [file if record.origin is None else record.origin.file for record in file.records]
    for source in {id(source): source for source in origins if source is not None}.values():
        try:
            reopen_source(source.path, source.identity, source.held).close()
        except InputError as error:
            hint = "a pickle or copy of a model reads its parameters from this file: load the model again"
            raise InputError([msgspec.structs.replace(fault, hint=hint) for fault in error.faults]) from error


def list_under(source: ParameterFile, plan: Collection[tuple[Record, str | None]]) -> ParameterFile:
    """Return a list of ``source``'s records under the keys of ``plan``; the bytes stay where they are."""
    return msgspec.structs.replace(source, records=tuple(_list_record(source, record, key) for record, key in plan))


def _list_record(source: ParameterFile, record: Record, key: str | None) -> Record:
    return msgspec.structs.replace(record, key=key, origin=record.origin or Origin(record.key, source))


def replace_arrays(source: ParameterFile | None, arrays: Mapping[str, Any], auxiliary: Collection[str]) -> ParameterFile:
    """Return the list of ``source``'s records with ``arrays`` (by name or key) in the place of those of the same name.

    Names that ``source`` does not hold come last; those in ``auxiliary`` get ``aux:`` before their keys, the others ``arg:``,
    unless no key of ``source`` has such a prefix.

    Raises:
        RefusedError: a dtype that no parameter file can hold, or another shape or dtype than before; all are listed.
    """
    old = {} if source is None else source.by_key()
    keys = {split_key(key)[1]: key for key in old}
    new: dict[str, Record] = {}
    faults: list[Fault] = []
    for name, array in arrays.items():
        kind, plain = split_key(name)
        key = name if kind or name in old else keys.get(name) or join_key(_kind_of(plain, auxiliary, old), plain)
        new[key] = record_in_memory(key, array, (old[key].dtype if key in old else None) or "float32")
        faults += _compare(name, new[key], old[key]) if key in old else ()
    if faults:
        raise RefusedError(faults)
    records: list[Record] = []
    for key, record in old.items():
        if key in new:
            records.append(new.pop(key))
        elif source is not None:
            untied = record.tied_to if record.tied_to not in new else None
            records.append(msgspec.structs.replace(_list_record(source, record, key), tied_to=untied))
    if source is None:
        return ParameterFile(MEMORY, 0, "params", tuple(new.values()), named=True)
    return msgspec.structs.replace(source, records=(*records, *new.values()))


def _compare(name: str, new: Record, old: Record) -> Iterator[Fault]:
    """Yield what an array has that differs from the one whose place it takes."""
    if old.shape is not None and new.shape != old.shape:
        yield Fault(f"{name!r} has the shape {format_shape(new.shape)}, and the parameter {format_shape(old.shape)}",
                    hint="give an array of that shape")  # fmt: skip
    dtype = "float32" if old.dtype == "bfloat16" else old.dtype
    if dtype is not None and new.dtype != dtype:
        yield Fault(
            f"{name!r} is {new.dtype}, and the parameter {dtype}", hint=f"give it as {dtype}, with array.astype({dtype!r})"
        )


def _kind_of(name: str, auxiliary: Collection[str], old: Collection[str]) -> str:
    """Return the prefix of a new record: none in a file where no record has one, as Gluon writes them."""
    if old and not any(split_key(key)[0] for key in old):
        return ""
    return "aux" if name in auxiliary else "arg"


def split_by_origin(file: ParameterFile) -> list[tuple[ParameterFile, list[tuple[Record, str | None]]]]:
    """Return the records of ``file`` with their keys, in order, file by file: what :func:`join_params` writes."""
    parts: list[tuple[ParameterFile, list[tuple[Record, str | None]]]] = []
    current: object = None
    for record in file.records:
        origin = record.origin
        source = file if origin is None or origin.file is None else origin.file
        if source is file:
            where: object = "memory" if origin is not None else file
            stored = record
        else:
            where = source
            stored = msgspec.structs.replace(record, key=origin.key if origin is not None else None, origin=None)
        if not parts or where is not current:
            parts.append((source, []))
            current = where
        parts[-1][1].append((stored, record.key))
    return parts or [(file, [])]
