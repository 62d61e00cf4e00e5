"""``verify`` for branches computed in one run.

Inputs differ between branches, to reveal a branch that depends on its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from graphshare.analysis.branches import Counterparts, HeadPairs
from graphshare.analysis.name_lists import output_name
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, RefusedError
from graphshare.execute.backends.backend import Computation
from graphshare.execute.prepare.assignment import Assignment, DrawOptions
from graphshare.execute.prepare.feeds import GivenShape
from graphshare.ir.compare import Pairing
from graphshare.ir.graph import Node
from graphshare.ir.walk import reachable
from graphshare.ops.kernel import Array
from graphshare.ops.unary.signature import IDENTITY
from graphshare.rewrite.batched_graph import Batched, single_run
from graphshare.text.format import format_count
from graphshare.verification.branches import open_in_engines
from graphshare.verification.comparison import EngineComparison, Values, tolerate_batch
from graphshare.verification.flow import (
    ProofOptions,
    RoundComparisons,
    compare_round,
    describe_engines,
    find_obstacles,
    join_rounds,
)
from graphshare.verification.inputs import add_notes, choose_own, describe_assigned
from graphshare.verification.pairing import Side, pair_nodes
from graphshare.verification.report import (
    BranchReport,
    ParameterResult,
    Report,
    Stage,
    engine_stage,
    structure_stage,
    value_stage,
)
from graphshare.verification.runners import ComputationRunner, PartRunner, Round, Runner

ALONE = "runs of their own"


def verify_batched(
    batch: Batched, model: Checkpoint, options: ProofOptions, notes: dict[str, None]
) -> Report:
    """Compare each branch of a batch with a run of the same graph on that branch's inputs alone.

    Values may differ by ``rtol`` of themselves, or by 1e-5 of the largest in their output.
    ``notes`` list earlier decisions.

    Raises:
        RefusedError: shapes are missing, contradictory or unequal across branches, or a parameter
            is missing.
        UnsupportedError: operators have no kernel, unless that is allowed.
    """
    labels = [label or "(original)" for label in batch.labels]
    misplaced = (*_find_misplaced_inputs(batch), *_find_misplaced_heads(batch))
    if misplaced:
        stage = Stage("structure", "fails", format_count(len(misplaced), "difference"), misplaced)
        return Report(tuple(BranchReport(ALONE, label, (stage,)) for label in labels))
    runs = _Runs(batch, model, options, notes)
    reasons = find_obstacles(
        [(batch.graph, reachable(batch.graph))], is_allowed=options.allow_unsupported
    )
    is_run = not reasons and all(runs.pairings)
    compared = runs.compare() if is_run else [((), ())] * len(labels)
    tied = tuple(
        ParameterResult(a.name, b.name, "tied")
        for a, b in runs.pairings[0].variables
        if runs.side.is_parameter(a)
    )
    parameters = Stage("parameters", "holds", f"{len(tied)} tied, 0 equal byte for byte")
    skipped = Stage("values", "skipped", "not run", reasons)
    reports = []
    for label, pairing, (values, engines) in zip(labels, runs.pairings, compared, strict=True):
        if not pairing:
            reports.append(BranchReport(ALONE, label, (structure_stage(pairing),)))
            continue
        operators = sum(not a.is_variable for a, _ in pairing.pairs)
        summary = f"one run of {format_count(operators, 'operator')} for all branches"
        stages = [Stage("structure", "holds", summary), parameters]
        stages.append(value_stage(values) if is_run else skipped)
        if engines:
            stages.append(engine_stage(engines))
        tolerance = runs.tolerance if is_run else None
        reports.append(
            BranchReport(ALONE, label, tuple(stages), values, None, tied, engines, tolerance)
        )
    return Report(tuple(reports), tuple(notes))


def _find_misplaced_inputs(batch: Batched) -> Iterator[str]:
    """Yield joins and splits without one part per branch in the branches' order."""
    count = len(batch.labels)
    for join in batch.joins:
        nodes = [entry.node for entry in join.inputs]
        if len(nodes) != count or not all(node.is_variable for node in nodes):
            yield f"{join.name!r} does not join one input of each branch"
            continue
        names = [node.name for node in nodes]
        base = names[0].removeprefix(batch.labels[0])
        wanted = [label + base for label in batch.labels]
        is_common = len(set(nodes)) == 1
        if names != wanted and not is_common:
            yield f"{join.name!r} joins {', '.join(names)}, which is not the order of the branches"
    for split in batch.splits:
        parts = split.attrs.get("num_outputs")
        if parts != str(count) or len(split.inputs) != 1:
            yield f"{split.name!r} does not make a part for each branch"


def _find_misplaced_heads(batch: Batched) -> Iterator[str]:
    """Yield each output with the name or the part of another branch."""
    heads, count = batch.graph.heads, len(batch.labels)
    if not heads or len(heads) % count:
        yield f"{format_count(len(heads), 'output')} cannot be those of {format_count(count, 'branch')}"
        return
    per_branch = len(heads) // count
    for place, head in enumerate(heads):
        number, which = divmod(place, per_branch)
        twin = heads[which]
        node, name = head.node, output_name(head)
        wanted = batch.labels[number] + output_name(twin).removeprefix(batch.labels[0])
        # Unnamed heads, and nodes common to all branches, have no branch's name.
        is_own = bool(node.name) and node is not twin.node
        if is_own and name != wanted:
            yield f"output {name!r} stands where {wanted!r} should"
        source = head
        if node.op == IDENTITY and node.inputs:
            source = node.inputs[0]
        if source.node in batch.splits and source.index != number:
            yield f"output {name!r} is part {source.index} of {source.node.name!r}, not {number}"


