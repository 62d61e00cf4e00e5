"""SECURITY.md: each promise names tests that exist, and the sources keep what no single run can show."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import graphshare as gs
from graphshare.cli.command import READS, WRITES, list_sections
from graphshare.drawing.languages import LIMIT
from graphshare.files.open_source import MAX_UNPACKED
from graphshare.formats.images.header import FORMATS, MAX_PIXELS
from graphshare.formats.images.images import MAX_RESIZED
from graphshare.formats.model_file import MAX_STREAM
from graphshare.formats.mxnet.document import MAX_NESTING
from graphshare.python_process import start_python
from tests.audit import log_events
from tests.meta.test_docs import GENERATE
from tests.processes import ROOT, write_json
from tests.remote.web_server import serve
from tests.symbols import document, operator, variable
from tests.syntax import parse
from tests.watch import (
    MODELS,
    TABLE,
    Doings,
    NotInstalledError,
    judge,
    list_stray_writes,
    list_writing_options,
    make_models,
    watch,
)

PAGE = ROOT / "SECURITY.md"
MODULES = sorted((ROOT / "graphshare").rglob("*.py"))
LOADS_CODE = {
    "pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "joblib",
    "runpy",
    "code",
    "ctypes",
    "cffi",
}
CONNECTS = {
    "socket",
    "ssl",
    "http",
    "ftplib",
    "smtplib",
    "asyncio",
    "urllib.request",
    "requests",
    "httpx",
    "fsspec",
    "webbrowser",
}
STARTS = {"subprocess", "pty", "multiprocessing"}
CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "system",
    "popen",
    "execv",
    "execvp",
    "spawnv",
    "fork",
}


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that a source imports, each with its parents."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[: i + 1]) for i in range(len(parts)))


def called(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a source calls, ``re.compile`` and methods of objects apart from those of ``os``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node.func.id
            elif (
                isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "os"
            ):
                yield node.func.attr


@cache
def list_uses(source: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the modules that a source imports and the names that it calls."""
    tree = parse(source)
    return frozenset(imported(tree)), frozenset(called(tree))


def find_uses(modules: set[str], calls: set[str], sources: dict[str, str]) -> dict[str, set[str]]:
    listed = {name: list_uses(source) for name, source in sources.items()}
    found = {
        name: set(imports & modules) | (names & calls) for name, (imports, names) in listed.items()
    }
    return {name: uses for name, uses in found.items() if uses}


def read_sources() -> dict[str, str]:
    return {
        str(path.relative_to(ROOT / "graphshare")): path.read_text(encoding="utf-8")
        for path in MODULES
    }


def test_nothing_loads_code_from_a_file() -> None:
    sources = read_sources()
    assert find_uses(LOADS_CODE, CALLS, sources) == {}
    assert [
        name for name, source in sources.items() if re.search(r"allow_pickle\s*=\s*True", source)
    ] == []


def test_only_the_modules_of_urls_open_connections_and_nothing_starts_a_program() -> None:
    sources = read_sources()
    remote = {name: sources.pop(name) for name in list(sources) if name.startswith("files/remote/")}
    assert set().union(*find_uses(CONNECTS | STARTS, set(), remote).values()) <= {
        "fsspec",
        "asyncio",
    }
    uses = find_uses(CONNECTS | STARTS, set(), sources)
    assert set().union(*uses.values()) <= {"subprocess", "multiprocessing"}
    starting = {name for name, words in uses.items() if "subprocess" in words}
    assert {name for name in starting if not name.startswith("drawing/")} == {
        "confined_process.py",
        "python_process.py",
        "worker_process.py",
    }


QUOTING = {
    "shlex": {"text/markup.py"},
    # A page as a whole, in an attribute of a notebook's frame
    "html.escape": {"text/markup.py", "drawing/drawing.py"},
    "xml.sax.saxutils": {"reports/junit.py"},
}
"""What writes a name into text of another language, and the modules that may: one for each language."""


def test_each_language_has_one_writer_of_names() -> None:
    sources = read_sources()
    assert {each: set(find_uses({each}, set(), sources)) for each in QUOTING} == QUOTING


def test_such_uses_are_found() -> None:
    sources = {
        "a.py": "import os\nos.system('x')",
        "b.py": "from urllib import request",
        "c.py": "re.compile('a')",
        "d.py": "eval('1')",
    }
    assert find_uses(LOADS_CODE | CONNECTS, CALLS, sources) == {
        "a.py": {"system"},
        "b.py": {"urllib.request"},
        "d.py": {"eval"},
    }


