"""Scope overrides: a parameter of one scope is one of another, as in Caffe2's ParameterSharing.

A scope is a tuple of whole components (``"g/b/"`` is ``("g", "b")``, the root is ``()``): a rule
for ``fc`` does not match ``fc_auto_0``. The deepest component with a rule decides. The rule's
target is resolved in turn; then the rest of the scope is appended unresolved. A block of overrides
begins at some scope: both sides of a rule lie under it, and only parameters there are affected. The
later of two rules for one scope wins.

Rules files and the builder's context managers share this module: it uses text only, no graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from graphshare.errors import Fault, RefusedError

Scope = tuple[str, ...]

SEPARATOR = "/"
# Of resolved scopes kept in one table: a chain of growing targets cannot fill the memory
MAX_CHARACTERS = 1 << 26
_STEP = 64  # added to the characters of a resolved scope: the memory that an entry takes
_SHOWN = 12  # rules of a long cycle that a message lists


class Override(msgspec.Struct, frozen=True, eq=False):
    """Parameters of the scope ``key`` are the parameters of ``target``, both absolute.

    It applies to parameters under the scope ``within`` (``()``: all); ``place`` is for messages.
    """

    key: Scope
    target: Scope
    within: Scope = ()
    place: str = ""


class Step(msgspec.Struct, frozen=True, eq=False):
    """``override`` turns the scope ``before`` into ``after``; ``tail`` is appended at the end."""

    override: Override
    before: Scope
    after: Scope
    tail: Scope


def split_scope(text: str, separator: str = SEPARATOR) -> Scope:
    """Return the components of a scope.

    One separator at the end is ignored, so ``"a//"`` has an empty second component.
    """
    parts = tuple(text.removesuffix(separator).split(separator))
    return () if parts == ("",) else parts


def split_name(name: str, separator: str = SEPARATOR) -> tuple[Scope, str]:
    """Return the scope of a name and its last component: ``"a/b/w"`` is ``("a", "b")`` and ``"w"``."""
    *scope, last = name.split(separator)
    return tuple(scope), last


def join_scope(scope: Sequence[str], separator: str = SEPARATOR) -> str:
    """Return the text of a scope as written in rules: ``a/b``; an empty text for the root."""
    return separator.join(scope)


def join_name(scope: Sequence[str], name: str, separator: str = SEPARATOR) -> str:
    """Return the name with this scope and last component; the inverse of :func:`split_name`."""
    return separator.join((*scope, name))


def make_overrides(
    pairs: Mapping[str, str] | Iterable[tuple[str, str]],
    *,
    current: Scope = (),
    within: Scope = (),
    separator: str = SEPARATOR,
    places: Sequence[str] = (),
) -> tuple[Override, ...]:
    """Return one block's rules, ``{"scope_b": "scope_a"}``, both sides relative to ``current``.

    ``within`` limits them to parameters of that scope. ``places`` say where each pair was
    given.

    Raises:
        RefusedError: a key is the root, or a target is the key itself or lies inside it.
    """
    overrides = []
    faults = []
    for i, (key, target) in enumerate(pairs.items() if isinstance(pairs, Mapping) else pairs):
        place = places[i] if i < len(places) else ""
        old, new = split_scope(key, separator), split_scope(target, separator)
        title = f"scope override {key!r} to {target!r}"
        if not old:
            hint = "name the scope whose parameters move; to move all of them give a prefix"
            faults.append(
                Fault(f"{title}: the empty scope holds every other", where=place, hint=hint)
            )
        elif new == old:
            faults.append(
                Fault(
                    f"{title}: a scope cannot stand for itself",
                    where=place,
                    hint="leave the rule out",
                )
            )
        # Such an override would match its own result and never end.
        elif new[: len(old)] == old:
            hint = f"{target!r} lies inside {key!r}, so the rule would apply to its own result for ever"
            faults.append(
                Fault(
                    f"{title}: the target lies inside the scope it replaces", where=place, hint=hint
                )
            )
        else:
            overrides.append(Override(current + old, current + new, within, place))
    RefusedError.raise_any(faults)
    return tuple(overrides)


class _Place:
    """A scope in the tree of keys; a block may begin at it."""

    __slots__ = ("block", "next", "rules")

    def __init__(self) -> None:
        self.next: dict[str, _Place] = {}
        self.rules: list[Override] = []
        self.block = False


class Overrides:
    """A table of overrides; later ones prevail. Resolving takes time in proportion to a scope's
    length.

    Only the first ``depth`` components of a scope can match a rule.

    Raises:
        RefusedError: rules form a cycle; the constructor shows each cycle as a path.
    """

    def __init__(self, rules: Iterable[Override] = (), *, separator: str = SEPARATOR) -> None:
        self.rules = tuple(rules)
        self.separator = separator
        self._root = _Place()
        self._characters = 0
        # By rule and innermost block: the resolved scope, with the next rule; or the fault.
        self._resolved: dict[tuple[Override, Scope], tuple[Scope, Override | None]] = {}
        self._broken: dict[tuple[Override, Scope], Fault] = {}
        # Rules that resolve alike in every block; stored under the block ()
        self._everywhere: set[Override] = set()
        self.depth = max((max(len(rule.key), len(rule.within)) for rule in self.rules), default=0)
        for rule in self.rules:
            self._place(rule.key).rules.append(rule)
            self._place(rule.within).block = True
        faults: dict[Fault, None] = {}
        for rule in self.rules:
            try:
                self._resolve_target(rule, self.block(rule.key))
            except RefusedError as error:
                faults.update(dict.fromkeys(error.faults))
        RefusedError.raise_any(faults)

    def chain(self, scope: Sequence[str]) -> Iterator[Step]:
        """Yield the steps of :meth:`resolve_scope`, one by one."""
        at = tuple(scope)
        rule = self._deepest(at, at)
        block = self.block(at)
        while rule is not None:
            yield Step(rule, at, rule.target, at[len(rule.key) :])
            at = rule.target
            rule = self._resolve_target(rule, block)[1]

    def parameter_name(self, scope: Sequence[str], name: str) -> str:
        """Return a parameter's full name; errors as in :meth:`resolve_scope`."""
        return join_name(self.resolve_scope(scope), name, self.separator)

    def resolve_scope(self, scope: Sequence[str]) -> Scope:
        """Return the scope whose parameters ``scope`` uses.

        Raises:
            RefusedError: rules that apply here form a cycle.
        """
        at = tuple(scope)
        override = self._deepest(at, at)
        if override is None:
            return at
        return self._resolve_target(override, self.block(at))[0] + at[len(override.key) :]

    def first_rule(self, scope: Sequence[str]) -> Override | None:
        """Return the rule that applies to ``scope``; None if ``scope`` has its own parameters."""
        at = tuple(scope)
        return self._deepest(at, at)

    def _place(self, scope: Scope) -> _Place:
        place = self._root
        for part in scope:
            place = place.next.setdefault(part, _Place())
        return place

    def block(self, scope: Scope) -> Scope:
        """Return the innermost scope above or at ``scope`` where a block begins; it decides which
        rules apply.
        """
        place, depth = self._root, 0
        for i, part in enumerate(scope, start=1):
            following = place.next.get(part)
            if following is None:
                break
            place = following
            if place.block:
                depth = i
        return scope[:depth]

    def _deepest(self, scope: Scope, block: Scope) -> Override | None:
        """Return the last applicable rule of the deepest scope, at or above ``scope``, with one."""
        return self._look_up(scope, block)[0]

    def _look_up(self, scope: Scope, block: Scope) -> tuple[Override | None, bool]:
        """Return the rule of :meth:`_deepest`, and whether it is the same in every block."""
        place, best, everywhere = self._root, None, True
        for part in scope:
            following = place.next.get(part)
            if following is None:
                break
            place = following
            if place.rules:
                best = next(
                    (rule for rule in reversed(place.rules) if self._in_force(rule, block)), best
                )
                everywhere = everywhere and not any(rule.within for rule in place.rules)
        return best, everywhere

    def block_key(self, rule: Override, block: Scope) -> Scope:
        """Return ``block``, or ``()`` if ``rule`` resolves to the same scope in every block."""
        return () if rule in self._everywhere else block

    @staticmethod
    def _in_force(rule: Override, block: Scope) -> bool:
        return block[: len(rule.within)] == rule.within

    def _resolve_target(self, rule: Override, block: Scope) -> tuple[Scope, Override | None]:
        known = self._look_up_resolved(rule, block)
        if known is not None:
            return known
        chain: dict[Override, tuple[Override | None, bool]] = {}
        at: Override | None = rule
        while at is not None and self._look_up_resolved(at, block) is None:
            order = [*chain] if at in chain else []
            fault = self._broken.get((at, block)) or (
                self._cycle(order[order.index(at) :]) if order else None
            )
            if fault is not None:
                self._broken.update(((part, block), fault) for part in chain)
                raise RefusedError(fault)
            chain[at] = self._look_up(at.target, block)
            at = chain[at][0]
        for done, (after, everywhere) in reversed(chain.items()):
            end = done.target
            if after is not None:
                end = (
                    self._resolved[after, self.block_key(after, block)][0]
                    + done.target[len(after.key) :]
                )
                everywhere = everywhere and after in self._everywhere
            self._characters += sum(map(len, end)) + len(end) + len(block) + _STEP
            if self._characters > MAX_CHARACTERS:
                hint = "chains of rules that grow, or that thousands of blocks resolve anew, are most likely a mistake"
                fault = Fault("scope overrides resolve to more names than can be held", hint=hint)
                self._broken.update(((part, block), fault) for part in chain)
                raise RefusedError(fault)
            if everywhere:
                self._everywhere.add(done)
            self._resolved[done, self.block_key(done, block)] = (end, after)
        return self._resolved[rule, self.block_key(rule, block)]

    def _look_up_resolved(
        self, rule: Override, block: Scope
    ) -> tuple[Scope, Override | None] | None:
        return self._resolved.get((rule, self.block_key(rule, block)))

    def _cycle(self, rules: Sequence[Override]) -> Fault:
        # Each rule of a cycle reports it; started at the first rule, the faults are equal. Long
        # cycles take too long to search.
        first = rules.index(min(rules, key=self.rules.index)) if len(rules) <= _SHOWN else 0
        turned = [*rules[first:], *rules[:first]]
        path = [join_scope(rule.key, self.separator) or "(root)" for rule in turned[:_SHOWN]]
        path += [f"({len(turned) - _SHOWN} more)"] if len(turned) > _SHOWN else []
        path.append(join_scope(turned[0].key, self.separator) or "(root)")
        return Fault(
            f"scope overrides form a cycle: {' -> '.join(path)}",
            where=turned[0].place,
            hint="take one of them out",
        )
