"""Short texts of large objects: ``repr`` in one line, and HTML for notebooks.

Whole graphs or arrays must not be printed; all text is escaped and cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from typing import Any, NamedTuple

from graphshare.text.format import escape_control, format_count, shorten, singularize
from graphshare.text.markup import escape_html

LONGEST_NAME = 60
LONGEST_SUMMARY = 120


class ShortRepr:
    """A base class for records whose fields are too large to print:
    ``<Graph: 31 nodes, 1 head>``.
    """

    __slots__ = ()

    def _summary(self) -> str:
        """Return the verdict, or short fields and the sizes of others."""
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
    """A field without a short value or a size has an empty text."""
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


MOST_ROWS = 100
LONGEST_CELL = 200  # characters


class Table(NamedTuple):
    """Rows under titles; only the first ``MOST_ROWS`` are shown."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]


def format_html(
    title: str, *, facts: Sequence[tuple[str, str]] = (), tables: Sequence[Table] = ()
) -> str:
    """Return a summary as an HTML element, without empty facts and tables."""
    return "".join(_format_parts(title, facts, tables))


def _format_parts(
    title: str, facts: Sequence[tuple[str, str]], tables: Sequence[Table]
) -> Iterator[str]:
    yield f"<div><p><b>{escape_text(title)}</b></p>"
    known = [(name, text) for name, text in facts if text]
    if known:
        rows = "".join(
            f'<tr><th style="text-align:left">{escape_text(name)}</th><td '
            f'style="text-align:left">{escape_text(text)}</td></tr>'
            for name, text in known
        )
        yield f"<table>{rows}</table>"
    for table in tables:
        if table.rows:
            yield from _format_table(table)
    yield "</div>"


def _format_table(table: Table) -> Iterator[str]:
    heads = "".join(
        f'<th style="text-align:left">{escape_text(title)}</th>' for title in table.titles
    )
    yield f"<table><thead><tr>{heads}</tr></thead><tbody>"
    for row in table.rows[:MOST_ROWS]:
        yield (
            "<tr>"
            + "".join(f'<td style="text-align:left">{escape_text(cell)}</td>' for cell in row)
            + "</tr>"
        )
    yield "</tbody></table>"
    if len(table.rows) > MOST_ROWS:
        yield f"<p>and {len(table.rows) - MOST_ROWS:,} more</p>"


def escape_text(text: str) -> str:
    """Return ``text`` as HTML, cut, with control characters as escapes."""
    # Names may have megabytes, so they are cut before escaping; escapes are longer, so also after.
    return escape_html(shorten(escape_control(shorten(text, LONGEST_CELL)), LONGEST_CELL))
