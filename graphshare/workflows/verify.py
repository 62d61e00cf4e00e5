"""``verify``: the proof that branches compute the same, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from graphshare.errors import Fault, RefusedError
from graphshare.execute.inference import Inference, infer
from graphshare.execute.plan import UnsupportedError, unsupported
from graphshare.execute.sizes import settle_sizes
from graphshare.execute.values import check_shapes, fill_inputs, seeded_parameter, unknown_shapes
from graphshare.formats.arrays import ArrayReader
from graphshare.formats.records import ParameterFile
from graphshare.ir.graph import VARIABLE, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.kernels.kernel import Array
from graphshare.rules.roles import Kind, Role, assign_roles
from graphshare.verify.branches import HeadPairs
from graphshare.verify.parameters import ParameterPair, RecordsByName, compare_parameters
from graphshare.verify.structure import Pairing, compare_structure
from graphshare.verify.training import Training
from graphshare.verify.values import Values, compare_values
from graphshare.workflows.verify_stages import Stage, parameter_stage, structure_stage, value_stage
from graphshare.workflows.verify_training import answer, train_branches


class BranchReport(msgspec.Struct, frozen=True):
    """What was found of one branch beside the reference; ``rounds`` has the values of each round, ``training`` the step's."""

    reference: str
    branch: str
    stages: tuple[Stage, ...]
    rounds: tuple[Values, ...] = ()
    training: Training | None = None

    def __bool__(self) -> bool:
        return bool(self.stages) and all(stage.verdict != "fails" for stage in self.stages)


class Report(msgspec.Struct, frozen=True):
    """All branches. Nothing compared is no success."""

    branches: tuple[BranchReport, ...]
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.branches) and all(self.branches)

    @property
    def verdict(self) -> str:
        """One line."""
        if not self.branches:
            return "NOT VERIFIED: nothing was compared"
        names = ", ".join(report.branch or "(original)" for report in self.branches)
        if not self:
            failed = [(s.name, b.branch) for b in self.branches for s in b.stages if s.verdict == "fails"]
            if all(b.training for b in self.branches if ("training", b.branch) in failed) and {n for n, _ in failed} == {
                "training"
            }:
                fate = "will drift" if any(b.training and b.training.drifting for b in self.branches) else "has copies"
                return f"NOT TIED: {', '.join(branch for _, branch in failed)} {fate}"
            return f"NOT EQUAL: {', '.join(f'{name} of {branch}' for name, branch in failed)}"
        skipped = sorted({s.name for b in self.branches for s in b.stages if s.verdict == "skipped"})
        outputs = [o for b in self.branches for r in b.rounds for o in r.outputs]
        identical = all(o.comparison.identical for o in outputs)
        how = "values not compared" if not outputs else "bit for bit" if identical else "within the tolerance"
        without = "; parameters not compared" if "parameters" in skipped else ""
        return f"EQUAL: {names} and {self.branches[0].reference or 'the original'}, {how}{without}{self._fate()}"

    def _fate(self) -> str:
        """What training makes of them, where that was asked."""
        trained = [branch.training for branch in self.branches if branch.training is not None]
        if not trained:
            return ""
        drifting = sum(len(training.drifting) for training in trained)
        if drifting:
            return f"; copied: {drifting} parameters will drift"
        tied = all(training.is_tied for training in trained)
        return "; tied: they train as one" if tied else "; copied, though this step did not move them apart"


class Options(msgspec.Struct, frozen=True):
    """How values are compared: seeded inputs, ``rounds`` times; tolerances as in numpy's isclose.

    ``feeds`` and ``shapes`` are by variable name and hold for the twins of other branches too. ``allow_unsupported`` accepts
    the first two stages alone where an operator has no kernel. ``params_seed`` draws parameters that no file holds, equal ones
    for twins. ``train_step`` asks for the training stage, which fails with ``expect_tied`` where any pair will drift.
    """

    seed: int = 0
    rounds: int = 1
    atol: float = 1e-8
    rtol: float = 1e-5
    feeds: Mapping[str, Array] = {}
    shapes: Mapping[str, tuple[int | None, ...]] = {}
    params_seed: int | None = None
    allow_unsupported: bool = False
    train_step: bool = False
    expect_tied: bool = False


class Side(msgspec.Struct, frozen=True, eq=False):
    """A graph with its parameter file."""

    graph: Graph
    params: ParameterFile | None


