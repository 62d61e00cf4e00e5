"""The fields of a GraphProto, list by list, and the named messages in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from graphshare.errors import Fault, InputError
from graphshare.formats.onnx.protobuf import (
    BYTES,
    Field,
    WireError,
    encode_varint,
    expect,
    once,
    scan,
    scan_runs,
    text_at,
)
from graphshare.formats.onnx.stated_once import refuse_repeats
from graphshare.formats.onnx.stored import (
    GRAPH_METADATA,
    NO_MESSAGES,
    OUTPUT,
    MemoryFile,
    NamedMessage,
    OnnxFile,
    Span,
    Stored,
    TensorPlace,
    ValueMessages,
)
from graphshare.formats.onnx.tensors import RAW, data_size, locate_sparse, locate_tensor
from graphshare.ir.graph import EMPTY

NODE, GRAPH_NAME, INITIALIZER, INPUT, VALUE_INFO, ANNOTATION, SPARSE = 1, 2, 5, 11, 13, 14, 15
TENSOR_NAME = 8
_NAME_TAG, _TENSOR_NAME_TAG, _RAW_TAG = 0x0A, b"\x42", b"\x4a"
_HEAD = 512  # bytes of a message in which its name is looked for
_SINGLE = once(GRAPH_NAME, 10)
_SINGLE_IN = {number: once(1, 2, 3) for number in (INPUT, OUTPUT, VALUE_INFO)} | {
    ANNOTATION: once(1)
}
_INNER = {number: {2: "type", 4: "pair"} for number in (INPUT, OUTPUT, VALUE_INFO)} | {
    ANNOTATION: {2: "pair"}
}
LIST_NAMES = {
    NODE: "node",
    INITIALIZER: "initializer",
    INPUT: "input",
    OUTPUT: "output",
    VALUE_INFO: "value_info",
    ANNOTATION: "quantization_annotation",
    SPARSE: "sparse_initializer",
}
"""The lists of a GraphProto by their field numbers."""
_NAMED = tuple(number for number in LIST_NAMES if number != NODE)

_ON_VALUES = (VALUE_INFO, OUTPUT, ANNOTATION)
"""The lists whose messages are on values that are defined elsewhere."""


def find_tensor_list(stored: Stored) -> int:
    """Return the number of the list with a variable's tensor."""
    return SPARSE if stored.is_sparse else INITIALIZER


Rest = tuple[tuple[tuple[int, Span], ...], tuple[tuple[int, NamedMessage], ...]]
"""Fields that belong to no node, and messages on values that do not exist."""


class Lists:
    """The fields of a GraphProto, list by list; ``is_ordered`` if in the order of their numbers."""

    def __init__(self) -> None:
        self.is_ordered = True
        self.nodes: list[Field] = []
        self.named: dict[int, list[NamedMessage]] = {number: [] for number in _NAMED}
        self.rest: list[tuple[int, Span]] = []

    def count(self) -> dict[int, int]:
        return {
            NODE: len(self.nodes),
            **{number: len(messages) for number, messages in self.named.items()},
        }


def scan_graph(file: OnnxFile, start: int, end: int) -> Lists:
    """Return the fields of the GraphProto at ``start``.

    Raises:
        WireError: one of them is malformed.
    """
    lists, reader, last = Lists(), _NamedReader(file), 0
    for fields in scan_runs(file.data, start, end, _SINGLE):
        number = fields[0][0]
        lists.is_ordered, last = lists.is_ordered and number >= last, number
        if number == NODE:
            if fields[0][1] != BYTES:  # fields of a run share one type
                expect(fields[0], BYTES, "a node")
            lists.nodes += fields
        elif number == INITIALIZER:
            reader.read_tensors(fields, lists.named[number])
        elif number in _NAMED:
            reader.read_values(fields, lists.named[number])
        else:
            if number == GRAPH_METADATA:
                for field in fields:
                    refuse_repeats(file.data, field, "pair")
            lists.rest += [(number, Span(file, field[2], field[4])) for field in fields]
    return lists


