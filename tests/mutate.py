"""Plant small faults in the package, one at a time, and run the tests that docs/testing.md names for the place.

    python -m tests.mutate [--count 200] [--seed 0] [--package execute]

A mutant changes one operator, number or condition of a function. It is found when a test fails, or
when the tests take more than ``--limit`` seconds. Long tests run too, and those with the corpus or
MXNet where ``GRAPHSHARE_CORPUS`` and ``GRAPHSHARE_ORACLE`` name them. The faults are planted in a
copy of the checkout. Prints each mutant, then counts by package.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COPIED = (
    "graphshare",
    "tests",
    "schemas",
    "fixtures",
    "docs",
    "examples",
    "man",
    "benchmarks",
    ".ci",
)
_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


class Mutant(NamedTuple):
    """A fault: the module, its line and column, the expression there and the one in its place, and
    the whole text with it.
    """

    path: str
    line: int
    column: int
    before: str
    after: str
    text: str


def list_mutants(path: Path) -> Iterator[Mutant]:
    """Yield the faults that can be planted in the functions of a module."""
    source = path.read_text(encoding="utf-8")
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    for node in {
        id(inner): inner
        for function in functions
        for each in function.body
        for inner in ast.walk(each)
    }.values():
        mutated = _change(node)
        if mutated is None or not isinstance(node, ast.expr) or node.lineno != node.end_lineno:
            continue
        lines = source.split("\n")
        row = lines[node.lineno - 1].encode()
        before = row[node.col_offset : node.end_col_offset].decode()
        after = f"({mutated})"
        lines[node.lineno - 1] = (
            row[: node.col_offset] + after.encode() + row[node.end_col_offset :]
        ).decode()
        text = "\n".join(lines)
        try:
            ast.parse(text)
        except SyntaxError:  # a part of a text with values in it
            continue
        yield Mutant(str(path.relative_to(ROOT)), node.lineno, node.col_offset, before, after, text)


def _change(node: ast.AST) -> str | None:
    """Return an expression with a fault in it; None for one that is left alone."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPPED:
        ops = [_SWAPPED[type(node.ops[0])](), *node.ops[1:]]
        return ast.unparse(ast.Compare(node.left, ops, node.comparators))  # type: ignore[arg-type]
    if isinstance(node, ast.BoolOp):
        return ast.unparse(ast.BoolOp(_SWAPPED[type(node.op)](), node.values))  # type: ignore[arg-type]
    if isinstance(node, ast.BinOp) and type(node.op) in _SWAPPED:
        return ast.unparse(ast.BinOp(node.left, _SWAPPED[type(node.op)](), node.right))  # type: ignore[arg-type]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return ast.unparse(node.operand)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return str(node.value + 1)
    return None


def read_table() -> list[tuple[list[str], list[str]]]:
    """Return the rows of the table in docs/testing.md: the places in the package, and the paths of their tests."""
    rows = re.findall(
        r"^\| (.*?) \| (.*?) \| \d+ \|$",
        (ROOT / "docs/testing.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    return [
        (re.findall("`(.*?)`", place), re.findall("`([^` ]+)`", tests)) for place, tests in rows
    ]


def find_tests(path: str, table: list[tuple[list[str], list[str]]]) -> list[str]:
    """Return the paths of the tests of a module; all tests of units where the table does not name the place."""
    _, package, *rest = Path(path).with_suffix("").parts
    names = (
        f"{package}/<family>/{rest[-1]}.py" if rest else package,
        "/".join((package, *rest)),
        package,
    )
    for name in names:
        for places, tests in table:
            if any(fnmatchcase(name, place) for place in places):
                return [f"tests/{test}" for test in tests if (ROOT / "tests" / test).exists()]
    return ["tests/unit"]


def is_found(mutant: Mutant, tests: list[str], folder: Path, limit: float) -> bool:
    """Run tests on a copy of the checkout with a mutant in it; return whether they fail."""
    place = folder / mutant.path
    original = place.read_text(encoding="utf-8")
    place.write_text(mutant.text, encoding="utf-8")
    # Long tests are tests of their place too
    variables = {"GRAPHSHARE_REQUIRE": "large", **os.environ}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-n",
        "2",
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    others = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    paths = os.pathsep.join([str(folder), *map(os.path.abspath, others)])
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**variables, "PYTHONPATH": paths},
            capture_output=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    finally:
        place.write_text(original, encoding="utf-8")
        # A fault of the same length, planted within the same second, would run from the bytecode of this one.
        shutil.rmtree(place.parent / "__pycache__", ignore_errors=True)
    output = (done.stdout + done.stderr).decode(errors="replace")
    if done.returncode and not any(
        text in output for text in (" failed", " error", "while loading conftest")
    ):
        raise SystemExit(f"the tests of {mutant.path} did not run: {output[-2000:]}")
    return done.returncode != 0


def main() -> int:
    """Plant a sample of mutants; return 1 where fewer than nine in ten are found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--package", default="", help="a folder of graphshare/")
    parser.add_argument(
        "--limit", type=float, default=600.0, help="seconds that the tests of one mutant may take"
    )
    options = parser.parse_args()
    random, table = Random(options.seed), read_table()
    modules = sorted((ROOT / "graphshare" / options.package).rglob("*.py"))
    counts: Counter[tuple[str, bool]] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in COPIED:
            shutil.copytree(
                ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__")
            )
        for path in (path for path in ROOT.iterdir() if path.is_file()):
            shutil.copy(path, folder)
        while counts.total() < options.count:
            mutants = list(list_mutants(random.choice(modules)))
            if not mutants:
                continue
            mutant = random.choice(mutants)
            found = is_found(mutant, find_tests(mutant.path, table), folder, options.limit)
            counts[Path(mutant.path).parts[1], found] += 1
            word = "found " if found else "MISSED"
            place = f"{mutant.path}:{mutant.line}:{mutant.column + 1}"
            print(f"{word} {place}: {mutant.before} -> {mutant.after}", flush=True)
    for package in sorted({package for package, _ in counts}):
        print(
            f"{package:20} {counts[package, True]:4} of {counts[package, True] + counts[package, False]}"
        )
    found = sum(count for (_, is_one), count in counts.items() if is_one)
    print(f"{found} of {counts.total()} mutants found")
    return 0 if found >= 0.9 * counts.total() else 1


if __name__ == "__main__":
    raise SystemExit(main())
