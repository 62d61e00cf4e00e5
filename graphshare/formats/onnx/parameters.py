"""The initializers of a graph as parameters, read in place from the model or files beside it."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.files.byte_source import ByteSource
from graphshare.files.open_source import open_source, reopen_source
from graphshare.formats.content_tests import is_onnx
from graphshare.formats.onnx.decode import decode_model
from graphshare.formats.onnx.protobuf import BYTES, WireError, scan
from graphshare.formats.onnx.statements import list_function_weights
from graphshare.formats.onnx.stored import (
    MemoryFile,
    OnnxFile,
    Span,
    TensorPlace,
    find_stored,
    get_source,
)
from graphshare.formats.onnx.tensors import (
    EXTERNAL,
    RAW,
    data_size,
    locate_sparse,
    locate_tensor,
    pack_integers,
    read_elements,
)
from graphshare.formats.params.format import Chunks, ParameterFormat, Plan, WriteOptions
from graphshare.formats.params.records import (
    ITEM_SIZES,
    Origin,
    ParameterFile,
    Record,
    format_record,
)
from graphshare.ir.graph import Graph, Node
from graphshare.ir.onnx import DTYPE_NAMES, dtype_name
from graphshare.onnx_ops.integer_inputs import walk_operands
from graphshare.text.format import format_shape

_NAME = "onnx"
SPARSE = "onnx sparse"
_FLOATS, _DOUBLES = 4, 10
_PACKED = {_FLOATS: "float32", _DOUBLES: "float64"}
# Inputs that stay float32 beside float16 data: scale, bias and statistics (from opset 15), and
# sizes.
_FLOAT32 = {"BatchNormalization": (1, 2, 3, 4), "Resize": (1, 2), "Upsample": (1,)}
_SAMPLE = 1 << 12  # bytes that tell a model from other messages


def index_parameters(graph: Graph, *, functions: bool = False) -> ParameterFile:
    """Return the parameters of an ONNX graph, and with ``functions`` those in its functions.

    No data is read. Texts, sparse tensors, and dtypes that no parameter file can store are listed
    as their bytes in the file.
    """
    file = get_source(graph).file
    inner: list[Record] = []
    outer: dict[str, list[Record]] = {}
    order: list[tuple[str, Record]] = []
    named = {node.name: node for node in graph.variables()}
    for name, node in [
        *named.items(),
        *(list_function_weights(graph).items() if functions else ()),
    ]:
        record = _make_record(name, node)
        if record is not None:
            place = find_stored(node.details).place
            path = "" if place is None else place.path
            (outer.setdefault(path, []) if path else inner).append(record)
            order.append((path, record))
    own = ParameterFile(
        file.path,
        file.size,
        _NAME,
        tuple(inner),
        named=True,
        identity=file.identity,
        held=file.held,
    )
    if not outer:
        return own
    files = {"": own}
    for path, external in outer.items():
        if path in file.missing:
            files[path] = ParameterFile(
                path, 0, _NAME, tuple(external), named=True, missing=file.missing[path]
            )
            continue
        with open_source(path) as data:
            files[path] = ParameterFile(
                path, data.size, _NAME, tuple(external), named=True, identity=data.identity
            )
    records = tuple(
        msgspec.structs.replace(record, origin=Origin(record.key, files[path]))
        for path, record in order
    )
    return msgspec.structs.replace(own, records=records)


def index_functions(graph: Graph, nodes: Iterable[Node] | None = None) -> list[Record]:
    """Return the records of weights in functions; see
    :meth:`graphshare.formats.facets.Bodies.index_functions`.
    """
    records = [
        _make_record(name, node) for name, node in list_function_weights(graph, nodes).items()
    ]
    return [record for record in records if record is not None]


def _make_record(name: str, node: Node) -> Record | None:
    stored = find_stored(node.details)
    tensor, place = stored.tensor, stored.place
    if tensor is None:
        return None
    if place is None:  # a sparse one
        size, values = (
            sum(map(len, _read_sparse(tensor))),
            locate_sparse(tensor.file, tensor.start, tensor.end),
        )
        kind = f"sparse {dtype_name(values.code)}" if values is not None else "sparse"
        return Record(
            name, (size,), "uint8", SPARSE, tensor.start, tensor.size, None, size, stated=kind
        )
    stated = ""
    shape, dtype, layout, known = place.shape, DTYPE_NAMES.get(place.code), _NAME, data_size(place)
    size = place.end - place.start if known is None else known
    if dtype is None:
        stated = f"{dtype_name(place.code)} {format_shape(place.shape)}"
        shape, dtype, layout = (size,), "uint8", f"{_NAME} {dtype_name(place.code)}"
    if place.data == EXTERNAL or known is None:
        return Record(
            name, shape, dtype, layout, place.start, size, place.start, size, stated=stated
        )
    start, end = tensor.start, tensor.end
    # The file states a shape, and no data.
    if size and not place.pieces:
        return Record(name, None, None, _NAME, start, end - start, None, 0)
    in_place = not size or (
        place.pieces == 1 and place.end - place.start == size and _is_plain(place, dtype)
    )
    return Record(
        name,
        shape,
        dtype,
        layout,
        start,
        end - start,
        place.start if in_place else None,
        size,
        stated=stated,
    )


def _is_plain(place: TensorPlace, dtype: str) -> bool:
    return place.data == RAW or _PACKED.get(place.data) == dtype


def _read_sparse(span: Span) -> Iterator[bytes]:
    for field in scan(span.file.data, span.start, span.end):
        if field[0] in (1, 2) and field[1] == BYTES:
            place = locate_tensor(span.file, field[3], field[4])
            yield from read_elements(Span(span.file, field[3], field[4]), place)
        elif field[0] == 3:
            yield pack_integers(span.file.data, field, 8)


def _decode_values(source: ByteSource, record: Record) -> Iterator[bytes]:
    """Yield a tensor's elements, little endian, if they are single numbers or sparse. Raises InputError."""
    data = source.read_at(record.offset, record.size)
    if record.layout == SPARSE:
        yield from _read_sparse(Span(MemoryFile(data), 0, len(data)))
        return
    width = ITEM_SIZES[record.dtype or "bool"]
    count = 0
    try:
        for field in scan(data, 0, len(data)):
            if field[0] in (_FLOATS, _DOUBLES):
                piece = data[field[3] : field[4]]
            # int32_data, int64_data and uint64_data: numbers of any width, one by one.
            elif field[0] in (5, 7, 11):
                piece = pack_integers(data, field, width)
            elif field[0] == RAW and field[1] == BYTES:
                piece = data[field[3] : field[4]]
            else:
                continue
            count += len(piece)
            yield piece
    except (WireError, struct.error) as error:
        raise InputError(
            Fault(str(error), where=source.name, path=format_record(record.key, None))
        ) from None
    if count != record.data_size:
        message = f"has {count:,} bytes of data; its shape and dtype need {record.data_size:,}"
        raise InputError(Fault(message, where=source.name, path=format_record(record.key, None)))


