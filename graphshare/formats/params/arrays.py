"""Read the arrays of a parameter file: as numpy arrays, or as a stream of bytes.

numpy is imported in functions only. Dense arrays that the file contains unchanged (``.params``,
``.safetensors``) are read-only; others (``.npz``) are decoded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from graphshare.errors import Fault, InputError, RefusedError
from graphshare.files.byte_source import ByteSource
from graphshare.files.open_source import reopen_source
from graphshare.formats.params.format import CHUNK, Chunks
from graphshare.formats.params.records import (
    ITEM_SIZES,
    WEIGHTS_HINT,
    Origin,
    ParameterFile,
    Record,
    format_record,
)
from graphshare.resources import MORE_MEMORY, describe_excess
from graphshare.text.format import format_bytes, format_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]


class SparseArray(msgspec.Struct, frozen=True, eq=False):
    """A sparse array as stored. ``row_sparse``: ``values`` (K, ...) are the rows ``indices`` (K,)
    of ``shape``.

    ``csr``: ``values`` (K,) lie in the columns ``indices`` (K,); row i has
    ``indptr[i]:indptr[i + 1]``.
    """

    storage: str
    shape: tuple[int, ...]
    values: Array
    indices: Array
    indptr: Array | None = None


def read_array(file: ParameterFile, record: Record) -> Array:
    """Return one array of ``file`` in dense form, bfloat16 as float32. For several use
    :class:`ArrayReader`.

    Raises InputError for a record that was never filled, cannot be decoded or does not fit into
    memory.
    """
    with ArrayReader(file) as reader:
        return reader.read(record)


def record_in_memory(key: str, value: Any, default_dtype: str) -> Record:
    """Return a record of ``value`` in memory; plain numbers and lists get ``default_dtype``.

    Raises:
        RefusedError: no parameter file can hold its dtype.
    """
    import numpy as np  # start-up: headers are read without numpy

    try:
        array = np.asarray(value)
    except ValueError as error:
        message = f"is not an array: {error}"
        raise RefusedError(
            Fault(message, path=format_record(key, None), hint="give an array of numbers")
        ) from None
    if not hasattr(value, "dtype") and array.dtype.kind in "fiub":
        array = array.astype("float32" if default_dtype == "bfloat16" else default_dtype)
    dtype = str(array.dtype.newbyteorder("="))
    if dtype not in ITEM_SIZES:
        message = f"has the dtype {array.dtype}, which no parameter file can hold"
        raise RefusedError(
            Fault(message, path=format_record(key, None), hint="give an array of numbers")
        )
    array = array.astype(dtype, copy=False)
    return Record(
        key,
        array.shape,
        dtype,
        "npy",
        0,
        array.nbytes,
        None,
        array.nbytes,
        origin=Origin(key, array=array),
    )


def _take_rows(record: Record, rows: slice) -> Record | None:
    """Return the record of some rows of a dense array in the file."""
    offset, shape, origin = record.data_offset, record.shape, record.origin
    if offset is None or origin is not None or record.storage != "default":
        return None
    if not shape or not record.dtype:
        return None
    start, stop, step = rows.indices(shape[0])
    if step != 1:
        return None
    row = ITEM_SIZES[record.dtype] * math.prod(shape[1:])
    return msgspec.structs.replace(
        record, shape=(stop - start, *shape[1:]), data_offset=offset + start * row
    )


def record_of_bytes(key: str, dtype: str, shape: tuple[int, ...], content: memoryview) -> Record:
    """Return a record of an array in memory; ``content`` is little endian and in C order."""
    import numpy as np  # start-up: headers are read without numpy

    stored = "uint16" if dtype == "bfloat16" else dtype
    array = np.frombuffer(content, np.dtype(stored).newbyteorder("<")).reshape(shape)
    return Record(
        key,
        shape,
        dtype,
        "npy",
        0,
        len(content),
        None,
        len(content),
        origin=Origin(key, array=array),
    )


class ArrayReader:
    """Reads the arrays of one file, or of records from several. A context manager; arrays stay
    valid after it.

    With ``together`` small arrays share memory: faster for arrays that live equally long.

    Raises InputError when the file changed since it was indexed, or before the context ends.
    """

    def __init__(self, file: ParameterFile, *, together: bool = False) -> None:
        self.file = file
        self._blocks = _Blocks(file.size) if together else None
        self._others: dict[int, ArrayReader] = {}
        self._taken = 0  # bytes of the arrays that were decoded

    def __enter__(self) -> ArrayReader:
        if any(record.origin is not None for record in self.file.records):
            return self  # each file that the records are from is opened when it is first read
        # Start-up: graphs alone need no parameter format
        from graphshare.formats.params.format import find_format

        if self.file.missing:
            raise InputError(Fault(self.file.missing, where=self.file.path, hint=WEIGHTS_HINT))
        self._source: ByteSource = reopen_source(self.file.path, self.file.identity, self.file.held)
        try:
            self._chunks: Chunks = find_format(self.file.format).read(self._source)
        except BaseException:
            self._source.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with ExitStack() as stack:
            for reader in self._others.values():
                stack.push(reader)
            if hasattr(self, "_source"):
                stack.enter_context(self._source)
                # After an error a change of the file is not the fault to report.
                if kind is None:
                    self._source.check_unchanged()

    def _locate(self, record: Record) -> tuple[ArrayReader, Record]:
        """Return the reader of the file with the record's bytes, and the record in that file."""
        origin = record.origin
        if origin is None or origin.file is None:
            return self, record
        reader = self._others.get(id(origin.file))
        if reader is None:
            reader = self._others[id(origin.file)] = ArrayReader(
                origin.file, together=self._blocks is not None
            ).__enter__()
        return reader, msgspec.structs.replace(record, key=origin.key, origin=None)

    def read(self, record: Record, rows: slice | None = None) -> Array:
        """Return the array in dense form, or rows of its first axis: of dense arrays only these are
        in memory.

        bfloat16 becomes float32 with the same values; others keep their dtype.
        """
        reader, record = self._locate(record)
        if rows is not None:
            part = _take_rows(record, rows)
            return reader.read(record)[rows] if part is None else reader.read(part)
        array = widen_bfloat16(reader._raw(record), record.dtype)
        # Only decoded arrays take more memory than in the file.
        if record.data_offset is None or record.storage != "default":
            self._taken += array.nbytes
        return array

    def read_sparse(self, record: Record) -> SparseArray:
        """Return a sparse record as stored.

        Raises InputError when its indices do not fit its shape, RefusedError when it was never
        filled.
        """
        reader, record = self._locate(record)
        if reader is not self:
            return reader.read_sparse(record)
        record.shape_and_dtype()
        values = self._view(record.data_offset, record.storage_shape, storage_dtype(record), record)
        parts = {
            part.role: self._view(part.offset, part.shape, part.dtype, record)
            for part in record.parts
        }
        array = SparseArray(
            record.storage, record.shape or (), values, parts["indices"], parts.get("indptr")
        )
        misfit = _find_misfit(array)
        if misfit:
            raise self._fault(misfit, record)
        return msgspec.structs.replace(array, values=widen_bfloat16(values, record.dtype))

    def chunks(self, record: Record) -> Iterable[bytes | memoryview]:
        """Return the array's bytes in dense C order, little endian, in the file's dtype, in pieces
        of at most 1 MiB.

        Dense arrays stream in flat memory; others (sparse, Fortran order, big endian) are in memory
        once.
        """
        reader, record = self._locate(record)
        if reader is not self:
            return reader.chunks(record)
        if record.origin is None and record.is_plain:
            return self._chunks(record)
        import numpy as np  # start-up: headers are read without numpy

        little = self._raw(record).astype(
            np.dtype(storage_dtype(record)).newbyteorder("<"), order="C", copy=False
        )
        return _split(little.reshape(-1).view(np.uint8).data)

    def _raw(self, record: Record) -> Array:
        """Return the dense array in native byte order; bfloat16 as uint16."""
        if record.shape is None or record.dtype is None:
            raise self._fault("was never filled: there is no array to read", record)
        if record.origin is not None and record.origin.array is not None:
            return record.origin.array
        try:
            if record.storage != "default" or record.data_offset is None:
                self._require_memory(record)
                return self._decode(record) if record.storage == "default" else self._dense(record)
            return self._view(record.data_offset, record.shape, storage_dtype(record), record)
        except (MemoryError, ValueError) as error:
            raise self._fault(
                f"cannot be held in memory as {record.shape}: {error}", record
            ) from error

    def _require_memory(self, record: Record) -> None:
        """Raise InputError before decoding an array beyond the memory limit."""
        excess = describe_excess(record.dense_size, self._taken)
        if excess:
            what = f"is {record.storage} and " if record.storage != "default" else ""
            size = f"its elements take {format_bytes(record.dense_size)}"
            error = self._fault(
                f"{what}cannot be held in memory as {record.shape}: {size}, {excess}", record
            )
            raise InputError(msgspec.structs.replace(error.faults[0], hint=MORE_MEMORY))

    def _dense(self, record: Record) -> Array:
        import numpy as np  # start-up: headers are read without numpy

        sparse = self.read_sparse(msgspec.structs.replace(record, dtype=storage_dtype(record)))
        dense = np.zeros(sparse.shape, sparse.values.dtype)
        if sparse.indptr is None:
            dense[sparse.indices] = sparse.values
        else:
            rows = np.repeat(np.arange(sparse.shape[0]), np.diff(sparse.indptr))
            dense[rows, sparse.indices] = sparse.values
        return dense

    def _decode(self, record: Record) -> Array:
        import numpy as np  # start-up: headers are read without numpy

        shape, dtype = record.shape_and_dtype()
        raw = np.empty(record.data_size, np.uint8)
        place = 0
        for chunk in self._chunks(record):
            piece = np.frombuffer(chunk, np.uint8)
            raw[place : place + len(piece)] = piece
            place += len(piece)
        stored: Array = raw.view(np.dtype(dtype).newbyteorder(">" if record.big_endian else "<"))
        array = stored.reshape(shape, order="F" if record.fortran_order else "C")
        return array.astype(np.dtype(dtype), copy=False)

    def _view(
        self, offset: int | None, shape: tuple[int, ...], dtype: str, record: Record
    ) -> Array:
        import numpy as np  # start-up: headers are read without numpy

        little = np.dtype(dtype).newbyteorder("<")
        # Python integers: the sizes of a hostile file would overflow int64.
        count = int(np.prod(shape, dtype=object)) if shape else 1
        if count == 0:
            try:
                return np.empty(shape, little)
            except ValueError as error:  # a size beside the 0 that numpy cannot hold
                raise self._fault(
                    f"cannot be held in memory as {shape}: {error}", record
                ) from error
        if self._blocks is None:
            return np.frombuffer(
                self._source.read_at(offset or 0, count * little.itemsize), little
            ).reshape(shape)
        memory = self._blocks.take(count * little.itemsize)
        self._source.read_into(offset or 0, memory.data)
        array: Array = memory.view(little).reshape(shape)
        # Read-only like the result of frombuffer.
        array.setflags(write=False)
        return array

    def _fault(self, message: str, record: Record) -> InputError:
        number = next(
            (i for i, other in enumerate(self.file.records) if other.offset == record.offset), 0
        )
        return InputError(
            Fault(message, where=self.file.path, path=format_record(record.key, number))
        )


