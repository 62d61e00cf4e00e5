"""Talk to the person on standard error; standard output is for data."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from typing import Any

import click
import msgspec

from graphshare.text.format import escape_control

_COLORS = {"error": "red", "warning": "yellow", "hint": "cyan", "note": None}
_PREFIXES = {"error": "error: ", "warning": "warning: ", "hint": "  hint: ", "note": ""}


def say(message: str, *, style: str = "note") -> None:
    """One message on standard error: ``error``, ``warning``, ``hint`` or ``note``. Colour only on a terminal."""
    prefix = _PREFIXES[style]
    color = _COLORS[style]
    if prefix and color and colored(sys.stderr):
        prefix = click.style(prefix, fg=color, bold=style == "error")
    with contextlib.suppress(OSError):  # when nobody listens, the exit code still tells
        click.echo(prefix + printable(message), err=True, color=True)


def put(lines: Iterable[str]) -> None:
    """Lines of text on standard output, each with its control characters shown: a name may hold a line break."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    _put_bytes("".join(f"{escape_control(line)}\n" for line in lines).encode(encoding, "backslashreplace"))


def put_text(text: str) -> None:
    """A report on standard output as it is: its writer has spelled control characters out."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    _put_bytes(text.encode(encoding, "backslashreplace"))


Line = tuple[str, str]
"""A style (``added``, ``removed``, ``changed``, ``title`` or empty) and a text."""
_STYLES: dict[str, dict[str, Any]] = {
    "added": {"fg": "green"},
    "removed": {"fg": "red"},
    "changed": {"fg": "yellow"},
    "title": {"bold": True},
}


def put_colored(lines: Iterable[Line]) -> None:
    """As :func:`put`; on a terminal in colour."""
    if sys.stdout is None or not colored(sys.stdout):
        put(text for _, text in lines)
        return
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    told = (click.style(escape_control(text), **_STYLES[style]) if style else escape_control(text) for style, text in lines)
    _put_bytes("".join(f"{line}\n" for line in told).encode(encoding, "backslashreplace"))


def put_json(value: object) -> None:
    """``value`` as JSON on standard output, in UTF-8 whatever the locale."""
    _put_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def _put_bytes(data: bytes) -> None:
    from graphshare.checkpoint.save import write_stdout  # not needed for --help

    write_stdout([data])


_choice = "auto"


def choose_color(choice: str) -> None:
    """What ``--color`` says: ``always``, ``never``, or ``auto``."""
    global _choice
    _choice = choice


def colored(stream: object) -> bool:
    """Whether to colour: as ``--color`` says; else a terminal, and the user did not forbid it (https://no-color.org)."""
    if _choice != "auto":
        return _choice == "always"
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and bool(getattr(stream, "isatty", bool)())


def printable(text: str) -> str:
    """``text`` with control characters shown instead of sent to the terminal, and nothing that cannot be encoded."""
    shown = escape_control(text, keep="\n\t")
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    return shown.encode(encoding, "backslashreplace").decode(encoding)
