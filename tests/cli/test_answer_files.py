"""Answers in files: ``-o`` writes what a command prints, and replaces nothing that the command
reads or a model consists of.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest

import graphshare as gs
from graphshare.cli.main import cli
from tests import pictures
from tests.onnx_files.made import MADE
from tests.processes import ROOT, done, files_in, graphshare, refused
from tests.shard_folders import write_shards

onnx = pytest.importorskip("onnx")

ANSWERS = [
    "inspect lenet",
    "inspect lenet --format json",
    "inspect . --format jsonl",
    "inspect gpt",
    "diff lenet two --format json",
    "diff lenet two --format html",
    "params list lenet",
    "params show lenet --format json",
    "params stats lenet",
    "params diff lenet two --format json",
    "rules explain conv1_weight --override a=b",
    "rules check rules.json",
    "rules check rules.json --graph lenet-symbol.json --format json",
    "verify two --prefix b- --shape data=1,1,28,28",
    "compare lenet two --shape data=1,1,28,28 --target softmax_output --format json",
    "check lenet --format sarif",
]
READING = {
    "inspect lenet": "lenet-symbol.json lenet-0000.params",
    "inspect .": "lenet-symbol.json two-0000.params outside.onnx outside.data gpt/config.json",
    "inspect . --shared": "lenet-0000.params outside.data",
    "inspect lenet two --fingerprint": "two-0000.params",
    "inspect outside.onnx": "outside.onnx outside.data",
    "inspect gpt": "gpt/config.json gpt/model.safetensors",
    "diff lenet two --map map.json": "lenet-symbol.json two-0000.params map.json",
    "diff outside.onnx again.onnx": "outside.data",
    "params list lenet": "lenet-0000.params",
    "params show lenet": "lenet-0000.params",
    "params stats lenet": "lenet-0000.params",
    "params diff lenet two": "two-0000.params",
    "rules explain conv1_weight --graph lenet-symbol.json --rules rules.json": "lenet-symbol.json rules.json",
    "rules check rules.json --graph lenet-symbol.json": "lenet-symbol.json rules.json",
    "verify two --map map.json --shape data=1,1,28,28": "two-symbol.json map.json",
    "verify two --prefix b- --feed data=photo.png --gray --resize 28 --crop 28": "photo.png",
    "verify two --prefix b- --inputs sets": "sets/one.npz",
    "compare lenet lenet-symbol.json --against-params lenet-0000.params --feed data=x.npy": "x.npy lenet-0000.params",
    "compare outside.onnx again.onnx": "outside.onnx outside.data",
    "check lenet": "lenet-symbol.json lenet-0000.params graphshare.toml",
    "check outside.onnx": "outside.data",
    "check many --jobs 2": "many/outside.data many/3.onnx",
    "check gpt": "gpt/config.json gpt/model.safetensors",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path)
    two = gs.duplicate(gs.load(tmp_path / "lenet"), "b-")
    gs.save(two, tmp_path / "two", map=tmp_path / "map.json")
    write_shards(
        tmp_path / "gpt",
        {"model.safetensors": ["transformer.wte.weight"]},
        tied=True,
        model_type="gpt2",
    )
    (tmp_path / "rules.json").write_text('{"version": 1, "rules": [{"scope": "b", "to": "a"}]}')
    (tmp_path / "graphshare.toml").write_text('[check]\nignore = ["GS303"]\n')
    pictures.save(tmp_path / "photo.png", pictures.texture(30, 40))
    (tmp_path / "sets").mkdir()
    pixels = np.zeros((1, 1, 28, 28), "float32")
    np.savez(tmp_path / "sets" / "one.npz", data=pixels)
    np.save(tmp_path / "x.npy", pixels)
    (tmp_path / "many").mkdir()
    for where in (tmp_path, tmp_path / "many"):
        onnx.save(
            MADE["dense"](),
            where / "outside.onnx",
            save_as_external_data=True,
            location="outside.data",
            size_threshold=0,
        )
    shutil.copy(tmp_path / "outside.onnx", tmp_path / "again.onnx")
    for number in range(20):  # more than a process of `check --jobs` gets at once
        shutil.copy(tmp_path / "many" / "outside.onnx", tmp_path / "many" / f"{number}.onnx")
    return tmp_path


@pytest.mark.parametrize("line", ANSWERS)
def test_an_answer_goes_to_a_file(line: str, folder: Path) -> None:
    printed = graphshare(*line.split(), cwd=folder)
    written = graphshare(*line.split(), "-o", "answer", "--color", "always", cwd=folder)
    assert written.returncode == printed.returncode < 2
    assert written.stdout == b""
    assert b"wrote answer" in written.stderr
    assert (folder / "answer").read_bytes() == printed.stdout


def test_the_suffix_of_an_answer_is_its_format(folder: Path) -> None:
    assert graphshare("diff", "lenet", "lenet", "-o", "d.html", cwd=folder).returncode == 0
    assert (folder / "d.html").read_bytes().startswith(b"<!doctype html>")
    done(graphshare("inspect", "lenet", "-o", "i.json", cwd=folder))
    assert json.loads((folder / "i.json").read_bytes())["outputs"]
    done(graphshare("inspect", "lenet", "-o", "text.json", "--format", "text", cwd=folder))
    assert (folder / "text.json").read_bytes().startswith(b"model ")
    done(graphshare("check", "lenet", "-o", "c.sarif", cwd=folder))
    assert json.loads((folder / "c.sarif").read_bytes())["runs"]
    done(graphshare("check", "lenet", "-o", "c.xml", cwd=folder))
    assert b"<testsuites" in (folder / "c.xml").read_bytes()


@pytest.mark.parametrize(
    "line", ["diff lenet lenet -o x.svg", "inspect lenet -o x.yaml", "check lenet -o x.params"]
)
def test_a_suffix_of_a_format_that_is_not_written_is_refused(line: str, folder: Path) -> None:
    before = files_in(folder)
    refused(
        graphshare(*line.split(), cwd=folder),
        "a format that this command does not write",
        "name a file that ends with .json",
    )
    assert files_in(folder) == before


@pytest.mark.parametrize("line", READING)
def test_an_answer_replaces_nothing_that_belongs_to_what_was_read(line: str, folder: Path) -> None:
    before = files_in(folder)
    for name in READING[line].split():
        answer = graphshare(*line.split(), "-o", name, cwd=folder)
        assert answer.returncode == 2, (name, answer.stderr)
        assert b"is also an input" in answer.stderr, (name, answer.stderr)
    assert files_in(folder) == before


def list_commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(context := click.Context(group)):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from list_commands(command, f"{path}{name} ")
        elif command is not None:
            yield f"{path}{name}", command


def test_every_command_with_several_formats_writes_its_answer_to_a_file() -> None:
    flags = {
        name: {flag for option in command.params for flag in option.opts}
        for name, command in list_commands(cli)
    }
    with_formats = {name for name, found in flags.items() if "--format" in found}
    assert len(with_formats) > 20
    assert [name for name in sorted(with_formats) if "-o" not in flags[name]] == []
    # Their formats are suffixes of -o, or what they write is not an answer.
    assert {name for name in flags if name not in with_formats} == {
        "completion", "draw", "foreach", "params convert", "params rename",
    }  # fmt: skip
    assert [name for name in ("draw", "foreach", "params rename") if "-o" not in flags[name]] == []
