"""The parameters of a model as initializers: read when they are written, or left where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from graphshare.analysis.roles import Kind, Role
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.lookup import RecordsByName
from graphshare.formats.params.records import ParameterFile, Record
from graphshare.ir.graph import Node
from graphshare.ir.onnx import Tensor
from graphshare.ops.kernel import Array
from graphshare.ops.translation import Value


class StoredData(msgspec.Struct, frozen=True, eq=False):
    """The bytes of a record, read in pieces when they are written."""

    reader: ArrayReader
    record: Record

    @property
    def size(self) -> int:
        """The number of bytes of the dense array."""
        return self.record.dense_size

    def pieces(self) -> Iterable[bytes | memoryview]:
        """Return the array's bytes in dense C order, little endian."""
        return self.reader.chunks(self.record)


def list_weights(
    variables: Sequence[Node], roles: Mapping[Node, Role], file: ParameterFile | None, reader: ArrayReader | None
) -> tuple[dict[Node, Value], dict[Node, Tensor]]:
    """Return the variables that ``file`` holds as values that can be read, and as initializers under no name yet."""
    values: dict[Node, Value] = {}
    tensors: dict[Node, Tensor] = {}
    if file is None or reader is None:
        return values, tensors
    records = RecordsByName(file)
    for node in variables:
        record = records.of(node, auxiliary=roles[node].kind is Kind.AUXILIARY)
        if record is None or record.shape is None or record.dtype is None:
            continue
        values[node] = Value("", record.shape, record.dtype, _read_later(reader, record))
        tensors[node] = Tensor("", record.dtype, record.shape, StoredData(reader, record))
    return values, tensors


def _read_later(reader: ArrayReader, record: Record) -> Callable[[], Array]:
    return lambda: reader.read(record)
