"""The fields of a GraphProto, list by list, and the messages in them that have a name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphshare.errors import Fault, InputError
from graphshare.formats.onnx.protobuf import BYTES, Field, WireError, encode_varint, expect, once, scan, text_at
from graphshare.formats.onnx.stored import NO_MESSAGES, MemoryFile, NamedMessage, OnnxFile, Span, TensorPlace, ValueMessages
from graphshare.formats.onnx.tensors import RAW, data_size, locate_sparse, locate_tensor
from graphshare.ir.graph import EMPTY

NODE, GRAPH_NAME, INITIALIZER, INPUT, OUTPUT, VALUE_INFO, ANNOTATION, SPARSE = 1, 2, 5, 11, 12, 13, 14, 15
TENSOR_NAME = 8
_TENSOR_NAME_TAG, _RAW_TAG = b"\x42", b"\x4a"
_HEAD = 512  # bytes of a message in which its name is looked for
_NAMES = {INITIALIZER: TENSOR_NAME, INPUT: 1, OUTPUT: 1, VALUE_INFO: 1, ANNOTATION: 1}
_SINGLE = once(GRAPH_NAME, 10)
_SINGLE_IN = {number: once(1, 2, 3) for number in (INPUT, OUTPUT, VALUE_INFO)} | {ANNOTATION: once(1)}
_LISTS = {INITIALIZER: "initializer", INPUT: "graph input", OUTPUT: "graph output", SPARSE: "sparse initializer"}

Rest = tuple[tuple[tuple[int, Span], ...], tuple[tuple[int, NamedMessage], ...]]
"""Fields that belong to no node, and messages on values that do not exist."""
ByOutput = tuple[dict[str, NamedMessage], dict[str, NamedMessage], dict[str, NamedMessage]]
"""Messages on values by the name of the value: value_info, graph outputs, quantization annotations."""


class Lists:
    """The fields of a GraphProto, list by list; ``is_ordered`` tells whether they are in the order of their numbers."""

    def __init__(self) -> None:
        self.is_ordered = True
        self.nodes: list[Field] = []
        self.named: dict[int, list[NamedMessage]] = {number: [] for number in (*_NAMES, SPARSE)}
        self.rest: list[tuple[int, Span]] = []


def scan_graph(file: OnnxFile, start: int, end: int) -> Lists:
    """Return the fields of the GraphProto at ``start``. Raises WireError."""
    lists, last = Lists(), 0
    nodes, reader = lists.nodes, _NamedReader(file)
    for field in scan(file.data, start, end, _SINGLE):
        number = field[0]
        if number < last:
            lists.is_ordered = False
        last = number
        if number == NODE:
            expect(field, BYTES, "a node")
            nodes.append(field)
        elif number in _NAMES:
            expect(field, BYTES, _LISTS.get(number, "a value"))
            messages = lists.named[number]
            messages.append(reader.read(field, len(messages)))
        elif number == SPARSE:
            expect(field, BYTES, "a sparse initializer")
            lists.named[SPARSE].append(_read_sparse(file, field, len(lists.named[SPARSE])))
        else:
            lists.rest.append((number, Span(file, field[2], field[4])))
    return lists


class _NamedReader:
    """Reads the messages of a graph that have a name; what they have in common with others is scanned once."""

    def __init__(self, file: OnnxFile) -> None:
        self._file = file
        self._types: dict[int, set[bytes]] = {number: set() for number in _NAMES}  # what follows a name that comes first
        self._forms: dict[bytes, tuple[tuple[int, ...], int, int]] = {}  # shape, dtype and size by what is before a name

    def read(self, field: Field, rank: int) -> NamedMessage:
        """Return the message in a field of the graph. Raises WireError."""
        number, start, end = field[0], field[3], field[4]
        head = self._file.data[start : min(end, start + _HEAD)]
        if number == INITIALIZER:
            message = self._read_tensor(head, start, end, rank)
            if message is not None:
                return message
        elif end - start <= _HEAD and head[:1] == b"\x0a":
            length = 2 + head[1] if len(head) > 1 and head[1] < 128 else _HEAD
            rest, types = head[length:], self._types[number]
            if length <= len(head) and rest in types:
                name = head[2:length].decode("utf-8", "surrogateescape")
                return NamedMessage(Span(self._file, start, end), name, 1, start, start + length, rank)
            message = _read_named(self._file, field, 1, rank)
            # Only behind a name that comes first can the rest of a message be compared as bytes.
            if message.name_start == start and message.name_end == start + length:
                types.add(rest)
            return message
        return _read_named(self._file, field, _NAMES[number], rank)

    def _read_tensor(self, head: bytes, start: int, end: int, rank: int) -> NamedMessage | None:
        """Return an initializer that has a shape that was read before, a name and raw data; None for any other."""
        # The byte may also be inside a number: then the bytes before it end within a field, and have no form.
        begin = head.find(_TENSOR_NAME_TAG)
        if begin < 0 or begin + 2 > len(head):
            return None
        form = self._forms.get(head[:begin])
        if form is None:
            form = self._forms[head[:begin]] = _read_form(head[:begin])
        shape, code, size = form
        after = begin + 2 + head[begin + 1]
        if size < 0 or head[begin + 1] > 127 or end - start < after + size:
            return None
        data = _RAW_TAG + encode_varint(size)
        if end - start != after + len(data) + size or head[after : after + len(data)] != data:
            return None
        name = head[begin + 2 : after].decode("utf-8", "surrogateescape")
        place = TensorPlace(shape, code, RAW, end - size, end, 1)
        return NamedMessage(Span(self._file, start, end), name, TENSOR_NAME, start + begin, start + after, rank, place)


def _read_form(head: bytes) -> tuple[tuple[int, ...], int, int]:
    """Return shape, dtype and size that the first fields of a TensorProto state; a negative size where they state another."""
    try:
        place = locate_tensor(MemoryFile(head), 0, len(head))
        size = data_size(place)
    except WireError:
        return (), 0, -1
    is_simple = all(number in (1, 2) for number, *_ in scan(head, 0, len(head)))
    return place.shape, place.code, size if is_simple and size is not None else -1


def _read_named(file: OnnxFile, field: Field, number: int, rank: int) -> NamedMessage:
    """Return a message with its name; other fields of an initializer are looked at where its data is located."""
    data = file.data
    name, place = "", (field[3], field[3])
    for inner in scan(data, field[3], field[4], _SINGLE_IN.get(field[0], 0)):
        if inner[0] == number:
            name, place = text_at(data, inner), (inner[2], inner[4])
        elif field[0] == ANNOTATION and inner[0] == 2:
            _check_pair(file, inner)
    return NamedMessage(Span(file, field[3], field[4]), name, number, *place, rank)


def _check_pair(file: OnnxFile, field: Field) -> None:
    """Read a pair of texts, which refer to values of the graph. Raises WireError."""
    expect(field, BYTES, "a pair of texts")
    for inner in scan(file.data, field[3], field[4]):
        text_at(file.data, inner)


def _read_sparse(file: OnnxFile, field: Field, rank: int) -> NamedMessage:
    """Return a sparse initializer, which is named by its values; the place of the name is that of the values."""
    locate_sparse(file, field[3], field[4])
    inner = next((inner for inner in scan(file.data, field[3], field[4]) if inner[0] == 1), None)
    if inner is None:
        raise WireError("a sparse initializer has no values", field[2])
    values = _read_named(file, inner, TENSOR_NAME, 0)
    return NamedMessage(Span(file, field[3], field[4]), values.name, 1, inner[2], inner[4], rank)


def index_by_name(messages: Iterable[NamedMessage], *, unique: str = "") -> dict[str, NamedMessage]:
    """Return messages by name. Raises InputError where ``unique`` ones have one name."""
    index: dict[str, NamedMessage] = {}
    for message in messages:
        if unique and message.name in index:
            fault = f"two {unique} are called {message.name!r}, and a name stands for one value"
            raise InputError(Fault(fault, path=f"byte {message.span.start}"))
        index[message.name] = message
    return index


def list_messages(names: Sequence[str], by_output: ByOutput) -> ValueMessages:
    """Return the messages on outputs of these names by index."""
    if len(names) == 1:  # as nearly always, and the general way takes time
        (name,) = names
        infos, results, annotations = by_output[0].get(name), by_output[1].get(name), by_output[2].get(name)
        if results is None and annotations is None:
            return NO_MESSAGES if infos is None else ValueMessages({0: infos})
        single = [EMPTY if message is None else {0: message} for message in (infos, results, annotations)]
        return ValueMessages(*single)
    by_kind = [
        {index: messages[name] for index, name in enumerate(names) if name in messages} if messages else EMPTY
        for messages in by_output
    ]
    return ValueMessages(*by_kind) if any(by_kind) else NO_MESSAGES
