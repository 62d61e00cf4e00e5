"""The messages of a graph that have a name: what is read at once for many of one form is what is read of each."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import pytest
from onnx import TensorProto, helper

from graphshare.errors import InputError
from graphshare.formats.onnx import graph_fields
from graphshare.formats.onnx.graph_fields import (
    ANNOTATION,
    INITIALIZER,
    INPUT,
    OUTPUT,
    SPARSE,
    VALUE_INFO,
    Lists,
    MessagesByName,
    index_by_name,
    scan_graph,
)
from graphshare.formats.onnx.protobuf import WireError, encode_field, encode_varint
from graphshare.formats.onnx.stored import (
    MemoryFile,
    NamedMessage,
    OnnxFile,
    TensorPlace,
    ValueMessages,
)

BEFORE = b"\x12\x01g"  # the name of the graph
FLOAT_PAIR = b"\x08\x02\x10\x01"
DATA = b"\x00\x00\xc0\x3f\x42\x01q\x40"  # the tag of a name is in it


def scan(number: int, values: Sequence[bytes]) -> tuple[OnnxFile, Lists]:
    file = MemoryFile(b"x" + BEFORE + b"".join(encode_field(number, value) for value in values))
    return file, scan_graph(file, 1, file.size)


def name(text: bytes, tag: bytes = b"\x42") -> bytes:
    return tag + encode_varint(len(text)) + text


def raw(data: bytes) -> bytes:
    return b"\x4a" + encode_varint(len(data)) + data


TENSORS: dict[str, tuple[bytes, tuple[int, ...] | None]] = {
    # the shape of one whose data is located while its name is read
    "plain": (FLOAT_PAIR + name(b"w") + raw(DATA), (2,)),
    "without a name": (FLOAT_PAIR + raw(b"\0" * 8), None),
    "with an empty name": (FLOAT_PAIR + name(b"") + raw(DATA), (2,)),
    "packed dimensions": (b"\x0a\x02\x01\x02\x10\x01" + name(b"w") + raw(DATA), (1, 2)),
    "a scalar": (b"\x10\x01" + name(b"w") + raw(DATA[:4]), ()),
    "nothing in it": (b"\x08\x00\x10\x01" + name(b"w") + raw(b""), (0,)),
    "many bytes": (b"\x08\x28\x10\x01" + name(b"w") + raw(DATA * 20), (40,)),
    "a name of 127": (FLOAT_PAIR + name(b"w" * 127) + raw(DATA), (2,)),
    "a name of 128": (FLOAT_PAIR + name(b"w" * 128) + raw(DATA), None),
    "a name of no UTF-8": (FLOAT_PAIR + name(b"\xff") + raw(DATA), (2,)),
    "the tag of a name in a dimension": (b"\x08\x42\x10\x03" + name(b"w") + raw(b"\0" * 66), None),
    "documentation behind it": (FLOAT_PAIR + name(b"w") + raw(DATA) + b"\x62\x01d", None),
    "data before the name": (FLOAT_PAIR + raw(b"\0" * 8) + name(b"w"), None),
    "floats one by one": (FLOAT_PAIR + b"\x22\x08" + b"\0" * 8 + name(b"w"), None),
    "another field before the name": (FLOAT_PAIR + b"\x70\x00" + name(b"w") + raw(DATA), None),
    "texts": (b"\x08\x01\x10\x08" + name(b"w") + b"\x32\x01t", None),
    "less data": (FLOAT_PAIR + name(b"w") + raw(DATA[:7]), None),
    "more data": (FLOAT_PAIR + name(b"w") + raw(DATA + b"\0"), None),
    "data in another field": (FLOAT_PAIR + name(b"w") + b"\x52\x08" + DATA, None),
    "no data": (FLOAT_PAIR + name(b"w"), None),
    "nothing at all": (b"", None),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_names_and_places_of_initializers(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forms: list[bytes] = []
    read = graph_fields._read_form

    def count(head: bytes) -> graph_fields._Form:
        forms.append(head)
        return read(head)

    monkeypatch.setattr(graph_fields, "_read_form", count)
    message, shape = TENSORS[kind]
    plain = TENSORS["plain"][0]
    file, lists = scan(INITIALIZER, [plain, message, message, plain])
    assert forms.count(FLOAT_PAIR) == 1
    assert len(forms) <= 2
    found = lists.named[INITIALIZER]
    assert [each.rank for each in found] == [0, 1, 2, 3]
    expected = TensorProto.FromString(message) if b"\xff" not in message else None
    for each in found[1:3]:
        assert each.read() == message
        field = bytes(file.data[each.name_start : each.name_end])
        if expected is not None:
            assert each.name == expected.name
            assert field == (name(each.name.encode()) if expected.HasField("name") else b"")
        else:
            assert (each.name, field) == ("\udcff", name(b"\xff"))
        assert expected is None or expected.HasField("name") or each.name_start == each.start
        assert (each.place is None) == (shape is None)
        if each.place is not None and shape is not None:
            data = bytes(file.data[each.place.start : each.place.end])
            start = each.end - len(data)
            assert each.place == TensorPlace(shape, 1, 9, start, each.end, 1)
            assert raw(data) == message[-len(raw(data)) :]


@pytest.mark.parametrize(
    "message", [FLOAT_PAIR + b"\x42", FLOAT_PAIR + b"\x42\x02w", b"\x08", b"\x42\x01\x42\x01"]
)
def test_a_damaged_initializer_is_refused(message: bytes) -> None:
    with pytest.raises(WireError):
        scan(INITIALIZER, [TENSORS["plain"][0], message])


def value(text: bytes, rest: bytes = b"\x12\x04\x0a\x02\x08\x01") -> bytes:
    return name(text, b"\x0a") + rest


LONG = b"\x1a" + encode_varint(506) + b"d" * 506  # documentation


@pytest.mark.parametrize(
    ("values", "scanned", "shared"),
    [
        # which are scanned by themselves, and which have bytes behind a name that are one object for equal ones
        ([value(b"a"), value(b"bc"), value(b"")], [0], [0, 1, 2]),
        ([value(b"a"), value(b"bc", b""), value(b"d", b"")], [0, 1], [0, 1, 2]),
        ([value(b"a" * 127), value(b"b" * 127)], [0], [0, 1]),
        ([value(b"a" * 128), value(b"b" * 128)], [0, 1], []),
        ([value(b"a"), value(b"a", LONG), value(b"b", LONG)], [0, 1], [0, 1, 2]),
        ([value(b"a", LONG), value(b"bb", LONG), value(b"bb", LONG)], [0, 1, 2], [0]),
        ([b"\x12\x00" + name(b"a", b"\x0a"), b"\x12\x00" + name(b"b", b"\x0a")], [0, 1], []),
        ([value(b"a" * 128), value(b"b" * 127 + b"a")], [0, 1], []),
        ([b"\x0a\x00", b"\x0a\x00"], [0], [0, 1]),
        ([b"", b"", b"\x12\x00"], [0, 1, 2], []),
    ],
)
def test_values_of_one_form_are_scanned_once(
    values: list[bytes], scanned: list[int], shared: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    read = graph_fields._read_named

    def count(
        file: OnnxFile, field: tuple[int, int, int, int, int], number: int, rank: int
    ) -> NamedMessage:
        calls.append(rank)
        return read(file, field, number, rank)

    monkeypatch.setattr(graph_fields, "_read_named", count)
    for number in (INPUT, OUTPUT, VALUE_INFO):
        calls.clear()
        file, lists = scan(number, values)
        assert calls == scanned
        for each, message in zip(lists.named[number], values, strict=True):
            expected = onnx.ValueInfoProto.FromString(message)
            assert (each.name, each.number, each.read()) == (expected.name, 1, message)
            field = bytes(file.data[each.name_start : each.name_end])
            assert field == (
                name(each.name.encode(), b"\x0a") if expected.HasField("name") else b""
            )
        assert [each.rank for each in lists.named[number]] == [*range(len(values))]
        rests = {each.rank: each.rest for each in lists.named[number] if each.rest is not None}
        assert [*rests] == shared
        for rank, rest in rests.items():
            each = lists.named[number][rank]
            assert each.read() == file.data[each.name_start : each.name_end] + rest
            assert all(other is rest for other in rests.values() if other == rest)


@pytest.mark.parametrize(
    "message", [b"\x0a", b"\x0a\x05abcd", b"\x0a\x01a\x0a\x01b", b"\x12\x01", b"\x08\x01"]
)
def test_a_damaged_value_is_refused(message: bytes) -> None:
    with pytest.raises(WireError):
        scan(VALUE_INFO, [value(b"a", b""), value(b"b"), message])


@pytest.mark.parametrize(
    ("number", "what"),
    [
        (1, "a node"),
        (INITIALIZER, "an initializer"),
        (INPUT, "a message in input"),
        (OUTPUT, "a message in output"),
        (VALUE_INFO, "a message in value_info"),
        (ANNOTATION, "a message in quantization_annotation"),
        (SPARSE, "a message in sparse_initializer"),
    ],
)
def test_a_number_in_place_of_a_message_is_refused(number: int, what: str) -> None:
    data = BEFORE + bytes([number << 3, 5])
    with pytest.raises(WireError, match=f"^{what} has the wire type 0, expected 2$") as raised:
        scan_graph(MemoryFile(data), 0, len(data))
    assert raised.value.position == 3


@pytest.mark.parametrize(
    ("data", "is_ordered"), [(b"\x0a\x00\x0a\x00\x12\x01g", True), (b"\x12\x01g\x0a\x00", False)]
)
def test_fields_in_order(data: bytes, is_ordered: bool) -> None:
    lists = scan_graph(MemoryFile(data), 0, len(data))
    assert lists.is_ordered == is_ordered
    assert len(lists.nodes) == data.count(b"\x0a\x00")
    assert [(number, span.read()) for number, span in lists.rest] == [(2, BEFORE)]
    data += b"\x12\x01h"
    with pytest.raises(WireError, match="field 2 occurs twice"):
        scan_graph(MemoryFile(data), 0, len(data))


def test_long_messages_of_one_list_are_in_order() -> None:
    # Messages of 16 KiB and more are read one by one.
    lists = scan(INITIALIZER, [name(b"w") + b"\x62" + encode_varint(20000) + b"d" * 20000] * 3)[1]
    assert lists.is_ordered
    assert [each.name for each in lists.named[INITIALIZER]] == ["w"] * 3


def test_a_sparse_initializer_has_the_name_of_its_values() -> None:
    values, indices = (
        helper.make_tensor(name, kind, [1], [1]) for name, kind in (("s", 1), ("i", 7))
    )
    message = helper.make_sparse_tensor(values, indices, [4]).SerializeToString()
    file, lists = scan(SPARSE, [message, message])
    for rank, each in enumerate(lists.named[SPARSE]):
        assert (each.name, each.number, each.rank, each.read()) == ("s", 1, rank, message)
        assert file.data[each.name_start : each.name_end] == encode_field(
            1, values.SerializeToString()
        )
    with pytest.raises(WireError, match="a sparse initializer has no values"):
        scan(SPARSE, [encode_field(2, indices.SerializeToString())])
    with pytest.raises(WireError, match="a number is cut off"):
        scan(
            SPARSE,
            [
                message + encode_field(3, b"\0"),
                encode_field(1, values.SerializeToString()) + encode_field(2, b"\x08"),
            ],
        )


def test_pairs_of_an_annotation_are_texts() -> None:
    pair = onnx.StringStringEntryProto(key="SCALE_TENSOR", value="s").SerializeToString()
    _, lists = scan(ANNOTATION, [name(b"a", b"\x0a") + encode_field(2, pair)])
    assert [each.name for each in lists.named[ANNOTATION]] == ["a"]
    for damaged in (b"\x10\x01", encode_field(2, b"\x08\x01"), b"\x0a\x01b"):
        with pytest.raises(WireError):
            scan(ANNOTATION, [name(b"a", b"\x0a") + damaged])
    assert len(scan(ANNOTATION, [name(b"a", b"\x0a") + b"\x18\x01"])[1].named[ANNOTATION]) == 1


def test_messages_are_found_by_the_names_of_values() -> None:
    values = {number: [value(each) for each in names] for number, names in
              ((VALUE_INFO, (b"a", b"b")), (OUTPUT, (b"b", b"c")), (ANNOTATION, ()))}  # fmt: skip
    data = b"".join(
        encode_field(number, each) for number, messages in values.items() for each in messages
    )
    data += encode_field(ANNOTATION, name(b"d", b"\x0a"))
    lists = scan_graph(MemoryFile(data), 0, len(data))
    messages = MessagesByName(lists)

    def show(found: ValueMessages) -> list[dict[int, str]]:
        return [
            {index: each.name for index, each in kind.items()}
            for kind in (found.infos, found.results, found.annotations)
        ]

    assert show(messages.list_messages(["a"])) == [{0: "a"}, {}, {}]
    assert show(messages.list_messages(["b"])) == [{0: "b"}, {0: "b"}, {}]
    assert show(messages.list_messages(["x", "c", "d"])) == [{}, {1: "c"}, {2: "d"}]
    assert (
        show(messages.list_messages(["x"]))
        == show(messages.list_messages(["x", "y"]))
        == show(messages.list_messages([]))
    )
    assert show(messages.list_messages([])) == [{}, {}, {}]
    twice = [*lists.named[VALUE_INFO], lists.named[OUTPUT][0]]
    assert index_by_name(twice)["b"] is twice[2]
    with pytest.raises(
        InputError, match="two values are called 'b', and a name stands for one value"
    ) as raised:
        index_by_name(twice, unique="values")
    assert raised.value.faults[0].path == f"byte {twice[2].start}"
