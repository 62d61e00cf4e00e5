"""Links among outputs: those that the command line names are followed, those in a folder of outputs are not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graphshare as gs
from graphshare.checks.engine import RULES
from graphshare.errors import RefusedError
from graphshare.files.atomic import OutputTransaction, refuse_links, refusing_links
from graphshare.files.staged_file import StagedFile
from graphshare.formats.onnx.pool import WeightPool
from tests.fuzz.faults import write_models
from tests.processes import ROOT, done, files_in, graphshare, in_process, refused

pytestmark = pytest.mark.skipif(os.name == "nt", reason="symbolic links need a privilege")
FOREACH = ("foreach", "models/**/*.json", "-o", "out", "--", "rename", "{}", "--prefix", "b-")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two models (``models`` and ``models/sub``), an empty ``out``, and ``outside``
    with a file of a stranger.
    """
    for path in ("models/sub", "out", "outside"):
        (tmp_path / path).mkdir(parents=True)
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        for place in ("models", "models/sub"):
            shutil.copy(ROOT / "fixtures" / name, tmp_path / place / name)
    (tmp_path / "outside" / "lenet-symbol.json").write_bytes(b"mine")
    return tmp_path


def link_file(out: Path) -> str:
    (out / "lenet-symbol.json").symlink_to("../outside/lenet-symbol.json")
    return "out/lenet-symbol.json"


def link_nothing(out: Path) -> str:
    """The file behind the link is not there yet."""
    (out / "lenet-0000.params").symlink_to("../outside/lenet-0000.params")
    return "out/lenet-0000.params"


def link_folder(out: Path) -> str:
    (out / "sub").symlink_to("../outside")
    return "out/sub"


def link_folder_to_nothing(out: Path) -> str:
    (out / "sub").symlink_to("../new")
    return "out/sub"


def link_within(out: Path) -> str:
    """It does not lead outside, but in place of another output."""
    (out / "sub").mkdir()
    (out / "lenet-symbol.json").symlink_to("sub/lenet-symbol.json")
    return "out/lenet-symbol.json"


@pytest.mark.parametrize(
    "link", [link_file, link_nothing, link_folder, link_folder_to_nothing, link_within]
)
def test_foreach_follows_no_link_in_its_folder(link: Callable[[Path], str], folder: Path) -> None:
    """Neither the linked model nor the other one is written."""
    path = link(folder / "out")
    before = files_in(folder)
    refused(graphshare(*FOREACH, cwd=folder), f"{path}: is a link, which is not followed")
    assert files_in(folder) == before
    assert (folder / "outside" / "lenet-symbol.json").read_bytes() == b"mine"


def test_the_data_of_a_model_in_a_folder_is_not_written_through_a_link(folder: Path) -> None:
    (folder / "out" / "lenet-symbol.onnx.data").symlink_to("../outside/lenet-symbol.json")
    (folder / "out" / "lenet.onnx.data").symlink_to("../outside/lenet-symbol.json")
    words = ("--shape", "data=1,1,28,28", "--weights", "external")
    run = graphshare(
        "foreach", "models/lenet", "-o", "out", "--", "export", "{}", *words, cwd=folder
    )
    refused(run, ".onnx.data: is a link, which is not followed")
    assert (folder / "outside" / "lenet-symbol.json").read_bytes() == b"mine"


def test_links_that_no_output_meets_are_left_alone(folder: Path) -> None:
    (folder / "out" / "other").symlink_to("../outside")
    done(graphshare(*FOREACH, cwd=folder))
    assert (folder / "out" / "sub" / "lenet-symbol.json").exists()


def test_a_folder_that_is_named_may_be_a_link(folder: Path) -> None:
    (folder / "out").rename(folder / "real")
    (folder / "out").symlink_to("real")
    done(graphshare(*FOREACH, cwd=folder))
    done(
        graphshare(
            *(word.replace("out", "out/") if word == "out" else word for word in FOREACH),
            cwd=folder,
        )
    )
    assert (folder / "real" / "sub" / "lenet-symbol.json").exists()


