"""Models in zip archives, on this machine and behind a URL, and models in ONNX whose weights are in another file."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

import graphshare as gs
from graphshare.cli import main
from graphshare.errors import InputError
from graphshare.files.remote import source
from tests.processes import ROOT
from tests.remote.web_server import WebServer

FIXTURES = ROOT / "fixtures"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "models.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("lenet-symbol.json", "lenet-0000.params"):
            archive.write(FIXTURES / name, f"nets/{name}")
    return path


def test_an_archive_is_a_folder(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"zip://nets/lenet::{archive}"
    assert main.run(["diff", str(FIXTURES / "lenet"), url]) == 0
    assert main.run(["check", f"zip://**/*-symbol.json::{archive}"]) == 0
    assert main.run(["inspect", f"zip://nets::{archive}"]) == 0
    assert f"zip://nets/lenet::{archive}" in capsys.readouterr().out
    assert main.run(["duplicate", url, "-p", "a-", "-o", str(tmp_path / "siam")]) == 0
    here = gs.duplicate(gs.load(FIXTURES / "lenet"), ["a-"])
    gs.save(here, tmp_path / "here")
    assert (tmp_path / "siam-0000.params").read_bytes() == (
        tmp_path / "here-0000.params"
    ).read_bytes()


def test_an_archive_behind_a_url(archive: Path, site: WebServer) -> None:
    model = gs.load(f"zip://nets/lenet::{site.url}/models.zip")
    assert model.parameter_file is not None
    assert model.params["conv1_weight"].shape == (8, 1, 5, 5)


def test_faults_of_archives(
    archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["inspect", f"zip://nets/lenot::{archive}"]) == 2
    assert f"did you mean 'zip://nets/lenet::{archive}'" in capsys.readouterr().err
    assert main.run(["inspect", f"zip://nets/lenet::{FIXTURES}/lenet-0000.params"]) == 2
    assert "File is not a zip file" in capsys.readouterr().err
    monkeypatch.setattr(source, "MAX_COPY", 1000)
    with pytest.raises(InputError, match=r"unpacks to 5\.2 kB"):
        gs.load(f"zip://nets/lenet::{archive}")
    data = archive.read_bytes()
    archive.write_bytes(data[:2000] + bytes(100) + data[2100:])
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"cannot be read|is damaged|malformed"):
        gs.load(f"zip://nets/lenet::{archive}")


def test_external_weights_at_a_url(
    site: WebServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copy(FIXTURES / "lenet-symbol.json", tmp_path)
    shutil.copy(FIXTURES / "lenet-0000.params", tmp_path)
    gs.export(
        tmp_path / "lenet",
        tmp_path / "net.onnx",
        shapes={"data": (1, 1, 28, 28)},
        weights="external",
        verify=False,
    )
    assert main.run(["inspect", f"{site.url}/net.onnx"]) == 0
    there = gs.load(f"{site.url}/net.onnx")
    here = gs.load(tmp_path / "net.onnx")
    assert there.params["conv2_weight"].tobytes() == here.params["conv2_weight"].tobytes()
    assert sum(path == "/net.onnx.data" for _, path, _ in site.requests) <= 5
    source = str(FIXTURES / "lenet")
    assert main.run(["compare", f"{site.url}/net.onnx", source]) == 0
    assert (
        main.run(
            [
                "rename",
                f"{site.url}/net.onnx",
                "--match",
                "conv2_weight",
                "--to",
                "w",
                "-o",
                f"{tmp_path}/new.onnx",
            ]
        )
        == 0
    )
    assert main.run(["compare", f"{tmp_path}/new.onnx", source]) == 0
    assert main.run(["compare", f"{site.url}/net.onnx", f"{tmp_path}/net.onnx"]) == 0
    assert main.run(["check", f"{site.url}/net.onnx"]) == 0
    monkeypatch.chdir(tmp_path)  # a URL is not below the directory of the output
    assert (
        main.run(
            [
                "rename",
                f"{site.url}/net.onnx",
                "--match",
                "conv2_weight",
                "--to",
                "w",
                "-o",
                "beside.onnx",
            ]
        )
        == 0
    )
    assert (tmp_path / "beside.onnx.data").read_bytes() == (tmp_path / "new.onnx.data").read_bytes()
    (tmp_path / "net.onnx.data").unlink()
    assert main.run(["inspect", f"{site.url}/net.onnx"]) == 0
    assert f"has no weights ({site.url}/net.onnx.data does not exist)" in capsys.readouterr().err
    assert main.run(["run", f"{site.url}/net.onnx", "--seed", "0"]) == 2
    assert "net.onnx.data does not exist" in capsys.readouterr().err.split("error:")[1]
    (tmp_path / "net.onnx.data").write_bytes(bytes(20))
    assert main.run(["inspect", f"{site.url}/net.onnx"]) == 0
    assert f"has no weights ({site.url}/net.onnx.data is too short)" in capsys.readouterr().err
