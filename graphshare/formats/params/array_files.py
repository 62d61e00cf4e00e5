"""Arrays of users: ``.npy`` and ``.npz`` files that hold values of variables, and the ``.npz`` a run writes.

Nothing is ever unpickled. Only this module's functions import numpy.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from graphshare.errors import Fault, InputError, RefusedError
from graphshare.formats.nearby import ARRAYS, meant
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.files import read_index
from graphshare.formats.params.mxnet_write import params_refusal, write_dense_params
from graphshare.formats.params.npz import read_npy_header
from graphshare.formats.params.npz_write import npz_refusal, write_npz
from graphshare.formats.params.records import ITEM_SIZES, Record, element_count, format_record
from graphshare.text.names import split_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_NPY = b"\x93NUMPY"


def read_npy(path: str) -> Array:
    """The array of a ``.npy`` file, in native byte order; a read-only view of the mapped file where that order is its own.

    Raises InputError when it is none, holds pickled objects, or has another size than its header says.
    """
    import numpy as np

    try:
        with open(path, "rb") as file:
            header = read_npy_header(file)
            size = os.fstat(file.fileno()).st_size - header.size
    except InputError as error:
        raise error.with_location(path) from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    wanted = element_count(header.shape) * ITEM_SIZES[header.dtype]
    if wanted != size:
        raise InputError(Fault(f"has {size:,} bytes of data where its shape {header.shape} needs {wanted:,}", where=path))
    dtype = np.dtype(header.dtype).newbyteorder(">" if header.big_endian else "<")
    order: Any = "F" if header.fortran_order else "C"
    try:
        if not wanted:
            return np.empty(header.shape, header.dtype)
        mapped: Array = np.memmap(path, dtype, "r", header.size, header.shape, order)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    return np.asarray(mapped).astype(header.dtype, copy=False)


def read_arrays(path: str) -> dict[str, Array]:
    """The arrays of a file by name: a ``.npy`` file's under an empty name, any parameter file's without ``arg:``, ``aux:``.

    Raises InputError when the file cannot be read, holds pickled objects, or arrays without names.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(len(_NPY))
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if start == _NPY:
        return {"": read_npy(path)}
    index = read_index(path)
    if index.records and not index.named:
        raise InputError(Fault("has no names, so its arrays belong to no variable", where=path))
    with ArrayReader(index) as reader:
        return {split_key(record.key or "")[1]: reader.read(record) for record in index.records}


def _unreadable(path: str, error: Exception) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(Fault("does not exist", where=path, hint=meant(path, ARRAYS)))
    return InputError(Fault(f"cannot be read: {getattr(error, 'strerror', None) or error}", where=path))


def write_arrays(arrays: Mapping[str, Array], out: BinaryIO) -> None:
    """Writes ``arrays`` as an uncompressed ``.npz``; the same arrays always give the same bytes.

    Raises:
        RefusedError: a name or type has no place in an ``.npz``; all are listed.
    """
    records = [_record(name, array, number) for number, (name, array) in enumerate(arrays.items())]
    faults = [(record, npz_refusal(record, record.key or "")) for record in records]
    refused = [Fault(fault.message, path=format_record(record.key, None), hint=fault.hint) for record, fault in faults if fault]
    if refused:
        raise RefusedError(refused)
    kept = list(arrays.values())

    write_npz([(record, record.key or "") for record in records], out, lambda record: _bytes(kept[record.offset]))


def _record(name: str, array: Array, number: int) -> Record:
    return Record(name, array.shape, str(array.dtype), "npy", number, array.nbytes, None, array.nbytes)


def write_array_params(arrays: Mapping[str, Array], out: BinaryIO) -> None:
    """Writes ``arrays`` under their keys (``arg:fc1_weight``) as a ``.params`` file, as ``mx.nd.save`` would.

    Raises:
        RefusedError: a key or an array has no place in such a file; all are listed.
    """
    records = [_record(key, array, number) for number, (key, array) in enumerate(arrays.items())]
    faults = [(record, params_refusal(record, np_shape=False)) for record in records]
    refused = [Fault(fault.message, path=format_record(record.key, None), hint=fault.hint) for record, fault in faults if fault]
    if refused:
        raise RefusedError(refused)
    kept = list(arrays.values())
    write_dense_params([(record, record.key) for record in records], out, lambda r: _bytes(kept[r.offset]), np_shape=False)


def _bytes(array: Array) -> Iterable[memoryview]:
    """The array's bytes in C order, little endian."""
    import numpy as np

    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return (little.reshape(-1).view(np.uint8).data,)
