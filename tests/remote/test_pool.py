"""Models and pools on a web server, pooled into a local folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import graphshare as gs
from tests.onnx_files.test_pool import A, B, C, array, dense, write
from tests.processes import files_in
from tests.remote.web_server import WebServer

pytest.importorskip("onnxruntime")


@pytest.fixture
def urls(site: WebServer, tmp_path: Path) -> list[str]:
    """Two models with one weight in common."""
    for name, weights in {"a": (A, B), "b": (B, C)}.items():
        write(tmp_path / f"{name}.onnx", dense(*weights))
    return [f"{site.url}/{name}.onnx" for name in "ab"]


def test_models_at_urls_are_pooled_as_local_ones(urls: list[str], tmp_path: Path) -> None:
    result = gs.pool(urls, tmp_path / "far")
    gs.pool([tmp_path / "a.onnx", tmp_path / "b.onnx"], tmp_path / "near")
    assert [one.proof for one in result.models] == ["1 output equal bit for bit"] * 2
    assert (result.weights, result.distinct) == (4 * 1024, 3 * 1024)
    assert (
        files_in(tmp_path / "far")
        == files_in(tmp_path / "near")
        == ["a.onnx", "b.onnx", "weights.data"]
    )
    for name in files_in(tmp_path / "far"):
        assert (tmp_path / "far" / name).read_bytes() == (tmp_path / "near" / name).read_bytes()


def test_a_pool_at_a_url_is_read(site: WebServer, urls: list[str], tmp_path: Path) -> None:
    gs.pool(urls, tmp_path / "far")
    pooled = [f"{site.url}/far/{name}.onnx" for name in "ab"]
    gs.pool(pooled, tmp_path / "again", verify=False)
    assert (tmp_path / "again" / "weights.data").read_bytes() == (
        tmp_path / "far" / "weights.data"
    ).read_bytes()
    gs.pool(pooled, tmp_path / "back", embed=True, verify=False)
    for name in ("a.onnx", "b.onnx"):
        assert (tmp_path / "back" / name).read_bytes() == (tmp_path / name).read_bytes()
    (tmp_path / "far" / "weights.data").write_bytes(bytes(3 * 1024))
    with pytest.raises(gs.InputError, match="are not those that the model was pooled with"):
        gs.pool(pooled, tmp_path / "other", embed=True)
    assert not (tmp_path / "other").exists()


def test_a_model_that_is_cut_short_leaves_the_pool_as_it_was(
    site: WebServer, urls: list[str], tmp_path: Path
) -> None:
    gs.pool(urls[:1], tmp_path / "out", verify=False)
    before = {name: (tmp_path / "out" / name).read_bytes() for name in files_in(tmp_path / "out")}
    model = gs.load(urls[1])
    content = (tmp_path / "b.onnx").read_bytes()
    (tmp_path / "b.onnx").write_bytes(content[:-700])
    with pytest.raises(gs.InputError):
        gs.pool([model], tmp_path / "out", verify=False)
    assert {
        name: (tmp_path / "out" / name).read_bytes() for name in files_in(tmp_path / "out")
    } == before


def test_two_writers_at_once_read_from_the_server(site: WebServer, tmp_path: Path) -> None:
    for i in range(4):
        write(tmp_path / f"m{i}.onnx", dense(A, array(16, 16, seed=20 + i)))
    code = "import sys, graphshare as gs; gs.pool(sys.argv[2:], sys.argv[1], verify=False)"
    urls = [f"{site.url}/m{i}.onnx" for i in range(4)]
    runs = [
        subprocess.Popen([sys.executable, "-c", code, tmp_path / "out", *pair])
        for pair in (urls[:3], urls[1:])
    ]
    assert [run.wait() for run in runs] == [0, 0]
    assert (tmp_path / "out" / "weights.data").stat().st_size == 5 * 1024
    for i in range(4):
        assert not gs.diff(tmp_path / f"m{i}.onnx", tmp_path / "out" / f"m{i}.onnx")


def test_a_pool_is_not_written_to_a_url(site: WebServer, urls: list[str]) -> None:
    with pytest.raises(gs.UsageError, match="models are pooled in a local folder"):
        gs.pool(urls, f"{site.url}/out")
