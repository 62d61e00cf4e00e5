"""Runs of fields are the fields of the message, of a file read by blocks too, and refuse what these do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphshare.files import byte_source
from graphshare.files.byte_source import HeldBytes, SourceBytes
from graphshare.formats.onnx import protobuf
from graphshare.formats.onnx.protobuf import Field, Message, WireError, once, scan, scan_runs


def list_fields(data: protobuf.Data, start: int, end: int, single: int, *, runs: bool) -> list[Field] | str:
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
def test_runs_have_the_fields_of_the_message(fields: list[tuple[int, int]], single: int, cut: int) -> None:
    data, tags = encode(fields), (0, once(2), once(1, 5), once(16))
    end = max(len(data) - (cut if cut < 20 else 0), 0)
    wanted = list_fields(data, 0, end, tags[single], runs=False)
    assert list_fields(data, 0, end, tags[single], runs=True) == wanted
    assert list_fields(b"\xff" * 3 + data + b"\x0a", 3, 3 + end, 0, runs=True) == list_fields(
        b"\xff" * 3 + data + b"\x0a", 3, 3 + end, 0, runs=False
    )


@given(st.binary(max_size=40))
def test_any_bytes_have_the_same_fields_or_the_same_error(data: bytes) -> None:
    assert list_fields(data, 0, len(data), 0, runs=True) == list_fields(data, 0, len(data), 0, runs=False)


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64])
def test_a_file_that_is_read_by_blocks_has_the_same_fields(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_source, "BLOCK", block)
    monkeypatch.setattr(protobuf, "BLOCK", block)
    data = encode([(1, 5), (1, 0), (1, 200), (5, 3), (5, 70), (7, -300), (16, 4), (1, 9), (1, 9)])
    source = SourceBytes(HeldBytes("model", data))
    assert list_fields(source, 0, len(data), 0, runs=True) == list_fields(data, 0, len(data), 0, runs=False)
    assert "occurs twice" in str(list_fields(source, 0, len(data), once(5), runs=True))


def test_fields_of_one_number_that_follow_each_other_are_one_run() -> None:
    data = encode([(1, 5), (1, 300), (5, 3), (5, 2), (1, 1)])
    assert [[field[0] for field in run] for run in scan_runs(data, 0, len(data))] == [[1, 1], [5, 5], [1]]
