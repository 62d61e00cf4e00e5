"""The index of a ``.params`` file: each form of record, the oddities, and what complaints say."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from graphshare.errors import InputError
from graphshare.files.open_source import open_source
from graphshare.formats.params.format import read_index
from graphshare.formats.params.mxnet_params import MxnetParams
from tests import params_bytes as build


@pytest.fixture
def index(tmp_path: Path):
    def read(content: bytes):
        path = tmp_path / "x.params"
        path.write_bytes(content)
        with open_source(path) as source:
            return MxnetParams().index(source)

    return read


def fault(index, content: bytes):
    with pytest.raises(InputError) as caught:
        index(content)
    (only,) = caught.value.faults
    assert only.where.endswith("x.params")
    return only


@pytest.mark.parametrize(
    ("record", "layout", "header"),
    [
        (build.v0((2, 3)), "V0", 24),
        (build.v1((2, 3)), "V1", 36),
        (build.dense((2, 3)), "V2", 40),
        (build.dense((2, 3), magic=build.V3), "V3", 40),
    ],
)
def test_each_dense_form_says_where_its_data_are(
    index, record: bytes, layout: str, header: int
) -> None:
    file = index(build.container([record], ["arg:w"]))
    (found,) = file.records
    assert (found.key, found.layout, found.shape, found.dtype, found.storage) == (
        "arg:w",
        layout,
        (2, 3),
        "float32",
        "default",
    )
    assert (found.offset, found.size) == (24, len(record))
    assert (found.data_offset, found.data_size, found.dense_size) == (24 + header, 24, 24)
    assert file.named
    assert (file.format, file.trailing, file.reserved) == ("params", 0, 0)


@pytest.mark.parametrize("dtype", build.FLAGS)
def test_every_type_flag_is_known_with_its_size(index, dtype: str) -> None:
    records = [build.dense((3, 5), dtype), build.dense((1,))]
    first, second = index(build.container(records)).records
    assert (first.dtype, first.data_size) == (dtype, build.count_bytes((3, 5), dtype))
    assert second.offset == 24 + len(records[0])


def test_the_flag_behind_the_last_known_one_is_refused(index) -> None:
    record = bytearray(build.dense((1,)))
    record[28:32] = struct.pack("<i", 13)
    found = fault(index, build.container([bytes(record)]))
    assert "type flag 13" in found.message
    assert found.path == "record 0, byte 52"


def test_row_sparse(index) -> None:
    record = build.row_sparse((6, 3), [1, 4], build.pattern(24))
    (found,) = index(build.container([record])).records
    assert (found.storage, found.shape, found.storage_shape, found.size) == (
        "row_sparse",
        (6, 3),
        (2, 3),
        len(record),
    )
    (part,) = found.parts
    assert (part.role, part.dtype, part.shape, part.size) == ("indices", "int64", (2,), 16)
    assert part.offset == found.data_offset + found.data_size == 24 + len(record) - 16
    assert found.dense_size == 72


def test_csr_stores_row_pointers_before_columns(index) -> None:
    record = build.csr((3, 4), [0, 1, 1, 3], [2, 0, 3], build.pattern(12))
    (found,) = index(build.container([record])).records
    assert [(part.role, part.shape) for part in found.parts] == [
        ("indptr", (4,)),
        ("indices", (3,)),
    ]
    assert found.parts[1].offset + 24 == found.offset + found.size


def test_a_v2_record_of_rank_0_was_never_filled(index) -> None:
    empty, after = index(
        build.container([build.never_filled(), build.dense((2,))], ["a", "b"])
    ).records
    assert (empty.shape, empty.dtype, empty.size, empty.data_size) == (None, None, 12, 0)
    assert after.shape == (2,)


def test_a_v3_record_of_rank_0_is_a_scalar_and_of_rank_minus_1_was_never_filled(index) -> None:
    records = [build.dense((), "int64", magic=build.V3), build.never_filled(build.V3)]
    scalar, empty = index(build.container(records)).records
    assert (scalar.shape, scalar.data_size) == ((), 8)
    assert (empty.shape, empty.size) == (None, 12)


@pytest.mark.parametrize("form", [build.v0, build.v1])
def test_rank_0_of_the_old_forms_is_read_as_mxnet_does_when_that_fits(index, form) -> None:
    scalar, after = index(build.container([form(()), form((2,))], ["a", "b"])).records
    assert (scalar.shape, scalar.data_size) == ((), 4)
    assert after.shape == (2,)


@pytest.mark.parametrize("bare", [struct.pack("<I", 0), struct.pack("<Ii", build.V1, 0)])
def test_rank_0_of_the_old_forms_ends_after_the_shape_when_only_that_fits(
    index, bare: bytes
) -> None:
    first, second, third = index(
        build.container([bare, build.v1((2,)), bare], ["a", "b", "c"])
    ).records
    assert (first.shape, second.shape, third.shape) == (None, (2,), None)
    assert first.size == len(bare)


def test_when_neither_reading_fits_the_complaint_is_about_mxnets_own(index) -> None:
    content = build.container(
        [struct.pack("<I", 0) + build.tail("float32") + b"1234", build.dense((3,))], ["a", "b"]
    )
    found = fault(index, content[:-30])
    assert found.path.startswith("record 1, ")
    assert "the data" in found.message


def test_v1_with_an_unknown_dimension_was_never_filled(index) -> None:
    record = struct.pack("<Iiq", build.V1, 1, -1)
    first, second = index(build.container([record, build.dense((1,))], ["a", "b"])).records
    assert (first.shape, second.shape) == (None, (1,))


def test_forms_mix_in_one_file(index) -> None:
    records, names = build.every_form()
    file = index(build.container(records, names, reserved=99))
    assert [record.key for record in file.records] == names
    assert [record.size for record in file.records] == [len(record) for record in records]
    assert file.reserved == 99


def test_names(index) -> None:
    names = ["", "arg:层/一", b"\xff\xfe raw", "same", "same", "a\0b", "x" * 5000]
    file = index(build.container([build.dense((1,))] * len(names), names))
    assert [record.key_bytes for record in file.records] == [
        n.encode() if isinstance(n, str) else n for n in names
    ]
    assert file.records[2].key == "\udcff\udcfe raw"
    assert file.by_key()["same"] == file.records[4]


def test_a_list_has_no_names_and_an_empty_file_neither(index) -> None:
    file = index(build.container([build.dense((1,))]))
    assert (file.named, file.records[0].key, file.records[0].key_bytes) == (False, None, b"")
    assert index(build.container([])).records == ()


def test_what_follows_the_last_name_is_counted_and_ignored(index) -> None:
    assert index(build.container([build.dense((1,))], ["a"]) + b"junk").trailing == 4


def test_an_array_of_rank_255_is_read_and_of_256_not(index) -> None:
    assert index(build.container([build.dense((1,) * 255)])).records[0].shape == (1,) * 255
    assert "rank 256" in fault(index, build.container([build.dense((1,) * 256)])).message


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (struct.pack("<QQQ", 0x113, 0, 0), "byte 0", "starts with 0x113"),
        (build.container([])[:20], "byte 0", "ends inside the header: expected 24 bytes, 20 left"),
        (
            build.container([build.dense((2, 2))])[:70],
            "record 0, byte 64",
            "inside the data: expected 16 bytes, 6 left",
        ),
        (
            struct.pack("<QQQQ", 0x112, 0, 1 << 60, 0),
            "byte 16",
            "1,152,921,504,606,846,976 arrays, but has room for 0",
        ),
        (build.container([build.dense((1,))], ["a", "b"]), "byte 60", "2 names for 1 array"),
        (
            build.container([build.dense((1,))], ["abc"])[:-1],
            "byte 76",
            "name 0: expected 3 bytes, 2 left",
        ),
        (
            build.container([build.dense((1,))], ["x" * 1_048_577]),
            "byte 68",
            "has 1,048,577 bytes; graphshare reads up to 1,048,576",
        ),
        (
            build.container([struct.pack("<Iii", build.V2, 5, 0)]),
            "record 0, byte 28",
            "storage type 5",
        ),
        (
            build.container([struct.pack("<Iiiq", build.V2, 0, 1, -4)]),
            "record 0, byte 32",
            "negative dimension",
        ),
        (
            build.container([struct.pack("<Iiiq", build.V2, 0, 1, -1)]),
            "record 0, byte 32",
            "negative dimension",
        ),
        (
            build.container([struct.pack("<Iiq", 0xF993FAC8, 1, -2)]),
            "record 0, byte 28",
            "negative dimension",
        ),
        (
            build.container([struct.pack("<Iii", build.V2, 0, -1) + bytes(40)]),
            "record 0, byte 32",
            "rank -1",
        ),
        (
            build.container([struct.pack("<Iii", build.V2, 0, 1 << 30)]),
            "record 0, byte 32",
            "rank 1,073,741,824",
        ),
        (build.container([struct.pack("<I", 0xDEADBEEF)]), "record 0, byte 24", "0xdeadbeef"),
        (
            build.container([struct.pack("<Ii", build.V3, 1) + bytes(40)]),
            "record 0, byte 24",
            "V3 form",
        ),
        (
            build.container([build.dense((1 << 62, 1 << 62), data=b"")]),
            "record 0, byte 64",
            "more than 10^30 bytes",
        ),
    ],
)
def test_complaints_say_what_was_read_and_where(
    index, content: bytes, place: str, message: str
) -> None:
    found = fault(index, content)
    assert found.path == place
    assert message in found.message


def test_what_a_file_is_shows_in_its_content_not_in_its_name(tmp_path: Path) -> None:
    for name, content, expected in [
        ("a.npz", build.container([]), "params"),
        ("b.params", build.archive([]), "npz"),
        ("c.params", build.safetensors({}), "safetensors"),
    ]:
        (tmp_path / name).write_bytes(content)
        assert read_index(tmp_path / name).format == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\x12\x01\0\0", "ends after 4 bytes"),
        (b"\x93NUMPY\x01\0", r"is a NumPy array \(\.npy\), not a parameter file"),
        (b' {"nodes": []}', "is JSON"),
        (b"\x89PNG\r\n\x1a\n....", "is an image, not a parameter file"),
        (b"\x89ABC\r\n\x1a\n....", "is not a parameter file: it starts with 89 41 42 43"),
    ],
)
def test_other_files_are_told_apart(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_index(tmp_path / "x")


def test_a_directory_a_missing_file_and_a_device_are_input_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory"):
        read_index(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        read_index(tmp_path / "none")
    with pytest.raises(InputError, match="not a regular file"):
        read_index("/dev/null")


def test_importing_the_index_side_does_not_import_numpy() -> None:
    code = (
        "import sys; before = set(sys.modules); "  # an environment may load some of them at its start
        "import graphshare.formats.params.format, graphshare.formats.params.mxnet_params, graphshare.files.atomic, "
        "graphshare.formats.params.convert; new = set(sys.modules) - before; "
        "print([m for m in ('numpy', 'zipfile', 'dataclasses') if m in new])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )
