"""SECURITY.md: each promise names tests that exist, and the sources keep what no single run can show."""

from __future__ import annotations

import _posixsubprocess
import ast
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import pytest

import graphshare as gs
from graphshare.drawing.languages import LIMIT
from graphshare.files.open_source import MAX_UNPACKED
from graphshare.formats.images.header import FORMATS, MAX_PIXELS
from graphshare.formats.images.images import MAX_RESIZED
from graphshare.formats.model_file import MAX_STREAM
from graphshare.formats.mxnet.document import MAX_NESTING
from tests.meta.test_docs import GENERATE
from tests.processes import ROOT, in_process, write_json
from tests.remote.web_server import serve
from tests.symbols import document, operator, variable

TABLE = GENERATE.security_table
PAGE = ROOT / "SECURITY.md"
MODULES = sorted((ROOT / "graphshare").rglob("*.py"))
LOADS_CODE = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "runpy", "code", "ctypes", "cffi"}
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
CALLS = {"eval", "exec", "compile", "__import__", "system", "popen", "execv", "execvp", "spawnv", "fork"}


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
            elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id == "os":
                yield node.func.attr


@cache
def list_uses(source: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the modules that a source imports and the names that it calls."""
    tree = ast.parse(source)
    return frozenset(imported(tree)), frozenset(called(tree))


def find_uses(modules: set[str], calls: set[str], sources: dict[str, str]) -> dict[str, set[str]]:
    listed = {name: list_uses(source) for name, source in sources.items()}
    found = {name: set(imports & modules) | (names & calls) for name, (imports, names) in listed.items()}
    return {name: uses for name, uses in found.items() if uses}


def read_sources() -> dict[str, str]:
    return {str(path.relative_to(ROOT / "graphshare")): path.read_text(encoding="utf-8") for path in MODULES}


def test_nothing_loads_code_from_a_file() -> None:
    sources = read_sources()
    assert find_uses(LOADS_CODE, CALLS, sources) == {}
    assert [name for name, source in sources.items() if re.search(r"allow_pickle\s*=\s*True", source)] == []


def test_only_the_modules_of_urls_open_connections_and_nothing_starts_a_program() -> None:
    sources = read_sources()
    remote = {name: sources.pop(name) for name in list(sources) if name.startswith("files/remote/")}
    assert set().union(*find_uses(CONNECTS | STARTS, set(), remote).values()) <= {"fsspec", "asyncio"}
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
    "html.escape": {"text/markup.py", "drawing/draw.py"},  # a page as a whole, in an attribute of a notebook's frame
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
    assert "(64 levels in a graph), gzip data (256 MB) and pipes (1 GB)" in text
    assert "stop it after two minutes" in text


# Each sentence of the page names its tests in a note.

_NOTE = re.compile(r"\[\^([\w-]+)\]")
_END = re.compile(r"(?<=[.!?])(?:\*\*)?(?!\w)(?:\[\^[\w-]+\])*(?=\s|$)")


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of Markdown text with the notes that follow them, of lists each item for itself; no tables."""
    for paragraph in re.split(r"\n\n|\n(?=- )", text):
        words = " ".join(paragraph.removeprefix("- ").split())
        start = 0
        for end in [] if words.startswith(("|", "#", "<!--")) else [match.end() for match in _END.finditer(words)]:
            yield words[start:end].strip()
            start = end
        if words[start:].strip() and not words.startswith(("|", "#", "<!--")):
            yield words[start:].strip()


def find_faults(page: str, root: Path) -> list[str]:
    """Return the promises without a note, the notes that are missing or left over, and their tests that do not exist."""
    promises = page.partition("## What is promised\n")[2].partition("\n## What is not promised")[0]
    notes = dict(re.findall(r"^\[\^([\w-]+)\]: (.*(?:\n    .*)*)", page, re.M))
    faults = [sentence for sentence in split_sentences(promises) if not _NOTE.search(sentence)]
    used = dict.fromkeys(_NOTE.findall(promises))
    faults += [f"[^{label}]" for label in dict.fromkeys([*used, *notes]) if label not in used or label not in notes]
    for text in notes.values():
        tests = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text)
        if not tests or re.sub(r"`[^`]*`", "", text).strip(" ,\n"):
            faults.append(text)
        for file, test in tests:
            path = root / file
            if not path.exists() or not re.search(rf"^def {test}\(", path.read_text(encoding="utf-8"), re.M):
                faults.append(f"{file}::{test}")
    return faults


def test_every_promise_names_tests_that_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert find_faults(text, ROOT) == []
    assert find_faults(text.replace("test_pickles_are_never_opened", "test_x"), ROOT) == ["tests/cli/test_commands.py::test_x"]


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
    note = "[^a]: `tests/meta/test_security.py::test_such_uses_are_found`,\n    `tests/cli/test_limits.py::test_sizes`\n"
    assert find_faults(f"## What is promised\n\n{promises}\n\n## What is not promised\n\nE.\n\n{note}", ROOT) == faults


