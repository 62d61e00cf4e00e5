"""The shape of the code: floors, docstrings, lengths. Each check is shown to fail on something that is wrong."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.syntax import parse

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "graphshare").rglob("*.py"))
LONGEST_MODULE, LONGEST_FUNCTION = 400, 60
"""Statements, which a wider or narrower layout of the lines does not change."""
MOST_DECISIONS = 18
MANY_DECISIONS, FEW_WITH_MANY = 15, 3
"""How many functions have more decisions than are easily kept in mind; it only sinks."""
_DECISIONS = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.While,
    ast.ExceptHandler,
    ast.comprehension,
    ast.Assert,
    ast.match_case,
)


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    script = (
        "import sys; from importlinter.cli import lint_imports_command; sys.path.insert(0, '.'); "
        "lint_imports_command()"
    )
    return subprocess.run(
        [sys.executable, "-c", script, "--no-cache"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )


def test_imports_only_go_down() -> None:
    pytest.importorskip("importlinter", reason="import-linter is of the lint extra")
    run = lint_imports(ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "0 broken" in run.stdout


UPWARD = {
    "ir/walk.py": "import graphshare.formats.mxnet.layout",
    "files/paths.py": "import graphshare.formats.model_names",
    "formats/mxnet/symbol.py": "import graphshare.analysis.roles",
    "rewrite/extract_graph.py": "import graphshare.cli.console",
    "analysis/roles.py": "import click",
    "rewrite/rename_nodes.py": "import numpy",
    "inspection/graph.py": "import jsonschema",
}
"""Imports that break a contract, each by the module that it is added to."""


def test_imports_that_go_up_are_found(tmp_path: Path) -> None:
    pytest.importorskip("importlinter", reason="import-linter is of the lint extra")
    shutil.copytree(
        ROOT / "graphshare", tmp_path / "graphshare", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for module, line in UPWARD.items():
        path = tmp_path / "graphshare" / module
        path.write_text(f"{path.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    run = lint_imports(tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    for module, line in UPWARD.items():
        importer = f"graphshare.{module.removesuffix('.py').replace('/', '.')}"
        assert f"{importer} -> {line.removeprefix('import ')}" in run.stdout, run.stdout


def undocumented(source: str) -> Iterator[str]:
    """The public functions and classes of a module without a docstring, and the module itself."""
    tree = parse(source)
    if not ast.get_docstring(tree):
        yield "the module"
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            kinds = ("Enum", "str")  # the members of an enumeration say all there is to say
            is_enum = isinstance(node, ast.ClassDef) and any(
                getattr(base, "id", "") in kinds for base in node.bases
            )
            if not ast.get_docstring(node) and not is_enum:
                yield node.name


def test_every_module_says_what_it_is_for() -> None:
    missing = {path: list(undocumented(path.read_text(encoding="utf-8"))) for path in MODULES}
    assert {path: names for path, names in missing.items() if names} == {}


def count_statements(source: str) -> dict[str, int]:
    """Return the statements of a module, by an empty name, and of each function in it."""
    tree = parse(source)
    functions = (
        node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    named = {"": tree, **{f"{node.name}, line {node.lineno}": node for node in functions}}
    return {
        name: sum(isinstance(each, ast.stmt) for each in ast.walk(node))
        for name, node in named.items()
    }


def test_nothing_is_too_long() -> None:
    assert len(MODULES) > 300
    for path in MODULES:
        module, *functions = count_statements(path.read_text(encoding="utf-8")).items()
        assert module[1] <= LONGEST_MODULE, path
        assert [each for each in functions if each[1] > LONGEST_FUNCTION] == [], path


def test_every_statement_counts() -> None:
    source = "x = 1\ndef f(y):\n    if y:\n        return x\n    return y\n"
    assert count_statements(source) == {"": 5, "f, line 2": 4}


def test_what_has_no_docstring_is_found() -> None:
    assert list(undocumented("def f():\n    pass\nclass _C:\n    pass\n")) == ["the module", "f"]
    assert list(undocumented('"""Doc."""\nclass C:\n    """Doc."""\n')) == []


def count_decisions(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the branches, loops, comprehensions and boolean operators of a function, without
    functions in it, plus one.
    """
    decisions, pending = 1, list(ast.iter_child_nodes(function))
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        decisions += isinstance(node, _DECISIONS)
        decisions += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
        decisions += len(node.ifs) if isinstance(node, ast.comprehension) else 0
        pending += ast.iter_child_nodes(node)
    return decisions


def list_decisions(source: str) -> dict[str, int]:
    """Return the decisions of each function by its name."""
    functions = (
        node
        for node in ast.walk(parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    return {f"{node.name}, line {node.lineno}": count_decisions(node) for node in functions}


def test_no_function_decides_too_much() -> None:
    counted = {f"{path.relative_to(ROOT)}: {name}": count for path in MODULES
               for name, count in list_decisions(path.read_text(encoding="utf-8")).items()}  # fmt: skip
    assert {name: count for name, count in counted.items() if count > MOST_DECISIONS} == {}
    assert sum(count > MANY_DECISIONS for count in counted.values()) <= FEW_WITH_MANY


def test_every_decision_counts() -> None:
    source = "def f(x):\n    if x and x or x:\n        pass\n    return [y for y in x if y if y]\n"
    assert list_decisions(source) == {"f, line 1": 7}


def print_calls(source: str) -> list[int]:
    """The lines of a module on which it prints."""
    if not re.search(r"\bprint\b", source):
        return []
    calls = [node for node in ast.walk(parse(source)) if isinstance(node, ast.Call)]
    return [
        call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"
    ]


def test_nothing_prints_past_the_console() -> None:
    lines = {path: print_calls(path.read_text(encoding="utf-8")) for path in MODULES}
    assert {path: found for path, found in lines.items() if found} == {}


def test_a_print_is_found() -> None:
    assert print_calls("x = 1\nprint(x)\n") == [2]
