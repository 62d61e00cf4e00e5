"""One short line for ``repr``: objects that refer to whole graphs or arrays must not print them."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from graphshare.text.format import format_count, shorten, singularize

LONGEST_NAME = 60
LONGEST_SUMMARY = 120


class ShortRepr:
    """A base class for records whose fields are too large to print: ``<Graph: 31 nodes, 1 head>``."""

    __slots__ = ()

    def _summary(self) -> str:
        """Return what the line says after the name of the class: the verdict, or short fields and the sizes of others."""
        verdict = getattr(self, "verdict", None)
        if isinstance(verdict, str):
            return verdict
        fields = getattr(self, "__struct_fields__", ())
        return ", ".join(filter(None, (_describe(name, getattr(self, name)) for name in fields)))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {shorten(self._summary(), LONGEST_SUMMARY)}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("summary", shorten(self._summary(), LONGEST_SUMMARY))]


def _describe(name: str, value: object) -> str:
    """Return a field in a few words; empty if it is empty or has neither a short value nor a size."""
    if isinstance(value, str):
        return f"{name}={quote_name(value)}" if value else ""
    if isinstance(value, (int, float)):
        return f"{name}={value}"
    if not isinstance(value, Sized) or not len(value):
        return ""
    return f"{format_count(len(value))} {name if len(value) > 1 else singularize(name)}"


def quote_name(name: str) -> str:
    """Return ``name`` in quotes, cut to ``LONGEST_NAME`` characters."""
    return repr(shorten(name, LONGEST_NAME))
