"""The parameters of a model as initializers: inside the model, in a file beside it, or left where they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from graphshare.analysis.roles import Kind, Role
from graphshare.errors import Fault, RefusedError
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.lookup import RecordsByName
from graphshare.formats.params.records import ParameterFile, Record
from graphshare.ir.graph import Node
from graphshare.ir.onnx import Data, ExternalData, OnnxGraph, Tensor
from graphshare.ops.kernel import Array
from graphshare.ops.translation import Value
from graphshare.text.urls import is_url

Weights = Literal["embed", "external", "params"]
_LEAST = 1024  # bytes from which on a tensor is worth a place outside; shapes and axes must be in the model
_ALIGNMENT = 64
_OTHER_WAYS = "--weights external writes them to one file beside the model, --weights embed into it"


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

    def find_range(self) -> tuple[str, int] | None:
        """Return the file with these very bytes and the offset in it; None where the file holds them in another form."""
        record = self.record
        if record.storage != "default" or record.fortran_order or record.big_endian or record.data_offset is None:
            return None
        if record.origin is not None and record.origin.file is None:
            return None
        return (record.origin.file if record.origin and record.origin.file else self.reader.file).path, record.data_offset


class Placed(msgspec.Struct, frozen=True, eq=False):
    """A graph whose tensors know where their bytes are.

    ``outside`` are the pieces of the file beside the model, in order and with the bytes between them; ``embedded`` the
    parameters that could not stay in their file, ``files`` those that the model points into.
    """

    graph: OnnxGraph
    outside: Sequence[Data | bytes] = ()
    embedded: Sequence[str] = ()
    files: Sequence[str] = ()


def list_weights(
    variables: Sequence[Node], roles: Mapping[Node, Role], file: ParameterFile | None, reader: ArrayReader | None
) -> tuple[dict[Node, Value], dict[Node, Tensor]]:
    """Return the variables that ``file`` holds as values that can be read, and as initializers that have no name yet."""
    values: dict[Node, Value] = {}
    tensors: dict[Node, Tensor] = {}
    if file is None or reader is None:
        return values, tensors
    records = RecordsByName(file)
    for node in variables:
        record = records.of(node, auxiliary=roles[node].kind is Kind.AUXILIARY)
        if record is None or record.shape is None or record.dtype is None:
            continue
        dtype = "float32" if record.dtype == "bfloat16" else record.dtype
        values[node] = Value("", record.shape, dtype, _read_later(reader, record))
        tensors[node] = Tensor("", record.dtype, record.shape, StoredData(reader, record))
    return values, tensors


def _read_later(reader: ArrayReader, record: Record) -> Callable[[], Array]:
    return lambda: reader.read(record)


def place_outside(graph: OnnxGraph, location: str) -> Placed:
    """Return the graph with its large tensors in the file ``location`` beside the model."""
    initializers: list[Tensor] = []
    outside: list[Data | bytes] = []
    offset = 0
    for tensor in graph.initializers:
        data = tensor.data
        if isinstance(data, ExternalData) or data.size < _LEAST:
            initializers.append(tensor)
            continue
        gap = -offset % _ALIGNMENT
        outside += [bytes(gap), data]
        initializers.append(msgspec.structs.replace(tensor, data=ExternalData(location, offset + gap, data.size)))
        offset += gap + data.size
    return Placed(msgspec.structs.replace(graph, initializers=tuple(initializers)), outside)


def place_in_parameter_files(graph: OnnxGraph, folder: str) -> Placed:
    """Return the graph with the parameters where they are: in files in or below ``folder``, the model's directory.

    What a file holds in another form (sparse, big endian, compressed), or what is computed, is embedded.

    Raises:
        RefusedError: a file is elsewhere, or is a link; all are listed.
    """
    locations: dict[str, str | Fault] = {}
    initializers: list[Tensor] = []
    embedded: list[str] = []
    for tensor in graph.initializers:
        place = tensor.data.find_range() if isinstance(tensor.data, StoredData) else None
        if place is None or isinstance(tensor.data, ExternalData):
            embedded += [tensor.name] if isinstance(tensor.data, StoredData) or _is_large(tensor) else []
        elif _is_large(tensor):
            location = locations.setdefault(place[0], _locate(place[0], folder))
            if isinstance(location, str):
                tensor = msgspec.structs.replace(tensor, data=ExternalData(location, place[1], tensor.data.size))
        initializers.append(tensor)
    faults = [location for location in locations.values() if isinstance(location, Fault)]
    if faults:
        raise RefusedError(faults)
    return Placed(msgspec.structs.replace(graph, initializers=tuple(initializers)), embedded=embedded, files=tuple(locations))


def _is_large(tensor: Tensor) -> bool:
    return not isinstance(tensor.data, ExternalData) and tensor.data.size >= _LEAST


def _locate(path: str, folder: str) -> str | Fault:
    """Return the location of a file as ONNX allows it: relative, without ``..`` and links; else the fault."""
    if is_url(path) or is_url(folder):
        return Fault("is at a URL, or the model will be", where=path, hint=_OTHER_WAYS)
    real, base = os.path.realpath(path), os.path.realpath(folder)
    location = os.path.relpath(real, base)
    if location.startswith(os.pardir) or os.path.isabs(location):
        message = "is neither in the directory of the model nor below it, and ONNX allows no other place"
        return Fault(message, where=path, hint=f"write the model beside it, or copy it there; {_OTHER_WAYS}")
    if os.stat(real).st_nlink > 1:
        return Fault("has several hard links, which ONNX does not allow", where=path, hint=f"copy it; {_OTHER_WAYS}")
    return location.replace(os.sep, "/")


def count_weights(graph: OnnxGraph) -> int:
    """Return the bytes of all initializers that are in the model itself."""
    return sum(tensor.data.size for tensor in graph.initializers if not isinstance(tensor.data, ExternalData))
