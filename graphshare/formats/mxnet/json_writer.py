"""JSON arrays, objects and strings as text in a given style.

MXNet breaks maps into lines from two keys on and lists from eleven elements on, puts a blank behind every comma, and escapes
nothing but ``\\" \\\\ \\n \\r \\t``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from graphshare.errors import Fault, RefusedError
from graphshare.formats.mxnet.source import JsonStyle

CHUNK = 512  # nodes joined at a time, about 100 KiB of text: larger pieces are returned to the system and requested again
SPECIAL = re.compile(r"[^ !#-\[\]-~]")  # all but printable ASCII without quote and backslash
_MXNET_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


class JsonWriter:
    """Formats arrays, objects and strings in one style."""

    def __init__(self, style: JsonStyle) -> None:
        layout = style.layout
        self.comma = "," if layout == "compact" else ", "
        self.colon = ":" if layout == "compact" else ": "
        self.indent = " " * (style.indent if layout == "indent" else 2)
        self.break_comma = ", \n" if layout == "mxnet" else ",\n"
        self.newline = style.newline
        self.quote: Callable[[str], str] = _QUOTES[style.escapes]
        # From how many elements on an array or map has lines of its own.
        least = {"mxnet": (2, 11, 1), "trimmed": (2, 11, 1), "indent": (1, 1, 1)}.get(layout)
        self.break_map, self.break_list, self.break_record = least or (1 << 62,) * 3
        self.break_entry = 1 if layout == "indent" else 1 << 62

    def end_lines(self, text: str) -> str:
        """Return ``text`` with the line ends of the style; a line break cannot stand inside a string."""
        return text if self.newline == "\n" else text.replace("\n", self.newline)

    def array(self, items: Sequence[str], level: int, least: int) -> str:
        """Return ``items`` in brackets at ``level``, broken into lines from ``least`` items on."""
        if len(items) < least:
            return f"[{self.comma.join(items)}]"
        start, end = self._breaks(level)
        return f"[{start}{(self.break_comma + start[1:]).join(items)}{end}]"

    def object(self, pairs: Sequence[tuple[str, str]], level: int, least: int) -> str:
        """Return ``pairs`` of a key and the text of its value, in braces."""
        items = [f"{self.quote(key)}{self.colon}{value}" for key, value in pairs]
        if len(items) < least:
            return f"{{{self.comma.join(items)}}}"
        start, end = self._breaks(level)
        return f"{{{start}{(self.break_comma + start[1:]).join(items)}{end}}}"

    def _breaks(self, level: int) -> tuple[str, str]:
        return "\n" + self.indent * (level + 1), "\n" + self.indent * level

    def map(self, values: Mapping[str, str], level: int) -> str:
        """Return a map of strings."""
        return self.object([(key, self.quote(value)) for key, value in values.items()], level, self.break_map)

    def id_pieces(self, values: Iterable[int], count: int, level: int) -> Iterator[str]:
        """Yield the array of ``count`` numbers in pieces: a large graph has millions of them."""
        start, end = self._breaks(level) if count >= self.break_list else ("", "")
        comma = self.break_comma + start[1:] if start else self.comma
        numbers = map(str, values)
        yield "[" + start
        for i in range(0, count, CHUNK):
            yield (comma if i else "") + comma.join(islice(numbers, CHUNK))
        yield end + "]"

    def value(self, value: Any, level: int) -> str:
        """Return any JSON value, for keys without a meaning here."""
        if isinstance(value, str):
            return self.quote(value)
        if isinstance(value, Mapping):
            return self.object([(k, self.value(v, level + 1)) for k, v in value.items()], level, self.break_map)
        if isinstance(value, (list, tuple)):
            return self.array([self.value(item, level + 1) for item in value], level, self.break_list)
        return str(value) if type(value) is int else _dump_json(value)


def _quote_for_mxnet(text: str) -> str:
    if SPECIAL.search(text) is None:
        return f'"{text}"'
    if "\0" in text:
        hint = "MXNet ends a string at NUL; rename it first, or write another layout with its escapes kept"
        raise RefusedError(Fault(f"{text!r} holds a NUL character, which MXNet cannot read", hint=hint))
    return f'"{text.translate(_MXNET_ESCAPES)}"'


def _quote_json(text: str) -> str:
    return _dump_json(text, ascii_only=False)


def _dump_json(value: object, *, ascii_only: bool = True) -> str:
    from json import dumps  # start-up: MXNet's own files do not need it

    return dumps(value, ensure_ascii=ascii_only)


_QUOTES: dict[str, Callable[[str], str]] = {"mxnet": _quote_for_mxnet, "json": _quote_json, "ascii": _dump_json}