class _NamedReader:
    """Reads named messages of a graph; parts that messages share are scanned once."""

    def __init__(self, file: OnnxFile) -> None:
        self._file = file
        # Bytes after a name that comes first
        self._rests: dict[int, dict[bytes, bytes]] = {number: {} for number in _NAMED}
        self._forms: dict[bytes, _Form] = {}  # by the bytes before a name

    def read_values(self, fields: Iterable[Field], messages: list[NamedMessage]) -> None:
        """Add sparse initializers, and messages named in field 1, to ``messages``."""
        file, data = self._file, self._file.data
        for field in fields:
            number, kind, _, start, end = field
            if kind != BYTES:
                expect(field, BYTES, f"a message in {LIST_NAMES[number]}")
            head = data[start:end] if end - start <= _HEAD else b""
            if number == SPARSE:
                messages.append(_read_sparse(file, field, len(messages)))
                continue
            if len(head) < 2 or head[0] != _NAME_TAG or head[1] > 127:
                messages.append(_read_named(file, field, 1, len(messages)))
                continue
            after, known = 2 + head[1], self._rests[number]
            rest = known.get(head[after:])
            if rest is not None and after <= len(head):
                name = head[2:after].decode("utf-8", "surrogateescape")
                messages.append(
                    NamedMessage(
                        file, start, end, name, 1, start, start + after, len(messages), None, rest
                    )
                )
                continue
            message = _read_named(file, field, 1, len(messages))
            # The rest can only be compared as bytes if the name comes first.
            if message.name_start == start and message.name_end == start + after:
                rest = known[head[after:]] = head[after:]
                message = replace(message, rest=rest)
            messages.append(message)

    def read_tensors(self, fields: Iterable[Field], messages: list[NamedMessage]) -> None:
        """Add initializers to ``messages``; equal leading shapes and dtypes are read once."""
        file, data, forms = self._file, self._file.data, self._forms
        for field in fields:
            _, kind, _, start, end = field
            if kind != BYTES:
                expect(field, BYTES, "an initializer")
            head = data[start : min(end, start + _HEAD)]
            # Inside a number, the byte follows an incomplete field, and that has no form.
            begin = head.find(_TENSOR_NAME_TAG)
            form = forms.get(head[:begin]) if 0 <= begin < len(head) - 1 else _NO_FORM
            if form is None:
                form = forms[head[:begin]] = _read_form(head[:begin])
            shape, code, size, raw = form
            after = begin + 2 + head[begin + 1] if size >= 0 else 0
            at = after + len(raw)
            if (
                size < 0
                or head[begin + 1] > 127
                or end - start != at + size
                or head[after:at] != raw
            ):
                messages.append(_read_named(file, field, TENSOR_NAME, len(messages)))
                continue
            name = head[begin + 2 : after].decode("utf-8", "surrogateescape")
            place = TensorPlace(shape, code, RAW, end - size, end, 1)
            messages.append(
                NamedMessage(
                    file,
                    start,
                    end,
                    name,
                    TENSOR_NAME,
                    start + begin,
                    start + after,
                    len(messages),
                    place,
                )
            )


_Form = tuple[tuple[int, ...], int, int, bytes]
"""Shape, dtype and size of a tensor, and the bytes before its data."""
_NO_FORM: _Form = (), 0, -1, b""


def _read_form(head: bytes) -> _Form:
    """Return the form in a raw TensorProto's first fields, of negative size if they state more."""
    try:
        place = locate_tensor(MemoryFile(head), 0, len(head))
        size = data_size(place)
    except WireError:
        return _NO_FORM
    if size is None or any(number not in (1, 2) for number, *_ in scan(head, 0, len(head))):
        return _NO_FORM
    return place.shape, place.code, size, _RAW_TAG + encode_varint(size)


