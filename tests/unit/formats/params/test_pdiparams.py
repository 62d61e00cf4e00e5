"""Parameter files of Paddle: read by number or by the names of a stem's graph, written in the order of names."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from graphshare.cli import main
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.format import read_index
from tests import paddle_programs as build


@pytest.fixture
def stem(tmp_path: Path) -> str:
    program, arrays = build.dense()
    return program.save(tmp_path, arrays)


def test_records_have_no_names_dtypes_shapes_and_data_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "x.pdiparams"
    path.write_bytes(b"".join(build.record((2, 3), dtype) for dtype in build.PDIPARAMS_CODES))
    file = read_index(path)
    assert not file.named
    plain = [dtype for dtype in build.PDIPARAMS_CODES if not dtype.startswith("complex")]
    assert [(record.shape, record.dtype) for record in file.records[:-2]] == [
        ((2, 3), dtype) for dtype in plain
    ]
    assert [record.stated for record in file.records[-2:]] == [
        "complex64 (2,3)",
        "complex128 (2,3)",
    ]
    path.write_bytes(
        build.record((), data=build.floats(3))
        + build.record((2,), data=build.floats(1, 2), levels=[bytes(8)])
    )
    file = read_index(path)
    with ArrayReader(file) as reader:
        assert [reader.read(record).tolist() for record in file.records] == [3.0, [1.0, 2.0]]


def test_a_stem_gives_the_names_and_a_lone_file_the_numbers(stem: str) -> None:
    assert [array.name for array in gs.list_params(stem).arrays] == ["fc.b", "fc.w"]
    assert [array.name for array in gs.list_params(f"{stem}.pdiparams").arrays] == [None, None]
    assert [array.key for array in gs.measure_params(stem).arrays] == ["fc.b", "fc.w"]
    assert [array.key for array in gs.show_params(stem, select=["fc.w"]).arrays] == ["fc.w"]


def test_names_go_to_other_formats_and_their_order_comes_back(
    stem: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    archive, again = str(tmp_path / "w.npz"), str(tmp_path / "w.pdiparams")
    assert main.run(["params", "convert", stem, archive]) == 0
    assert "not written" not in capfd.readouterr().err
    arrays = dict(np.load(archive))
    assert list(arrays) == ["fc.b", "fc.w"]
    np.savez(archive, **{name: arrays[name] for name in ("fc.w", "fc.b")})
    assert main.run(["params", "convert", archive, again]) == 0
    assert "the names of the arrays are not written" in capfd.readouterr().err
    assert Path(again).read_bytes() == Path(f"{stem}.pdiparams").read_bytes()
    assert not gs.diff_params(stem, archive)


def test_a_record_with_other_values_is_a_difference_under_its_name(
    stem: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program, arrays = build.dense()
    other = program.save(
        tmp_path / "other", {**arrays, "fc.b": build.record((2,), data=build.floats(7, 8))}
    )
    assert main.run(["params", "diff", stem, other]) == 1
    said = capfd.readouterr().out
    assert "fc.b" in said
    assert "fc.w" not in said


def test_a_record_that_claims_what_it_has_not_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "x.pdiparams"
    sound = build.record((2,))
    for content, message in (
        (
            sound + struct.pack("<I", 7) + sound[4:],
            "has 7 for the version of the record, which is 0",
        ),
        (sound + struct.pack("<IQ", 0, 99), "claims 99 levels of detail"),
        (sound.replace(b"\x08\x05", b"\x08\x63"), "has dtype 99"),
        (sound.replace(b"\x08\x05", b"\x18\x05"), "is not a parameter file"),
        (sound + sound[:-1], "ends inside the data"),
    ):
        path.write_bytes(content)
        with pytest.raises(gs.InputError, match=message):
            read_index(path)
