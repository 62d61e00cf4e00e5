"""Place the data of initializers in a written model: inside, beside it, or where it is."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import msgspec

from graphshare.errors import Fault, InputError, RefusedError
from graphshare.files.open_source import describe_file
from graphshare.files.paths import split
from graphshare.formats.model_format import CopiedWeights, WeightPlace
from graphshare.formats.model_names import DATA_END
from graphshare.formats.onnx.inner_tensors import list_inner_tensors, move_inner_data
from graphshare.formats.onnx.protobuf import Message
from graphshare.formats.onnx.stored import FileRange, TensorPlace, find_stored
from graphshare.formats.onnx.tensor_messages import ExternalRange, encode_tensor, replace_data
from graphshare.formats.onnx.write import TensorEncoder
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.records import WEIGHTS_HINT, ParameterFile, Record
from graphshare.ir.graph import EMPTY, Graph, Node
from graphshare.ir.onnx import dtype_name
from graphshare.ir.walk import iter_nodes
from graphshare.text.format import format_bytes, format_names
from graphshare.text.urls import is_url, redact

_LEAST = 1024  # bytes from which a tensor may be outside; shapes and axes must be in the model
_LISTED = 4
_PAGE = 4096
_LARGE = 1 << 20  # bytes from which copied data begins at a page, so that it can be mapped
_ALIGNMENT = 64
_OTHER_WAYS = (
    "`weights='external'` writes them to one file beside the model, `weights='embed'` into it"
)


class RecordData(msgspec.Struct, frozen=True, eq=False):
    """The bytes of an array in dense C order, little endian, read when they are written."""

    reader: ArrayReader
    record: Record

    @property
    def size(self) -> int:
        return self.record.dense_size

    def pieces(self) -> Iterator[bytes | memoryview]:
        yield from self.reader.chunks(self.record)


class Placement:
    """The data of a model written to ``target``: what moves, and what goes into the file ``beside``.

    ``records`` maps initializers with data in no ONNX file to their arrays. ``outside`` are the
    ranges and records of the file ``beside`` (empty without any), with offsets. ``embedded`` are
    arrays that could not stay in their parameter file, ``files`` the parameter files in use. The
    constructor's ``embedded`` has records of external data to embed.

    Raises:
        RefusedError: data would have to be copied despite ``no_copy``, or ONNX does not allow the
            place of a parameter file.
    """

    def __init__(
        self,
        graph: Graph,
        target: str,
        parameters: ParameterFile | None = None,
        *,
        weights: WeightPlace = "embed",
        copies: CopiedWeights = "share",
        no_copy: bool = False,
        embedded: Mapping[str, Record] = EMPTY,
    ) -> None:
        self._is_remote = is_url(target)
        self._folder = split(target)[0] or "."
        self._root = os.path.realpath(self._folder)
        self._locations: dict[str, str | None] = {}
        self._parameters: dict[str, str | Fault] = {}
        self._places: dict[Node | FileRange, ExternalRange] = {}
        self._copied: dict[FileRange, ExternalRange] = {}
        self._used: set[FileRange] = set()
        self._file = parameters
        self.records = {**list_records(graph, parameters), **embedded}
        self.outside: list[tuple[FileRange | Record, int]] = []
        self.embedded: list[str] = []
        self.size = 0
        for node in list_initializers(graph):
            record, place = self.records.get(node.name), find_stored(node.details).place
            if record is not None:
                self._place_record(node, record, weights)
            elif place is not None and place.path:
                self._place_range(node, place, copies)
        for tensor in list_inner_tensors(graph):
            self._place_range(tensor.place.file_range, tensor.place, "share")
        self.beside = f"{target}{DATA_END}" if self.outside else ""
        faults = [location for location in self._parameters.values() if isinstance(location, Fault)]
        if faults:
            raise RefusedError(faults)
        self.files = tuple(self._parameters)
        if self.copies_data and no_copy:
            files = dict.fromkeys(os.path.basename(data.path) for data in self._copied)
            hint = "write the model into the directory of its data, or leave `no_copy` out"
            message = (
                f"{format_bytes(self.size)} of {format_names(files)} would have to be copied, and "
                f"`no_copy` forbids that"
            )
            raise RefusedError(Fault(message, where=target, hint=hint))

    @property
    def copies_data(self) -> bool:
        """Whether external data of ONNX files is copied beside the model."""
        return bool(self._copied)

    @property
    def has_external(self) -> bool:
        """Whether data gets a place outside of the model."""
        return bool(self._places)

    def move_inner(self, graph: Graph) -> Graph:
        """Return a graph whose tensors in operators and functions name the new places of their data."""
        beside = os.path.basename(self.beside)
        places = {
            old: (location or beside, start, end)
            for old, (location, start, end) in self._places.items()
            if isinstance(old, FileRange)
        }
        return move_inner_data(graph, places)

    @contextmanager
    def open_records(self) -> Iterator[ArrayReader | None]:
        """Open a reader of the records; None where there are none."""
        if self._file is None or not self.records:
            yield None
            return
        with ArrayReader(self._file) as reader:
            yield reader

    def make_encoder(self, reader: ArrayReader | None, beside: str = "") -> TensorEncoder:
        """Return an encoder of initializers with moved data, or with records that ``reader`` reads.

        ``beside`` is the temporary name of the file beside the model.
        """
        name_beside = beside or os.path.basename(self.beside)

        def encode(node: Node, name: str) -> Message | None:
            where, stored = self._places.get(node), find_stored(node.details)
            if where is not None:
                location, start, end = where
                where = (location or name_beside, start, end)
            record = self.records.get(node.name)
            if record is None:
                if where is None or stored.tensor is None:
                    return None
                return replace_data(stored.tensor, where, name)
            shape, dtype = record.shape_and_dtype()
            assert reader is not None
            data = where or RecordData(reader, record)
            place = None if stored.data_in_record else stored.place
            is_as_read = place is not None and (place.shape, dtype_name(place.code)) == (
                shape,
                dtype,
            )
            if stored.tensor is None or not is_as_read:
                return encode_tensor(name, dtype, shape, data)
            return replace_data(stored.tensor, data, name)

        return encode

    def _place_record(self, node: Node, record: Record, weights: WeightPlace) -> None:
        is_large = record.dense_size >= _LEAST
        if weights == "external" and is_large:
            self._places[node] = ("", *self._append(record, record.dense_size, _ALIGNMENT))
        elif weights == "params":
            path = _find_file(record, self._file)
            start = record.data_offset
            if path is None or start is None:
                if is_large or find_stored(node.details).data_in_record:
                    self.embedded.append(node.name)
            elif is_large:
                location = self._parameters.setdefault(path, _locate(path, self._folder))
                if isinstance(location, str):
                    self._places[node] = location, start, start + record.dense_size

    def _place_range(
        self, key: Node | FileRange, place: TensorPlace, copies: CopiedWeights
    ) -> None:
        """Place external data: it stays if the model can reach it, else it is copied."""
        where, location = place.file_range, self._find_location(place.path)
        # The first user of a range keeps it.
        is_copy = copies == "copy" and where in self._used
        self._used.add(where)
        if location is not None and not is_copy:
            # A message that already has this location is copied byte for byte.
            if location != dict(place.external).get("location"):
                self._places[key] = location, place.start, place.end
            return
        if where not in self._copied or is_copy:
            alignment = _PAGE if where.size >= _LARGE else _ALIGNMENT
            self._copied[where] = ("", *self._append(where, where.size, alignment))
        self._places[key] = self._copied[where]

    def _append(self, data: FileRange | Record, size: int, alignment: int) -> tuple[int, int]:
        offset = -(-self.size // alignment) * alignment
        self.outside.append((data, offset))
        self.size = offset + size
        return offset, self.size

    def _find_location(self, path: str) -> str | None:
        """Return a file's location relative to the model's directory; None if it is outside."""
        if path not in self._locations:
            real = os.path.realpath(path)
            # realpath puts the same directory before both URLs, so they can be compared.
            is_inside = (
                is_url(path) == self._is_remote
                and os.path.commonpath((real, self._root)) == self._root
            )
            location = None
            if is_inside:
                location = os.path.relpath(real, self._root).replace(os.sep, "/")
            self._locations[path] = location
        return self._locations[path]


def list_initializers(graph: Graph) -> Iterator[Node]:
    """Yield the initializers of a graph and its subgraphs."""
    for node in iter_nodes(graph):
        if find_stored(node.details).tensor is not None:
            yield node


def list_external(graph: Graph) -> Iterator[tuple[Node, TensorPlace]]:
    """Yield the initializers of a graph and its subgraphs with data in another file."""
    for node in list_initializers(graph):
        place = find_stored(node.details).place
        if place is not None and place.path:
            yield node, place


def list_records(graph: Graph, parameters: ParameterFile | None) -> dict[str, Record]:
    """Return the records of initializers with data in no ONNX file: exported ones, and given arrays.

    Raises:
        RefusedError: records are missing; all such initializers are listed.
    """
    records = parameters.by_key() if parameters is not None else {}
    arrays = {
        key: record
        for key, record in records.items()
        if record.origin is not None and record.origin.array is not None
    }
    exported = [
        node for node in list_initializers(graph) if find_stored(node.details).data_in_record
    ]
    faults = [
        Fault("is an initializer without a value", node=n.name)
        for n in exported
        if n.name not in records
    ]
    if faults:
        raise RefusedError(faults)
    return arrays | {node.name: records[node.name] for node in exported}


def _find_file(record: Record, parameters: ParameterFile | None) -> str | None:
    if record.data_offset is None or not record.is_plain:
        return None
    file = parameters if record.origin is None else record.origin.file
    return None if file is None else file.path


def _locate(path: str, folder: str) -> str | Fault:
    """Return a file's location as ONNX allows it: relative, without ``..`` and links; else a fault."""
    if is_url(path) or is_url(folder):
        return Fault("is at a URL, or the model will be", where=path, hint=_OTHER_WAYS)
    real, base = os.path.realpath(path), os.path.realpath(folder)
    location = os.path.relpath(real, base)
    if location.startswith(os.pardir) or os.path.isabs(location):
        message = (
            "is neither in the directory of the model nor below it, and ONNX allows no other place"
        )
        return Fault(
            message, where=path, hint=f"write the model beside it, or copy it there; {_OTHER_WAYS}"
        )
    if os.stat(real).st_nlink > 1:
        return Fault(
            "has several hard links, which ONNX does not allow",
            where=path,
            hint=f"copy it; {_OTHER_WAYS}",
        )
    return location.replace(os.sep, "/")


