"""The options of rules that tie parameters, and the rules that they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from graphshare.api.load_rules import make_ruleset
from graphshare.cli import rule_options
from graphshare.cli.options import gather
from graphshare.rewrite.rules.model import (
    Reuse,
    Rule,
    Ruleset,
    matches_of_options,
    rule_from_option,
)


class TyingRules(msgspec.Struct, frozen=True):
    """The file of rules, and those of options, which come after it."""

    file: str | None
    own: list[Rule]
    separator: str | None

    def __bool__(self) -> bool:
        return bool(self.own or self.file)

    def make_ruleset(self, *, reuse: Reuse | None = None) -> Ruleset:
        """Return all rules. Raises as :func:`graphshare.load_rules`."""
        return make_ruleset(self.file, self.own, separator=self.separator, reuse=reuse)


def _parse_tying(values: Mapping[str, Any]) -> TyingRules:
    own = [rule_from_option("scope", "--override", text) for text in values["overrides"]]
    own += [rule_from_option("alias", "--alias", text) for text in values["aliases"]]
    own += matches_of_options(values.get("match", ()), values.get("to", ()))
    return TyingRules(values["rules"], own, values["separator"])


def tying(*more: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Add the options of rules that tie parameters, and ``more``; a command gets :class:`TyingRules`."""
    own = (
        rule_options.overrides,
        rule_options.aliases,
        rule_options.rules,
        rule_options.separator,
    )
    keys = ("overrides", "aliases", "rules", "separator", "match", "to")
    return gather("rules", keys, (*own, *more), _parse_tying)
