"""The initializers of a graph as an index of parameters, and their bytes where these are not stored as they are."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.formats.byte_source import ByteSource
from graphshare.formats.onnx.integer_inputs import walk_operands
from graphshare.formats.onnx.statements import list_function_weights
from graphshare.formats.onnx.stored import OnnxSource, TensorPlace, find_stored
from graphshare.formats.onnx.tensors import DTYPE_NAMES, EXTERNAL, RAW, dtype_name, pack_integers
from graphshare.formats.onnx.wire import BYTES, Data, WireError, scan
from graphshare.formats.open_source import open_source
from graphshare.formats.params.records import ITEM_SIZES, Origin, ParameterFile, Record, element_count, format_record
from graphshare.ir.graph import Graph, Node

FORMAT = "onnx"
SPARSE = "onnx sparse"
_NAME = 8
_FLOATS, _DOUBLES = 4, 10
_PACKED = {_FLOATS: "float32", _DOUBLES: "float64"}
# Inputs that are float32 beside float16 data: statistics with scale and bias (from opset 15 on), and sizes.
_FLOAT32 = {"BatchNormalization": (1, 2, 3, 4), "Resize": (1, 2), "Upsample": (1,)}


def index_parameters(graph: Graph, *, functions: bool = False) -> ParameterFile:
    """Return the parameters of a graph that was read from an ONNX file, and with ``functions`` those in functions.

    No data is read. Texts, sparse tensors, and elements of dtypes that no parameter file holds are listed as the bytes that
    they take in the file.
    """
    source = graph.source
    assert isinstance(source, OnnxSource)
    file = source.file
    inner: list[Record] = []
    outer: dict[str, list[Record]] = {}
    order: list[tuple[str, Record]] = []
    named = {node.name: node for node in graph.variables()}
    for name, node in [*named.items(), *(list_function_weights(graph).items() if functions else ())]:
        record = _make_record(name, node)
        if record is not None:
            place = find_stored(node.details).place
            path = "" if place is None else place.path
            (outer.setdefault(path, []) if path else inner).append(record)
            order.append((path, record))
    own = ParameterFile(file.path, file.size, FORMAT, tuple(inner), named=True, identity=file.identity, held=file.held)
    if not outer:
        return own
    files = {"": own}
    for path, found in outer.items():
        with open_source(path) as data:
            files[path] = ParameterFile(path, data.size, FORMAT, tuple(found), named=True, identity=data.identity)
    records = tuple(msgspec.structs.replace(record, origin=Origin(record.key, files[path])) for path, record in order)
    return msgspec.structs.replace(own, records=records)


def find_float32(graph: Graph) -> set[str]:
    """Return the names of the values that operators, those in bodies too, take in float32 beside float16 data."""
    return {
        entry.node.name
        for node, operands, _ in walk_operands(graph)
        for place, entry in enumerate(operands)
        if entry is not None and place in _FLOAT32.get(node.op, ())
    }


def index_functions(graph: Graph, nodes: Iterable[Node] | None = None) -> list[Record]:
    """Return the records of weights in functions; see :meth:`ModelFormat.index_functions`."""
    records = [_make_record(name, node) for name, node in list_function_weights(graph, nodes).items()]
    return [record for record in records if record is not None]


def _make_record(name: str, node: Node) -> Record | None:
    stored = find_stored(node.details)
    tensor, place = stored.tensor, stored.place
    if tensor is None:
        return None
    if place is None:  # a sparse one
        span = tensor.span
        size = sum(end - begin for begin, end in _list_sparse_parts(span.file.data, span.start, span.end))
        return Record(name, (size,), "uint8", SPARSE, span.start, span.end - span.start, None, size)
    dtype = DTYPE_NAMES.get(place.code)
    if dtype is None:
        size = place.end - place.start
        return Record(name, (size,), "uint8", f"{FORMAT} {dtype_name(place.code)}", place.start, size, place.start, size)
    size = element_count(place.shape) * ITEM_SIZES[dtype]
    if place.data == EXTERNAL:
        return Record(name, place.shape, dtype, FORMAT, place.start, size, place.start, size)
    start, end = tensor.span.start, tensor.span.end
    if size and not place.pieces:
        return Record(name, None, None, FORMAT, start, end - start, None, 0)
    in_place = not size or (place.pieces == 1 and place.end - place.start == size and _is_plain(place, dtype))
    return Record(name, place.shape, dtype, FORMAT, start, end - start, place.start if in_place else None, size)


def _is_plain(place: TensorPlace, dtype: str) -> bool:
    return place.data == RAW or _PACKED.get(place.data) == dtype


def _list_sparse_parts(data: Data, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the fields of a SparseTensorProto, of its values without their name."""
    for field in scan(data, start, end):
        if field[0] == 1 and field[1] == BYTES:
            yield from ((inner[2], inner[4]) for inner in scan(data, field[3], field[4]) if inner[0] != _NAME)
        else:
            yield field[2], field[4]


def decode_values(source: ByteSource, record: Record) -> Iterator[bytes]:
    """Yield the elements, little endian, of a tensor whose values are single numbers. Raises InputError.

    Of a sparse tensor the bytes of its fields.
    """
    data = source.read_at(record.offset, record.size)
    if record.layout == SPARSE:
        yield from (data[begin:end] for begin, end in _list_sparse_parts(data, 0, len(data)))
        return
    width = ITEM_SIZES[record.dtype or "bool"]
    count = 0
    try:
        for field in scan(data, 0, len(data)):
            if field[0] in (_FLOATS, _DOUBLES):
                piece = data[field[3] : field[4]]
            elif field[0] in (5, 7, 11):
                piece = pack_integers(data, field, width)
            elif field[0] == RAW and field[1] == BYTES:
                piece = data[field[3] : field[4]]
            else:
                continue
            count += len(piece)
            yield piece
    except (WireError, struct.error) as error:
        raise InputError(Fault(str(error), where=source.name, path=format_record(record.key, None))) from None
    if count != record.data_size:
        message = f"has {count:,} bytes of data; its shape and dtype need {record.data_size:,}"
        raise InputError(Fault(message, where=source.name, path=format_record(record.key, None)))
