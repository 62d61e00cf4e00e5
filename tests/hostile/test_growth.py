"""Work grows with the size of a file, not with its square: calls and lines are counted, not seconds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphshare.api.inspect import inspect
from graphshare.checks.context import CheckContext
from graphshare.checks.engine import run_rules
from graphshare.execute.prepare.prepare import unique_names
from graphshare.formats.mxnet.places import LineIndex
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.rewrite.extract_graph import extract_graph
from graphshare.text.patterns import compile_pattern
from tests.effort import grows_with, instructions
from tests.surroundings import size_of_day
from tests.symbols import document, mxnet_text, operator, variable


def sliced(count: int) -> bytes:
    """A graph of one operator with so many outputs, the first three of which are heads."""
    nodes = [variable("x"), operator("SliceChannel", "s", [0], attrs={"num_outputs": str(count)})]
    return mxnet_text(document(nodes, [(1, i, 0) for i in range(3)])).encode()


def equal_names(count: int) -> bytes:
    """A graph of so many operators of one name, all of them heads."""
    nodes = [variable("x"), *(operator("relu", "r", [0]) for _ in range(count))]
    return mxnet_text(document(nodes, range(1, count + 1))).encode()


WORK: dict[str, Callable[[int], Any]] = {
    "extract of many outputs": lambda n: extract_graph(read_symbol(sliced(n)), ["s_output1"]),
    "inspect of many outputs": lambda n: inspect(read_symbol(sliced(n))),
    "inspect of many heads": lambda n: inspect(read_symbol(equal_names(n))),
    "check of many equal names": lambda n: run_rules(CheckContext("x", equal_names(n))),
    "numbers of equal names": lambda n: unique_names(["x"] * n),
    "numbers of names that are taken": lambda n: unique_names(
        ["x", *(f"x#{i}" for i in range(1, n)), *["x"] * n]
    ),
    "a glob": lambda n: compile_pattern("*" + "a" * n + "b*")("a" * 2 * n),
    "a glob with a wildcard": lambda n: compile_pattern("*" + "a" * n + "?" + "a" * n + "b*")(
        "a" * 4 * n
    ),
    "a glob of many stars": lambda n: compile_pattern("*a" * n + "b")("a" * 2 * n),
}


@pytest.mark.parametrize("work", WORK)
def test_four_times_the_size_is_about_four_times_the_work(work: str) -> None:
    assert grows_with(WORK[work], size_of_day(64, 128), measure=instructions) < 6


def test_a_square_is_found() -> None:
    assert (
        grows_with(lambda n: [unique_names(["x"] * i) for i in range(n)], 32, measure=instructions)
        > 12
    )


def test_positions_are_found_without_reading_the_text_again() -> None:
    text = "ab\n\ncd\n"
    index = LineIndex(text)
    assert [index.locate(i) for i in range(len(text))] == [
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 1),
        (3, 1),
        (3, 2),
        (3, 3),
    ]


@pytest.mark.parametrize(
    "key", ["a" + ".a" * 75_000, '"a"' + '."a"' * 30_000, "x = {" + "a.a" + ".a" * 70_000]
)
def test_a_dotted_key_without_end_is_refused_at_once(tmp_path: Path, key: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.graphshare]\n{key} = 1\n")
    (tmp_path / "x-symbol.json").write_bytes(sliced(3))
    command = [sys.executable, "-m", "graphshare", "check", "x-symbol.json"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "has a dotted key of more than 64 parts" in done.stderr
