"""Models that are saved or kept in memory: their bytes, the directory of their data, and the limits of both."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

import graphshare as gs
from graphshare.errors import RefusedError, SelfCheckError
from graphshare.files.open_source import open_source
from graphshare.formats.onnx import staging
from graphshare.formats.onnx.decode import read_model
from graphshare.formats.onnx.external import Placement
from graphshare.formats.onnx.staging import ModelBytes, keep_in_memory
from graphshare.formats.onnx.stored import FileRange
from graphshare.formats.params.records import ParameterFile, Record
from graphshare.text.format import format_bytes
from tests.unit.formats.onnx.test_external import outside, read


@pytest.mark.parametrize("size", [0, 4, 5, 6, 13])
def test_the_hash_of_a_file_is_that_of_its_bytes(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "_CHUNK", 5)
    path = tmp_path / "file"
    path.write_bytes(bytes(range(size)))
    assert staging.hash_file(str(path)) == hashlib.sha256(bytes(range(size))).hexdigest()


def test_a_model_is_read_from_the_file_that_has_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = read(tmp_path / "m", [])
    other = read(tmp_path / "n", [outside("a", 0)])
    staged = tmp_path / "staged"
    staged.write_bytes(b"staged")
    model = ModelBytes(
        graph, Placement(graph, str(tmp_path / "m" / "out.onnx")), staged=str(staged)
    )
    assert model.encode(graph) == (b"staged", "")
    assert model.encode(other)[0] == (tmp_path / "n" / "model.onnx").read_bytes()
    data = (tmp_path / "m" / "model.onnx").read_bytes()
    plain = replace(model, staged="")
    assert plain.encode(graph)[0] == plain.encode(replace(graph, heads=(*graph.heads,)))[0] == data
    monkeypatch.setattr(staging, "LARGEST", len(data))
    assert plain.encode(graph)[0] == data
    monkeypatch.setattr(staging, "LARGEST", len(data) - 1)
    with pytest.raises(
        RefusedError, match=f"the model has {format_bytes(len(data))}, and the limit is 2 GiB"
    ):
        plain.encode(graph)


def test_the_directory_of_data_outside_of_a_model_in_memory(tmp_path: Path) -> None:
    assert keep_in_memory(read(tmp_path / "m", []), None).folder == ""
    graph = read(tmp_path / "m", [outside("a", 0)])
    kept = keep_in_memory(graph, None)
    assert kept.encode(graph) == ((tmp_path / "m" / "model.onnx").read_bytes(), str(tmp_path / "m"))
    # The data of a model that is a link may be beside the file behind the link.
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "model.onnx").symlink_to(tmp_path / "m" / "model.onnx")
    (tmp_path / "links" / "w.bin").symlink_to(tmp_path / "m" / "w.bin")
    (tmp_path / "m" / "w.bin").write_bytes(bytes(8))
    link = read_model(str(tmp_path / "links" / "model.onnx"))
    assert keep_in_memory(link, None).folder == str(tmp_path / "m")


class Part(NamedTuple):
    """A placement, as far as data that was copied is compared with it."""

    outside: list[tuple[FileRange | Record, int]]
    beside: str = "model.onnx.data"


def test_copied_data_that_differs_is_named_with_both_places(tmp_path: Path) -> None:
    path, written = tmp_path / "w.bin", tmp_path / "out"
    path.write_bytes(bytes(range(20)))
    record = Record("r", (2,), "float32", "V2", 0, 8, 0, 8)
    part = Part([(record, 0), (FileRange(str(path), 4, 12), 64)])
    for place, is_right in (
        (None, True),
        (63, True),
        (72, True),
        (64, False),
        (67, False),
        (71, False),
    ):
        data = bytearray(64) + bytes(range(4, 12)) + bytes(8)
        if place is not None:
            data[place] ^= 1
        written.write_bytes(data)
        with open_source(str(written)) as source:
            if is_right:
                staging._compare_data(part, source)  # type: ignore[arg-type]
                continue
            with pytest.raises(SelfCheckError) as raised:
                staging._compare_data(part, source)  # type: ignore[arg-type]
        assert place is not None
        (fault,) = raised.value.faults
        assert (fault.message, fault.path) == (
            f"differs from byte {place - 60} of {path}",
            f"byte {place}",
        )


def test_data_at_a_url_is_embedded_where_it_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = read(tmp_path / "m", [outside("a", 0), outside("b", 8)])
    records = [
        Record(name, (2,), "float32", "onnx", start, 8, start, 8)
        for name, start in (("a", 0), ("b", 8), ("c", 16))
    ]
    files = [ParameterFile("", 24, "onnx", tuple(records[:count]), True) for count in range(4)]
    monkeypatch.setattr(staging, "LARGEST", 16)
    for file in files[2:]:
        assert staging._list_remote(graph, file) == {"a": records[0], "b": records[1]}
    message = (
        f"the model has {format_bytes(16)} of external data at a URL, which onnxruntime cannot open"
    )
    for refused in (None, *files[:2]):
        with pytest.raises(RefusedError, match=message):
            staging._list_remote(graph, refused)
    monkeypatch.setattr(staging, "LARGEST", 15)
    with pytest.raises(RefusedError, match=message):
        staging._list_remote(graph, files[2])
    assert staging._list_remote(read(tmp_path / "n", []), None) == {}


@pytest.mark.parametrize("verifies", [False, True])
def test_copied_data_is_compared_where_that_is_asked(
    verifies: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(
        staging, "_compare_data", lambda placement, written: calls.append(placement.beside)
    )
    read(tmp_path / "m", [outside("a", 8), outside("b", 0)])
    (tmp_path / "m" / "w.bin").write_bytes(bytes(range(16)))
    (tmp_path / "n").mkdir()
    out = tmp_path / "n" / "out.onnx"
    gs.save(gs.load(tmp_path / "m" / "model.onnx"), out, verify_bytes=verifies)
    assert calls == [f"{out}.data"] * verifies
    assert Path(f"{out}.data").read_bytes() == bytes(range(8, 16)) + bytes(56) + bytes(range(8))
