"""Pictures of two models: ``draw_difference`` shows a result of ``diff``, ``draw_proof`` one of
``compare``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from graphshare.analysis.name_lists import output_name
from graphshare.checkpoint.load import Model, Names, StrPath, as_checkpoint
from graphshare.checkpoint.model import Checkpoint
from graphshare.differences.alignment import align
from graphshare.differences.changes import PairedBranch, format_change, format_tie, list_changes
from graphshare.differences.diff import Difference, match_nodes
from graphshare.drawing.draw import (
    Drawing,
    Theme,
    annotate,
    draw_comparison,
    find_branches,
    find_known_shapes,
)
from graphshare.drawing.merge import merge
from graphshare.drawing.picture import MARKS, AnnotatedGraph, Section
from graphshare.files.paths import base_name
from graphshare.ir.graph import Node
from graphshare.text.format import format_count
from graphshare.text.names import split_key
from graphshare.verification.region import Region
from graphshare.verification.report import Report

_LISTED = 500  # nodes of a kind in the panel
_GRAVE = ("near", "unjudged", "apart")  # the worst of several runs is shown


def draw_difference(
    difference: Difference,
    left: Model,
    right: Model,
    *,
    prefixes: Names = (),
    map: StrPath | None = None,
    renames: bool = True,
    theme: Theme = "auto",
) -> Drawing:
    """Draw both models of a :func:`diff` on one page, with added, removed, renamed and changed nodes in colours.

    ``difference`` is the result of :func:`diff` for ``left`` and ``right``; ``prefixes``, ``map`` and ``renames`` are
    its arguments. ``theme`` selects the colours; ``auto`` follows the reader's setting.

    Raises:
        UsageError: ``map`` and ``prefixes`` are both given.
        InputError: a model or the map cannot be read, or the map belongs to different graphs.
        RefusedError: no node has the prefix.
    """
    a, b = as_checkpoint(left), as_checkpoint(right)
    first, second = _annotate(a), _annotate(b)
    branches = _open_branches(
        first, second, match_nodes(a, b, prefixes=prefixes, map=map, renames=renames)
    )
    changes = list_changes(first.graph, second.graph, branches)
    merged = merge(first, second, [branch.images for branch in branches])
    nodes = second.graph.nodes
    marks = {
        **dict.fromkeys(merged.first.values(), "removed"),
        **dict.fromkeys(merged.second, "added"),
    }
    notes = {
        nodes[each.new.id]: [format_change(change) for change in each.changes]
        for each in changes.changed
    }
    for node, note in _note_parameters(
        difference, [node for node in merged.graph.graph.variables() if node not in marks]
    ):
        notes.setdefault(node, []).append(note)
    renamed = {
        nodes[each.new.id]: f"was {each.old.name}"
        for each in changes.renamed
        if difference.graph.renamed
    }
    # A diff has no differences in bodies
    labels = {node: text for node, text in renamed.items() if node not in second.bodies}
    # Later marks win: changed beats renamed.
    marks = {**dict.fromkeys(labels, "highlight"), **dict.fromkeys(notes, "changed"), **marks}
    graph = replace(merged.graph, marks=marks, notes=notes, labels=labels)
    sections = [
        Section(difference.verdict, [(text, None) for text in _list_texts(difference)]),
        *_list_marked(graph),
    ]
    return _draw(graph, (b, a), sections, theme)


def _note_parameters(
    difference: Difference, variables: Sequence[Node]
) -> Iterator[tuple[Node, str]]:
    for parameter in difference.parameters.changes if difference.parameters else ():
        name = split_key(parameter.new or parameter.old or "")[1]
        text = (
            parameter.detail or f"{parameter.how} differ"
            if parameter.how != "renamed"
            else "renamed"
        )
        yield from ((node, f"parameter: {text}") for node in variables if node.name == name)


def _list_texts(difference: Difference) -> Iterator[str]:
    """Yield common changes, and changes that no node shows."""
    yield from (summary.text for summary in difference.summary if summary.count > 1)
    yield from (f"{tie.how}: {format_tie(tie)}" for tie in difference.graph.ties)
    yield from (
        format_change(change)
        for change in (*difference.graph.outputs, *difference.graph.attributes)
    )


def draw_proof(report: Report, model: Model, other: Model, *, theme: Theme = "auto") -> Drawing:
    """Draw both models of a :func:`compare` on one page; colours mark regions that differ, within
    the tolerance or not.

    ``report`` is the result of :func:`compare` for ``model`` and ``other``. Nodes without a colour
    are exact. ``theme`` selects the colours; ``auto`` follows the reader's setting.

    Raises:
        InputError: a model cannot be read.
    """
    a, b = as_checkpoint(model), as_checkpoint(other)
    first, second = _annotate(a), _annotate(b)
    images = align(first.graph, second.graph).images
    merged = merge(first, second, [images])
    place = {
        node.name: images.get(node) or merged.first.get(node, node) for node in first.graph.nodes
    }
    names = (place, {node.name: node for node in second.graph.nodes})
    marks: dict[Node, str] = {}
    regions: list[tuple[str, Node | None]] = []
    for region in _find_worst(report):
        operators = [
            names[i].get(each.name)
            for i, side in enumerate((region.nodes, region.other_nodes))
            for each in side
        ]
        inside = [node for node in operators if node is not None]
        marks.update(dict.fromkeys(inside, _mark_region(region)))
        regions.append(
            (
                f"{MARKS[_mark_region(region)]}: {_describe_region(region)}",
                next(reversed(inside), None),
            )
        )
    # Without regions only the outputs of operators were compared.
    marks.update(() if regions else _mark_values(report, second))
    only = {
        **dict.fromkeys(merged.first.values(), "only in the original"),
        **dict.fromkeys(merged.second, "only in the other"),
    }
    graph = replace(
        merged.graph, marks=marks, labels={node: text for node, text in only.items() if node.op}
    )
    sections = [Section(report.verdict, [(text, None) for text in _list_stages(report)])]
    if regions:
        sections.append(Section(format_count(len(regions), "region"), regions))
    return _draw(graph, (b, a), sections, theme)


def _find_worst(report: Report) -> Iterable[Region]:
    """Return the gravest region of those with equal ends, from mild to grave."""
    regions = (
        region for branch in report.branches for each in branch.regions for region in each.regions
    )
    return {
        region.ends: region
        for region in sorted(regions, key=lambda region: _GRAVE.index(_mark_region(region)))
    }.values()


def _list_stages(report: Report) -> Iterator[str]:
    for stage in (stage for branch in report.branches for stage in branch.stages):
        yield f"{stage.name}: {stage.summary}"
        yield from stage.details


def _mark_region(region: Region) -> str:
    return "near" if region else "unjudged" if region.comparison is None else "apart"


def _mark_values(report: Report, side: AnnotatedGraph) -> Iterator[tuple[Node, str]]:
    heads = {output_name(head): head.node for head in side.graph.heads}
    nodes = {node.name: node for node in side.graph.nodes}
    for values in (values for branch in report.branches for values in branch.rounds):
        yield from (
            (heads[o.output], "apart")
            for o in values.outputs
            if not o.comparison and o.output in heads
        )
        yield from (
            (nodes[o.node], "apart") for o in values.layers if not o.comparison and o.node in nodes
        )


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
    far = (
        ""
        if region.of_largest is None
        else f"{region.of_largest:.2g} of the largest number, {region.tolerance:.2g} allowed"
    )
    return f"{ends}: {far if region else ', '.join(filter(None, (region.comparison.reason, far)))}"


def _annotate(model: Checkpoint) -> AnnotatedGraph:
    graph, params = model.graph, model.parameter_file
    return annotate(graph, params, find_known_shapes(graph, {}, params), find_branches(graph, ()))


def _open_branches(
    left: AnnotatedGraph, right: AnnotatedGraph, branches: Sequence[PairedBranch]
) -> list[PairedBranch]:
    """Return the branches of the unfolded graphs, whose nodes in bodies are paired as well."""
    outer = {*left.images.values(), *right.images.values()}
    opened: list[PairedBranch] = []
    for branch in branches:
        images = {left.images.get(a, a): right.images.get(b, b) for a, b in branch.images.items()}
        if left.bodies and right.bodies:
            taken = {*outer, *(node for each in opened for node in each.images.values())} - {
                *images,
                *images.values(),
            }
            images = align(left.graph, right.graph, known=images, taken=taken).images
        names = {left.images.get(node, node): name for node, name in branch.names.items()}
        opened.append(replace(branch, images=images, names=names))
    return opened


def _list_marked(graph: AnnotatedGraph) -> Iterator[Section]:
    for mark, word in MARKS.items():
        nodes = [node for node in graph.graph.nodes if graph.marks.get(node) == mark]
        lines: list[tuple[str, Node | None]] = [
            (_describe_node(node, graph), node) for node in nodes[:_LISTED]
        ]
        if len(nodes) > _LISTED:
            lines.append((f"and {len(nodes) - _LISTED} more", None))
        if nodes:
            yield Section(f"{format_count(len(nodes), 'node')} {word}", lines)


def _describe_node(node: Node, graph: AnnotatedGraph) -> str:
    label = graph.labels.get(node, "")
    parts = (
        f"{node.op or 'variable'} {node.shown_name or '(no name)'}",
        label,
        *graph.notes.get(node, ()),
    )
    return "; ".join(filter(None, parts))


def _draw(
    graph: AnnotatedGraph, models: Sequence[Checkpoint], sections: Sequence[Section], theme: Theme
) -> Drawing:
    title = " → ".join(
        base_name(model.stem or model.where) or "graph" for model in reversed(models)
    )
    return draw_comparison(
        graph, [model.parameter_file for model in models], sections, title=title, theme=theme
    )
