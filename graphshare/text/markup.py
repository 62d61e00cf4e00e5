"""Names and paths in other languages: one function per language with several writers."""

from __future__ import annotations

import re
import shlex

from graphshare.text.format import escape_control, shorten

LONGEST_SPAN = 1000  # characters; a name may have megabytes


def quote_shell(*words: str) -> str:
    """Join words to one command line, with control characters as escapes."""
    return shlex.join(map(escape_control, words))


def write_path(path: str) -> str:
    """Return a path as a word of a command line, which no program takes for an option."""
    return f"./{path}" if path.startswith("-") and path != "-" else path


def escape_html(text: str) -> str:
    """Return ``text`` for HTML, SVG or XML, as text or attribute, with control characters as
    escapes.
    """
    from html import escape  # start-up: only pages and notebooks need it

    return escape(escape_control(text))


def quote_markdown(text: str) -> str:
    """Return ``text`` as a code span of Markdown: one line, cut to ``LONGEST_SPAN`` characters."""
    content = shorten(escape_control(shorten(text, LONGEST_SPAN)), LONGEST_SPAN) or " "
    # A span ends at as many backticks as it began with, and loses a blank at both ends.
    fence = "`" * (1 + max(map(len, re.findall("`+", content)), default=0))
    blank = " " if {content[0], content[-1]} & {"`", " "} else ""
    return f"{fence}{blank}{content}{blank}{fence}"