class MissingData(msgspec.Struct, frozen=True, eq=False):
    """A file of external data that is missing or too short, and why.

    ``owners`` names the tensors in it. ``node`` is their first node, None in functions and training
    information.
    """

    owners: str
    node: Node | None
    reason: str


def list_outside(graph: Graph) -> list[tuple[str, Node | None, TensorPlace]]:
    """Return the tensors with external data: a description, its node, and the place of the data."""
    initializers = [
        (f"initializer {node.name!r}", node, place) for node, place in list_external(graph)
    ]
    inner = [
        (f"a tensor of operator {tensor.name!r}", tensor.node, tensor.place)
        for tensor in list_inner_tensors(graph)
    ]
    return [*initializers, *inner]


def find_missing_data(graph: Graph, held: Collection[str] = ()) -> Iterator[MissingData]:
    """Yield the missing or short files of external data; initializers ``held`` as arrays need none."""
    files: dict[str, list[tuple[str, Node | None, TensorPlace]]] = {}
    for owner, node, place in list_outside(graph):
        if node is not None and node.name in held:
            continue
        files.setdefault(place.path, []).append((owner, node, place))
    for path, tensors in files.items():
        try:
            size = describe_file(path).size
        except (OSError, InputError):
            reason = f"{redact(path)} does not exist"
        else:
            tensors = [tensor for tensor in tensors if tensor[2].end > size]
            end = max((place.end for _, _, place in tensors), default=0)
            reason = f"{redact(path)} has {size:,} bytes, and the data ends at byte {end:,}"
        if tensors:
            owners = format_names((owner for owner, _, _ in tensors), _LISTED)
            first = next((node for _, node, _ in tensors if node is not None), None)
            yield MissingData(owners, first, reason)


def refuse_missing_data(graph: Graph, parameters: ParameterFile | None) -> None:
    """Raise InputError for all files of external data that are missing or too short."""
    held = list_records(graph, parameters)
    missing = [
        f"the data of {each.owners} is missing: {each.reason}"
        for each in find_missing_data(graph, held)
    ]
    if missing:
        raise InputError([Fault(message, hint=WEIGHTS_HINT) for message in missing])
