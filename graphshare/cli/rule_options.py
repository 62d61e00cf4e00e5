"""Options that give rules, and the rules that they and a rules file make together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click
import msgspec

from graphshare.cli.options import _option
from graphshare.rewrite.rules.load import load_rules
from graphshare.rewrite.rules.model import REUSE, Reuse, Rule, Ruleset, matches_of_options

rules_file = _option("--rules", "rules_file", metavar="FILE", help="Rules in a file, JSON or TOML; options come after them.")
separator = _option("--separator", metavar="S", help="What separates the components of scopes [/].")
reuse = _option(
    "--reuse", type=click.Choice(REUSE), help="Tie where the target exists and rename where not [auto]; require; or forbid."
)
overrides = _option("--override", "overrides", metavar="SRC=DST", multiple=True, help="Parameters of scope SRC are DST's.")
aliases = _option("--alias", "aliases", metavar="A=B", multiple=True, help="Parameter A (a name or pattern) is B.")
matches = _option("--match", metavar="PATTERN", multiple=True, help="Names to change: a glob, =literal, or re:expression.")
targets = _option("--to", metavar="NAME", multiple=True, help="What the --match before it becomes.")
variable_scopes = _option("--variable-scope", metavar="S", multiple=True, help="Open a scope around all names.")
name_scopes = _option("--name-scope", metavar="S", multiple=True, help="Open a scope around all names but parameters'.")


def naming_rules(
    patterns: Sequence[str],
    to: Sequence[str],
    strip_prefix: str = "",
    prefix: str = "",
    variable_scope: Sequence[str] = (),
    name_scope: Sequence[str] = (),
) -> list[Rule]:
    """The rules of the options that give names. Name scopes lie around variable scopes.

    Raises:
        UsageError: --match and --to do not come in pairs.
    """
    rules = matches_of_options(patterns, to)
    for kind, option, texts in (
        ("strip", "--strip-prefix", [strip_prefix]),
        ("prefix", "--prefix", [prefix]),
        ("name_scope", "--name-scope", name_scope),
        ("variable_scope", "--variable-scope", variable_scope),
    ):
        rules += [Rule(kind, text, place=f"{option} {text}", option=True) for text in texts if text]  # type: ignore[arg-type]
    return rules


def ruleset_of(
    rules_file: str | None, options: Iterable[Rule], *, separator: str | None = None, reuse: Reuse | None = None
) -> Ruleset:
    """The rules of a file, if there is one, and after them those of ``options``; errors as in :func:`load_rules`."""
    found = load_rules(rules_file) if rules_file else Ruleset()
    found = msgspec.structs.replace(found, separator=separator or found.separator, reuse=reuse or found.reuse)
    return found.then(options)