class OnnxModel(ParameterFormat):
    """The initializers of an ONNX model, in the file itself or in files beside it."""

    name = "onnx"

    def sniff(self, start: bytes) -> bool:
        # Models begin with the tag of ir_version; may_hold_arrays looks further.
        return start[:1] == b"\x08"

    def may_hold_arrays(self, source: ByteSource) -> bool:
        return is_onnx(source.read_at(0, min(source.size, _SAMPLE)))

    def index(self, source: ByteSource) -> ParameterFile:
        return index_parameters(decode_model(OnnxFile(source)), functions=True)

    def find_float32(self, file: ParameterFile) -> set[str]:
        """Return the values that operators, also in bodies, take in float32 beside float16 data."""
        with reopen_source(file.path, file.identity, file.held) as source:
            return {
                entry.node.name
                for node, operands, _ in walk_operands(decode_model(OnnxFile(source)))
                for place, entry in enumerate(operands)
                if entry is not None and place in _FLOAT32.get(node.op, ())
            }

    def read(self, source: ByteSource) -> Chunks:
        """Return a function that yields a record's elements: raw data unchanged, single numbers decoded."""
        in_place = super().read(source)

        def chunks(record: Record) -> Iterable[bytes | memoryview]:
            return (
                in_place(record)
                if record.data_offset is not None
                else _decode_values(source, record)
            )

        return chunks

    def write(self, plan: Plan, out: BinaryIO, chunks: Chunks, options: WriteOptions) -> None:
        raise NotImplementedError

    def refuse(self, record: Record, key: str, options: WriteOptions) -> Fault | None:
        return Fault(
            "cannot be written into an ONNX model on its own",
            hint="write .params, .npz or .safetensors",
        )


FORMAT = OnnxModel()
