"""Apply rules to a graph: one complete plan, checked as a whole before anything is built."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, partial

import msgspec

from graphshare.analysis.name_lists import Implied, list_by_name, list_implied_variables, node_names
from graphshare.analysis.roles import (
    Kind,
    Role,
    list_implied_parameters,
    list_parameters,
    refuse_implied,
)
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import EMPTY, Graph, Node
from graphshare.ir.rebuild import StoredNames, rename_node
from graphshare.rewrite.rules.model import SHARING, Only, Reuse, Rule, Ruleset
from graphshare.rewrite.rules.resolve import Resolver, find_shadowed
from graphshare.text.format import format_count
from graphshare.text.names import find_numbered, suggest
from graphshare.text.patterns import compile_pattern

_SEPARATORS = "/_.-:"


class Plan(msgspec.Struct, frozen=True, eq=False):
    """``names`` maps renamed nodes to new names, ``ties`` variables to the nodes that replace them.

    ``why`` has the rule that decided about a node, ``notes`` are for the user. If rules match no
    value of an ONNX operator but its own name, that is in ``stored``.
    """

    names: Mapping[Node, str]
    ties: Mapping[Node, Node]
    why: Mapping[Node, Rule]
    notes: tuple[str, ...] = ()
    stored: Mapping[Node, StoredNames] = EMPTY

    def find_place(self, node: Node) -> str:
        """Return the place of the rule that decided about a node, or nothing."""
        return self.why[node].place if node in self.why else ""


def plan_names(
    graph: Graph,
    ruleset: Ruleset,
    roles: Mapping[Node, Role],
    nodes: Collection[Node],
    kept: Collection[str] = (),
) -> Plan:
    """Return new names for matched ``nodes``. Parameters move with aliases and overrides.

    Each stored name of an output is matched separately. Names in ``kept`` stay. The transform
    finds collisions.

    Raises:
        RefusedError: rules form a cycle, or an option matches nothing.
    """
    naming = _Naming(graph, ruleset, roles, kept)
    for node in nodes:
        if node.name:
            naming.add(node)
    matched = (name for node in nodes for name in _list_names(node) if name not in kept)
    known = (name for node in graph.nodes for name in _list_names(node))
    notes = _note_idle_rules(ruleset, naming.resolver, known, roles, matched)
    return Plan(naming.names, {}, naming.why, notes, naming.stored)


class _Naming:
    def __init__(
        self, graph: Graph, ruleset: Ruleset, roles: Mapping[Node, Role], kept: Collection[str]
    ) -> None:
        self.resolver = Resolver(ruleset, _parameters(roles))
        self.names: dict[Node, str] = {}
        self.why: dict[Node, Rule] = {}
        self.stored: dict[Node, StoredNames] = {}
        self._roles, self._kept = roles, kept
        self._values = {name for node in graph.nodes for name in (node.name, *node.details.outputs)}
        self._numbered = _find_numbered_names(graph, ruleset)
        self._resolve = cache(partial(_new_name, self.resolver))

    def add(self, node: Node) -> None:
        name = self._numbered.get(node, node.name)
        label = node.details.label
        kinds = find_kinds(node, self._roles)
        new, rule = (name, None) if node.name in self._kept else self._resolve(name, kinds)
        if new != name:
            self.names[node] = new
        elif rule is None and label and label not in self._values:
            new, rule = _new_name(self.resolver, label, kinds)
            if rule is not None:
                self.names[node] = node.name
                self.stored[node] = StoredNames(node.details.outputs, new)
        if rule is not None:
            self.why[node] = rule
        if len(node.details.outputs) > 1:
            self._name_outputs(node)

    def _name_outputs(self, node: Node) -> None:
        """Find output names that a rule or ``kept`` decides; others follow the operator's."""
        following = rename_node(node, self.names.get(node, node.name)).details
        outputs, is_decided = list(following.outputs), False
        for place, old in enumerate(node.details.outputs):
            if old in self._kept:
                is_decided |= outputs[place] != old
                outputs[place] = old
            elif old not in ("", node.name):
                new, rule = _new_name(self.resolver, old, _OPERATOR)
                if rule is not None:
                    outputs[place], is_decided = new, True
        if is_decided:
            self.names.setdefault(node, node.name)
            label = self.stored[node].label if node in self.stored else following.label
            self.stored[node] = StoredNames(tuple(outputs), label)


def _list_names(node: Node) -> list[str]:
    """Return the names of a node and of its other outputs; none for an unnamed node."""
    return [*node_names(node), *filter(None, node.details.outputs[1:] if node.name else ())]


