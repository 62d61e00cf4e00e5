"""A new parameter format is one class and one line: everything else finds it in the registry."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from graphshare.api.diff_params import diff_params
from graphshare.api.params import convert as convert_params
from graphshare.errors import Fault, InputError, RefusedError
from graphshare.files.byte_source import HeldBytes
from graphshare.files.open_source import open_source
from graphshare.formats.model_names import PARAMETER_FORMATS
from graphshare.formats.params.array_files import read_arrays, write_arrays
from graphshare.formats.params.format import (
    ParameterFormat,
    choose_format,
    find_format,
    list_formats,
    read_index,
    recognize_format,
)
from graphshare.formats.params.records import ParameterFile, Record


class Plain(ParameterFormat):
    """Float32 vectors: ``PLAIN`` and three bytes, then per vector its name, its length and its bytes."""

    name = "plain"
    starts = (b"PLAIN\0\0\0",)

    def index(self, source) -> ParameterFile:
        records, at = [], 8
        while at < source.size:
            head = source.read_at(at, 24)
            key, count = head[:16].rstrip(b"\0").decode(), int.from_bytes(head[16:], "little")
            records.append(
                Record(key, (count,), "float32", "plain", at, 24 + 4 * count, at + 24, 4 * count)
            )
            at += 24 + 4 * count
        return ParameterFile(
            source.name,
            source.size,
            self.name,
            tuple(records),
            named=True,
            identity=source.identity,
        )

    def write(self, plan, out, chunks, options) -> None:
        out.write(self.starts[0])
        for record, key in plan:
            out.write(key.encode().ljust(16, b"\0") + record.shape[0].to_bytes(8, "little"))
            for chunk in chunks(record):
                out.write(chunk)

    def refuse(self, record, key, options) -> Fault | None:
        return (
            None
            if record.dtype == "float32" and len(record.shape) == 1
            else Fault("is not a float32 vector")
        )


FORMAT = Plain()


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PARAMETER_FORMATS, Plain.name, __name__)


@pytest.mark.usefixtures("plain")
def test_a_new_format_is_converted_read_compared_and_written(tmp_path: Path) -> None:
    arrays = {"arg:w": np.arange(5, dtype="f4"), "aux:m": np.ones(2, "f4")}
    np.savez(tmp_path / "a.npz", **arrays)
    assert convert_params(tmp_path / "a.npz", tmp_path / "b.plain").format == "plain"
    assert read_index(tmp_path / "b.plain").format == "plain"
    assert not diff_params(str(tmp_path / "a.npz"), str(tmp_path / "b.plain"))
    for end in ("params", "safetensors", "npz", "plain"):
        convert_params(tmp_path / "b.plain", tmp_path / f"c.{end}")
        assert not diff_params(str(tmp_path / "a.npz"), str(tmp_path / f"c.{end}"))
    with open(tmp_path / "d.plain", "wb") as out:
        write_arrays(
            {"arg:w": np.zeros(5, "f4"), "aux:m": np.ones(2, "f4")}, out, choose_format("d.plain")
        )
    assert {
        name: array.tolist() for name, array in read_arrays(str(tmp_path / "d.plain")).items()
    } == {"w": [0] * 5, "m": [1, 1]}


@pytest.mark.usefixtures("plain")
def test_a_new_format_refuses_and_is_named_in_messages(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", w=np.ones((2, 2)))
    with pytest.raises(RefusedError, match="not a float32 vector"):
        convert_params(tmp_path / "a.npz", tmp_path / "b.plain")
    (tmp_path / "x").write_bytes(b"PLA")
    with pytest.raises(
        InputError, match=r"ends after 3 bytes, inside the header of a \.plain file"
    ):
        read_index(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"something else")
    with pytest.raises(InputError) as caught:
        read_index(tmp_path / "x")
    assert ".plain" in caught.value.faults[0].hint


def test_no_two_formats_have_the_same_start_or_suffix() -> None:
    assert [format_.name for format_ in list_formats()] == list(PARAMETER_FORMATS)
    for format_ in list_formats():
        for start in format_.starts:
            assert [
                other.name for other in list_formats() if other.sniff(start.ljust(16, b"\0"))
            ] == [format_.name]


@pytest.mark.usefixtures("plain")
def test_a_magic_number_decides_before_a_format_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    # safetensors would read a header length and a brace
    path.write_bytes(b"PLAI\x20\0\0\0{" + b" " * 40)
    monkeypatch.setattr(Plain, "starts", (b"PLAI",))
    with open_source(path, endings=()) as source:
        assert find_format("safetensors").sniff(source.read_at(0, 16))
        assert recognize_format(source).name == Plain.name


def test_the_command_line_offers_every_format() -> None:
    help_text = subprocess.run(
        [sys.executable, "-m", "graphshare", "params", "convert", "--help"],
        capture_output=True,
        text=True,
    )
    assert f"[{'|'.join(PARAMETER_FORMATS)}]" in help_text.stdout


def test_a_near_suffix_is_suggested() -> None:
    with pytest.raises(RefusedError) as caught:
        choose_format("x.safetensor")
    assert "'.safetensors'" in caught.value.faults[0].hint


@pytest.mark.parametrize("shape", [(0, 3), (), (2, 3), (4,)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_npy_file_is_read_as_numpy_reads_it(
    shape: tuple[int, ...], order: str, tmp_path: Path
) -> None:
    for dtype in ("<f4", ">i2", "|u1"):
        array = np.asarray(np.arange(int(np.prod(shape))).reshape(shape), dtype, order=order)  # type: ignore[call-overload]
        np.save(tmp_path / "a.npy", array)
        (found,) = read_arrays(str(tmp_path / "a.npy")).values()
        assert (found.dtype, found.shape, found.tolist()) == (
            array.dtype.newbyteorder("="),
            shape,
            array.tolist(),
        )
    with (tmp_path / "a.npy").open("ab") as file:
        file.write(b"x")
    with pytest.raises(InputError, match="of data where its shape"):
        read_arrays(str(tmp_path / "a.npy"))


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"", "is empty"),
        (b"\x12\x01\0", "ends after 3 bytes, inside the header of a .params file"),
        (b"\x12\x01\0\0\0\0\0", "ends after 7 bytes, inside the header of a .params file"),
        (b"P", "ends after 1 byte, inside the header of a .npz file"),
        (b"PK\x05", "ends after 3 bytes, inside the header of a .npz file"),
        (b"PK\x03\x04", "is a zip archive, not a parameter file"),
        (b"what", "is not a parameter file: it starts with 'what'"),
    ],
)
def test_a_file_that_is_cut_in_its_header_is_told_from_others(start: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        recognize_format(HeldBytes("a", start))
    assert caught.value.faults[0].message == message


@pytest.mark.parametrize(
    ("path", "format_"),
    [("a.params", "params"), ("a.b.NPZ", "npz"), ("s3://m/a.safetensors", "safetensors")],
)
def test_the_suffix_of_a_target_chooses_its_format(path: str, format_: str) -> None:
    assert choose_format(path).name == format_
    with pytest.raises(RefusedError, match="the suffix '' is not that of a parameter format"):
        choose_format("params")
