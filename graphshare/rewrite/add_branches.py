"""Copies of a graph beside it, with their own parameters or shared ones.

A copied node gets the branch's prefix before its name. All branches use one shared node:
MXNet trains parameters as tied in this form only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise

from msgspec.structs import replace

from graphshare.analysis.name_lists import (
    Implied,
    find_odd_variables,
    list_implied_variables,
    match_nodes,
    resolve_targets,
)
from graphshare.analysis.roles import Role, list_implied_parameters, list_parameters, refuse_implied
from graphshare.errors import Fault, RefusedError
from graphshare.ir.compare import check_isomorphic
from graphshare.ir.graph import Branch, Entry, Graph, Kept, Node, Rename, Rewrite, freeze
from graphshare.ir.rebuild import prefix_node, rebuild, relink
from graphshare.ir.walk import post_order
from graphshare.ops.normalization.signature import BARRIER, BARRIER_KEYS
from graphshare.rewrite.choices import (
    BranchOptions,
    Duplication,
    check_collisions,
    check_prefixes,
    match_shared_inputs,
    note_unknown_roles,
)
from graphshare.rewrite.tie import find_last_versions
from graphshare.text.names import suggest
from graphshare.text.patterns import compile_pattern

_BARRIER_OP, _BARRIER_KEY = BARRIER


def plan_duplicate(
    graph: Graph,
    prefixes: Sequence[str],
    roles: Mapping[Node, Role],
    options: BranchOptions,
    held: frozenset[str] | None = None,
) -> Duplication:
    """Add a branch for each prefix, grouped with the original: the modes copy and tie of
    ``duplicate``.

    ``held`` are the names in the parameter file, if any. Raises RefusedError as ``duplicate``.
    """
    tied = _choose_tied(graph, roles, options)
    used_by_all = match_shared_inputs(roles, options.share_inputs)
    shared = dict.fromkeys([*tied, *used_by_all])
    RefusedError.raise_any(find_odd_variables(shared))
    notes = note_unknown_roles(roles, options.mode)
    targets = (
        resolve_targets(options.upto, graph.nodes, option="`upto`", heads=graph.heads)
        if options.upto
        else None
    )
    implied = {state.name for state in list_implied_variables(graph)}
    surplus = (held or frozenset()) - {node.name for node in roles} - implied
    rewrite = add_branches(
        graph,
        prefixes,
        shared=shared.keys(),
        upto=targets,
        drop_original=options.drop_original,
        other_names=surplus,
    )
    check_isomorphic(rewrite, exempt=BARRIER_KEYS)
    placed = [node for node in list_parameters(roles) if node in rewrite.branches[-1].images]
    return Duplication(
        *(rewrite.graph, rewrite.branches, rewrite.renames, tuple(notes)),
        roles=roles,
        tied=tuple(node for node in placed if node in tied),
        copied=tuple(node for node in placed if node not in tied),
        shared_inputs=tuple(used_by_all),
    )


def _choose_tied(
    graph: Graph, roles: Mapping[Node, Role], options: BranchOptions
) -> dict[Node, None]:
    """Return the shared parameters in file order. Implied ones can be copied but not tied."""
    decided = dict.fromkeys(list_parameters(roles), options.mode)
    implied = dict.fromkeys(list_implied_parameters(graph), options.mode)
    # Two outputs need two names
    outputs = {entry.node for entry in graph.heads if entry.node.details.outputs}
    decided.update(dict.fromkeys(outputs & decided.keys(), "copy"))
    faults = []
    for choice in options.choices:
        how, pattern = choice
        matches = compile_pattern(pattern)
        nodes = match_nodes(pattern, roles)
        states = [state for state in implied if matches(state.name)]
        if not nodes and not states:
            hint = suggest(pattern, [node.name for node in decided], "parameters")
            faults.append(Fault(f"`choices={choice}` matches no variable", hint=hint))
        for node in nodes:
            if node not in decided:
                message = f"matches {node.name!r}, which is not a parameter ({roles[node].reason})"
                hint = (
                    f"if it is one after all, add `as_parameter={node.name!r}`; inputs are shared "
                    f"with `share_inputs`"
                )
                faults.append(Fault(f"`choices={choice}` {message}", hint=hint))
        decided.update(dict.fromkeys(decided.keys() & nodes, how))
        implied.update(dict.fromkeys(states, how))
    tied_states = [state for state, how in implied.items() if how == "tie"]
    RefusedError.raise_any([*faults, *refuse_implied(tied_states)])
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
    """Add a branch of ``graph`` for each prefix; heads are grouped by branch, the original's first.

    Every branch uses the ``shared`` variables. With ``upto``, the copies contain only the nodes
    that these outputs need. ``other_names`` are names outside the graph that no copy may get
    (records of a parameter file).

    Raises:
        RefusedError: a prefix is unusable, or new names collide.
    """
    check_prefixes(prefixes)
    heads = graph.heads if upto is None else tuple(upto)
    source: Sequence[Node] = graph.nodes if upto is None else _nodes_for(graph, heads)
    implied = list(list_implied_variables(graph))
    _check_names(graph, source, prefixes, shared, implied, drop_original, other_names)

    branches: list[Branch] = []
    nodes: list[Node] = []
    all_heads: list[Entry] = []
    placed: set[Node] = set()
    if not drop_original:
        branches.append(Branch("", graph, Kept(graph)))
        nodes += graph.nodes
        all_heads += graph.heads
        # Without the original, the first copy adds the shared nodes.
        placed.update(shared)
    unchanged = len(nodes)
    # MXNet numbers entries to a mutated variable by the earlier mutations, across branches.
    versions = _count_mutations(source, shared)
    for number, prefix in enumerate(prefixes, start=len(branches)):
        mutations = {node: number * last for node, last in versions.items()}
        images = _copy_branch(source, prefix, shared, mutations)
        branches.append(Branch(prefix, graph, images))
        nodes += [node for node in images.values() if node not in placed]
        placed.update(images.keys() & shared)
        # A head may itself be a shared statistic.
        all_heads += [_raise_version(entry, mutations) or relink(entry, images) for entry in heads]
    result = replace(
        graph,
        nodes=tuple(nodes),
        heads=tuple(all_heads),
        source=graph.source.after_rewrite(branches[0].images, unchanged=unchanged),
    )
    return Rewrite(result, tuple(branches), _rename_implied(implied, source, prefixes))


def _nodes_for(graph: Graph, heads: Sequence[Entry]) -> list[Node]:
    needed = set(post_order(entry.node for entry in heads))
    return [node for node in graph.nodes if node in needed]


def _copy_branch(
    source: Sequence[Node], prefix: str, shared: Collection[Node], mutations: Mapping[Node, int]
) -> dict[Node, Node]:
    """``mutations`` counts how often earlier branches mutate a shared variable."""

    def redirect(entry: Entry, _: Node) -> Entry | None:
        return _raise_version(entry, mutations)

    def change(node: Node) -> Node:
        return node if node in shared else add_prefix(prefix, node)

    # Most branches share nothing, and need no look-up of each node and entry.
    return rebuild(
        source,
        change if shared else partial(add_prefix, prefix),
        redirect=redirect if mutations else None,
        task="duplicating",
    )


def add_prefix(prefix: str, node: Node) -> Node:
    """Return a copy of ``node`` with ``prefix`` before its names, and before the key of a barrier."""
    if node.op == _BARRIER_OP and _BARRIER_KEY in node.attrs:
        key = prefix + node.attrs[_BARRIER_KEY]
        node = replace(node, attrs=freeze({**node.attrs, _BARRIER_KEY: key}))
    return prefix_node(node, prefix)


def _raise_version(entry: Entry, mutations: Mapping[Node, int]) -> Entry | None:
    count = mutations.get(entry.node)
    if not count or not entry.version:
        return None
    return Entry(entry.node, entry.index, entry.version + count)


def _count_mutations(source: Sequence[Node], shared: Collection[Node]) -> dict[Node, int]:
    """Return the highest version of an entry to each shared variable."""
    if not shared:
        return {}
    return {node: last for node, last in find_last_versions(source).items() if node in shared}


def _rename_implied(
    implied: Sequence[Implied], source: Sequence[Node], prefixes: Sequence[str]
) -> tuple[Rename, ...]:
    """Each state is named after its branch's operator."""
    copied = set(source) if implied else set()
    names = [variable.name for variable in implied if variable.node in copied]
    return tuple([Rename(prefix, name, prefix + name) for prefix in prefixes for name in names])