def _find_numbered_names(graph: Graph, ruleset: Ruleset) -> dict[Node, str]:
    """Rules use ``NAME#1`` for one of several nodes of one name."""
    texts = [
        rule.text.removeprefix("=")
        for rule in ruleset.rules
        if rule.kind in ("map", "match") and "#" in rule.text
    ]
    if not texts:
        return {}
    named = list_by_name(graph.nodes, graph.heads)
    return {node: text for text in texts if (node := find_numbered(text, named)) is not None}


def plan_sharing(graph: Graph, ruleset: Ruleset, roles: Mapping[Node, Role]) -> Plan:
    """Return parameters that become one, and new names; equal new names mean one node.

    The node that has that name already stays, else the first in file order.

    Raises:
        RefusedError: rules form a cycle, an option matches nothing, a reuse policy forbids the
            effect of a rule, or a node that is not a parameter has the new name.
    """
    implied = {variable.name for variable in list_implied_variables(graph)}
    # An alias may lead to an implied state: refuse_implied names it, so its name counts as known.
    resolver = Resolver(ruleset, _parameters(roles) | implied)
    faults = [
        *_refuse_aliases(graph, ruleset, roles),
        *refuse_implied(_list_moved_states(graph, resolver)),
    ]
    parameters = dict.fromkeys(list_parameters(roles))
    groups: dict[str, list[Node]] = {}
    why: dict[Node, Rule] = {}
    for node in parameters:
        if node.name:
            new, rule = _new_name(resolver, node.name, _PARAMETER)
            groups.setdefault(new, []).append(node)
            if rule is not None:
                why[node] = rule
    others = implied.union(node.name for node in graph.nodes if node not in parameters)
    names: dict[Node, str] = {}
    ties: dict[Node, Node] = {}
    for new, members in groups.items():
        movers = [node for node in members if node.name != new]
        if not movers:
            continue
        staying = [node for node in members if node.name == new]
        faults += _refusals(new, movers, staying, why, ruleset.reuse, others)
        kept, *rest = [*staying, *movers]
        if not staying:
            names[kept] = new
        ties.update(dict.fromkeys(rest, kept))  # a second one that stays is a fault
    RefusedError.raise_any(faults)
    notes = (
        *_note_unknown(ruleset, roles),
        *_note_idle_rules(ruleset, resolver, (node.name for node in roles), roles),
    )
    return Plan(names, ties, why, notes)


def _list_moved_states(graph: Graph, resolver: Resolver) -> list[Implied]:
    states = list_implied_parameters(graph)
    return [
        state for state in states if _new_name(resolver, state.name, _PARAMETER)[0] != state.name
    ]


def _note_unknown(ruleset: Ruleset, roles: Mapping[Node, Role]) -> list[str]:
    unknown = {node.name: role for node, role in roles.items() if role.kind is Kind.UNKNOWN}
    if not unknown:
        return []
    resolver = Resolver(ruleset, _parameters(roles) | unknown.keys())
    return [
        f"{name!r} may be a parameter ({role.reason}); it is left as it is unless `as_parameter` says that it is one"
        for name, role in unknown.items()
        if resolver.resolve_parameter(name)[1] is not None
    ]


_PARAMETER: frozenset[Only] = frozenset(("variables", "parameters"))
_INPUT: frozenset[Only] = frozenset(("variables", "inputs"))
_OPERATOR: frozenset[Only] = frozenset(("ops",))


def find_kinds(node: Node, roles: Mapping[Node, Role]) -> frozenset[Only]:
    """Return a node's kinds, as in a rule's ``only``."""
    if not node.is_variable:
        return _OPERATOR
    return _PARAMETER if roles[node].is_parameter else _INPUT


def _parameters(roles: Mapping[Node, Role]) -> frozenset[str]:
    return frozenset(node.name for node in list_parameters(roles))


def _new_name(resolver: Resolver, name: str, kinds: frozenset[Only]) -> tuple[str, Rule | None]:
    shared, rule = resolver.resolve_parameter(name) if "parameters" in kinds else (name, None)
    if not resolver.names:
        return shared, rule
    named = resolver.name_node(shared, kinds)
    return named.name, rule or (named.steps[0].rule if named.steps else None)


