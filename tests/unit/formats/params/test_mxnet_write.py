"""Writing ``.params`` files: identity, renames, duplicates, and a check that can fail."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest

from graphshare.errors import InputError, OutputError, RefusedError, SelfCheckError
from graphshare.files.open_source import open_source
from graphshare.formats.params import byte_ranges
from graphshare.formats.params.format import read_index
from graphshare.formats.params.mxnet_params import FORMAT, encode_dense_header
from tests import params_bytes as build


@pytest.fixture
def source(tmp_path: Path):
    records, names = build.every_form()
    path = tmp_path / "source.params"
    path.write_bytes(build.container(records, names, reserved=5))
    return read_index(path)


def verify(target: Path, source, plan, *, verify_bytes: bool = False):
    with open_source(target) as written:
        return FORMAT.verify_copy(written, [(source, plan)], verify_bytes=verify_bytes)


def identity(file):
    return [(record, record.key) for record in file.records]


def test_an_identity_plan_gives_the_same_bytes(source) -> None:
    out = io.BytesIO()
    FORMAT.copy([(source, identity(source))], out)
    assert out.getvalue() == Path(source.path).read_bytes()


def test_a_duplicate_holds_each_record_twice_and_keeps_the_device_word(
    source, tmp_path: Path
) -> None:
    records, names = build.every_form()
    plan = [(record, f"{key}{suffix}") for suffix in ("", "-2") for record, key in identity(source)]
    target = tmp_path / "twice.params"
    with open(target, "wb") as out:
        FORMAT.copy([(source, plan)], out)
    assert target.read_bytes() == build.container(
        records * 2, names + [f"{name}-2" for name in names], reserved=5
    )
    assert [record.key for record in verify(target, source, plan, verify_bytes=True).records] == [
        k for _, k in plan
    ]


def test_records_can_be_dropped_reordered_and_given_one_name(source) -> None:
    records, _ = build.every_form()
    out = io.BytesIO()
    FORMAT.copy([(source, [(source.records[i], "same") for i in (3, 1, 1, 0)])], out)
    assert out.getvalue() == build.container(
        [records[i] for i in (3, 1, 1, 0)], ["same"] * 4, reserved=5
    )


def test_names_may_be_taken_away_given_and_need_not_be_text(source) -> None:
    records, _ = build.every_form()
    out = io.BytesIO()
    FORMAT.copy([(source, [(source.records[0], None)])], out)
    assert out.getvalue() == build.container(records[:1], reserved=5)
    out = io.BytesIO()
    FORMAT.copy([(source, [(source.records[0], "\udcff\0")])], out)
    assert out.getvalue() == build.container(records[:1], [b"\xff\0"], reserved=5)


def test_an_empty_plan_writes_the_32_bytes_of_an_empty_file(source) -> None:
    out = io.BytesIO()
    FORMAT.copy([(source, [])], out)
    assert len(out.getvalue()) == 32


def test_a_plan_with_and_without_names_is_refused_with_every_record_at_fault(source) -> None:
    plan = [(source.records[0], "a"), (source.records[1], None), (source.records[2], None)]
    with pytest.raises(RefusedError) as caught:
        FORMAT.copy([(source, plan)], io.BytesIO())
    assert [fault.path for fault in caught.value.faults] == ["record 1", "record 2"]


def test_a_name_no_reader_takes_is_refused(source) -> None:
    with pytest.raises(RefusedError, match="1,048,576"):
        FORMAT.copy([(source, [(source.records[0], "x" * ((1 << 20) + 1))])], io.BytesIO())


def test_a_source_that_changed_since_it_was_indexed_is_not_copied(source) -> None:
    with open(source.path, "ab") as file:
        file.write(b"more")
    with pytest.raises(InputError, match="changed"):
        FORMAT.copy([(source, identity(source))], io.BytesIO())


def test_a_full_disk_is_an_output_error(source) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with (
        open("/dev/full", "wb", buffering=0) as out,
        pytest.raises(OutputError, match="the disk is full"),
    ):
        FORMAT.copy([(source, identity(source))], out)


@pytest.mark.parametrize("answer", [errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, 0])
def test_where_the_system_cannot_copy_python_does(
    source, tmp_path: Path, monkeypatch, answer: int
) -> None:
    def refuse(*_: object) -> int:
        if not answer:  # as some file systems do
            return 0
        raise OSError(answer, "no")

    monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
    with open(tmp_path / "out", "wb") as out:
        FORMAT.copy([(source, identity(source))], out)
    assert (tmp_path / "out").read_bytes() == Path(source.path).read_bytes()


def test_an_answer_of_0_at_the_end_of_a_file_is_not_a_shorter_file(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(os, "copy_file_range", lambda *_: 0, raising=False)
    (tmp_path / "in").write_bytes(b"0123456789")
    with open_source(str(tmp_path / "in")) as file, open(tmp_path / "out", "wb") as out:
        byte_ranges.copy_ranges(file, [(4, 6)], out)
        with pytest.raises(InputError):
            byte_ranges.copy_ranges(file, [(4, 7)], out)
    assert (tmp_path / "out").read_bytes() == b"456789"


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="no such advice here")
def test_the_disk_is_told_to_begin_with_each_large_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advised: list[tuple[int, int]] = []
    monkeypatch.setattr(byte_ranges, "_SYSTEM_CHUNK", 4)
    monkeypatch.setattr(
        os, "posix_fadvise", lambda file, offset, count, advice: advised.append((offset, count))
    )
    (tmp_path / "in").write_bytes(b"0123456789")
    with open_source(str(tmp_path / "in")) as file, open(tmp_path / "out", "wb") as out:
        byte_ranges.copy_ranges(file, [(0, 10)], out)
    assert (tmp_path / "out").read_bytes() == b"0123456789"
    # The last piece is small; none where the file system cannot copy
    assert advised in ([(0, 4), (4, 4)], [])


def test_short_copies_go_on_where_they_stopped(source, tmp_path: Path, monkeypatch) -> None:
    if not hasattr(os, "copy_file_range"):
        pytest.skip("no copy_file_range here")
    real = os.copy_file_range
    calls = []

    def short(src: int, dst: int, count: int, offset: int) -> int:
        calls.append(count)
        if len(calls) % 5 == 0:
            raise OSError(errno.EXDEV, "no")
        return real(src, dst, min(count, 7), offset)

    monkeypatch.setattr(os, "copy_file_range", short)
    with open(tmp_path / "out", "wb") as out:
        FORMAT.copy([(source, [(source.records[i], "x") for i in (3, 1, 2, 0)])], out)
    monkeypatch.undo()
    expected = io.BytesIO()
    FORMAT.copy([(source, [(source.records[i], "x") for i in (3, 1, 2, 0)])], expected)
    assert (tmp_path / "out").read_bytes() == expected.getvalue()
    assert calls


def test_short_writes_go_on_where_they_stopped(source) -> None:
    class Slow(io.RawIOBase):
        content = b""

        def writable(self) -> bool:
            return True

        def write(self, data) -> int:
            taken = bytes(memoryview(data)[:3])
            self.content += taken
            return len(taken)

    out = Slow()
    FORMAT.copy([(source, identity(source))], out)
    assert out.content == Path(source.path).read_bytes()


def test_what_is_written_before_and_after_into_the_same_buffered_file_stays_in_order(
    source, tmp_path: Path
) -> None:
    with open(tmp_path / "out", "w+b") as out:
        out.write(b"before")
        FORMAT.copy([(source, identity(source))], out)
        assert out.tell() == 6 + source.size
        out.write(b"after")
    assert (tmp_path / "out").read_bytes() == b"before" + Path(source.path).read_bytes() + b"after"


def test_it_writes_into_a_pipe(source) -> None:
    reader, writer = os.pipe()
    with open(writer, "wb") as out:
        FORMAT.copy([(source, identity(source))], out)
    with open(reader, "rb") as file:
        assert file.read() == Path(source.path).read_bytes()


def test_neighbouring_ranges_become_one() -> None:
    assert list(byte_ranges.coalesce([(0, 4), (4, 0), (4, 6), (20, 1), (0, 2), (2, 1)])) == [
        (0, 10),
        (20, 1),
        (0, 3),
    ]
    assert list(byte_ranges.coalesce([(5, 0)])) == []


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda content: content[:-1], "ends inside"),
        (lambda content: content + b"x", "behind the last name"),
        (
            lambda content: content.replace(b"arg:a0", b"arg:b0"),
            "reads back under the name 'arg:b0'",
        ),
    ],
)
def test_the_check_fails_on_what_was_not_planned(
    source, tmp_path: Path, spoil, message: str
) -> None:
    target = tmp_path / "out.params"
    target.write_bytes(spoil(Path(source.path).read_bytes()))
    with pytest.raises(SelfCheckError, match=message):
        verify(target, source, identity(source))


def test_the_check_fails_on_another_shape_or_number_of_arrays(source, tmp_path: Path) -> None:
    target = tmp_path / "out.params"
    target.write_bytes(Path(source.path).read_bytes())
    swapped = [*identity(source)[1:2], *identity(source)[:1], *identity(source)[2:]]
    plan = [(record, key) for (record, _), (_, key) in zip(swapped, identity(source), strict=True)]
    with pytest.raises(SelfCheckError, match="another shape"):
        verify(target, source, plan)
    with pytest.raises(SelfCheckError, match="not the 1 "):
        verify(target, source, identity(source)[:1])


def test_only_the_check_of_the_bytes_sees_another_value(source, tmp_path: Path) -> None:
    target = tmp_path / "out.params"
    content = bytearray(Path(source.path).read_bytes())
    record = source.records[1]
    content[record.data_offset + 3] ^= 1
    target.write_bytes(content)
    verify(target, source, identity(source))
    with pytest.raises(
        SelfCheckError,
        match=f"differs from its source at byte {record.data_offset + 3 - record.offset}",
    ):
        verify(target, source, identity(source), verify_bytes=True)


def test_the_header_of_a_dense_record() -> None:
    assert encode_dense_header((2, 3), "int8", np_shape=False) == build.dense((2, 3), "int8", b"")
    assert encode_dense_header((), "int8", np_shape=True) == build.dense(
        (), "int8", b"", magic=build.V3
    )
    with pytest.raises(RefusedError):
        encode_dense_header((), "int8", np_shape=False)
