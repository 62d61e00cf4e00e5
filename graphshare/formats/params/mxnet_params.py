"""MXNet's ``.params`` files as a parameter format; :mod:`graphshare.formats.params.mxnet_index` describes the bytes."""

from __future__ import annotations

from typing import BinaryIO

from graphshare.errors import Fault
from graphshare.formats.byte_source import ByteSource
from graphshare.formats.params.format import Chunks, ParameterFormat, Parts, Plan, WriteOptions
from graphshare.formats.params.mxnet_index import MAGIC, UNLOADABLE_DTYPES, index_params
from graphshare.formats.params.mxnet_write import copy_records, verify_records, write_dense_records
from graphshare.formats.params.records import ParameterFile, Record


class MxnetParams(ParameterFormat):
    """Every generation is read; arrays are written as MXNet 1.9.1 writes them."""

    name = "params"
    suffix = ".params"
    description = ".params (mx.nd.save)"
    starts = (MAGIC.to_bytes(8, "little"),)
    unique_names = False
    copies_records = True

    def index(self, source: ByteSource) -> ParameterFile:
        return index_params(source)

    def write(self, plan: Plan, out: BinaryIO, chunks: Chunks, options: WriteOptions) -> None:
        write_dense_records(plan, out, chunks, np_shape=options.np_shape)

    def refuse(self, record: Record, key: str, options: WriteOptions) -> Fault | None:
        """Return why MXNet 1.9.1 could not load the array."""
        if record.dtype in UNLOADABLE_DTYPES:
            return Fault(f"is {record.dtype}, which MXNet neither saves nor loads", hint="cast it first, for instance to int32")
        if record.shape == () and not options.np_shape:
            hint = "write V3 records (np_shape), or make it (1,)"
            return Fault("is a scalar, which only np-shape (V3) files hold", hint=hint)
        return None

    def copy(self, parts: Parts, out: BinaryIO) -> None:
        copy_records(parts, out)

    def verify_copy(self, written: ByteSource, parts: Parts, *, verify_bytes: bool) -> ParameterFile:
        return verify_records(written, parts, verify_bytes=verify_bytes)
