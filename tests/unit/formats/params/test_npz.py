"""``.npz``: what numpy writes is read, what graphshare writes numpy reads, and nothing is unpickled."""

from __future__ import annotations

import io
import pickle
import re
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from graphshare.errors import InputError
from graphshare.files.byte_source import HeldBytes
from graphshare.formats.params.array_files import write_arrays
from graphshare.formats.params.arrays import ArrayReader, read_array
from graphshare.formats.params.format import WriteOptions, read_index
from graphshare.formats.params.npz import (
    Npz,
    _find_misplaced_members,
    _peek_header,
    encode_npy_header,
    read_npy_header,
)
from graphshare.formats.params.records import Record
from tests import params_bytes as build


@pytest.fixture
def index(tmp_path: Path):
    def read(content: bytes):
        path = tmp_path / "x.npz"
        path.write_bytes(content)
        return read_index(path)

    return read


def faults(index, content: bytes):
    with pytest.raises(InputError) as caught:
        index(content)
    return caught.value.faults


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read(tmp_path: Path, save) -> None:
    arrays = {
        "arg:w": np.arange(12, dtype="f4").reshape(3, 4),
        "aux:m": np.arange(6, dtype="<i8").reshape(2, 3).T,
        "big": np.arange(4, dtype=">f8"),
        "scalar": np.float16(1.5),
        "empty": np.zeros((0, 3), "u1"),
        "flags": np.array([True, False]),
        "层/..": np.ones(3, "i2"),
    }
    save(tmp_path / "x.npz", **arrays)
    file = read_index(tmp_path / "x.npz")
    assert {record.key: (record.shape, record.dtype) for record in file.records} == {
        key: (np.shape(array), array.dtype.name) for key, array in arrays.items()
    }
    with ArrayReader(file) as reader:
        for record in file.records:
            array = reader.read(record)
            np.testing.assert_array_equal(array, arrays[record.key])
            assert array.dtype.isnative
            expected = np.asarray(arrays[record.key], order="C")
            assert (
                b"".join(reader.chunks(record))
                == expected.astype(expected.dtype.newbyteorder("<")).tobytes()
            )


def test_what_is_written_numpy_reads_and_is_always_the_same(tmp_path: Path) -> None:
    keys = ["arg:w", "", "/etc/passwd", "../up", "a b\tc", "层", "x.npy", "dir/"]
    plan = [
        (Record(key, (2, number), "float32", "V2", 0, 0, 0, 8 * number), key)
        for number, key in enumerate(keys)
    ]

    def chunks(record: Record):
        data = build.pattern(record.data_size)
        return [data[:5], data[5:]]

    outs = []
    for _ in range(2):
        outs.append(io.BytesIO())
        Npz().write(plan, outs[-1], chunks, WriteOptions())
    assert outs[0].getvalue() == outs[1].getvalue()
    (tmp_path / "x.npz").write_bytes(outs[0].getvalue())
    with np.load(tmp_path / "x.npz") as loaded:
        assert loaded.files == keys
        for record, key in plan:
            assert loaded[key].shape == record.shape
            assert loaded[key].tobytes() == build.pattern(record.data_size)
    assert [record.key for record in read_index(tmp_path / "x.npz").records] == keys


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (1,) * 64])
@pytest.mark.parametrize("dtype", ["float32", "bool", "uint64"])
def test_the_npy_header_is_one_numpy_reads_and_aligned(shape: tuple[int, ...], dtype: str) -> None:
    header = encode_npy_header(shape, dtype)
    assert len(header) % 64 == 0
    stream = io.BytesIO(header)
    assert np.lib.format.read_magic(stream) == (1, 0)
    assert np.lib.format.read_array_header_1_0(stream) == (shape, False, np.dtype(dtype))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_version_of_the_header(index, version: int) -> None:
    (record,) = index(
        build.archive([("a.npy", build.npy("<f4", (2,), bytes(8), version=version))])
    ).records
    assert (record.key, record.shape, record.dtype) == ("a", (2,), "float32")


def test_a_shape_as_python_2_wrote_it(index) -> None:
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 2L), }"
    (record,) = index(build.archive([("a.npy", build.npy("", (), bytes(24), text=text))])).records
    assert record.shape == (3, 2)


def test_a_member_without_the_suffix_and_an_empty_archive(index) -> None:
    assert index(build.archive([("a", build.npy("|u1", (1,), b"x"))])).records[0].key == "a"
    assert index(build.archive([])).records == ()


