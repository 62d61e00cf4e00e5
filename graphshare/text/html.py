"""Summaries as HTML, which notebooks show: a title, facts and tables, all text escaped and cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from graphshare.text.format import escape_control, shorten

MOST_ROWS = 100
LONGEST_CELL = 200  # characters


class Table(NamedTuple):
    """Rows under titles; those after the first ``MOST_ROWS`` are counted only."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]


def format_html(title: str, *, facts: Sequence[tuple[str, str]] = (), tables: Sequence[Table] = ()) -> str:
    """Return a summary as an HTML element; facts and tables that are empty are left out."""
    return "".join(_format_parts(title, facts, tables))


def _format_parts(title: str, facts: Sequence[tuple[str, str]], tables: Sequence[Table]) -> Iterator[str]:
    yield f"<div><p><b>{escape_text(title)}</b></p>"
    known = [(name, text) for name, text in facts if text]
    if known:
        rows = "".join(
            f'<tr><th style="text-align:left">{escape_text(name)}</th><td style="text-align:left">{escape_text(text)}</td></tr>'
            for name, text in known
        )
        yield f"<table>{rows}</table>"
    for table in tables:
        if table.rows:
            yield from _format_table(table)
    yield "</div>"


def _format_table(table: Table) -> Iterator[str]:
    heads = "".join(f'<th style="text-align:left">{escape_text(title)}</th>' for title in table.titles)
    yield f"<table><thead><tr>{heads}</tr></thead><tbody>"
    for row in table.rows[:MOST_ROWS]:
        yield "<tr>" + "".join(f'<td style="text-align:left">{escape_text(cell)}</td>' for cell in row) + "</tr>"
    yield "</tbody></table>"
    if len(table.rows) > MOST_ROWS:
        yield f"<p>and {len(table.rows) - MOST_ROWS:,} more</p>"


def escape_text(text: str) -> str:
    """Return ``text`` as HTML, cut, its control characters as escapes."""
    from html import escape  # start-up: only notebooks need it

    return escape(shorten(escape_control(text[: 2 * LONGEST_CELL]), LONGEST_CELL))