def verify(heads: Sequence[HeadPairs], left: Side, right: Side, options: Options | None = None) -> Report:
    """Compares the branches that ``heads`` pair: the references stand in ``left``, the others in ``right`` (often the same).

    Raises:
        RefusedError: shapes are missing or contradict each other, a feed fits nothing, a parameter is missing.
        UnsupportedError: operators without a kernel, unless that is allowed; all are listed.
    """
    options = options or Options()
    check_given([left.graph, right.graph], options)
    sides = _Sides(left, right)
    notes: dict[str, None] = {}
    reports = tuple(_verify_branch(pair, sides, options, notes) for pair in heads)
    return Report(reports, tuple(notes))


class _Sides:
    """What both sides know of their variables."""

    def __init__(self, left: Side, right: Side) -> None:
        self.same = left is right
        self.graphs = (left.graph, right.graph)
        self.records: tuple[RecordsByName | None, RecordsByName | None]
        first = RecordsByName(left.params) if left.params is not None else None
        second = first if self.same else RecordsByName(right.params) if right.params is not None else None
        self.records = (first, second)
        held = [None if r is None else frozenset(r.names()) for r in self.records]
        roles = assign_roles(left.graph, held=held[0])
        self.roles: tuple[dict[Node, Role], dict[Node, Role]] = (
            roles,
            roles if self.same else assign_roles(right.graph, held=held[1]),
        )


def _verify_branch(pair: HeadPairs, sides: _Sides, options: Options, notes: dict[str, None]) -> BranchReport:
    pairing = compare_structure(pair.left, pair.right)
    stages = [structure_stage(pairing)]
    if not pairing:
        return BranchReport(pair.reference, pair.label, tuple(stages))
    variables = [(a, b) for a, b in pairing.pairs if a.op == VARIABLE]
    parameters = [(a, b) for a, b in variables if sides.roles[0][a].is_parameter]
    inputs = [(a, b) for a, b in variables if not sides.roles[0][a].is_parameter]
    found = compare_parameters(parameters, lambda node: sides.roles[0][node].kind is Kind.AUXILIARY, *sides.records)
    stages.append(parameter_stage(found, sides.records[0] is None))
    faults = unsupported([a for a, _ in pairing.pairs])
    if faults and options.allow_unsupported:
        operators = sorted({fault.message for fault in faults})
        stages.append(Stage("values", "skipped", "not run", tuple(operators)))
        return BranchReport(pair.reference, pair.label, tuple(stages))
    if faults:
        raise UnsupportedError(faults)
    made = [_ready(pair, inputs, found, sides, options, number, notes) for number in range(options.rounds)]
    rounds = tuple(
        compare_values(
            pair.left,
            pair.right,
            pairing.pairs,
            (ready.left, ready.right),
            atol=options.atol,
            rtol=options.rtol,
            shapes=ready.inference.shapes,
        )
        for ready in made
    )
    stages.append(value_stage(rounds))
    training = None
    if options.train_step:
        if stages[-1].verdict == "fails":
            stages.append(Stage("training", "skipped", "the branches differ before they are trained"))
        else:
            training = _trained(pair, pairing, inputs, found, made[0], sides, options)
            stages.append(Stage("training", *answer(training, expect_tied=options.expect_tied)))
    return BranchReport(pair.reference, pair.label, tuple(stages), rounds, training)


class _Ready(msgspec.Struct, frozen=True, eq=False):
    """The values of both branches' variables, inputs equal, and what follows from them for the left one."""

    left: dict[Node, Array]
    right: dict[Node, Array]
    inference: Inference


def _trained(
    pair: HeadPairs,
    pairing: Pairing,
    inputs: Sequence[tuple[Node, Node]],
    found: Sequence[ParameterPair],
    ready: _Ready,
    sides: _Sides,
    options: Options,
) -> Training:
    return train_branches(
        pair,
        pairing,
        inputs,
        found,
        (ready.left, ready.right),
        ready.inference,
        sides.roles[0],
        feeds=options.feeds,
        seed=options.seed,
        atol=options.atol,
        rtol=options.rtol,
    )


