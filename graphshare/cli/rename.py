"""``graphshare rename``."""

from __future__ import annotations

from typing import Any

import click

from graphshare.checkpoint.load import load_checkpoint, refusals_of
from graphshare.checkpoint.map_file import names_from_map, read_map, restored, source_hash
from graphshare.checkpoint.parameter_plan import check_belongs, held_names, notes_on
from graphshare.cli import options, rule_options
from graphshare.cli.console import say
from graphshare.cli.emit import deliver
from graphshare.cli.summary import say_written
from graphshare.errors import Fault, UsageError
from graphshare.rewrite.rename_plan import rename as rename_graph
from graphshare.rewrite.rename_plan import rename_by_rules
from graphshare.rewrite.rules.model import Only


@click.command
@options.rewriting
@click.option("--prefix", metavar="P", default="", help="Put P before every name.")
@click.option("--strip-prefix", metavar="P", default="", help="Take P away where a name begins with it.")
@click.option("--map", "map_file", metavar="FILE", help="New names: a map file, or a JSON object of old names and new ones.")
@click.option("--inverse", is_flag=True, help="Take the names of --map back: the original file, byte for byte.")
@rule_options.matches
@rule_options.targets
@rule_options.variable_scopes
@rule_options.name_scopes
@rule_options.rules_file
@rule_options.separator
@click.option("--only", type=click.Choice([kind.value for kind in Only]), multiple=True, help="Limit it to these; repeatable.")
def rename(
    graph: str,
    epoch: int | None,
    params: str | None,
    prefix: str,
    strip_prefix: str,
    map_file: str | None,
    inverse: bool,
    match: tuple[str, ...],
    to: tuple[str, ...],
    variable_scope: tuple[str, ...],
    name_scope: tuple[str, ...],
    rules_file: str | None,
    separator: str | None,
    only: tuple[str, ...],
    **delivery: Any,
) -> None:
    """Give nodes other names, parameters along.

    Names inside sub-graphs stay as they are: they are bound by position. A name that would meet another is refused. In --to
    each * is what the pattern's next * matched. Of several rules for one name the last holds; swaps work.
    """
    by_rule = bool(match or to or variable_scope or name_scope or rules_file)
    _check_options(map_file, inverse, bool(prefix or strip_prefix), by_rule)
    source = load_checkpoint(graph, epoch=epoch, params=params)
    data = read_map(map_file) if map_file else b""
    names = names_from_map(data, source.graph, where=map_file, inverse=inverse) if map_file else None
    kinds = [Only(kind) for kind in only]
    held = held_names(source.params)
    rule_notes: tuple[str, ...] = ()
    with refusals_of(source):
        check_belongs(source.params, source.graph)
        if by_rule:
            rules = rule_options.naming_rules(match, to, strip_prefix, prefix, variable_scope, name_scope)
            ruleset = rule_options.ruleset_of(rules_file, rules, separator=separator)
            rewrite, rule_notes = rename_by_rules(source.graph, ruleset, only=kinds, held=held)
        else:
            rewrite = rename_graph(
                source.graph,
                prefix=prefix,
                strip_prefix=strip_prefix,
                names=names,
                only=kinds,
                held=held,
                repeats=inverse,
            )
    if inverse and (known := source_hash(data)):
        exact = restored(rewrite, known)
        rewrite = exact or rewrite
        rule_notes = () if exact else ("the result is not, byte for byte, the file that the map was made from",)
    done = options.delivery(delivery)
    notes = [*notes_on(source.params, source.graph), *rule_notes]
    variables = any(image.name != node.name for node, image in rewrite.branches[0].images.items() if node.is_variable)
    outputs = deliver(rewrite, source, done, needs_params_out=variables or bool(rewrite.renames), notes=notes)
    if not done.dry_run:
        changed = sum(image.name != node.name for node, image in rewrite.branches[0].images.items())
        say(f"renamed {changed} of {len(source.graph.nodes)} nodes")
        say_written(outputs)


def _check_options(map_file: str | None, inverse: bool, affixes: bool, by_rule: bool) -> None:
    """Refuses a command line that gives names in no way or in two that exclude each other."""
    hint = "give --prefix and --strip-prefix, --match and --to, scopes, --rules FILE, or --map FILE"
    if map_file and (affixes or by_rule):
        raise UsageError(Fault("a map leaves no room for prefixes and rules", hint=hint))
    if inverse and not map_file:
        raise UsageError(Fault("--inverse needs the --map that a rename wrote with --map-out"))
    if not (map_file or affixes or by_rule):
        raise UsageError(Fault("nothing says how to rename", hint=hint))
