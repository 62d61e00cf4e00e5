"""The models below a folder, here or at a URL: which files belong together, and which are left out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphshare.checkpoint.folder import (
    ModelFiles,
    Sieve,
    find_models,
    group_files,
    is_folder_of_models,
    list_models,
)
from graphshare.errors import InputError, UsageError
from graphshare.files.byte_source import ListedFile

FILES = (
    "net-symbol.json", "net-0000.params", "net-0012.params", "net-0012.npz", "net-0002.safetensors", "net.txt",
    "lone.params", "net-large-0001.params", ".hidden-symbol.json", ".hidden.params", ".git/net-symbol.json",
    "venv/net-symbol.json", "own/pyvenv.cfg", "own/net-symbol.json", "own/below/net.onnx", "b/m.onnx", "b/m.onnx.gz",
    "b/old/m-symbol.json", "b/old/weights.npz", "b/packed-symbol.json.gz", "b/packed-0003.params", "c/.x/m.onnx", "c/y/.m.onnx",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def describe(models: list[ModelFiles], folder: Path) -> dict[str, dict[int, str]]:
    """Return the parameter files of each model by epoch, paths below ``folder``; those without a graph are numbered."""

    def below(path: str) -> str:
        return os.path.relpath(path, folder).replace(os.sep, "/")

    return {
        below(model.graph) if model.graph else f"#{number}": {
            epoch: below(path) for epoch, path in model.params.items()
        }
        for number, model in enumerate(models)
    }


def test_files_that_belong_together_are_one_model(folder: Path) -> None:
    sieve = Sieve()
    models = list_models(str(folder), sieve, loose=True)
    assert describe(models, folder) == {
        "b/m.onnx": {},
        "b/m.onnx.gz": {},
        "b/old/m-symbol.json": {},
        "b/packed-symbol.json.gz": {3: "b/packed-0003.params"},
        "net-symbol.json": {0: "net-0000.params", 2: "net-0002.safetensors", 12: "net-0012.params"},
        "#5": {0: "b/old/weights.npz"},
        "#6": {0: "lone.params"},
        "#7": {0: "net-0012.npz"},
        "#8": {0: "net-large-0001.params"},
    }
    assert [Path(model.newest).name for model in models[3:6]] == [
        "packed-0003.params",
        "net-0012.params",
        "weights.npz",
    ]
    assert models[0].newest == ""
    assert list_models(str(folder)) == models[:5]
    assert list(sieve.notes()) == ["skipped 4 folders (hidden or of an environment)"]


def test_globs_leave_out_paths_and_names(folder: Path) -> None:
    sieve = Sieve(["./b//old", "*.gz", "net-symbol.json"])
    assert list(describe(list_models(str(folder), sieve), folder)) == ["b/m.onnx"]
    assert list(sieve.notes())[1] == "excluded 4 paths"
    sieve = Sieve(["b"])
    assert list(describe(list_models(str(folder), sieve), folder)) == ["net-symbol.json"]
    sieve.refuse_unused()
    assert list(Sieve(["b"]).notes()) == ["excluded 0 paths"]
    Sieve().refuse_unused()
    with pytest.raises(UsageError, match="`exclude` applies to folders"):
        Sieve(["b"]).refuse_unused()


@pytest.mark.parametrize(
    ("path", "is_admitted"),
    [
        ("a/b.json", True),
        ("venv", True),
        (".json", True),
        ("a/venv", True),
        ("venv/", False),
        ("a/node_modules/b.json", False),
        ("a/.b/", False),
        (".b/c.json", False),
        ("a.b/", True),
    ],
)
def test_only_folders_are_hidden_or_of_an_environment(path: str, is_admitted: bool) -> None:
    assert Sieve().admits("x", path) is is_admitted


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_each_folder_is_read_once_and_only_files_are_models(folder: Path) -> None:
    (folder / "b" / "back").symlink_to(folder)
    (folder / "a").symlink_to(folder / "b")
    (folder / "gone-symbol.json").symlink_to(folder / "nothing")
    (folder / "nested.onnx").mkdir()
    os.mkfifo(folder / "pipe-symbol.json")
    (folder / "link-symbol.json").symlink_to(folder / "pipe-symbol.json")
    found = list(describe(list_models(str(folder)), folder))
    assert [path for path in found if path.endswith("symbol.json")] in (
        ["b/old/m-symbol.json", "gone-symbol.json", "net-symbol.json"],
        ["a/old/m-symbol.json", "gone-symbol.json", "net-symbol.json"],
    )
    assert len(found) == 6


def test_a_folder_without_models_or_that_cannot_be_read_is_refused(folder: Path) -> None:
    with pytest.raises(InputError) as caught:
        find_models(str(folder / "c"), Sieve(["y"]))
    (fault,) = caught.value.faults
    assert (fault.message, fault.where) == (
        "contains no *-symbol.json or *.onnx or *.json beside *.pdiparams",
        str(folder / "c"),
    )
    hints = ["skipped 1 folder (hidden or of an environment)", "excluded 1 path"]
    assert fault.hint == "; ".join(
        [*hints, "name symbol files, ONNX models, stems, folders or globs"]
    )
    with pytest.raises(
        InputError,
        match=r"contains no \*-symbol.json or \*.onnx or .* or \*.params or \*.npz or \*.safetensors",
    ):
        find_models(str(folder / "c"), loose=True)
    with pytest.raises(InputError, match="cannot be read: No such file or directory"):
        find_models(str(folder / "none"))


def test_a_folder_beside_a_model_of_its_name_is_not_meant(folder: Path) -> None:
    (folder / "net").mkdir()
    names = ("b", "net", "net-symbol.json", "none")
    assert [is_folder_of_models(str(folder / name)) for name in names] == [
        True,
        False,
        False,
        False,
    ]


@pytest.fixture
def store() -> Iterator[str]:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    root = "/graphshare-test-folder"
    for name in FILES:
        memory.pipe_file(f"{root}/{name}", b"1234567" if name.endswith("12.params") else b"")
    yield f"memory:/{root}"
    memory.rm(root, recursive=True)


def test_models_at_a_url_come_with_their_entries_in_the_listing(store: str) -> None:
    sieve = Sieve(["b/old"])
    models = find_models(store, sieve)
    # A listing of a store has no folders: pyvenv.cfg beside a model is not looked for.
    names = ["b/m.onnx", "b/m.onnx.gz", "b/packed-symbol.json.gz", "net-symbol.json"]
    names += ["own/below/net.onnx", "own/net-symbol.json"]
    assert [model.graph for model in models] == [f"{store}/{name}" for name in names]
    assert models == find_models(f"{store}/", sieve)
    net = models[3]
    assert list(net.params) == [0, 2, 12]
    assert (
        (net.listed.path, net.listed.size) == (f"{store}/net-symbol.json", 0)
        if net.listed
        else False
    )
    assert (
        (net.listed_newest.path, net.listed_newest.size) == (net.params[12], 7)
        if net.listed_newest
        else False
    )
    assert models[0].listed_newest is None
    assert sieve.skipped == {
        (url, path) for url in (store, f"{store}/") for path in (".git", "venv", "c/.x")
    }
    assert [is_folder_of_models(f"{store}{end}") for end in ("/", "", "/b", "/b/m", "/net", "/b/m.onnx", "/none")] == [
        True, True, True, False, False, False, False
    ]  # fmt: skip


def test_globs_are_compared_with_paths_without_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [ListedFile(f"http://h/a/{name}?key=1", -1, "") for name in ("b/n.onnx", "m.onnx")]
    monkeypatch.setattr("graphshare.checkpoint.folder.find_below", lambda url: files)
    assert [model.graph for model in list_models("http://h/a/?key=1", Sieve(["b/n.onnx"]))] == [
        "http://h/a/m.onnx?key=1"
    ]


def test_listed_files_are_grouped_by_folder() -> None:
    files = [
        ListedFile(f"s3://m/{name}", size, "")
        for size, name in enumerate(("b/n.onnx", "a-symbol.json", "a-0001.params"))
    ]
    assert group_files(files) == [
        ModelFiles("s3://m/a-symbol.json", {1: "s3://m/a-0001.params"}, files[1], files[2]),
        ModelFiles("s3://m/b/n.onnx", {}, files[0]),
    ]
