"""``graphshare rules``: explain and check rules before they are applied."""

from __future__ import annotations

from typing import get_args

import click
import msgspec

from graphshare.api.rules import NameKind, check_rules
from graphshare.api.rules import explain as explain_name
from graphshare.checkpoint.load import load
from graphshare.cli import options, rule_options
from graphshare.cli.command import SuggestingGroup, option
from graphshare.cli.console import name_options, put, put_json
from graphshare.cli.tying_options import TyingRules, tying
from graphshare.text.format import format_count

_graph = option("--graph", metavar="GRAPH", help="Graph to which the rules apply.")


EXAMPLES = {
    "rules explain": [
        ("where a parameter comes from", "graphshare rules explain b/conv/w --override b=a"),
    ],
    "rules check": [
        ("before it is used", "graphshare rules check rules.json"),
    ],
}


@click.group("rules", cls=SuggestingGroup)
def command() -> None:
    """Explain and check sharing and naming rules."""


@command.command
@click.argument("name", metavar="NAME")
@tying(rule_options.matches, rule_options.targets)
@option(
    "--kind",
    type=click.Choice(get_args(NameKind)),
    default="parameter",
    help="Kind of NAME [parameter].",
)
@_graph
@options.params
@options.format_
@options.answer_file
def explain(
    name: str,
    rules: TyingRules,
    kind: NameKind,
    graph: str | None,
    params: str | None,
    format_: str,
) -> None:
    """Show which rules fire for a name, step by step.

    With --graph, NAME is one of its nodes or a key of its parameter file, and the output shows whether it is tied.
    """
    model = None if graph is None else load(graph, params=params)
    explanation = explain_name(name, rules.make_ruleset(), kind=kind, model=model)
    if format_ == "json":
        put_json(explanation)
        return
    put([f"{explanation.name} ({explanation.kind})"])
    steps = enumerate(explanation.steps, start=1)
    put(f"  {i}. {step.before} -> {step.after}  by {step.rule} ({step.place})" for i, step in steps)
    put(
        [
            f"  {explanation.result}: {explanation.effect}"
            if explanation.effect != "unknown"
            else f"  {explanation.result}"
        ]
    )


@command.command
@click.argument("file", metavar="FILE")
@_graph
@options.params
@options.strict
@options.format_
@options.answer_file
def check(file: str, graph: str | None, params: str | None, strict: bool, format_: str) -> int:
    """Check a rules file, alone or against a graph.

    The exit code is 1 if it has errors, with --strict also for warnings: rules that never fire or
    are shadowed by later ones.
    """
    result = check_rules(file, model=None if graph is None else load(graph, params=params))
    if format_ == "json":
        put_json(msgspec.to_builtins(result))
    else:
        for fault in result.errors:
            put(
                [
                    f"error: {fault}",
                    *([f"  hint: {name_options(fault.hint)}"] if fault.hint else []),
                ]
            )
        put(f"warning: {warning}" for warning in result.warnings)
        counts = (
            (result.rules, "rule"),
            (len(result.errors), "error"),
            (len(result.warnings), "warning"),
        )
        put([f"{file}: {', '.join(format_count(count, noun) for count, noun in counts)}"])
    return 1 if result.errors or (strict and result.warnings) else 0