def _check_names(
    graph: Graph,
    source: Sequence[Node],
    prefixes: Sequence[str],
    shared: Collection[Node],
    implied: Sequence[Implied],
    drop_original: bool,
    other_names: Collection[str],
) -> None:
    unnamed = [variable for variable in implied if not variable.node.name]
    if unnamed:
        ops = ", ".join(sorted({variable.node.op for variable in unnamed}))
        message = f"an operator without a name ({ops}) implies states that every copy would share"
        hint = "`gs.upgrade` gives the states nodes of their own"
        raise RefusedError(Fault(message, hint=hint))
    kept = _list_names(shared) if drop_original else _list_names(graph.nodes, implied)
    kept += other_names
    if _may_collide(kept, prefixes):
        copied = [node for node in source if node not in shared]
        old = list(filter(None, _list_names(copied, implied)))
        check_collisions(kept, ((name, prefix + name) for prefix in prefixes for name in old))


def _list_names(nodes: Iterable[Node], implied: Iterable[Implied] = ()) -> list[str]:
    return [*(node.name for node in nodes), *(variable.name for variable in implied)]


def _may_collide(kept: Collection[str], prefixes: Sequence[str]) -> bool:
    """Whether a prefixed name can equal another: a name or another prefix begins with the prefix."""
    # What begins with a text follows it in order
    if any(b.startswith(a) for a, b in pairwise(sorted(set(prefixes)))):
        return True
    # A line break inside a name can only cause a needless full check.
    names = "\n" + "\n".join(kept)
    return any(f"\n{prefix}" in names for prefix in prefixes)