def _ready(
    pair: HeadPairs,
    inputs: Sequence[tuple[Node, Node]],
    parameters: Sequence[ParameterPair],
    sides: _Sides,
    options: Options,
    number: int,
    notes: dict[str, None],
) -> _Ready:
    """The values of one round: equal inputs for both branches, each with its own parameters."""
    nodes = post_order(entry.node for entry in pair.left)
    left, right = _parameter_values(parameters, sides, may_miss=options.params_seed is not None)
    fed = {a: array for a, b in inputs if (array := _by_name(options.feeds, a, b)) is not None}
    shapes: dict[Node, tuple[int | None, ...]] = {node: array.shape for node, array in {**left, **fed}.items()}
    shapes.update({a: shape for a, b in inputs if a not in fed and (shape := _by_name(options.shapes, a, b)) is not None})
    types = {node: str(array.dtype) for node, array in {**left, **fed}.items()}
    inference: Inference = infer(sides.graphs[0], shapes, types, nodes=nodes)
    settled = settle_sizes(sides.graphs[0], shapes, types, nodes, inference)
    if settled is not None:
        inference, chosen = settled
        for node in chosen:
            notes[f"{node.name!r} could have other sizes; --shape {node.name}=... sets them"] = None
    if options.params_seed is not None:
        drawn = _drawn([pair for pair in parameters if pair.left not in left], inference, options.params_seed)
        left.update((a, value) for a, _, value in drawn)
        right.update((b, value) for _, b, value in drawn)
    check_shapes(fed, inference)
    values = fill_inputs(nodes, {**left, **fed}, inference, sides.roles[0], seed=options.seed + number)
    for a, _ in inputs:
        role = sides.roles[0][a]
        if a not in fed:
            zeros = role.is_label or role.is_state
            notes[f"{a.name!r} is {'zeros' if zeros else f'seeded ({options.seed})'}, {values[a].shape} {values[a].dtype}"] = (
                None
            )
    return _Ready(values, {**right, **{b: values[a] for a, b in inputs}}, inference)


T = TypeVar("T")


def _by_name(given: Mapping[str, T], a: Node, b: Node) -> T | None:
    return given.get(a.name, given.get(b.name))


def _drawn(pairs: Sequence[ParameterPair], inference: Inference, seed: int) -> list[tuple[Node, Node, Array]]:
    """Seeded values for parameters that no file holds; twins get the same.

    Raises:
        RefusedError: a shape is not known; all are listed.
    """
    faults = unknown_shapes(inference, [pair.left for pair in pairs])
    if faults:
        raise RefusedError(faults)
    found = []
    for pair in pairs:
        shape = tuple(d or 0 for d in inference.shapes[pair.left][0] or ())
        dtype = inference.types[pair.left][0] or "float32"
        found.append((pair.left, pair.right, seeded_parameter(pair.left, shape, dtype, seed=seed)))
    return found


def _parameter_values(
    found: Sequence[ParameterPair], sides: _Sides, *, may_miss: bool
) -> tuple[dict[Node, Array], dict[Node, Array]]:
    """The parameters of both branches from their files.

    Raises:
        RefusedError: parameters that no file holds; all are listed.
    """
    values: tuple[dict[Node, Array], dict[Node, Array]] = ({}, {})
    missing: dict[str, None] = {}
    for side, nodes in enumerate(([p.left for p in found], [p.right for p in found])):
        records = sides.records[side]
        if records is None:
            missing.update(dict.fromkeys(node.name for node in nodes))
            continue
        with ArrayReader(records.file) as reader:
            for node, pair in zip(nodes, found, strict=True):
                record = records.of(node, auxiliary=sides.roles[0][pair.left].kind is Kind.AUXILIARY)
                if record is None:
                    missing[node.name] = None
                else:
                    values[side][node] = reader.read(record)
    if missing and not may_miss:
        hint = "give the parameter file with --params, or draw them with --random-params 0"
        raise RefusedError([Fault(f"there is no value for parameter {name!r}", hint=hint) for name in missing])
    return values


def check_given(graphs: Sequence[Graph], options: Options) -> None:
    """Refuses feeds and shapes for what no variable is called. Raises RefusedError with all such names."""
    from graphshare.names import did_you_mean

    known = {node.name for graph in graphs for node in graph.variables()}
    faults = [
        Fault(f"{option} {name!r} names no variable", hint=did_you_mean(name, known))
        for option, given in (("--feed", options.feeds), ("--shape", options.shapes))
        for name in given
        if name not in known
    ]
    if faults:
        raise RefusedError(faults)
