"""Which variables the branches of a rewrite copy, tie or feed together, chosen by role and by pattern."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import msgspec

from graphshare.analysis.roles import Kind, Role
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Graph, Node, Rewrite
from graphshare.text.names import did_you_mean
from graphshare.text.patterns import compile_pattern
from graphshare.text.short_repr import ShortRepr

Mode = Literal["copy", "tie"]
ModeOrBatch = Literal["copy", "tie", "batch"]


class Choice(msgspec.Struct, frozen=True):
    """One ``--tie`` or ``--copy`` of the command line, in its order."""

    mode: Mode
    pattern: str


class Duplication(ShortRepr, msgspec.Struct, frozen=True, eq=False):
    """What was decided and made. ``tied`` and ``copied`` are parameters; ``joined`` are inputs that all branches feed in one
    run, with the axis of their samples."""

    rewrite: Rewrite
    roles: Mapping[Node, Role]
    tied: tuple[Node, ...]
    copied: tuple[Node, ...]
    shared_inputs: tuple[Node, ...]
    notes: tuple[str, ...]
    joined: Mapping[Node, int] = MappingProxyType({})


def shared_inputs(roles: Mapping[Node, Role], patterns: Sequence[str]) -> dict[Node, None]:
    """The inputs that ``--share-input`` means. Raises RefusedError for patterns that match none; all are listed."""
    shared: dict[Node, None] = {}
    faults = []
    inputs = [node for node, role in roles.items() if not role.is_parameter]
    for pattern in patterns:
        matches = compile_pattern(pattern)
        hit = [node for node in inputs if matches(node.name)]
        if not hit:
            wrong = [node.name for node, role in roles.items() if role.is_parameter and matches(node.name)]
            hint = "parameters are shared with --tie" if wrong else did_you_mean(pattern, [node.name for node in inputs])
            faults.append(Fault(f"--share-input {pattern!r} matches no input", hint=hint))
        shared.update(dict.fromkeys(hit))
    if faults:
        raise RefusedError(faults)
    return shared


def unknown_roles(roles: Mapping[Node, Role], tied: Collection[Node], mode: Mode) -> list[str]:
    """What is said of variables whose role nothing tells: refused where something is tied by mode, a note otherwise."""
    unknown = [node for node, role in roles.items() if role.kind is Kind.UNKNOWN]
    if mode == "tie" and unknown:
        hint = "say what it is with --as-input or --as-parameter, or give the parameter file with --params"
        raise RefusedError(
            [Fault(f"cannot tell whether {n.name!r} is a parameter: {roles[n].reason}", hint=hint) for n in unknown]
        )
    return [f"{node.name!r} may be an input or a parameter: {roles[node].reason}" for node in unknown]


def check_named(graph: Graph, options: Mapping[str, Collection[str]]) -> None:
    """Refuses options that name no variable. Raises RefusedError with all such names."""
    names = {node.name for node in graph.variables()} if any(options.values()) else set()
    faults = [
        Fault(f"{option} {name!r} names no variable", hint=did_you_mean(name, names))
        for option, given in options.items()
        for name in given
        if name not in names
    ]
    if faults:
        raise RefusedError(faults)
