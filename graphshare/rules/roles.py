"""Which variable is an input, which a parameter, which an auxiliary state, and why.

A file does not say. The first of these that answers decides: what the user said; a slot that an operator mutates; what the
parameter file holds; a formal input other than data (weight, bias, gamma); labels and RNN states; an initialiser or a known
suffix; operators nobody knows; otherwise it is an input.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum

import msgspec

from graphshare.ir.graph import VARIABLE, Graph, Node
from graphshare.ir.walk import consumers
from graphshare.operators.registry import lookup
from graphshare.rules.listing import auxiliary_slots

# Formal inputs that hold what training changes. All others (data, lhs, indices, rois ...) carry values through the graph.
PARAMETER_FORMALS = frozenset(("weight", "bias", "gamma", "beta", "parameters", "mean", "var", "moving_mean", "moving_var", "moving_avg"))
LABEL_FORMALS = frozenset(("label", "data_lengths", "label_lengths"))
STATE_FORMALS = frozenset(("state", "state_cell", "sequence_length"))
# The endings that MXNet's initialisers know, those of Gluon, and that of the fused RNN.
SUFFIXES = ("weight", "bias", "gamma", "beta", "moving_mean", "moving_var", "moving_inv_var", "moving_avg", "running_mean",
            "running_var", "_min", "_max", "_parameters")  # fmt: skip


class Kind(str, Enum):
    INPUT = "input"
    PARAMETER = "parameter"
    AUXILIARY = "auxiliary"
    UNKNOWN = "unknown"


class Role(msgspec.Struct, frozen=True):
    """What a variable is and the reason in words. ``is_label`` and ``is_state`` tell two sorts of inputs apart from data."""

    kind: Kind
    reason: str
    is_label: bool = False
    is_state: bool = False


def assign_roles(
    graph: Graph,
    *,
    held: Collection[str] | None = None,
    as_input: Collection[str] = (),
    as_parameter: Collection[str] = (),
) -> dict[Node, Role]:
    """The role of every variable of ``graph``, in file order.

    ``held`` are the names a parameter file holds, or None without one; ``as_input`` and ``as_parameter`` what the user said.
    """
    uses = consumers(graph.nodes)
    roles = {}
    for node in graph.nodes:
        if node.op == VARIABLE:
            roles[node] = _role(node, _Uses(node, uses.get(node, [])), held, as_input, as_parameter)
    return roles


class _Uses:
    """How operators use one variable."""

    def __init__(self, variable: Node, pairs: list[tuple[Node, int]]) -> None:
        self.mutated_by: Node | None = None
        self.formals: dict[str, Node] = {}
        self.unknown = 0
        self.count = len(pairs)
        for consumer, position in pairs:
            signature = lookup(consumer.op)
            if signature is None:
                self.unknown += 1
                continue
            if position in auxiliary_slots(consumer):
                self.mutated_by = self.mutated_by or consumer
            names = signature.input_names(consumer.attrs, len(consumer.inputs), subgraphs=consumer.subgraphs)
            if names and position < len(names):
                self.formals.setdefault(names[position], consumer)

    def formal_in(self, formals: Collection[str]) -> tuple[str, Node] | None:
        return next(((formal, node) for formal, node in self.formals.items() if formal in formals), None)


def _role(node: Node, uses: _Uses, held: Collection[str] | None, as_input: Collection[str], as_parameter: Collection[str]) -> Role:
    if node.name in as_input:
        return Role(Kind.INPUT, "--as-input")
    if node.name in as_parameter:
        return Role(Kind.AUXILIARY if uses.mutated_by else Kind.PARAMETER, "--as-parameter")
    if uses.mutated_by is not None:
        return Role(Kind.AUXILIARY, f"{uses.mutated_by.op} {uses.mutated_by.name!r} mutates it")
    by_graph = _role_by_graph(node, uses)
    if held is None or (node.name in held) == (by_graph.kind is Kind.PARAMETER):
        return by_graph
    if node.name in held:
        return Role(Kind.PARAMETER, "the parameter file holds it")
    if by_graph.kind is Kind.UNKNOWN:
        return Role(Kind.INPUT, "the parameter file does not hold it")
    return by_graph


def _role_by_graph(node: Node, uses: _Uses) -> Role:
    found = uses.formal_in(PARAMETER_FORMALS)
    if found:
        return Role(Kind.PARAMETER, f"{found[0]} of {found[1].op} {found[1].name!r}")
    found = uses.formal_in(LABEL_FORMALS)
    if found:
        return Role(Kind.INPUT, f"{found[0]} of {found[1].op} {found[1].name!r}", is_label=True)
    if node.name.endswith("label"):
        return Role(Kind.INPUT, "its name ends in label", is_label=True)
    found = uses.formal_in(STATE_FORMALS)
    if found:
        return Role(Kind.INPUT, f"{found[0]} of {found[1].op} {found[1].name!r}", is_state=True)
    if "__init__" in node.attrs:
        return Role(Kind.PARAMETER, "it has an initialiser (__init__)")
    suffix = next((suffix for suffix in SUFFIXES if node.name.endswith(suffix)), None)
    if suffix:
        return Role(Kind.PARAMETER, f"its name ends in {suffix}")
    if uses.count and uses.unknown == uses.count:
        return Role(Kind.UNKNOWN, "only operators that nobody registered use it")
    return Role(Kind.INPUT, "nothing makes it a parameter" if uses.count else "no operator uses it")


def disagreements(roles: Mapping[Node, Role], held: Collection[str]) -> list[str]:
    """Where a parameter file and the graph tell different stories, in words."""
    notes = []
    for node, role in roles.items():
        if role.kind in (Kind.PARAMETER, Kind.AUXILIARY) and node.name not in held:
            notes.append(f"{node.name!r} is a parameter by the graph ({role.reason}), but the parameter file does not hold it")
        elif role.reason == "the parameter file holds it":
            notes.append(f"{node.name!r} is taken for a parameter because the parameter file holds it; the graph makes it an input")
    return notes
