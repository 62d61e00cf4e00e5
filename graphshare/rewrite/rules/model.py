"""The rules of every sharing system as one model, from options or from a file.

A rule is about names, never about nodes; :mod:`graphshare.rewrite.rules.resolve` turns old names
into new ones, and :mod:`graphshare.rewrite.rules.plan` applies them to a graph. A file's rules come
before options. Where two match one name, the later one wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from graphshare.errors import Fault, UsageError
from graphshare.rewrite.rules.scopes import SEPARATOR
from graphshare.text.names import split_pair
from graphshare.text.patterns import is_literal
from graphshare.text.summary import ShortRepr

MAX_RULES = 100_000

Kind = Literal["alias", "scope", "map", "match", "strip", "prefix", "variable_scope", "name_scope"]
Reuse = Literal["auto", "require", "forbid"]
REUSE: tuple[Reuse, ...] = get_args(Reuse)
Only = Literal["variables", "ops", "inputs", "parameters"]
"""The kinds of nodes that a rule applies to. Parameters include auxiliary states, inputs include
labels and states.
"""

Boundary = Literal["inputs", "outputs"]
"""The ends of a graph whose names a rename may leave unchanged; inputs include labels and states."""

#: What makes a parameter another one. All other kinds give names.
SHARING = frozenset(("alias", "scope"))


class Rule(msgspec.Struct, frozen=True, eq=False):
    """One rule. ``text`` is matched against names, by kind:

    - ``alias``: a pattern; parameters that it matches are the parameter ``to``, and lose their
      names.
    - ``scope``: a scope whose parameters become the parameters of the scope ``to``.
    - ``map``: a name that becomes ``to``; ``match``: a pattern whose names become ``to``.
    - ``strip``: a prefix that is removed; ``prefix``: one that is put before.
    - ``variable_scope``: a scope put before every name; ``name_scope``: one put before all but
      parameters.

    ``within`` is the scope that a block of rules begins at: the rule sees the rest of a name after
    it, and puts the scope back. ``place`` says where the rule was given; ``only`` limits it (empty:
    all); ``reuse`` of None means the plan's.
    """

    kind: Kind
    text: str
    to: str = ""
    within: str = ""
    only: tuple[Only, ...] = ()
    reuse: Reuse | None = None
    place: str = ""
    option: bool = False

    def __str__(self) -> str:
        arrow = f" -> {self.to!r}" if self.kind in ("alias", "scope", "map", "match") else ""
        inside = f" within {self.within!r}" if self.within else ""
        return f"{self.kind.replace('_', ' ')} {self.text!r}{arrow}{inside}"

    @property
    def citation(self) -> str:
        """Return the place; in a file, where a place has no name, with the rule in words."""
        return self.place if self.option else f"{self.place}: {self}"

    @property
    def literal(self) -> str | None:
        """Return the one name that the rule matches, without ``within``; None if it may match
        several.
        """
        if self.kind == "map":
            return self.text
        return (
            self.text.removeprefix("=")
            if self.kind in ("alias", "match") and is_literal(self.text)
            else None
        )


class Ruleset(ShortRepr, msgspec.Struct, frozen=True, eq=False):
    """Rules in order, with the separator of scopes and the reuse policy of rules that state none."""

    rules: tuple[Rule, ...] = ()
    separator: str = SEPARATOR
    reuse: Reuse = "auto"

    def then(self, rules: Iterable[Rule]) -> Ruleset:
        """Return these rules and ``rules`` after them."""
        return msgspec.structs.replace(self, rules=(*self.rules, *rules))


def rule_from_option(kind: Kind, option: str, text: str) -> Rule:
    r"""Return the rule that ``--override SRC=DST`` or ``--alias A=B`` gives, split at the first
    ``=``; ``\=`` is one in a name.

    An ``=`` right at the start says that the left side is a literal name.

    Raises:
        UsageError: there is no ``=`` to split at, nothing on one side where there must be, or one name on both.
    """
    place = f"{option} {text}"
    # The left side: an `=` that begins it, then pairs `\=`, other characters, and backslashes before anything else.
    match = re.match(r"(=?(?:\\=|[^=\\]|\\(?!=))*)=(.*)", text, re.DOTALL)
    if match is None:
        raise UsageError(
            Fault("has no '=' between two names", where=place, hint=f"as in {option} OLD=NEW")
        )
    left, right = (side.replace("\\=", "=") for side in match.groups())
    if not left.removeprefix("=") or (kind == "alias" and not right):
        raise UsageError(
            Fault("leaves one side empty", where=place, hint=f"as in {option} OLD=NEW")
        )
    if kind == "alias" and is_literal(left) and left.removeprefix("=") == right:
        raise UsageError(
            Fault(f"{right!r} cannot be an alias of itself", where=place, hint="leave it out")
        )
    return Rule(kind, left, right, place=place, option=True)


def renames_of_arguments(texts: Iterable[str]) -> list[Rule]:
    r"""Return the rules of arguments ``OLD=NEW``: OLD is a literal name, with ``\=`` for ``=``.

    Raises:
        UsageError: one has no ``=`` or an empty side, or a name has two new names.
    """
    rules: dict[str, Rule] = {}
    faults = []
    for text in texts:
        old, new = split_pair(text) or ("", "")
        if not old or not new:
            faults.append(
                Fault(
                    r"is not OLD=NEW; \= stands for an = in OLD",
                    where=text,
                    hint="as in conv1=first",
                )
            )
        elif rules.setdefault(old, Rule("map", old, new, place=text, option=True)).to != new:
            faults.append(
                Fault(
                    f"gives {old!r} a second new name",
                    where=text,
                    hint=f"the first is {rules[old].to!r}",
                )
            )
    UsageError.raise_any(faults)
    return list(rules.values())


def matches_of_options(patterns: Iterable[str], targets: Iterable[str]) -> list[Rule]:
    """Return the rules of ``--match`` and ``--to``, given in pairs.

    Raises:
        UsageError: their numbers differ.
    """
    patterns, targets = list(patterns), list(targets)
    if len(patterns) != len(targets):
        hint = "each --match PATTERN needs a --to NAME of its own"
        raise UsageError(
            Fault(f"there are {len(patterns)} --match and {len(targets)} --to", hint=hint)
        )
    return [
        Rule("match", pattern, to, place=f"--match {pattern} --to {to}", option=True)
        for pattern, to in zip(patterns, targets, strict=True)
    ]
