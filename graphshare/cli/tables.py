"""Tables of text: aligned columns, titles on a terminal in bold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphshare.cli.console import Line, put_colored
from graphshare.text.format import escape_control


def put_table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Print ``rows`` under ``titles``; the columns named in ``right`` are aligned right."""
    lines = align([titles, *rows], right=[title in right for title in titles])
    put_colored(_add_styles(lines))


def _add_styles(lines: Iterator[str]) -> Iterator[Line]:
    yield "title", next(lines)
    yield from (("", line) for line in lines)


def align(rows: Sequence[Sequence[str]], *, right: Sequence[bool] = ()) -> Iterator[str]:
    """Yield rows as lines of text, columns two blanks apart."""
    escaped = [[escape_control(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*escaped, strict=True)]
    flush = [*right, *[False] * (len(widths) - len(right))]
    for row in escaped:
        cells = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, flush, strict=True))
        yield "  ".join(cells).rstrip()
