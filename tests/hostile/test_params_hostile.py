"""Parameter files made to harm: cut or flipped anywhere, with counts and shapes beyond all measure,
zip bombs, full disks.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from graphshare.api.params import convert as convert_params
from graphshare.errors import GraphshareError, InputError
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.format import read_index
from tests import params_bytes as build
from tests.surroundings import size_of_day

BOUND = 4 << 20  # bytes of Python memory that reading a small hostile file may take


def refused(path: Path, content: bytes) -> InputError:
    """Read ``content``, which must be refused within the memory bound and with a place."""
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as caught:
            read_index(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < BOUND
    assert all(fault.where == str(path) and fault.message for fault in caught.value.faults)
    return caught.value


def test_a_file_cut_at_every_byte(tmp_path: Path) -> None:
    records, names = build.every_form()
    content = build.container(records, names)
    path = tmp_path / "x.params"
    path.write_bytes(content)
    assert len(read_index(path).records) == len(records)
    for end in range(0, len(content), size_of_day(3, 1)):
        path.write_bytes(content[:end])
        with pytest.raises(InputError) as caught:
            read_index(path)
        (fault,) = caught.value.faults
        if end >= 8:
            assert "byte " in fault.path, end
            assert "ends inside" in fault.message or "room for" in fault.message, end


def test_every_byte_flipped_reads_or_is_refused_and_never_escapes_the_file(tmp_path: Path) -> None:
    records, names = build.every_form()
    content = build.container(records, names)
    path = tmp_path / "x.params"
    outcomes = {True: 0, False: 0}
    for place in range(0, len(content), size_of_day(7, 1)):
        for value in {0x00, 0x01, 0x7F, 0x80, 0xFF, content[place] ^ 0x10}:
            path.write_bytes(content[:place] + bytes([value]) + content[place + 1 :])
            try:
                file = read_index(path)
            except InputError:
                outcomes[False] += 1
                continue
            outcomes[True] += 1
            for record in file.records:
                assert 24 <= record.offset <= record.offset + record.size <= len(content)
                ends = [
                    record.data_offset + record.data_size,
                    *(part.offset + part.size for part in record.parts),
                ]
                assert max(ends) == record.offset + record.size
    assert min(outcomes.values()) > 100, "both must have been seen"


@pytest.mark.parametrize("place", ["records", "names"])
@pytest.mark.parametrize("count", [2, 1 << 20, 1 << 31, 1 << 60, (1 << 64) - 1])
def test_counts_beyond_the_file(tmp_path: Path, place: str, count: int) -> None:
    content = bytearray(build.container([build.dense((1,))], ["a"]))
    struct.pack_into("<Q", content, 16 if place == "records" else 60, count)
    refused(tmp_path / "x", bytes(content))


@pytest.mark.parametrize("length", [2, 1 << 20, 1 << 40, (1 << 64) - 1])
def test_name_lengths_beyond_the_file(tmp_path: Path, length: int) -> None:
    content = build.container([build.dense((1,))])[:-8] + struct.pack("<QQ", 1, length) + b"a"
    assert "name 0" in refused(tmp_path / "x", content).faults[0].message


@pytest.mark.parametrize("magic", [build.V1, build.V2, build.V3])
@pytest.mark.parametrize(
    "dims", [(1 << 60,), (1 << 62, 1 << 62), (-5,), ((1 << 63) - 1,) * 200, (1 << 32, 1 << 32)]
)
def test_shapes_beyond_the_file(tmp_path: Path, magic: int, dims: tuple[int, ...]) -> None:
    body = (
        build.dense(dims, data=b"", magic=magic) if magic != build.V1 else build.v1(dims, data=b"")
    )
    refused(tmp_path / "x", build.container([body], ["a"]))


def test_shapes_beyond_the_file_in_the_oldest_form_and_in_sparse_parts(tmp_path: Path) -> None:
    refused(tmp_path / "x", build.container([build.v0(((1 << 32) - 1,) * 3, data=b"")]))
    sparse = bytearray(build.row_sparse((6, 2), [1, 4], build.floats(1, 2, 3, 4)))
    # Both stored dimensions and the number of indices; no bytes hang on the dense shape
    for place in (
        12,
        20,
        68,
    ):
        spoiled = bytearray(sparse)
        struct.pack_into("<q", spoiled, place, 1 << 55)
        refused(tmp_path / "x", build.container([bytes(spoiled)], ["a"]))


def test_a_long_run_of_the_smallest_records_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with open(path, "wb") as file:
        file.write(struct.pack("<QQQ", 0x112, 0, 1 << 28))
        file.truncate(1 << 31)  # a sparse file of zeros: room for as many records of rank 0
    with pytest.raises(InputError, match="reads up to 1,048,576"):
        read_index(path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_AS is not kept elsewhere")
def test_hostile_files_are_refused_with_little_memory_to_allocate(tmp_path: Path) -> None:
    hostile = [
        struct.pack("<QQQQ", 0x112, 0, 1 << 60, 0),
        build.container([build.dense((1 << 60,), data=b"")]),
        build.container([build.v0((1 << 31,), data=b"")]),
        build.container([build.dense((1,))])[:-8] + struct.pack("<QQ", 1, 1 << 33),
        struct.pack("<Q", 1 << 39) + b"{}",
        build.safetensors(
            {"a": {"dtype": "F32", "shape": [1 << 50], "data_offsets": [0, 1 << 52]}}
        ),
        build.archive([("a.npy", build.npy("<f8", (1 << 50,), b""))]),
    ]
    for number, content in enumerate(hostile):
        (tmp_path / str(number)).write_bytes(content)
    code = (
        "import resource, sys\n"
        "from graphshare.errors import InputError\n"
        "from graphshare.formats.params.format import read_index\n"
        "import graphshare.formats.params.convert, zipfile\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20),) * 2)\n"
        "for path in sys.argv[1:]:\n"
        "    try: read_index(path)\n"
        "    except InputError as error: print('refused')\n"
    )
    paths = [str(tmp_path / str(number)) for number in range(len(hostile))]
    done = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout == "refused\n" * len(hostile)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_AS is not kept elsewhere")
@pytest.mark.parametrize("format_", ["params", "npz", "safetensors"])
def test_large_arrays_are_written_in_flat_memory(tmp_path: Path, format_: str) -> None:
    source = tmp_path / "x.params"
    size = 96 << 20
    with open(source, "wb") as file:
        file.write(struct.pack("<QQQ", 0x112, 0, 1) + build.dense((size // 4,), data=b""))
        file.seek(size, os.SEEK_CUR)
        file.write(struct.pack("<QQ", 1, 1) + b"w")
    code = (
        "import resource, sys\n"
        "import graphshare.formats.params.convert, zipfile\n"
        "from graphshare.api.params import convert as convert_params\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20),) * 2)\n"
        "convert_params(sys.argv[1], sys.argv[2], to=sys.argv[3])\n"
    )
    target = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-c", code, str(source), str(target), format_],
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert read_index(target).records[0].data_size == size


def bomb(claimed: int, header: bytes) -> bytes:
    """A deflated member whose central directory claims ``claimed`` bytes."""
    content = bytearray(build.archive([("a.npy", header)], zipfile.ZIP_DEFLATED))
    central = content.index(b"PK\x01\x02")
    struct.pack_into("<I", content, central + 24, claimed)
    return bytes(content)


def test_a_member_that_claims_more_than_it_can_hold(tmp_path: Path) -> None:
    error = refused(tmp_path / "x", bomb(0xF0000000, build.npy("<f4", (0x3C000000 - 20,), b"")))
    assert "can hold" in str(error)


def test_a_member_that_inflates_to_much_is_indexed_without_inflating_it(tmp_path: Path) -> None:
    size = 64 << 20
    header = build.npy("|u1", (size,), b"")
    path = tmp_path / "x.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file,
        file.open("a.npy", "w") as member,
    ):
        member.write(header)
        for _ in range(64):
            member.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 20
    tracemalloc.start()
    file = read_index(path)
    with ArrayReader(file) as reader:
        total = sum(len(chunk) for chunk in reader.chunks(file.records[0]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == size
    assert peak < 8 << 20


def test_a_member_whose_data_end_early_is_an_input_error(tmp_path: Path) -> None:
    content = bytearray(build.archive([("a.npy", build.npy("|u1", (1000,), b""))]))
    central = content.index(b"PK\x01\x02")
    struct.pack_into("<I", content, central + 24, len(build.npy("|u1", (1000,), b"")) + 1000)
    assert "stored in" in str(refused(tmp_path / "x", bytes(content)))


def test_members_on_top_of_each_other(tmp_path: Path) -> None:
    content = build.archive(
        [
            ("a.npy", build.npy("|u1", (50,), bytes(50))),
            ("b.npy", build.npy("|u1", (50,), bytes(50))),
        ]
    )
    second = content.index(b"PK\x03\x04", 4)
    spoiled = bytearray(content)
    entry = content.index(b"PK\x01\x02", content.index(b"PK\x01\x02") + 4)
    assert struct.unpack_from("<I", content, entry + 42) == (second,)
    struct.pack_into("<I", spoiled, entry + 42, 0)
    assert "overlaps" in str(refused(tmp_path / "x", bytes(spoiled)))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_cut_or_flipped_at_every_byte_never_ends_in_a_traceback(
    tmp_path: Path, method: int
) -> None:
    members = [
        ("arg:w.npy", build.npy("<f4", (2, 2), bytes(16))),
        ("层.npy", build.npy("|b1", (3,), b"\0\1\0")),
    ]
    content = build.archive(members, method)
    path = tmp_path / "x.npz"
    places = range(0, len(content), size_of_day(5, 1))
    variants = [content[:end] for end in places]
    variants += [
        content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :]
        for at in places
        for flip in (1, 0x80, 0xFF)
    ]
    for variant in variants:
        path.write_bytes(variant)
        try:
            file = read_index(path)
            with ArrayReader(file) as reader:
                for record in file.records:
                    assert sum(len(chunk) for chunk in reader.chunks(record)) == record.data_size
        except InputError:
            continue


def test_a_safetensors_file_flipped_at_every_byte_never_ends_in_a_traceback(tmp_path: Path) -> None:
    entries = {
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "__metadata__": {"k": "é"},
    }
    content = build.safetensors(entries, bytes(8))
    path = tmp_path / "x"
    for at in range(0, len(content), size_of_day(3, 1)):
        for value in (0, 1, 0x22, 0x2D, 0x39, 0x7B, 0x80, 0xFF):
            path.write_bytes(content[:at] + bytes([value]) + content[at + 1 :])
            try:
                file = read_index(path)
            except InputError:
                continue
            assert all(
                record.data_offset + record.data_size <= len(content) for record in file.records
            )


@pytest.mark.skipif(os.name != "posix", reason="POSIX limits")
@pytest.mark.parametrize("target", ["out.params", "out.npz", "out.safetensors"])
def test_a_disk_that_fills_up_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, target: str
) -> None:
    source = tmp_path / "x.params"
    source.write_bytes(build.container([build.dense((50_000,), data=bytes(200_000))], ["a"]))
    (tmp_path / target).write_bytes(b"old")
    code = (
        "import resource, sys\n"
        "from graphshare.errors import OutputError\n"
        "from graphshare.api.params import convert as convert_params\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try: convert_params(sys.argv[1], sys.argv[2])\n"
        "except OutputError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(source), str(tmp_path / target)],
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert str(tmp_path / target) in done.stdout
    assert "the size limit" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([target, "x.params"])
    assert (tmp_path / target).read_bytes() == b"old"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("format_", ["params", "npz", "safetensors"])
def test_a_full_device(tmp_path: Path, format_: str) -> None:
    source = tmp_path / "x.params"
    source.write_bytes(build.container([build.dense((50_000,), data=bytes(200_000))], ["a"]))
    with pytest.raises(GraphshareError, match="/dev/full: cannot be written: the disk is full"):
        convert_params(source, "/dev/full", to=format_)
