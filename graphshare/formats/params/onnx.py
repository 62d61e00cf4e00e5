"""``.onnx``: the initializers of a model, read where they are; models are written by :mod:`graphshare.formats.onnx`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    suffix = ".onnx"

    def sniff(self, start: bytes) -> bool:
        return start[:1] == b"\x08"

    def may_hold_arrays(self, source: ByteSource) -> bool:
        from graphshare.formats.content_tests import is_onnx  # start-up: only such files need it

        return is_onnx(source.read_at(0, min(source.size, _SAMPLE)))

    def index(self, source: ByteSource) -> ParameterFile:
        from graphshare.formats.onnx.decode import decode_model  # start-up: only such files need it
        from graphshare.formats.onnx.parameters import index_parameters
        from graphshare.formats.onnx.stored import OnnxFile

        return index_parameters(decode_model(OnnxFile(source)), functions=True)

    def find_float32(self, file: ParameterFile) -> set[str]:
        from graphshare.formats.onnx.decode import decode_model  # start-up: only such files need it
        from graphshare.formats.onnx.parameters import find_float32
        from graphshare.formats.onnx.stored import OnnxFile

        with reopen_source(file.path, file.identity, file.held) as source:
            return find_float32(decode_model(OnnxFile(source)))

    def read(self, source: ByteSource) -> Chunks:
        """Return a function that yields a record's elements; single numbers are decoded, raw data is read as it is."""
        in_place = super().read(source)

        def chunks(record: Record) -> Iterable[bytes | memoryview]:
            return in_place(record) if record.data_offset is not None else self._decode(source, record)

        return chunks

    def _decode(self, source: ByteSource, record: Record) -> Iterator[bytes]:
        from graphshare.formats.onnx.parameters import decode_values  # start-up: only such files need it

        return decode_values(source, record)

    def write(self, plan: Plan, out: BinaryIO, chunks: Chunks, options: WriteOptions) -> None:
        raise NotImplementedError

    def refuse(self, record: Record, key: str, options: WriteOptions) -> Fault | None:
        return Fault("cannot be written into an ONNX model on its own", hint="write .params, .npz or .safetensors")
