"""The summary of a run: counts, figures, the first models that are not done, and the page, on both
sides of each bound.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest

from graphshare.fleet.records import Answer, Result
from graphshare.fleet.summary import Figure, RunSummary, Spool, describe_counts, write_page


def result(
    source: str, answer: Answer = "done", *, seconds: float = 1.0, report: Any = None, **more: Any
) -> Result:
    raw = msgspec.Raw(json.dumps(report).encode())
    return Result(source=source, command=("x",), result=answer, seconds=seconds, report=raw, **more)


def summarize(results: Iterable[Result]) -> RunSummary:
    summary = RunSummary()
    for each in results:
        summary.add(each)
    return summary


def page(results: Iterable[Result]) -> str:
    summary, spool = RunSummary(), Spool()
    for each in results:
        summary.add(each)
        spool.append(each)
    return "".join(write_page(["check", "<{}>"], summary, spool))


@pytest.mark.parametrize(
    ("answers", "text", "code"),
    [
        ({"done": 1}, "1 model: 1 done", 0),
        ({"done": 1200}, "1,200 models: 1,200 done", 0),
        ({"done": 1, "no": 2}, "3 models: 1 done, 2 answered no", 1),
        ({"no": 1, "failed": 2}, "3 models: 0 done, 1 answered no, 2 failed", 2),
        ({"done": 3, "failed": 1}, "4 models: 3 done, 1 failed", 2),
    ],
)
def test_a_run_is_counted_by_answer(answers: Mapping[Answer, int], text: str, code: int) -> None:
    summary = summarize(
        result(f"{name}{i}", name) for name, count in answers.items() for i in range(count)
    )
    assert describe_counts(summary) == text
    assert summary.exit_code == code
    assert (summary.done, summary.no, summary.failed, summary.skipped) == (
        *(answers.get(name, 0) for name in ("done", "no", "failed")),
        0,
    )


def test_the_first_ten_that_are_not_done_are_kept_without_their_reports() -> None:
    verdict = {"verdict": "NOT EQUAL: y"}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"report": verdict, "figures": {"counts.error": 1}}, "NOT EQUAL: y"),
        ({"report": verdict, "error": "no space"}, "no space"),
        ({"figures": {"counts.error": 1}}, "1 error"),
        ({"figures": {"counts.error": 2}}, "2 errors"),
        ({"figures": {"counts.error": 0}}, ""),
        ({}, ""),
    ]
    results = [result(f"{i}", "no", **more) for i, (more, _) in enumerate(cases)]
    results += [result("fine"), *(result(f"{i}", "failed", error="gone") for i in range(6, 12))]
    first = summarize(results).first
    assert [(each.source, each.error) for each in first] == [
        *((f"{i}", text) for i, (_, text) in enumerate(cases)),
        *((f"{i}", "gone") for i in range(6, 10)),
    ]
    assert {bytes(each.report) for each in first} == {b"null"}


def test_figures_are_counted_and_their_number_is_bounded() -> None:
    many = {f"n{i}": i for i in range(63)}  # the seconds are one more
    summary = summarize(
        [
            result("a", figures=many),
            result("b", seconds=3.0, figures={"late": 1, "n5": 7, "n0": -2}),
        ]
    )
    assert len(summary.figures) == 64
    assert "late" not in summary.figures
    assert summary.figures["seconds"] == Figure(2, 4.0, 1.0, 3.0)
    assert summary.figures["n5"] == Figure(2, 12, 5, 7)
    assert summary.figures["n0"] == Figure(2, -2, -2, 0)
    assert summarize([result("a", figures={**many, "last": 1, "late": 1})]).figures.keys() == {
        "seconds",
        *many,
    }


def test_results_are_listed_by_source_however_often() -> None:
    spool = Spool()
    for source in "bca":
        spool.append(result(source))
    assert [each.source for each in spool.results()] == ["a", "b", "c"]
    spool.append(result("aa", seconds=2.5))
    assert [each.source for each in spool.results()] == ["a", "aa", "b", "c"]
    assert [json.loads(line).get("seconds") for line in spool.lines()] == [1.0, 2.5, 1.0, 1.0]


def test_a_figure_that_differs_has_a_histogram() -> None:
    """Twenty-four bins of equal width; the largest value is in the last one, and no bin that counts
    is without a pixel.
    """
    values = [-10] * 200 + [-9, 1, 2, 14]
    text = page(
        result(f"m{i:03}", figures={"nodes": value, "same": 5}) for i, value in enumerate(values)
    )
    (histogram,) = re.findall("<figure>.*?</figure>", text)
    bars = re.findall(
        r'<rect x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"><title>(.*?)</title></rect>',
        histogram,
    )
    assert bars == [
        ("0", "0", "11", "80", "200"),
        *((f"{12 * at}", "79", "11", "1", "1") for at in (1, 11, 12, 23)),
    ]
    assert '<svg width="288" height="80" role="img">' in histogram
    assert "<figcaption>nodes: -10 to 14, mean -9.7647, sum -1992</figcaption>" in histogram


def test_twelve_figures_have_histograms() -> None:
    figures = [{f"n{i}": i * k for i in range(1, 14)} for k in (1, 2)]
    text = page(result(f"m{k}", figures=each) for k, each in enumerate(figures))
    assert re.findall("<figcaption>(.*?):", text) == [f"n{i}" for i in range(1, 13)]


@pytest.mark.parametrize("count", [1, 1000, 1001])
def test_the_page_lists_a_thousand_models_and_the_slowest_hundred(count: int) -> None:
    results = [result(f"m{i:04}", "no", seconds=float(i), error="<late>") for i in range(count)]
    text = page([*results, result("fine", seconds=0.25)])
    not_done, slowest = (part.split("</table>") for part in text.split("<h2>")[1:])
    assert not_done[0].startswith("Not done</h2>")
    assert slowest[0].startswith("Slowest</h2>")
    assert re.findall("<tr><td>(.*?)</td>", not_done[0]) == [
        f"m{i:04}" for i in range(min(count, 1000))
    ]
    assert not_done[1] == ("\n<p>and 1 more</p>\n" if count > 1000 else "\n")
    assert re.findall("<tr><td>(.*?)</td>", slowest[0])[:100] == (
        ["fine", "m0000"] if count == 1 else [f"m{i:04}" for i in range(count - 1, count - 101, -1)]
    )
    assert len(re.findall("<tr><td>", slowest[0])) == min(100, count + 1)
    assert "<td>m0000</td><td>no</td><td>0.000</td><td>&lt;late&gt;</td></tr>" in not_done[0]
    assert "<title>graphshare check &lt;{}&gt;</title>" in text


def test_a_run_that_is_all_done_lists_the_slowest_alone() -> None:
    text = page([result("a")])
    assert re.findall("<h2>(.*?)</h2>", text) == ["Slowest"]
    assert "<p>1 model: 1 done</p>" in text
    assert "<figure>" not in text


def test_failures_and_answers_of_no_are_listed_together() -> None:
    text = page([result("a", "no"), result("b"), result("c", "failed")])
    not_done = text.partition("<h2>Not done</h2>")[2].partition("</table>")[0]
    assert re.findall("<tr><td>(.*?)</td>", not_done) == ["a", "c"]
