"""``duplicate``: branches on copied or tied parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import msgspec

from graphshare.analysis.implied import implied_variables
from graphshare.analysis.roles import Kind, Role, assign_roles, implied_role
from graphshare.analysis.targets import resolve_targets
from graphshare.checkpoint.self_check import check_isomorphic
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Graph, Node, Rewrite
from graphshare.ops.batch_norm.signature import BARRIER
from graphshare.rewrite.duplicate import duplicate as make_branches
from graphshare.text.names import did_you_mean
from graphshare.text.patterns import compile_pattern

Mode = Literal["copy", "tie"]
ModeOrBatch = Literal["copy", "tie", "batch"]


class Choice(msgspec.Struct, frozen=True):
    """One ``--tie`` or ``--copy`` of the command line, in its order."""

    mode: Mode
    pattern: str


class Duplication(msgspec.Struct, frozen=True, eq=False):
    """What was decided and made. ``tied`` and ``copied`` are parameters; ``joined`` are inputs that all branches feed in one
    run, with the axis of their samples."""

    rewrite: Rewrite
    roles: Mapping[Node, Role]
    tied: tuple[Node, ...]
    copied: tuple[Node, ...]
    shared_inputs: tuple[Node, ...]
    notes: tuple[str, ...]
    joined: Mapping[Node, int] = MappingProxyType({})


def plan_duplicate(
    graph: Graph,
    prefixes: Sequence[str],
    *,
    mode: Mode = "copy",
    choices: Sequence[Choice] = (),
    share_inputs: Sequence[str] = (),
    upto: Sequence[str] = (),
    drop_original: bool = False,
    as_input: Collection[str] = (),
    as_parameter: Collection[str] = (),
    held: frozenset[str] | None = None,
) -> Duplication:
    """Branches of ``graph`` with the given prefixes, grouped with the original.

    ``mode`` says whether parameters and auxiliary states are copied or tied; ``choices`` change that by pattern, the last match
    wins. ``share_inputs`` are patterns of inputs and labels that all branches use together. ``upto`` names outputs: the copies
    hold what these need and have them as heads. ``held`` are the names in the parameter file, if there is one.

    Raises:
        RefusedError: names collide, a pattern matches nothing or the wrong kind, a target is unknown, or in tie mode a
            variable's role cannot be told.
    """
    if not prefixes:
        raise RefusedError(Fault("no branch is asked for", hint="give a prefix for each copy, as in --prefix sha-"))
    check_named(graph, {"--as-input": as_input, "--as-parameter": as_parameter})
    roles = assign_roles(graph, held=held, as_input=as_input, as_parameter=as_parameter)
    tied = _tied(graph, roles, mode, choices)
    used_by_all = shared_inputs(roles, share_inputs)
    notes = unknown_roles(roles, tied, mode)
    targets = resolve_targets(upto, graph.nodes, option="--upto") if upto else None
    surplus = held - {node.name for node in roles} - {i.name for i in implied_variables(graph)} if held else ()
    shared = dict.fromkeys([*tied, *used_by_all])
    rewrite = make_branches(
        graph, prefixes, shared=shared.keys(), upto=targets, drop_original=drop_original, other_names=surplus
    )
    check_isomorphic(rewrite, attributes_may_differ=frozenset({BARRIER}))
    last = rewrite.branches[-1]
    copied = tuple([n for n, role in roles.items() if role.is_parameter and n not in tied and n in last.images])
    return Duplication(rewrite, roles, tuple(n for n in tied if n in last.images), copied, tuple(used_by_all), tuple(notes))


def duplicate(
    graph: Graph,
    prefixes: Sequence[str],
    *,
    mode: ModeOrBatch = "copy",
    choices: Sequence[Choice] = (),
    share_inputs: Sequence[str] = (),
    upto: Sequence[str] = (),
    drop_original: bool = False,
    as_input: Collection[str] = (),
    as_parameter: Collection[str] = (),
    held: frozenset[str] | None = None,
    batch_axes: Mapping[str, int] = MappingProxyType({}),
    force: bool = False,
) -> Rewrite:
    """The rewrite that :func:`plan_duplicate` makes, or for the mode ``batch``
    :func:`graphshare.rewrite.batch_plan.plan_batch`; options and errors are told there."""
    if mode == "batch":
        from graphshare.rewrite.batch_plan import plan_batch

        if choices or upto:
            raise RefusedError(Fault("a batch is one run of the whole graph: it knows no choices and no upto"))
        return plan_batch(
            graph,
            prefixes,
            share_inputs=share_inputs,
            drop_original=drop_original,
            as_input=as_input,
            as_parameter=as_parameter,
            held=held,
            axes=batch_axes,
            force=force,
        ).rewrite
    return plan_duplicate(
        graph,
        prefixes,
        mode=mode,
        choices=choices,
        share_inputs=share_inputs,
        upto=upto,
        drop_original=drop_original,
        as_input=as_input,
        as_parameter=as_parameter,
        held=held,
    ).rewrite


def _tied(graph: Graph, roles: Mapping[Node, Role], mode: Mode, choices: Sequence[Choice]) -> dict[Node, None]:
    """The parameters that all branches share, in file order. What the file only implies can be copied and not tied."""
    if mode == "copy" and not choices:
        return {}
    decided: dict[Node, Mode] = {node: mode for node, role in roles.items() if role.is_parameter}
    implied = {found: mode for found in implied_variables(graph) if implied_role(found).is_parameter}
    faults = []
    for choice in choices:
        option = f"--{choice.mode} {choice.pattern!r}"
        matches = compile_pattern(choice.pattern)
        hit = [node for node in roles if matches(node.name)]
        wrong = [node for node in hit if node not in decided]
        states = [found for found in implied if matches(found.name)]
        implied.update((found, choice.mode) for found in states)
        if not hit and not states:
            faults.append(Fault(f"{option} matches no variable", hint=did_you_mean(choice.pattern, [n.name for n in decided])))
        for node in wrong:
            hint = f"if it is one after all, add --as-parameter {node.name}; inputs are shared with --share-input"
            faults.append(Fault(f"{option} matches {node.name!r}, which is no parameter ({roles[node].reason})", hint=hint))
        decided.update((node, choice.mode) for node in hit if node in decided)
    hint = "give it one with `graphshare upgrade` first, or add --upgrade to this command"
    faults += [
        Fault(f"{found.name!r} is implied by the file and has no node that could be shared", node=found.node.name, hint=hint)
        for found, how in implied.items()
        if how == "tie"
    ]
    if faults:
        raise RefusedError(faults)
    return {node: None for node, how in decided.items() if how == "tie"}


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
