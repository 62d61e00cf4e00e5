"""``rules explain`` and ``rules check``: which rule fired, step by step, and what is wrong with a table of rules."""

from __future__ import annotations

from typing import Literal

import msgspec

from graphshare.analysis.roles import Role, assign_roles
from graphshare.checkpoint.parameters import list_parameter_names
from graphshare.errors import Fault, GraphshareError, InputError, RefusedError
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph, Node
from graphshare.rewrite.rules.load import read_rules
from graphshare.rewrite.rules.model import Only, Ruleset
from graphshare.rewrite.rules.plan import kinds_of, plan_names, plan_sharing
from graphshare.rewrite.rules.resolve import NameStep, Resolver, find_shadowed
from graphshare.text.names import did_you_mean, split_key
from graphshare.text.summary import ShortRepr


class ExplainedStep(msgspec.Struct, frozen=True):
    """``rule``, given at ``place``, made ``after`` of ``before``."""

    rule: str
    place: str
    before: str
    after: str


class Explanation(ShortRepr, msgspec.Struct, frozen=True):
    """What becomes of a name. ``effect`` is ``kept``, ``renamed`` or ``tied``, or ``unknown`` where no graph tells."""

    name: str
    kind: NameKind
    result: str
    effect: str
    steps: list[ExplainedStep]


class RulesReport(ShortRepr, msgspec.Struct, frozen=True):
    """What ``rules check`` found; ``rules`` counts those that could be read."""

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
    name: str,
    ruleset: Ruleset,
    *,
    kind: NameKind = "parameter",
    graph: Graph | None = None,
    params: ParameterFile | None = None,
) -> Explanation:
    """Explain what ``ruleset`` makes of ``name``, in the order of the steps.

    With ``graph`` the name must be one of its nodes' (or a key such as ``arg:conv1_weight``), which tells the kind; without, it
    is ``kind``, one of parameter, input and operator.

    Raises:
        RefusedError: the graph has no such name; rules lead back to themselves, with the cycle as a path.
    """
    if graph is None:
        resolver = Resolver(ruleset)
        kinds = _KINDS[kind]
        effect = "unknown"
    else:
        roles = assign_roles(graph, held=list_parameter_names(params))
        node = _node(graph, name)
        name = node.name
        kinds = kinds_of(node, roles)
        kind = next(word for word, its in _KINDS.items() if its == kinds)
        resolver = Resolver(ruleset, {n.name for n, role in roles.items() if role.is_parameter})
        effect = ""
    steps = list(resolver.steps(name).steps) if "parameters" in kinds else []
    named = resolver.name_node(steps[-1].after if steps else name, kinds)
    steps += named.steps
    if graph is not None:
        effect = _effect(name, named.name, kind, resolver, roles)
    elif named.name == name:
        effect = "kept"
    return Explanation(name, kind, named.name, effect, [_explain_step(step) for step in steps])


def _node(graph: Graph, name: str) -> Node:
    found = [node for node in graph.nodes if node.name == name]
    if not found and split_key(name)[0]:
        found = [node for node in graph.nodes if node.name == split_key(name)[1]]
    if not found:
        known = list(dict.fromkeys(node.name for node in graph.nodes))
        raise RefusedError(Fault(f"the graph has no node named {name!r}", hint=did_you_mean(name, known)))
    return next((node for node in found if node.is_variable), found[0])


def _effect(name: str, result: str, kind: NameKind, resolver: Resolver, roles: dict[Node, Role]) -> str:
    if kind != "parameter":
        return "kept" if result == name else "renamed"
    others = {node.name for node, role in roles.items() if role.is_parameter and node.name != name}
    meets = any(_final_name(resolver, other) == result for other in others)
    return "tied" if meets else "kept" if result == name else "renamed"


def _final_name(resolver: Resolver, name: str) -> str:
    return resolver.name_node(resolver.outcome(name)[0], _KINDS["parameter"]).name


def _explain_step(step: NameStep) -> ExplainedStep:
    return ExplainedStep(str(step.rule), step.rule.place, step.before, step.after)


def check_rules(data: bytes, *, where: str, graph: Graph | None = None, params: ParameterFile | None = None) -> RulesReport:
    """Check a rules file named ``where``: by itself, and with ``graph`` also whether it fits that.

    Warnings are rules that can never decide, and with a graph those that do not.
    """
    try:
        ruleset = read_rules(data, where=where)
    except InputError as error:
        return RulesReport(0, list(error.faults), [])
    errors: list[Fault] = []
    warnings = [f"{rule.place}: {rule} is shadowed by {later.place}" for rule, later in find_shadowed(ruleset)]
    try:
        Resolver(ruleset)
        if graph is not None:
            roles = assign_roles(graph, held=list_parameter_names(params))
            warnings = list(dict.fromkeys([*warnings, *plan_names(graph, ruleset, roles, graph.nodes).notes]))
            plan_sharing(graph, ruleset, roles)
    except GraphshareError as error:
        errors += error.with_location(where).faults
    return RulesReport(len(ruleset.rules), errors, warnings)
