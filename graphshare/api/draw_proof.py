"""``draw_proof``: a picture of both models of a ``compare``, its regions in colours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from graphshare.analysis.name_lists import output_name
from graphshare.checkpoint.load import Model, as_checkpoint
from graphshare.differences.alignment import align
from graphshare.drawing.drawing import Drawing, Theme, annotate_model, draw_comparison
from graphshare.drawing.merge import merge
from graphshare.drawing.picture import MARKS, AnnotatedGraph, Section
from graphshare.ir.graph import Node
from graphshare.text.format import format_count
from graphshare.verification.region import Region
from graphshare.verification.report import Report

_GRAVE = ("near", "unjudged", "apart")  # the worst of several runs is shown


def draw_proof(report: Report, model: Model, other: Model, *, theme: Theme = "auto") -> Drawing:
    """Draw both models of a :func:`compare` on one page; colours mark regions that differ, within
    the tolerance or not.

    ``report`` is the result of :func:`compare` for ``model`` and ``other``. Nodes without a colour
    are exact. ``theme`` selects the colours; ``auto`` follows the reader's setting.

    Raises:
        InputError: a model cannot be read.
    """
    a, b = as_checkpoint(model), as_checkpoint(other)
    first, second = annotate_model(a), annotate_model(b)
    images = align(first.graph, second.graph).images
    merged = merge(first, second, [images])
    places = {**merged.first, **images}
    by_name = {node.name: places.get(node, node) for node in first.graph.nodes}
    by_other_name = {node.name: node for node in second.graph.nodes}
    marks: dict[Node, str] = {}
    regions: list[tuple[str, Node | None]] = []
    for region in _find_worst(report):
        mark = _mark_region(region)
        inside = [by_name[each.name] for each in region.nodes if each.name in by_name]
        inside += [
            by_other_name[each.name] for each in region.other_nodes if each.name in by_other_name
        ]
        marks.update(dict.fromkeys(inside, mark))
        last = inside[-1] if inside else None
        regions.append((f"{MARKS[mark]}: {_describe_region(region)}", last))
    if not regions:  # only the outputs of operators were compared
        marks.update(_mark_values(report, second))
    only = {
        **dict.fromkeys(merged.first.values(), "only in the original"),
        **dict.fromkeys(merged.second, "only in the other"),
    }
    labels = {node: text for node, text in only.items() if node.op}
    graph = replace(merged.graph, marks=marks, labels=labels)
    sections = [Section(report.verdict, [(text, None) for text in _list_stages(report)])]
    if regions:
        sections.append(Section(format_count(len(regions), "region"), regions))
    return draw_comparison(graph, (b, a), sections, theme=theme)


def _find_worst(report: Report) -> Iterable[Region]:
    """Return the gravest region of those with equal ends, from mild to grave."""
    regions = (
        region for branch in report.branches for each in branch.regions for region in each.regions
    )
    by_gravity = sorted(regions, key=lambda region: _GRAVE.index(_mark_region(region)))
    return {region.ends: region for region in by_gravity}.values()


def _list_stages(report: Report) -> Iterator[str]:
    for branch in report.branches:
        for stage in branch.stages:
            yield f"{stage.name}: {stage.summary}"
            yield from stage.details


def _mark_region(region: Region) -> str:
    if region:
        return "near"
    return "unjudged" if region.comparison is None else "apart"


def _mark_values(report: Report, side: AnnotatedGraph) -> Iterator[tuple[Node, str]]:
    heads = {output_name(head): head.node for head in side.graph.heads}
    nodes = {node.name: node for node in side.graph.nodes}
    for branch in report.branches:
        for values in branch.rounds:
            apart = [heads.get(each.output) for each in values.outputs if not each.comparison]
            apart += [nodes.get(each.node) for each in values.layers if not each.comparison]
            yield from ((node, "apart") for node in apart if node is not None)


def _describe_region(region: Region) -> str:
    text = _describe_judgement(region)
    return f"{text}; {region.note}" if region.note else text


def _describe_judgement(region: Region) -> str:
    ends = " and ".join(dict.fromkeys(region.ends[0]))
    if region.is_weighed:
        return f"{ends}: by weights, {region.steps:.1f} steps"
    if region.comparison is None:
        return f"{ends}: {region.reason}"
    if region.unlike and region.comparison:
        return f"{ends}: {region.unlike}"
    if region.one_step:
        return f"{ends}: at most one step apart"
    if region and region.comparison.identical:
        return f"{ends}: bit for bit"
    reasons = [] if region else [region.comparison.reason]
    if region.of_largest is not None:
        reasons.append(
            f"{region.of_largest:.2g} of the largest number, {region.tolerance:.2g} allowed"
        )
    return f"{ends}: {', '.join(filter(None, reasons))}"
