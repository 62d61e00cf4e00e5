"""``graphshare group``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import click

from graphshare.analysis.name_lists import NameLists
from graphshare.analysis.roles import Kind
from graphshare.api.group import find_count_faults, group
from graphshare.checkpoint.load import load
from graphshare.cli import options
from graphshare.cli.command import Command, option
from graphshare.cli.console import say
from graphshare.cli.output import format_name_list, say_written, write_result
from graphshare.errors import Fault, UsageError
from graphshare.files.paths import is_file
from graphshare.rewrite.grouping.connections import name_output
from graphshare.rewrite.grouping.join import Member
from graphshare.rewrite.grouping.plan import Grouping, OnCollision
from graphshare.rewrite.grouping.switch import Switching
from graphshare.text.format import escape_control, format_count

EXAMPLES = {
    "group": [
        (
            "two networks side by side",
            "graphshare group lenet lenet --prefix a_ --prefix b_ -o pair",
        ),
        (
            "two models on one copy of their weights",
            "graphshare group lenet.onnx folded.onnx --switch exact -o one.onnx",
        ),
    ],
}


@click.command("group", cls=Command, brief=2)
@options.grouping
@option(
    "--connect",
    metavar="OUT=IN",
    multiple=True,
    callback=lambda context, option, texts: _parse_pairs(texts),
    help="Feed input IN with output OUT.",
)
@option(
    "-p",
    "--prefix",
    "prefixes",
    metavar="P",
    multiple=True,
    help="Prefix of a GRAPH's names, once for each in order; '' for none.",
)
@option(
    "--share-input",
    "share_inputs",
    metavar="PATTERN",
    multiple=True,
    help="Inputs and labels that all graphs share.",
)
@option(
    "--on-collision",
    type=click.Choice(get_args(OnCollision)),
    default="error",
    help="How to resolve a name that two graphs have [error].",
)
@option(
    "--switch",
    "switch",
    metavar="NAME",
    help="Make two models the branches of one If; the boolean input NAME chooses the first.",
)
@options.types("an output")
@option(
    "--align",
    is_flag=True,
    help="Bring older ONNX models up to the newest operator set, with a proof.",
)
@options.shapes
@options.upgrade_first
@options.as_input
@options.as_parameter
@options.max_memory
@options.time_limit
def command(
    graphs: tuple[str, ...],
    epoch: int | None,
    params: tuple[str, ...],
    prefixes: tuple[str, ...],
    upgrade_first: bool,
    output: Mapping[str, Any],
    **settings: Any,
) -> None:
    """Join several graphs and their parameters into one.

    The heads are those of the graphs in turn; a head that feeds an input is no longer a head, and
    that input is removed. IN is the name of an input, with or without its --prefix; all inputs of
    this name are fed. A name that two graphs have is refused; --on-collision prefix puts the name
    of its file before all names of the later graph, tie-if-equal makes parameters of one name and
    equal value one node.

    With --switch two ONNX models become the branches of one If on one copy of the weights that both
    have: the result computes the first where its boolean input NAME is true, and else the second.
    `graphshare extract --branch` takes one out again.

    An MXNet graph beside an ONNX model is exported first, with --shape for its inputs. ONNX models
    share one version of each operator set: with --align ONNX's converter brings older models up to
    the newest one's version of ONNX's own operators, and each must compute the same as before, as
    `graphshare compare` finds, before anything is written.

    Patterns are globs; =name is a literal name, re:expression a regular expression.
    """
    _check_counts(graphs, prefixes, params)
    sources = [
        # An epoch applies to stems only, and the graphs may be stems and files.
        load(
            graph,
            epoch=epoch if _is_stem(graph) else None,
            params=params[i] or None if params else None,
        )
        for i, graph in enumerate(graphs)
    ]
    if upgrade_first:
        sources = [options.upgrade_model(source) for source in sources]
    result = group(sources, prefixes=prefixes, **settings)
    outputs = write_result(result, output)
    if outputs is not None:
        if isinstance(result.report, Switching):
            _say_switch(result.report, settings["switch"])
        else:
            _say_group(result.report)
        say_written(outputs)


def _say_switch(report: Switching, name: str) -> None:
    _say_alignments(report.members)
    for value, member in zip(("true", "false"), report.members, strict=True):
        say(
            f"{escape_control(name)} {value}: {member.label}, {member.graph.source.describe_parts(member.graph.nodes)}"
        )
    say(
        f"shared: {format_count(len(report.shared), 'parameter')} of equal bytes, one initializer each"
    )
    say(f"outputs: {format_name_list(NameLists(report.graph).outputs)}")


def _say_alignments(members: Sequence[Member]) -> None:
    for member in members:
        if member.alignment:
            say(f"{member.label}: {member.alignment}")


def _parse_pairs(texts: Sequence[str]) -> list[tuple[str, str]]:
    hint = "write --connect OUT=IN; \\= stands for = in OUT"
    return options.parse_pairs(texts, "--connect is not a pair of names", hint)


def _check_counts(graphs: Sequence[str], prefixes: Sequence[str], params: Sequence[str]) -> None:
    """Reject options that do not have one value for each graph.

    Raises:
        UsageError: their number differs, or stdin is named twice; all are listed.
    """
    faults = find_count_faults(len(graphs), {"`prefixes`": prefixes, "`params`": params})
    if graphs.count("-") > 1:
        faults.append(Fault("stdin can be read only once", hint="name files for the other graphs"))
    if faults:
        raise UsageError(faults)


def _is_stem(graph: str) -> bool:
    return graph != "-" and not is_file(graph)


def _say_group(report: Grouping) -> None:
    _say_alignments(report.parts)
    for number, (part, branch) in enumerate(zip(report.parts, report.branches, strict=True)):
        roles = report.roles[number]
        names = [
            branch.images[node].name
            for node, role in roles.items()
            if role.kind in (Kind.INPUT, Kind.UNKNOWN) and node in branch.images
        ]
        prefix = f" under the prefix {part.prefix}" if part.prefix else ""
        parts = branch.source.source.describe_parts(branch.images.values())
        say(f"{part.label}: {parts}{prefix}, inputs {format_name_list(names)}")
    fed: dict[str, list[str]] = {}
    for (number, node), output in report.connect.items():
        fed.setdefault(name_output(report.parts, output), []).append(
            f"{node.name} of {report.parts[number].label}"
        )
    for name, inputs in fed.items():
        say(f"connected: {escape_control(name)} feeds {format_name_list(inputs)}")
    tied = list(
        dict.fromkeys(report.branches[i].images[node].name for i, node in report.tied.values())
    )
    if tied:
        say(
            f"tied: {format_count(len(tied), 'variable')}, one node each ({format_name_list(tied)})"
        )
    say(f"outputs: {format_name_list(NameLists(report.graph).outputs)}")
