"""No two modules of the package import each other, not even through others, inside functions or for type checkers."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from tests.surroundings import ROOT
from tests.syntax import parse

Edges = Mapping[str, set[str]]


def list_modules(package: Path) -> dict[str, Path]:
    """Return the files of a package by module name."""
    modules = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def find_imports(name: str, path: Path, modules: Mapping[str, Path]) -> set[str]:
    """Return the modules of the package that a module imports: at its top, inside functions, for type checkers."""
    base = name if path.name == "__init__.py" else name.rpartition(".")[0]
    imported: set[str] = set()
    for node in ast.walk(parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = base.split(".")[: len(base.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                full = f"{source}.{alias.name}"
                imported.add(full if full in modules else source)
    return {module for module in imported if module in modules and module != name}


def find_cycles(edges: Edges) -> list[list[str]]:
    """Return the modules of each cycle, sorted: what remains when modules that nothing needs, or
    that need nothing, go.
    """
    remaining = {name: set(targets) for name, targets in edges.items()}
    while True:
        sources = {name for name, targets in remaining.items() if targets}
        targets = {target for name in sources for target in remaining[name]}
        core = sources & targets
        if core == remaining.keys():
            break
        remaining = {name: remaining[name] & core for name in core}
    cycles: list[list[str]] = []
    for name in sorted(remaining):
        group = sorted(
            other
            for other in remaining
            if other in reach(remaining, name) and name in reach(remaining, other)
        )
        if len(group) > 1 and group not in cycles:
            cycles.append(group)
    return cycles


def reach(edges: Edges, start: str) -> set[str]:
    """Return all modules that ``start`` imports, directly or through others."""
    reached: set[str] = set()
    pending = [start]
    while pending:
        for target in edges.get(pending.pop(), ()):
            if target not in reached:
                reached.add(target)
                pending.append(target)
    return reached


def list_cycles(package: Path) -> list[list[str]]:
    modules = list_modules(package)
    edges = {name: find_imports(name, path, modules) for name, path in modules.items()}
    # Its __init__ hands names on, when they are first used
    return find_cycles({**edges, package.name: set()})


def test_the_package_has_no_import_cycle() -> None:
    assert list_cycles(ROOT / "graphshare") == []


def test_a_planted_cycle_is_found(tmp_path: Path) -> None:
    package = tmp_path / "sample"
    (package / "inner").mkdir(parents=True)
    files = {
        "__init__.py": "",
        "a.py": "from sample import b\n",
        "b.py": "def load():\n    from sample.inner import c\n    return c\n",
        "inner/__init__.py": "",
        "inner/c.py": "from ..a import load\n",
        "d.py": "import sample.a\n",
    }
    for name, text in files.items():
        (package / name).write_text(text)
    assert list_cycles(package) == [["sample.a", "sample.b", "sample.inner.c"]]


def test_imports_for_type_checkers_make_a_cycle_too(tmp_path: Path) -> None:
    package = tmp_path / "sample"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sample.b import B\n"
    )
    (package / "b.py").write_text("from sample.a import TYPE_CHECKING\n")
    assert list_cycles(package) == [["sample.a", "sample.b"]]
