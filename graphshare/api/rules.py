"""``rules explain`` and ``rules check``: which rule fired, step by step, and every fault of a table
of rules.
"""

from __future__ import annotations

import os
from typing import Literal

import msgspec

from graphshare.analysis.roles import Role, assign_roles
from graphshare.api.load_rules import make_ruleset
from graphshare.arguments import Text
from graphshare.checkpoint.load import Model, StrPath, as_checkpoint
from graphshare.errors import Fault, GraphshareError, InputError, RefusedError, locate_refusals
from graphshare.ir.graph import Graph, Node
from graphshare.rewrite.rules.load import read_rule_file, read_rules
from graphshare.rewrite.rules.model import Only, Ruleset
from graphshare.rewrite.rules.plan import find_kinds, plan_names, plan_sharing
from graphshare.rewrite.rules.resolve import Resolver, find_shadowed
from graphshare.text.names import did_you_mean, split_key
from graphshare.text.summary import ShortRepr


class ExplainedStep(msgspec.Struct, frozen=True):
    """``rule``, given at ``place``, changed ``before`` to ``after``."""

    rule: str
    place: str
    before: str
    after: str


class Explanation(ShortRepr, msgspec.Struct, frozen=True):
    """The effect of rules on a name: ``kept``, ``renamed``, ``tied``, or ``unknown`` without a
    graph.
    """

    name: str
    kind: NameKind
    result: str
    effect: str
    steps: list[ExplainedStep]


class RulesReport(ShortRepr, msgspec.Struct, frozen=True):
    """The result of ``rules check``; ``rules`` counts readable rules."""

    rules: int
    errors: list[Fault]
    warnings: list[str]


NameKind = Literal["parameter", "input", "operator"]
_KINDS: dict[NameKind, frozenset[Only]] = {
    "parameter": frozenset(("variables", "parameters")),
    "input": frozenset(("variables", "inputs")),
    "operator": frozenset(("ops",)),
}


def explain(
    name: Text,
    rules: Ruleset | StrPath,
    *,
    kind: NameKind = "parameter",
    model: Model | None = None,
) -> Explanation:
    """Explain step by step how ``rules`` (a file, or the result of :func:`load_rules`) change
    ``name``.

    With ``model``, ``name`` is one of its nodes or a key of its parameter file. The kind comes from
    the model, and the answer says whether the name is tied. Without ``model``, ``kind`` is
    ``parameter``, ``input`` or ``operator``.

    Raises:
        InputError: the rules file cannot be read or has faults.
        RefusedError: the graph has no such name; rules lead back to themselves, with the cycle as a
            path.
    """
    ruleset = make_ruleset(rules)
    if model is None:
        named, steps = _follow(name, Resolver(ruleset), _KINDS[kind])
        return Explanation(name, kind, named, "kept" if named == name else "unknown", steps)
    source = as_checkpoint(model)
    with locate_refusals(source):
        roles = assign_roles(source.graph, held=source.held)
        node = _node(source.graph, name)
        kinds = find_kinds(node, roles)
        kind = next(word for word, its in _KINDS.items() if its == kinds)
        resolver = Resolver(ruleset, {n.name for n, role in roles.items() if role.is_parameter})
        named, steps = _follow(node.name, resolver, kinds)
        return Explanation(
            node.name, kind, named, _effect(node.name, named, kind, resolver, roles), steps
        )


def _follow(
    name: str, resolver: Resolver, kinds: frozenset[Only]
) -> tuple[str, list[ExplainedStep]]:
    # Sharing comes first, and naming starts from its result.
    steps = list(resolver.steps(name).steps) if "parameters" in kinds else []
    named = resolver.name_node(steps[-1].after if steps else name, kinds)
    taken = [
        ExplainedStep(str(step.rule), step.rule.place, step.before, step.after)
        for step in (*steps, *named.steps)
    ]
    return named.name, taken


def _node(graph: Graph, name: str) -> Node:
    nodes = [node for node in graph.nodes if node.name == name]
    if not nodes and split_key(name)[0]:
        nodes = [node for node in graph.nodes if node.name == split_key(name)[1]]
    if not nodes:
        known = [node.name for node in graph.nodes]
        raise RefusedError(
            Fault(f"the graph has no node named {name!r}", hint=did_you_mean(name, known))
        )
    # Of an operator and a variable with one name the variable is meant, as with `kind` by default.
    return next((node for node in nodes if node.is_variable), nodes[0])


def _effect(
    name: str, result: str, kind: NameKind, resolver: Resolver, roles: dict[Node, Role]
) -> str:
    if kind != "parameter":
        return "kept" if result == name else "renamed"
    others = {node.name for node, role in roles.items() if role.is_parameter and node.name != name}
    if any(_final_name(resolver, other) == result for other in others):
        return "tied"
    return "kept" if result == name else "renamed"


def _final_name(resolver: Resolver, name: str) -> str:
    return resolver.name_node(resolver.resolve_parameter(name)[0], _KINDS["parameter"]).name


def check_rules(path: StrPath, *, model: Model | None = None) -> RulesReport:
    """Check the rules file ``path``, alone or against ``model``: errors, rules that never fire or
    are shadowed by later ones.

    Raises:
        InputError: the file cannot be read.
    """
    where = os.fspath(path)
    data = read_rule_file(where)
    source = None if model is None else as_checkpoint(model)
    try:
        ruleset = read_rules(data, where=where)
    except InputError as error:
        return RulesReport(0, list(error.faults), [])
    errors: list[Fault] = []
    warnings = [
        f"{rule.place}: {rule} is shadowed by {later.place}"
        for rule, later in find_shadowed(ruleset)
    ]
    try:
        Resolver(ruleset)
        if source is not None:
            roles = assign_roles(source.graph, held=source.held)
            names = plan_names(source.graph, ruleset, roles, source.graph.nodes)
            warnings = list(dict.fromkeys([*warnings, *names.notes]))
            plan_sharing(source.graph, ruleset, roles)
    except GraphshareError as error:
        errors += error.with_location(where).faults
    return RulesReport(len(ruleset.rules), errors, warnings)
