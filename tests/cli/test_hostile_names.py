"""Names are data: no output for people or for a terminal lets a name break a line, move the cursor
or turn the text around.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT, graphshare, on_terminal, write_json, write_params
from tests.symbols import two_layers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="file names of any bytes")

HOSTILE = "x\n::error file=a.c,line=1::pwned\r\u202e\x9b31m\x7f\u2028"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
COMMANDS = [
    "check bad",
    "check bad --format json",
    "check bad --format junit",
    "check bad --format github",
    "inspect bad",
    "inspect bad --shape softmax_label=2",
    "inspect bad --shape softmax_label=2 --format json",
    "duplicate bad --prefix b- -o o",
    "duplicate bad --prefix b- --dry-run",
    "duplicate bad --prefix b- --dry-run --format json",
    "duplicate bad --prefix b- --copy nothing -o o",
    "run bad --seed 0 --shape softmax_label=2",
    "run bad --seed 0 --random-params 1",
    "run bad --seed 0 --random-params 1 --shape softmax_label=2 --target nothing",
    "verify bad",
    "draw bad --to mermaid",
    "draw bad --to dot",
    "extract bad --target nothing -o o",
    "extract bad --target fc* -o o",
    "rename bad --match nothing --replace x -o o",
    "share bad --detect",
    "share bad --alias nothing=fc2_weight -o o",
    "fold bad -o o",
    "fold bad --dry-run",
    "upgrade bad -o o",
    "group bad bad --prefix a --prefix a -o o",
    "params list bad",
    "params list bad --format json",
    "params show bad",
    "params stats bad",
    "params convert bad-0000.params o.npz --select nothing",
    "params diff bad-0000.params other.params",
    "diff bad other-symbol.json",
    "diff bad other-symbol.json --format json",
]


@pytest.fixture(scope="module")
def hostile_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    found = two_layers()
    write_json(folder / "other-symbol.json", found)
    for node in found["nodes"]:
        if node["name"] not in ("softmax_label", "softmax", "fc2_weight"):
            node["name"] += HOSTILE
    write_json(folder / "bad-symbol.json", found)
    names = [
        node["name"]
        for node in found["nodes"]
        if node["op"] == "null" and "moving" not in node["name"]
    ]
    write_params(
        folder / "bad-0000.params", [f"arg:{name}" for name in names if not name.startswith("data")]
    )
    write_params(folder / "other.params", ["arg:fc2_weight"], shape=(3,))
    return folder


@pytest.mark.parametrize("line", COMMANDS)
def test_no_name_breaks_a_line(line: str, hostile_folder: Path) -> None:
    run = graphshare(*line.split(), cwd=hostile_folder)
    assert b"bug in graphshare" not in run.stderr
    for text in (run.stdout.decode(), run.stderr.decode()):
        assert "\n::error file=a.c" not in f"\n{text}"
        assert line.endswith(("json", "junit")) or not RAW.search(text)


@pytest.mark.parametrize(
    "line",
    [*COMMANDS, "check bad --format sarif", "inspect . --format json"],
)
def test_a_terminal_gets_printable_text(line: str, hostile_folder: Path) -> None:
    code, out, err = on_terminal(*line.split(), cwd=hostile_folder)
    for text in (out, err):
        # Colours and progress
        plain = re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", text).replace("\r\n", "\n").replace("\r", "")
        assert "\n::error file=a.c" not in f"\n{plain}"
        assert not RAW.search(plain), (code, plain)
    if line.endswith("json") and out.startswith("{"):
        json.loads(out)


@pytest.mark.large
@pytest.mark.parametrize(
    "line",
    [
        "check {} --format json", "check {} --format sarif", "check {} --format junit", "check {} --format github", "check {}",
        "inspect {}", "inspect {} --format json", "inspect . --format json", "inspect .",
        "duplicate {} --prefix b- -o o --map-out map.json", "duplicate {} --prefix b- --dry-run --format json",
        "run {} --seed 0 --random-params 0 --shape data=1,1,28,28 --format json -o o.npz",
        "verify {} --format json", "draw {} -o x.svg", "draw {} -o x.html", "draw {} --to mermaid",
        "rename {} --prefix a -o p", "share {} --detect --format json", "fold {} -o f --map-out m.json", "fold {} --dry-run",
        "params list {} --format json", "params list {}", "params show {} --format json", "params stats {} --format json",
        "params stats {}", "params convert {}-0000.params o.npz", "params diff {}-0000.params lenet-0000.params --format json",
        "params diff {}-0000.params lenet-0000.params", "diff {} lenet --format json", "diff {} lenet", "check --diff {}",
        "upgrade {} -o u", "group lenet {} --prefix a --prefix b -o g --map-out n.json", "format {}",
    ],
)  # fmt: skip
def test_names_that_are_not_utf_8_never_crash_a_report(line: str, tmp_path: Path) -> None:
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        data = (ROOT / "fixtures" / name).read_bytes()
        (tmp_path / name).write_bytes(data)
        (tmp_path / name.replace("lenet", "\udcff")).write_bytes(
            data.replace(b"arg:conv1_weight", b"arg:conv1_\xff\xfeight")
        )
    run = graphshare(*line.format("\udcff").split(), cwd=tmp_path, PYTHONUTF8="1")
    assert b"bug in graphshare" not in run.stderr, run.stderr
    assert b"Traceback" not in run.stderr
    assert run.returncode in (0, 1) or run.stderr.startswith((b"error: ", b"warning: "))
    if "json" in line and run.stdout.startswith(b"{"):
        json.loads(run.stdout)
    assert os.fsencode("\udcff") not in run.stdout


@pytest.mark.parametrize(
    "command", ["rename net --prefix {} -o o.json", "duplicate net --prefix {} -o o.json"]
)
def test_a_prefix_of_bytes_that_are_not_utf_8_is_refused(tmp_path: Path, command: str) -> None:
    write_json(tmp_path / "net-symbol.json", two_layers())
    done = graphshare(*command.format("a\udcffb").split(), cwd=tmp_path)
    assert done.returncode == 2
    assert b"a symbol file is UTF-8, and this text is not" in done.stderr
    assert b"bug" not in done.stderr
    assert not (tmp_path / "o.json").exists()
