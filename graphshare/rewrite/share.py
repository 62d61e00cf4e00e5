"""``share``: parameters of one graph tied by rule, with everything that speaks against it found first."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from graphshare.analysis.roles import Role, assign_roles
from graphshare.checkpoint.parameter_plan import list_parameter_names
from graphshare.checkpoint.self_check import check_isomorphic
from graphshare.errors import Fault, RefusedError
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph, Node, Rewrite
from graphshare.rewrite.rules.model import Ruleset
from graphshare.rewrite.rules.plan import Plan, plan_sharing
from graphshare.rewrite.share_checks import differences, forgotten_partners
from graphshare.rewrite.tie import tie
from graphshare.text.short_repr import ShortRepr


class Tied(msgspec.Struct, frozen=True):
    """The parameter ``name`` became ``to`` by ``rule``."""

    name: str
    to: str
    rule: str


class Ties(ShortRepr, msgspec.Struct, frozen=True):
    """The report of a sharing: parameters that were tied, renamed or copied, and those that stay as they are."""

    tied: list[Tied]
    renamed: list[Tied]
    copied: list[Tied]
    separate: list[str]


class Sharing(ShortRepr, msgspec.Struct, frozen=True, eq=False):
    """A rewrite with its roles, its report and the notes on it."""

    rewrite: Rewrite
    roles: Mapping[Node, Role]
    ties: Ties
    notes: tuple[str, ...]


def plan_share(
    graph: Graph,
    ruleset: Ruleset,
    *,
    params: ParameterFile | None = None,
    as_input: Collection[str] = (),
    as_parameter: Collection[str] = (),
) -> Sharing:
    """Tie parameters by rules; operators and outputs keep their names.

    Of the parameters of one new name the one that has it already stays, else the first in file order, with its record in
    ``params``.

    Raises:
        RefusedError: nothing would change; the rules do not fit the graph; parameters of different kinds, shapes or types would
            be one; all are listed.
    """
    roles = assign_roles(graph, held=list_parameter_names(params), as_input=as_input, as_parameter=as_parameter)
    plan = plan_sharing(graph, ruleset, roles)
    if not plan.names and not plan.ties:
        raise RefusedError(
            Fault("no parameter would change", hint="`graphshare share GRAPH --detect` lists what could be tied")
        )
    return share_by_plan(graph, plan, roles, params)


def share_by_plan(graph: Graph, plan: Plan, roles: Mapping[Node, Role], params: ParameterFile | None) -> Sharing:
    """Tie parameters as planned. Errors as in :func:`plan_share`."""
    faults, notes = differences(graph, plan, roles, params)
    if faults:
        raise RefusedError(faults)
    rewrite = tie(graph, plan.ties, plan.names)
    check_isomorphic(rewrite, tied=plan.ties.keys())
    warnings = (*plan.notes, *notes, *forgotten_partners(graph, plan.ties, roles))
    return Sharing(rewrite, roles, _report(plan, roles, rewrite), warnings)


def _report(plan: Plan, roles: Mapping[Node, Role], rewrite: Rewrite) -> Ties:
    images = rewrite.branches[0].images
    kept = set(plan.ties.values())

    def describe(node: Node) -> Tied:
        rule = plan.why.get(node)
        return Tied(
            node.name, images[node].name, f"{rule.place}: {rule}" if rule and not rule.option else rule.place if rule else ""
        )

    return Ties(
        tied=[describe(node) for node in plan.ties],
        renamed=[describe(node) for node in plan.names],
        copied=[],
        separate=[n.name for n, r in roles.items() if r.is_parameter and not (n in plan.ties or n in plan.names or n in kept)],
    )
