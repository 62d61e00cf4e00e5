"""Options that give sharing and naming rules."""

from __future__ import annotations

import click

from graphshare.cli.options import _option
from graphshare.rewrite.rules.model import REUSE

rules_file = _option("--rules", "rules_file", metavar="FILE", help="Rules in a file, JSON or TOML; options come after them.")
separator = _option("--separator", metavar="S", help="Separator of the components of scopes [/].")
reuse = _option(
    "--reuse", type=click.Choice(REUSE), help="Tie where the target exists and rename where not [auto]; require; or forbid."
)
overrides = _option("--override", "overrides", metavar="SRC=DST", multiple=True, help="Parameters of scope SRC are DST's.")
aliases = _option("--alias", "aliases", metavar="A=B", multiple=True, help="Parameter A (a name or pattern) is B.")
matches = _option("--match", metavar="PATTERN", multiple=True, help="Names to change: a glob, =literal, or re:expression.")
targets = _option("--to", metavar="NAME", multiple=True, help="Replacement for the preceding --match.")
variable_scopes = _option(
    "--variable-scope", "variable_scopes", metavar="S", multiple=True, help="Open a scope around all names."
)
name_scopes = _option(
    "--name-scope", "name_scopes", metavar="S", multiple=True, help="Open a scope around all names but parameters'."
)