class _Blocks:
    """Memory for arrays, in blocks that are large enough for the system's large pages.

    Parameter files load in half the time, most of which goes into the first touch of small pages.
    """

    # A cache line, and the longest vector of a processor.
    _ALIGNMENT = 64

    def __init__(self, size: int) -> None:
        self._size = min(size, 32 << 20)
        self._free: NDArray[np.uint8] | None = None

    def take(self, count: int) -> NDArray[np.uint8]:
        """Return ``count`` bytes with undefined contents. Raises MemoryError."""
        import numpy as np  # start-up: headers are read without numpy

        if count > self._size:
            return np.empty(count, np.uint8)
        if self._free is None or count > self._free.size:
            self._free = np.empty(self._size, np.uint8)
        taken, self._free = (
            self._free[:count],
            self._free[-(-count // self._ALIGNMENT) * self._ALIGNMENT :],
        )
        return taken


def have_equal_bytes(
    left: Iterable[bytes | memoryview], right: Iterable[bytes | memoryview]
) -> bool:
    """Whether two streams hold the same bytes, wherever their pieces end."""
    others = (piece for piece in right if piece)
    other: bytes | memoryview = b""
    for piece in left:
        while piece:
            other = other or next(others, b"")
            count = min(len(piece), len(other))
            if not count or piece[:count] != other[:count]:
                return False
            piece, other = piece[count:], other[count:]
    return not other and next(others, None) is None


def have_equal_values(left: Any, right: Any) -> bool:
    """Whether values are equal, also in mappings and lists. NaN equals NaN, dtypes must agree."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(
            have_equal_values(left[key], right[key]) for key in left
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(have_equal_values, left, right))
    are_arrays = [hasattr(value, "dtype") for value in (left, right)]
    if not all(are_arrays):
        return not any(are_arrays) and bool(left == right or (left != left and right != right))
    import numpy as np  # start-up: headers are read without numpy

    return left.dtype == right.dtype and np.array_equal(
        left, right, equal_nan=left.dtype.kind in "fc"
    )


def _split(data: memoryview) -> Iterator[memoryview]:
    return (data[start : start + CHUNK] for start in range(0, len(data), CHUNK))


def storage_dtype(record: Record) -> str:
    """Return the numpy dtype that holds the record's bytes."""
    return "uint16" if record.dtype == "bfloat16" else record.dtype or "float32"


def widen_bfloat16(array: Array, dtype: str | None) -> Array:
    """Return bfloat16 bits as float32: they are its upper half."""
    if dtype != "bfloat16":
        return array
    import numpy as np  # start-up: headers are read without numpy

    bits: NDArray[np.uint32] = array.astype(np.uint32) << np.uint32(16)
    return bits.view(np.float32)


def _find_misfit(array: SparseArray) -> str:
    if array.indices.dtype.kind not in "iu" or array.indices.ndim != 1:
        return "has indices that are not one row of integers"
    if array.indptr is None:
        if (
            array.values.shape[1:] != array.shape[1:]
            or array.values.shape[:1] != array.indices.shape
        ):
            return (
                f"has stored rows of shape {array.values.shape} for "
                f"{format_count(len(array.indices), 'index')} and shape {array.shape}"
            )
        return _out_of_range(array.indices, array.shape[0])
    if (
        len(array.shape) != 2
        or array.indptr.dtype.kind not in "iu"
        or array.indptr.shape != (array.shape[0] + 1,)
    ):
        return f"has row pointers of shape {array.indptr.shape} for shape {array.shape}"
    if array.values.shape != array.indices.shape:
        return f"has {format_count(array.values.size, 'value')} for {format_count(array.indices.size, 'column number')}"
    steps = array.indptr[1:] < array.indptr[:-1]
    if array.indptr[0] != 0 or array.indptr[-1] != len(array.indices) or steps.any():
        return "has row pointers that do not rise from 0 to the number of values"
    return _out_of_range(array.indices, array.shape[1])


def _out_of_range(indices: Array, limit: int) -> str:
    if indices.size and (indices.min() < 0 or indices.max() >= limit):
        return f"has an index outside of 0 to {limit - 1}"
    return ""
