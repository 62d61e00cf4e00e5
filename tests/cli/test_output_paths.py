"""Where outputs go, and that no command replaces what it reads unless it is told to."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from graphshare.cli.output import list_unread
from tests.processes import COMMAND, ROOT, done, environment, files_in, graphshare, refused

TRAIN = ["--seed", "0", "--shape", "data=1,1,28,28", "--sgd-steps", "1"]
REPLACING = [
    ("duplicate lenet --prefix b- -o lenet", ["lenet-symbol.json", "lenet-0000.params"]),
    ("duplicate lenet --prefix b- --dry-run -o lenet", ["lenet-symbol.json", "lenet-0000.params"]),
    (
        "share lenet --untie fc2_bias -o lenet-symbol.json --params-out other.params",
        ["lenet-symbol.json"],
    ),
    ("extract lenet --target pool2 -o lenet", ["lenet-symbol.json", "lenet-0000.params"]),
    ("rename lenet --prefix b- -o new --params-out lenet-0000.params", ["lenet-0000.params"]),
    ("rename lenet --prefix b- -o ./lenet", ["lenet-symbol.json", "lenet-0000.params"]),
    ("rename lenet --map names.json -o new --map-out names.json", ["names.json"]),
    (
        "rename lenet --rules rules.json -o new --map-out rules.json",
        ["rules.json", "the map would replace the rules"],
    ),
    (
        "group lenet lenet --prefix a_ --prefix b_ -o lenet",
        ["lenet-symbol.json", "lenet-0000.params"],
    ),
    (
        "upgrade lenet -o linked-symbol.json --params-out hard.params",
        ["linked-symbol.json", "hard.params"],
    ),
    ("format lenet --layout compact -o lenet-symbol.json", ["lenet-symbol.json"]),
    ("params convert lenet-0000.params lenet-0000.params", ["lenet-0000.params"]),
    (
        "params convert lenet-0000.params hard.params --select conv1*",
        ["same file as the input lenet-0000.params"],
    ),
    ("params convert lenet-0000.params .", ["./lenet-0000.params"]),
    (f"run lenet {' '.join(TRAIN)} --params-out lenet-0000.params", ["lenet-0000.params"]),
    ("run lenet --feed data=x.npz -o x.npz", ["x.npz", "the arrays would replace the feed"]),
    (
        "draw lenet --to dot -o lenet-symbol.json",
        ["lenet-symbol.json", "the picture would replace the graph"],
    ),
    (
        "check lenet -o lenet-0000.params",
        ["lenet-0000.params", "the report would replace the parameters"],
    ),
    (
        "check lenet --write-baseline lenet-symbol.json",
        ["lenet-symbol.json", "the baseline would replace the graph"],
    ),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with lenet, a symbolic link to its graph, a hard link to its parameters, rules, names and a feed."""
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path)
    (tmp_path / "linked-symbol.json").symlink_to("lenet-symbol.json")
    os.link(tmp_path / "lenet-0000.params", tmp_path / "hard.params")
    (tmp_path / "packed-symbol.json.gz").write_bytes(
        gzip.compress((tmp_path / "lenet-symbol.json").read_bytes())
    )
    (tmp_path / "names.json").write_text('{"data": "image"}')
    (tmp_path / "rules.json").write_text(
        '{"version": 1, "rules": [{"match": "conv1*", "to": "c1*"}]}'
    )
    np.savez(tmp_path / "x.npz", data=np.zeros((1, 1, 28, 28), "f"))
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in files_in(folder)}


@pytest.mark.parametrize(("line", "words"), REPLACING, ids=[line for line, _ in REPLACING])
def test_an_output_that_is_an_input_is_refused(line: str, words: list[str], folder: Path) -> None:
    before = contents(folder)
    refused(graphshare(*line.split(), cwd=folder), *words)
    assert contents(folder) == before


def test_what_replaces_another_kind_of_file_is_refused_in_place_too(folder: Path) -> None:
    before = contents(folder)
    line = "rename lenet --prefix b- -o lenet-0000.params --params-out lenet-symbol.json --in-place"
    said = refused(graphshare(*line.split(), cwd=folder), "the graph would replace the parameters")
    assert "the parameters would replace the graph" in said
    assert "--in-place" not in said
    assert contents(folder) == before


