"""``draw_difference``: a picture of both models of a ``diff``, its changes in colours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from graphshare.checkpoint.load import Model, Names, StrPath, as_checkpoint
from graphshare.differences.alignment import align
from graphshare.differences.changes import PairedBranch, format_change, format_tie, list_changes
from graphshare.differences.difference import Difference, match_nodes
from graphshare.drawing.drawing import Drawing, Theme, annotate_model, draw_comparison
from graphshare.drawing.merge import merge
from graphshare.drawing.picture import MARKS, AnnotatedGraph, Section
from graphshare.ir.graph import Node
from graphshare.text.format import format_count
from graphshare.text.names import split_key

_LISTED = 500  # nodes of a kind in the panel


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
    first, second = annotate_model(a), annotate_model(b)
    matched = match_nodes(a, b, prefixes=prefixes, map=map, renames=renames)
    branches = _open_branches(first, second, matched)
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
    common = [node for node in merged.graph.graph.variables() if node not in marks]
    for node, note in _note_parameters(difference, common):
        notes.setdefault(node, []).append(note)
    labels: dict[Node, str] = {}
    if difference.graph.renamed:
        renamed = {nodes[each.new.id]: f"was {each.old.name}" for each in changes.renamed}
        # A diff has no differences in bodies
        labels = {node: text for node, text in renamed.items() if node not in second.bodies}
    # Later marks win: changed beats renamed.
    marks = {**dict.fromkeys(labels, "highlight"), **dict.fromkeys(notes, "changed"), **marks}
    graph = replace(merged.graph, marks=marks, notes=notes, labels=labels)
    sections = [
        Section(difference.verdict, [(text, None) for text in _list_texts(difference)]),
        *_list_marked(graph),
    ]
    return draw_comparison(graph, (b, a), sections, theme=theme)


def _note_parameters(
    difference: Difference, variables: Sequence[Node]
) -> Iterator[tuple[Node, str]]:
    if difference.parameters is None:
        return
    for parameter in difference.parameters.changes:
        name = split_key(parameter.new or parameter.old or "")[1]
        text = parameter.detail or f"{parameter.how} differ"
        if parameter.how == "renamed":
            text = "renamed"
        for node in variables:
            if node.name == name:
                yield node, f"parameter: {text}"


def _list_texts(difference: Difference) -> Iterator[str]:
    """Yield common changes, and changes that no node shows."""
    graph = difference.graph
    yield from (summary.text for summary in difference.summary if summary.count > 1)
    yield from (f"{tie.how}: {format_tie(tie)}" for tie in graph.ties)
    yield from map(format_change, (*graph.outputs, *graph.attributes))


def _open_branches(
    left: AnnotatedGraph, right: AnnotatedGraph, branches: Sequence[PairedBranch]
) -> list[PairedBranch]:
    """Return the branches of the unfolded graphs, whose nodes in bodies are paired as well."""
    taken = {*left.images.values(), *right.images.values()}
    opened: list[PairedBranch] = []
    for branch in branches:
        images = {left.images.get(a, a): right.images.get(b, b) for a, b in branch.images.items()}
        if left.bodies and right.bodies:
            others = taken - {*images, *images.values()}
            images = align(left.graph, right.graph, known=images, taken=others).images
            taken.update(images.values())
        names = {left.images.get(node, node): name for node, name in branch.names.items()}
        opened.append(replace(branch, images=images, names=names))
    return opened


def _list_marked(graph: AnnotatedGraph) -> Iterator[Section]:
    for mark, word in MARKS.items():
        nodes = [node for node in graph.graph.nodes if graph.marks.get(node) == mark]
        if not nodes:
            continue
        lines: list[tuple[str, Node | None]] = []
        for node in nodes[:_LISTED]:
            lines.append((_describe_node(node, graph), node))
        if len(nodes) > _LISTED:
            lines.append((f"and {len(nodes) - _LISTED} more", None))
        yield Section(f"{format_count(len(nodes), 'node')} {word}", lines)


def _describe_node(node: Node, graph: AnnotatedGraph) -> str:
    label = graph.labels.get(node, "")
    parts = (
        f"{node.op or 'variable'} {node.shown_name or '(no name)'}",
        label,
        *graph.notes.get(node, ()),
    )
    return "; ".join(filter(None, parts))
