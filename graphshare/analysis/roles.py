"""The role of each variable (input, parameter or auxiliary state), and the evidence for it.

In an ONNX file initializers are parameters. In a symbol file the first of these decides: the user's
option; a slot that an operator mutates; a record in the parameter file; a formal input other than
data (weight, bias, gamma); labels and RNN states; an initializer or a known suffix; unknown
operators. Otherwise the variable is an input.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum

import msgspec

from graphshare.analysis.name_lists import Implied, list_implied_variables
from graphshare.errors import Fault
from graphshare.ir.graph import Graph, Node
from graphshare.ops.registry import auxiliary_slots, find_signature, name_inputs
from graphshare.ops.signature import PARAMETER_FORMALS

# All formal inputs but these and ``PARAMETER_FORMALS`` (data, lhs, indices, rois ...) carry data.
LABEL_FORMALS = frozenset(("label", "data_lengths", "label_lengths"))
STATE_FORMALS = frozenset(("state", "state_cell", "sequence_length"))
# Suffixes of MXNet's initializers, of Gluon, of the quantizer, and of the fused RNN.
SUFFIXES = (
    "weight",
    "bias",
    "gamma",
    "beta",
    "moving_mean",
    "moving_var",
    "moving_inv_var",
    "moving_avg",
    "running_mean",
    "running_var",
    "_quantize",
    "_min",
    "_max",
    "_parameters",
)


class Kind(str, Enum):
    INPUT = "input"
    PARAMETER = "parameter"
    AUXILIARY = "auxiliary"
    UNKNOWN = "unknown"


class Role(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The kind of a variable and the reason; ``user`` is the operator that decided, if any.

    ``is_label`` and ``is_state`` mark inputs that are not data.
    """

    kind: Kind
    why: str
    user: Node | None = None
    is_label: bool = False
    is_state: bool = False

    @property
    def is_parameter(self) -> bool:
        return self.kind is Kind.PARAMETER or self.kind is Kind.AUXILIARY

    @property
    def is_optional(self) -> bool:
        """Whether it is zeros unless fed: a label or a state."""
        return self.is_label or self.is_state

    @property
    def reason(self) -> str:
        """The reason in words, with the operator."""
        if self.user is None:
            return self.why
        return f"{self.why} {self.user.op} {self.user.name!r}"


def list_parameters(roles: Mapping[Node, Role]) -> list[Node]:
    """Return the parameters and auxiliary states, in file order."""
    return [node for node, role in roles.items() if role.is_parameter]


def find_auxiliary(roles: Mapping[Node, Role]) -> frozenset[Node]:
    """Return the auxiliary states."""
    return frozenset(node for node, role in roles.items() if role.kind is Kind.AUXILIARY)


def find_constants(roles: Mapping[Node, Role]) -> frozenset[Node]:
    """Return variables with one value in all runs: parameters, and labels and states (zeros)."""
    return frozenset(node for node, role in roles.items() if role.is_parameter or role.is_optional)


AS_INPUT = "`as_input`"
_HELD, _NOT_HELD = "the parameter file holds it", "the parameter file does not hold it"
_HELD_UNKNOWN = "the parameter file holds it and no registered operator uses it"
_NO_VALUE = "the file holds no value of it"
_INITIALIZER, _DECLARED = "it is an initializer", "the graph declares it"
_OF = {formal: f"{formal} of" for formal in PARAMETER_FORMALS}  # one text for a million parameters


def assign_roles(
    graph: Graph,
    *,
    held: Collection[str] | None = None,
    as_input: Collection[str] = (),
    as_parameter: Collection[str] = (),
) -> dict[Node, Role]:
    """Return the role of every variable, in file order.

    ``held`` are the names in a parameter file, or None without one.
    """
    uses = _decisive_uses(graph)
    has_options = bool(as_input or as_parameter)
    roles = {}
    for node in graph.nodes:
        if node.op:
            continue
        use = uses.get(node, _UNUSED)
        if has_options and node.name in as_input:
            role = Role(Kind.INPUT, AS_INPUT)
        elif has_options and node.name in as_parameter:
            # The option only marks parameters; the graph shows which are auxiliary.
            kind = Kind.AUXILIARY if use.rank == _MUTATED else Kind.PARAMETER
            role = Role(kind, "`as_parameter`")
        elif node.details.holds_value:
            # As in Node.operator_text
            role = Role(Kind.PARAMETER, _DECLARED if node.details.domain else _INITIALIZER)
        elif node.details.holds_value is not None:
            role = Role(Kind.INPUT, _NO_VALUE)
        else:
            role = _by_graph(node, use)
            if held is not None:
                role = _with_file(node, role, held)
        roles[node] = role
    return roles