def test_stdin_and_stdout_are_files_too(folder: Path) -> None:
    before = contents(folder)
    with open(folder / "lenet-symbol.json", "rb") as file:
        run = subprocess.run([*COMMAND, "rename", "-", "--prefix", "b-", "-o", "linked-symbol.json"], stdin=file, cwd=folder,
                             capture_output=True, env=environment(), check=False)  # fmt: skip
    refused(run, "same file as the input <stdin>")
    with open(folder / "lenet-symbol.json", "ab") as out:
        run = subprocess.run([*COMMAND, "rename", "linked-symbol.json", "--prefix", "b-"], stdout=out, cwd=folder,
                             stderr=subprocess.PIPE, env=environment(), check=False)  # fmt: skip
    assert run.returncode == 2
    assert b"<stdout>" in run.stderr
    assert contents(folder) == before
    # One device, and no file that could be lost
    with (
        open(os.devnull, "rb") as null,
        open(os.devnull, "ab") as out,
    ):
        run = subprocess.run([*COMMAND, "format", "lenet", "-o", "/dev/null"], stdin=null, stdout=out, cwd=folder,
                             stderr=subprocess.PIPE, env=environment(), check=False)  # fmt: skip
    assert run.returncode == 0


def test_in_place_replaces_the_files_that_were_read(folder: Path) -> None:
    expected = {}
    for line in ("rename lenet --prefix b-", "extract lenet --target pool2", "upgrade lenet", "format lenet --layout indent:2",
                 "rename lenet-symbol.json --params lenet-0000.params --prefix c-"):  # fmt: skip
        for name in ("lenet-symbol.json", "lenet-0000.params"):
            shutil.copy(ROOT / "fixtures" / name, folder)
        more = ["--params-out", "new-0000.params"] if "--params" in line else []
        done(
            graphshare(*line.split(), "-o", "new-symbol.json" if more else "new", *more, cwd=folder)
        )
        expected = {
            end: (folder / f"new-{end}").read_bytes()
            for end in ("symbol.json", "0000.params")
            if "format" not in line
        }
        run = done(graphshare(*line.split(), "--in-place", cwd=folder))
        assert b"wrote lenet-symbol.json" in run.stderr
        assert {end: (folder / f"lenet-{end}").read_bytes() for end in expected} == expected
        assert (folder / "lenet-symbol.json").read_bytes() == (
            folder / "new-symbol.json"
        ).read_bytes()
    assert (folder / "linked-symbol.json").is_symlink()
    done(
        graphshare(
            "params",
            "convert",
            "lenet-0000.params",
            "lenet-0000.params",
            "--select",
            "*bias",
            "--in-place",
            cwd=folder,
        )
    )
    assert all(name.endswith("bias") for name in gs.load(folder / "lenet").params)


def test_the_parameters_go_with_the_graph_that_is_replaced(folder: Path) -> None:
    done(
        graphshare(
            "rename",
            "lenet",
            "--prefix",
            "b-",
            "-o",
            "linked-symbol.json",
            "--in-place",
            cwd=folder,
        )
    )
    assert gs.load(folder / "lenet").params["b-fc2_bias"].shape == (10,)
    assert (folder / "linked-symbol.json").is_symlink()


def test_in_place_needs_files_to_replace(folder: Path) -> None:
    text = (folder / "lenet-symbol.json").read_bytes()
    refused(
        graphshare("rename", "-", "--prefix", "b-", "--in-place", data=text, cwd=folder),
        "the graph comes from none",
    )
    (folder / "packed.json.gz").write_bytes(gzip.compress(text))
    refused(
        graphshare("rename", "packed.json.gz", "--prefix", "b-", "--in-place", cwd=folder),
        "without compression",
        "-o",
    )
    refused(
        graphshare(
            "group", "lenet", "lenet", "--prefix", "a_", "--prefix", "b_", "--in-place", cwd=folder
        ),
        "2 graphs",
    )
    line = f"run lenet-symbol.json --random-params 0 {' '.join(TRAIN)} --in-place"
    refused(graphshare(*line.split(), cwd=folder), "there is none", "--params-out")
    refused(
        graphshare("run", "lenet", "--seed", "0", "--in-place", cwd=folder),
        "--in-place needs --sgd-steps",
    )


