"""The two READMEs: what they contain, and that they say the same. Their blocks are run by test_docs.py."""

from __future__ import annotations

import re

import pytest

from graphshare.cli.app import COMMANDS
from tests.processes import ROOT

ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")


def list_blocks(text: str) -> list[tuple[str, str]]:
    """Return the language and the lines that one types of each block; what a command prints is left out."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S)
    return [(kind, "\n".join(re.findall(r"^\$ .*", body, re.M)) if kind == "console" else body) for kind, body in blocks]


def list_commands(text: str) -> list[str]:
    return re.findall(r"^\| \[`([\w-]+)`\]\(docs/commands/\1\.md\) \| [^|\n]+ \|$", text, re.M)


def test_both_are_short() -> None:
    assert ENGLISH.count("\n") <= 160
    assert CHINESE.count("\n") <= 200


def test_both_have_the_same_blocks_and_links() -> None:
    assert list_blocks(ENGLISH) == list_blocks(CHINESE)
    links = [set(re.findall(r"\]\(([^)]+)\)", text)) - {"README.md", "README.zh-CN.md"} for text in (ENGLISH, CHINESE)]
    assert links[0] == links[1]


def test_a_different_block_is_found() -> None:
    assert list_blocks(CHINESE.replace("--prefix sha-", "--prefix shb-")) != list_blocks(ENGLISH)


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["README.md", "README.zh-CN.md"])
def test_each_describes_every_command_in_one_line(text: str) -> None:
    assert list_commands(text) == list(COMMANDS)


def test_there_are_two_set_up_commands() -> None:
    assert len(re.findall(r"^python3 -m pip install .*--target", ENGLISH, re.M)) == 2
    assert {kind for kind, _ in list_blocks(ENGLISH)} == {"console", "python", "sh"}
