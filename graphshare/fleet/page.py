"""A run as an HTML page: its counts, a histogram of each figure, what is not done, and the models that took longest."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from graphshare.fleet.records import Result
from graphshare.fleet.summary import Figure, RunSummary, Spool, all_figures
from graphshare.text.format import format_count, format_number
from graphshare.text.summary import escape_text

_BINS = 24
_MOST_HISTOGRAMS = 12
_MOST_ROWS = 1000
_SLOWEST = 100
_BAR, _HEIGHT = 12, 80  # pixels
_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; color: #222; background: #fff }
table { border-collapse: collapse; margin: 1em 0; width: 100% }
th, td { text-align: left; padding: .2em .8em .2em 0; border-bottom: 1px solid #ddd }
td {overflow-wrap: anywhere; vertical-align: top }
figure { display: inline-block; margin: 0 2em 1em 0 }
figcaption { font-size: 12px }
rect { fill: #47a }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #181818 }
  th, td { border-color: #444 }
  rect { fill: #7ad }
}
"""


def write_page(command: Sequence[str], summary: RunSummary, spool: Spool) -> Iterator[str]:
    """Yield the pieces of the page; it needs no other file and no script."""
    title = f"graphshare {' '.join(command)}"
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    yield '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield f"<title>{escape_text(title)}</title><style>{_STYLE}</style></head><body>\n<h1>{escape_text(title)}</h1>\n"
    yield f"<p>{escape_text(describe_counts(summary))}</p>\n"
    for name, figure, bins in _count_bins(summary, spool):
        yield _format_histogram(name, figure, bins)
    yield from _format_results("Not done", (r for r in spool.results() if r.result != "done"), summary.no + summary.failed)
    slowest = heapq.nlargest(_SLOWEST, spool.results(), key=lambda result: result.seconds)
    yield from _format_results("Longest", iter(slowest), len(slowest))
    yield "</body></html>\n"


def describe_counts(summary: RunSummary) -> str:
    """Return the counts in one line."""
    parts = [f"{summary.done:,} done"]
    parts += [f"{summary.no:,} answered no"] if summary.no else []
    parts += [f"{summary.failed:,} failed"] if summary.failed else []
    parts += [f"{summary.skipped:,} of them from an earlier run"] if summary.skipped else []
    return f"{format_count(summary.total, 'model')}: {', '.join(parts)}"


def _count_bins(summary: RunSummary, spool: Spool) -> list[tuple[str, Figure, list[int]]]:
    """Return the figures that differ between models, each with the counts of its values in bins of equal width."""
    chosen = [(name, figure) for name, figure in summary.figures.items() if figure.max > figure.min][:_MOST_HISTOGRAMS]
    found = {name: (name, figure, [0] * _BINS) for name, figure in chosen}
    for result in spool.results():
        for name, value in all_figures(result).items():
            if name in found:
                _, figure, bins = found[name]
                at = int((value - figure.min) / (figure.max - figure.min) * _BINS)
                bins[min(at, _BINS - 1)] += 1
    return list(found.values())


def _format_histogram(name: str, figure: Figure, bins: list[int]) -> str:
    most = max(bins)
    bars = "".join(
        f'<rect x="{i * _BAR}" y="{_HEIGHT - height}" width="{_BAR - 1}" height="{height}"><title>{count:,}</title></rect>'
        for i, count in enumerate(bins)
        if (height := max(round(_HEIGHT * count / most), int(count > 0)))
    )
    mean = format_number(figure.sum / figure.count)
    text = f"{name}: {format_number(figure.min)} to {format_number(figure.max)}, mean {mean}, sum {format_number(figure.sum)}"
    return (
        f'<figure><svg width="{_BINS * _BAR}" height="{_HEIGHT}" role="img">{bars}</svg>'
        f"<figcaption>{escape_text(text)}</figcaption></figure>\n"
    )


def _format_results(title: str, results: Iterator[Result], count: int) -> Iterator[str]:
    if not count:
        return
    heads = "".join(f"<th>{head}</th>" for head in ("model", "result", "seconds", "reason"))
    yield f"<h2>{title}</h2>\n<table><thead><tr>{heads}</tr></thead><tbody>\n"
    for _, result in zip(range(_MOST_ROWS), results, strict=False):
        cells = (result.source, result.result, f"{result.seconds:.3f}", result.reason)
        yield "<tr>" + "".join(f"<td>{escape_text(cell)}</td>" for cell in cells) + "</tr>\n"
    yield "</tbody></table>\n"
    if count > _MOST_ROWS:
        yield f"<p>and {count - _MOST_ROWS:,} more</p>\n"
