"""Runs of fields are the fields of the message, of a file read by blocks too, and refuse what these do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphshare.files import byte_source
from graphshare.files.byte_source import HeldBytes, SourceBytes
from graphshare.formats.onnx import protobuf
from graphshare.formats.onnx.protobuf import Field, Message, WireError, once, scan, scan_runs


def list_fields(
    data: protobuf.Data, start: int, end: int, single: int, *, runs: bool
) -> list[Field] | str:
    """Return the fields of a message, or the error."""
    try:
        if runs:
            return [field for run in scan_runs(data, start, end, single) for field in run]
        return list(scan(data, start, end, single))
    except WireError as error:
        return f"{error} at byte {error.position}"


def encode(fields: list[tuple[int, int]]) -> bytes:
    """Return a message of fields by number: with so many bytes, or for a negative size with an integer."""
    message = Message()
    for number, size in fields:
        if size < 0:
            message.add_integer(number, -size)
        else:
            message.add_bytes(number, bytes(size))
    return b"".join(bytes(piece) for piece in message.pieces())


sizes = st.one_of(st.integers(-300, 20), st.sampled_from([127, 128, 200, 16_383, 16_384]))
numbers = st.sampled_from([1, 1, 1, 2, 5, 15, 16, 17])


@given(st.lists(st.tuples(numbers, sizes), max_size=12), st.integers(0, 3), st.integers(0, 40))
def test_runs_have_the_fields_of_the_message(
    fields: list[tuple[int, int]], single: int, cut: int
) -> None:
    data, tags = encode(fields), (0, once(2), once(1, 5), once(16))
    end = max(len(data) - (cut if cut < 20 else 0), 0)
    wanted = list_fields(data, 0, end, tags[single], runs=False)
    assert list_fields(data, 0, end, tags[single], runs=True) == wanted
    assert list_fields(b"\xff" * 3 + data + b"\x0a", 3, 3 + end, 0, runs=True) == list_fields(
        b"\xff" * 3 + data + b"\x0a", 3, 3 + end, 0, runs=False
    )


@given(st.binary(max_size=40))
def test_any_bytes_have_the_same_fields_or_the_same_error(data: bytes) -> None:
    assert list_fields(data, 0, len(data), 0, runs=True) == list_fields(
        data, 0, len(data), 0, runs=False
    )


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64])
def test_a_file_that_is_read_by_blocks_has_the_same_fields(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_source, "BLOCK", block)
    monkeypatch.setattr(protobuf, "BLOCK", block)
    data = encode([(1, 5), (1, 0), (1, 200), (5, 3), (5, 70), (7, -300), (16, 4), (1, 9), (1, 9)])
    source = SourceBytes(HeldBytes("model", data))
    assert list_fields(source, 0, len(data), 0, runs=True) == list_fields(
        data, 0, len(data), 0, runs=False
    )
    assert "occurs twice" in str(list_fields(source, 0, len(data), once(5), runs=True))


def test_fields_of_one_number_that_follow_each_other_are_one_run() -> None:
    data = encode([(1, 5), (1, 300), (5, 3), (5, 2), (1, 1)])
    assert [[field[0] for field in run] for run in scan_runs(data, 0, len(data))] == [
        [1, 1],
        [5, 5],
        [1],
    ]


@pytest.mark.parametrize(
    ("data", "value", "stop"),
    [
        (b"\x00", 0, 2),
        (b"\x7f", 127, 2),
        (b"\x80\x01", 128, 3),
        (b"\xac\x02\x07", 300, 3),
        (b"\xff" * 9 + b"\x01", (1 << 64) - 1, 11),
        (b"\xff" * 9 + b"\x7f", (1 << 64) - 1, 11),
        (b"\x80" * 9 + b"\x02", 0, 11),
    ],
)
def test_a_number_of_groups(data: bytes, value: int, stop: int) -> None:
    assert protobuf.read_varint(b"x" + data, 1, len(data) + 1) == (value, stop)
    assert protobuf.encode_varint(value) == data[: stop - 1] or data[:1] in (b"\x80", b"\xff")


@pytest.mark.parametrize(
    ("data", "message", "position"),
    [
        (b"\x80", "a number is cut off", 0),
        (b"\x08", "a number is cut off", 1),
        (b"\x08" + b"\x80" * 9, "a number is cut off", 1),
        (b"\x08" + b"\x80" * 10, "a number has more than 10 bytes", 1),
        (b"\x08" + b"\x80" * 11, "a number has more than 10 bytes", 1),
        (b"\x0a", "a number is cut off", 1),
        (b"\x0a\x80", "a number is cut off", 1),
        (
            b"\x10\x01\x0a\x02a",
            "field 1 has 2 bytes and only 1 are left: the file is cut short or damaged",
            2,
        ),
        (
            b"\x0a\x80\x01a",
            "field 1 has 128 bytes and only 1 are left: the file is cut short or damaged",
            0,
        ),
        (
            b"\x0a\x88\x27",
            "field 1 has 5,000 bytes and only 0 are left: the file is cut short or damaged",
            0,
        ),
        (b"\x10\x01\x0d\0\0\0", "field 1 is cut off", 2),
        (b"\x09\0\0\0\0\0\0\0", "field 1 is cut off", 0),
        (b"\x10\x01\x0b", "field 1 has the unknown wire type 3", 2),
        (b"\x0e", "field 1 has the unknown wire type 6", 0),
        (b"\x10\x01\x02\x00", "a field has the number 0", 2),
        (b"\x80\x80\x80\x80\x10\x00", f"a field has the number {1 << 29}", 0),
        (b"\x10\x01\x0a\x00\x10\x01", "field 2 occurs twice in a message that has it once", 4),
    ],
)
def test_a_damaged_message_is_refused_at_its_place(
    data: bytes, message: str, position: int
) -> None:
    for runs in (False, True):
        assert (
            list_fields(b"xy" + data, 2, len(data) + 2, once(2), runs=runs)
            == f"{message} at byte {position + 2}"
        )


def test_fields_of_every_wire_type() -> None:
    data = (
        b"\x08\x96\x01\x11abcdefgh\x1a\x03abc\x25abcd\x82\x01\x01z\x2a\x80\x01"
        + b"b" * 128
        + b"\xf8\xff\xff\xff\x0f\x05"
    )
    fields = [
        (1, 0, 0, 1, 3),
        (2, 1, 3, 4, 12),
        (3, 2, 12, 14, 17),
        (4, 5, 17, 18, 22),
        (16, 2, 22, 25, 26),
        (5, 2, 26, 29, 157),
    ]
    fields.append(((1 << 29) - 1, 0, 157, 162, 163))
    for runs in (False, True):
        assert list_fields(data, 0, len(data), once(1, 2, 3, 4, 5, 16), runs=runs) == fields


def test_what_a_run_has() -> None:
    long = b"\x0a\x80\x01" + b"a" * 128
    data = b"\x0a\x01a\x0a\x7f" + b"b" * 127 + long + b"\x0a\x00"
    assert [field[3:] for field in protobuf._scan_run(data, 0, 0, len(data))] == [
        (2, 3),
        (5, 132),
        (135, 263),
        (265, 265),
    ]
    assert [field[3:] for field in protobuf._scan_run(data[3:], 3, 3, len(data))] == [
        (5, 132),
        (135, 263),
        (265, 265),
    ]
    assert len(protobuf._scan_run(data, 0, 0, len(data) - 1)) == 3
    assert len(protobuf._scan_run(data, 0, 0, 132)) == 2
    assert len(protobuf._scan_run(data, 0, 0, 131)) == 1
    huge = b"\x0a\x00" + b"\x0a\x80\x80\x01" + b"a" * 16384
    assert len(protobuf._scan_run(huge, 0, 0, len(huge))) == 1
    most = b"\x0a\xff\x7f" + b"a" * 16383
    assert protobuf._scan_run(most, 0, 0, len(most)) == [(1, 2, 0, 3, 16386)]
    assert len(protobuf._scan_run(b"\x7a\x00\x7a\x00\x72\x00", 0, 0, 6)) == 2
    for other in (b"\x08\x00", b"\x02\x00", b"\x82\x01\x00"):
        assert protobuf._scan_run(other, 0, 0, len(other)) == []


def field_of(data: bytes) -> Field:
    (field,) = scan(data, 0, len(data))
    return field


def test_values_of_fields() -> None:
    def read(data: bytes) -> tuple[int, int]:
        return protobuf.integer_at(data, field_of(data)), protobuf.enum_at(data, field_of(data))

    assert read(b"\x08\x05") == (5, 5)
    assert read(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01") == (-1, -1)
    assert read(b"\x08\xff\xff\xff\xff\x07") == ((1 << 31) - 1, (1 << 31) - 1)
    assert read(b"\x08\x80\x80\x80\x80\x08") == (1 << 31, -(1 << 31))
    assert read(b"\x08\x81\x80\x80\x80\x10") == ((1 << 32) + 1, 1)
    assert protobuf.as_signed((1 << 63) - 1) == (1 << 63) - 1
    assert protobuf.as_signed(1 << 63) == -(1 << 63)
    for data, numbers in (
        (b"\x08\xac\x02", [300]),
        (b"\x0a\x04\x01\xac\x02\x03", [1, 300, 3]),
        (b"\x0a\x00", []),
    ):
        assert list(protobuf.integers_at(data, field_of(data))) == numbers
    packed = b"\x0a\x0c" + b"\0\0\xc0\x3f" * 3
    assert protobuf.floats_at(packed, field_of(packed)) == (1.5, 1.5, 1.5)
    assert protobuf.floats_at(
        packed[2:6].join([b"\x0d", b""]), field_of(b"\x0d" + packed[2:6])
    ) == (1.5,)
    text = b"\x0a\x03a\xffb"
    assert protobuf.text_at(text, field_of(text)) == "a\udcffb"
    assert protobuf.encode_text("a\udcffb") == b"a\xffb"
    assert protobuf.encode_text("\ud800") == b"\xed\xa0\x80"
    for read_value, data, message in (
        (protobuf.integer_at, b"\x0a\x00", "an integer has the wire type 2, expected 0"),
        (protobuf.text_at, b"\x08\x00", "a text has the wire type 0, expected 2"),
        (protobuf.floats_at, b"\x08\x00", "a list of floats has the wire type 0, expected 2"),
        (protobuf.floats_at, b"\x0a\x05abcde", "5 bytes of floats are not a multiple of 4"),
    ):
        with pytest.raises(WireError) as raised:
            read_value(data, field_of(data))
        assert (str(raised.value), raised.value.position) == (message, 0)


class Counted:
    """Bytes that are read in two pieces."""

    def __init__(self, data: bytes) -> None:
        self.data, self.size = data, len(data)

    def pieces(self) -> list[bytes]:
        return [self.data[:1], self.data[1:]]


def test_short_pieces_of_a_message_are_joined() -> None:
    def show(*parts: bytes | Counted) -> list[int]:
        message = Message()
        for part in parts:
            if isinstance(part, bytes):
                message._append(part)
            else:
                message.add_encoded(part)
        pieces = [bytes(piece) for piece in message.pieces()]
        whole = b"".join(part if isinstance(part, bytes) else part.data for part in parts)
        assert (b"".join(pieces), message.size) == (whole, len(whole))
        return [len(piece) for piece in pieces]

    little, joined = 1 << 12, 1 << 18
    assert show(b"ab", b"c") == [3]
    assert show(b"ab", Counted(b"x" * little), b"c") == [little + 3]
    assert show(b"ab", Counted(b"x" * (little + 1)), b"c") == [2, 1, little, 1]
    assert show(b"a" * joined, b"c") == [joined + 1, 0]
    assert show(b"a" * (joined - 1), b"cd", b"e") == [joined + 1, 1]
    assert show(b"a" * (joined - little), Counted(b"x" * little), b"c", b"d") == [joined + 1, 1]
    assert show(b"a" * (joined + 1), Counted(b"x" * 5000), b"c", b"d") == [
        joined + 1,
        0,
        1,
        4999,
        2,
    ]


def test_fields_are_encoded_by_their_kind() -> None:
    inner, message = Message(), Message()
    inner.add_integer(1, -1)
    message.add_integer(16, 5)
    message.add_float(3, 1.5)
    message.add_text(4, "")
    message.add_text(4, "\udc80")
    message.add_texts(5, ["", "ä"])
    message.add_data(6, Counted(b"ab"))
    message.add_message(7, inner)
    message.add_list(1, [b"ab", b"c" * 200, Counted(b"de"), inner, b""])
    wanted = [
        b"\x80\x01\x05\x1d\0\0\xc0\x3f\x22\x06\\udc80\x2a\x00\x2a\x02\xc3\xa4\x32\x02ab",
        b"\x3a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x0a\x02ab\x0a\xc8\x01"
        + b"c" * 200
        + b"\x0a\x02de\x0a\x0b\x08"
        + b"\xff" * 9
        + b"\x01\x0a\x00",
    ]
    assert b"".join(bytes(piece) for piece in message.pieces()) == b"".join(wanted)
    assert message.size == len(b"".join(wanted))
    for name in ("", "a", "a" * 127, "a" * 128, "ä", "\udcff"):
        assert protobuf.encode_name(15, name) == protobuf.encode_field(
            15, protobuf.encode_text(name)
        )
    assert protobuf.encode_field(15, b"ab") == b"\x7a\x02ab"
    assert protobuf.encode_field(16, b"ab") == b"\x82\x01\x02ab"
    assert [protobuf.encode_varint(number) for number in (127, 128, 16383, 16384)] == [
        b"\x7f",
        b"\x80\x01",
        b"\xff\x7f",
        b"\x80\x80\x01",
    ]
