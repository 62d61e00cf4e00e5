"""The recipes of CONTRIBUTING.md, followed word by word in a copy of the tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.surroundings import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = PAGE + "".join(
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("translating", "options", "parameter-formats", "model-formats")
)
FILES = {
    "Add an operator": 2,
    "Translate an operator to ONNX": 3,
    "Add a check rule": 2,
    "Add a command": 8,
    "Add an option": 2,
    "Add a parameter format": 3,
    "Add a model format": 2,
    "Add a facet": 1,
    "Add a backend": 2,
}
"""How many files each recipe may touch, besides tests and what a command generates."""
STARTS_FROM = {"Add a facet": "Add a model format", "Add a backend": "Add a model format"}
"""The recipe whose result a recipe starts from."""
GENERATED = {"graphshare/ops/index.py"}
GENERATORS = ("python -m graphshare.ops.make_index", "python -m tests.", "python docs/")
"""How lines of recipes begin that write what follows from the code."""
AFTERWARDS = (
    "python -m ruff check .",
    "python -m ruff format --check .",
    "python -m mypy --strict graphshare",
    "python docs/generate.py --no-run",
    "python -m pytest -q tests/meta/test_language.py tests/meta/test_code_shape.py tests/meta/test_import_cycles.py",
)
"""What must pass after all recipes, which are followed one after the other: most of it reads the whole tree."""
_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)(?P<head>[^\n]*)\n(?P<body>.*?)^(?P=indent)```$",
    re.M | re.S,
)


class Block(NamedTuple):
    """A file (``title``), lines for one (``before`` or ``after`` a line of it), or commands
    (``language`` is ``sh``).
    """

    language: str
    title: str
    before: str
    after: str
    body: str


def read_recipe(title: str) -> list[Block]:
    section = re.search(rf"^### {title}\n(.*?)(?=^### |\Z)", RECIPES, re.M | re.S)
    assert section is not None, title
    blocks = []
    for match in _BLOCK.finditer(section[1]):
        head = re.fullmatch(r" title=([\"'])(.*?)(?: (before|after): (.*))?\1|", match["head"])
        assert head is not None, match["head"]
        _, file, where, line = head.groups("")
        body = (
            textwrap.indent(match["body"], "")
            .replace("\n" + match["indent"], "\n")
            .removeprefix(match["indent"])
        )
        blocks.append(
            Block(
                match["language"],
                file,
                line if where == "before" else "",
                line if where == "after" else "",
                body,
            )
        )
    return blocks


def apply_block(block: Block, root: Path) -> None:
    """Write a file, or insert lines into one, at a line that must exist once."""
    path = root / block.title
    if not block.before and not block.after:
        assert not path.exists(), f"{block.title} exists already"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.body, encoding="utf-8")
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    places = [i for i, line in enumerate(lines) if line.startswith(block.before or block.after)]
    assert len(places) == 1, (
        f"{block.title} has {len(places)} lines that start with {block.before or block.after!r}"
    )
    lines.insert(places[0] + bool(block.after), block.body)
    path.write_text("".join(lines), encoding="utf-8")


def copy_tree(folder: Path) -> Path:
    ignore = shutil.ignore_patterns(".git", ".*cache", ".hypothesis", ".try", ".test", "*.npz.tmp")
    return Path(shutil.copytree(ROOT, folder / "tree", ignore=ignore))


def list_files(blocks: Iterable[Block]) -> set[str]:
    """Return the files that blocks write or change, besides tests."""
    return {block.title for block in blocks if block.title and not block.title.startswith("tests/")}


def read_sources(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in (root / "graphshare").rglob("*.py")
    }


def run_line(line: str, root: Path) -> None:
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PYTEST", "GRAPHSHARE"))
    }
    # The copy comes first; what the running tests were installed into follows, made absolute.
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(root), *(str(Path(entry).resolve()) for entry in sys.path if entry)]
    )
    environment["MYPY_CACHE_DIR"] = str(ROOT / ".mypy_cache")  # most of the tree is the same
    line = re.sub(r"^python\b", lambda _: f'"{sys.executable}"', line)
    run = subprocess.run(
        ["sh", "-ec", line], cwd=root, env=environment, capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, f"{line}\n{run.stdout}{run.stderr}"


def follow(blocks: Iterable[Block], root: Path, *, tests: bool = True) -> None:
    """Write the files of a recipe and run its commands, in order; ``tests`` and what generates
    files can be left out.
    """
    for block in blocks:
        if block.title:
            apply_block(block, root)
            continue
        assert block.language == "sh"
        for line in block.body.splitlines():
            if tests or not line.startswith((*GENERATORS, "python -m pytest")):
                run_line(line, root)


def test_the_page_is_short() -> None:
    assert PAGE.count("\n") <= 400


def test_these_are_the_recipes() -> None:
    assert sorted(re.findall(r"^### (.*)$", RECIPES, re.M)) == sorted(FILES)


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("title", FILES)
def test_the_recipe_works_as_written(title: str, tmp_path: Path) -> None:
    root = copy_tree(tmp_path)
    if title in STARTS_FROM:
        follow(read_recipe(STARTS_FROM[title]), root, tests=False)
    before = read_sources(root)
    blocks = read_recipe(title)
    files = list_files(blocks)
    assert len(files) <= FILES[title], files
    assert any(block.language == "sh" for block in blocks)
    follow(blocks, root)
    after = read_sources(root)
    assert {
        path for path, content in after.items() if before.get(path) != content
    } - GENERATED <= files


@pytest.mark.large
@pytest.mark.slow
def test_the_tree_is_in_order_after_all_recipes(tmp_path: Path) -> None:
    root = copy_tree(tmp_path)
    before = read_sources(root)
    blocks = [block for title in FILES for block in read_recipe(title)]
    for block in blocks:
        if block.title:
            apply_block(block, root)
    lines = [line for block in blocks if not block.title for line in block.body.splitlines()]
    for line in dict.fromkeys(
        [*(line for line in lines if line.startswith(GENERATORS)), *AFTERWARDS]
    ):
        run_line(line, root)
    after = read_sources(root)
    assert {
        path for path, content in after.items() if before.get(path) != content
    } - GENERATED <= list_files(blocks)


def test_the_table_of_what_to_run_names_every_folder_of_tests() -> None:
    page = (
        (ROOT / "docs" / "testing.md")
        .read_text(encoding="utf-8")
        .partition("## Generated models")[0]
    )
    folders = {path.name for path in (ROOT / "tests").iterdir() if (path / "__init__.py").is_file()}
    assert sorted(folder for folder in folders if not re.search(rf"`{folder}[`/]", page)) == []
    assert [
        path
        for path in re.findall(r"`((?:[a-z_]+/)+\w+(?:\.py)?)`", page)
        if not (ROOT / "tests" / path).exists()
    ] == []


def test_an_anchor_that_is_gone_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    with pytest.raises(AssertionError, match="0 lines"):
        apply_block(Block("python", "a.py", "y = 1", "", "z = 1\n"), tmp_path)
    apply_block(Block("python", "a.py", "", "x = 1", "z = 1\n"), tmp_path)
    assert (tmp_path / "a.py").read_text() == "x = 1\nz = 1\n"


def test_a_command_that_fails_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="false"):
        run_line("false", tmp_path)
