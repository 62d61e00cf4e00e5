"""``graphshare diff``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from graphshare.api.diff import diff
from graphshare.api.diff_params import diff_params
from graphshare.checkpoint.load import load_both
from graphshare.checkpoint.model import Checkpoint
from graphshare.cli import options
from graphshare.cli.command import Command, option
from graphshare.cli.console import Line, put_bytes, put_colored, put_json, say
from graphshare.cli.report import format_parameter_diff, put_report, report_format
from graphshare.differences.changes import (
    GraphDiff,
    NodeRef,
    format_change,
    format_node,
    format_tie,
)
from graphshare.differences.difference import Difference
from graphshare.errors import Fault, GraphshareError, UsageError
from graphshare.files.open_source import open_source
from graphshare.formats.model_file import open_model_file
from graphshare.formats.model_format import recognize_format as recognize_model
from graphshare.formats.params.format import recognize_format
from graphshare.reports.formats import default_format
from graphshare.reports.model import Finding, FindingsReport, Level, RuleInfo

_RULES = {
    what: RuleInfo(f"diff-{what}", f"diff-{what}", Level.ERROR, summary)
    for what, summary in (
        ("removed", "A node of the first graph is not in the second"),
        ("added", "A node of the second graph is not in the first"),
        ("renamed", "A node has another name"),
        ("changed", "A node has other attributes, inputs or outputs"),
        ("tie", "Parameters are shared otherwise"),
        ("graph", "The graphs have other outputs or attributes"),
        ("parameter", "A parameter has another value, shape or type"),
        ("verdict", "Whether anything differs"),
    )
}
_NOTHING = "/dev/null"


EXAMPLES = {
    "diff": [
        ("a copy of a checkpoint", "graphshare diff lenet lenet"),
        ("what else is new beside the prefix", "graphshare diff lenet siam --prefix sha-"),
        ("both graphs in one page", "graphshare diff lenet siam --prefix sha- --format html"),
    ],
}


@click.command("diff", cls=Command)
@click.argument("paths", metavar="A B", nargs=-1, required=True)
@options.epoch
@option("--params", metavar="FILE", help="Parameter file of A.")
@option("--against-params", metavar="FILE", help="Parameter file of B.")
@option(
    "-p",
    "--prefix",
    "prefixes",
    metavar="P",
    multiple=True,
    help="B has A's nodes under this prefix.",
)
@option(
    "--map",
    metavar="FILE",
    help="Map file of the rewrite that made B from A, or a JSON object of old and new names.",
)
@option(
    "--no-renames",
    "renames",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Pair nodes by their names alone.",
)
@option("--ignore-names", is_flag=True, help="Ignore differences of names.")
@option(
    "--atol",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="A",
    help="Absolute tolerance of parameters [0].",
)
@option(
    "--rtol",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="R",
    help="Relative tolerance of parameters [0].",
)
@option("--git", is_flag=True, help="Take the arguments that git gives an external diff driver.")
@report_format("html")
@options.answer_file
@options.max_memory
@options.time_limit
def command(
    paths: tuple[str, ...],
    epoch: int | None,
    params: str | None,
    against_params: str | None,
    git: bool,
    format_: str | None,
    **settings: Any,
) -> int:
    """Show what differs between two graphs.

    Nodes are paired by structure first and by name second, so a node that differs only in its name
    is listed as renamed. Of two checkpoints the parameters are compared too; with --epoch each stem
    means its file of that epoch. Values are compared bit for bit (0 is not -0), with --atol or
    --rtol as numbers. Common properties of changes come first, then every change, then the verdict.
    The exit code is 0 when nothing differs, 1 when something does.

    The order in which nodes, inputs and initializers are listed is not a difference, nor are names
    in subgraphs, documentation and the way in which numbers are stored.

    --format html is a page with both graphs in one: what was added, removed, renamed and changed in
    colours, bodies included, and a list whose entries lead to the nodes. It is one file that needs
    nothing else.

    As a git diff driver: `git config diff.graphshare.command "graphshare diff --git"`, and
    `*-symbol.json diff=graphshare` in .gitattributes (*.params, *.onnx and Paddle's
    inference.json work too).
    """
    if git:
        _as_driver(paths)
        return 0
    if len(paths) != 2:
        raise UsageError(
            Fault(f"diff takes two graphs, not {len(paths)}", hint="write `graphshare diff A B`")
        )
    if paths[0] == paths[1] == "-":
        raise UsageError(Fault("both graphs cannot come from stdin"))
    left, right = load_both(
        paths[0], paths[1], epoch=epoch, params=params, other_params=against_params
    )
    without = [side.where for side in (left, right) if side.parameter_file is None]
    if len(without) == 1:
        say(f"parameters are not compared: none are given for {without[0]}")
    difference = diff(left, right, **settings)
    format_ = format_ or default_format()
    if format_ == "html":
        # Start-up: few comparisons are drawn
        from graphshare.api.draw_difference import draw_difference

        pairing = {key: settings[key] for key in ("prefixes", "map", "renames")}
        put_bytes(draw_difference(difference, left, right, **pairing).data)
    elif format_ == "json":
        head = {"version": 2, "different": bool(difference), "verdict": difference.verdict}
        put_json({**head, **msgspec.to_builtins(difference)})
    elif format_ == "text":
        put_colored(_lines(difference))
    else:
        put_report(_make_diff_report(difference, left.where, right.where), format_)
    return 1 if difference else 0


def _as_driver(paths: Sequence[str]) -> None:
    """Print the difference from git's arguments: the path, then the old and the new file, hash and
    mode.

    Git takes any exit code except 0 for a crash, so an unreadable version is shown as an error.
    """
    # Git passes one path for a file with conflicts, and two more arguments for a rename.
    if len(paths) not in (1, 7, 9):
        hint = 'set it up with `git config diff.graphshare.command "graphshare diff --git"`'
        raise UsageError(
            Fault(
                f"--git takes the 7 arguments of git's external diff, not {len(paths)}", hint=hint
            )
        )
    put_colored(
        [("title", f"diff --graphshare a/{paths[0]} b/{paths[7] if len(paths) == 9 else paths[0]}")]
    )
    if len(paths) == 1:
        put_colored([("", "unmerged")])
        return
    old, new = paths[1], paths[4]
    if _NOTHING in (old, new):
        put_colored([("added", "new file")] if old == _NOTHING else [("removed", "deleted file")])
        return
    try:
        put_colored(_driver_lines(old, new))
    except GraphshareError as error:
        put_colored(("", str(fault)) for fault in error.faults)


def _driver_lines(old: str, new: str) -> list[Line]:
    # An ONNX model is a parameter file, too: the graph comes first.
    has_model = any(map(_is_model, (old, new)))
    if not has_model and all(map(_is_parameters, (old, new))):
        return list(format_parameter_diff(diff_params(old, new)))
    return list(_lines(diff(_load_version(old), _load_version(new))))


def _is_model(path: str) -> bool:
    with open_model_file(path) as opened:
        format_, file = recognize_model(opened)
        return format_.fits(file.start)


def _load_version(path: str) -> Checkpoint:
    """Load one file alone: git puts nothing beside an old version, so the files beside the new one
    have no counterpart.
    """
    with open_model_file(path) as opened:
        format_, file = recognize_model(opened)
        graph = format_.read(file, complete=False)
    return Checkpoint(graph, format_.index_parameters(graph), path)


def _is_parameters(path: str) -> bool:
    try:
        with open_source(path) as source:
            recognize_format(source)
    except GraphshareError:
        return False
    return True


def _lines(difference: Difference) -> Iterator[Line]:
    """Yield common properties of changes, then every change, then the verdict."""
    yield from (("title", summary.text) for summary in difference.summary if summary.count > 1)
    yield from _graph_lines(difference.graph)
    if difference.parameters:
        yield from format_parameter_diff(difference.parameters)
    yield "title", difference.verdict


def _graph_lines(graph: GraphDiff) -> Iterator[Line]:
    for node in graph.removed:
        yield "removed", f"removed  {format_node(node)}"
    for node in graph.added:
        yield "added", f"added    {format_node(node)}"
    for pair in graph.renamed:
        yield "changed", f"renamed  {format_node(pair.old)} -> {pair.new.name}"
    for node_change in graph.changed:
        yield "changed", f"changed  {format_node(node_change.new)}"
        yield from (("", f"           {format_change(change)}") for change in node_change.changes)
    for tie in graph.ties:
        yield "changed", f"{tie.how:8} {format_tie(tie)}"
    for change in (*graph.outputs, *graph.attributes):
        yield "changed", format_change(change)


def _make_diff_report(difference: Difference, left: str, right: str) -> FindingsReport:
    findings = [
        *_graph_findings(difference.graph, left, right),
        *_parameter_findings(difference, right),
    ]
    level = Level.ERROR if difference else Level.NOTE
    findings.append(
        Finding(code="diff-verdict", level=level, message=difference.verdict, where=right)
    )
    files = tuple(dict.fromkeys((left, right)))
    return FindingsReport(
        command="diff", files=files, findings=tuple(findings), rules=tuple(_RULES.values())
    )


def _graph_findings(graph: GraphDiff, left: str, right: str) -> Iterator[Finding]:
    for node in graph.removed:
        yield _finding("removed", f"{format_node(node)} is gone", left, node)
    for node in graph.added:
        yield _finding("added", f"{format_node(node)} is new", right, node)
    for pair in graph.renamed:
        yield _finding(
            "renamed", f"{format_node(pair.old)} is now {pair.new.name}", right, pair.new
        )
    for changed in graph.changed:
        yield _finding(
            "changed",
            f"{format_node(changed.new)}: {'; '.join(map(format_change, changed.changes))}",
            right,
            changed.new,
        )
    for tie in graph.ties:
        yield _finding("tie", f"{tie.how}: {format_tie(tie)}", right)
    for change in (*graph.outputs, *graph.attributes):
        yield _finding("graph", format_change(change), right)


def _parameter_findings(difference: Difference, right: str) -> Iterator[Finding]:
    if difference.parameters:
        # The last line counts them
        for _, text in [*format_parameter_diff(difference.parameters)][:-1]:
            yield _finding("parameter", " ".join(text.split()), right)


def _finding(what: str, message: str, where: str, node: NodeRef | None = None) -> Finding:
    path, name = (f"$.nodes[{node.id}]", node.name or None) if node is not None else ("", None)
    return Finding(
        code=f"diff-{what}", level=Level.ERROR, message=message, where=where, path=path, node=name
    )