def test_a_file_and_a_stem_that_are_named_follow_links(folder: Path) -> None:
    (folder / "a.json").symlink_to("outside/lenet-symbol.json")
    done(
        graphshare(
            "rename", "models/lenet-symbol.json", "--prefix", "b-", "-o", "a.json", cwd=folder
        )
    )
    assert (folder / "outside" / "lenet-symbol.json").read_bytes() != b"mine"
    (folder / "stem-symbol.json").symlink_to("outside/new.json")
    done(graphshare("rename", "models/lenet", "--prefix", "b-", "-o", "stem", cwd=folder))
    assert (folder / "outside" / "new.json").exists()


@pytest.mark.parametrize("name", ["small.onnx", "weights.data"])
def test_a_pool_follows_no_link_in_its_folder(name: str, folder: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is of the onnx extra")
    shutil.copy(ROOT / "fixtures" / "small.onnx", folder)
    (folder / "out" / name).symlink_to("../outside/lenet-symbol.json")
    run = graphshare("pool", "small.onnx", "-o", "out", cwd=folder)
    refused(
        run,
        f"out/{name}: is a link, which is not followed: only out is named as the place of the outputs",
    )
    assert b"hint: remove the link, or name another folder" in run.stderr
    assert (folder / "outside" / "lenet-symbol.json").read_bytes() == b"mine"
    assert files_in(folder / "out") == [name]
    with pytest.raises(RefusedError, match="is a link"):
        gs.pool([folder / "small.onnx"], folder / "out")
    (folder / "linked").symlink_to("real", target_is_directory=True)
    (folder / "real").mkdir()
    done(graphshare("pool", "small.onnx", "-o", "linked", cwd=folder))
    assert (folder / "real" / "small.onnx").is_file()


@pytest.mark.parametrize("link", [link_file, link_nothing, link_folder, link_folder_to_nothing])
def test_foreach_follows_no_link_that_comes_while_it_runs(
    link: Callable[[Path], str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with gs.foreach("models/**/*.json", ["rename", "{}", "--prefix", "b-"], out="out") as run:
        path = link(folder / "out")  # after the names were looked at, before the first model
        before = files_in(folder / "outside")
        results = list(run)
    assert sorted(result.result for result in results) == ["done", "failed"]
    assert [
        f"{path}: is a link, which is not followed" in result.error
        for result in results
        if not result
    ] == [True]
    assert files_in(folder / "outside") == before
    assert (folder / "outside" / "lenet-symbol.json").read_bytes() == b"mine"
    assert not (folder / "new").exists()


def test_a_pool_follows_no_link_that_comes_while_it_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is of the onnx extra")

    def look(*arguments: Any) -> None:
        refuse_links(*arguments)
        (folder / "out" / "small.onnx").symlink_to("../outside/lenet-symbol.json")

    monkeypatch.setattr("graphshare.api.pool.refuse_links", look)
    with pytest.raises(RefusedError, match=r"small\.onnx: is a link"):
        gs.pool([ROOT / "fixtures" / "small.onnx"], folder / "out")
    assert (folder / "outside" / "lenet-symbol.json").read_bytes() == b"mine"


def test_a_pool_replaces_a_link_that_comes_in_place_of_weights_that_are_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The models point into that file: a link out of the folder is no fault of theirs."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is of the onnx extra")
    write_models(folder / "models")
    write = WeightPool.write

    def write_late(pool: WeightPool, out: StagedFile) -> None:
        write(pool, out)
        (folder / "out" / "weights.data").symlink_to("../outside/lenet-symbol.json")

    monkeypatch.setattr(WeightPool, "write", write_late)
    result = gs.pool(
        [folder / "models" / f"{name}.onnx" for name in ("one", "two")], folder / "out"
    )
    assert [model.proof for model in result.models] == ["1 output equal bit for bit"] * 2
    assert not (folder / "out" / "weights.data").is_symlink()
    assert (folder / "outside" / "lenet-symbol.json").read_bytes() == b"mine"


def test_a_link_that_comes_after_an_output_is_opened_is_replaced(folder: Path) -> None:
    out, theirs = folder / "out", folder / "outside" / "lenet-symbol.json"
    with refusing_links(str(out)), refusing_links(str(out / "sub")), OutputTransaction() as stage:
        stage.open(out / "lenet-symbol.json").write(b"new")
        (out / "lenet-symbol.json").symlink_to(theirs)
        stage.commit()
        (out / "sub").symlink_to(folder / "outside")
        with pytest.raises(RefusedError, match=r"sub: is a link.* only .*/out is named"):
            stage.open(out / "sub" / "lenet-symbol.json")
        (folder / "named").symlink_to(theirs)  # no name of a list: it is beside the folder
        stage.open(folder / "named").write(b"of the command line")
        stage.commit()
    assert (out / "lenet-symbol.json").read_bytes() == b"new"
    assert not (out / "lenet-symbol.json").is_symlink()
    assert theirs.read_bytes() == b"of the command line"


@pytest.mark.parametrize("top", ["a", "a/", "./a", "a/../a", "."])
def test_which_links_are_refused(top: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "real" / "b").mkdir(parents=True)
    (folder / "a").symlink_to("real")
    (folder / "real" / "l").symlink_to("b")
    start = os.path.join(top, "") if top != "." else "./real/"
    refuse_links(top, [f"{start}b/c", f"{start}c", top])
    with pytest.raises(RefusedError) as raised:
        refuse_links(top, [f"{start}l/c/d", f"{start}l/c/e", f"{start}b/c", f"{start}l"])
    assert [fault.where for fault in raised.value.faults] == [f"{start}l"]


@pytest.mark.parametrize("argument", ["models", "models/*.json", "."])
def test_a_fix_follows_links_that_are_named_alone(argument: str, folder: Path) -> None:
    faulty = str(RULES["GS104"].fails.graph)
    shutil.rmtree(folder / "models")
    (folder / "models").mkdir()
    (folder / "outside" / "theirs.json").write_text(faulty)
    (folder / "outside" / "lenet-symbol.json").unlink()
    for name in ("a-symbol.json", "b-symbol.json"):
        (folder / "models" / name).write_text(faulty)
    (folder / "models" / "c-symbol.json").symlink_to("../outside/theirs.json")
    named = ["models/a-symbol.json", "models/b-symbol.json", argument]
    run = graphshare("check", *named, "--fix", "--isolated", cwd=folder)
    assert run.returncode == 2
    assert "models/c-symbol.json: is a link, which is not followed" in run.stderr.decode()
    assert {
        path.read_text()
        for path in [*(folder / "models").iterdir(), folder / "outside" / "theirs.json"]
    } == {faulty}
    graphshare("check", "models/c-symbol.json", "--fix", "--isolated", cwd=folder)
    assert (folder / "outside" / "theirs.json").read_text() != faulty
    assert (folder / "models" / "c-symbol.json").is_symlink()


def test_a_fix_follows_no_link_that_comes_while_it_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty = str(RULES["GS104"].fails.graph)
    (folder / "outside" / "lenet-symbol.json").write_text(faulty)
    for path in (folder / "models").rglob("*.params"):
        path.unlink()

    def look(*arguments: Any) -> None:
        refuse_links(*arguments)
        (folder / "models" / "lenet-symbol.json").unlink()
        (folder / "models" / "lenet-symbol.json").symlink_to("../outside/lenet-symbol.json")

    for path in (folder / "models").rglob("*.json"):
        path.write_text(faulty)
    monkeypatch.setattr("graphshare.checks.check_files.refuse_links", look)
    monkeypatch.chdir(folder)
    run = in_process("check", "models", "--fix", "--isolated")
    assert "models/lenet-symbol.json: is a link, which is not followed" in run.stderr.decode()
    assert {
        path.read_text()
        for path in [*(folder / "models").rglob("*.json"), folder / "outside" / "lenet-symbol.json"]
    } == {faulty}
