"""SECURITY.md: each promise names tests that exist, and the sources keep what no single run can show."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from graphshare.drawing.graphviz import LIMIT
from graphshare.files.gzip_file import MAX_UNPACKED
from graphshare.formats.images.header import FORMATS, MAX_PIXELS
from graphshare.formats.images.images import MAX_RESIZED
from graphshare.formats.model_file import MAX_STREAM
from graphshare.formats.mxnet.document import MAX_NESTING
from tests.processes import ROOT

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


def find_uses(modules: set[str], calls: set[str], sources: dict[str, str]) -> dict[str, set[str]]:
    trees = {name: ast.parse(source) for name, source in sources.items()}
    found = {name: (set(imported(tree)) & modules) | (set(called(tree)) & calls) for name, tree in trees.items()}
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
    assert {name for name in starting if not name.startswith("drawing/")} == {"execute/engines/confined_session.py"}


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


def missing_tests(text: str, root: Path) -> list[str]:
    """Return the tests that a page names and that do not exist, and the promises that name none."""
    promises = text.partition("## What is promised\n")[2].partition("\n## ")[0].split("\n- **")[1:]
    lacking = [promise.partition("**")[0] for promise in promises if "::test_" not in promise]
    for file, test in re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text):
        path = root / file
        if not path.exists() or not re.search(rf"^def {test}\(", path.read_text(encoding="utf-8"), re.M):
            lacking.append(f"{file}::{test}")
    return lacking


def test_every_promise_names_tests_that_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert missing_tests(text, ROOT) == []
    assert missing_tests(text.replace("test_pickles_are_never_opened", "test_x"), ROOT) == [
        "tests/cli/test_commands.py::test_x"
    ]
    assert missing_tests("## What is promised\n\n- **a** b\n\n## c", ROOT) == ["a"]