def test_a_note_without_a_test_is_found() -> None:
    page = (
        "## What is promised\n\nA.[^a] B.[^b]\n\n## What is not promised\n\n[^a]: none\n[^b]: `tests/a.py::test_b`, and more\n"
    )
    assert find_faults(page, ROOT) == ["none", "`tests/a.py::test_b`, and more", "tests/a.py::test_b"]


# The table of commands, which docs/generate.py writes.


def test_the_table_is_that_of_the_commands() -> None:
    rows = "\n".join(TABLE.format_rows(GENERATE.list_commands()))
    assert f"\n| --- | --- | --- | --- | --- | --- |\n{rows}\n\n" in PAGE.read_text(encoding="utf-8")


def test_an_option_that_the_table_lacks_is_found() -> None:
    @click.command("fold")
    @click.option("--max-memory")
    @click.option("--map-out")
    def fold() -> None:
        pass

    cells = TABLE.describe_command("fold", fold)
    assert cells == "MXNet, ONNX | `--max-memory` | no | `--map-out` | Python, for ONNX models"


LINES = {
    "duplicate": "duplicate {} --prefix b- -o made/",
    "share": "share {} {tie} -o made/",
    "extract": "extract {} --target {last} -o made/",
    "rename": "rename {} --prefix b- -o made/ --map-out made/map.json",
    "group": "group {} {} --prefix a- --prefix b- -o made/",
    "pool": "pool {} -o made/",
    "fold": "fold {folded} -o made/",
    "export": "export {} --shape data=1,1,28,28 -o made/",
    "export, limited": "export {} --shape data=1,1,28,28 -o made/ --max-memory 4G",
    "unfix": "unfix {free} --dynamic-batch -o made/",
    "upgrade": "upgrade {} -o made/",
    "format": "format {file} -o made/",
    "inspect": "inspect {}",
    "run": "run {} --seed 0 --shape {shape} -o made/",
    "verify": "verify {} --against {} --shape {shape}",
    "rules explain": "rules explain {last} --graph {} --match {last} --to new",
    "check": "check {} -o made/report.txt",
    "diff": "diff {} {}",
    "draw": "draw {} -o made/page.html",
    "draw, an image": "draw {} -o made/page.png",
    "foreach": "foreach {file} --jobs 2 -o made/ -- rename {{}} --prefix b-",
    "params convert": "params convert {params} made/new.npz",
    "params diff": "params diff {params} {params}",
    "params list": "params list {params}",
    "params show": "params show {params}",
    "params stats": "params stats {params}",
}
"""Command lines that write and start what they can; the rest of a name after the comma tells lines of one command apart."""
MODELS = {
    "mxnet": {"": "lenet", "file": "lenet-symbol.json", "folded": "lenet", "free": "lenet", "params": "lenet-0000.params"},
    "onnx": {"": "small.onnx", "file": "small.onnx", "folded": "folded.onnx", "free": "folded.onnx", "params": "small.onnx"},
}
WORDS = {
    "mxnet": {"last": "fc2", "shape": "data=1,1,28,28", "tie": "--alias=bn1_gamma=bn1_beta"},
    "onnx": {"last": "y", "shape": "x=2", "tie": "--untie=*"},
}
STARTING = {
    "mxnet": {"export, limited": "python", "foreach": "python", "draw, an image": "dot"},
    "onnx": {
        **dict.fromkeys(("pool", "fold", "unfix", "run", "verify", "foreach", "check", "draw"), "python"),
        "draw, an image": "dot",
    },
}
_LOOK: list[list[tuple[str, tuple[Any, ...]]]] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if _LOOK and event in {"open", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect"}:
        _LOOK[-1].append((event, arguments))


@cache
def _listen() -> None:
    sys.addaudithook(_note)  # it stays for ever


class Doings(NamedTuple):
    """What a command did: files that it wrote to, programs that it started, places that it connected to."""

    code: int
    messages: str
    written: set[str]
    started: set[str]
    connected: set[Any]


def watch(words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Doings:
    """Run a command in this process and note what it does."""

    from graphshare import confined_process

    _listen()
    _LOOK.append([])
    spawned: list[str] = []
    fork_exec = _posixsubprocess.fork_exec

    def note_spawn(arguments: list[bytes], *rest: Any) -> int:
        spawned.append(os.fsdecode(arguments[0]))
        return fork_exec(arguments, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(_posixsubprocess, "fork_exec", note_spawn)
        patch.setattr(confined_process, "_kept", {})
        patch.setattr(tempfile, "tempdir", str(folder / "temporary"))
        try:
            run = in_process(*words, cwd=folder)
        finally:
            events = _LOOK.pop()
    opened = [each for event, each in events if event == "open" and isinstance(each[0], str)]
    writing = [os.path.join(folder, path) for path, mode, flags in opened if flags & (os.O_WRONLY | os.O_RDWR)]
    programs = [str(each[0]) for event, each in events if event not in ("open", "socket.connect")] + spawned
    names = {"python" if program == sys.executable else os.path.basename(program) for program in programs}
    places = {each[1] for event, each in events if event == "socket.connect"}
    return Doings(run.returncode, run.stderr.decode(), set(writing) - {os.devnull}, names, places)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an MXNet pair, an ONNX model and one with a BatchNormalization."""
    onnx = pytest.importorskip("onnx", reason="onnx is of the onnx extra")
    pytest.importorskip("onnxruntime", reason="onnxruntime is of the onnx extra")
    folder = tmp_path_factory.mktemp("models")
    for name in ("lenet-symbol.json", "lenet-0000.params", "small.onnx"):
        shutil.copy(ROOT / "fixtures" / name, folder / name)
    make, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [make("Conv", ["x", "w"], ["conv"]), make("BatchNormalization", ["conv", *"cccc"], ["y"])]
    held = [onnx.helper.make_tensor("w", 1, [1, 1, 1, 1], [2]), onnx.helper.make_tensor("c", 1, [1], [1])]
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, [1, 1, 2, 2])], [value("y", 1, [1, 1, 2, 2])], held)
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), folder / "folded.onnx"
    )
    return folder


def spell(line: str, model: str, start: str) -> list[str]:
    """Return the words of a line for a model in the folder or at the URL that is ``start``."""
    places = {name: f"{start}/{file}" for name, file in MODELS[model].items()}
    first = places.pop("")
    return [word.format(*[first] * 2, **places, **WORDS[model]) for word in line.split()]


@pytest.mark.skipif(sys.platform != "linux", reason="programs are noted where Linux starts them")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("line", LINES)
def test_what_a_command_does_at_most(
    line: str, model: str, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """It writes below the output that it names, leaves no temporary file, and starts what the table says."""
    if line == "draw, an image":
        request.getfixturevalue("graphviz")
    command = line.partition(",")[0]
    for name in ("made", "temporary"):
        (tmp_path / name).mkdir()
    doings = watch(spell(LINES[line], model, str(models)), tmp_path, monkeypatch)
    if model == "onnx" and TABLE.READS.get(command, TABLE.BOTH) == TABLE.MXNET:
        assert doings.code == 2
        assert "ONNX" in doings.messages
    elif model == "mxnet" and TABLE.READS.get(command) == "ONNX":
        assert doings.code == 2
        assert "is for ONNX models" in doings.messages
    else:
        assert doings.code in (0, 1), doings.messages
    allowed = (str(tmp_path / "made") + os.sep, str(tmp_path / "temporary") + os.sep)
    written = [path for path in doings.written if f"{os.sep}__pycache__{os.sep}" not in path]  # Python compiles its modules
    assert not [path for path in written if not path.startswith(allowed)]
    assert not os.listdir(tmp_path / "temporary")
    if "made/" not in LINES[line]:
        assert not os.listdir(tmp_path / "made")
    assert doings.started == ({STARTING[model][line]} if line in STARTING[model] else set())
    assert all(program.lower() in TABLE.STARTED[command].lower() for program in doings.started)
    assert doings.connected == set()


def test_every_command_of_the_table_is_watched() -> None:
    assert {line.partition(",")[0] for line in LINES} | {"rules check", "completion"} == {
        name for name, command in GENERATE.list_commands() if not isinstance(command, click.Group)
    }


@pytest.mark.skipif(sys.platform != "linux", reason="programs are noted where Linux starts them")
@pytest.mark.parametrize("line", ["inspect", "duplicate", "verify", "params list", "check"])
@pytest.mark.parametrize("model", MODELS)
def test_connections_go_to_the_server_of_the_url_alone(
    line: str, model: str, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fsspec", reason="fsspec is of the remote extra")
    for name in ("made", "temporary"):
        (tmp_path / name).mkdir()
    with serve(models) as site:
        doings = watch(spell(LINES[line], model, site.url), tmp_path, monkeypatch)
        assert doings.code in (0, 1), doings.messages
        host, port = site.url.removeprefix("http://").split(":")
        assert {place[:2] for place in doings.connected} == {(host, int(port))}
        assert site.requests


def test_custom_operators_are_not_computed(tmp_path: Path) -> None:
    nodes = [variable("x"), operator("Custom", "mine", [0], attrs={"op_type": "mine"})]
    write_json(tmp_path / "g.json", document(nodes, [1]))
    with pytest.raises(gs.RefusedError, match="Custom"):
        gs.run(tmp_path / "g.json", feeds={"x": np.ones(2, "float32")})
