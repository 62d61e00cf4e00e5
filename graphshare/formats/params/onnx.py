"""``.onnx``: the initializers of a model, read where they are; models are written by :mod:`graphshare.formats.onnx`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from graphshare.errors import Fault
from graphshare.files.byte_source import ByteSource
from graphshare.files.open_source import reopen_source
from graphshare.formats.params.format import Chunks, ParameterFormat, Plan, WriteOptions
from graphshare.formats.params.records import ParameterFile, Record

_SAMPLE = 1 << 12


class OnnxModel(ParameterFormat):
    """The initializers of an ONNX model, in the file itself or in files beside it."""

    name = "onnx"

    def sniff(self, start: bytes) -> bool:
        return start[:1] == b"\x08"

    def may_hold_arrays(self, source: ByteSource) -> bool:
        from graphshare.formats.content_tests import is_onnx  # start-up: only such files need it

        return is_onnx(source.read_at(0, min(source.size, _SAMPLE)))

    def index(self, source: ByteSource) -> ParameterFile:
        from graphshare.formats.onnx.parameters import index_source  # start-up: only such files need it

        return index_source(source)

    def find_float32(self, file: ParameterFile) -> set[str]:
        from graphshare.formats.onnx.parameters import find_float32  # start-up: only such files need it

        with reopen_source(file.path, file.identity, file.held) as source:
            return find_float32(source)

    def read(self, source: ByteSource) -> Chunks:
        """Return a function that yields a record's elements; single numbers are decoded, raw data is read as it is."""
        from graphshare.formats.onnx.parameters import decode_values  # start-up: only such files need it

        in_place = super().read(source)

        def chunks(record: Record) -> Iterable[bytes | memoryview]:
            return in_place(record) if record.data_offset is not None else decode_values(source, record)

        return chunks

    def write(self, plan: Plan, out: BinaryIO, chunks: Chunks, options: WriteOptions) -> None:
        raise NotImplementedError

    def refuse(self, record: Record, key: str, options: WriteOptions) -> Fault | None:
        return Fault("cannot be written into an ONNX model on its own", hint="write .params, .npz or .safetensors")


FORMAT = OnnxModel()
