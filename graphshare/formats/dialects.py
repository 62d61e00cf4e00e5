"""Recognising how a symbol file was written, so that it is written back the same way."""

from __future__ import annotations

import re

from graphshare.ir.graph import Dialect

_BREAK = re.compile(rb"\{ *(\r?\n)([ \t]*)\"")
_BLANK_BEFORE_BREAK = re.compile(rb", \r?\n")
_NUMBER_ON_ITS_OWN_LINE = re.compile(rb"\[\r?\n[ \t]+\d")
_ESCAPE = re.compile(rb"\\[ubf]")
_SAMPLE = 1 << 16


def dialect_of(data: bytes) -> Dialect:
    """The dialect of a file by its text: layout, line ends, escapes, and what follows the last brace.

    Keys and forms come from the parsed document. A layout that is none of ours is taken for the nearest one.
    """
    start, end = data[:_SAMPLE], data[-64:]
    tail = end[len(end.rstrip()) :].decode("ascii")
    escapes = "mxnet" if _ESCAPE.search(data) is None else "ascii" if data.isascii() else "json"
    broken = _BREAK.match(start.lstrip())
    if broken is None:
        spaced = b'": ' in start
        return Dialect(layout="spaced" if spaced else "compact", tail=tail, escapes=escapes)
    newline = broken[1].decode()
    if _BLANK_BEFORE_BREAK.search(start):
        return Dialect(layout="mxnet", newline=newline, tail=tail)
    if _NUMBER_ON_ITS_OWN_LINE.search(start) or b"[" not in start:
        return Dialect(layout="indent", indent=len(broken[2]), newline=newline, tail=tail, escapes=escapes)
    return Dialect(layout="trimmed", newline=newline, tail=tail)  # MXNet's, through an editor that strips line ends
