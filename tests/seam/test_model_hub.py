"""The cache of a model hub: a model and its data are links into ``blobs``.

Both are read; nothing is written through them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphshare as gs
from tests.processes import done, files_in, graphshare, refused

pytest.importorskip("onnxruntime")
WEIGHT = np.arange(256, dtype=np.float32).reshape(16, 16) / 9


def write_model(path: Path, location: str) -> None:
    weight = numpy_helper.from_array(WEIGHT, "w")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16]) for name in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weight]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.external_data_helper.set_external_data(
        model.graph.initializer[0], location, 0, WEIGHT.nbytes
    )
    model.graph.initializer[0].ClearField("raw_data")
    path.write_bytes(model.SerializeToString())


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A model in a snapshot, and the same one, plain, in ``plain``."""
    blobs, folder, plain = (
        tmp_path / "hub" / "blobs",
        tmp_path / "hub" / "snapshots" / "0a1b" / "onnx",
        tmp_path / "plain",
    )
    for one in (blobs, folder, plain):
        one.mkdir(parents=True)
    write_model(blobs / "1f", "model.onnx_data")
    (blobs / "2e").write_bytes(WEIGHT.tobytes())
    (folder / "model.onnx").symlink_to("../../../blobs/1f")
    (folder / "model.onnx_data").symlink_to("../../../blobs/2e")
    write_model(plain / "model.onnx", "model.onnx_data")
    (plain / "model.onnx_data").write_bytes(WEIGHT.tobytes())
    return folder


@pytest.fixture
def untouched(snapshot: Path) -> Iterator[None]:
    """Everything in the cache is as it was."""

    def look() -> dict[str, bytes | str]:
        paths = [path for path in snapshot.parents[2].rglob("*") if not path.is_dir()]
        return {
            str(path): str(path.readlink()) if path.is_symlink() else path.read_bytes()
            for path in paths
        }

    before = look()
    yield
    assert look() == before


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    "command",
    [
        "inspect MODEL",
        "inspect MODEL --names",
        "check MODEL",
        "diff MODEL plain/model.onnx",
        "compare MODEL plain/model.onnx",
        "run MODEL --seed 0 -o out.npz",
        "params list MODEL",
        "params stats MODEL",
        "params convert MODEL out.safetensors",
        "draw MODEL -o out.svg",
        "rename MODEL --prefix a- -o out.onnx",
        "duplicate MODEL --prefix a- --mode tie -o out.onnx",
        "extract MODEL --target y -o out.onnx",
        "group MODEL plain/model.onnx --prefix a- --prefix b- -o out.onnx",
        "share MODEL --detect",
        "pool MODEL -o out",
        "pool MODEL -o out --embed",
        "foreach check hub",
    ],
)
def test_commands_read_it(command: str, snapshot: Path, tmp_path: Path) -> None:
    words = [str(snapshot / "model.onnx") if word == "MODEL" else word for word in command.split()]
    if words[0] == "foreach":
        words = ["foreach", "hub/snapshots", "--", "check", "{}"]
    run = graphshare(*words, cwd=tmp_path)
    assert run.returncode == 0, run.stderr.decode()
    written = tmp_path / "out.onnx"
    if written.exists():
        assert any(np.array_equal(values, WEIGHT) for values in gs.load(written).params.values())


@pytest.mark.usefixtures("untouched")
def test_nothing_is_written_through_a_link(snapshot: Path, tmp_path: Path) -> None:
    model = snapshot / "model.onnx"
    words = ("is a link into a model hub's cache", "write it elsewhere with -o")
    refused(graphshare("rename", model, "--prefix", "a-", "--in-place", cwd=tmp_path), *words)
    refused(
        graphshare("rename", "plain/model.onnx", "--prefix", "a-", "-o", model, cwd=tmp_path),
        *words,
    )
    run = graphshare(
        "params",
        "convert",
        "plain/model.onnx",
        "--to",
        "npz",
        snapshot / "model.onnx_data",
        cwd=tmp_path,
    )
    refused(run, *words)
    with pytest.raises(
        gs.GraphshareError, match=r"model hub's cache, which is not written to(.|\n)*`out`"
    ):
        gs.save(gs.rename(gs.load(model), prefix="a-"), model, in_place=True)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("where", ["", "..", "../new"])
def test_no_pool_is_made_in_a_snapshot(where: str, snapshot: Path, tmp_path: Path) -> None:
    out = snapshot / where
    said = refused(graphshare("pool", tmp_path / "plain" / "model.onnx", "-o", out, cwd=tmp_path))
    assert "is in a model hub's cache, which is not written to" in said
    assert "with -o" in said


def test_beside_the_cache_files_are_written_as_ever(snapshot: Path, tmp_path: Path) -> None:
    """A link elsewhere is followed, and a new file in a snapshot is nobody's blob."""
    (tmp_path / "target.onnx").write_bytes(b"")
    (tmp_path / "link.onnx").symlink_to("target.onnx")
    done(
        graphshare("rename", "plain/model.onnx", "--prefix", "a-", "-o", "link.onnx", cwd=tmp_path)
    )
    assert (tmp_path / "link.onnx").is_symlink()
    assert (tmp_path / "target.onnx").stat().st_size
    done(
        graphshare(
            "rename",
            "plain/model.onnx",
            "--prefix",
            "a-",
            "-o",
            snapshot / "new.onnx",
            cwd=tmp_path,
        )
    )


@pytest.mark.parametrize(
    "target",
    [
        "../../../../secret",
        "../../../secret",
        "../other/data",
        "/etc/hostname",
        "../../../blobs/deep/../../secret",
    ],
)
def test_links_to_other_places_are_refused(target: str, snapshot: Path, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "hub", tmp_path / "hub" / "snapshots"):
        (folder / "secret").write_bytes(bytes(4096))
    (snapshot.parent / "other").mkdir()
    (snapshot.parent / "other" / "data").write_bytes(bytes(4096))
    (tmp_path / "hub" / "blobs" / "deep").mkdir()
    (snapshot / "model.onnx_data").unlink()
    (snapshot / "model.onnx_data").symlink_to(target)
    with pytest.raises(gs.InputError, match="not in the model's directory"):
        gs.load(snapshot / "model.onnx")


@pytest.mark.parametrize(
    "location", ["../secret", "../../../blobs/2e", "sub/../../x", "/etc/hostname"]
)
def test_locations_outside_are_refused_as_ever(
    location: str, snapshot: Path, tmp_path: Path
) -> None:
    write_model(tmp_path / "hub" / "blobs" / "1f", location)
    with pytest.raises(gs.InputError, match="not in the model's directory"):
        gs.load(snapshot / "model.onnx")
    assert "secret" not in files_in(tmp_path)


def test_a_model_that_is_no_link_has_data_in_its_own_folder_only(snapshot: Path) -> None:
    (snapshot / "model.onnx").unlink()
    write_model(snapshot / "model.onnx", "model.onnx_data")
    with pytest.raises(gs.InputError, match="not in the model's directory"):
        gs.load(snapshot / "model.onnx")
