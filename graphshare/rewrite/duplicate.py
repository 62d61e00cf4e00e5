"""``duplicate``: branches beside a graph, copies of it on parameters of their own or on shared ones.

A copied node gets the branch's prefix before its name. A shared node stays a single node that all branches use: MXNet trains
parameters as tied in this form only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from graphshare.analysis.name_lists import find_odd_variables, list_implied_variables, match_nodes, resolve_targets
from graphshare.analysis.roles import Role, assign_implied_role
from graphshare.arguments import Natural
from graphshare.checkpoint.load import Model, Names, as_checkpoint, as_names, find_roles
from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.checkpoint.parameters import check_belongs, notes_on
from graphshare.errors import Fault, RefusedError, UsageError, locate_refusals
from graphshare.formats.model_format import Operation, find_format, require
from graphshare.ir.compare import check_isomorphic
from graphshare.ir.graph import EMPTY, Branch, Entry, Graph, Kept, Node, Rename, Rewrite, freeze
from graphshare.ir.rebuild import prefix_node, rebuild, relink
from graphshare.ir.walk import post_order
from graphshare.ops.normalization.signature import BARRIER, BARRIER_KEYS
from graphshare.rewrite.choices import (
    Choice,
    Duplication,
    Mode,
    ModeOrBatch,
    check_collisions,
    check_prefixes,
    match_shared_inputs,
    note_unknown_roles,
)
from graphshare.rewrite.tie import note_copied_attributes
from graphshare.text.format import format_count
from graphshare.text.names import suggest
from graphshare.text.patterns import compile_pattern

_BARRIER_OP, _BARRIER_KEY = BARRIER


def plan_duplicate(
    graph: Graph,
    prefixes: Sequence[str],
    roles: Mapping[Node, Role],
    *,
    mode: Mode = "copy",
    choices: Sequence[Choice] = (),
    share_inputs: Sequence[str] = (),
    upto: Sequence[str] = (),
    drop_original: bool = False,
    held: frozenset[str] | None = None,
) -> Duplication:
    """Add a branch to ``graph`` for each prefix, grouped with the original: the modes copy and tie of ``duplicate``.

    ``held`` are the names in the parameter file, if there is one.

    Raises:
        RefusedError: names collide, a pattern matches nothing or the wrong kind, a target is unknown, or in tie mode a
            variable's role cannot be told.
    """
    tied = _choose_tied(graph, roles, mode, choices)
    used_by_all = match_shared_inputs(roles, share_inputs)
    odd = find_odd_variables([*tied, *used_by_all])
    if odd:
        raise RefusedError(odd)
    notes = note_unknown_roles(roles, mode)
    targets = resolve_targets(upto, graph.nodes, option="`upto`", heads=graph.heads) if upto else None
    surplus = held - {node.name for node in roles} - {i.name for i in list_implied_variables(graph)} if held else ()
    shared = dict.fromkeys([*tied, *used_by_all])
    rewrite = add_branches(
        graph, prefixes, shared=shared.keys(), upto=targets, drop_original=drop_original, other_names=surplus
    )
    check_isomorphic(rewrite, exempt=BARRIER_KEYS)
    last = rewrite.branches[-1]
    copied = tuple([n for n, role in roles.items() if role.is_parameter and n not in tied and n in last.images])
    return Duplication(
        *(rewrite.graph, rewrite.branches, rewrite.renames, tuple(notes)),
        roles=roles,
        tied=tuple(n for n in tied if n in last.images),
        copied=copied,
        shared_inputs=tuple(used_by_all),
    )


def _choose_tied(graph: Graph, roles: Mapping[Node, Role], mode: Mode, choices: Sequence[Choice]) -> dict[Node, None]:
    """Return the parameters that all branches share, in file order. What the file only implies can be copied and not tied."""
    heads = {entry.node for entry in graph.heads if entry.node.details.outputs}  # two outputs need two names
    decided = dict.fromkeys((node for node, role in roles.items() if role.is_parameter), mode)
    decided.update(dict.fromkeys(heads & decided.keys(), "copy"))
    implied = {state: mode for state in list_implied_variables(graph) if assign_implied_role(state).is_parameter}
    faults = []
    for choice in choices:
        how, pattern = choice
        option = f"`choices={choice}`"
        matches = compile_pattern(pattern)
        hit = match_nodes(pattern, roles)
        states = [state for state in implied if matches(state.name)]
        implied.update(dict.fromkeys(states, how))
        if not hit and not states:
            known = [node.name for node in decided]
            faults.append(Fault(f"{option} matches no variable", hint=suggest(pattern, known, "parameters")))
        for node in hit:
            if node in decided:
                decided[node] = how
                continue
            hint = f"if it is one after all, add `as_parameter={node.name!r}`; inputs are shared with `share_inputs`"
            faults.append(Fault(f"{option} matches {node.name!r}, which is not a parameter ({roles[node].reason})", hint=hint))
    hint = "add `gs.upgrade(model)`: it gives it one"
    faults += [
        Fault(f"{state.name!r} is implied by the file and has no node that could be shared", node=state.node.name, hint=hint)
        for state, how in implied.items()
        if how == "tie"
    ]
    if faults:
        raise RefusedError(faults)
    return dict.fromkeys(node for node, how in decided.items() if how == "tie")


def add_branches(
    graph: Graph,
    prefixes: Sequence[str],
    *,
    shared: Collection[Node] = (),
    upto: Sequence[Entry] | None = None,
    drop_original: bool = False,
    other_names: Collection[str] = (),
) -> Rewrite:
    """Add a branch of ``graph`` for each prefix, grouped: heads of the original first, then branch by branch.

    ``shared`` variables are not copied: every branch uses the original node. With ``upto``, the copies contain only the nodes
    that these outputs need. ``drop_original`` removes the original branch. ``other_names`` are names outside the graph that no
    copy may get (records of a parameter file).

    Raises:
        RefusedError: a prefix is unusable, or new names collide; all collisions are listed.
    """
    check_prefixes(prefixes)
    heads = graph.heads if upto is None else tuple(upto)
    source: Sequence[Node] = graph.nodes if upto is None else _nodes_for(graph, heads)
    _check_names(graph, source, prefixes, shared, drop_original, other_names)

    branches: list[Branch] = []
    nodes: list[Node] = []
    if not drop_original:
        branches.append(Branch("", graph, Kept(graph)))
        nodes.extend(graph.nodes)
    # MXNet numbers the entries to a mutated variable by the mutations before them, and these go on from branch to branch.
    versions = _count_mutations(source, shared)
    # Shared nodes are in the graph with the original; without it the first copy brings them.
    placed: set[Node] = set() if drop_original else set(shared)
    all_heads: list[Entry] = [] if drop_original else list(graph.heads)
    for number, prefix in enumerate(prefixes, start=0 if drop_original else 1):
        mutations = {node: number * last for node, last in versions.items()}
        images = _copy_branch(source, prefix, shared, mutations)
        branches.append(Branch(prefix, graph, images))
        nodes.extend([node for node in images.values() if node not in placed] if placed else images.values())
        placed.update(node for node in shared if node in images)
        # A head may itself be a shared statistic; its version counts on, too.
        all_heads.extend(_raise_version(entry, mutations) or relink(entry, images) for entry in heads)
    unchanged = 0 if drop_original else len(graph.nodes)
    result = replace(
        graph,
        nodes=tuple(nodes),
        heads=tuple(all_heads),
        source=graph.source.after_rewrite(branches[0].images, unchanged=unchanged),
    )
    return Rewrite(result, tuple(branches), _rename_implied(graph, source, prefixes))


def _nodes_for(graph: Graph, heads: Sequence[Entry]) -> list[Node]:
    needed = set(post_order(entry.node for entry in heads))
    return [node for node in graph.nodes if node in needed]


def _copy_branch(
    source: Sequence[Node], prefix: str, shared: Collection[Node], mutations: Mapping[Node, int]
) -> dict[Node, Node]:
    """Return the image of every node of ``source`` in the branch ``prefix``.

    ``mutations`` counts how often earlier branches mutate a shared variable.
    """
    redirect = (lambda entry, _: _raise_version(entry, mutations)) if mutations else None

    change = (lambda node: node if node in shared else add_prefix(prefix, node)) if shared else partial(add_prefix, prefix)
    return rebuild(source, change, redirect=redirect, task="duplicating")


def add_prefix(prefix: str, node: Node) -> Node:
    """Return a copy of ``node`` with ``prefix`` before its names, and before the key of a barrier."""
    if node.op == _BARRIER_OP and _BARRIER_KEY in node.attrs:
        node = replace(node, attrs=freeze({**node.attrs, _BARRIER_KEY: prefix + node.attrs[_BARRIER_KEY]}))
    return prefix_node(node, prefix)


def _raise_version(entry: Entry, mutations: Mapping[Node, int]) -> Entry | None:
    """Return the entry to a shared variable that earlier branches mutate, with its version raised; None for any other."""
    count = mutations.get(entry.node)
    return Entry(entry.node, entry.index, entry.version + count) if count and entry.version else None


def _count_mutations(source: Sequence[Node], shared: Collection[Node]) -> dict[Node, int]:
    """Return how often one branch mutates each shared variable: the highest version of an entry to it."""
    last: dict[Node, int] = {}
    if shared:
        for node in source:
            for entry in node.inputs:
                if entry.version and entry.node in shared:
                    last[entry.node] = max(last.get(entry.node, 0), entry.version)
    return last


def _rename_implied(graph: Graph, source: Sequence[Node], prefixes: Sequence[str]) -> tuple[Rename, ...]:
    """Return the renames of implied states. They have no node: every branch has its own, named after its operator."""
    implied = list(list_implied_variables(graph))
    copied = set(source) if implied else set()
    return tuple(
        Rename(prefix, variable.name, prefix + variable.name if variable.node.name else variable.name)
        for prefix in prefixes
        for variable in implied
        if variable.node in copied
    )


def _check_names(
    graph: Graph,
    source: Sequence[Node],
    prefixes: Sequence[str],
    shared: Collection[Node],
    drop_original: bool,
    other_names: Collection[str],
) -> None:
    implied = list(list_implied_variables(graph))
    unnamed = [variable for variable in implied if not variable.node.name]
    if unnamed:
        ops = ", ".join(sorted({variable.node.op for variable in unnamed}))
        hint = "`gs.upgrade` gives the states nodes of their own"
        raise RefusedError(Fault(f"an operator without a name ({ops}) implies states that every copy would share", hint=hint))
    kept = [node.name for node in (shared if drop_original else graph.nodes)]
    kept += other_names
    kept += [] if drop_original else [variable.name for variable in implied]
    if not _may_collide(kept, prefixes):
        return
    old = [node.name for node in source if node.name and node not in shared]
    old += [variable.name for variable in implied if variable.node.name]
    check_collisions(kept, ((name, prefix + name) for prefix in prefixes for name in old))


def _may_collide(kept: Collection[str], prefixes: Sequence[str]) -> bool:
    """Whether a prefixed name can equal any other name: an existing one begins with the prefix, or one prefix with another."""
    if any(b.startswith(a) for a, b in pairwise(sorted(set(prefixes)))):  # what begins with a text follows it in order
        return True
    # One search over all names; a line break inside a name can only cause a needless full check.
    names = "\n" + "\n".join(kept)
    return any(f"\n{prefix}" in names for prefix in prefixes)


def duplicate(
    model: Model,
    prefixes: Names,
    *,
    mode: ModeOrBatch = "copy",
    choices: Sequence[tuple[Mode, str]] = (),
    share_inputs: Names = (),
    upto: Names = (),
    drop_original: bool = False,
    batch_axes: Mapping[str, Natural] = EMPTY,
    force: bool = False,
    as_input: Names = (),
    as_parameter: Names = (),
) -> Checkpoint:
    """Add a branch for each of ``prefixes``, with parameters of its own or on one set of parameters.

    The ``mode`` ``copy`` gives every branch its own parameters with equal initial values; ``tie`` makes all branches use one
    set; ``batch`` runs the graph once on the inputs of all branches, concatenated along ``batch_axes`` (axis 0 unless named).
    ``choices`` (pairs such as ``("tie", "conv*")``) change the mode of some parameters; the last match wins. ``share_inputs``
    are patterns of inputs and labels that all branches use. ``upto`` names outputs: the copies contain only the nodes that
    these need. ``drop_original`` removes the original branch. ``force`` allows a batch over operators that mix its samples.
    ``as_input`` and ``as_parameter`` name variables whose role cannot be inferred.

    Raises:
        UsageError: options that do not go with the mode.
        RefusedError: names collide, a pattern matches nothing or the wrong kind, a target is unknown, a variable's role cannot
            be told, or operators mix the samples of a batch; all of a kind are listed.
    """
    source, names = as_checkpoint(model), as_names(prefixes)
    _check_mode(mode, choices, as_names(upto), batch_axes, force)
    with locate_refusals(source):
        check_belongs(source.parameter_file, source.graph)
        if not names:
            raise RefusedError(Fault("no branch is asked for", hint="give a prefix for each copy, as in `prefixes='sha-'`"))
        roles = find_roles(source, as_input, as_parameter, {"`batch_axes`": batch_axes})
        common: dict[str, Any] = {"share_inputs": as_names(share_inputs), "drop_original": drop_original}
        if mode == "batch":  # imported where it is asked for: starting is most of the time that a usual graph takes
            from graphshare.rewrite.batch import plan_batch

            require(source.graph, Operation.BATCH, what="`mode='batch'`")
            report = plan_batch(source.graph, names, roles, axes=batch_axes, force=force, **common)
        else:
            report = plan_duplicate(
                source.graph, names, roles, mode=mode, choices=choices, upto=as_names(upto), held=source.held, **common
            )
    notes = [*report.notes, *notes_on(source.parameter_file, source.graph, report.roles)]
    if mode != "batch":
        with locate_refusals(source):
            notes += _note_unmoved(source.graph, report, mode)
        notes += note_copied_attributes(report.graph) if mode == "tie" else []
    needs_params = bool(report.copied or report.renames)
    return follow_rewrite(source, report, report=report, notes=notes, needs_params=needs_params)


def _note_unmoved(graph: Graph, report: Duplication, mode: ModeOrBatch) -> list[str]:
    """Return notes on weights that the branches share anyway, and on a tie without weights.

    Raises:
        RefusedError: the tie leaves out all weights.
    """
    calls = [node for node in report.branches[-1].images if node.op]
    count = len(find_format(graph).bodies.index_functions(graph, calls))
    weights = format_count(count, "weight")
    if mode == "tie" and not report.tied and not count:
        if report.copied:
            hint = "leave out the `choices=('copy', PATTERN)` that matches all; a parameter that is an output is not tied"
            message = f"nothing would be tied: all of {format_count(len(report.copied), 'parameter')} would be copied"
            raise RefusedError(Fault(message, hint=hint))
        return ["there are no parameters, so nothing is tied"]
    if count and (mode == "copy" or report.copied):
        return [f"{weights} in functions not copied: every branch calls the same functions, which have one of each"]
    return [f"{weights} in functions tied: every branch calls the same functions"] if count else []


def _check_mode(
    mode: ModeOrBatch, choices: Sequence[object], upto: Sequence[str], batch_axes: Mapping[str, int], force: bool
) -> None:
    """Refuse options that do not go with the mode. Raises UsageError with all of them."""
    faults = []
    if mode != "batch":
        idle = [option for option, value in (("`batch_axes`", batch_axes), ("`force`", force)) if value]
        faults = [Fault(f"{option} is for `mode='batch'`", hint="leave it out, or choose that mode") for option in idle]
    elif choices:
        faults.append(Fault("`choices` choose between modes; a batch has one run and one set of parameters"))
    if mode == "batch" and upto:
        hint = "cut it out first: `gs.extract(GRAPH, targets=NAME)`"
        faults.append(Fault("`upto` leaves the original as it is; a batch is one run of the whole graph", hint=hint))
    if faults:
        raise UsageError(faults)
