"""The two READMEs: what they contain, and that they say the same. Their blocks are run by test_docs.py."""

from __future__ import annotations

import re

import click
import pytest

from graphshare.cli.main import COMMANDS, cli, group_commands
from graphshare.errors import install_command
from tests.processes import ROOT

ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")


def list_blocks(text: str) -> list[tuple[str, str]]:
    """Return the language and the lines that one types of each block; what a command prints is left out."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S)
    return [
        (kind, "\n".join(re.findall(r"^\$ .*", body, re.M)) if kind == "console" else body)
        for kind, body in blocks
    ]


def list_commands(text: str) -> list[str]:
    return re.findall(r"^\| \[`([\w-]+)`\]\(docs/commands/\1\.md\) \| [^|\n]+ \|$", text, re.M)


def test_both_are_short() -> None:
    """The table of commands apart, which grows with them."""
    assert ENGLISH.count("\n") - len(list_commands(ENGLISH)) <= 139
    assert CHINESE.count("\n") - len(list_commands(CHINESE)) <= 179


def test_both_have_the_same_blocks_and_links() -> None:
    assert list_blocks(ENGLISH) == list_blocks(CHINESE)
    english, chinese = (
        set(re.findall(r"\]\(([^)]+)\)", text)) - {"README.md", "README.zh-CN.md"}
        for text in (ENGLISH, CHINESE)
    )
    assert english == {link.replace("-zh.md", ".md") for link in chinese}
    assert [
        link
        for link in chinese
        if (ROOT / link.replace(".md", "-zh.md")).is_file() and link.endswith(".md")
    ] == []


def test_every_row_of_the_chinese_tables_is_chinese() -> None:
    assert find_english_rows(CHINESE) == []
    assert find_english_rows("| a | b |\n| --- | --- |\n| `x` | Print it. |\n| `y` | 输出 |\n") == [
        "| `x` | Print it. |"
    ]


def find_english_rows(text: str) -> list[str]:
    """Return the rows of tables, without their heads, in which no Chinese character stands."""
    rows = re.findall(r"^\|.*\|$", re.sub(r"^\|.*\|\n\|(?: --- \|)+\n", "", text, flags=re.M), re.M)
    return [row for row in rows if re.search(r"[\u4e00-\u9fff]", row) is None]


def test_a_different_block_is_found() -> None:
    assert list_blocks(CHINESE.replace("--prefix sha-", "--prefix shb-")) != list_blocks(ENGLISH)


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["README.md", "README.zh-CN.md"])
def test_each_describes_every_command_in_one_line(text: str) -> None:
    assert list_commands(text) == [
        name for commands in group_commands().values() for name in commands
    ]
    assert sorted(list_commands(text)) == sorted(COMMANDS)


def test_there_are_two_set_up_commands() -> None:
    assert len(re.findall(r"^python3 -m pip install .*--target", ENGLISH, re.M)) == 2
    assert {kind for kind, _ in list_blocks(ENGLISH)} == {"console", "python", "sh"}


def test_no_text_installs_the_package_of_that_name_which_may_be_a_strangers() -> None:
    files = [*ROOT.glob("*.md"), *ROOT.glob("*.yml"), *(ROOT / "man").glob("*")]
    files += [
        path
        for folder in ("docs", "graphshare", "fixtures")
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
    ]
    texts = {
        path: path.read_text(encoding="utf-8", errors="replace")
        for path in files
        if path.suffix != ".pyc"
    }
    assert len(texts) > 500
    assert not [
        path
        for path, text in texts.items()
        if re.search(r"pip\d? install [^\n`&]*\bgraphshare\b", text)
    ]


def test_the_packages_of_an_extra_are_those_that_a_hint_names() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for extra in ("onnx", "images", "dask", "remote"):
        (packages,) = re.findall(rf"^{extra} = \[(.*)\]$", text, re.M)
        names = " ".join(re.findall(r'"(\w+)', packages))
        assert install_command(extra) == f"pip install {names}"


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["README.md", "README.zh-CN.md"])
def test_the_commands_have_the_options_that_it_names(text: str) -> None:
    (sentence,) = re.findall(r"^(`duplicate`.*?`--format json`)", text, re.M | re.S)
    words = re.findall("`([^` ]+)[^`]*`", sentence)
    flags = {word for word in words if word.startswith("--")}
    assert len(flags) == 5
    for name in [word for word in words if not word.startswith("--")]:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        assert flags <= {flag for each in command.params for flag in each.opts}


def test_a_line_that_the_first_set_up_command_prints_works_in_the_same_shell() -> None:
    first = re.findall(r"^python3 -m pip install .*--target.*", ENGLISH, re.M)[0]
    assert 'export PYTHONPATH="$PWD/.try" &&' in first
