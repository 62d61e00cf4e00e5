"""``verify`` of branches that are computed in one run: each is compared with a run of its own.

The inputs of the branches differ (by seed), so that a branch whose values depend on its neighbours is detected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from graphshare.analysis.branches import Counterparts, HeadPairs, NodePair
from graphshare.analysis.name_lists import output_name
from graphshare.analysis.roles import Role, assign_roles
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameters import list_parameter_names
from graphshare.errors import Fault, RefusedError
from graphshare.execute.backends.backend import Computation, list_unsupported, open_computation
from graphshare.execute.engines.executor import Executor
from graphshare.execute.plan import UnsupportedError
from graphshare.execute.prepare.assignment import Assignment
from graphshare.execute.prepare.feeds import GivenShape
from graphshare.ir.compare import compare_structure
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import reachable
from graphshare.ops.kernel import Array
from graphshare.ops.unary.signature import IDENTITY
from graphshare.rewrite.batched_graph import Batched, single_run
from graphshare.text.format import format_count
from graphshare.verification.comparison import (
    EngineComparison,
    Values,
    compare_engines,
    compare_runs,
    tolerate_batch,
    tolerate_other_program,
)
from graphshare.verification.flow import ProofOptions, describe_engines
from graphshare.verification.inputs import add_notes, describe_assigned
from graphshare.verification.report import BranchReport, ParameterResult, Report, Stage, engine_stage, value_stage
from graphshare.verification.runners import ComputationRunner, PartRunner

ALONE = "runs of their own"


def verify_batched(batch: Batched, model: Checkpoint, options: ProofOptions, notes: dict[str, None]) -> Report:
    """Compare each branch of a batch with the same graph run on that branch's inputs alone.

    Values may differ by ``rtol`` of themselves, or by 1e-5 of the largest in their output. ``notes`` tell the user what was
    decided so far.

    Raises:
        RefusedError: shapes are missing, contradict each other or differ between branches, or a parameter is missing.
        UnsupportedError: operators without a kernel, unless that is allowed; all are listed.
    """
    misplaced = list(_find_misplaced(batch))
    if misplaced:
        stage = Stage("structure", "fails", format_count(len(misplaced), "difference"), tuple(misplaced))
        return Report(tuple(BranchReport(ALONE, label or "(original)", (stage,)) for label in batch.labels))
    graphs = [single_run(batch, number)[0] for number in range(len(batch.labels))]
    stages = [_structure(graphs[0], graph) for graph in graphs]
    # What is an input in one branch is one in all of them.
    bases = {name[len(label) :] for name in options.as_input for label in batch.labels if name.startswith(label)}
    as_input = [*options.as_input, *(label + base for label in batch.labels for base in bases)]
    roles = assign_roles(model.graph, held=list_parameter_names(model.parameter_file), as_input=as_input)
    tied = [ParameterResult(n.name, n.name, "tied") for n in graphs[0].variables() if roles[n].is_parameter]
    parameters = Stage("parameters", "holds", f"{len(tied)} tied, 0 equal byte for byte")
    faults = list_unsupported(batch.graph, reachable(batch.graph))
    if faults and not options.allow_unsupported:
        raise UnsupportedError(faults)
    skipped = Stage("values", "skipped", "not run", tuple(sorted(fault.message for fault in faults)))
    rounds: list[tuple[Values, ...]] = [()] * len(graphs)
    across: list[tuple[EngineComparison, ...]] = [()] * len(graphs)
    if not faults and all(stage.verdict == "holds" for stage in stages):
        rounds, across = _Runs(batch, graphs, model, roles, as_input, options, notes).run_all()
    reports = []
    for label, stage, values, engines in zip(batch.labels, stages, rounds, across, strict=True):
        last = [value_stage(values) if values else skipped, *([engine_stage(engines)] if engines else [])]
        if stage.verdict == "holds":
            all_stages = (stage, parameters, *last)
            tolerance = tolerate_batch(options.tolerance.atol, options.tolerance.rtol) if values else None
            compared = BranchReport(ALONE, label or "(original)", all_stages, values, None, tuple(tied), engines, tolerance)
        else:
            compared = BranchReport(ALONE, label or "(original)", (stage,), values)
        reports.append(compared)
    return Report(tuple(reports), tuple(notes))


def _find_misplaced(batch: Batched) -> Iterator[str]:
    """Yield what is not in its place between the branches: inputs by their names, parts of outputs by their numbers."""
    count = len(batch.labels)
    if not batch.graph.heads or len(batch.graph.heads) % count:
        yield f"{format_count(len(batch.graph.heads), 'output')} cannot be those of {format_count(count, 'branch')}"
        return
    for join in batch.joins:
        names = [entry.node.name for entry in join.inputs]
        base = names[0].removeprefix(batch.labels[0]) if names else ""
        shared = len({entry.node for entry in join.inputs}) == 1
        if any(not entry.node.is_variable for entry in join.inputs) or len(names) != count:
            yield f"{join.name!r} does not join one input of each branch"
        elif not shared and names != [label + base for label in batch.labels]:
            yield f"{join.name!r} joins {', '.join(names)}, which is not the order of the branches"
    for split in batch.splits:
        if split.attrs.get("num_outputs") != str(count) or len(split.inputs) != 1:
            yield f"{split.name!r} does not make a part for each branch"
    per_branch = len(batch.graph.heads) // count
    for place, head in enumerate(batch.graph.heads):
        number, which = divmod(place, per_branch)
        twin = batch.graph.heads[which]
        base = output_name(twin).removeprefix(batch.labels[0])
        source = head.node.inputs[0] if head.node.op == IDENTITY and head.node.inputs else head
        # Heads without a name, and those that are one node for all branches, have no name of a branch.
        if head.node.name and output_name(head) != batch.labels[number] + base and head.node is not twin.node:
            yield f"output {output_name(head)!r} stands where {batch.labels[number] + base!r} should"
        if source.node in batch.splits and source.index != number:
            yield f"output {output_name(head)!r} is part {source.index} of {source.node.name!r}, not {number}"


def _structure(first: Graph, graph: Graph) -> Stage:
    pairing = compare_structure(first.heads, graph.heads)
    if pairing:
        operators = sum(not a.is_variable for a, _ in pairing.pairs)
        return Stage("structure", "holds", f"one run of {format_count(operators, 'operator')} for all branches")
    details = tuple(f"{d.left.name!r} and {d.right.name!r}: {d.what}" for d in pairing.differences)
    return Stage("structure", "fails", format_count(len(details), "difference"), details)


class _Runs:
    """Runs of the whole batch and of each branch alone."""

    def __init__(
        self,
        batch: Batched,
        graphs: Sequence[Graph],
        model: Checkpoint,
        roles: Mapping[Node, Role],
        as_input: Collection[str],
        options: ProofOptions,
        notes: dict[str, None],
    ) -> None:
        self._notes = notes
        self._batch, self._graphs, self._options = batch, graphs, options
        variables = [[node for node in reachable(graph) if node.is_variable] for graph in graphs]
        self._inputs = [[node for node in nodes if not roles[node].is_parameter] for nodes in variables]
        owned = [node for node in variables[0] if roles[node].is_parameter]
        self._fed = {node: options.feeds[node.name] for node in owned if node.name in options.feeds}
        self._sizes = {node: options.shapes[node.name] for node in owned if node.name in options.shapes}
        self._model, self._as_input = model, as_input
        self._executors = options.choose_executors(batch.graph, model.where)
        self._made_up: dict[Node, Array] = {}
        self._twins = {node: first for nodes in self._inputs for node, first in zip(nodes, self._inputs[0], strict=True)}
        twins = Counterparts(self._pair_inputs())
        self._feeds, self._shapes = twins.spread(options.feeds, options.shapes)
        feeds = [{n: self._feeds[n.name] for n in nodes if n.name in self._feeds} for nodes in self._inputs]
        count = len(batch.graph.heads) // len(graphs)
        self._parts = [range(i * count, (i + 1) * count) for i in range(len(graphs))]
        self._refuse_unequal({node: array.shape for fed in feeds for node, array in fed.items()})

    def _pair_inputs(self) -> Iterator[tuple[HeadPairs, list[NodePair]]]:
        """Yield the inputs of each branch after the first with those of the first."""
        labels, graphs = self._batch.labels, self._graphs
        for number in range(1, len(graphs)):
            pair = HeadPairs(labels[0], labels[number], graphs[0].heads, graphs[number].heads)
            yield pair, list(zip(self._inputs[0], self._inputs[number], strict=True))

    def run_all(self) -> tuple[list[tuple[Values, ...]], list[tuple[EngineComparison, ...]]]:
        """Return for each branch the comparisons of all rounds in each engine, and of the engines with the first."""
        values: list[list[Values]] = [[] for _ in self._graphs]
        across: list[list[EngineComparison]] = [[] for _ in self._graphs]
        own = tolerate_batch(self._options.tolerance.atol, self._options.tolerance.rtol)
        other = tolerate_other_program(self._options.tolerance.atol, self._options.tolerance.rtol)
        opened = [self._open(executor) for executor in self._executors.values()]
        for number, feeds in self._list_rounds():
            assigned = self._assign(opened[0][1:], number, feeds)
            first: list[PartRunner] = []
            for whole, *alone in opened:
                runner = ComputationRunner(whole, {node: x for each in assigned for node, x in each.values.items()})
                parts = [PartRunner(runner, part) for part in self._parts]
                for i, (computation, each) in enumerate(zip(alone, assigned, strict=True)):
                    names = [(f"{name} alone", name) for name in map(output_name, self._heads(i))]
                    values[i].append(compare_runs(names, ComputationRunner(computation, each.values), parts[i], own))
                    if first:
                        across[i].append(compare_engines([(first[i], parts[i], self._heads(i))], other))
                first = first or parts
        self._notes.update(describe_engines(self._executors))
        return [tuple(each) for each in values], [tuple(each) for each in across]

    def _list_rounds(self) -> Iterator[tuple[int, Mapping[str, Array]]]:
        """Yield the number and the feeds of each set of inputs."""
        sets = self._options.list_feeds(self._batch.graph)
        for feeds in sets:
            for number in range(self._options.inputs.rounds if len(sets) == 1 else 1):
                yield number, feeds

    def _open(self, executor: Executor | None) -> list[Computation]:
        """Return the whole batch and each branch alone, opened in one engine."""
        return [
            open_computation(graph, self._model.parameter_file, self._model.where, executor, as_input=self._as_input)
            for graph in (self._batch.graph, *self._graphs)
        ]

    def _heads(self, number: int) -> Sequence[Entry]:
        return [self._batch.graph.heads[place] for place in self._parts[number]]

    def _assign(self, alone: Sequence[Computation], number: int, feeds_of_set: Mapping[str, Array]) -> list[Assignment]:
        """Return the values of each branch in a round, of equal shapes."""
        first: dict[Node, tuple[int, ...]] = {}
        everything: list[Assignment] = []
        feeds_by_name, _ = Counterparts(self._pair_inputs()).spread(feeds_of_set, {})
        for i, computation in enumerate(alone):
            shapes: dict[Node, GivenShape] = {node: first[self._twins[node]] for node in self._inputs[i] if first}
            shapes |= {node: self._shapes[node.name] for node in self._inputs[i] if node.name in self._shapes} | self._sizes
            feeds = {node: feeds_by_name[node.name] for node in self._inputs[i] if node.name in feeds_by_name}
            assigned = computation.draw(
                {**feeds, **self._fed, **self._made_up},
                {node: shape for node, shape in shapes.items() if node not in feeds and node not in self._made_up},
                seed=self._options.inputs.seed + number,
                params_seed=self._options.inputs.params_seed,
            )
            add_notes(self._notes, describe_assigned(assigned, self._options.inputs.seed, partial(self._describe, i)))
            self._made_up.update({node: assigned.values[node] for node in assigned.parameters})
            first = first or {node: assigned.values[node].shape for node in self._inputs[0]}
            everything.append(assigned)
        self._refuse_unequal(
            {node: each.values[node].shape for nodes, each in zip(self._inputs, everything, strict=True) for node in nodes}
        )
        return everything

    def _describe(self, number: int, node: Node) -> list[str]:
        """Return the name of an input with the branch that it belongs to."""
        shared = len(self._inputs) > 1 and all(node in nodes for nodes in self._inputs)
        label = "all branches" if shared else self._batch.labels[number] or "original"
        return [f"{node.name!r} ({label})"]

    def _refuse_unequal(self, shapes: Mapping[Node, tuple[int | None, ...]]) -> None:
        faults = [
            Fault(f"{node.name!r} has the shape {shape} and {self._twins[node].name!r} {shapes[self._twins[node]]}")
            for node, shape in shapes.items()
            if shape != shapes[self._twins[node]]
        ]
        if faults:
            raise RefusedError(faults)
