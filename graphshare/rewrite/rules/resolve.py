"""Rules applied to one name, step by step.

First sharing, for parameters: an alias, else a scope override, until no rule matches. Then naming:
the last matching map or pattern, the last prefix to strip, the last prefix to put, and the scopes,
the first outermost. Every kind of rule starts from the result of the kind before it, never from its
own: so swaps work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.rewrite.rules.model import SHARING, Kind, Only, Rule, Ruleset
from graphshare.rewrite.rules.scopes import (
    Override,
    Overrides,
    Scope,
    join_name,
    join_scope,
    make_overrides,
    split_name,
    split_scope,
)
from graphshare.text.format import format_count
from graphshare.text.patterns import Substitution, compile_substitution, find_literal_ends

MAX_NAME = 4096  # characters that rules may add to a name
MAX_STEPS = 1000  # aliases that are followed where no graph says which names there are

_State = tuple[str, bool]  # a name, and whether an override has just made it
# of patterns on names: under half a minute. Literal names and scopes are looked up.
MAX_TRIALS = 100_000_000
_MATCHING = (
    20  # what running a pattern counts for; what its literal ends already tell apart counts for one
)


class Resolved(msgspec.Struct, frozen=True, eq=False):
    """The name that rules give, and the steps to it, if any."""

    name: str
    steps: tuple[NameStep, ...] = ()


class Resolver:
    """Rules prepared for many names.

    ``parameters`` are the names of a graph's parameters, or None without a graph: an alias of an
    alias is followed while its target is one of them.

    Raises:
        RefusedError: overrides form a cycle or are invalid.
    """

    def __init__(self, ruleset: Ruleset, parameters: Collection[str] | None = None) -> None:
        self.ruleset = ruleset
        self.fired: set[Rule] = set()
        self._parameters = parameters
        self._separator = ruleset.separator
        # The limit is on the rules as a whole.
        self._trials = [0]
        rules = ruleset.rules
        self._aliases = self._chooser(rules, "alias")
        self._given = self._chooser(rules, "map", "match")
        self._affixes = {
            kind: [r for r in reversed(rules) if r.kind == kind] for kind in ("strip", "prefix")
        }
        self._scopes = [r for r in reversed(rules) if r.kind in ("variable_scope", "name_scope")]
        self.names = any(rule.kind not in SHARING for rule in rules)  # whether any rule gives names
        self._overrides, self._rule_of = _table(ruleset)
        self._next: dict[_State, tuple[_State | None, Rule | None]] = {}
        self._ends: dict[_State, str] = {}
        self._heads: dict[Scope, tuple[str, Rule | None]] = {}
        self._marked: set[tuple[Override, Scope]] = set()

    def resolve_parameter(self, name: str) -> tuple[str, Rule | None]:
        """Return the parameter that rules make of ``name``, and the first rule that decides.

        Without a rule that is ``name``. Each name is looked up once, however long the chains.

        Raises:
            RefusedError: aliases lead back to themselves; the cycle is shown as a path.
        """
        if self._aliases.is_unmentioned(name):
            new, rule = self._override(name)
            if rule is None or self._aliases.is_unmentioned(new):
                return new, rule
        return self._walk(name)

    def _walk(self, name: str) -> tuple[str, Rule | None]:
        state: _State = (name, False)
        path: dict[_State, _State] = {}
        while state not in self._ends:
            if state in path:
                names = [name for name, _ in path]
                raise _cycle([*names[[*path].index(state) :], state[0]], self._next[state][1])
            following = self._following(state)
            if following is None:
                self._ends[state] = state[0]
                break
            path[state] = following
            state = following
        end = self._ends[state]
        for passed in path:
            self._ends[passed] = end
        return end, self._next[name, False][1]

    def steps(self, name: str) -> Resolved:
        """Return the result of :meth:`resolve_parameter` with all its steps."""
        self._walk(name)
        steps: list[NameStep] = []
        state: _State = (name, False)
        while (following := self._next[state][0]) is not None:
            chain = self._apply_overrides(state[0]) if following[1] else []
            rule = self._next[state][1]
            steps += chain or ([NameStep(rule, state[0], following[0])] if rule else [])
            state = following
        return Resolved(state[0], tuple(steps))

    def _following(self, state: _State) -> _State | None:
        """Overrides apply to names of the graph, not to the results of overrides."""
        known = self._next.get(state)
        if known is None:
            known = self._next[state] = self._ask(state)
            if known[1] is not None and known[1].kind == "alias":
                self.fired.add(known[1])
        return known[0]

    def _ask(self, state: _State) -> tuple[_State | None, Rule | None]:
        name, overridden = state
        foreign = self._parameters is not None and name not in self._parameters
        step = None if foreign and not overridden else self._aliases.step(name)
        if step is not None and step.after != name:
            check_length(step.after, name)
            if self._parameters is None and len(self._next) > MAX_STEPS:
                raise RefusedError(
                    Fault(f"aliases of {name[:60]!r} never end", where=step.rule.place)
                )
            return (step.after, False), step.rule
        if overridden or foreign or not self._overrides.rules:
            return None, None
        new, rule = self._override(name)
        return (None, None) if rule is None else ((new, True), rule)

    def _override(self, name: str) -> tuple[str, Rule | None]:
        """Return the name that overrides give, and the first of them.

        Names whose scopes begin alike share results.
        """
        parts = name.split(self._separator, self._overrides.depth)
        last = parts.pop()
        head = tuple(parts)
        known = self._heads.get(head)
        if known is None:
            override = self._overrides.first_rule(head)
            if override is None:
                known = "", None
            else:
                self._mark(head)
                scope = self._overrides.resolve_scope(head)
                known = self._separator.join((*scope, "")), self._rule_of[override]
            self._heads[head] = known
        begin, rule = known
        if rule is None:
            return name, None
        new = begin + last
        if len(new) > MAX_NAME:
            check_length(new, name)
        return new, rule

    def _mark(self, scope: Scope) -> None:
        """Note overrides that lead on from ``scope``, up to a scope of the same block seen before."""
        block = self._overrides.block(scope)
        for step in self._overrides.chain(scope):
            self.fired.add(self._rule_of[step.override])
            mark = (step.override, self._overrides.block_key(step.override, block))
            if mark in self._marked:
                break
            self._marked.add(mark)

    def name_node(self, name: str, kinds: Collection[Only]) -> Resolved:
        """Return the new name of a node of these ``kinds``."""
        if not self.names:
            return Resolved(name)
        steps: list[NameStep] = []
        named = self._given.step(name, kinds)
        if named is not None:
            steps.append(named)
        for kind in ("strip", "prefix"):
            at = steps[-1].after if steps else name
            affixed = next(
                (
                    s
                    for rule in self._affixes[kind]
                    if (s := self._apply_affix(rule, at, kinds)) is not None
                ),
                None,
            )
            if affixed is not None:
                steps.append(affixed)
        for rule in self._scopes:
            if rule.kind == "name_scope" and "parameters" in kinds:
                continue
            at = steps[-1].after if steps else name
            scope = rule.text.removesuffix(self._separator)
            affixed = self._apply_affix(
                msgspec.structs.replace(rule, text=f"{scope}{self._separator}", kind="prefix"),
                at,
                kinds,
            )
            if affixed is not None:
                steps.append(NameStep(rule, affixed.before, affixed.after))
        for step in steps:
            self.fired.add(step.rule)
        new = steps[-1].after if steps else name
        check_length(new, name)
        return Resolved(new, tuple(steps))

    def _apply_overrides(self, name: str) -> list[NameStep]:
        scope, last = split_name(name, self._separator)
        steps: list[NameStep] = []
        tail: Scope = ()
        before = name
        for step in self._overrides.chain(scope):
            tail = step.tail + tail
            after = join_name(step.after + tail, last, self._separator)
            steps.append(NameStep(self._rule_of[step.override], before, after))
            before = after
        return steps

    def _apply_affix(self, rule: Rule, name: str, kinds: Collection[Only]) -> NameStep | None:
        rest = inside(rule, name, self._separator)
        if rest is None or not applies_to(rule, kinds):
            return None
        begin = name[: len(name) - len(rest)]
        if rule.kind == "prefix":
            return NameStep(rule, name, begin + rule.text + rest)
        return (
            NameStep(rule, name, begin + rest.removeprefix(rule.text))
            if rest.startswith(rule.text)
            else None
        )

    def _chooser(self, rules: Iterable[Rule], *kinds: Kind) -> Chooser:
        return Chooser(
            [rule for rule in rules if rule.kind in kinds], self._separator, self._trials
        )


def _table(ruleset: Ruleset) -> tuple[Overrides, dict[Override, Rule]]:
    rule_of: dict[Override, Rule] = {}
    faults: list[Fault] = []
    for rule in ruleset.rules:
        if rule.kind != "scope":
            continue
        begin = split_scope(rule.within, ruleset.separator)
        try:
            (override,) = make_overrides(
                [(rule.text, rule.to)],
                current=begin,
                within=begin,
                separator=ruleset.separator,
                places=[rule.place],
            )
        except RefusedError as error:
            faults += error.faults
        else:
            rule_of[override] = rule
    RefusedError.raise_any(faults)
    return Overrides(rule_of, separator=ruleset.separator), rule_of


def find_shadowed(ruleset: Ruleset) -> Iterator[tuple[Rule, Rule]]:
    """Yield rules that can never decide, each with the later rule that decides instead."""
    last: dict[tuple[object, ...], Rule] = {}
    hidden: list[tuple[Rule, Rule]] = []
    for rule in reversed(ruleset.rules):
        if rule.kind in ("variable_scope", "name_scope"):
            continue  # they nest
        group = "given" if rule.kind in ("map", "match") else rule.kind
        # Any prefix fits any name, so all prefixes compete; other rules only with rules of the same
        # text.
        text = (
            "" if rule.kind == "prefix" else rule.literal if rule.literal is not None else rule.text
        )
        if rule.kind == "scope":
            text = join_scope(split_scope(rule.text, ruleset.separator), ruleset.separator)
        key = (group, rule.literal is None, text, rule.within)
        # A later rule without `only` decides about all kinds.
        later = last.get((*key, ())) or last.get((*key, rule.only))
        if later is not None:
            hidden.append((rule, later))
        last.setdefault((*key, rule.only), rule)
    yield from reversed(hidden)


def check_length(new: str, old: str) -> None:
    """Raise RefusedError for a name over ``MAX_NAME`` characters longer than the old one."""
    if len(new) > len(old) + MAX_NAME:
        raise RefusedError(
            Fault(f"{old[:60]!r} would get a name of {format_count(len(new), 'character')}")
        )


def _cycle(path: list[str], rule: Rule | None) -> RefusedError:
    names = path if len(path) <= 14 else [*path[:12], f"({len(path) - 13} more)", path[-1]]
    return RefusedError(
        Fault(f"aliases form a cycle: {' -> '.join(names)}", where=rule.place if rule else "")
    )


class NameStep(msgspec.Struct, frozen=True, eq=False):
    """``rule`` changed ``before`` to ``after``."""

    rule: Rule
    before: str
    after: str


class Chooser:
    """Finds the last rule that matches a name: literal names by look-up, patterns one by one."""

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
                self._patterns.append(
                    (
                        number,
                        rule,
                        *find_literal_ends(rule.text),
                        compile_substitution(rule.text, rule.to),
                    )
                )
        self._patterns.reverse()  # the last rule wins

    def step(self, name: str, kinds: Collection[Only] | None = None) -> NameStep | None:
        best, chosen = -1, None
        for number, rule in reversed(self._literals.get(name, ())):
            if kinds is None or applies_to(rule, kinds):
                best, chosen = number, NameStep(rule, name, _join(rule, rule.to, self._separator))
                break
        self._spend(len(self._patterns))
        for number, rule, head, tail, substitute in self._patterns:
            # The literal rule comes after all patterns that are left.
            if number < best:
                break
            if not name.endswith(tail) or not (rule.within or name.startswith(head)):
                continue
            rest = inside(rule, name, self._separator)
            if rest is None or not (kinds is None or applies_to(rule, kinds)):
                continue
            self._spend(_MATCHING)
            replacement = substitute(rest)
            if replacement is not None:
                return NameStep(rule, name, _join(rule, replacement, self._separator))
        return chosen

    def is_unmentioned(self, name: str) -> bool:
        """Whether look-ups suffice to show that no rule matches ``name``."""
        return not self._patterns and name not in self._literals

    def _spend(self, trials: int) -> None:
        self._trials[0] += trials
        if self._trials[0] > MAX_TRIALS:
            hint = "give literal names (a map) or scopes instead: they are looked up"
            raise UsageError(Fault("too many patterns for so many names", hint=hint))


def inside(rule: Rule, name: str, separator: str) -> str | None:
    """Return the part of ``name`` after the scope of ``rule``; None for a name outside it."""
    if not rule.within:
        return name
    begin = f"{rule.within}{separator}"
    return name[len(begin) :] if name.startswith(begin) else None


def _join(rule: Rule, name: str, separator: str) -> str:
    return f"{rule.within}{separator}{name}" if rule.within else name


def applies_to(rule: Rule, kinds: Collection[Only]) -> bool:
    """Whether the ``only`` of ``rule`` allows ``kinds``."""
    return not rule.only or any(only in kinds for only in rule.only)
