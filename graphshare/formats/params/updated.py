"""A parameter file written anew with some arrays replaced: dense, one array at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, BinaryIO

from graphshare.errors import Fault, RefusedError
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.mxnet_write import params_refusal, write_dense_params
from graphshare.formats.params.npz_write import npz_refusal, write_npz
from graphshare.formats.params.records import Format, ParameterFile, Record, format_record
from graphshare.formats.params.safetensors import safetensors_refusal, write_safetensors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def write_updated(
    source: ParameterFile | None, arrays: Mapping[str, Array], out: BinaryIO, to: Format, *, np_shape: bool = False
) -> list[Record]:
    """Writes the records of ``source`` in their order, those of ``arrays`` (by key) in the place of the old, the rest behind.

    Sparse records become dense. Returns the records as they were written, by name, shape and type.

    Raises:
        RefusedError: a name, shape or type has no place in the format; all are listed.
    """
    import numpy as np

    old = {record.key: record for record in source.records if record.key is not None} if source is not None else {}
    plan = []
    for key, record in old.items():
        plan.append(_new(key, arrays[key]) if key in arrays else record)
    plan += [_new(key, array) for key, array in arrays.items() if key not in old]
    faults = [_refusal(record, to, np_shape) for record in plan]
    if any(faults):
        raise RefusedError([fault for fault in faults if fault is not None])
    with ArrayReader(source) if source is not None else nullcontext() as reader:

        def chunks(record: Record) -> Iterable[bytes | memoryview]:
            array = arrays.get(record.key or "")
            if array is not None:
                little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
                return (little.reshape(-1).view(np.uint8).data,)
            assert reader is not None
            return reader.chunks(record)

        named = [(record, record.key or "") for record in plan]
        if to == "npz":
            write_npz(named, out, chunks)
        elif to == "safetensors":
            write_safetensors(named, out, chunks, metadata=source.metadata if source is not None else {})
        else:
            write_dense_params(named, out, chunks, np_shape=np_shape)
    out.flush()
    return plan


def _new(key: str, array: Array) -> Record:
    return Record(key, array.shape, str(array.dtype), "npy", 0, array.nbytes, None, array.nbytes)


def _refusal(record: Record, to: Format, np_shape: bool) -> Fault | None:
    key = record.key or ""
    if record.shape is None:
        fault: Fault | None = Fault("was never filled: there is no array to write")
    elif to == "params":
        fault = params_refusal(record, np_shape=np_shape)
    else:
        fault = npz_refusal(record, key) if to == "npz" else safetensors_refusal(record, key)
    return None if fault is None else Fault(fault.message, path=format_record(key, None), hint=fault.hint)
