"""Parameter files as a whole: listing, conversion in every direction, and what is refused."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from graphshare.api.params import convert as convert_params
from graphshare.api.params import list_params
from graphshare.errors import InputError, OutputError, RefusedError, SelfCheckError
from graphshare.files.atomic import OutputTransaction
from graphshare.formats.model_names import PARAMETER_FORMATS
from graphshare.formats.params import mxnet_params
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.convert import refuse_record, stage_params
from graphshare.formats.params.format import WriteOptions, find_format, read_index
from graphshare.formats.params.records import Record
from tests import params_bytes as build

FORMATS = tuple(name for name in PARAMETER_FORMATS if find_format(name).keeps_names)
PLAIN = ["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"]


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "plain.params"
    records = [
        build.dense((2, n), dtype, b"\1\0" * (build.count_bytes((n,), dtype)))
        for n, dtype in enumerate(PLAIN)
    ]
    path.write_bytes(
        build.container(records, [f"arg:{dtype}/é" for dtype in PLAIN[:-1]] + ["aux:m"])
    )
    return path


def content(path: Path):
    file = read_index(path)
    with ArrayReader(file) as reader:
        return [(r.key, r.shape, r.dtype, b"".join(reader.chunks(r))) for r in file.records]


def test_a_listing(tmp_path: Path) -> None:
    path = tmp_path / "x.params"
    records, names = build.every_form()
    names[1] = names[0]
    path.write_bytes(build.container(records, names) + b"..")
    listing = list_params(path)
    assert (listing.format, listing.named, listing.size) == ("params", True, path.stat().st_size)
    first, last = listing.arrays[0], listing.arrays[-1]
    assert (first.key, first.kind, first.name, first.shape, first.dtype, first.layout) == (
        "arg:a0",
        "arg",
        "a0",
        (2, 3),
        "float32",
        "V0",
    )
    assert (last.kind, last.name, last.dtype, last.size) == (
        "aux",
        "été/层",
        "uint16",
        len(records[-1]),
    )
    assert [(a.storage, a.shape) for a in listing.arrays[7:9]] == [
        ("row_sparse", (6, 2)),
        ("csr", (3, 4)),
    ]
    remarks = "\n".join(map(str, listing.remarks))
    for text in (
        "2 bytes after the last name",
        "earlier record",
        "never filled",
        "uint16, which MXNet 1.9.1 does not load",
    ):
        assert text in remarks


def test_a_sound_file_has_no_remarks_and_its_sizes_add_up(plain: Path) -> None:
    listing = list_params(plain)
    assert listing.remarks == ()
    assert listing.data_size == sum(
        build.count_bytes((2, n), dtype) for n, dtype in enumerate(PLAIN)
    )


@pytest.mark.parametrize(("start", "end"), list(itertools.product(FORMATS, FORMATS)))
def test_every_direction_keeps_names_order_types_and_values(
    plain: Path, tmp_path: Path, start: str, end: str
) -> None:
    first, second, back = (
        tmp_path / f"{n}.{suffix}" for n, suffix in (("a", start), ("b", end), ("c", "params"))
    )
    assert convert_params(plain, first).format == start
    result = convert_params(first, second)
    assert (result.format, result.densified, result.named_by_position) == (end, (), ())
    assert read_index(second).format == end
    assert content(second) == content(plain)
    convert_params(second, back)
    assert back.read_bytes() == plain.read_bytes()


def test_a_params_file_is_copied_as_it_is(tmp_path: Path) -> None:
    records, names = build.every_form()
    source = tmp_path / "a.params"
    source.write_bytes(build.container(records, names))
    convert_params(source, tmp_path / "b.params")
    assert (tmp_path / "b.params").read_bytes() == source.read_bytes()


def test_a_conversion_onto_itself(plain: Path) -> None:
    before = content(plain)
    convert_params(plain, plain, to="npz", in_place=True)
    assert read_index(plain).format == "npz"
    assert content(plain) == before


def test_numpy_forms_that_differ_in_order_arrive_in_c_order(tmp_path: Path) -> None:
    arrays = {
        "f": np.arange(6, dtype="f4").reshape(2, 3, order="F"),
        "b": np.arange(4, dtype=">i4"),
    }
    np.savez_compressed(tmp_path / "x.npz", **arrays)
    convert_params(tmp_path / "x.npz", tmp_path / "x.params")
    expected = [
        build.dense((2, 3), "float32", arrays["f"].tobytes()),
        build.dense((4,), "int32", arrays["b"].astype("<i4").tobytes()),
    ]
    assert (tmp_path / "x.params").read_bytes() == build.container(expected, ["f", "b"])
    convert_params(tmp_path / "x.npz", tmp_path / "y.npz")
    assert content(tmp_path / "y.npz") == content(tmp_path / "x.params")


def test_scalars_need_np_shape(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", s=np.float32(2), t=np.float32(3))
    with pytest.raises(RefusedError, match="scalar") as caught:
        convert_params(tmp_path / "x.npz", tmp_path / "x.params")
    assert len(caught.value.faults) == 2
    assert not (tmp_path / "x.params").exists()
    convert_params(tmp_path / "x.npz", tmp_path / "x.params", np_shape=True)
    records = [build.dense((), "float32", build.floats(value), magic=build.V3) for value in (2, 3)]
    assert (tmp_path / "x.params").read_bytes() == build.container(records, ["s", "t"])


def test_sparse_arrays_are_refused_all_at_once_or_made_dense_on_request(tmp_path: Path) -> None:
    source = tmp_path / "x.params"
    records = [
        build.row_sparse((3, 1), [2], build.floats(7)),
        build.csr((1, 2), [0, 1], [1], build.floats(8)),
        build.dense((1,)),
    ]
    source.write_bytes(build.container(records, ["r", "c", "d"]))
    with pytest.raises(RefusedError) as caught:
        convert_params(source, tmp_path / "x.npz")
    assert [fault.path for fault in caught.value.faults] == ['record 0 "r"', 'record 1 "c"']
    assert all("densify" in fault.hint for fault in caught.value.faults)
    result = convert_params(source, tmp_path / "x.npz", densify=True)
    assert result.densified == ("r", "c")
    with np.load(tmp_path / "x.npz") as loaded:
        assert loaded["r"].tolist() == [[0], [0], [7]]
        assert loaded["c"].tolist() == [[0, 8]]


def test_sparse_arrays_are_made_dense_within_params_too(tmp_path: Path) -> None:
    source = tmp_path / "x.params"
    source.write_bytes(
        build.container(
            [build.row_sparse((3, 1), [2], build.floats(7)), build.dense((1,))], ["r", "d"]
        )
    )
    assert convert_params(source, source, densify=True, in_place=True).densified == ("r",)
    expected = [build.dense((3, 1), data=build.floats(0, 0, 7)), build.dense((1,))]
    assert source.read_bytes() == build.container(expected, ["r", "d"])


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="no /dev/stdout here")
@pytest.mark.parametrize("format_", FORMATS)
def test_a_conversion_to_standard_output_behind_what_is_there(
    plain: Path, tmp_path: Path, format_: str
) -> None:
    code = (
        "import sys; from graphshare.api.params import convert as convert_params\n"
        "convert_params(sys.argv[1], '/dev/stdout', to=sys.argv[2])"
    )
    with open(tmp_path / "log", "ab") as log:
        log.write(b"before")
        log.flush()
        subprocess.run([sys.executable, "-c", code, str(plain), format_], stdout=log, check=True)
    convert_params(plain, tmp_path / "same", to=format_)
    piped = subprocess.run(
        [sys.executable, "-c", code, str(plain), format_], stdout=subprocess.PIPE, check=True
    ).stdout
    logged = (tmp_path / "log").read_bytes()
    assert logged.startswith(b"before")
    if format_ != "npz":  # a zip archive's offsets count from the start of the file it is in
        assert logged == b"before" + (tmp_path / "same").read_bytes()
    (tmp_path / "piped").write_bytes(piped)
    assert content(tmp_path / "piped") == content(plain)


def test_a_dense_form_too_large_for_memory_is_an_input_error_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    source = tmp_path / "x.params"
    source.write_bytes(
        build.container([build.row_sparse((1 << 60, 1), [2], build.floats(7))], ["r"])
    )
    with pytest.raises(InputError, match="cannot be held"):
        convert_params(source, tmp_path / "x.npz", densify=True)
    assert list(tmp_path.iterdir()) == [source]


def test_bfloat16_goes_to_safetensors_and_back_but_not_to_npz(tmp_path: Path) -> None:
    source = tmp_path / "x.params"
    source.write_bytes(build.container([build.dense((3,), "bfloat16")], ["w"]))
    with pytest.raises(RefusedError, match="bfloat16") as caught:
        convert_params(source, tmp_path / "x.npz")
    assert "safetensors" in caught.value.faults[0].hint
    convert_params(source, tmp_path / "x.safetensors")
    convert_params(tmp_path / "x.safetensors", tmp_path / "y.params")
    assert (tmp_path / "y.params").read_bytes() == source.read_bytes()


def test_what_mxnet_cannot_load_is_not_made(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.ones(1, "u4"), b=np.ones(1, "i2"))
    with pytest.raises(RefusedError) as caught:
        convert_params(tmp_path / "x.npz", tmp_path / "x.params")
    assert len(caught.value.faults) == 2
    convert_params(tmp_path / "x.npz", tmp_path / "x.safetensors")
    assert [record.dtype for record in read_index(tmp_path / "x.safetensors").records] == [
        "uint32",
        "int16",
    ]


def test_repeated_names_and_arrays_never_filled_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "x.params"
    source.write_bytes(
        build.container(
            [build.dense((1,)), build.dense((1,)), build.never_filled()], ["a", "a", "n"]
        )
    )
    with pytest.raises(RefusedError) as caught:
        convert_params(source, tmp_path / "x.safetensors")
    assert [fault.path for fault in caught.value.faults] == ['record 1 "a"', 'record 2 "n"']


def test_a_list_is_named_by_position_where_names_are_needed(tmp_path: Path) -> None:
    source = tmp_path / "x.params"
    source.write_bytes(build.container([build.dense((1,)), build.dense((2,))]))
    assert convert_params(source, tmp_path / "x.npz").named_by_position == ("arr_0", "arr_1")
    assert [record.key for record in read_index(tmp_path / "x.npz").records] == ["arr_0", "arr_1"]
    assert convert_params(source, tmp_path / "y.params").named_by_position == ()
    assert (tmp_path / "y.params").read_bytes() == source.read_bytes()


def test_the_format_comes_from_the_suffix_or_is_asked_for(plain: Path, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"'\.bin' is not that of a parameter format"):
        convert_params(plain, tmp_path / "x.bin")
    convert_params(plain, tmp_path / "x.bin", to="safetensors")
    assert read_index(tmp_path / "x.bin").format == "safetensors"
    convert_params(plain, tmp_path / "X.NPZ")


def test_a_target_that_cannot_be_written(plain: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        convert_params(plain, tmp_path / "missing" / "x.npz")


@pytest.mark.parametrize("format_", FORMATS)
def test_a_rename_within_each_format(plain: Path, tmp_path: Path, format_: str) -> None:
    source = tmp_path / f"x.{format_}"
    convert_params(plain, source)
    file = read_index(source)
    plan = [(record, f"arg:b-{number}") for number, record in enumerate(file.records)]
    with OutputTransaction() as stage:
        written = stage_params([(file, plan)], stage, source, verify_bytes=True)
        assert content(source) == content(plain), "nothing is in place before the commit"
        stage.commit()
    assert [record.key for record in written.records] == [key for _, key in plan]
    assert [row[1:] for row in content(source)] == [row[1:] for row in content(plain)]


def test_a_file_that_reads_back_otherwise_is_not_put_in_place(
    plain: Path, tmp_path: Path, monkeypatch
) -> None:
    real = mxnet_params.MxnetParams.write

    def wrong(self, plan, *rest) -> None:
        real(self, [(record, f"{key}!") for record, key in plan], *rest)

    convert_params(plain, tmp_path / "x.npz")
    monkeypatch.setattr(mxnet_params.MxnetParams, "write", wrong)
    before = plain.read_bytes()
    with pytest.raises(SelfCheckError) as caught:
        convert_params(tmp_path / "x.npz", plain)
    assert caught.value.faults[0].where == str(plain)
    assert plain.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain.params", "x.npz"]


@pytest.mark.parametrize(
    ("record", "format_", "message"),
    [
        (
            Record("a", (2,), "uint8", "onnx int4", 0, 1, 0, 1, stated="int4 (2)"),
            "npz",
            "is int4, a dtype that parameter files do not have",
        ),
        (Record("a", (2,), "uint8", "onnx", 0, 1, 0, 1), "npz", ""),
        (
            Record("a", None, None, "V2", 0, 1, 0, 1),
            "params",
            "was never filled: there is no array to write",
        ),
        (Record("a", (2,), "float32", "V2", 0, 1, 0, 1, "csr"), "params", "is sparse (csr)"),
        (Record(None, (2,), "float32", "V2", 0, 1, 0, 1), "npz", "has no name, and npz needs one"),
        (Record(None, (2,), "float32", "V2", 0, 1, 0, 1), "params", ""),
        (
            Record("a", (2,), "bfloat16", "V2", 0, 1, 0, 1),
            "npz",
            "is bfloat16, which has no .npy form",
        ),
    ],
)
def test_each_reason_not_to_write_a_record_is_named(
    record: Record, format_: str, message: str
) -> None:
    fault = refuse_record(record, record.key, find_format(format_), WriteOptions())
    assert (fault.message if fault is not None else "") == message


@pytest.mark.parametrize(
    ("start", "is_known"),
    [
        ((1).to_bytes(8, "little") + b"{", True),
        (((1 << 40) - 1).to_bytes(8, "little") + b"{", True),
        ((1 << 40).to_bytes(8, "little") + b"{", False),
        (bytes(8) + b"{", False),
        ((1).to_bytes(8, "little"), False),
        ((1).to_bytes(8, "little") + b"[", False),
    ],
)
def test_a_safetensors_file_begins_with_the_length_of_its_header(
    start: bytes, is_known: bool
) -> None:
    assert find_format("safetensors").sniff(start) is is_known
