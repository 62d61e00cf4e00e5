"""``graphshare share``."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from graphshare.checkpoint.load import Checkpoint, load_checkpoint, refusals_of
from graphshare.checkpoint.parameter_plan import check_belongs, notes_on
from graphshare.cli import options, rule_options
from graphshare.cli.console import put, put_json, say
from graphshare.cli.emit import deliver
from graphshare.cli.summary import format_name_list, say_written
from graphshare.errors import Fault, UsageError
from graphshare.rewrite.detect import Candidates, detect
from graphshare.rewrite.repair import Repair, plan_doctor, plan_untie, repeated_names
from graphshare.rewrite.rules.model import Reuse, rule_from_option
from graphshare.rewrite.share import Sharing, plan_share
from graphshare.rewrite.upgrade_plan import upgraded

_LISTED = 8


@click.command
@options.rewriting
@rule_options.overrides
@rule_options.aliases
@rule_options.rules_file
@rule_options.separator
@rule_options.reuse
@click.option("--detect", "detect_only", is_flag=True, help="List parameters that may be meant to be one; write nothing.")
@click.option("--untie", metavar="PATTERN", multiple=True, help="Give each operator that uses such a parameter its own copy.")
@click.option(
    "--doctor", type=click.Choice(["tie", "separate"]), help="Variables of one name become one, or get names of their own."
)
@click.option("--upgrade", "upgrade_first", is_flag=True, help="Upgrade the graph to MXNet 1.9.1 first.")
@options.as_input
@options.as_parameter
def share(
    graph: str,
    epoch: int | None,
    params: str | None,
    overrides: tuple[str, ...],
    aliases: tuple[str, ...],
    rules_file: str | None,
    separator: str | None,
    reuse: Reuse | None,
    detect_only: bool,
    untie: tuple[str, ...],
    doctor: Repair | None,
    upgrade_first: bool,
    as_input: tuple[str, ...],
    as_parameter: tuple[str, ...],
    **delivery: Any,
) -> None:
    """Tie parameters inside one graph.

    Parameters of one name after all rules are one node, with one record. Operators and outputs keep their names. In SRC=DST
    and A=B the left name disappears; \\= is an = inside a name.
    """
    given = [rule_from_option("scope", "--override", text) for text in overrides]
    given += [rule_from_option("alias", "--alias", text) for text in aliases]
    _check_one_purpose(bool(given or rules_file), detect_only, bool(untie), doctor is not None)
    rules = rule_options.ruleset_of(rules_file, given, separator=separator, reuse=reuse)
    source = load_checkpoint(graph, epoch=epoch, params=params)
    first = upgraded(source) if upgrade_first else None
    start = first.graph if first else source.graph
    roles: dict[str, Any] = {"params": source.params, "as_input": as_input, "as_parameter": as_parameter}
    done = options.delivery(delivery)
    with refusals_of(source):
        check_belongs(source.params, start)
        if detect_only:
            _print_candidates(detect(start, **roles), done.format)
            return
        if untie:
            made = plan_untie(start, untie, **roles)
        elif doctor:
            made = plan_doctor(start, doctor, **roles)
        else:
            made = plan_share(start, rules, **roles)
    rewrite = first.then(made.rewrite) if first else made.rewrite
    notes = [*notes_on(source.params, start, made.roles), *_doubtful(source, doctor), *made.notes]
    changed = bool(made.ties.tied or made.ties.renamed or made.ties.copied or rewrite.renames)
    report = {"ties": made.ties}
    outputs = deliver(rewrite, source, done, needs_params_out=changed, notes=notes, report=report)
    if not done.dry_run:
        _say_ties(made)
        say_written(outputs)


def _check_one_purpose(rules: bool, *others: bool) -> None:
    if sum((rules, *others)) != 1:
        hint = "give rules (--override, --alias, --rules), or one of --detect, --untie, --doctor"
        raise UsageError(Fault("nothing says what to share" if not any((rules, *others)) else "only one at a time", hint=hint))


def _doubtful(source: Checkpoint, doctor: Repair | None) -> list[str]:
    repeated = {} if doctor else repeated_names(source.graph)
    return [
        f"{len(nodes)} variables are called {name!r}, which MXNet's Module refuses; --doctor tie or separate settles it"
        for name, nodes in repeated.items()
    ]


def _say_ties(made: Sharing) -> None:
    for verb, ties in (("tied", made.ties.tied), ("renamed", made.ties.renamed), ("copied", made.ties.copied)):
        if ties:
            say(f"{verb}: {len(ties)}")
        for tie in ties[:_LISTED]:
            say(f"  {tie.name} -> {tie.to}" + (f"  ({tie.rule})" if tie.rule else ""))
        if len(ties) > _LISTED:
            say(f"  and {len(ties) - _LISTED} more (all with --dry-run)")
    say(f"separate: {len(made.ties.separate)} ({format_name_list(made.ties.separate)})")


def _print_candidates(found: list[Candidates], format_: str) -> None:
    if format_ == "json":
        put_json({"candidates": [msgspec.to_builtins(group) for group in found]})
        return
    for group in found:
        equal = {"values": "equal values", "shape": "one shape", "operator": "operators of one form"}[group.why]
        put([f"{equal}{', related names' if group.related else ''}, {group.form}: {', '.join(group.names)}"])
        put(f"  {option}" for option in group.options)
    say(f"{len(found)} groups of parameters may be meant to be one")