def _refusals(
    new: str,
    movers: list[Node],
    staying: list[Node],
    why: Mapping[Node, Rule],
    reuse: Reuse,
    others: Collection[str],
) -> list[Fault]:
    faults = []
    first = movers[0].name
    if len(staying) > 1:
        count = format_count(len(staying), "variable")
        message = f"{first!r} would become {new!r}, but {count} have that name"
        hint = "first make them one (`doctor='tie'`) or rename them (`doctor='separate'`)"
        faults.append(Fault(message, hint=hint))
    if not staying and new in others:
        message = f"{first!r} would become {new!r}, a name that the graph already has"
        hint = "a parameter can be tied to another parameter only; `as_parameter` says that a variable is one"
        faults.append(Fault(message, hint=hint))
    elif not new or "\0" in new:
        faults.append(Fault(f"{first!r} would get the name {new!r}"))
    for number, node in enumerate(movers):
        rule = why[node]
        policy = rule.reuse or reuse
        # The first one takes a free name; for the second, the name exists.
        exists = staying or number
        change = f"{node.name!r} would become {new!r}"
        if policy == "require" and not staying:
            message = f"{change}, which does not exist, and reuse is required"
            hint = "`reuse='auto'` renames it instead"
            faults.append(Fault(message, where=rule.place, hint=hint))
        elif policy == "forbid" and exists:
            message = f"{change}, which already exists; reuse is forbidden"
            hint = "`reuse='auto'` ties the two"
            faults.append(Fault(message, where=rule.place, hint=hint))
    return faults


def _refuse_aliases(graph: Graph, ruleset: Ruleset, roles: Mapping[Node, Role]) -> list[Fault]:
    literals = [
        (rule, rule.literal)
        for rule in ruleset.rules
        if rule.kind == "alias" and rule.literal is not None
    ]
    if not literals:
        return []
    parameters = _parameters(roles)
    # In reverse: the first of several nodes of one name is kept.
    by_name = {node.name: node for node in reversed(graph.nodes)}
    faults = []
    for rule, literal in literals:
        for name in (literal, rule.to):
            whole = f"{rule.within}{ruleset.separator}{name}" if rule.within else name
            node = by_name.get(whole)
            if node is None or whole in parameters:
                continue
            reason, hint = f"it is a {node.op}", ""
            if node in roles:
                reason = roles[node].reason
                hint = f"if it is one after all, add `as_parameter={whole!r}`"
            message = f"{whole!r} is not a parameter ({reason})"
            faults.append(Fault(message, where=rule.place, hint=hint))
    return faults


def _note_idle_rules(
    ruleset: Ruleset,
    resolver: Resolver,
    names: Iterable[str],
    roles: Mapping[Node, Role],
    matched: Iterable[str] | None = None,
) -> tuple[str, ...]:
    """Note rules that decided nothing; such an option is refused.

    ``names`` are all names of the graph, ``matched`` those that naming rules saw (None: all).
    """
    idle = [rule for rule in ruleset.rules if rule not in resolver.fired]
    if not idle:
        return ()
    hidden = dict(find_shadowed(ruleset))
    known = list(dict.fromkeys(names))
    left = () if matched is None else frozenset(known).difference(matched)
    parameters = [node.name for node in list_parameters(roles)]
    notes = []
    faults = []
    for rule in idle:
        what, candidates = ("parameter", parameters) if rule.kind in SHARING else ("name", known)
        if rule in hidden:
            notes.append(f"{rule.place}: {rule} is shadowed by {hidden[rule].place}")
        elif not rule.option:
            notes.append(f"{rule.place}: {rule} never fires")
        elif rule.literal in left:
            message = f"{rule.literal!r} is a name that `only` or `keep` leaves as it is"
            faults.append(Fault(message, where=rule.place))
        elif _is_overruled(rule, candidates):
            effect = "has no effect: a later rule decides every name that it matches"
            notes.append(f"{rule.place}: {effect}")
        else:
            near = suggest(rule.literal or rule.text, candidates, f"{what}s")
            if rule.kind == "scope":
                near = _suggest_separator(rule.text, ruleset.separator, parameters)
            faults.append(Fault(f"matches no {what} of the graph", where=rule.place, hint=near))
    RefusedError.raise_any(faults)
    return tuple(notes)


def _suggest_separator(scope: str, separator: str, names: Iterable[str]) -> str:
    begin = scope.rstrip(_SEPARATORS)
    if not begin:
        return ""
    others = set(_SEPARATORS) - {separator}
    for name in names:
        used = name[len(begin) : len(begin) + 1]
        if name.startswith(begin) and used in others:
            return f"names that begin with {begin!r} go on with {used!r}: `separator={used!r}` makes it a scope"
    return ""


def _is_overruled(rule: Rule, names: Sequence[str]) -> bool:
    """Only the first few thousand names are matched."""
    if rule.kind not in ("alias", "match") or rule.within:
        return False
    matches = compile_pattern(rule.text)
    return any(map(matches, names[:5000]))