class Boom:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("descr", ["|O", "O", "<O8"])
def test_a_pickle_is_never_unpickled(index, tmp_path: Path, descr: str) -> None:
    trap = tmp_path / "trap"
    payload = pickle.dumps(Boom(trap))
    (fault,) = faults(index, build.archive([("arg:w.npy", build.npy(descr, (1,), payload))]))
    assert "never unpickled" in fault.message
    assert 'record 0 "arg:w"' in fault.path
    assert not trap.exists()
    pickle.loads(payload).close()
    assert trap.exists(), "the trap must work, or the test shows nothing"


def test_an_object_array_of_numpy_is_refused(index) -> None:
    out = io.BytesIO()
    np.savez(out, a=np.array([{}], dtype=object), b=np.ones(2))
    (fault,) = faults(index, out.getvalue())
    assert "never unpickled" in fault.message


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (b"text", "is not an .npy array"),
        (b"", "is not an .npy array"),
        (b"\x93NUMPY\x04\x00" + bytes(100), "version 4.0"),
        (build.npy("<c8", (1,), bytes(8)), "dtype '<c8'"),
        (build.npy("<U3", (1,), bytes(12)), "dtype '<U3'"),
        (build.npy("|V2", (1,), bytes(2)), "dtype '|V2'"),
        (build.npy("?", (1,), bytes(2)), "dtype '?'"),
        (
            build.npy(
                "",
                (1,),
                b"",
                text="{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
            ),
            "dtype [(",
        ),
        (build.npy("<f4", (3,), bytes(8)), "needs"),
        (build.npy("<f4", (1 << 62, 1 << 62), b""), "needs more than"),
        (build.npy("<f4", (1,) * 300, bytes(4)), "rank 300"),
        (
            build.npy("", (), b"", text="{'descr': '<f4', 'fortran_order': 0, 'shape': ()}"),
            "'fortran_order'",
        ),
        (
            build.npy("", (), b"", text="{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"),
            "'shape'",
        ),
        (
            build.npy(
                "", (), b"", text="{'descr': '<f4', 'fortran_order': False, 'shape': (True,)}"
            ),
            "'shape'",
        ),
        (build.npy("", (), b"", text="__import__('os').system('true')"), "not a dict"),
        (build.npy("", (), b"", text="{" * 9000), "not a dict"),
        (build.npy("", (), b"", text="-" * 9000 + "1"), "not a dict"),
        (build.npy("", (), b"", version=2, text=" " * 20_000), "reads up to 10,000"),
        (b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFFFFF0), "reads up to 10,000"),
        (b"\x93NUMPY\x01\x00\x50\x00{", "ends inside its .npy header"),
    ],
)
def test_members_that_are_no_arrays_of_ours(index, member: bytes, message: str) -> None:
    good = build.npy("<f4", (1,), bytes(4))
    (fault,) = faults(index, build.archive([("good.npy", good), ("bad.npy", member)]))
    assert message in fault.message
    assert fault.path == 'record 1 "bad"'


def test_all_bad_members_are_named_at_once(index) -> None:
    assert (
        len(
            faults(
                index,
                build.archive(
                    [("a.npy", b"x"), ("b.npy", build.npy("|u1", (), b"x")), ("c.npy", b"y")]
                ),
            )
        )
        == 2
    )


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(index, method: int) -> None:
    (fault,) = faults(index, build.archive([("a.npy", build.npy("|u1", (9,), bytes(9)))], method))
    assert "compressed by method" in fault.message


def test_an_encrypted_member_is_refused(index) -> None:
    content = bytearray(build.archive([("a.npy", build.npy("|u1", (1,), b"x"))]))
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (fault,) = faults(index, bytes(content))
    assert "encrypted" in fault.message


def test_a_flipped_bit_in_the_data_fails_the_checksum(index) -> None:
    content = bytearray(
        build.archive([("a.npy", build.npy("|u1", (100_009,), bytes(100_000) + b"datadata!"))])
    )
    content[content.index(b"datadata!")] ^= 1
    file = index(bytes(content))
    with pytest.raises(InputError, match="CRC"):
        read_array(file, file.records[0])


