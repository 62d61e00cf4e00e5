"""A folder means the same models to every command: MXNet's with their parameter files, packed ones, and ONNX models."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

import graphshare as gs
from tests.processes import ROOT, graphshare, in_process
from tests.remote.web_server import serve
from tests.seam.placed import apply_add, place, tensor, write

LENET = ROOT / "fixtures" / "lenet"


def put_mxnet(folder: Path, name: str, epochs: dict[int, int] | None = None) -> None:
    """Write a model; of its parameter files, by epoch, only as many bytes as ``epochs`` says (0 for all)."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(f"{LENET}-symbol.json", folder / f"{name}-symbol.json")
    for epoch, size in (epochs or {}).items():
        data = Path(f"{LENET}-0000.params").read_bytes()
        (folder / f"{name}-{epoch:04d}.params").write_bytes(data[:size] if size else data)


def put_onnx(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return write(folder / f"{name}.onnx", place("graph", apply_add(), [tensor("weight", 1, 2)]))


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Sound models and damaged ones of both formats, and files that are no models."""
    folder = tmp_path / "models"
    put_mxnet(folder, "sound", {0: 0})
    put_mxnet(folder, "bare")
    put_mxnet(folder / "sub", "torn", {3: 2000})
    put_mxnet(folder / "sub", "newest torn", {0: 0, 1: 2000})
    put_mxnet(folder / "sub", "newest sound", {0: 2000, 1: 0})
    graph = Path(f"{LENET}-symbol.json").read_bytes()
    (folder / "sub" / "packed-symbol.json.gz").write_bytes(gzip.compress(graph))
    (folder / "broken-symbol.json").write_bytes(graph[:500])
    put_onnx(folder, "adds")
    cut = put_onnx(folder / "sub", "cut")
    cut.write_bytes(cut.read_bytes()[:-20])
    model = onnx.load(put_onnx(folder, "unread"))
    model.graph.node[0].input[1] = "nowhere"
    (folder / "unread.onnx").write_bytes(model.SerializeToString())
    shutil.copy(folder / "adds.onnx", folder / ".hidden.onnx")
    shutil.copy(folder / "adds.onnx", folder / "model.bin")
    (folder / "README.md").write_text("no model\n")
    return folder


MODELS = [
    "adds.onnx",
    "bare-symbol.json",
    "broken-symbol.json",
    "sound-symbol.json",
    "sub/cut.onnx",
    "sub/newest sound-symbol.json",
    "sub/newest torn-symbol.json",
    "sub/packed-symbol.json.gz",
    "sub/torn-symbol.json",
    "unread.onnx",
]
EPOCHS = {f"sub/newest {which}-symbol.json": ("1", "0") for which in ("sound", "torn")}
"""The parameter files of a stem that has several, the newest first; in a folder each is read."""


def list_checked(folder: str, cwd: Path) -> list[str]:
    return sorted(
        json.loads(
            in_process("check", folder, "--format", "json", cwd=cwd).stdout or b'{"files": []}'
        )["files"]
    )


def list_inspected(folder: str, cwd: Path) -> list[str]:
    run = in_process("inspect", folder, "--format", "json", cwd=cwd)
    return sorted(model["graph"] for model in json.loads(run.stdout or b'{"models": []}')["models"])


def list_fleet(folder: str, cwd: Path) -> list[str]:
    run = graphshare(
        "foreach", folder, "--report", "json", "--", "format", "{}", "--check", cwd=cwd
    )
    return sorted(
        model["source"] for model in json.loads(run.stdout or b'{"models": []}')["models"]
    )


LISTS: dict[str, Callable[[str, Path], list[str]]] = {
    "check": list_checked,
    "inspect": list_inspected,
    "foreach": list_fleet,
}
EVERY = ["foreach", "check", "inspect"]


@pytest.mark.parametrize("command", EVERY)
def test_every_command_lists_the_same_models(command: str, models: Path) -> None:
    expected = [f"models/{name}" for name in MODELS]
    assert LISTS[command]("models", models.parent) == expected


@pytest.mark.parametrize("command", EVERY)
def test_every_command_lists_the_same_models_of_a_web_server(command: str, models: Path) -> None:
    (models / ".hidden.onnx").unlink()
    # No space: what a listing says of it is another matter
    for name in (
        "newest torn",
        "newest sound",
    ):
        for path in (models / "sub").glob(f"{name}*"):
            path.unlink()
    expected = [name for name in MODELS if "newest" not in name]
    with serve(models) as site:
        assert LISTS[command](f"{site.url}/", models) == [f"{site.url}/{name}" for name in expected]


@pytest.mark.parametrize("command", ["check", "inspect", "foreach"])
def test_a_folder_that_links_to_itself_is_listed_once(command: str, tmp_path: Path) -> None:
    put_mxnet(tmp_path / "models" / "sub", "net")
    (tmp_path / "models" / "sub" / "again").symlink_to(tmp_path / "models")
    assert LISTS[command]("models", tmp_path) == ["models/sub/net-symbol.json"]


@pytest.mark.parametrize("command", EVERY)
def test_a_folder_of_onnx_models_has_models(command: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        put_onnx(tmp_path / "models", name)
    assert LISTS[command]("models", tmp_path) == ["models/a.onnx", "models/b.onnx"]


def test_the_library_lists_them_too(models: Path) -> None:
    assert sorted(facts.graph for facts in gs.inspect_folder(models)) == [
        f"{models}/{name}" for name in MODELS
    ]
    assert {finding.where for finding in gs.check(models).findings} >= {
        f"{models}/sub/cut.onnx",
        f"{models}/unread.onnx",
    }


def find_faults(*words: str, cwd: Path) -> list[dict[str, Any]]:
    findings: list[dict[str, Any]] = json.loads(
        in_process("check", *words, "--format", "json", cwd=cwd).stdout
    )["findings"]
    return findings


def test_a_folder_has_the_findings_of_its_models(models: Path) -> None:
    """Each finding is the one that ``check`` has for the stem: with its parameter file, and with each of several."""
    expected = []
    for name in MODELS:
        stem = re.sub(r"-symbol\.json$|\.onnx$", "", name)
        for epoch in EPOCHS.get(name, ("",)):
            expected += find_faults(
                f"models/{stem}", *(["--epoch", epoch] if epoch else []), cwd=models.parent
            )
    files = [
        "broken-symbol.json",
        "sub/cut.onnx",
        "sub/newest sound-0000.params",
        "sub/newest torn-0001.params",
        "sub/torn-0003.params",
        "unread.onnx",
    ]
    assert list(dict.fromkeys(finding["file"] for finding in expected)) == [
        f"models/{name}" for name in files
    ]
    assert find_faults("models", cwd=models.parent) == expected
    assert in_process("check", "models", cwd=models.parent).returncode == 1


@pytest.mark.parametrize(
    "name",
    [
        "sound",
        "torn",
        "cut",
    ],
)
def test_one_model_in_a_folder_is_checked_as_its_stem(
    name: str, models: Path, tmp_path: Path
) -> None:
    (tmp_path / "one").mkdir()
    for path in models.rglob(f"{name}*"):
        shutil.copy(path, tmp_path / "one")
    for path in models.glob(f"{name}*"):
        shutil.copy(path, tmp_path / "one")
    by_stem = in_process("check", f"one/{name}", cwd=tmp_path)
    by_folder = in_process("check", "one", cwd=tmp_path)
    assert by_stem.returncode == (0 if name == "sound" else 1)
    assert (by_folder.returncode, by_folder.stdout) == (by_stem.returncode, by_stem.stdout)


def test_parameters_that_do_not_fit_are_reported_in_a_folder(tmp_path: Path) -> None:
    put_mxnet(tmp_path / "one", "net")
    shutil.copy(ROOT / "fixtures" / "blog-0000.params", tmp_path / "one" / "net-0000.params")
    by_stem = in_process("check", "one/net", "--strict", cwd=tmp_path)
    assert by_stem.returncode == 1
    assert in_process("check", "one", "--strict", cwd=tmp_path).stdout == by_stem.stdout


def test_a_damaged_model_in_a_folder_is_inspected_as_a_fault(models: Path) -> None:
    run = in_process("inspect", "models", "--format", "json", cwd=models.parent)
    assert run.returncode == 2
    facts = {
        model["graph"].removeprefix("models/"): model for model in json.loads(run.stdout)["models"]
    }
    assert list(facts) == MODELS
    assert [name for name in MODELS if facts[name]["faults"]] == [
        "broken-symbol.json",
        "sub/cut.onnx",
        "sub/newest sound-symbol.json",
        "sub/newest torn-symbol.json",
        "sub/torn-symbol.json",
        "unread.onnx",
    ]
    assert facts["adds.onnx"]["inputs"] == ["left", "right"]
    assert facts["adds.onnx"]["outputs"] == ["answer"]


@pytest.mark.parametrize(
    "name",
    ["net-symbol.json", "net-symbol.json.gz", "net.onnx"],
)
def test_the_hook_is_for_what_a_folder_lists(name: str) -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    hook = next(part for part in text.split("- id: ") if part.startswith("graphshare-check"))
    pattern = re.search(r"^  files: (.*)$", hook, re.M)
    assert pattern
    assert re.search(pattern[1], f"models/{name}")
    assert not re.search(pattern[1], "models/package.json")
    assert not re.search(pattern[1], "models/onnx.py")


def test_the_action_checks_what_a_folder_lists(models: Path) -> None:
    """The default of the action is a folder, which ``check`` gets as it is."""
    text = (ROOT / "action.yml").read_text()
    default = re.search(r"^  paths:\n(?:    .*\n)*?    default: (.*)$", text, re.M)
    assert default
    assert [os.path.normpath(path) for path in list_checked(default[1], models)] == MODELS