def test_training_names_the_file_it_writes(folder: Path) -> None:
    run = done(
        graphshare("run", "lenet", *TRAIN, "-o", "y.npz", "--params-out", "new.params", cwd=folder)
    )
    assert b"wrote y.npz: softmax_output\nwrote new.params: 16 arrays\n" in run.stderr
    before = (folder / "lenet-0000.params").read_bytes()
    run = done(graphshare("run", "lenet", *TRAIN, "--in-place", cwd=folder))
    assert b"wrote lenet-0000.params: 16 arrays\n" in run.stderr
    assert (
        (folder / "lenet-0000.params").read_bytes()
        == (folder / "new.params").read_bytes()
        != before
    )


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("duplicate lenet --prefix b- -o {}", ["lenet-0000.params", "lenet-symbol.json"]),
        ("upgrade packed-symbol.json.gz -o {}", ["packed-symbol.json"]),
        (
            "extract lenet-symbol.json --target pool2 -o {} --map-out {}",
            ["lenet-map.json", "lenet-symbol.json"],
        ),
        ("rename lenet --prefix b- -o new --params-out {}", ["lenet-0000.params"]),
        (
            "group lenet lenet --prefix a_ --prefix b_ -o {}",
            ["lenet-0000.params", "lenet-symbol.json"],
        ),
        ("upgrade lenet -o {}", ["lenet-0000.params", "lenet-symbol.json"]),
        ("format lenet -o {}", ["lenet-symbol.json"]),
        ("params convert lenet-0000.params {}", ["lenet-0000.params"]),
        ("params convert lenet-0000.params {} --to npz", ["lenet-0000.npz"]),
        (
            f"run lenet {' '.join(TRAIN)} -o {{}} --params-out {{}}",
            ["lenet-0000.params", "lenet.npz"],
        ),
        ("draw lenet -o {}", ["lenet.dot"]),
        ("draw lenet -o {} --to mermaid", ["lenet.mmd"]),
    ],
)
@pytest.mark.parametrize("directory", ["out", "out.d/", "out.json"])
def test_an_output_goes_into_a_directory(
    line: str, files: list[str], directory: str, folder: Path
) -> None:
    (folder / directory).mkdir()
    run = done(graphshare(*line.format(directory, directory).split(), cwd=folder))
    assert files_in(folder / directory) == files
    said = run.stderr.decode()
    assert [name for name in files if f"{directory.rstrip('/')}/{name}" not in said] == []


def test_a_directory_needs_a_name_in_it(folder: Path) -> None:
    (folder / "out").mkdir()
    text = (folder / "lenet-symbol.json").read_bytes()
    refused(
        graphshare("rename", "-", "--prefix", "b-", "-o", "out", data=text, cwd=folder),
        "stdin",
        "name it: out/NAME",
    )
    refused(
        graphshare("rename", "lenet", "--prefix", "b-", "-o", "none/", cwd=folder),
        "none/lenet-symbol.json",
        "mkdir -p none",
    )
    assert files_in(folder / "out") == []


def test_what_comes_from_stdin_gets_no_name_in_a_folder(folder: Path) -> None:
    (folder / "out").mkdir()
    before = files_in(folder)
    for line, name in (
        ("split - --at pool2 -o parts", "lenet-symbol.json"),
        ("params convert - out", "lenet-0000.params"),
        ("params convert - out --to npz", "lenet-0000.params"),
        ("params rename - --prefix b- -o out", "lenet-0000.params"),
    ):
        data = (folder / name).read_bytes()
        refused(graphshare(*line.split(), data=data, cwd=folder), "stdin", "no name")
    assert files_in(folder) == before


@pytest.mark.parametrize(
    "line",
    [
        "params convert lenet-0000.params - --to npz",
        "params rename lenet-0000.params --prefix b- -o -",
        "params tie . -o -",
        "params untie . -o -",
        "check lenet --write-baseline -",
        "split lenet --at pool2 -o -",
        "pool lenet -o -",
        "compare lenet lenet --reduce -",
        "rename lenet --prefix b- -o new --params-out -",
        "rename lenet --prefix b- -o new --map-out -",
        f"run lenet {' '.join(TRAIN)} --params-out -",
        "foreach lenet-symbol.json -o - -- rename {} --prefix b-",
        "foreach lenet-symbol.json --manifest - -- inspect {}",
    ],
)
def test_only_one_file_with_a_graph_arrays_or_an_answer_goes_to_stdout(
    line: str, folder: Path
) -> None:
    before = files_in(folder)
    refused(graphshare(*line.split(), cwd=folder), "cannot go to stdout", "name a")
    assert files_in(folder) == before


