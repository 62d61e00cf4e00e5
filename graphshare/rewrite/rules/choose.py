"""Which of several rules decides about a name: the last that speaks of it."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from graphshare.errors import Fault, UsageError
from graphshare.rewrite.rules.model import Only, Rule
from graphshare.text.patterns import Substitution, compile_substitution, find_literal_ends

MAX_TRIALS = 100_000_000  # of patterns on names: under half a minute. Literal names and scopes are looked up and cost none.
_MATCHING = 20  # what running a pattern counts for; what its literal ends already tell apart counts for one


class NameStep(msgspec.Struct, frozen=True, eq=False):
    """``rule`` made ``after`` of ``before``."""

    rule: Rule
    before: str
    after: str


class Chooser:
    """Finds the last rule that speaks of a name: literal names by look-up, patterns one after the other."""

    def __init__(self, rules: list[Rule], separator: str, trials: list[int]) -> None:
        self._separator = separator
        self._trials = trials
        self._literals: dict[str, list[tuple[int, Rule]]] = {}
        self._patterns: list[tuple[int, Rule, str, str, Substitution]] = []
        for number, rule in enumerate(rules):
            literal = rule.literal
            if literal is not None:
                whole = f"{rule.within}{separator}{literal}" if rule.within else literal
                self._literals.setdefault(whole, []).append((number, rule))
            else:
                self._patterns.append((number, rule, *find_literal_ends(rule.text), compile_substitution(rule.text, rule.to)))
        self._patterns.reverse()

    def step(self, name: str, kinds: Collection[Only] | None = None) -> NameStep | None:
        """What the last rule for ``name`` makes of it; None where no rule speaks of it."""
        best, chosen = -1, None
        for number, rule in reversed(self._literals.get(name, ())):
            if kinds is None or speaks_of(rule, kinds):
                best, chosen = number, NameStep(rule, name, _join(rule, rule.to, self._separator))
                break
        self._spend(len(self._patterns))
        for number, rule, head, tail, substitute in self._patterns:
            if number < best:
                break
            if not name.endswith(tail) or not (rule.within or name.startswith(head)):
                continue
            rest = inside(rule, name, self._separator)
            if rest is None or not (kinds is None or speaks_of(rule, kinds)):
                continue
            self._spend(_MATCHING)
            made = substitute(rest)
            if made is not None:
                return NameStep(rule, name, _join(rule, made, self._separator))
        return chosen

    def knows_not(self, name: str) -> bool:
        """Whether it is plain to see that no rule speaks of ``name``."""
        return not self._patterns and name not in self._literals

    def _spend(self, trials: int) -> None:
        self._trials[0] += trials
        if self._trials[0] > MAX_TRIALS:
            hint = "give literal names (a map) or scopes instead: they are looked up"
            raise UsageError(Fault("too many patterns for so many names", hint=hint))


def inside(rule: Rule, name: str, separator: str) -> str | None:
    """What follows the scope that ``rule`` is limited to; None for a name outside it."""
    if not rule.within:
        return name
    begin = f"{rule.within}{separator}"
    return name[len(begin) :] if name.startswith(begin) else None


def _join(rule: Rule, name: str, separator: str) -> str:
    return f"{rule.within}{separator}{name}" if rule.within else name


def speaks_of(rule: Rule, kinds: Collection[Only]) -> bool:
    """Whether ``rule`` is not limited to other kinds of nodes than ``kinds``."""
    return not rule.only or any(only in kinds for only in rule.only)