def _read_named(file: OnnxFile, field: Field, number: int, rank: int) -> NamedMessage:
    """Return a message with its name; an initializer's other fields are checked with its data."""
    data = file.data
    name, place = "", (field[3], field[3])
    kinds = _INNER.get(field[0], EMPTY)
    for inner in scan(data, field[3], field[4], _SINGLE_IN.get(field[0], 0)):
        if inner[0] in kinds:
            refuse_repeats(data, inner, kinds[inner[0]])
        if inner[0] == number:
            name, place = text_at(data, inner), (inner[2], inner[4])
        elif field[0] == ANNOTATION and inner[0] == 2:
            _check_pair(file, inner)
    return NamedMessage(file, field[3], field[4], name, number, *place, rank)


def _check_pair(file: OnnxFile, field: Field) -> None:
    expect(field, BYTES, "a pair of texts")
    for inner in scan(file.data, field[3], field[4]):
        text_at(file.data, inner)


def _read_sparse(file: OnnxFile, field: Field, rank: int) -> NamedMessage:
    """Return a sparse initializer; the place of its name is in the tensor of its values."""
    locate_sparse(file, field[3], field[4])
    inner = next((inner for inner in scan(file.data, field[3], field[4]) if inner[0] == 1), None)
    if inner is None:
        raise WireError("a sparse initializer has no values", field[2])
    values = _read_named(file, inner, TENSOR_NAME, 0)
    return NamedMessage(file, field[3], field[4], values.name, 1, inner[2], inner[4], rank)


def index_by_name(messages: Iterable[NamedMessage], *, unique: str = "") -> dict[str, NamedMessage]:
    """Return messages by name. Raises InputError where ``unique`` ones share a name."""
    index: dict[str, NamedMessage] = {}
    for message in messages:
        if unique and message.name in index:
            fault = f"two {unique} are called {message.name!r}, and a name stands for one value"
            raise InputError(Fault(fault, path=f"byte {message.start}"))
        index[message.name] = message
    return index


class MessagesByName:
    """The messages of a graph on its values, by the name of the value."""

    def __init__(self, lists: Lists) -> None:
        infos, results, annotations = (index_by_name(lists.named[number]) for number in _ON_VALUES)
        for index in (infos, results, annotations):
            index.pop("", None)  # absent outputs have no name either
        self.results = results
        self._by_kind = (infos, results, annotations)
        self._repeated: dict[str, list[tuple[int, NamedMessage]]] = {}
        for number, index in zip(_ON_VALUES, self._by_kind, strict=True):
            messages = lists.named[number]
            if len(index) == len(messages):
                continue
            for message in messages:
                if message.name and index[message.name] is not message:
                    self._repeated.setdefault(message.name, []).append((number, message))
        # Nearly every value is its node's only output, and has value_info only.
        self._single = {name: ValueMessages({0: message}) for name, message in infos.items()}
        self._single.update(
            {name: self._list((name,)) for name in (*results, *annotations, *self._repeated)}
        )

    def list_messages(self, names: Sequence[str]) -> ValueMessages:
        """Return the messages on outputs of these names by index."""
        return self._single.get(names[0], NO_MESSAGES) if len(names) == 1 else self._list(names)

    def _list(self, names: Sequence[str]) -> ValueMessages:
        infos, results, annotations = (
            _index_by_output(messages, names) for messages in self._by_kind
        )
        if not infos and not results and not annotations:
            return NO_MESSAGES
        repeated: list[tuple[int, int, NamedMessage]] = []
        if self._repeated:
            for index, name in enumerate(names):
                for number, message in self._repeated.get(name, ()):
                    repeated.append((number, index, message))
        return ValueMessages(infos, results, annotations, tuple(repeated))


def _index_by_output(
    messages: Mapping[str, NamedMessage], names: Sequence[str]
) -> Mapping[int, NamedMessage]:
    if not messages:
        return EMPTY
    return {index: messages[name] for index, name in enumerate(names) if name in messages}