def test_what_has_no_place_in_an_npz() -> None:
    def refusal(key: str = "a", shape: tuple[int, ...] = (1,), dtype: str = "float32") -> str:
        fault = Npz().refuse(Record(key, shape, dtype, "V2", 0, 0, 0, 4), key, WriteOptions())
        return fault.message if fault else ""

    assert refusal() == ""
    assert "bfloat16" in refusal(dtype="bfloat16")
    assert "NUL" in refusal("a\0b")
    assert "UTF-8" in refusal("\udcff")
    assert "too long" in refusal("x" * 65_532)
    assert "rank 65" in refusal(shape=(1,) * 65)


@pytest.mark.parametrize(
    ("places", "faults"),
    [
        ([(0, 10), (40, 30)], []),
        ([(0, 10), (39, 31)], ['record 1 "b": overlaps the member before it']),
        ([(41, 29), (0, 11)], []),
        ([(40, 29), (0, 11)], ['record 0 "a": overlaps the member before it']),
        ([(0, 70)], []),
        ([(0, 71)], ['record 0 "a": lies beyond the end of the file']),
        (
            [(0, 71), (0, 1)],
            [
                'record 0 "a": lies beyond the end of the file',
                'record 1 "b": overlaps the member before it',
            ],
        ),
    ],
)
def test_members_lie_one_behind_the_other(places: list[tuple[int, int]], faults: list[str]) -> None:
    """A member has 30 bytes before its name; the archive has 100."""
    members = []
    for name, (offset, size) in zip("ab", places, strict=False):
        member = zipfile.ZipInfo(f"{name}.npy")
        member.header_offset, member.compress_size = offset, size
        members.append(member)
    assert [
        f"{fault.path}: {fault.message}" for fault in _find_misplaced_members(members, 100)
    ] == faults