def test_the_bounds_are_those_of_the_code() -> None:
    assert (MAX_NESTING, MAX_UNPACKED, MAX_STREAM, LIMIT) == (64, 1 << 28, 1 << 30, 120)
    assert (MAX_PIXELS, MAX_RESIZED) == (89_478_485, 16_777_216)
    assert FORMATS == ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert (
        "(64 levels in a graph), gzip data (256<!-- fact: MiB unpacked --> MiB) and pipes (1 GB)"
        in text
    )
    assert "stop it after two minutes" in text


# Each sentence of the page names its tests in a note.

_NOTE = re.compile(r"\[\^([\w-]+)\]")
_END = re.compile(r"(?<=[.!?])(?:\*\*)?(?!\w)(?:\[\^[\w-]+\])*(?=\s|$)")


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of Markdown text with the notes that follow them, of lists each item for
    itself; no tables.
    """
    for paragraph in re.split(r"\n\n|\n(?=- )", text):
        words = " ".join(paragraph.removeprefix("- ").split())
        start = 0
        for end in (
            []
            if words.startswith(("|", "#", "<!--"))
            else [match.end() for match in _END.finditer(words)]
        ):
            yield words[start:end].strip()
            start = end
        if words[start:].strip() and not words.startswith(("|", "#", "<!--")):
            yield words[start:].strip()


def find_faults(page: str, root: Path) -> list[str]:
    """Return the promises without a note, the notes that are missing or left over, and their tests
    that do not exist.
    """
    promises = page.partition("## What is promised\n")[2].partition("\n## What is not promised")[0]
    notes = dict(re.findall(r"^\[\^([\w-]+)\]: (.*(?:\n    .*)*)", page, re.M))
    faults = [sentence for sentence in split_sentences(promises) if not _NOTE.search(sentence)]
    used = dict.fromkeys(_NOTE.findall(promises))
    faults += [
        f"[^{label}]"
        for label in dict.fromkeys([*used, *notes])
        if label not in used or label not in notes
    ]
    for text in notes.values():
        tests = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text)
        if not tests or re.sub(r"`[^`]*`", "", text).strip(" ,\n"):
            faults.append(text)
        for file, test in tests:
            path = root / file
            if not path.exists() or not re.search(
                rf"^def {test}\(", path.read_text(encoding="utf-8"), re.M
            ):
                faults.append(f"{file}::{test}")
    return faults


def test_every_promise_names_tests_that_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert find_faults(text, ROOT) == []
    assert find_faults(text.replace("test_pickles_are_never_opened", "test_x"), ROOT) == [
        "tests/cli/test_commands.py::test_x"
    ]


@pytest.mark.parametrize(
    ("promises", "faults"),
    [
        ("- **A.**[^a] B.[^a]", []),
        ("- **A.** B.[^a]", ["**A.**"]),
        ("- **A**, so\n  that `b.c` is. B.[^a]\n- C", ["**A**, so that `b.c` is.", "C"]),
        ("A.[^a]\n\n| B. |\n| --- |\n\nC! D.[^a]", ["C!"]),
        ("A.[^b]", ["[^b]", "[^a]"]),
    ],
)
def test_a_sentence_without_a_test_is_found(promises: str, faults: list[str]) -> None:
    note = (
        "[^a]: `tests/meta/test_security.py::test_such_uses_are_found`,\n    "
        "`tests/cli/test_limits.py::test_sizes`\n"
    )
    assert (
        find_faults(
            f"## What is promised\n\n{promises}\n\n## What is not promised\n\nE.\n\n{note}", ROOT
        )
        == faults
    )


def test_a_note_without_a_test_is_found() -> None:
    page = (
        "## What is promised\n\nA.[^a] B.[^b]\n\n## What is not promised\n\n[^a]: none\n[^b]: "
        "`tests/a.py::test_b`, and more\n"
    )
    assert find_faults(page, ROOT) == [
        "none",
        "`tests/a.py::test_b`, and more",
        "tests/a.py::test_b",
    ]


# The table of commands, which docs/generate.py writes.


def test_the_table_is_that_of_the_commands() -> None:
    rows = "\n".join(TABLE.format_rows(GENERATE.list_commands()))
    assert f"\n| --- | --- | --- | --- | --- | --- |\n{rows}\n\n" in PAGE.read_text(
        encoding="utf-8"
    )


def test_cells_follow_from_options_and_from_what_was_measured() -> None:
    @click.command("fold")
    @click.option("--max-memory")
    @click.option("--map-out")
    @click.option("-o", "--out")
    def fold() -> None:
        pass

    nothing: dict[str, list[str]] = {"writes": [], "starts": []}
    python, both = (
        {"writes": ["-o"], "starts": ["python"]},
        {"writes": ["--map-out"], "starts": ["dot", "python"]},
    )
    measured = {
        "fold": {"mxnet": nothing, "onnx": nothing},
        "fold --one": {"mxnet": python, "onnx": python},
        "fold --one --two": {"onnx": python},
        "fold --three x": {"onnx": both},
        "folder": {"mxnet": both, "onnx": both},
    }
    starts = "Python with `--one`, for ONNX models with `--three x`; `dot` for ONNX models with `--three x`"
    cells = TABLE.describe_command("fold", fold, measured)
    assert cells == f"MXNet, ONNX | `--max-memory` | no | `--map-out`, `-o` | {starts}"
    measured["fold"]["onnx"] = python
    assert TABLE.describe_command("fold", fold, measured).endswith(
        "| Python for MXNet graphs with `--one`, for ONNX models; `dot` for ONNX models with `--three x`"
    )
    assert (
        TABLE.describe_command("fold", fold, {"fold": {"onnx": python}})
        == "ONNX | `--max-memory` | no | `-o` | Python"
    )


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("onnx", reason="onnx is of the onnx extra")
    pytest.importorskip("onnxruntime", reason="onnxruntime is of the onnx extra")
    folder = tmp_path_factory.mktemp("models")
    make_models(folder)
    return folder


def list_cases() -> list[Any]:
    """Return each line with each format. A new process takes half a second: everyday, one of a command is enough."""
    cases = []
    for name, entry in TABLE.read_measured().items():
        for model in MODELS:
            is_long = (
                TABLE.split_name(name)[1] and "python" in entry.get(model, TABLE.EMPTY)["starts"]
            )
            cases.append(pytest.param(name, model, marks=[pytest.mark.large] if is_long else []))
    return cases


WATCHED = pytest.mark.skipif(
    sys.platform != "linux", reason="what a command starts was measured on Linux"
)


@WATCHED
@pytest.mark.parametrize(("name", "model"), list_cases())
def test_what_a_command_does(
    name: str, model: str, models: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """It writes and starts what is in the data of the table, and leaves no temporary file."""
    entry = TABLE.read_measured()[name]
    expected = entry.get(model)
    if expected is not None and "dot" in expected["starts"]:
        request.getfixturevalue("graphviz")
    try:
        did, faults = judge(name, model, models, tmp_path / "here")
    except NotInstalledError:  # paddle has a Python of its own
        command = [
            request.getfixturevalue("paddle_python"),
            "-m",
            "tests.watch",
            "--judge",
            name,
            model,
            models,
            tmp_path,
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        did, faults = json.loads(done.stdout.splitlines()[-1])
    assert did == expected, "run `python -m tests.watch` and `python docs/generate.py --no-run`"
    assert faults == []


# What need not be in a line: it is about objects at URLs, about time, or about messages.
UNWATCHED = {"--overwrite", "--time-limit", "--quiet"}
PLACES = {"OUT", "FILE", "DIR", "DEST", "FOLDER"}
STARTING = {"--engine", "--jobs", "--shape", "--external-data", "--weights", "--max-memory"}
WRITING = re.compile(
    r"\b(writes?|replaces?|fix|records?|puts?|prove|proof|compares?)\b", re.IGNORECASE
)


def list_unwatched(name: str, command: click.Command, lines: Iterable[str]) -> list[str]:
    """Return the options of a command that write, start or prove, by their metavar, name and help,
    and that no line has.
    """
    words = {word.partition("=")[0] for line in lines for word in line.partition(" -- ")[0].split()}
    sections = list_sections(command, click.Context(command, help_option_names=[]))
    options = [
        (title, option)
        for title, several in sections.items()
        if title != READS
        for option in several
    ]
    acting = [
        max(option.opts, key=len)
        for title, option in options
        if title == WRITES
        or option.metavar in PLACES
        or STARTING & set(option.opts)
        or WRITING.search(option.help or "")
        if not words & set(option.opts)
    ]
    return [f"{name} {option}" for option in acting if option not in UNWATCHED]


def test_every_option_that_writes_or_starts_something_is_watched() -> None:
    lines: dict[str, list[str]] = {}
    for name, entry in TABLE.read_measured().items():
        command, options = TABLE.split_name(name)
        assert set(f"{command} {options}".split()) <= set(entry["line"].split())
        lines.setdefault(command, []).append(entry["line"].format(**MODELS["mxnet"]))
    commands = {
        name: command
        for name, command in GENERATE.list_commands()
        if not isinstance(command, click.Group)
    }
    assert set(lines) == set(commands)
    assert [
        each
        for name, command in commands.items()
        for each in list_unwatched(name, command, lines[name])
    ] == []


def test_an_option_that_no_line_has_is_found() -> None:
    @click.command("share")
    @click.option("--map-out", metavar="FILE")
    @click.option("--params", metavar="FILE", help="It is read.")
    @click.option("--prefix", metavar="P", help="A prefix.")
    @click.option("--fix", is_flag=True, help="Fix what is found.")
    @click.option("-o", "--out", metavar="OUT")
    @click.option("--jobs")
    def share() -> None:
        pass

    found = list_unwatched("share", share, ["share x -o y", "share -- --fix"])
    assert sorted(found) == ["share --fix", "share --jobs", "share --map-out"]


def test_what_starts_python_has_limits() -> None:
    """A process of Python infers, checks or computes what a file says, or does what a command does."""
    limits, without = {"--max-memory", "--time-limit"}, []
    for name, command in GENERATE.list_commands():
        lines = [
            entry
            for line, entry in TABLE.read_measured().items()
            if TABLE.split_name(line)[0] == name
        ]
        starts = {
            program
            for entry in lines
            for model in MODELS
            for program in entry.get(model, TABLE.EMPTY)["starts"]
        }
        options = {flag for option in command.params for flag in option.opts}
        without += [name] if "python" in starts and not limits <= options else []
    assert without == []


@WATCHED
@pytest.mark.parametrize(
    "call",
    [
        ("shutil", "copyfile", "{source}", "{target}"),
        ("graphshare.python_process", "start_python", "shutil", "copyfile", "{source}", "{target}"),
    ],
)
def test_what_a_process_of_python_writes_and_starts_is_seen(
    call: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # modules are not found in the current folder
    (tmp_path / "source").write_text("x", encoding="utf-8")
    places = {name: str(tmp_path / name) for name in ("source", "target")}
    words = [word.format(**places) for word in call]
    # The process that the first one starts has the same stdout, so that both have ended when this ends.
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with log_events(str(tmp_path / "log")), start_python(*words, **pipe) as process:
        process.communicate(timeout=60)
    events = [
        json.loads(line) for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    ]
    assert events.count(["starts", "python"]) == len(call) // 2 - 1
    assert ["writes", places["target"]] in events
    assert not [where for what, where in events if places["source"] in where]


def test_where_files_are_and_what_is_none_of_them(tmp_path: Path) -> None:
    words = "x models/g -o made/ --map-out=made/map.json --fix".split()
    doings = Doings(
        0, "", ["made/g.json", "made/map.json", "models/weights.data"], [], set(), set(), set()
    )
    assert list_writing_options(doings, words, "--fix") == ["--fix", "--map-out", "-o"]
    assert list_writing_options(
        Doings(0, "", [], ["models/g.json"], set(), set(), set()), words, "--fix"
    ) == ["--fix"]
    assert list_writing_options(
        Doings(0, "", ["made/g.json"], [], set(), set(), set()), words, "--fix"
    ) == ["-o"]
    own = {
        str(tmp_path / "run" / "made" / ".graphshare-1"),
        str(tmp_path / "temporary" / "x"),
        os.devnull,
    }
    others = [str(tmp_path / "run" / "other"), str(tmp_path / "temporarily")]
    assert list_stray_writes(doings._replace(writes=own | set(others)), tmp_path) == others


@WATCHED
@pytest.mark.parametrize("line", ["inspect", "duplicate", "verify", "params list", "check"])
@pytest.mark.parametrize("model", ["mxnet", "onnx"])
def test_connections_go_to_the_server_of_the_url_alone(
    line: str, model: str, models: Path, tmp_path: Path
) -> None:
    pytest.importorskip("fsspec", reason="fsspec is of the remote extra")
    (tmp_path / "run" / "made").mkdir(parents=True)
    with serve(models) as site:
        words = (
            TABLE.read_measured()[line]["line"]
            .format(**MODELS[model])
            .replace("models/", f"{site.url}/")
            .split()
        )
        doings = watch(words, tmp_path)
        assert doings.code in (0, 1), doings.messages
        host, port = site.url.removeprefix("http://").split(":")
        assert {place[:2] for place in doings.connects} == {(host, int(port))}
        assert site.requests


def test_custom_operators_are_not_computed(tmp_path: Path) -> None:
    nodes = [variable("x"), operator("Custom", "mine", [0], attrs={"op_type": "mine"})]
    write_json(tmp_path / "g.json", document(nodes, [1]))
    with pytest.raises(gs.RefusedError, match="Custom"):
        gs.run(tmp_path / "g.json", feeds={"x": np.ones(2, "float32")})
