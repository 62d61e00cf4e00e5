"""Recognize the JSON style of a symbol file, so that it is written back in the same way."""

from __future__ import annotations

import re

from graphshare.formats.mxnet.source import JsonStyle

_BREAK = rb"\{ *(\r?\n)([ \t]*)\""
_BLANK_BEFORE_BREAK = rb", \r?\n"
_FIRST_COLON = rb"\{ *\"(?:[^\"\\]|\\.)*\"( *: ?)"
# A list that begins on the line of its key, or an entry on one line: json.dumps with an indent writes neither. A line break
# cannot stand inside a string, and the quote that ends a key has no backslash before it.
_LIST_ON_ONE_LINE = rb"[^\\]\": \[[\[\d]|\n[ \t]*\[\d"
_ESCAPE = rb"\\[ubf/]"
_SAMPLE = 1 << 16


def recognize_style(data: bytes) -> JsonStyle:
    """Return layout, line ends, escapes, and what follows the last brace of a text.

    A layout that cannot be written is taken for the nearest one that can.
    """
    start, end = data[:_SAMPLE], data[-64:]
    tail = end[len(end.rstrip()) :].decode("ascii")
    broken = re.match(_BREAK, start.lstrip())
    if broken is None:
        colon = re.match(_FIRST_COLON, start.lstrip())
        layout = "compact" if colon is None or colon[1] == b":" else "spaced"
        return JsonStyle(layout=layout, tail=tail, escapes=_recognize_escapes(data))
    newline = broken[1].decode()
    if re.search(_BLANK_BEFORE_BREAK, start):
        return JsonStyle(layout="mxnet", newline=newline, tail=tail)
    if re.search(_LIST_ON_ONE_LINE, start) or re.search(_LIST_ON_ONE_LINE, data[-_SAMPLE:]):
        return JsonStyle(layout="trimmed", newline=newline, tail=tail)  # MXNet's, through an editor that strips line ends
    return JsonStyle(layout="indent", indent=len(broken[2]), newline=newline, tail=tail, escapes=_recognize_escapes(data))


def _recognize_escapes(data: bytes) -> str:
    """Return which characters the strings of a json.dumps file escape."""
    if re.search(_ESCAPE, data) is None:
        return "mxnet"
    ascii_only = data.isascii() and b"\x7f" not in data  # json.dumps escapes DEL with the characters beyond ASCII
    return "ascii" if ascii_only else "json"


def can_copy_text(data: bytes, style: JsonStyle) -> bool:
    """Return whether a rewrite may copy the text of nodes: MXNet's layout, and no escape that MXNet cannot read."""
    if style.layout != "mxnet" or style.newline != "\n":
        return False
    return b"\\" not in data or re.search(_ESCAPE, data) is None
