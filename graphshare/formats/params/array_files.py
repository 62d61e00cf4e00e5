"""Read values of variables from ``.npy`` and parameter files, and write arrays as parameter files.

Nothing is ever unpickled.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
import numpy as np

from graphshare.errors import Fault, InputError, RefusedError
from graphshare.files.byte_source import DAMAGED, ByteSource, SourceFile
from graphshare.files.open_source import open_source
from graphshare.formats.model_names import ARRAY_ENDINGS
from graphshare.formats.onnx.protobuf import BYTES, WireError, expect, scan, text_at
from graphshare.formats.onnx.stored import OnnxFile, Span
from graphshare.formats.onnx.tensors import data_size, locate_tensor, read_elements
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.convert import refuse_record
from graphshare.formats.params.format import ParameterFormat, WriteOptions, read_index
from graphshare.formats.params.narrow_dtypes import NARROW, from_raw, read_raw
from graphshare.formats.params.npz import MAGIC, read_npy_header, read_npy_start
from graphshare.formats.params.records import Record, element_count, format_record
from graphshare.ir.onnx import dtype_name
from graphshare.text.format import format_count
from graphshare.text.names import split_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_OTHER_DTYPE = re.compile(r"[<>|=](U[1-9]\d{0,5}|([Vf])([12]))(?<!f2)")
"""Finds the dtypes of texts, and those that numpy writes for ml_dtypes."""
_TENSOR_NAME, _TEXTS = 8, 6  # fields of a TensorProto
_VALUE_NAME, _VALUE_KIND = 1, 2  # the fields of a SequenceProto and of an OptionalProto
_VALUES = (3, 5, 7)  # tensors, sequences and optional values
NESTED = _SEQUENCE, _OPTIONAL = "sequence of ", "optional of "
"""How the types of lists, and of values that may be None, begin."""


def read_arrays(path: str) -> dict[str, Array]:
    """Return the arrays of a file by name: empty for a ``.npy`` file, else without ``arg:`` and
    ``aux:``.

    Raises InputError when the file cannot be read, holds pickled objects, or arrays without names.
    """
    with open_source(path, endings=ARRAY_ENDINGS) as source:
        if source.read_at(0, min(len(MAGIC), source.size)) == MAGIC:
            return {"": _read_npy(source)}
    index = read_index(path, wanted="arrays")
    if index.records and not index.named:
        raise InputError(Fault("has no names, so its arrays belong to no variable", where=path))
    with ArrayReader(index) as reader:
        return {split_key(record.full_name)[1]: reader.read(record) for record in index.records}


class ValueFile(msgspec.Struct, frozen=True):
    """A value in a file of ONNX (``.pb``); its type must be declared."""

    path: str

    def read(self, declared: str = "") -> Any:
        return read_value(self.path, declared)[1]


def read_value(path: str, declared: str = "") -> tuple[str, Any]:
    """Return the name (it may be empty) and the value in a file of ONNX (``.pb``).

    ``declared`` is its type as a text: the value of a ``sequence of`` is a list, of an
    ``optional of`` perhaps None, else an array. Raises InputError.
    """
    with open_source(path) as source:
        file = OnnxFile(source)
        try:
            return _read_nested(file, 0, file.size, declared)
        except (WireError, TypeError, ValueError) as error:
            what = declared if declared.startswith(NESTED) else "tensor of numbers or texts"
            raise InputError(
                Fault(f"is not {'an' if what[0] in 'aeiou' else 'a'} {what}: {error}", where=path)
            ) from None


def _read_nested(file: OnnxFile, start: int, end: int, declared: str) -> tuple[str, Any]:
    kind = next((prefix for prefix in NESTED if declared.startswith(prefix)), "")
    if not kind:
        return _read_tensor(file, start, end)
    name, values = "", []
    for field in scan(file.data, start, end):
        if field[0] == _VALUE_NAME:
            name = text_at(file.data, field)
        elif field[0] in _VALUES:
            expect(field, BYTES, "a value")
            values.append(_read_nested(file, field[3], field[4], declared.removeprefix(kind))[1])
        elif field[0] != _VALUE_KIND:
            raise WireError("it holds a map or a sparse tensor", field[2])
    if kind == _OPTIONAL and len(values) > 1:
        raise WireError("it holds several values", start)
    return name, (values[0] if values else None) if kind == _OPTIONAL else values


def _read_tensor(file: OnnxFile, start: int, end: int) -> tuple[str, Array]:
    place, span = locate_tensor(file, start, end), Span(file, start, end)
    fields = [field for field in scan(file.data, start, end) if field[0] in (_TENSOR_NAME, _TEXTS)]
    name = "".join(text_at(file.data, field) for field in fields if field[0] == _TENSOR_NAME)
    dtype = dtype_name(place.code)
    if dtype == "string":
        texts = [
            b"".join(file.pieces(field[3], field[4])) for field in fields if field[0] == _TEXTS
        ]
        decoded = [text.decode("utf-8", "surrogateescape") for text in texts]
        return name, np.array([*decoded, None], object)[:-1].reshape(place.shape)
    data = b"".join(read_elements(span, place))
    if dtype in NARROW:
        if len(data) != data_size(place):
            raise WireError(f"a tensor has {format_count(len(data), 'byte')} of data", start)
        return name, from_raw(read_raw(data, dtype, place.shape), dtype)
    array = np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).reshape(place.shape)
    return name, array.astype(dtype, copy=False)


def _read_npy(source: ByteSource) -> Array:
    """Return the array in native byte order, read-only if the file has that order; texts as
    objects.

    Arrays of ml_dtypes become arrays of as many bytes, because numpy does not write their dtype.
    """
    try:
        descr, is_fortran, shape, start = read_npy_start(io.BufferedReader(SourceFile(source)))
        other = _OTHER_DTYPE.fullmatch(descr)
        header = None if other else read_npy_header(io.BufferedReader(SourceFile(source)))
    except InputError as error:
        raise error.with_location(source.name) from None
    # numpy calls a float8e5m2 a float of one byte, and does not read it.
    stored = np.dtype(descr if other is None else f"V{other[3]}" if other[3] else descr)
    size = source.size - start
    expected = element_count(shape) * stored.itemsize
    if expected != size:
        message = (
            f"has {format_count(size, 'byte')} of data where its shape {shape} needs {expected:,}"
        )
        raise InputError(Fault(message, where=source.name, hint=DAMAGED))
    try:
        flat = np.frombuffer(source.read_at(start, size), stored) if size else np.empty(0, stored)
        # numpy makes letters of any numbers, or fails in ways of its own.
        if (
            stored.kind == "U"
            and flat.size
            and flat.view(np.dtype("u4").newbyteorder(stored.byteorder)).max() > sys.maxunicode
        ):
            raise ValueError("texts have numbers that are not those of letters")
        array = flat.reshape(shape, order="F" if is_fortran else "C")
        return (
            array.astype(header.dtype, copy=False)
            if header
            else array.astype(object)
            if stored.kind == "U"
            else array
        )
    except ValueError as error:  # also a shape that numpy cannot hold
        raise InputError(Fault(f"cannot be read: {error}", where=source.name)) from error


def write_arrays(arrays: Mapping[str, Array], out: BinaryIO, format_: ParameterFormat) -> None:
    """Write ``arrays`` by key (``arg:fc1_weight``) as a file of any format, always with the same
    bytes.

    Raises:
        RefusedError: the format cannot hold a name, shape or dtype; all are listed.
    """
    options = WriteOptions(densify=True)
    plan = [(_record(key, array), key) for key, array in arrays.items()]
    refused = [(key, refuse_record(record, key, format_, options)) for record, key in plan]
    faults = [
        Fault(fault.message, path=format_record(key, None), hint=fault.hint)
        for key, fault in refused
        if fault
    ]
    if faults:
        raise RefusedError(faults)
    format_.write(plan, out, lambda record: _bytes(arrays[record.full_name]), options)
    out.flush()


def _record(key: str, array: Array) -> Record:
    return Record(key, array.shape, str(array.dtype), "npy", 0, array.nbytes, None, array.nbytes)


def _bytes(array: Array) -> Iterable[memoryview]:
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return (little.reshape(-1).view(np.uint8).data,)
