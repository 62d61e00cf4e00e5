"""Tables of text: aligned columns, titles on a terminal in bold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphshare.cli.console import Line, put_colored, visible


def put_table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Prints ``rows`` under ``titles``; the columns named in ``right`` are set flush right."""
    lines = aligned([titles, *rows], right=[title in right for title in titles])
    put_colored(_styled(lines))


def _styled(lines: Iterator[str]) -> Iterator[Line]:
    yield "title", next(lines)
    yield from (("", line) for line in lines)


def aligned(rows: Sequence[Sequence[str]], *, right: Sequence[bool] = ()) -> Iterator[str]:
    """Rows as lines of text, columns two blanks apart."""
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    flush = [*right, *[False] * (len(widths) - len(right))]
    for row in shown:
        cells = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, flush, strict=True))
        yield "  ".join(cells).rstrip()


def spelled_shape(shape: Sequence[int | None] | None) -> str:
    """``20x1x5x5``, ``scalar``, ``never filled``."""
    if shape is None:
        return "never filled"
    return "x".join("?" if size is None else str(size) for size in shape) or "scalar"


def spelled_size(count: int) -> str:
    """A number of bytes for people: ``431 B``, ``1.7 kB``, ``97.5 MB``."""
    value, units = float(count), ["B", "kB", "MB", "GB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{count} B" if units[0] == "B" else f"{value:.1f} {units[0]}"


def number(value: float | None) -> str:
    """A number in few digits; a dash where there is none."""
    return "-" if value is None else f"{value:.5g}"