class _Runs:
    """Runs of the batch and of each branch alone, paired with the first branch."""

    def __init__(
        self, batch: Batched, model: Checkpoint, options: ProofOptions, notes: dict[str, None]
    ) -> None:
        self._batch, self._options, self._notes = batch, options, notes
        self._graphs = [single_run(batch, number)[0] for number in range(len(batch.labels))]
        first = self._graphs[0].heads
        self._places = [
            range(i * len(first), (i + 1) * len(first)) for i in range(len(batch.labels))
        ]
        pairs = [
            HeadPairs(batch.labels[0], label, first, graph.heads)
            for label, graph in zip(batch.labels, self._graphs, strict=True)
        ]
        self.pairings: list[Pairing] = [pair_nodes(pair) for pair in pairs]
        self._twins = Counterparts(
            (pair, pairing.pairs) for pair, pairing in zip(pairs, self.pairings, strict=True)
        )
        self.side = Side(model, self._twins.expand(options.as_input))
        self.tolerance = tolerate_batch(options.tolerance)
        self._made_up: dict[Node, Array] = {}

    def compare(self) -> list[tuple[tuple[Values, ...], tuple[EngineComparison, ...]]]:
        graph = self._batch.graph
        executors = self._options.choose_executors(graph, self.side.model.where)
        opened = open_in_engines((graph, *self._graphs), self.side, executors)
        compared: list[list[RoundComparisons]] = [[] for _ in self._graphs]
        for i, each in self._plan_rounds(opened):
            heads = [graph.heads[place] for place in self._places[i]]
            names = [(f"{name} alone", name) for name in map(output_name, heads)]
            # Across engines, only the whole batch is compared.
            compared[i].append(compare_round(each, names, self.tolerance, heads=(None, heads)))
        self._notes.update(describe_engines(executors))
        return [join_rounds(rounds) for rounds in compared]

    def _plan_rounds(self, opened: Sequence[Sequence[Computation]]) -> Iterator[tuple[int, Round]]:
        for feeds in self._options.list_feeds(self._batch.graph):
            for number in range(self._options.inputs.rounds):
                assigned = self._assign(opened[0][1:], number, feeds)
                values: dict[Node, Array] = {}
                for each in assigned:
                    values.update(each.values)
                wholes = [ComputationRunner(whole, values) for whole, *_ in opened]
                for i, each in enumerate(assigned):
                    runners: dict[str, tuple[Runner, Runner]] = {}
                    for whole, computations in zip(wholes, opened, strict=True):
                        alone = ComputationRunner(computations[i + 1], each.values)
                        runners[alone.engine] = alone, PartRunner(whole, self._places[i])
                    yield i, Round(runners)

    def _assign(
        self, alone: Sequence[Computation], number: int, feeds_of_set: Mapping[str, Array]
    ) -> list[Assignment]:
        feeds_by_name, shapes_by_name = self._twins.spread(feeds_of_set, self._options.shapes)
        pairs = [pairing.variables for pairing in self.pairings]
        fed = [choose_own((b for _, b in own), feeds_by_name) for own in pairs]
        self._refuse_unequal(fed)
        inputs = self._options.inputs
        draw_options = DrawOptions(inputs.seed + number, inputs.params_seed)
        drawn: dict[Node, GivenShape] = {}  # the shapes of inputs of the first branch
        everything: list[Assignment] = []
        for i, (computation, variables) in enumerate(zip(alone, pairs, strict=True)):
            feeds = {**self._made_up, **fed[i]}
            shapes = {b: drawn[a] for a, b in variables if a in drawn}
            shapes |= choose_own((b for _, b in variables), shapes_by_name)
            shapes = {node: shape for node, shape in shapes.items() if node not in feeds}
            assigned = computation.draw(feeds, shapes, draw_options)
            notes = describe_assigned(assigned, inputs.seed, partial(self._describe, i))
            add_notes(self._notes, notes)
            self._made_up.update({node: assigned.values[node] for node in assigned.parameters})
            if not drawn:
                chosen = (*assigned.inputs, *assigned.zeros)
                drawn = {node: assigned.values[node].shape for node in chosen}
            everything.append(assigned)
        self._refuse_unequal([each.values for each in everything])
        return everything

    def _describe(self, number: int, node: Node) -> list[str]:
        is_shared = all((node, node) in pairing.variables for pairing in self.pairings)
        if is_shared and len(self.pairings) > 1:
            return [f"{node.name!r} (all branches)"]
        label = self._batch.labels[number] or "original"
        return [f"{node.name!r} ({label})"]

    def _refuse_unequal(self, values: Sequence[Mapping[Node, Array]]) -> None:
        """Raise RefusedError with all shapes unlike the first branch's."""
        faults: list[Fault] = []
        for pairing, own in zip(self.pairings, values, strict=True):
            for a, b in pairing.variables:
                if b not in own:
                    continue
                shape, wanted = own[b].shape, values[0][a].shape
                if shape != wanted:
                    faults.append(
                        Fault(f"{b.name!r} has the shape {shape} and {a.name!r} {wanted}")
                    )
        RefusedError.raise_any(faults)
