"""``verify`` of branches that are computed in one run: each is held against a run of its own.

The inputs of the branches differ (by seed), so that a branch whose values depend on its neighbours is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphshare.analysis.name_lists import output_name
from graphshare.analysis.roles import Kind, Role, assign_roles
from graphshare.analysis.shapes import Inference, infer
from graphshare.analysis.sizes import settle_sizes
from graphshare.checkpoint.parameter_plan import held_names
from graphshare.errors import Fault, RefusedError
from graphshare.execute.feeds import parameter_values
from graphshare.execute.interpreter import run_plan
from graphshare.execute.plan import UnsupportedError, make_plan, unsupported
from graphshare.execute.values import check_shapes, fill_inputs, seeded_parameter, unknown_shapes
from graphshare.ir.compare import compare_structure
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import reachable
from graphshare.ops.kernel import Array
from graphshare.rewrite.batch import Batched, single_run
from graphshare.verification.compare import compare, largest
from graphshare.verification.options import Options, Side
from graphshare.verification.stages import Stage, value_stage
from graphshare.verification.values import OutputComparison, Values
from graphshare.verification.verdict import BranchReport, Report
from graphshare.verification.verify import check_given

ALONE = "runs of their own"
# One run of several samples sums in another order than several runs; what is near zero differs most for its size.
_OF_LARGEST = 1e-5


def verify_batched(found: Batched, side: Side, options: Options | None = None) -> Report:
    """Each branch of a batch held against the same graph run on that branch's inputs alone.

    Values may differ by ``rtol`` of themselves, or by 1e-5 of the largest in their output.

    Raises:
        RefusedError: shapes are missing, contradict each other or differ between branches, or a parameter is missing.
        UnsupportedError: operators without a kernel, unless that is allowed; all are listed.
    """
    options = options or Options()
    check_given([side.graph], options)
    wrong = list(_misplaced(found))
    if wrong:
        stage = Stage("structure", "fails", f"{len(wrong)} differences", tuple(wrong))
        return Report(tuple(BranchReport(ALONE, label or "(original)", (stage,)) for label in found.labels))
    graphs = [single_run(found, number)[0] for number in range(len(found.labels))]
    stages = [_structure(graphs[0], graph) for graph in graphs]
    roles = assign_roles(side.graph, held=held_names(side.params))
    tied = sum(roles[node].is_parameter for node in graphs[0].variables())
    parameters = Stage("parameters", "holds", f"{tied} tied, 0 equal byte for byte")
    faults = unsupported(reachable(found.graph))
    if faults and not options.allow_unsupported:
        raise UnsupportedError(faults)
    notes: dict[str, None] = {}
    rounds: list[tuple[Values, ...]] = [()] * len(graphs)
    if not faults and all(stage.verdict == "holds" for stage in stages):
        work = _Values(found, graphs, side, roles, options, notes)
        rounds = list(zip(*(work.round(number) for number in range(options.rounds)), strict=True))
    reports = []
    for label, stage, values in zip(found.labels, stages, rounds, strict=True):
        last = (
            value_stage(values) if values else Stage("values", "skipped", "not run", tuple(sorted(f.message for f in faults)))
        )
        shown = (stage, parameters, last) if stage.verdict == "holds" else (stage,)
        reports.append(BranchReport(ALONE, label or "(original)", shown, values))
    return Report(tuple(reports), tuple(notes))


def _misplaced(found: Batched) -> Iterator[str]:
    """What is not in its place between the branches: inputs by their names, parts of outputs by their numbers."""
    count = len(found.labels)
    if not found.graph.heads or len(found.graph.heads) % count:
        yield f"{len(found.graph.heads)} outputs cannot be those of {count} branches"
        return
    for join in found.joins:
        names = [entry.node.name for entry in join.inputs]
        base = names[0].removeprefix(found.labels[0]) if names else ""
        shared = len({entry.node for entry in join.inputs}) == 1
        if any(not entry.node.is_variable for entry in join.inputs) or len(names) != count:
            yield f"{join.name!r} does not join one input of each branch"
        elif not shared and names != [label + base for label in found.labels]:
            yield f"{join.name!r} joins {', '.join(names)}, which is not the order of the branches"
    for split in found.splits:
        if split.attrs.get("num_outputs") != str(count) or len(split.inputs) != 1:
            yield f"{split.name!r} does not make a part for each branch"
    per_branch = len(found.graph.heads) // count
    for place, head in enumerate(found.graph.heads):
        number, which = divmod(place, per_branch)
        twin = found.graph.heads[which]
        base = output_name(twin).removeprefix(found.labels[0])
        source = head.node.inputs[0] if head.node.op == "_copy" and head.node.inputs else head
        if head.node.name and output_name(head) != found.labels[number] + base and head.node is not twin.node:
            yield f"output {output_name(head)!r} stands where {found.labels[number] + base!r} should"
        if source.node in found.splits and source.index != number:
            yield f"output {output_name(head)!r} is part {source.index} of {source.node.name!r}, not {number}"


def _structure(first: Graph, graph: Graph) -> Stage:
    pairing = compare_structure(first.heads, graph.heads)
    if pairing:
        operators = sum(not a.is_variable for a, _ in pairing.pairs)
        return Stage("structure", "holds", f"one run of {operators} operators for all branches")
    details = tuple(f"{d.left.name!r} and {d.right.name!r}: {d.what}" for d in pairing.differences)
    return Stage("structure", "fails", f"{len(details)} differences", details)


class _Values:
    """Runs of the whole batch and of each branch alone."""

    def __init__(
        self,
        found: Batched,
        graphs: Sequence[Graph],
        side: Side,
        roles: Mapping[Node, Role],
        options: Options,
        notes: dict[str, None],
    ) -> None:
        self._found, self._graphs, self._roles, self._options, self._notes = found, graphs, roles, options, notes
        self._nodes = [reachable(graph) for graph in graphs]
        parameters = [node for node in self._nodes[0] if node.is_variable and roles[node].is_parameter]
        self._parameters: dict[Node, Array] = parameter_values(
            parameters, side.params, lambda n: roles[n].kind is Kind.AUXILIARY
        )
        self._twins = {}  # input of a branch: the first branch's
        for a, b in ((self._inputs(0), self._inputs(i)) for i in range(len(graphs))):
            self._twins.update(dict(zip(b, a, strict=True)))
        self._refuse_unequal({n: a.shape for i in range(len(graphs)) for n, a in self._given(i).items()})
        self._inference = self._inferred(0, {})
        self._draw([node for node in parameters if node not in self._parameters])

    def _inputs(self, number: int) -> list[Node]:
        return [node for node in self._nodes[number] if node.is_variable and not self._roles[node].is_parameter]

    def _given(self, number: int) -> dict[Node, Array]:
        """The feeds of a branch's inputs: their own, or what is fed to any twin."""
        feeds = self._options.feeds
        found = {}
        for node in self._inputs(number):
            names = [node.name, *(other.name for other, first in self._twins.items() if first is self._twins[node])]
            array = next((feeds[name] for name in names if name in feeds), None)
            if array is not None:
                found[node] = array
        return found

    def _inferred(self, number: int, shapes: Mapping[Node, tuple[int | None, ...]]) -> Inference:
        graph, nodes, fed = self._graphs[number], self._nodes[number], self._given(number)
        known: dict[Node, tuple[int | None, ...]] = {**shapes, **{n: a.shape for n, a in {**self._parameters, **fed}.items()}}
        for node in self._inputs(number):
            names = [node.name, *(other.name for other, first in self._twins.items() if first is self._twins[node])]
            shape = next((self._options.shapes[name] for name in names if name in self._options.shapes), None)
            if shape is not None and node not in fed:
                known[node] = shape
        types = {node: str(array.dtype) for node, array in {**self._parameters, **fed}.items()}
        inference = infer(graph, known, types, nodes=nodes)
        settled = settle_sizes(graph, known, types, nodes, inference)
        if settled is None:
            return inference
        for node in settled[1]:
            self._notes[f"{node.name!r} could have other sizes; --shape {node.name}=... sets them"] = None
        return settled[0]

    def _draw(self, missing: Sequence[Node]) -> None:
        if self._options.params_seed is None and missing:
            hint = "give the parameter file with --params, or draw them with --random-params 0"
            raise RefusedError([Fault(f"there is no value for parameter {node.name!r}", hint=hint) for node in missing])
        faults = unknown_shapes(self._inference, missing)
        if faults:
            raise RefusedError(faults)
        for node in missing:
            shape = tuple(d or 0 for d in self._inference.shapes[node][0] or ())
            dtype = self._inference.types[node][0] or "float32"
            self._parameters[node] = seeded_parameter(node, shape, dtype, seed=self._options.params_seed or 0)

    def round(self, number: int) -> list[Values]:
        """The comparison of every branch, on one set of inputs."""
        shapes: dict[Node, tuple[int | None, ...]] = {}
        alone: list[list[Array]] = []
        everything: dict[Node, Array] = dict(self._parameters)
        for i, (graph, nodes) in enumerate(zip(self._graphs, self._nodes, strict=True)):
            firsts = {node: self._inference.shapes[self._twins[node]][0] for node in self._inputs(i)}
            inference = self._inferred(i, {node: shape for node, shape in firsts.items() if shape is not None})
            given = self._given(i)
            check_shapes(given, inference)
            values = fill_inputs(nodes, {**self._parameters, **given}, inference, self._roles, seed=self._options.seed + number)
            self._note(i, values, given)
            shapes.update({node: values[node].shape for node in self._inputs(i)})
            everything.update(values)
            alone.append(run_plan(make_plan(graph.heads), values, shapes=inference.shapes).outputs)
        self._refuse_unequal(shapes)
        whole = infer(
            self._found.graph, {n: a.shape for n, a in everything.items()}, {n: str(a.dtype) for n, a in everything.items()}
        )
        run = run_plan(make_plan(self._found.graph.heads), everything, shapes=whole.shapes)
        return [self._compared(i, run.outputs, outputs, run.peak_bytes) for i, outputs in enumerate(alone)]

    def _note(self, number: int, values: Mapping[Node, Array], given: Mapping[Node, Array]) -> None:
        for node in self._inputs(number):
            if node not in given:
                zeros = self._roles[node].is_label or self._roles[node].is_state
                how = "zeros" if zeros else f"seeded ({self._options.seed})"
                self._notes[f"{node.name!r} is {how}, {values[node].shape} {values[node].dtype}"] = None

    def _refuse_unequal(self, shapes: Mapping[Node, tuple[int | None, ...]]) -> None:
        faults = [
            Fault(f"{node.name!r} has the shape {shape} and {self._twins[node].name!r} {shapes[self._twins[node]]}")
            for node, shape in shapes.items()
            if shape != shapes[self._twins[node]]
        ]
        if faults:
            raise RefusedError(faults)

    def _compared(self, number: int, whole: Sequence[Array], alone: Sequence[Array], peak: int) -> Values:
        start = number * len(alone)
        heads = self._found.graph.heads[start : start + len(alone)]
        outputs = []
        for head, reference, got in zip(heads, alone, whole[start : start + len(alone)], strict=True):
            atol = max(self._options.atol, _OF_LARGEST * largest(reference))
            result = compare(got, reference, atol=atol, rtol=self._options.rtol)
            name = output_name(head)
            outputs.append(OutputComparison(f"{name} alone", name, got.shape, str(got.dtype), result))
        return Values(tuple(outputs), None, peak)