@pytest.mark.parametrize(("rank", "is_read"), [(0, True), (255, True), (256, False)])
def test_the_rank_of_an_npy_array_is_bounded(rank: int, is_read: bool) -> None:
    content = io.BytesIO(build.npy("<f4", (1,) * rank, bytes(4)))
    if is_read:
        assert read_npy_header(content).shape == (1,) * rank
        assert content.read() == bytes(4)
    else:
        with pytest.raises(InputError, match="has rank 256; ranks go up to 255"):
            read_npy_header(content)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"\x93NUMPY\x01", "is not an .npy array"),
        (b"\x93NUMPX\x01\0", "is not an .npy array"),
        (b"\x93NUMPY\x04\0", "has .npy version 4.0"),
        (b"\x93NUMPY\x00\0", "has .npy version 0.0"),
        (b"\x93NUMPY\x01\1", "has .npy version 1.1"),
        (b"\x93NUMPY\x01\0\x10", "has an .npy header of 16 bytes"),
        (b"\x93NUMPY\x02\0\x10\0\0", "has an .npy header of 16 bytes"),
        (
            b"\x93NUMPY\x01\0\x11\x27",
            "has an .npy header of 10,001 bytes; graphshare reads up to 10,000",
        ),
        (b"\x93NUMPY\x01\0\x10\x27", "ends inside its .npy header"),
        (b"\x93NUMPY\x01\0\x02\0{", "ends inside its .npy header"),
        (b"\x93NUMPY\x01\0\x02\0{}", "is not a dict of 'descr', 'fortran_order' and 'shape'"),
    ],
)
def test_an_npy_header_is_read_to_its_end_and_no_more(start: bytes, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        read_npy_header(io.BytesIO(start))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{'descr': '<', 'fortran_order': False, 'shape': ()}",
            "has dtype '<', which is not numeric",
        ),
        ("{'descr': 5, 'fortran_order': False, 'shape': ()}", "has dtype 5, which is not numeric"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': ()}", "holds pickled Python objects"),
        ("{'descr': '<fO', 'fortran_order': False, 'shape': ()}", "has dtype '<fO'"),
        ("{'descr': '*f4', 'fortran_order': False, 'shape': ()}", "has dtype '*f4'"),
        (
            f"{{'descr': '{'x' * 78}', 'fortran_order': False, 'shape': ()}}",
            f"has dtype '{'x' * 78}', which",
        ),
        (
            f"{{'descr': '{'x' * 79}', 'fortran_order': False, 'shape': ()}}",
            f"has dtype '{'x' * 76}..., which",
        ),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}",
            "'shape' is not a tuple of counts",
        ),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
            "'shape' is not a tuple of counts",
        ),
    ],
)
def test_an_npy_header_states_numbers_in_a_shape(text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        read_npy_header(io.BytesIO(build.npy("", (), b"", text=text)))


def test_an_npy_header_states_its_order_and_byte_order() -> None:
    def read(descr: str, shape: tuple[int, ...], fortran: bool) -> tuple[object, ...]:
        header = read_npy_header(io.BytesIO(build.npy(descr, shape, b"", fortran=fortran)))
        return header.shape, header.dtype, header.fortran_order, header.big_endian

    assert read(">f4", (2, 3), True) == ((2, 3), "float32", True, True)
    assert read("<f4", (2,), True) == ((2,), "float32", False, False)  # one axis has one order
    assert read(">u1", (0, 1 << 62), False) == ((0, 1 << 62), "uint8", False, False)  # one byte too
    assert read("=i8", (), False) == ((), "int64", False, False)


@pytest.mark.parametrize(
    ("key", "shape", "message"),
    [
        ("a" * 65_531, (1,), ""),
        ("a" * 65_532, (1,), "has a name too long for a zip member"),
        ("é" * 32_766, (1,), "has a name too long for a zip member"),
        ("\udcff", (1,), "has a name that is not UTF-8"),
        ("a\0b", (1,), "has a name with a NUL, which ends a zip member's name"),
        ("a", (1,) * 64, ""),
        ("a", (1,) * 65, "has rank 65; numpy supports ranks up to 64"),
    ],
)
def test_names_and_ranks_of_members_have_bounds(
    key: str, shape: tuple[int, ...], message: str
) -> None:
    fault = Npz().refuse(Record(key, shape, "float32", "V2", 0, 0, 0, 4), key, WriteOptions())
    assert (fault.message if fault is not None else "") == message


def peek(
    members: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED, *, spoil: bytes = b""
) -> list[bool]:
    """Return for each member whether its first bytes alone give its header; the first of ``spoil``
    is changed in the file.
    """
    content = bytearray(build.archive(members, method))
    if spoil:
        content[content.index(spoil)] ^= 1
    found = []
    for member in zipfile.ZipFile(io.BytesIO(content)).infolist():
        header = _peek_header(HeldBytes("a", bytes(content)), member)
        assert header is None or (header.shape, header.dtype) == (
            (4,) if member.file_size < 1000 else (4000,),
            "uint8",
        )
        found.append(header is not None)
    return found


def test_the_first_bytes_of_a_member_give_its_header() -> None:
    small, large = build.npy("|u1", (4,), b"abcd"), build.npy("|u1", (4000,), b"abcd" * 1000)
    members = [("a.npy", small), ("b.npy", large), (f"{'x' * 600}.npy", small)]
    assert peek(members) == [True, True, False]
    assert peek(members, zipfile.ZIP_DEFLATED) == [True, True, False]
    assert peek([("ä.npy", small)]) == [True]
    # A member that is there as a whole is compared with its checksum; of a larger one only the header is there.
    assert peek(members, spoil=b"abcd") == [False, True, False]
    assert peek([("b.npy", large)], spoil=b"abcd") == [True]
    for part in (b"PK\x03\x04", b"a.npy", b"NUMPY"):
        assert peek([("a.npy", small)], spoil=part) == [False]


def test_a_member_of_other_flags_or_too_near_the_end_is_left_to_zipfile() -> None:
    content = build.archive([("a.npy", build.npy("|u1", (4,), b"abcd"))])
    (member,) = zipfile.ZipFile(io.BytesIO(content)).infolist()
    for flags, is_usual in (
        (0, True),
        (0x800, True),
        (0x80E, True),
        (0x01, False),
        (0x10, False),
        (0x1000, False),
    ):
        member.flag_bits = flags
        assert (_peek_header(HeldBytes("a", content), member) is not None) is is_usual
    member.flag_bits = 0
    for size, is_there in ((29, False), (30, False), (60, False), (len(content), True)):
        assert (_peek_header(HeldBytes("a", content[:size]), member) is not None) is is_there


def test_members_have_one_date_and_one_system() -> None:
    out = io.BytesIO()
    write_arrays({"a": np.arange(3, dtype="int32"), "b": np.ones((), "float64")}, out, Npz())
    members = zipfile.ZipFile(out).infolist()
    assert [(member.filename, member.date_time, member.create_system) for member in members] == [
        ("a.npy", (1980, 1, 1, 0, 0, 0), 3), ("b.npy", (1980, 1, 1, 0, 0, 0), 3)
    ]  # fmt: skip
    assert [(member.compress_type, member.file_size) for member in members] == [
        (0, 128 + 12),
        (0, 128 + 8),
    ]
