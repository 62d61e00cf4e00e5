"""Names and paths inside text of other languages: shell lines, HTML (and SVG), Markdown.

Each language has one function. Languages with a single writer have theirs there: Graphviz and Mermaid in
:mod:`graphshare.drawing.languages`, JUnit XML and GitHub's commands in :mod:`graphshare.reports`.
"""

from __future__ import annotations

import re
import shlex

from graphshare.text.format import escape_control, shorten

LONGEST_SPAN = 1000
"""Characters of a name in Markdown; a name may have megabytes."""


def quote_shell(*words: str) -> str:
    """Return the command line of ``words``: one printable line, which bash, zsh and ksh read as these words."""
    return " ".join(map(_quote_word, words))


def _quote_word(word: str) -> str:
    quoted = shlex.quote(word)
    if quoted == word and word.startswith("="):  # zsh puts the path of a program in place of =name
        quoted = f"'{word}'"
    if quoted.isprintable():
        return quoted
    # Messages and pages escape control characters, which would make another word of it.
    escaped = "".join(c if c.isprintable() and c not in "\\'" else _format_octal(c) for c in word)
    return f"$'{escaped}'"


def _format_octal(character: str) -> str:
    # Three digits end an escape, while hexadecimal digits may go on in the name.
    form = "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass"
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", form))


def escape_html(text: str) -> str:
    """Return ``text`` as text or attribute of HTML or XML, its control characters as escapes."""
    from html import escape  # start-up: only pages and notebooks need it

    return escape(escape_control(text))


def quote_markdown(text: str) -> str:
    """Return ``text`` as a code span of Markdown, which is literal: one line, cut to ``LONGEST_SPAN`` characters."""
    content = shorten(escape_control(shorten(text, LONGEST_SPAN)), LONGEST_SPAN) or " "
    # A span ends at as many backticks as it began with.
    fence = "`" * (1 + max(map(len, re.findall("`+", content)), default=0))
    # A reader takes one blank from both ends, if there is something between them.
    is_padded = bool(content.strip(" ")) and (content[0] == content[-1] == " " or "`" in (content[0], content[-1]))
    return f"{fence} {content} {fence}" if is_padded else f"{fence}{content}{fence}"
