"""Options that give sharing and naming rules."""

from __future__ import annotations

from graphshare.cli.command import option

rules = option(
    "--rules", metavar="FILE", help="File of rules, JSON or TOML; rules of options come after them."
)
prefix = option("-p", "--prefix", metavar="P", default="", help="Put P before every name.")
strip_prefix = option(
    "--strip-prefix", metavar="P", default="", help="Remove P from the front of names."
)
names_file = option(
    "--map",
    metavar="FILE",
    help="Take the new names from a map file, or a JSON object of old and new names.",
)
separator = option("--separator", metavar="S", help="Separator of scopes in names [/].")
overrides = option(
    "--override",
    "overrides",
    metavar="SRC=DST",
    multiple=True,
    help="Use the parameters of scope DST in scope SRC.",
)
aliases = option(
    "--alias",
    "aliases",
    metavar="A=B",
    multiple=True,
    help="Use parameter B in place of A, a name or pattern.",
)
matches = option(
    "--match",
    metavar="PATTERN",
    multiple=True,
    help="Change these names: a glob, =literal or re:expression.",
)
targets = option(
    "--to", metavar="NAME", multiple=True, help="Replacement for the preceding --match."
)
variable_scopes = option(
    "--variable-scope",
    "variable_scopes",
    metavar="S",
    multiple=True,
    help="Put all names into this scope.",
)
name_scopes = option(
    "--name-scope",
    "name_scopes",
    metavar="S",
    multiple=True,
    help="Put all names except those of parameters into this scope.",
)
