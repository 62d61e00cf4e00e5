"""The summary of a fleet run: counts, figures, the first failures; all results, and an HTML page."""

from __future__ import annotations

import heapq
import tempfile
from array import array
from collections.abc import Iterator, Sequence

import msgspec

from graphshare.fleet.records import Result
from graphshare.text.format import format_count, format_number
from graphshare.text.summary import escape_text

_FIRST = 10
_MOST_FIGURES = 64
_BINS = 24
_MOST_HISTOGRAMS = 12
_MOST_ROWS = 1000
_SLOWEST = 100
_BAR, _HEIGHT = 12, 80  # pixels
_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em;
       color: #222; background: #fff }
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


class Figure(msgspec.Struct):
    """A figure of reports or runs: its number of models, its sum, least and greatest value."""

    count: int = 0
    sum: float = 0
    min: float = float("inf")
    max: float = float("-inf")

    def add(self, value: float) -> None:
        self.count += 1
        self.sum += value
        self.min, self.max = min(self.min, value), max(self.max, value)


class RunSummary(msgspec.Struct):
    """The counts of a run, its figures by name, and the first unfinished results, without reports.

    ``sources`` are the models by the two digests of their fingerprint, if the command prints it.
    """

    done: int = 0
    no: int = 0
    failed: int = 0
    skipped: int = 0
    figures: dict[str, Figure] = {}
    first: list[Result] = []
    sources: dict[tuple[str, str], list[str]] = {}

    def add(self, result: Result) -> None:
        self.skipped += result.was_skipped
        for name, value in all_figures(result).items():
            # Names of figures may come from models, so their number is bounded.
            if name in self.figures or len(self.figures) < _MOST_FIGURES:
                self.figures.setdefault(name, Figure()).add(value)
        if result.result == "done":
            self.done += 1
            if "--fingerprint" in result.command and (report := result.summary).weights is not None:
                self.sources.setdefault((report.structure, report.weights), []).append(
                    result.source
                )
            return
        if result.result == "no":
            self.no += 1
        else:
            self.failed += 1
        if len(self.first) < _FIRST:
            error = result.error or result.verdict or _count_errors(result)
            # Reports may be large, and these stay in memory.
            self.first.append(
                msgspec.structs.replace(result, error=error, report=msgspec.Raw(b"null"))
            )

    @property
    def total(self) -> int:
        return self.done + self.no + self.failed

    @property
    def exit_code(self) -> int:
        """Return 2 if a model has failed, else 1 if an answer was no, else 0."""
        return 2 if self.failed else 1 if self.no else 0


def _count_errors(result: Result) -> str:
    count = int(result.figures.get("counts.error", 0))
    return format_count(count, "error") if count else ""


def all_figures(result: Result) -> dict[str, float]:
    """Return the figures, including the seconds."""
    return {"seconds": result.seconds, **result.figures}


class Spool:
    """Results in a temporary file that is deleted with this object."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as long as the object
        self._offsets = array("q")
        self._sources: list[str] = []

    def append(self, result: Result) -> None:
        self._offsets.append(self._file.tell())
        self._sources.append(result.source)
        self._file.write(msgspec.json.encode(result) + b"\n")

    def lines(self) -> Iterator[bytes]:
        for i in sorted(range(len(self._sources)), key=self._sources.__getitem__):
            self._file.seek(self._offsets[i])
            yield self._file.readline()[:-1]
        # append() writes at the current position.
        self._file.seek(0, 2)

    def results(self) -> Iterator[Result]:
        return (msgspec.json.decode(line, type=Result) for line in self.lines())


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
    yield from _format_results(
        "Not done", (r for r in spool.results() if r.result != "done"), summary.no + summary.failed
    )
    slowest = heapq.nlargest(_SLOWEST, spool.results(), key=lambda result: result.seconds)
    yield from _format_results("Slowest", iter(slowest), len(slowest))
    yield "</body></html>\n"


def describe_counts(summary: RunSummary) -> str:
    """Return a line with the counts."""
    parts = [f"{summary.done:,} done"]
    parts += [f"{summary.no:,} answered no"] if summary.no else []
    parts += [f"{summary.failed:,} failed"] if summary.failed else []
    parts += [f"{summary.skipped:,} of them from an earlier run"] if summary.skipped else []
    return f"{format_count(summary.total, 'model')}: {', '.join(parts)}"


def _count_bins(summary: RunSummary, spool: Spool) -> list[tuple[str, Figure, list[int]]]:
    """Return the figures that vary, with counts of their values in bins of equal width."""
    chosen = [
        (name, figure) for name, figure in summary.figures.items() if figure.max > figure.min
    ][:_MOST_HISTOGRAMS]
    counted = {name: (name, figure, [0] * _BINS) for name, figure in chosen}
    for result in spool.results():
        for name, value in all_figures(result).items():
            if name in counted:
                _, figure, bins = counted[name]
                at = int((value - figure.min) / (figure.max - figure.min) * _BINS)
                # The largest value lies on the right edge of the last bin.
                bins[min(at, _BINS - 1)] += 1
    return list(counted.values())


def _format_histogram(name: str, figure: Figure, bins: list[int]) -> str:
    most = max(bins)
    bars = "".join(
        f'<rect x="{i * _BAR}" y="{_HEIGHT - height}" width="{_BAR - 1}" '
        f'height="{height}"><title>{count:,}</title></rect>'
        for i, count in enumerate(bins)
        # A bin that is not empty has at least one pixel.
        if (height := max(round(_HEIGHT * count / most), int(count > 0)))
    )
    mean = format_number(figure.sum / figure.count)
    text = (
        f"{name}: {format_number(figure.min)} to {format_number(figure.max)}, mean {mean}, sum "
        f"{format_number(figure.sum)}"
    )
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