# Roles by use; a lower number prevails.
_MUTATED, _TRAINED, _LABEL, _STATE, _DATA, _FOREIGN, _NONE = range(7)
_RANKS = {
    **dict.fromkeys(STATE_FORMALS, _STATE),
    **dict.fromkeys(LABEL_FORMALS, _LABEL),
    **dict.fromkeys(PARAMETER_FORMALS, _TRAINED),
}


class _Use(msgspec.Struct, frozen=True, eq=False, gc=False):
    rank: int
    formal: str = ""
    user: Node | None = None


_UNUSED = _Use(_NONE)


def _decisive_uses(graph: Graph) -> dict[Node, _Use]:
    uses: dict[Node, _Use] = {}
    formals: dict[tuple[str, int, int], tuple[tuple[int, str], ...]] = {}
    for node in graph.nodes:
        if not node.op:
            continue
        # Equal attribute maps are one object, so its identity is a key. Nodes with subgraphs are
        # not cached.
        inputs = node.inputs
        key = (node.op, id(node.attrs), len(inputs))
        ranked = formals.get(key)
        if ranked is None:
            names, mutated = name_inputs(node) or (), auxiliary_slots(node)
            named = [names[slot] if slot < len(names) else "" for slot in range(len(inputs))]
            other = _FOREIGN if find_signature(node) is None else _DATA
            ranked = tuple(
                [
                    (_MUTATED if i in mutated else _RANKS.get(name, other), name)
                    for i, name in enumerate(named)
                ]
            )
            if not node.subgraphs:
                formals[key] = ranked
        # `zip` with `strict` takes three times as long.
        for slot, (rank, formal) in enumerate(ranked):
            variable = inputs[slot].node
            if not variable.op and (variable not in uses or rank < uses[variable].rank):
                uses[variable] = _Use(rank, formal, node)
    return uses


def _by_graph(node: Node, use: _Use) -> Role:
    if use.rank == _MUTATED:
        return Role(Kind.AUXILIARY, "mutated by", use.user)
    if use.rank == _TRAINED:
        return Role(Kind.PARAMETER, _OF[use.formal], use.user)
    if use.rank == _LABEL:
        return Role(Kind.INPUT, f"{use.formal} of", use.user, is_label=True)
    if node.name.endswith("label"):
        return Role(Kind.INPUT, "its name ends in label", is_label=True)
    if use.rank == _STATE:
        return Role(Kind.INPUT, f"{use.formal} of", use.user, is_state=True)
    if "__init__" in node.attrs:
        return Role(Kind.PARAMETER, "it has an initializer (__init__)")
    for suffix in SUFFIXES:
        if node.name.endswith(suffix):
            return Role(Kind.PARAMETER, f"its name ends in {suffix}")
    if use.rank == _FOREIGN:
        return Role(Kind.UNKNOWN, "only unknown operators use it")
    if use.rank == _DATA:
        return Role(Kind.INPUT, "nothing makes it a parameter")
    return Role(Kind.INPUT, "no operator uses it")


def assign_implied_role(implied: Implied) -> Role:
    """Return the role of a variable without a node, by its formal input."""
    if implied.auxiliary:
        return Role(Kind.AUXILIARY, "the file implies it:", implied.node)
    rank = _RANKS.get(implied.formal, _DATA)
    kind = Kind.PARAMETER if rank == _TRAINED else Kind.INPUT
    why = f"the file implies it: {implied.formal} of"
    return Role(kind, why, implied.node, is_label=rank == _LABEL, is_state=rank == _STATE)


def list_implied_parameters(graph: Graph) -> list[Implied]:
    """Return parameters and auxiliary states without a node."""
    return [
        state for state in list_implied_variables(graph) if assign_implied_role(state).is_parameter
    ]


def refuse_implied(states: Iterable[Implied]) -> list[Fault]:
    """Return a fault for each implied parameter to share: it has no node to tie."""
    hint = "add `gs.upgrade(model)`: it gives it one"
    message = "is implied by the file and has no node that could be shared"
    return [Fault(f"{state.name!r} {message}", node=state.node.name, hint=hint) for state in states]


def _with_file(node: Node, role: Role, held: Collection[str]) -> Role:
    is_held = node.name in held
    if role.kind is Kind.UNKNOWN:
        return Role(Kind.PARAMETER, _HELD_UNKNOWN) if is_held else Role(Kind.INPUT, _NOT_HELD)
    if is_held and not role.is_parameter:
        return Role(Kind.PARAMETER, _HELD)
    return role


def disagreements(roles: Mapping[Node, Role], held: Collection[str]) -> tuple[list[str], list[str]]:
    """Return parameters that the parameter file lacks, and inputs that it contains."""
    missing = [
        node.name for node, role in roles.items() if role.is_parameter and node.name not in held
    ]
    taken = [node.name for node, role in roles.items() if role.why == _HELD]
    return list(dict.fromkeys(missing)), list(dict.fromkeys(taken))
