"""What is not read says so: folders and files left out, parameters beside a symbol file, old
parameters beside a new one.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

import graphshare as gs
from graphshare.checks.engine import RULES
from graphshare.formats.model_names import PARAMETER_ENDINGS
from graphshare.formats.params.format import list_formats
from tests.processes import ROOT, graphshare, in_process
from tests.unit.checks.examples import graph_bytes

LENET = ROOT / "fixtures" / "lenet"
COMMANDS = {
    "check": ["check", "models"],
    "inspect": ["inspect", "models"],
    "foreach": ["foreach", "models", "--", "format", "{}", "--check"],
}


def put(folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(f"{LENET}-symbol.json", folder / f"{name}-symbol.json")
    shutil.copy(f"{LENET}-0000.params", folder / f"{name}-0000.params")


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    """A folder of a sound model; broken ones are in folders that do not count, or that can be excluded."""
    put(tmp_path / "models" / "new", "net")
    for folder in (
        ".git",
        "a/.venv",
        "venv",
        "node_modules",
        "a/__pycache__",
        "own",
        "own/lib",
        "old",
        "a/old",
    ):
        path = tmp_path / "models" / folder
        path.mkdir(parents=True, exist_ok=True)
        (path / "x-symbol.json").write_text("{")
    (tmp_path / "models" / "own" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    return tmp_path


def run(command: str, cwd: Path, *options: str) -> tuple[int, str]:
    name, folder, *rest = COMMANDS[command]
    answer = (graphshare if command == "foreach" else in_process)(
        name, folder, *options, *rest, cwd=cwd
    )
    return answer.returncode, answer.stderr.decode()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "patterns", [["old"], ["old", "a/old"], ["**/old"], ["./old/", "a/*"], ["*/x-*", "x-*.json"]]
)
def test_excluded_folders_are_left_out(command: str, patterns: list[str], cwd: Path) -> None:
    code, said = run(
        command, cwd, *(word for pattern in patterns for word in ("--exclude", pattern))
    )
    assert code == 0
    assert "skipped 6 folders (hidden or of an environment)\nexcluded 2 paths\n" in said
    code, said = run(command, cwd, "--exclude", "a")
    assert code != 0
    assert "skipped 4 folders (hidden or of an environment)\nexcluded 1 path\n" in said


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_folder_is_an_error(command: str, cwd: Path) -> None:
    """Also where everything is excluded: what was looked for, and what was left out, is said."""
    code, said = run(command, cwd, "--exclude", "*-symbol.json", "--exclude", "*.params")
    assert code == 2
    assert "skipped 6 folders (hidden or of an environment); excluded 4 paths; " in said
    assert "-symbol.json" in said.partition("error: ")[2] or "symbol files" in said
    assert ".onnx" in said or "ONNX models" in said


def test_the_library_excludes_too(cwd: Path) -> None:
    assert not gs.check(cwd / "models", exclude="old").findings
    assert [
        Path(facts.graph).name for facts in gs.inspect_folder(cwd / "models", exclude=["old"])
    ] == ["net-symbol.json"]
    assert gs.foreach(cwd / "models", ["format", "{}", "--check"], exclude="old").total == 1


@pytest.mark.parametrize("words", [["check"], ["inspect"], ["foreach"]])
def test_without_a_folder_nothing_is_excluded(words: list[str], cwd: Path) -> None:
    rest = ["--", "format", "{}", "--check"] if words == ["foreach"] else []
    answer = graphshare(*words, "models/new/net", "--exclude", "old", *rest, cwd=cwd)
    assert answer.returncode == 2
    assert b"--exclude applies to folders, and none is given" in answer.stderr


def test_the_endings_of_parameter_files_are_those_of_their_formats() -> None:
    assert tuple(format_.suffix for format_ in list_formats()) == PARAMETER_ENDINGS


def test_a_parameter_file_is_checked_with_its_graph(tmp_path: Path) -> None:
    put(tmp_path, "net")
    shutil.copy(ROOT / "fixtures" / "blog-0000.params", tmp_path / "net-0000.params")
    by_stem = in_process("check", "net", cwd=tmp_path)
    assert by_stem.returncode == 1
    for words in (
        ["net-0000.params"],
        ["net-symbol.json", "net-0000.params"],
        ["net-0000.params", "net-symbol.json"],
    ):
        assert in_process("check", *words, cwd=tmp_path).stdout == by_stem.stdout
    (tmp_path / "net-symbol.json").unlink()
    assert in_process("check", "net-0000.params", cwd=tmp_path).stdout == b"1 file: no findings\n"


def test_what_an_older_epoch_lacks_names_its_file(tmp_path: Path) -> None:
    put(tmp_path / "one", "net")
    shutil.copy(f"{LENET}-0000.params", tmp_path / "one" / "net-0001.params")
    shutil.copy(ROOT / "fixtures" / "blog-0000.params", tmp_path / "one" / "net-0000.params")
    report = json.loads(
        in_process("check", "one", "--format", "json", "--select", "GS402", cwd=tmp_path).stdout
    )
    assert report["files"] == ["one/net-symbol.json"]
    assert {finding["message"].partition("' ")[2] for finding in report["findings"]} == {
        "(one/net-0000.params)"
    }
    (tmp_path / "one" / "net-0000.params").write_bytes(b"")
    answer = in_process("inspect", "one", cwd=tmp_path)
    assert answer.returncode == 2
    assert b"net-0000.params: is empty" in answer.stdout


@pytest.mark.parametrize("words", [["check", "a-symbol.json"], ["foreach", "a-symbol.json"]])
@pytest.mark.parametrize("strict", [False, True])
def test_junit_fails_where_the_exit_code_does(
    words: list[str], strict: bool, tmp_path: Path
) -> None:
    (tmp_path / "a-symbol.json").write_bytes(graph_bytes(RULES["GS204"].fails))
    assert RULES["GS204"].level.value == "warning"
    more = ["--strict"] if strict else []
    rest = (
        ["--report", "junit", "--", "check", "{}", *more]
        if words[0] == "foreach"
        else ["--format", "junit", *more]
    )
    answer = graphshare(*words, *rest, cwd=tmp_path)
    root = ElementTree.fromstring(answer.stdout)
    assert answer.returncode == int(strict)
    assert (int(root.attrib["failures"]) > 0) is strict
    assert ("GS204" in "".join(root.itertext())) is True


UNREAD = "net-symbol.json: its parameters are in net-0000.params, which is not read; name both by the stem net\n"
REWRITES = [
    ["rename", "net-symbol.json", "--prefix", "a_"],
    ["duplicate", "net-symbol.json", "--prefix", "a_"],
    ["extract", "net-symbol.json", "--target", "fc1_output"],
    ["share", "net-symbol.json", "--alias", "conv1_bias=bn1_beta"],
    ["upgrade", "net-symbol.json"],
    ["group", "net-symbol.json", "net-symbol.json", "--prefix", "a_", "--prefix", "b_"],
]


@pytest.mark.parametrize("words", REWRITES, ids=lambda words: words[0])
def test_parameters_that_are_not_read_are_named(words: list[str], tmp_path: Path) -> None:
    put(tmp_path, "net")
    answer = in_process(*words, "-o", "out-symbol.json", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert UNREAD in answer.stderr.decode()
    assert b"copied:" not in answer.stderr
    assert UNREAD in in_process(*words, cwd=tmp_path).stderr.decode()
    by_stem = in_process(
        *("net" if word == "net-symbol.json" else word for word in words),
        "-o",
        "both",
        cwd=tmp_path,
    )
    assert b"not read" not in by_stem.stderr
    assert (b"copied: 16 parameters" in by_stem.stderr) == (words[0] == "duplicate")


def test_old_parameters_that_do_not_fit_the_new_graph_are_named(tmp_path: Path) -> None:
    put(tmp_path, "net")
    put(tmp_path, "out")
    told = b"out-0000.params was there before and does not fit the new out-symbol.json: it "
    for words in (
        ["rename", "net-symbol.json", "--prefix", "a_"],
        ["extract", "net-symbol.json", "--target", "fc1_output"],
    ):
        refused = in_process(*words, "-o", "out-symbol.json", "--strict", cwd=tmp_path)
        assert (refused.returncode, b"error: " + told in refused.stderr) == (2, True)
        answer = in_process(*words, "-o", "out-symbol.json", cwd=tmp_path)
        assert (answer.returncode, b"warning: " + told in answer.stderr) == (0, True)
    fits = in_process("rename", "net-symbol.json", "--prefix", "", "--match", "conv1", "--to", "c", "-o", "net-symbol.json",
                      "--in-place", cwd=tmp_path)  # fmt: skip
    assert (fits.returncode, b"there before" in fits.stderr) == (0, False)
    in_place = in_process("rename", "net-symbol.json", "--prefix", "a_", "--in-place", cwd=tmp_path)
    assert (
        b"warning: net-0000.params was there before and does not fit the new net-symbol.json"
        in in_place.stderr
    )


def test_the_parameters_that_are_written_are_not_old(tmp_path: Path) -> None:
    put(tmp_path, "net")
    put(tmp_path, "out")
    shutil.copy(tmp_path / "out-0000.params", tmp_path / "out-0007.params")
    answer = in_process(
        "rename",
        "net",
        "--prefix",
        "a_",
        "-o",
        "out-symbol.json",
        "--params-out",
        "./out-0000.params",
        cwd=tmp_path,
    )
    assert answer.stderr.count(b"was there before") == 1
    assert b"warning: out-0007.params was there before" in answer.stderr
    answer = in_process("format", "net", "-o", "out-symbol.json", cwd=tmp_path)
    assert b"warning: out-0000.params was there before" in answer.stderr
    assert b"out-0007" not in answer.stderr
