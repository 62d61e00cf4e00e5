"""``duplicate --mode batch``: one run of the graph for all branches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from graphshare.analysis.batch_axis import Coupling, follow_batch
from graphshare.analysis.implied import implied_variables
from graphshare.analysis.roles import assign_roles, implied_role
from graphshare.checkpoint.self_check import check_isomorphic
from graphshare.errors import Fault, RefusedError, SelfCheckError
from graphshare.ir.graph import Entry, Graph, Node, Rewrite
from graphshare.ir.walk import reachable
from graphshare.rewrite.batch import Joined, find_batch
from graphshare.rewrite.batch import batch as make_batch
from graphshare.rewrite.duplicate_plan import Duplication, check_named, shared_inputs, unknown_roles
from graphshare.text.format import format_names

_SHOWN = 4


def plan_batch(
    graph: Graph,
    prefixes: Sequence[str],
    *,
    share_inputs: Sequence[str] = (),
    drop_original: bool = False,
    as_input: Collection[str] = (),
    as_parameter: Collection[str] = (),
    held: frozenset[str] | None = None,
    axes: Mapping[str, int] = MappingProxyType({}),
    force: bool = False,
) -> Duplication:
    """Branches of ``graph`` that are computed in one run: inputs joined on the axis of the samples, outputs split.

    Every branch gets inputs and labels of its own, bar those that ``share_inputs`` match; all must have one shape. ``axes``
    tell of inputs whose samples are not on axis 0. Parameters stay as they are.

    Raises:
        RefusedError: names collide, a variable's role cannot be told, or operators mix the samples of a batch. All of these
            are listed, and ``force`` makes notes of them.
    """
    if not prefixes:
        raise RefusedError(Fault("no branch is asked for", hint="give a prefix for each copy, as in --prefix sha-"))
    if find_batch(graph) is not None:
        raise RefusedError(
            Fault("the graph is a batch of branches already", hint="make all branches at once, from the original")
        )
    check_named(graph, {"--as-input": as_input, "--as-parameter": as_parameter, "--batch-axis": axes})
    roles = assign_roles(graph, held=held, as_input=as_input, as_parameter=as_parameter)
    unknown_roles(roles, (), "tie")
    used_by_all = shared_inputs(roles, share_inputs)
    inputs = {
        node: Joined(axes.get(node.name, 0), node in used_by_all) for node, role in roles.items() if not role.is_parameter
    }
    wrong = [node.name for node in roles if node.name in axes and node not in inputs]
    if wrong:
        raise RefusedError([Fault(f"--batch-axis {name!r} is no input ({name} is a parameter)") for name in wrong])
    implied = [found for found in implied_variables(graph) if not implied_role(found).is_parameter]
    if implied:
        hint = "run `graphshare upgrade` first, or add --upgrade: it gives them nodes of their own"
        raise RefusedError(
            [
                Fault(f"input {i.name!r} is implied by the file and cannot be joined", node=i.node.name, hint=hint)
                for i in implied
            ]
        )
    if not inputs:
        raise RefusedError(Fault("there is no input to be joined", hint="name one with --as-input"))
    found, couplings = follow_batch(reachable(graph), {node: joined.axis for node, joined in inputs.items()})
    notes = _refused_or_noted(couplings, force)
    outputs = {
        (head.node, head.index): found[head.node, head.index].axis
        for head in graph.heads
        if not head.node.is_variable and (head.node, head.index) in found
    }
    rewrite = make_batch(graph, prefixes, inputs=inputs, outputs=outputs, drop_original=drop_original)
    _prove(rewrite, inputs, outputs)
    tied = tuple(node for node, role in roles.items() if role.is_parameter)
    joined = {node: how.axis for node, how in inputs.items()}
    return Duplication(rewrite, roles, tied, (), tuple(used_by_all), tuple(notes), joined)


def _refused_or_noted(couplings: Sequence[Coupling], force: bool) -> list[str]:
    """Notes on what mixes samples, one for each sort.

    Raises:
        RefusedError: there is any, and it is not forced; every operator is listed.
    """
    if couplings and not force:
        hint = "--force makes the batch all the same; copy and tie run every branch by itself"
        raise RefusedError([Fault(f"{c.node.op} {c.why}", node=c.node.name, hint=hint) for c in couplings])
    sorts: dict[str, list[str]] = {}
    for coupling in couplings:
        sorts.setdefault(f"{coupling.node.op} {coupling.why}", []).append(coupling.node.name)
    return [f"{what}: {format_names(names, _SHOWN)}" for what, names in sorts.items()]


def _prove(rewrite: Rewrite, inputs: Mapping[Node, Joined], outputs: Mapping[tuple[Node, int], int]) -> None:
    """Holds the result against its source: nodes and edges, the joined inputs, and the heads of every branch.

    Raises:
        SelfCheckError: it is not what it should be.
    """
    batched = find_batch(rewrite.graph)
    joins = {join.inputs[0].node: join for join in rewrite.graph.nodes if batched and join in batched.joins}
    replaced = {}
    wrong = False
    for node, how in inputs.items():
        members = [branch.images[node] for branch in rewrite.branches]
        join = joins.get(members[0])
        if join is None:
            continue
        wrong |= [entry.node for entry in join.inputs] != members or join.attrs.get("dim") != str(how.axis)
        replaced.update({(number, node): Entry(join, 0) for number in range(len(members))})
    check_isomorphic(rewrite, replaced=replaced)
    wrong |= len(rewrite.graph.heads) != sum(len(branch.source.heads) for branch in rewrite.branches)
    heads = iter(() if wrong else rewrite.graph.heads)
    for number, branch in enumerate(rewrite.branches):
        for head, entry in zip(branch.source.heads, heads, strict=False):
            if head.node.is_variable:
                wrong |= entry.node is not branch.images[head.node]
                continue
            wrong |= entry.node.op != "_copy"
            entry = entry.node.inputs[0]
            if (head.node, head.index) in outputs:
                wrong |= entry.node.op != "SliceChannel" or entry.index != number
                entry = entry.node.inputs[0]
            wrong |= entry.node is not branch.images[head.node] or entry.index != head.index
    if wrong:
        raise SelfCheckError("the branches of the batch are not what they should be; this is a bug of graphshare")
