"""One run for several branches: inputs are concatenated on their batch axis, outputs split again.

The Concat is named ``<input>_batch``, the SliceChannel ``<operator>_split``. The operator of a head
becomes ``<operator>_batch``, so that outputs keep their names, as in the other modes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from graphshare.analysis.batch_axis import Coupling, follow_batch
from graphshare.analysis.name_lists import (
    find_missing_outputs,
    find_odd_variables,
    implies_variables,
    list_implied_inputs,
    list_implied_variables,
    output_name,
)
from graphshare.analysis.roles import Role, assign_implied_role, list_parameters
from graphshare.errors import Fault, RefusedError, SelfCheckError
from graphshare.ir.compare import check_isomorphic
from graphshare.ir.graph import Branch, Entry, Graph, Node, Rewrite, freeze
from graphshare.ir.rebuild import rebuild, relink, rename_node
from graphshare.ir.walk import reachable, topological
from graphshare.ops.attributes import has_np_shape
from graphshare.ops.unary.signature import IDENTITY
from graphshare.rewrite.batched_graph import BRANCHES, find_batch
from graphshare.rewrite.choices import (
    BranchOptions,
    Duplication,
    check_collisions,
    check_prefixes,
    match_shared_inputs,
    note_unknown_roles,
)
from graphshare.text.format import format_names

_SUFFIX = "_output"
_SHOWN = 4


class Joined(msgspec.Struct, frozen=True, eq=False):
    """The batch axis of an input; ``shared`` means that all branches use one variable."""

    axis: int = 0
    shared: bool = False


def plan_batch(
    graph: Graph,
    prefixes: Sequence[str],
    roles: Mapping[Node, Role],
    options: BranchOptions,
) -> Duplication:
    """Add branches to ``graph`` that are computed in one run.

    Every branch gets its own inputs and labels, all of one shape, except those that
    ``share_inputs`` match. ``batch_axes`` maps inputs to a batch axis that is not 0.

    Raises RefusedError as :func:`graphshare.duplicate`, unless ``force`` makes notes of operators
    that mix the samples of a batch.
    """
    if find_batch(graph) is not None:
        hint = "make all branches at once, from the original"
        raise RefusedError(Fault("the graph is a batch of branches already", hint=hint))
    note_unknown_roles(roles, "tie")
    used_by_all = match_shared_inputs(roles, options.share_inputs)
    inputs = _find_inputs(graph, roles, options.batch_axes, used_by_all)
    _refuse_odd_inputs(graph, inputs)
    starts = {node: joined.axis for node, joined in inputs.items()}
    places_at, couplings = follow_batch(
        reachable(graph), starts, np_shape=has_np_shape(graph.attrs)
    )
    notes = _note_couplings(couplings, options.force)
    # An output without samples is one value for all branches.
    outputs = {
        (head.node, head.index): places_at[head.node, head.index].axis
        for head in graph.heads
        if not head.node.is_variable and (head.node, head.index) in places_at
    }
    rewrite = batch(
        graph, prefixes, inputs=inputs, outputs=outputs, drop_original=options.drop_original
    )
    _check_result(rewrite, inputs, outputs)
    return Duplication(
        *(rewrite.graph, rewrite.branches, rewrite.renames, tuple(notes)),
        roles=roles,
        tied=tuple(list_parameters(roles)),
        copied=(),
        shared_inputs=tuple(used_by_all),
        joined=starts,
    )


def _find_inputs(
    graph: Graph, roles: Mapping[Node, Role], axes: Mapping[str, int], used_by_all: Collection[Node]
) -> dict[Node, Joined]:
    inputs = {
        node: Joined(axes.get(node.name, 0), node in used_by_all)
        for node, role in roles.items()
        if not role.is_parameter
    }
    wrong = [node.name for node in list_parameters(roles) if node.name in axes]
    RefusedError.raise_any(
        Fault(f"`batch_axes` {name!r} is not an input ({name} is a parameter)") for name in wrong
    )
    implied = [
        variable
        for variable in list_implied_variables(graph)
        if not assign_implied_role(variable).is_parameter
    ]
    hint = "add `gs.upgrade(model)`: it gives them nodes of their own"
    RefusedError.raise_any(
        Fault(
            f"input {i.name!r} is implied by the file and cannot be joined",
            node=i.node.name,
            hint=hint,
        )
        for i in implied
    )
    if not inputs:
        raise RefusedError(Fault("there is no input to be joined", hint="name one with `as_input`"))
    return inputs


def _refuse_odd_inputs(graph: Graph, inputs: Collection[Node]) -> None:
    faults = find_odd_variables(graph.nodes) + find_missing_outputs(graph.nodes, graph.heads)
    for node in graph.nodes:
        names = [repr(dep.name) for dep in node.control_deps if dep in inputs]
        if names:
            message = f"has a control dependency on {format_names(names, _SHOWN)}, an input that would be joined"
            faults.append(Fault(message, node=node.name))
    RefusedError.raise_any(faults)


def _note_couplings(couplings: Sequence[Coupling], force: bool) -> list[str]:
    if not force:
        hint = "`force` makes the batch anyway; with copy or tie every branch runs by itself"
        RefusedError.raise_any(
            Fault(f"{c.node.op} {c.why}", node=c.node.name, hint=hint) for c in couplings
        )
    sorts: dict[str, list[str]] = {}
    for coupling in couplings:
        sorts.setdefault(f"{coupling.node.op} {coupling.why}", []).append(coupling.node.name)
    return [f"{what}: {format_names(names, _SHOWN)}" for what, names in sorts.items()]


def _check_result(
    rewrite: Rewrite, inputs: Mapping[Node, Joined], outputs: Mapping[tuple[Node, int], int]
) -> None:
    concats = [node for node in rewrite.graph.nodes if node.op == "Concat" and node.inputs]
    joins = {concat.inputs[0].node: concat for concat in concats if BRANCHES in concat.attrs}
    replaced = {}
    is_right = True
    for node, how in inputs.items():
        members = [branch.images[node] for branch in rewrite.branches]
        join = joins.get(members[0])
        if join is not None:
            joined = [entry.node for entry in join.inputs]
            is_right &= (joined, join.attrs.get("dim")) == (members, str(how.axis))
            replaced.update({(number, node): Entry(join, 0) for number in range(len(members))})
    check_isomorphic(rewrite, replaced=replaced)
    if not is_right or not _has_all_heads(rewrite, outputs):
        raise SelfCheckError("the branches of the batch are wrong; this is a bug in graphshare")


def _has_all_heads(rewrite: Rewrite, outputs: Collection[tuple[Node, int]]) -> bool:
    wanted: list[tuple[Entry, int | None]] = []
    for number, branch in enumerate(rewrite.branches):
        for head in branch.source.heads:
            part = number if (head.node, head.index) in outputs else None
            wanted.append((relink(head, branch.images), part))
    heads = rewrite.graph.heads
    if len(heads) != len(wanted):
        return False
    return all(_leads_to(head, *value) for head, value in zip(heads, wanted, strict=True))


def _leads_to(head: Entry, value: Entry, part: int | None) -> bool:
    """Whether ``head`` is a variable itself, or a copy of ``value`` or of its ``part``."""
    if value.node.is_variable:
        return head.node is value.node
    if head.node.op != IDENTITY:
        return False
    source = head.node.inputs[0]
    if part is not None:
        if (source.node.op, source.index) != ("SliceChannel", part):
            return False
        source = source.node.inputs[0]
    return (source.node, source.index) == (value.node, value.index)


def batch(
    graph: Graph,
    prefixes: Sequence[str],
    *,
    inputs: Mapping[Node, Joined],
    outputs: Mapping[tuple[Node, int], int],
    drop_original: bool = False,
) -> Rewrite:
    """Run ``graph`` once for the original (unless ``drop_original``) and a branch for each prefix.

    ``inputs`` have a batch axis. ``outputs`` maps heads, by node and index, to their batch axis;
    any other head has one value for all branches. Heads are grouped by branch.

    Raises:
        RefusedError: a prefix is unusable, names collide, or an operator behind a head implies
            states by its name.
    """
    check_prefixes(prefixes)
    labels = list(prefixes) if drop_original else ["", *prefixes]
    work = _Batch(graph, labels, inputs, outputs)
    work.check_names()
    nodes = [*work.join_inputs(), *work.rebuild_operators()]
    heads = [work.make_head(entry, label) for label in labels for entry in graph.heads]
    nodes += work.added
    result = msgspec.structs.replace(
        graph, nodes=tuple(nodes), heads=tuple(heads), source=graph.source.after_rewrite()
    )
    return Rewrite(result, tuple(Branch(label, graph, work.images(label)) for label in labels))


class _Batch:
    def __init__(
        self,
        graph: Graph,
        labels: Sequence[str],
        inputs: Mapping[Node, Joined],
        outputs: Mapping[tuple[Node, int], int],
    ) -> None:
        self._graph, self._labels, self._inputs, self._outputs = graph, labels, inputs, outputs
        self._variables: dict[tuple[str, Node], Node] = {}
        self._joined: dict[Node, Node] = {}
        self._new: dict[Node, Node] = {}
        self._splits: dict[tuple[Node, int], Node] = {}
        self._copies: dict[tuple[str, Node, int], Entry] = {}
        self._headed = dict.fromkeys(entry.node for entry in graph.heads if entry.node.op)
        self._consumed = {entry.node for node in graph.nodes for entry in node.inputs}
        self.added: list[Node] = []
        self._mark = json.dumps(list(labels), separators=(",", ":"))

    def check_names(self) -> None:
        if implies_variables(self._graph):
            hint = "add `gs.upgrade(model)`: it gives the states nodes of their own"
            message = "implies states by its name, and a batch changes that name"
            implying = (node for node in self._headed if any(list_implied_inputs(node)))
            RefusedError.raise_any(Fault(message, node=node.name, hint=hint) for node in implying)
        renamed = []
        for node, joined in self._inputs.items():
            if not joined.shared:
                renamed += self._add_labels(node.name)
            renamed.append((f"the batch of {node.name}", _batch_name(node)))
        renamed += [(f"the batch of {node.name}", _batch_name(node)) for node in self._headed]
        for entry in self._graph.heads:
            if entry.node.is_variable:
                continue
            base = _branch_name(entry)
            if base:
                renamed += self._add_labels(base)
            if (entry.node, entry.index) in self._outputs:
                renamed.append((f"the parts of {base}", _split_name(entry)))
        check_collisions((node.name for node in self._graph.nodes), renamed)

    def _add_labels(self, name: str) -> list[tuple[str, str]]:
        return [(name, label + name) for label in self._labels if label]

    def join_inputs(self) -> Iterator[Node]:
        for node, joined in self._inputs.items():
            for label in self._labels:
                is_copied = label and not joined.shared
                variable = rename_node(node, label + node.name) if is_copied else node
                self._variables[label, node] = variable
            variables = [self._variables[label, node] for label in self._labels]
            yield from dict.fromkeys(variables)
            # An input that is itself an output and feeds nothing needs no Concat.
            if node not in self._consumed:
                continue
            count = str(len(variables))
            attrs = freeze({BRANCHES: self._mark, "dim": str(joined.axis), "num_args": count})
            entries = tuple(map(self._entry, variables))
            concat = Node("Concat", _batch_name(node), attrs, entries, 1)
            self._joined[node] = concat
            yield concat

    def rebuild_operators(self) -> Iterator[Node]:
        nodes = [node for node in topological(self._graph) if node not in self._inputs]
        self._new = rebuild(nodes, self._change, redirect=self._redirect)
        yield from self._new.values()

    def _change(self, node: Node) -> Node:
        return rename_node(node, _batch_name(node)) if node in self._headed else node

    def _redirect(self, entry: Entry, _: Node) -> Entry | None:
        joined = self._joined.get(entry.node)
        return None if joined is None else Entry(joined, entry.index, entry.version)

    def make_head(self, entry: Entry, label: str) -> Entry:
        node, key = entry.node, (entry.node, entry.index)
        if node in self._inputs:
            return self._entry(self._variables[label, node])
        if node.is_variable:
            return entry
        # A graph may list one output twice: both heads are then one Identity.
        known = self._copies.get((label, node, entry.index))
        if known is not None:
            return known
        whole = Entry(self._new[node], entry.index, entry.version)
        axis = self._outputs.get(key)
        if axis is not None:
            split = self._splits.get(key)
            if split is None:
                count = len(self._labels)
                attrs = freeze({BRANCHES: self._mark, "axis": str(axis), "num_outputs": str(count)})
                split = self._splits[key] = Node(
                    "SliceChannel", _split_name(entry), attrs, (whole,), count
                )
                self.added.append(split)
            whole = Entry(split, self._labels.index(label), entry.version)
        base = _branch_name(entry)
        copy = Node(IDENTITY, label + base if base else "", inputs=(whole,), num_outputs=1)
        self.added.append(copy)
        result = self._copies[label, node, entry.index] = self._entry(copy)
        return result

    def images(self, label: str) -> dict[Node, Node]:
        return {
            node: self._variables.get((label, node)) or self._new[node]
            for node in self._graph.nodes
        }

    def _entry(self, node: Node) -> Entry:
        short = any(entry.version is None for entry in self._graph.heads)
        return Entry(node, 0, None if short else 0)


def _batch_name(node: Node) -> str:
    return f"{node.name}_batch" if node.name else ""


def _branch_name(entry: Entry) -> str:
    """Name the operator of a branch's copy of an output so that the output keeps its name.

    An operator with several outputs gets the output's own name.
    """
    name = output_name(entry)
    if not entry.node.name:
        return ""
    return entry.node.name if name == entry.node.name + _SUFFIX else name


def _split_name(entry: Entry) -> str:
    base = _branch_name(entry)
    return f"{base}_split" if base else ""