@pytest.mark.parametrize(
    "line",
    [
        "duplicate lenet --prefix b- -o new --params-out new.safetensor",
        f"run lenet {' '.join(TRAIN)} --params-out new.safetensor",
        "params convert lenet-0000.params new.safetensor",
        "params rename lenet-0000.params --prefix b- -o new.safetensor",
        f"pool {ROOT}/fixtures/cases/draw/onnx/in/small.onnx -o new --data new.safetensor",
    ],
)
def test_a_misspelt_suffix_of_parameters_is_refused(line: str, folder: Path) -> None:
    refused(graphshare(*line.split(), cwd=folder), "did you mean '.safetensors'?")
    assert not list(folder.glob("new*"))


def test_a_suffix_of_no_format_or_of_the_source_is_kept(folder: Path) -> None:
    shutil.copy(folder / "lenet-0000.params", folder / "lenet.param")
    source = ["rename", "lenet-symbol.json", "--params", "lenet.param", "--prefix", "b-"]
    for name in ("new.bak", "new", "new.param"):
        done(graphshare(*source, "-o", "new-symbol.json", "--params-out", name, cwd=folder))
        assert gs.load(folder / "new-symbol.json", params=folder / name).parameter_file is not None


@pytest.mark.skipif(sys.platform != "linux", reason="/proc belongs to Linux")
def test_a_folder_that_exists_and_takes_no_file_is_not_to_be_made(folder: Path) -> None:
    said = refused(graphshare("rename", "lenet", "--prefix", "b-", "-o", "/proc/x", cwd=folder))
    assert "no file can be made in its directory" in said
    assert "mkdir" not in said


def test_a_report_in_a_file_is_announced(folder: Path) -> None:
    assert (
        b"wrote report.txt\n"
        in done(graphshare("check", "lenet", "-o", "report.txt", cwd=folder)).stderr
    )


def test_functions_replace_no_input_either(folder: Path) -> None:
    before = contents(folder)
    lenet = gs.load(folder / "lenet")
    for model in (
        gs.extract(lenet, "pool2"),
        lenet.with_params({"fc2_bias": np.zeros(10, "f")}),
        gs.rename(lenet, prefix="b-"),
    ):
        with pytest.raises(gs.GraphshareError, match="is also the input") as caught:
            gs.save(model, folder / "lenet")
        assert len(caught.value.faults) == 2
        assert "in_place=True" in caught.value.faults[0].hint
    with pytest.raises(gs.GraphshareError, match="same file as the input"):
        gs.convert(folder / "lenet-0000.params", folder / "hard.params")
    assert contents(folder) == before
    (folder / "out").mkdir()
    assert gs.save(gs.rename(lenet, prefix="b-"), folder / "out").files() == [
        str(folder / "out" / "lenet-symbol.json"),
        str(folder / "out" / "lenet-0000.params"),
    ]
    with pytest.raises(gs.GraphshareError, match="no name"):
        gs.save(gs.Checkpoint(lenet.graph), folder / "out")
    gs.save(gs.rename(lenet, prefix="b-"), folder / "lenet", in_place=True)
    assert gs.load(folder / "lenet").params["b-fc2_bias"].shape == (10,)
    gs.convert(
        folder / "lenet-0000.params", folder / "lenet-0000.params", select=["*bias"], in_place=True
    )
    assert len(gs.load(folder / "lenet").params) == 4


def test_a_parameter_file_that_is_not_read_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for end in ("symbol.json", "0000.params"):
        shutil.copy(ROOT / "fixtures" / f"lenet-{end}", tmp_path)
    shutil.copy(tmp_path / "lenet-0000.params", tmp_path / "other.params")
    monkeypatch.chdir(tmp_path)
    bare = gs.load("lenet-symbol.json")
    note = "its parameters are in lenet-0000.params, which is not read; name both by the stem lenet"
    assert (
        list_unread(bare)
        == list_unread(gs.rename(bare, prefix="a-"))
        == [f"lenet-symbol.json: {note}"]
    )
    assert list_unread(gs.load("lenet")) == []
    assert list_unread(gs.load("lenet-symbol.json", params="other.params")) == []
